/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of cheapest trees, computed independently of the planner's
 * plan/arborescence.h. */
#ifndef TRYST_TOPOLOGY_REPORT_CHEAPEST_TREE_H
#define TRYST_TOPOLOGY_REPORT_CHEAPEST_TREE_H

#include <stdbool.h>
#include <stdint.h>

/** Compute costs_p[n], for each rank as the root: the cost of the cheapest out-tree (an
 *  arborescence) at cost[i × n + j] for the edge i → j or, `inwards`, of the cheapest
 *  in-tree. No tree is built (Chu and Liu 1965, Edmonds 1967). Scratch: `scratch` n × n,
 *  `numbers` 5 n, `sums` 2 n.
 *  Returns false, and writes no costs, if the edges do not connect all ranks strongly. */
bool cheapest_tree_costs(const double *cost, uint32_t n, bool inwards, double *scratch,
                         uint32_t *numbers, double *sums, double *costs_p);

#endif
