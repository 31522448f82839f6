/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Minimum-cost spanning arborescences of a dense cost matrix, for all roots at once.
 *
 * One idea: contracting cheapest in-edges along a path until one node is left does not depend on the
 * root; only taking the contraction apart again does. So n roots cost one contraction, O(n²), and O(n)
 * each. (Chu and Liu 1965; Edmonds 1967; the path-growing form is Gabow, Galil, Spencer and Tarjan 1986.)
 * Invariant: equal matrices give equal trees; of equally cheap edges the one from the lowest node is
 * taken. Threads: one at a time for each object.
 * Callers: plan_work.c.
 */
#ifndef TRYST_TOPOLOGY_ARBORESCENCE_H
#define TRYST_TOPOLOGY_ARBORESCENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "tryst/status.h"

struct arborescence;

/** Room for `count` (at least 1) nodes. TRYST_E_NOMEM. */
tryst_status arborescence_open(uint32_t count, struct arborescence **arborescence_p);
void arborescence_close(struct arborescence *arborescence);

/** cost[i × count + j] ≥ 0 is that of the edge i → j, INFINITY where there is none; the diagonal is not
 *  read. With `reversed` i → j stands at [j × count + i], so the trees are in-trees of the matrix.
 *  False when the edges do not connect all nodes strongly; the object then has no trees. */
bool arborescence_contract(struct arborescence *arborescence, const double *cost,
                           bool reversed);

/** After a contraction that succeeded: the cost of the cheapest tree from `root`. O(depth). */
double arborescence_cost(const struct arborescence *arborescence, uint32_t root);

/** The same, and its parents (UINT32_MAX at the root). The cost is the sum of the edges. O(count). */
double arborescence_tree(struct arborescence *arborescence, uint32_t root,
                         uint32_t *parent_p);

#endif
