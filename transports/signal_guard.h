/* SPDX-License-Identifier: Apache-2.0 */
/** @file signal_guard.h
 *  Keep a foreign library from changing the process's signal handling.
 *
 *  Idea: dispositions are saved before foreign code runs, and those that foreign code has
 *  changed are restored after it. Meanwhile all signals are blocked in this thread, so
 *  threads that foreign code starts never run the host's handlers. A fabric may start for
 *  seconds beside the host program, which may install handlers in that time: the guard
 *  keeps those. A handler is foreign if its code lies in an object that was loaded after
 *  signal_guard_begin, or in a fabric's library.
 *  Invariant: after signal_guard_end a disposition is a fabric's only if it was a
 *  fabric's before; this thread's mask and its alternate stack are as before. Used around
 *  dlopen and around calls that may start threads. Inline, because modules link no
 *  library of Tryst.
 */
#ifndef TRYST_TRANSPORTS_SIGNAL_GUARD_H
#define TRYST_TRANSPORTS_SIGNAL_GUARD_H

#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { SIGNAL_GUARD_COUNT = 65 }; /**< Linux has signals 1..64 */

struct signal_guard {
    struct sigaction actions[SIGNAL_GUARD_COUNT];
    bool known[SIGNAL_GUARD_COUNT];
    /** Number of objects that were loaded when the guard began; objects that are loaded
     *  later follow them in the loader's list. */
    size_t objects;
    stack_t stack;
    sigset_t mask;
};

/** The loaded object that holds an address. */
struct signal_object {
    uintptr_t address;
    size_t count; /**< objects visited */
    size_t at; /**< index in the loader's list; SIZE_MAX: no object holds the address */
    const char *name;
};

static inline int signal_object_visit(struct dl_phdr_info *info, size_t bytes, void *arg)
{
    struct signal_object *object = (struct signal_object *)arg;
    (void)bytes;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD &&
            object->address - (info->dlpi_addr + info->dlpi_phdr[i].p_vaddr) <
                info->dlpi_phdr[i].p_memsz) {
            object->at = object->count;
            object->name = info->dlpi_name;
        }
    object->count++;
    return 0;
}

static inline struct signal_object signal_object_find(uintptr_t address)
{
    struct signal_object object = {address, 0, SIZE_MAX, ""};
    (void)dl_iterate_phdr(signal_object_visit, &object);
    return object;
}

/** True if a library that this guard covers has installed `action`, not the host
 *  program. */
static inline bool signal_action_is_foreign(const struct signal_guard *guard,
                                            const struct sigaction *action)
{
    static const char *const fabrics[] = {"/libuc", "/libfabric", "-fi.so", "/libcuda",
                                          "/libpmix"};
    if (action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN)
        return false;
    struct signal_object object = signal_object_find((uintptr_t)action->sa_handler);
    if (object.at == SIZE_MAX)
        return false;
    for (size_t i = 0; i < sizeof fabrics / sizeof *fabrics; i++)
        if (strstr(object.name, fabrics[i]))
            return true;
    return object.at >= guard->objects;
}

/** Block all signals of this thread, around calls that start threads but change no
 *  disposition. Cheaper than a guard: one system call here, one at the end. */
static inline void signal_mask_begin(sigset_t *mask_p)
{
    sigset_t all;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, mask_p);
}

static inline void signal_mask_end(const sigset_t *mask)
{
    (void)pthread_sigmask(SIG_SETMASK, mask, NULL);
}

static inline void signal_guard_begin(struct signal_guard *guard)
{
    signal_mask_begin(&guard->mask);
    (void)sigaltstack(NULL, &guard->stack);
    guard->objects = signal_object_find(0).count;
    for (int signum = 1; signum < SIGNAL_GUARD_COUNT; signum++)
        guard->known[signum] = sigaction(signum, NULL, &guard->actions[signum]) == 0;
}

static inline bool signal_action_equal(const struct sigaction *a,
                                       const struct sigaction *b)
{
    /* The handlers share a union: comparing one compares both. */
    return a->sa_handler == b->sa_handler && a->sa_flags == b->sa_flags;
}

/** Restore the dispositions that foreign code has changed; returns their number. */
static inline int signal_guard_end(const struct signal_guard *guard)
{
    int changed = 0;
    for (int signum = 1; signum < SIGNAL_GUARD_COUNT; signum++) {
        struct sigaction now;
        if (!guard->known[signum] || sigaction(signum, NULL, &now) != 0 ||
            signal_action_equal(&now, &guard->actions[signum]) ||
            !signal_action_is_foreign(guard, &now))
            continue;
        (void)sigaction(signum, &guard->actions[signum], NULL);
        changed++;
    }
    (void)sigaltstack(&guard->stack, NULL);
    signal_mask_end(&guard->mask);
    return changed;
}

#endif
