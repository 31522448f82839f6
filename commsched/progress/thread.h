/* SPDX-License-Identifier: Apache-2.0 */
/** @file thread.h
 *  The background thread, and how the library creates threads.
 */
#ifndef TRYST_COMMSCHED_PROGRESS_THREAD_H
#define TRYST_COMMSCHED_PROGRESS_THREAD_H

#include <pthread.h>
#include <time.h>

#include "core/os/clock.h"
#include "tryst/tryst.h"

/** Start the background thread unless it runs. TRYST_E_SYSTEM, with errno, if it
 *  cannot be created. */
tryst_status progress_thread_start(tryst_ctx *ctx);
void progress_thread_stop(tryst_ctx *ctx);

/** Create a thread in which every signal is blocked. Returns an errno. */
int thread_create_blocked(pthread_t *thread, void *(*fn)(void *arg), void *arg);
/** Create a condition that counts time by clock_monotonic_ns. Returns an errno. */
int thread_cond_open(pthread_cond_t *cond);

/** Convert a time of clock_monotonic_ns. */
static inline struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S),
                             .tv_nsec = (long)(ns % NS_PER_S)};
}

#endif
