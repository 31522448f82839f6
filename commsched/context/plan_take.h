/* SPDX-License-Identifier: Apache-2.0 */
/** @file plan_take.h
 *  The plan of a group's collectives as one rank runs it, taken from the compiled plan of all ranks.
 */
#ifndef COMMSCHED_CONTEXT_PLAN_TAKE_H
#define COMMSCHED_CONTEXT_PLAN_TAKE_H

#include <stdint.h>

#include "commsched/coll/tree/plan.h"
#include "topology/sized/compiled.h"

struct group_plan {
    struct arrays arrays;       /**< all below */
    struct coll_plan coll;      /**< all-reduce, as this rank runs it */
    uint32_t flags;             /**< COMPILED_RATES_ASSUMED */
    uint64_t bound_bytes_per_s; /**< no all-reduce is faster */
    uint64_t
        out_bytes_per_s; /**< what the links out of this rank's machine carry; 0: not known */
    uint32_t pairs_count;
    const struct compiled_pair
        *pairs; /**< from this rank and to it: planned rates, latencies */
};

/** Take the part of `rank`. TRYST_E_NOMEM; TRYST_E_INVALID: the compiled plan has no all-reduce. */
tryst_status group_plan_take(const struct compiled_plan *compiled, uint32_t rank,
                             uint64_t digest, struct group_plan **plan_p);
/** Returns the largest rate of all classes from this rank to `rank`. */
uint64_t group_plan_pace(const struct group_plan *plan, uint32_t rank);
/** NULL is allowed. */
void group_plan_close(struct group_plan *plan);

#endif
