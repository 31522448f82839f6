/* SPDX-License-Identifier: Apache-2.0 */
/** @file above.h
 *  What the engine of collectives, which is above rendezvous, does in a pass and for its operations (OP_COLL).
 */
#ifndef RENDEZVOUS_OP_ABOVE_H
#define RENDEZVOUS_OP_ABOVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "op.h"

struct flow_shape;

/** Installed into rendezvous_params; all zero: there is none. All in the progress domain. */
struct above {
    void *arg;
    /** Do the work that hooks and submissions have marked, a bounded piece of it. Called in each pass,
     *  between the rails and the dispatch. What a submission outside of a pass has marked waits for the next
     *  pass, requested by rdv->stirred. Returns the number of runs that it has advanced; above zero while work
     *  is left. */
    int (*run)(void *arg);
    /** False while `run` has nothing to do, so that passes skip the call. NULL: each pass calls. */
    const bool *is_due;
    /** True if work is left: the thread may not sleep. */
    bool (*busy)(void *arg);
    /** Fail an operation of kind OP_COLL: deadlines, aborts, closes, the user. Called inside walks of the
     *  step's operations, so it only marks; the operation ends in `run`. */
    void (*fail)(void *arg, tryst_op *op, struct cause cause, const char *text);
    /** An operation of kind OP_COLL has become more urgent: `rank` of core/memory/urgency.h. */
    void (*raise)(void *arg, tryst_op *op, uint64_t rank);
    /** Describe a collective, for the text of a mismatch. The shape may come from a peer:
     *  any values. */
    void (*shape_text)(const struct flow_shape *shape, char *text, size_t capacity);
    /** The rank that an operation of kind OP_COLL waits for: a neighbour that has not joined, or else one that has
     *  and waits itself; -1: none is known. For the live page. */
    int32_t (*waits_for)(void *arg, const tryst_op *op);
};

#endif
