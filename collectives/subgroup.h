/* SPDX-License-Identifier: Apache-2.0 */
/** @file subgroup.h
 *  Some ranks of a group, and the plan of their collectives.
 */
#ifndef TRYST_COLLECTIVES_SUBGROUP_H
#define TRYST_COLLECTIVES_SUBGROUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "collectives/tree/coll_plan.h"
#include "tryst/coll.h"

struct colls;
struct priorities;

/** A subgroup, immutable but for `refs`. */
struct tryst_subgroup {
    _Atomic(uint32_t) refs; /**< one of the caller, one of each prepared collective */
    struct colls *colls;
    tryst_group *group;
    struct coll_plan *plan;
    struct priorities *priorities; /**< of its collectives; NULL: none */
    uint64_t epoch;
    uint64_t digest; /**< digest of `members` */
    uint32_t count;
    uint32_t rank;     /**< this rank's position in `members` */
    int32_t members[]; /**< ranks of the group */
};

/** Room for a suffix, with its terminator. */
enum { SUBGROUP_SUFFIX_BYTES = 48 };
/** Write what recorded names of the subgroup's collectives end with, and return it; NULL:
 *  of the group, "". Collectives that can meet have one suffix on all ranks. */
const char *subgroup_suffix(const tryst_subgroup *subgroup,
                            char text[SUBGROUP_SUFFIX_BYTES]);

/** Add a reference, which the caller owns. NULL is allowed, and returned. */
tryst_subgroup *subgroup_ref(const tryst_subgroup *subgroup);
/** Drop a reference. NULL is allowed. */
void subgroup_unref(tryst_subgroup *subgroup);
/** Return the size of the subgroup or, where `subgroup` is NULL, of the group. */
int subgroup_size_in(const tryst_subgroup *subgroup, const tryst_group *group);
/** Return this rank's number in the subgroup or, where `subgroup` is NULL, in the
 *  group. */
int subgroup_rank_in(const tryst_subgroup *subgroup, const tryst_group *group);
/** True if `rank` of the group is a member, or `subgroup` is NULL (the whole group). */
bool subgroup_has(const tryst_subgroup *subgroup, int32_t rank);

#endif
