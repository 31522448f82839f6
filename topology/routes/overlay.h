/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The overlay: which pairs of ranks can send to each other, and what each pair's bytes load.
 *
 * One idea: a plan's edge i → j is the traffic of a route, which is shortest in hops and then widest;
 * k routes equal in both (parallel links make routes of their own) carry 1/k each. They are counted on the graph of such routes, never listed,
 * so a fat tree with thousands of equal routes costs no more than its links. What a planner asks of them is in
 * overlay_price.h. Given routes (graph_route) replace found ones: of parallel links on one the widest that
 * are enough share alike, and a given route that needs a link that is down is no route, rather than another one.
 * Links that are down do not exist; one of unknown bandwidth is the narrowest.
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

/** The rank number of a member. */
uint32_t overlay_rank(const struct overlay *overlay, uint32_t i);

#endif
