/* SPDX-License-Identifier: Apache-2.0 */
/* A kind of memory whose device does nothing until a test says so.
 *
 * One idea: a stream is a list of what was queued, and hand_run does the next of it; so a test decides
 * which copy ends when, and which call fails. The memory is the host's, of the process, and device 0's.
 * Invariant: nothing happens on a stream but in hand_run. Callers: the tests of copies, slots and the
 * stage, one thread. */
#ifndef TESTS_TRANSPORTS_HAND_DEVICE_H
#define TESTS_TRANSPORTS_HAND_DEVICE_H

#include <stdbool.h>

#include "transports/memory/memory.h"

extern const struct memory_ops hand_row;

/* How many of the next calls fail, with TRYST_E_SYSTEM (pinned_alloc: TRYST_E_NOMEM). */
enum { HAND_ALWAYS = 1 << 30 };

struct hand {
    /* What there is just now. */
    int pinned, streams, events;
    uint64_t pinned_bytes;
    /* What was called so far. */
    unsigned pinned_calls, copy_calls, query_calls;
    /* How many of the next calls fail. */
    unsigned fail_pinned, fail_stream, fail_event, fail_copy, fail_record, fail_query;
};

extern struct hand hand;

/* Do the next `count` things that are queued on stream `index` (in the order of opening, all devices);
 * returns how many there were. An event behind a copy is one thing more. */
int hand_run(int index, int count);
/* All that is queued, on all streams. */
void hand_run_all(void);
/* A caller's event: `passed` says so from now on. */
struct hand_event *hand_event_make(void);
void hand_event_pass(struct hand_event *event);
void hand_event_free(struct hand_event *event);
/* Nothing is left; begin anew. */
void hand_check(void);

#endif
