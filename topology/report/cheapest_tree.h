/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of cheapest trees, found apart from the planner's way (plan/arborescence.h). Callers: plan_verify.c. */
#ifndef TRYST_TOPOLOGY_CHEAPEST_TREE_H
#define TRYST_TOPOLOGY_CHEAPEST_TREE_H

#include <stdbool.h>
#include <stdint.h>

/** For each rank as the root, into costs_p[n]: the cheapest out-tree (an arborescence) at cost[i × n + j] per edge i → j,
 *  or, `inwards`, the cheapest in-tree. By reductions alone: Chu and Liu 1965, Edmonds 1967. False: not strongly
 *  connected, and nothing is written. `scratch` holds n × n, `numbers` 5 n, `sums` 2 n. */
bool cheapest_tree_costs(const double *cost, uint32_t n, bool inwards, double *scratch,
                         uint32_t *numbers, double *sums, double *costs_p);

#endif
