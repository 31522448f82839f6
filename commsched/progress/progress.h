/* SPDX-License-Identifier: Apache-2.0 */
/** @file progress.h
 *  Who drives the engine, and how the others wait; the idea is told in progress.c.
 */
#ifndef COMMSCHED_PROGRESS_PROGRESS_H
#define COMMSCHED_PROGRESS_PROGRESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/memory/list.h"
#include "tryst/tryst.h"

/** The progress lock, and who waits for it or for an operation.
 *
 *      free ─lock_try─▶ held ─lock_give─▶ free
 *
 *  A thread that does not get it waits with a condition of its own; the holder wakes those whose
 *  operation is done, and on leaving the first of the others. */
struct progress {
    _Atomic(bool) held;
    struct progress *outer; /**< held: the one that its holder took before, or NULL */
    _Atomic(uint32_t) waiters_count;
    _Atomic(uint32_t) urgent; /**< of those, how many want the lock itself, soon */
    pthread_mutex_t waiters_mutex;
    struct list waiters;
    bool wakeups_pending;  /**< waiters may not know yet what has completed */
    bool armed;            /**< tryst_arm was the last thing: run the poller first */
    bool loop_sleeps;      /**< tryst_arm said OK, and no tryst_progress came since */
    uint32_t passes;       /**< since the poller ran */
    uint32_t clock_stride; /**< passes of a wait between two looks at the clock */
    uint64_t poll_at_ns;   /**< tryst_progress runs it again from then on */
    pthread_t thread;
    bool thread_runs;
    pthread_mutex_t thread_mutex;
    _Atomic(bool) thread_stop;
    uint64_t spin_ns;
};

/** One call that waits: for what, and until when. The clock is read when the time-out may have passed for
 *  the first time, since most waits end before that; from then on `until_ns` is the end of the whole
 *  call, whichever thread drives. */
struct wait {
    /** Called by the waiting thread, and by the driver under `waiters_mutex` while that thread
     *  sleeps. NULL: the caller waits for the lock alone. */
    bool (*done)(void *arg);
    void *arg;
    tryst_op *op; /**< the operation that the live page shows; NULL: none in particular */
    uint64_t timeout_ns;
    uint64_t until_ns; /**< CLOCK_MONOTONIC; 0 until the clock has been read */
};

tryst_status progress_open(tryst_ctx *ctx);
void progress_close(tryst_ctx *ctx);
/** The lock for one submission: taken if it is free, and put without sending what is queued. */
bool progress_enter(void *ctx);
void progress_leave(void *ctx);
/** Take the lock, waiting at most `timeout_ns`; false: not to be had. */
bool progress_lock_take(tryst_ctx *ctx, uint64_t timeout_ns);
void progress_lock_put(tryst_ctx *ctx);
/** Has this thread the lock? */
bool progress_lock_is_mine(const tryst_ctx *ctx);
/** With the lock: one pass of everything. Returns the number of events. */
int progress_pass(tryst_ctx *ctx);
/** Put the lock, and let a thread that wants it have it before this one tries again. */
void progress_lock_pass(tryst_ctx *ctx);
/** With the lock: make progress until `done(arg)`, `timeout_ns` have passed, or another thread
 *  wants the lock itself. Returns done(arg). */
bool progress_until(tryst_ctx *ctx, bool (*done)(void *arg), void *arg,
                    uint64_t timeout_ns);
/** Without the lock: drive, or sleep while another thread drives, until `wait` is done or over. */
void progress_await(tryst_ctx *ctx, struct wait *wait);

#endif
