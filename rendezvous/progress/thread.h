/* SPDX-License-Identifier: Apache-2.0 */
/** @file thread.h
 *  The background thread.
 */
#ifndef TRYST_RENDEZVOUS_PROGRESS_THREAD_H
#define TRYST_RENDEZVOUS_PROGRESS_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/thread/thread.h"
#include "tryst/status.h"

struct rendezvous;

struct progress_thread {
    struct thread thread;
    _Atomic(bool) runs;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    _Atomic(bool) stop;
    _Atomic(bool) drives; /**< it holds the progress lock */
    _Atomic(bool) sleeps; /**< the last wait that ends signals `wake` */
    /** Threads of the program that wait, and all waits so far, both while the background
     *  thread runs. */
    _Atomic(uint32_t) waits_open;
    _Atomic(uint32_t) waits_count;
};

/** Initialize it; no thread runs yet. TRYST_OK or TRYST_E_SYSTEM. */
tryst_status progress_thread_open(struct progress_thread *thread);
/** Free what progress_thread_open made; the thread does not run. */
void progress_thread_close(struct progress_thread *thread);

/** Start the background thread unless it runs. TRYST_E_SYSTEM, with errno, if it
 *  cannot be created. */
tryst_status progress_thread_start(struct rendezvous *rdv);
void progress_thread_stop(struct rendezvous *rdv);
/** Take the engine from the background thread for a wait: the thread that waits drives
 *  it, so an event wakes this thread and no other one before. */
void progress_thread_displace(struct rendezvous *rdv);
/** The wait is over. The background thread drives again once no wait follows. */
void progress_thread_resume(struct rendezvous *rdv);

#endif
