/* SPDX-License-Identifier: Apache-2.0 */
/** @file ack_timer.h
 *  The thread that sends delayed acknowledgements (ack_timer.c).
 */
#ifndef TRYST_RENDEZVOUS_PROGRESS_ACK_TIMER_H
#define TRYST_RENDEZVOUS_PROGRESS_ACK_TIMER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/thread/thread.h"
#include "tryst/status.h"

struct rendezvous;

/** The thread exists from the first ack_timer_call of a group until the group's close,
 *  and sleeps between calls. */
struct ack_timer {
    pthread_mutex_t mutex; /**< guards all other members but delay_ns */
    pthread_cond_t wake;
    struct thread thread;
    uint64_t delay_ns; /**< TRYST_ACK_DELAY, constant; 0: no timer */
    bool runs;         /**< the thread exists */
    bool called;       /**< the thread ticks; false: it sleeps until the next call */
    bool stop;         /**< the thread ends, or has ended because the process exits */
};

tryst_status ack_timer_open(struct ack_timer *timer, uint64_t delay_ns);
/** End the thread. The caller holds the progress lock, or no other thread calls; the
 *  engine's own state is reset when a group opens. */
void ack_timer_stop(struct rendezvous *rdv);
/** Free what ack_timer_open made; the thread has ended. */
void ack_timer_close(struct ack_timer *timer);
/** Start the ticks, and the thread unless it exists. False: TRYST_ACK_DELAY is 0, or
 *  the thread cannot be created. The caller holds the progress lock. */
bool ack_timer_call(struct rendezvous *rdv);

#endif
