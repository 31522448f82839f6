/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Minimum-cost spanning arborescences of a dense cost matrix, for all roots at once.
 *
 * One idea: contracting cheapest in-edges along a path until one node is left does not
 * depend on the root; only the expansion of the contracted nodes does. So n roots cost
 * one contraction, O(n²), and one expansion each, O(n). (Chu and Liu 1965; Edmonds 1967;
 * the path-growing form: Gabow, Galil, Spencer and Tarjan 1986.)
 * Invariant: equal matrices give equal trees.
 * Threads: one at a time for each object.
 */
#ifndef TRYST_TOPOLOGY_PLAN_ARBORESCENCE_H
#define TRYST_TOPOLOGY_PLAN_ARBORESCENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "tryst/status.h"

struct arborescence;

/** Allocate room for `count` (at least 1) nodes. Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status arborescence_open(uint32_t count, struct arborescence **arborescence_p);
void arborescence_close(struct arborescence *arborescence);

/** Contract the matrix: cost[i × count + j] ≥ 0 is the cost of the edge i → j, INFINITY
 *  for a missing edge; the diagonal is not read. With `reversed` the cost of i → j is
 *  read at [j × count + i], so the trees are in-trees of the matrix. `cost` must live
 *  until the last arborescence_tree.
 *  Returns false if the edges do not connect all nodes strongly; the object then has no
 *  trees. */
bool arborescence_contract(struct arborescence *arborescence, const double *cost,
                           bool reversed);

/** Return the cost of the cheapest tree from `root`, after a successful contraction.
 *  O(depth). */
double arborescence_cost(const struct arborescence *arborescence, uint32_t root);

/** Write the parents of the cheapest tree from `root` (UINT32_MAX at the root), after a
 *  successful contraction. Returns the sum of the costs of the tree's edges. O(count). */
double arborescence_tree(struct arborescence *arborescence, uint32_t root,
                         uint32_t *parent_p);

#endif
