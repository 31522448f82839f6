/* SPDX-License-Identifier: Apache-2.0 */
/** @file coll_plan.h
 *  This rank's part of a group's plan.
 *
 *  Ranks are positions in the group; in a contracted plan (contract.h), positions in
 *  `members`. Children are listed in the order in which a node adds their sums. This
 *  order is the same in every run, so a result has the same bits whatever arrives first.
 *  The parents of all ranks serve reductions and broadcasts with another root than the
 *  tree's: the path between the two roots is reversed (coll_edges_find).
 */
#ifndef TRYST_COLLECTIVES_TREE_COLL_PLAN_H
#define TRYST_COLLECTIVES_TREE_COLL_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "tryst/status.h"

struct coll_tree_plan {
    /** Share of trees 0 to this one, as a numerator over 2^32; 2^32 - 1 of the last
     *  tree counts as 2^32. */
    uint32_t cum_share;
    int32_t root;        /**< root of the reduction and of the broadcast */
    int32_t up_parent;   /**< receives this rank's sum; -1 at the root */
    int32_t down_parent; /**< sends this rank's result; -1 at the root */
    uint32_t up_children_count;
    uint32_t down_children_count;
    const int32_t *up_children; /**< in the order of addition */
    const int32_t *down_children;
    const int32_t *up_parents;   /**< up_parent of every rank of the plan */
    const int32_t *down_parents; /**< down_parent of every rank of the plan */
};

/** The trees of collectives of up to bytes_max bytes. */
struct coll_class {
    uint64_t bytes_max;   /**< UINT64_MAX in the last class */
    uint32_t slice_bytes; /**< a multiple of 64 */
    bool exchange; /**< few ranks exchange small all-reduces directly (coll_exchanges) */
    uint32_t trees_count;
    struct coll_tree_plan *trees;
    uint64_t bytes_per_s; /**< planned rate of an all-reduce; 0: unknown */
};

/** The classes of a plan. Tree 0 has the same edges in every class. */
struct coll_plan {
    uint32_t size;
    int32_t rank;
    uint32_t classes_count;
    struct coll_class *classes; /**< by rising bytes_max */
    uint64_t bound_bytes_per_s; /**< upper bound of an all-reduce's rate; 0: unknown */
    uint64_t digest;
};

#endif
