/* SPDX-License-Identifier: Apache-2.0 */
/** @file contract.h
 *  The plan of some ranks of a group, from the group's plan. Pure.
 */
#ifndef COMMSCHED_COLL_CONTRACT_H
#define COMMSCHED_COLL_CONTRACT_H

#include "plan.h"

/** Make the plan of `count` ranks of a group, in whose plan `members` are ranks; `members[rank]` is this one.
 *  The ranks of the new plan are positions in `members`. It is one
 *  allocation, freed with mem_free. NULL: no memory. */
struct coll_plan *coll_plan_contract(const struct coll_plan *plan, const int32_t *members,
                                     uint32_t count, uint32_t rank);

#endif
