/* SPDX-License-Identifier: Apache-2.0 */
/** @file plan_take.h
 *  One rank's part of the plan of a group's collectives, copied from the compiled plan of
 *  all ranks.
 */
#ifndef TRYST_CONTEXT_PLAN_TAKE_H
#define TRYST_CONTEXT_PLAN_TAKE_H

#include <stdint.h>

#include "collectives/plan/compiled.h"
#include "collectives/tree/coll_plan.h"

struct group_plan {
    struct arrays arrays;       /**< memory of the other members' arrays */
    struct coll_plan coll;      /**< the all-reduce at this rank */
    uint32_t flags;             /**< COMPILED_RATES_ASSUMED */
    uint64_t bound_bytes_per_s; /**< upper bound of an all-reduce's rate */
    /** The rate of the network out of this rank's machine; 0: unknown. */
    uint64_t out_bytes_per_s;
};

/** Copy the part of `rank`. TRYST_E_NOMEM; TRYST_E_INVALID: the compiled plan has no
 *  all-reduce. */
tryst_status group_plan_copy(const struct compiled_plan *compiled, uint32_t rank,
                             uint64_t digest, struct group_plan **plan_p);
/** Free the plan; NULL is allowed. */
void group_plan_close(struct group_plan *plan);

#endif
