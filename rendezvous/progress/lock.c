/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The progress lock (lock.h).
 *
 * Idea: a thread that finds the lock taken becomes a waiter with a condition variable of
 * its own, so the holder wakes exactly the threads that wait for finished operations, and
 * signals the first waiter when it leaves.
 *
 * Invariant: while the lock is free, every waiter has been signalled.
 *
 * Memory order. Two pairs of a store followed by a load on both sides (Dekker) keep
 * wake-ups from being lost:
 *   - The holder stores `held` = false, then loads `waiters_count`; a new waiter adds 1
 *     to `waiters_count`, then loads `held`. Either the holder reads the waiter's 1 and
 *     signals the waiter, or the waiter reads that the lock is free. All four are
 *     seq_cst.
 *   - The holder stores outcomes (op.c, release), then adds 0 to `waiters_count`; a new
 *     waiter adds 1 to `waiters_count`, then loads its outcome. Both additions are
 *     read-modify-writes of one word (the holder's acq_rel, the waiter's seq_cst), so one
 *     comes first: either the holder reads the waiter's 1, or the waiter reads the
 *     outcomes. One addition serves all operations that completed in a pass. A holder
 *     that releases the lock after the pass needs no addition: by the first pair it reads
 *     the waiter's 1 and signals the waiter, or the waiter reads that the lock is free
 *     and, by the acquire of that load, the outcomes.
 * Taking the lock is an acquire and releasing it a release, so all state of the progress
 * domain passes from one holder to the next.
 */
#include "lock.h"

#include <time.h>

#include "core/os/clock.h"
#include "core/thread/thread.h"

/* The longest sleep of a waiter without a signal. */
#define WAIT_MAX_NS (1 * NS_PER_S)

struct waiter {
    struct list_node node;
    pthread_cond_t wake;
    const struct wait *wait;
    bool signalled;
};

uint64_t wait_until_ns(struct wait *wait, uint64_t now_ns)
{
    if (!wait->until_ns)
        wait->until_ns = wait->timeout_ns > UINT64_MAX - now_ns
                             ? UINT64_MAX
                             : now_ns + wait->timeout_ns;
    return wait->until_ns;
}

bool wait_has_expired(struct wait *wait)
{
    uint64_t now_ns = clock_monotonic_ns();
    return now_ns >= wait_until_ns(wait, now_ns);
}

static bool waiter_is_done(const struct waiter *waiter)
{
    return waiter->wait->done && waiter->wait->done(waiter->wait->arg);
}

tryst_status progress_lock_open(struct progress_lock *lock)
{
    list_init(&lock->waiters);
    return pthread_mutex_init(&lock->waiters_mutex, NULL) == 0 ? TRYST_OK
                                                               : TRYST_E_SYSTEM;
}

void progress_lock_close(struct progress_lock *lock)
{
    pthread_mutex_destroy(&lock->waiters_mutex);
}

/* The progress lock that this thread took last and still holds. A callback runs under
 * the lock of one context and may take another context's, so the locks form a chain.
 * initial-exec: one load instead of a call. */
static _Thread_local struct progress_lock *lock_mine
    __attribute__((tls_model("initial-exec")));

bool progress_lock_try(struct progress_lock *lock)
{
    /* relaxed: a cheap test before the exchange. */
    if (atomic_load_explicit(&lock->held, memory_order_relaxed) ||
        atomic_exchange_explicit(&lock->held, true, memory_order_seq_cst))
        return false;
    lock->outer = lock_mine;
    lock_mine = lock;
    return true;
}

bool progress_lock_is_mine(const struct progress_lock *lock)
{
    const struct progress_lock *mine = lock_mine;
    while (mine && mine != lock)
        mine = mine->outer;
    return mine != NULL;
}

/* Signal one waiter that has not been signalled: the first that waits for the lock
 * itself, else the first that waits for an operation. */
static void waiters_wake_first(struct progress_lock *lock)
{
    struct waiter *first = NULL;
    list_for_each_safe (&lock->waiters, node, after) {
        struct waiter *waiter = container_of(node, struct waiter, node);
        if (waiter->signalled)
            continue;
        if (!first || (!waiter->wait->done && first->wait->done))
            first = waiter;
    }
    if (first) {
        first->signalled = true;
        pthread_cond_signal(&first->wake);
    }
}

/* Signal the waiters for operations that have completed. */
static void waiters_wake_done(struct progress_lock *lock)
{
    list_for_each_safe (&lock->waiters, node, after) {
        struct waiter *waiter = container_of(node, struct waiter, node);
        if (!waiter->signalled && waiter_is_done(waiter)) {
            waiter->signalled = true;
            pthread_cond_signal(&waiter->wake);
        }
    }
}

void progress_lock_give(struct progress_lock *lock)
{
    lock->wakeups_pending = false;
    lock_mine = lock->outer; /* a thread releases its locks in reverse order */
    atomic_store_explicit(&lock->held, false, memory_order_seq_cst);
    if (!atomic_load_explicit(&lock->waiters_count, memory_order_seq_cst))
        return;
    pthread_mutex_lock(&lock->waiters_mutex);
    waiters_wake_done(lock);
    waiters_wake_first(lock);
    pthread_mutex_unlock(&lock->waiters_mutex);
}

void progress_lock_wake(struct progress_lock *lock)
{
    lock->wakeups_pending = false;
    /* acq_rel: the second pair of the file's header. */
    if (!atomic_fetch_add_explicit(&lock->waiters_count, 0, memory_order_acq_rel))
        return;
    pthread_mutex_lock(&lock->waiters_mutex);
    waiters_wake_done(lock);
    pthread_mutex_unlock(&lock->waiters_mutex);
}

void progress_lock_wait(struct progress_lock *lock, struct wait *wait)
{
    struct waiter waiter = {.wait = wait};
    uint64_t now_ns = clock_monotonic_ns();
    uint64_t until_ns = wait_until_ns(wait, now_ns);
    uint64_t latest = now_ns + WAIT_MAX_NS;
    struct timespec at = timespec_of(until_ns < latest ? until_ns : latest);
    int rc = 0;
    thread_cond_open(&waiter.wake);
    pthread_mutex_lock(&lock->waiters_mutex);
    list_push_back(&lock->waiters, &waiter.node);
    atomic_fetch_add_explicit(&lock->waiters_count, 1, memory_order_seq_cst);
    while (!waiter.signalled && rc == 0 &&
           atomic_load_explicit(&lock->held, memory_order_seq_cst) &&
           !waiter_is_done(&waiter))
        rc = pthread_cond_timedwait(&waiter.wake, &lock->waiters_mutex, &at);
    atomic_fetch_sub_explicit(&lock->waiters_count, 1, memory_order_seq_cst);
    list_remove(&waiter.node);
    /* A signal that hands the lock on must not end with a thread that does not take
     * the lock. */
    bool takes = rc == 0 && !waiter_is_done(&waiter);
    bool pass_on = waiter.signalled && !takes &&
                   !atomic_load_explicit(&lock->held, memory_order_seq_cst);
    if (pass_on)
        waiters_wake_first(lock);
    pthread_mutex_unlock(&lock->waiters_mutex);
    pthread_cond_destroy(&waiter.wake);
}
