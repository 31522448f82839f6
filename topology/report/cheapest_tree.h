/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of cheapest trees, found apart from the planner's way (plan/arborescence.h). Callers: plan_verify.c. */
#ifndef TRYST_TOPOLOGY_CHEAPEST_TREE_H
#define TRYST_TOPOLOGY_CHEAPEST_TREE_H

#include <stdbool.h>
#include <stdint.h>

/** The cheapest out-tree from `root` (an arborescence) at cost[i × n + j] per edge i → j, or, `inwards`, the cheapest
 *  in-tree; INFINITY when there is none. By reductions alone: Chu and Liu 1965, Edmonds 1967. `scratch` holds n × n. */
double cheapest_tree_cost(const double *cost, uint32_t n, uint32_t root, bool inwards,
                          double *scratch, uint32_t *numbers);

/** The same for each root at once, into costs_p[n]. False: not strongly connected, and nothing is written. `numbers` holds
 *  5 n, `sums` 2 n. */
bool cheapest_tree_costs(const double *cost, uint32_t n, bool inwards, double *scratch,
                         uint32_t *numbers, double *sums, double *costs_p);

#endif
