/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The overlay: which pairs of ranks can send to each other, and what each pair's bytes load.
 *
 * One idea: a plan's edge i → j is the traffic of a route, which is shortest in hops and then widest;
 * k routes equal in both (parallel links make routes of their own) carry 1/k each. They are counted on the graph of such routes, never listed,
 * so a fat tree with thousands of equal routes costs no more than its links. Two questions are all that a
 * planner asks: what does every edge cost at these link prices, and what does an amount over an edge
 * load. Given routes (graph_route) replace found ones: of parallel links on one the widest that
 * are enough share alike, and a given route that needs a link that is down is no route, rather than another one.
 * Invariant: for any prices p, amount a and edge i → j: sum over links of p × load(i → j, a) equals
 * a × cost(i → j) (a test holds it to that). Infinite capacities never load. Links that are down do
 * not exist; one of unknown bandwidth is the narrowest. The order of all sums is fixed: equal graphs give equal bits.
 * Threads: none of its own; an open overlay is only read, but for its scratch memory: one caller at a time.
 * Callers: plan.
 */
#ifndef TRYST_TOPOLOGY_OVERLAY_H
#define TRYST_TOPOLOGY_OVERLAY_H

#include "topology/base/graph.h"

struct overlay {
    const struct graph *graph;
    uint32_t ranks_count; /* of the group, by position in `members` */
    uint32_t
        links_count; /* those of the graph that a route uses and that limit, numbered anew */
    const uint32_t *links;  /* → number in the graph */
    const double *capacity; /* bytes/s of each; known and finite */
    struct overlay_private *own;
};

/** The overlay of `members` (rank numbers, in order; NULL: all ranks). The graph must be sealed and
 *  outlives it. TRYST_E_NOMEM; TRYST_E_INVALID with a sentence: not strongly connected (names the cut: which
 *  ranks cannot reach which), a bandwidth on a route that is unknown (names the link and says how to learn it). */
tryst_status overlay_open(const struct graph *graph, const uint32_t *members,
                          uint32_t members_count, struct err *err,
                          struct overlay **overlay_p);
/** The overlay of two ranks, 0 and 1 in it, of which each may or may not reach the other. */
tryst_status overlay_open_pair(const struct graph *graph, uint32_t from, uint32_t to,
                               struct err *err, struct overlay **overlay_p);
void overlay_close(struct overlay *overlay);

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
