/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The overlay: which pairs of ranks can send to each other, and which links each pair's
 * bytes load.
 *
 * One idea: a plan's edge i → j is the traffic over the shortest routes from i to j, and
 * of these over the widest. k such routes (parallel links make separate routes) carry 1/k
 * each. Routes are counted on the graph of shortest routes, never listed, so a fat tree
 * with thousands of equal routes costs no more than its links. Costs and loads of edges
 * are in overlay_price.h.
 *
 * A given route (graph_route) replaces the found ones. Of parallel links on a hop, those
 * at least as wide as the route's narrowest hop share its traffic equally. If a hop has
 * no link that is up, the pair has no route: no other route is searched. Links that are
 * down are ignored; a link of unknown bandwidth counts as the narrowest.
 * Threads: one caller at a time, since the functions of an open overlay use its scratch
 * memory.
 */
#ifndef TRYST_TOPOLOGY_ROUTES_OVERLAY_H
#define TRYST_TOPOLOGY_ROUTES_OVERLAY_H

#include "topology/base/graph.h"

struct overlay {
    const struct graph *graph;
    uint32_t ranks_count; /**< ranks of the group, numbered by position in `members` */
    /** Links of finite bandwidth that some route uses, in the order of the graph. */
    uint32_t links_count;
    const uint32_t *links;  /**< by overlay link: number in the graph */
    const double *capacity; /**< by overlay link: bytes/s, known and finite */
    struct overlay_private *own;
};

/** Open the overlay of `members` (rank numbers, in order; NULL: all ranks). The graph
 *  must be sealed, and must outlive the overlay.
 *  Returns: TRYST_E_INVALID  no members, an unknown rank, a rank twice, ranks that do not
 *                            all reach each other, or an unknown bandwidth on a route;
 *                            `err` names the ranks or the link
 *           TRYST_E_NOMEM */
tryst_status overlay_open(const struct graph *graph, const uint32_t *members,
                          uint32_t members_count, struct err *err,
                          struct overlay **overlay_p);
/** Open the overlay of two ranks, which become its members 0 and 1 and need not reach
 *  each other. Returns as overlay_open. */
tryst_status overlay_open_pair(const struct graph *graph, uint32_t from, uint32_t to,
                               struct err *err, struct overlay **overlay_p);
void overlay_close(struct overlay *overlay);

/** Return the rank number of member `i`. */
uint32_t overlay_rank(const struct overlay *overlay, uint32_t i);
/** True if members `i` and `j` are on one machine; a rank in no machine is on none. */
bool overlay_same_machine(const struct overlay *overlay, uint32_t i, uint32_t j);

#endif
