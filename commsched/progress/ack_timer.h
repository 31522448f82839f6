/* SPDX-License-Identifier: Apache-2.0 */
/** @file ack_timer.h
 *  The thread that sends acknowledgements that stayed behind; the idea is told in ack_timer.c.
 */
#ifndef COMMSCHED_PROGRESS_ACK_TIMER_H
#define COMMSCHED_PROGRESS_ACK_TIMER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "tryst/tryst.h"

/** It runs from the first call on, and rests between calls. */
struct ack_timer {
    pthread_mutex_t mutex; /**< guards the rest */
    pthread_cond_t wake;
    pthread_t thread;
    uint64_t delay_ns; /**< 0: there is none; constant */
    bool runs;
    bool called;
    bool stop;
};

tryst_status ack_timer_open(tryst_ctx *ctx);
void ack_timer_close(tryst_ctx *ctx);
/** With the lock: begin to run. False: there is none, or no thread could be made. */
bool ack_timer_call(void *ctx);

#endif
