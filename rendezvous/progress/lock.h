/* SPDX-License-Identifier: Apache-2.0 */
/** @file lock.h
 *  The progress lock, and the threads that wait for the lock or for an operation
 *  (lock.c).
 *
 *      free ─try─▶ held ─give─▶ free
 *
 *  The holder drives the engine. Each waiting thread has its own condition variable: when
 *  an operation has finished, the holder signals its waiters, and at release the first
 *  waiter of all others.
 */
#ifndef TRYST_RENDEZVOUS_PROGRESS_LOCK_H
#define TRYST_RENDEZVOUS_PROGRESS_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/memory/list.h"
#include "tryst/status.h"
#include "tryst/types.h"

struct progress_lock {
    _Atomic(bool) held;
    /** The progress lock of another context that the holder took before this one, or
     *  NULL. */
    struct progress_lock *outer;
    _Atomic(uint32_t) waiters_count;
    pthread_mutex_t waiters_mutex;
    struct list waiters;
    bool wakeups_pending; /**< operations completed since the waiters were signalled */
};

/** One call that waits. The clock is first read when the time-out may have passed,
 *  since most waits end before that. From then on `until_ns` is the end of the whole
 *  call, whichever thread drives. */
struct wait {
    /** True if the wait is over. Called by the waiting thread, and by the driver under
     *  `waiters_mutex` while that thread sleeps. NULL: the thread waits for the lock
     *  alone. */
    bool (*done)(void *arg);
    void *arg;
    tryst_op *op; /**< the operation that the live page shows; NULL: none */
    uint64_t timeout_ns;
    uint64_t until_ns; /**< CLOCK_MONOTONIC; 0 until the clock has been read */
};

/** Return the end of the wait; the first call computes it from `now_ns`. */
uint64_t wait_until_ns(struct wait *wait, uint64_t now_ns);
/** True if the time-out has passed. */
bool wait_has_expired(struct wait *wait);

/** Initialize the lock, which is free. TRYST_OK or TRYST_E_SYSTEM. */
tryst_status progress_lock_open(struct progress_lock *lock);
void progress_lock_close(struct progress_lock *lock);
/** Take the lock if it is free. */
bool progress_lock_try(struct progress_lock *lock);
/** True if this thread holds the lock. */
bool progress_lock_is_mine(const struct progress_lock *lock);
/** Release the lock and signal waiters. */
void progress_lock_give(struct progress_lock *lock);
/** Signal the waiters for operations that have completed. The caller holds the lock. */
void progress_lock_wake(struct progress_lock *lock);
/** Sleep among the waiters until `wait` is done or over, or the lock is free. */
void progress_lock_wait(struct progress_lock *lock, struct wait *wait);

#endif
