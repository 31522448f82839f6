/* SPDX-License-Identifier: Apache-2.0 */
/* The rings that trace.c (recording) and trace_json.c (writing) share. Private to core/.
 *
 * Invariant: a ring is written by the one thread named in it. The list of rings only
 * grows at its head until the trace closes, so it may be walked without the lock once the
 * head was read under the lock. */
#ifndef TRYST_CORE_LOG_TRACE_RING_H
#define TRYST_CORE_LOG_TRACE_RING_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "core/log/trace.h"
#include "core/memory/hash_table.h"

#define TRACE_WORDS      8
#define TRACE_NAME_BYTES 32

/** Limit of different kept texts: those of 64 stages with 512 micro-batches each, and as
 *  many keys. */
#define TRACE_TEXTS_MAX 65536

struct trace_ring {
    /** Next older ring; constant once this ring is in the list. */
    struct trace_ring *next;
    int row;           /**< tid in the timeline; constant */
    uint64_t capacity; /**< a power of two; constant */
    pid_t thread;      /**< the writer; guarded by the trace's lock */
    /** Name of the row, "": none given; guarded by the trace's lock. */
    char name[TRACE_NAME_BYTES];
    /** Numbers of events begun and ended; orders and partners: trace.c. */
    _Atomic uint64_t begun;
    _Atomic uint64_t ended;
    _Atomic uint64_t words[];
};

struct trace {
    pthread_mutex_t lock;
    struct trace_ring *rings; /**< newest first; guarded by lock */
    struct hash_table texts;  /**< trace_text.c's; guarded by lock */
    uint64_t capacity;
    uint64_t id;
    const struct clock *clock;
    _Atomic uint64_t dropped_count; /**< events without a ring; relaxed: only a count */
};

struct trace_ring *trace_rings(struct trace *trace);
void trace_ring_name(struct trace *trace, const struct trace_ring *ring,
                     char name_p[TRACE_NAME_BYTES]);

/** Return the number of events that the ring has recorded; those from (this - capacity)
 *  on may still be in the ring. */
uint64_t trace_ring_ended(struct trace_ring *ring);

/** Copy event `n`. False if the event was overwritten meanwhile. */
bool trace_ring_copy(struct trace_ring *ring, uint64_t n, struct trace_event *event_p);

#endif
