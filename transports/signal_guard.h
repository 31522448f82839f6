/* SPDX-License-Identifier: Apache-2.0 */
/** @file signal_guard.h
 *  Keep a foreign library's hands off the process's signals.
 *
 *  Idea: dispositions are noted before foreign code runs and put back after it where they
 *  changed; meanwhile all signals are blocked in this thread, so threads that the foreign
 * code starts never run the host's handlers. Invariant: after signal_guard_end,
 * dispositions, this thread's mask and its alternate stack are as they were. Callers: the
 * module loader around dlopen; modules around calls that may start threads. Inline,
 *  because modules link nothing of ours.
 */
#ifndef TRANSPORTS_SIGNAL_GUARD_H
#define TRANSPORTS_SIGNAL_GUARD_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

enum { SIGNAL_GUARD_COUNT = 65 }; /* Linux: signals 1..64 */

struct signal_guard {
    struct sigaction actions[SIGNAL_GUARD_COUNT];
    bool known[SIGNAL_GUARD_COUNT];
    stack_t stack;
    sigset_t mask;
};

/** The mask alone, for calls that start threads but touch no disposition: two system
 * calls. */
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
    for (int signum = 1; signum < SIGNAL_GUARD_COUNT; signum++)
        guard->known[signum] = sigaction(signum, NULL, &guard->actions[signum]) == 0;
}

static inline bool signal_action_equal(const struct sigaction *a,
                                       const struct sigaction *b)
{
    /* The handlers share a union: comparing one compares both. */
    return a->sa_handler == b->sa_handler && a->sa_flags == b->sa_flags;
}

/** Returns how many dispositions had been changed. */
static inline int signal_guard_end(const struct signal_guard *guard)
{
    int changed = 0;
    for (int signum = 1; signum < SIGNAL_GUARD_COUNT; signum++) {
        struct sigaction now;
        if (!guard->known[signum] || sigaction(signum, NULL, &now) != 0 ||
            signal_action_equal(&now, &guard->actions[signum]))
            continue;
        (void)sigaction(signum, &guard->actions[signum], NULL);
        changed++;
    }
    (void)sigaltstack(&guard->stack, NULL);
    signal_mask_end(&guard->mask);
    return changed;
}

#endif
