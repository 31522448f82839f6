/* SPDX-License-Identifier: Apache-2.0 */
/** @file plan.h
 *  The plan of a group as this rank runs it, and one collective's edges in it.
 *
 *  Ranks are positions in the group, and of a contracted plan (contract.h) in its `members`. Children are listed in the order in which a node adds their sums, which
 *  is the same in every run, so a result has the same bits whatever arrives first.
 *  The parents of all ranks serve reductions and broadcasts with another root than the tree's: the path
 *  between the two roots is reversed (coll_edges_find).
 */
#ifndef COMMSCHED_COLL_PLAN_H
#define COMMSCHED_COLL_PLAN_H

#include <stdint.h>

#include "tryst/status.h"

struct coll_tree_plan {
    uint32_t
        cum_share; /**< share of trees 0 to this one, / 2^32; of the last: 2^32 - 1, all */
    int32_t root;  /**< of the reduction and of the broadcast */
    int32_t up_parent;   /**< where this rank's sum goes; -1 at the root */
    int32_t down_parent; /**< where this rank's result comes from; -1 at the root */
    uint32_t up_children_count;
    uint32_t down_children_count;
    const int32_t *up_children; /**< in the order of addition */
    const int32_t *down_children;
    const int32_t *up_parents; /**< of every rank of the plan; -1 at the root */
    const int32_t *down_parents;
};

/** The trees of collectives of up to bytes_max bytes. */
struct coll_class {
    uint64_t bytes_max;   /**< of the last class: UINT64_MAX */
    uint32_t slice_bytes; /**< a multiple of 64 */
    uint32_t trees_count;
    struct coll_tree_plan *trees;
    uint64_t bytes_per_s; /**< planned for an all-reduce; 0: unknown */
    /** By rank of the group: what all trees and both phases send there, of an all-reduce at this class's planned
     *  rate. NULL: no rate is known. */
    const uint64_t *paces_bytes_per_s;
};

/** Tree 0 has the same edges in every class. */
struct coll_plan {
    uint32_t size;
    int32_t rank;
    uint32_t classes_count;
    struct coll_class *classes; /**< by rising bytes_max */
    uint64_t bound_bytes_per_s; /**< no all-reduce is faster; 0: unknown */
    uint64_t digest;
};

#endif
