/* SPDX-License-Identifier: Apache-2.0 */
/** @file progress.h
 *  Which thread drives the engine, and how the other threads wait (progress.c).
 */
#ifndef TRYST_RENDEZVOUS_PROGRESS_PROGRESS_H
#define TRYST_RENDEZVOUS_PROGRESS_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ack_timer.h"
#include "lock.h"
#include "thread.h"
#include "tryst/types.h"

struct rendezvous;

struct progress {
    struct progress_lock lock;
    /** Threads that wait for the lock itself, not for an operation. */
    _Atomic(uint32_t) urgent;
    bool armed;            /**< progress_arm was the last call: run the poller first */
    bool loop_sleeps;      /**< progress_arm returned TRYST_OK; no turn since */
    uint32_t passes;       /**< passes since the poller ran */
    uint32_t clock_stride; /**< passes of a wait between two readings of the clock */
    uint64_t poll_at_ns;   /**< when a turn runs the poller again */
    struct progress_thread thread;
    uint64_t spin_ns;
    struct ack_timer ack_timer;
};

/** Open rdv->progress, which progress_close frees. Without it, submissions wait for a
 *  pass that the caller makes. TRYST_OK; TRYST_E_NOMEM; TRYST_E_SYSTEM: a mutex or a
 *  condition cannot be created. */
tryst_status progress_open(struct rendezvous *rdv);
/** Free it: the background thread has ended, and no other thread calls. */
void progress_close(struct rendezvous *rdv);
/** Take the lock, waiting `timeout_ns` at most. False: the time-out has passed. */
bool progress_lock_take(struct rendezvous *rdv, uint64_t timeout_ns);
/** Release the lock after sending queued records (pass_flush). */
void progress_lock_put(struct rendezvous *rdv);
/** True if this thread holds the lock. */
bool progress_is_mine(const struct rendezvous *rdv);
/** Make one pass of poller and engine. Returns the number of events. The caller holds
 *  the lock. */
int progress_pass(struct rendezvous *rdv);
/** Release the lock, and yield until a thread that waits for the lock itself has taken
 *  it, if there is one. */
void progress_lock_pass(struct rendezvous *rdv);
/** Make passes until `done(arg)`, `timeout_ns` have passed, or another thread waits
 *  for the lock itself. Returns done(arg). The caller holds the lock. */
bool progress_until(struct rendezvous *rdv, bool (*done)(void *arg), void *arg,
                    uint64_t timeout_ns);
/** Drive, or sleep while another thread drives, until `wait` is done or over. The
 *  caller does not hold the lock. */
void progress_await(struct rendezvous *rdv, struct wait *wait);
/** tryst_progress: make one pass if the lock is free; return the number of events. */
int progress_turn(struct rendezvous *rdv);
/** tryst_arm: prepare the caller's sleep on the poller. TRYST_OK: sleep; TRYST_AGAIN:
 *  another thread drives, or a turn comes first. */
tryst_status progress_arm(struct rendezvous *rdv);

#endif
