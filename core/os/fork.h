/* SPDX-License-Identifier: Apache-2.0 */
/* Detection of fork(), and handlers that run in the child.
 *
 * One idea: a count that only a child raises. Code that keeps the count from its opening
 * and later reads another one runs in a child, and must not touch what the child shares
 * with the parent. Invariant: the count differs between a process and every child forked
 * from it; the handlers run in the child before fork() returns there, each once per fork.
 * vfork, posix_spawn and raw clone run no handlers; they lead to exec, and the library's
 * descriptors are close-on-exec. */
#ifndef TRYST_CORE_OS_FORK_H
#define TRYST_CORE_OS_FORK_H

#include <stdatomic.h>
#include <stdint.h>

#include "core/memory/list.h"
#include "tryst/status.h"

/** Return the fork count: 0 in a process that was not forked since the first call of this
 *  file. Any thread. */
uint64_t fork_generation(void);

/** Return the fork count by one load, after an earlier call of fork_generation. */
static inline uint64_t fork_generation_now(void)
{
    extern _Atomic uint64_t fork_count;
    /* relaxed: see fork.c. */
    return atomic_load_explicit(&fork_count, memory_order_relaxed);
}

/** A function to run in a child. `child` runs while the forking thread is the only one,
 *  possibly in the middle of another thread's malloc: it may make async-signal-safe calls
 *  only (close is one), and must not call this file. The caller owns the record, and
 *  zeroes it first. */
struct fork_handler {
    struct list_node node;
    void (*child)(void *arg);
    void *arg;
};

/** Add or remove a handler. Any thread, but not from a handler. Removing a handler that
 *  is not added does nothing; after a fork the child may remove the handlers that it
 *  inherited. fork_handler_add returns TRYST_OK, or TRYST_E_NOMEM if pthread_atfork
 *  failed. */
tryst_status fork_handler_add(struct fork_handler *handler);
void fork_handler_remove(struct fork_handler *handler);

#endif
