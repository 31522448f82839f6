/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Costs of an overlay's edges at given prices of links, and the links that an amount over
 * an edge loads.
 *
 * Invariants: for any prices p, amount a and edge i → j, the sum over links of p × load(i
 * → j, a) equals a × cost(i → j) (tested). Links of infinite bandwidth have no load. The
 * order of all sums is fixed, so equal graphs give equal bits.
 * Threads: one caller at a time for each overlay.
 */
#ifndef TRYST_TOPOLOGY_ROUTES_OVERLAY_PRICE_H
#define TRYST_TOPOLOGY_ROUTES_OVERLAY_PRICE_H

#include "overlay.h"

/** Set cost[i × ranks + j] to the cost of one byte from i to j at `price` (by overlay
 *  link, ≥ 0); INFINITY without a route, 0 on the diagonal. */
void overlay_costs(struct overlay *overlay, const double *price, double *cost);

/** Add amount × (share of the routes i → j that pass link l) to load[l], for all overlay
 *  links. */
void overlay_load(struct overlay *overlay, uint32_t i, uint32_t j, double amount,
                  double *load);

/** Call `fn` with each link of the graph on the routes i → j, also links of infinite
 *  bandwidth, and with the share of the routes that pass the link; from the end to the
 *  beginning. Without a route, do nothing. */
void overlay_walk(struct overlay *overlay, uint32_t i, uint32_t j,
                  void (*fn)(void *arg, uint32_t link, double share), void *arg);

/** An edge: its routes, and a single flow over them. */
struct overlay_edge {
    uint32_t hops; /**< links of each route */
    double routes; /**< number of equal routes; 0: no route */
    /** Mean latency of the routes; GRAPH_UNKNOWN if that of any link is unknown. */
    double latency_ns;
    double bytes_per_s;  /**< rate of a lone flow: min over links of capacity ÷ share */
    uint32_t bottleneck; /**< overlay link that limits the rate; GRAPH_NONE: none does */
};
/** Describe the edge i → j. */
void overlay_edge(struct overlay *overlay, uint32_t i, uint32_t j,
                  struct overlay_edge *edge_p);

#endif
