/* SPDX-License-Identifier: Apache-2.0 */
/** @file progress.h
 *  Which thread drives the engine, and how the other threads wait (progress.c).
 */
#ifndef TRYST_RENDEZVOUS_PROGRESS_PROGRESS_H
#define TRYST_RENDEZVOUS_PROGRESS_PROGRESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/memory/list.h"
#include "core/thread/thread.h"
#include "tryst/tryst.h"

/** The progress lock, and the threads that wait for the lock or for an operation.
 *
 *      free ─lock_try─▶ held ─lock_give─▶ free
 *
 *  If the lock is taken, a thread waits on its own condition variable. The holder signals
 *  the waiters for finished operations and, when the holder leaves, the first of the
 *  other waiters. */
struct progress {
    _Atomic(bool) held;
    /** The progress lock of another context that the holder took before this one, or
     *  NULL. */
    struct progress *outer;
    _Atomic(uint32_t) waiters_count;
    /** Threads that wait for the lock itself, not for an operation. */
    _Atomic(uint32_t) urgent;
    pthread_mutex_t waiters_mutex;
    struct list waiters;
    bool wakeups_pending;  /**< operations completed since the waiters were signalled */
    bool armed;            /**< tryst_arm was the last call: run the poller first */
    bool loop_sleeps;      /**< tryst_arm returned TRYST_OK; no tryst_progress since */
    uint32_t passes;       /**< passes since the poller ran */
    uint32_t clock_stride; /**< passes of a wait between two readings of the clock */
    uint64_t poll_at_ns;   /**< when tryst_progress runs the poller again */
    struct thread thread;
    _Atomic(bool) thread_runs;
    pthread_mutex_t thread_mutex;
    pthread_cond_t thread_wake;
    _Atomic(bool) thread_stop;
    _Atomic(bool) thread_drives; /**< the background thread holds the lock */
    _Atomic(bool) thread_sleeps; /**< the last wait that ends signals `thread_wake` */
    /** Threads of the program that wait, and all waits so far, both while the background
     *  thread runs. */
    _Atomic(uint32_t) waits_open;
    _Atomic(uint32_t) waits_count;
    uint64_t spin_ns;
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

tryst_status progress_open(tryst_ctx *ctx);
void progress_close(tryst_ctx *ctx);
/** Take the lock for one submission if it is free. False: it is taken. */
bool progress_enter(void *ctx);
/** Release the lock of progress_enter, without sending queued records. */
void progress_leave(void *ctx);
/** Take the lock, waiting `timeout_ns` at most. False: the time-out has passed. */
bool progress_lock_take(tryst_ctx *ctx, uint64_t timeout_ns);
/** Release the lock after sending queued records (rendezvous_settle). */
void progress_lock_put(tryst_ctx *ctx);
/** True if this thread holds the lock. */
bool progress_lock_is_mine(const tryst_ctx *ctx);
/** Make one pass of poller and engine. Returns the number of events. The caller holds
 *  the lock. */
int progress_pass(tryst_ctx *ctx);
/** Release the lock, and yield until a thread that waits for the lock itself has taken
 *  it, if there is one. */
void progress_lock_pass(tryst_ctx *ctx);
/** Make passes until `done(arg)`, `timeout_ns` have passed, or another thread waits
 *  for the lock itself. Returns done(arg). The caller holds the lock. */
bool progress_until(tryst_ctx *ctx, bool (*done)(void *arg), void *arg,
                    uint64_t timeout_ns);
/** Drive, or sleep while another thread drives, until `wait` is done or over. The
 *  caller does not hold the lock. */
void progress_await(tryst_ctx *ctx, struct wait *wait);

#endif
