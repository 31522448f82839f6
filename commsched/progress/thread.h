/* SPDX-License-Identifier: Apache-2.0 */
/** @file thread.h
 *  The background thread, and how threads of ours are made.
 */
#ifndef COMMSCHED_PROGRESS_THREAD_H
#define COMMSCHED_PROGRESS_THREAD_H

#include <pthread.h>
#include <time.h>

#include "core/os/clock.h"
#include "tryst/tryst.h"

/** Start the background thread if there is none. */
tryst_status progress_thread_start(tryst_ctx *ctx);
void progress_thread_stop(tryst_ctx *ctx);

/** pthread_create with every signal blocked in the new thread. Returns an errno. */
int thread_create_blocked(pthread_t *thread, void *(*fn)(void *arg), void *arg);
/** A condition that waits by clock_monotonic_ns; times for it. Returns an errno. */
int thread_cond_open(pthread_cond_t *cond);

static inline struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S),
                             .tv_nsec = (long)(ns % NS_PER_S)};
}

#endif
