/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a planner asks of an overlay: what does every edge cost at these link prices, and what does an amount over an
 * edge load?
 *
 * Invariant: for any prices p, amount a and edge i → j: sum over links of p × load(i → j, a) equals
 * a × cost(i → j) (a test holds it to that). Infinite capacities never load. The order of all sums is fixed: equal
 * graphs give equal bits.
 * Threads: as overlay.h says. Callers: planners, plan_verify, reports.
 */
#ifndef TRYST_TOPOLOGY_OVERLAY_PRICE_H
#define TRYST_TOPOLOGY_OVERLAY_PRICE_H

#include "overlay.h"

/** cost[i × ranks + j] = what one byte from i to j costs at `price` (by overlay link, ≥ 0);
 *  INFINITY where there is no route, 0 on the diagonal. */
void overlay_costs(struct overlay *overlay, const double *price, double *cost);

/** load[l] += amount × (share of the routes i → j that pass link l), for all overlay links. */
void overlay_load(struct overlay *overlay, uint32_t i, uint32_t j, double amount,
                  double *load);

/** Calls `fn` with each link of the graph on the routes i → j (those that do not limit too) and the share of the
 *  routes that pass it, from the end to the beginning. Nothing where there is no route. */
void overlay_walk(struct overlay *overlay, uint32_t i, uint32_t j,
                  void (*fn)(void *arg, uint32_t link, double share), void *arg);

/** What a rank hangs on: the node of the graph to which its one live link leads, or the rank's own node. */
uint32_t overlay_near(const struct overlay *overlay, uint32_t i);

/** Hops of the route (links), latency in ns (the mean over equal routes; GRAPH_UNKNOWN), and the bandwidth
 *  that a single flow i → j gets alone: min over links of capacity / share. */
struct overlay_edge {
    uint32_t hops;
    double routes; /* how many equal ones; 0: none */
    double latency_ns;
    double bytes_per_s;
    uint32_t bottleneck; /* overlay link; GRAPH_NONE where nothing limits */
};
void overlay_edge(struct overlay *overlay, uint32_t i, uint32_t j,
                  struct overlay_edge *edge_p);

#endif
