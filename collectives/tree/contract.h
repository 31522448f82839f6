/* SPDX-License-Identifier: Apache-2.0 */
/** @file contract.h
 *  The plan of a subgroup, made from the plan of its group. Pure.
 */
#ifndef TRYST_COLLECTIVES_TREE_CONTRACT_H
#define TRYST_COLLECTIVES_TREE_CONTRACT_H

#include "coll_plan.h"

/** Make the plan of a subgroup from the plan of its group.
 *
 *  `members` has `count` ranks of `plan`, each once; this rank is `members[rank]`.
 *  Ranks of the new plan are positions in `members`. Returns one allocation, freed
 *  with mem_free; NULL: no memory. */
struct coll_plan *coll_plan_contract(const struct coll_plan *plan, const int32_t *members,
                                     uint32_t count, uint32_t rank);

#endif
