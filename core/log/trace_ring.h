/* SPDX-License-Identifier: Apache-2.0 */
/* What trace.c (recording) and trace_json.c (writing out) share. Private to core/.
 *
 * Invariant: a ring is written by the one thread named in it, and the list of rings only
 * grows at its head until the trace closes, so it may be walked without the lock once the
 * head was read under it. */
#ifndef TRYST_CORE_TRACE_RING_H
#define TRYST_CORE_TRACE_RING_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "core/log/trace.h"
#include "core/memory/hash_table.h"

#define TRACE_WORDS      8
#define TRACE_NAME_BYTES 32

/* Different texts that are kept: those of 64 stages with 512 micro-batches each, and of as many keys. */
#define TRACE_TEXTS_MAX 65536

struct trace_ring {
    struct trace_ring *next;     /* constant once the ring is in the list */
    int row;                     /* tid in the picture; constant */
    uint64_t capacity;           /* a power of two; constant */
    pid_t thread;                /* who writes; guarded by the trace's lock */
    char name[TRACE_NAME_BYTES]; /* guarded by the trace's lock; "": no name given */
    /* events that were begun and ended; orders and partners: trace.c */
    _Atomic uint64_t begun;
    _Atomic uint64_t ended;
    _Atomic uint64_t words[];
};

struct trace {
    pthread_mutex_t lock;
    struct trace_ring *rings; /* newest first; guarded by lock */
    struct hash_table texts;  /* trace_text.c's; guarded by lock */
    uint64_t capacity;
    uint64_t id;
    const struct clock *clock;
    _Atomic uint64_t dropped_count; /* relaxed: only counts */
};

struct trace_ring *trace_rings(struct trace *trace);
void trace_ring_name(struct trace *trace, const struct trace_ring *ring,
                     char name_p[TRACE_NAME_BYTES]);

/* How many events the ring has seen; those from (this - capacity) on may be there. */
uint64_t trace_ring_ended(struct trace_ring *ring);

/* Copies event `n`; false when it was overwritten meanwhile. */
bool trace_ring_copy(struct trace_ring *ring, uint64_t n, struct trace_event *event_p);

#endif
