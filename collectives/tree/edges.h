/* SPDX-License-Identifier: Apache-2.0 */
/** @file edges.h
 *  The neighbours of this rank in one tree, with the plan's root or with another one, and
 *  the plan of a group without a plan.
 */
#ifndef TRYST_COLLECTIVES_TREE_EDGES_H
#define TRYST_COLLECTIVES_TREE_EDGES_H

#include <stdbool.h>

#include "coll_plan.h"

struct coll_edges {
    int32_t parent; /**< -1: this rank is the root */
    uint32_t children_count;
    int32_t *children; /**< in the order of addition */
};

/** Return the most children that coll_edges_find can find. */
uint32_t coll_edges_max(const struct coll_tree_plan *tree);
/** Find this rank's neighbours in the reduction tree (`up`) or the broadcast tree with
 *  the root `root`; -1: the plan's root. Another root reverses the path between the
 *  two roots: the children of a rank on this path are the plan's children without the
 *  one towards `root`, then the plan's parent. `edges->children` has room for
 *  coll_edges_max. */
void coll_edges_find(const struct coll_plan *plan, const struct coll_tree_plan *tree,
                     bool up, int32_t root, struct coll_edges *edges);

/** Find the parents of all ranks in the tree with the root `root`; the root's parent
 *  is -1. */
void coll_parents_find(const struct coll_plan *plan, const struct coll_tree_plan *tree,
                       bool up, int32_t root, int32_t *parents);

/** Make a plan of binary trees for `size` ranks on equal links: one tree for small
 *  tensors, two for large ones. Returns one allocation, freed with mem_free; NULL: no
 *  memory. */
struct coll_plan *coll_plan_make(uint32_t size, int32_t rank);

#endif
