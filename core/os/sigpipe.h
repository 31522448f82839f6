/* SPDX-License-Identifier: Apache-2.0 */
/* Writes to a pipe or socket that may be closed at the other end, without SIGPIPE.
 *
 * One idea: the signal is blocked in this thread during the write, and removed from the
 * queue if the write raised it. Invariant: mask and pending signals of the thread are as
 * before. send has MSG_NOSIGNAL and needs no guard. */
#ifndef TRYST_CORE_OS_SIGPIPE_H
#define TRYST_CORE_OS_SIGPIPE_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>

struct sigpipe_guard {
    sigset_t mask;
    bool pending; /**< SIGPIPE was pending before the write: the program's own signal */
};

static inline sigset_t sigpipe_set(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    return set;
}

static inline void sigpipe_guard_begin(struct sigpipe_guard *guard)
{
    sigset_t set = sigpipe_set(), pending;
    sigemptyset(&pending);
    (void)sigpending(&pending);
    guard->pending = sigismember(&pending, SIGPIPE) == 1;
    (void)pthread_sigmask(SIG_BLOCK, &set, &guard->mask);
}

/** Restore the mask, and remove a SIGPIPE that the write raised. Keeps errno. */
static inline void sigpipe_guard_end(const struct sigpipe_guard *guard)
{
    const struct timespec now = {0};
    const sigset_t set = sigpipe_set();
    int kept_errno = errno;
    while (!guard->pending && sigtimedwait(&set, NULL, &now) < 0 && errno == EINTR)
        ;
    (void)pthread_sigmask(SIG_SETMASK, &guard->mask, NULL);
    errno = kept_errno;
}

#endif
