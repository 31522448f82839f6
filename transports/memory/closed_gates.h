/* SPDX-License-Identifier: Apache-2.0 */
/** @file closed_gates.h
 *  Streams that wait for a word of this library, counted.
 *
 *  Idea: a driver may answer a call that pins, and all other calls, only when all streams
 *  are idle. So nothing is pinned while a stream waits for what such calls do. A wait is
 *  counted before it is queued, under a lock that a thread holds while it pins: what is
 *  pinned now was begun before the wait, and does not wait for it.
 */
#ifndef TRYST_TRANSPORTS_MEMORY_CLOSED_GATES_H
#define TRYST_TRANSPORTS_MEMORY_CLOSED_GATES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct closed_gates {
    /** Held while the progress domain pins. */
    pthread_mutex_t pinning;
    /** Gates of collectives, those of take-overs (takeover.h) too: the copier makes no
     *  call meanwhile that may wait for idle streams. */
    _Atomic(uint32_t) colls;
    _Atomic(uint32_t) others; /**< gates of other operations */
};

static inline void closed_gates_open(struct closed_gates *gates)
{
    pthread_mutex_init(&gates->pinning, NULL);
    atomic_init(&gates->colls, 0);
    atomic_init(&gates->others, 0);
}

static inline void closed_gates_close(struct closed_gates *gates)
{
    pthread_mutex_destroy(&gates->pinning);
}

/** Count a gate, before its wait is queued. Any thread but in pinning_begin. */
static inline void closed_gates_add(struct closed_gates *gates, bool is_coll)
{
    pthread_mutex_lock(&gates->pinning);
    /* relaxed: the lock orders it for pinning_begin. The copier may see a gate of
     * stream_wait.c late; a take-over closes its gate under copier_hold. */
    atomic_fetch_add_explicit(is_coll ? &gates->colls : &gates->others, 1,
                              memory_order_relaxed);
    pthread_mutex_unlock(&gates->pinning);
}

/** The gate is open. Any thread. */
static inline void closed_gates_remove(struct closed_gates *gates, bool is_coll)
{
    /* relaxed: a late view of it only delays a call that pins. */
    atomic_fetch_sub_explicit(is_coll ? &gates->colls : &gates->others, 1,
                              memory_order_relaxed);
}

/** Begin to pin. False: a gate is closed, so nothing may be pinned now, and pinning_end
 *  must not follow. `gates` NULL: there are none. */
static inline bool pinning_begin(struct closed_gates *gates)
{
    if (!gates)
        return true;
    pthread_mutex_lock(&gates->pinning);
    bool may = !atomic_load_explicit(&gates->colls, memory_order_relaxed) &&
               !atomic_load_explicit(&gates->others, memory_order_relaxed);
    if (!may)
        pthread_mutex_unlock(&gates->pinning);
    return may;
}

static inline void pinning_end(struct closed_gates *gates)
{
    if (gates)
        pthread_mutex_unlock(&gates->pinning);
}

#endif
