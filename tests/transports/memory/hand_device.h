/* SPDX-License-Identifier: Apache-2.0 */
/* A kind of memory whose device makes no progress until a test advances it.
 *
 * One idea: a stream is a list of queued operations, and hand_run executes the next; so a
 * test decides which copy ends when, and which call fails. The memory is host memory of
 * the process and belongs to device 0.
 * Invariant: operations of a stream run only in hand_run. One thread. */
#ifndef TRYST_TESTS_TRANSPORTS_MEMORY_HAND_DEVICE_H
#define TRYST_TESTS_TRANSPORTS_MEMORY_HAND_DEVICE_H

#include <stdbool.h>

#include "transports/memory/memory.h"

extern const struct memory_ops hand_row;

/** The value of a fail_ counter for "every call". A failing call returns TRYST_E_SYSTEM
 *  (pinned_alloc, pin: TRYST_E_NOMEM). */
enum { HAND_ALWAYS = 1 << 30 };

struct hand {
    /** Objects that exist now. */
    int pinned, streams, events;
    uint64_t pinned_bytes;
    /** Calls so far. */
    unsigned pinned_calls, copy_calls, query_calls;
    /** Number of the next calls that fail. */
    unsigned fail_pinned, fail_stream, fail_event, fail_copy, fail_record, fail_query;
};

extern struct hand hand;

/** Execute the next `count` operations of stream `index` (in the order of opening, over
 *  all devices); return how many there were. An event behind a copy counts as one more
 *  operation. */
int hand_run(int index, int count);
/** Execute all queued operations of all streams. */
void hand_run_all(void);
/** Make a caller's event; it has passed once hand_event_pass was called. */
struct hand_event *hand_event_make(void);
void hand_event_pass(struct hand_event *event);
void hand_event_free(struct hand_event *event);
/** Check that no object is left, and reset. */
void hand_check(void);

#endif
