/* SPDX-License-Identifier: Apache-2.0 */
/** @file edges.h
 *  The neighbours of this rank in one tree, for one collective: the plan's own, or those of the tree with
 *  another root. And a plan for groups without one.
 */
#ifndef COMMSCHED_COLL_EDGES_H
#define COMMSCHED_COLL_EDGES_H

#include <stdbool.h>

#include "plan.h"

struct coll_edges {
    int32_t parent; /**< -1: this rank is the root */
    uint32_t children_count;
    int32_t *children; /**< in the order of addition */
};

/** Children that coll_edges_find can yield, at most. */
uint32_t coll_edges_max(const struct coll_tree_plan *tree);
/** Find this rank's neighbours in the reduction tree (`up`) or the broadcast tree that is rooted at `root`; -1
 *  is the plan's root. Another root reverses the path between the two roots: on it, children are those of
 *  the plan without the one towards `root`, then the plan's parent. `edges->children` has room for
 *  coll_edges_max. */
void coll_edges_find(const struct coll_plan *plan, const struct coll_tree_plan *tree,
                     bool up, int32_t root, struct coll_edges *edges);

/** Find the parents of all ranks in that tree; -1 at the root. */
void coll_parents_find(const struct coll_plan *plan, const struct coll_tree_plan *tree,
                       bool up, int32_t root, int32_t *parents);

/** Make a plan of binary trees for `size` ranks on equal links: one tree for small tensors, two for large ones.
 *  It is one allocation, freed with mem_free. NULL: no memory. */
struct coll_plan *coll_plan_make(uint32_t size, int32_t rank);

#endif
