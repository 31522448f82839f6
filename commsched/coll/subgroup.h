/* SPDX-License-Identifier: Apache-2.0 */
/** @file subgroup.h
 *  Some ranks of a group, and the plan of their collectives.
 */
#ifndef COMMSCHED_COLL_SUBGROUP_H
#define COMMSCHED_COLL_SUBGROUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "commsched/coll/tree/plan.h"
#include "tryst/coll.h"

struct colls;

/** Immutable but for its references. */
struct tryst_subgroup {
    _Atomic(uint32_t) refs; /**< the caller's; each prepared collective */
    struct colls *colls;
    tryst_group *group;
    struct coll_plan *plan;
    uint64_t epoch;
    uint64_t digest; /**< of the members, in their order */
    uint32_t count;
    uint32_t rank;     /**< this rank's position */
    int32_t members[]; /**< ranks of the group */
};

/** A reference is the caller's. NULL is allowed, and returned. */
tryst_subgroup *subgroup_ref(const tryst_subgroup *subgroup);
/** NULL is allowed. */
void subgroup_unref(tryst_subgroup *subgroup);
/** The size of the subgroup or, where it is NULL, of the group; this rank's number in it likewise. */
int subgroup_size_in(const tryst_subgroup *subgroup, const tryst_group *group);
int subgroup_rank_in(const tryst_subgroup *subgroup, const tryst_group *group);
/** True if `rank` of the group is a member; NULL: of the whole group, so it is. */
bool subgroup_has(const tryst_subgroup *subgroup, int32_t rank);

#endif
