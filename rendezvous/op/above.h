/* SPDX-License-Identifier: Apache-2.0 */
/** @file above.h
 *  What the engine of collectives, which is above rendezvous, does in a pass and for its operations (OP_COLL).
 */
#ifndef RENDEZVOUS_OP_ABOVE_H
#define RENDEZVOUS_OP_ABOVE_H

#include <stdbool.h>
#include <stdint.h>

#include "tryst/types.h"

/** Installed into rendezvous_params; all zero: there is none. All in the progress domain. */
struct above {
    void *arg;
    /** Do the work that hooks and submissions have marked, a bounded piece of it. Called in each pass,
     *  between the rails and the dispatch. What a submission outside of a pass has marked waits for the next
     *  pass, which rdv->stirred requests. Returns the number of runs that were worked on; not zero while work
     *  is left. */
    int (*run)(void *arg);
    /** False while `run` has nothing to do, so that passes skip the call. NULL: each pass calls. */
    const bool *is_due;
    /** True if work is left: the thread may not sleep. */
    bool (*busy)(void *arg);
    /** Fail an operation of kind OP_COLL: deadlines, aborts, closes, the user. Called inside walks of the
     *  step's operations, so it only marks; the operation ends in `run`. */
    void (*fail)(void *arg, tryst_op *op, tryst_status status, int32_t origin_rank,
                 const char *text);
    /** An operation of kind OP_COLL has become more urgent: `rank` of core/urgency.h. */
    void (*raise)(void *arg, tryst_op *op, uint64_t rank);
};

#endif
