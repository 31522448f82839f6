/* SPDX-License-Identifier: Apache-2.0 */
/* What a fork() of the process means for us.
 *
 * One idea: a count that only a child raises. Whoever remembers the count from its
 * opening and finds another one lives in a child, and must not touch what it shares with
 * the parent. Invariant: the count differs between a process and every child forked from
 * it; the child handlers run in the child before fork() returns there, each once per
 * fork. Callers: the context (TRYST_E_FORKED, closing descriptors in the child). vfork,
 * posix_spawn and raw clone run no handlers; they lead to exec, and our descriptors are
 * close-on-exec. */
#ifndef TRYST_CORE_FORK_H
#define TRYST_CORE_FORK_H

#include <stdatomic.h>
#include <stdint.h>

#include "core/memory/list.h"
#include "tryst/status.h"

/* 0 in a process that was not forked since the library first looked. Any thread. */
uint64_t fork_generation(void);

/* The same for whoever has called fork_generation before: one load. */
static inline uint64_t fork_generation_now(void)
{
    extern _Atomic uint64_t fork_count;
    /* relaxed: see fork.c. */
    return atomic_load_explicit(&fork_count, memory_order_relaxed);
}

/* Something to do in a child. `child` runs with only the forking thread alive and
 * possibly in the middle of anybody's malloc: async-signal-safe calls only (close is
 * one), and none to this file. The record is the caller's; zero it first. */
struct fork_handler {
    struct list_node node;
    void (*child)(void *arg);
    void *arg;
};

/* Any thread. Removing one that is not added does nothing. Neither may be called from a
 * handler; after a fork the child may remove the handlers that it inherited. Adding
 * answers TRYST_OK, or TRYST_E_NOMEM when the C library could not watch for forks. */
tryst_status fork_handler_add(struct fork_handler *handler);
void fork_handler_remove(struct fork_handler *handler);

#endif
