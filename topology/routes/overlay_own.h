/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an overlay holds; private to overlay*.c.
 *
 * One idea: ranks that leave by one link to the same node share all of their routes behind it. So there is one
 * search per *origin* (such a node, or a rank that has several links or links to ranks), and what differs between
 * its ranks is one link.
 *
 * Routes are the widest of the shortest. For one origin the shortest form a directed acyclic graph (the links that lead
 * one level on), and the routes of width w are all paths through those of its links that have at least w. So
 * the routes to two ends are counted together when no link's bandwidth lies between their two widths: such widths form a
 * *class*. Where all links behind the ranks are alike there is one.
 *
 * Bandwidths are compared by their place in the sorted list of all bandwidths (`place`), unknown first.
 *
 * Inner nodes are those that are no ranks; an origin that is a rank takes the number after the last.
 * The number of routes to a node is kept as a double that is scaled down, a level at a time, where it would
 * overflow; only ratios within one level are ever used.
 */
#ifndef TRYST_TOPOLOGY_OVERLAY_OWN_H
#define TRYST_TOPOLOGY_OVERLAY_OWN_H

#include "overlay.h"
#include "topology/base/arrays.h"

/* A link into an inner node, of the graph of shortest routes. */
struct route_link {
    uint32_t from; /* inner */
    uint32_t link; /* of the graph */
};

/* An end that an origin reaches. */
struct route_end {
    uint32_t member;
    uint32_t class; /* by the width from the origin on */
    uint32_t hops;  /* from the origin */
    uint32_t into_first,
        into_count; /* of origin.end_into: links by which shortest routes end */
};

/* Ends of one width class, and the numbers of routes to the inner nodes. */
struct route_class {
    uint32_t class;
    uint32_t place_min; /* links with at least this bandwidth count */
    double *counts;     /* by inner node; NULL: not kept */
};

struct origin {
    uint32_t node;
    uint32_t inner; /* its inner number */
    uint32_t order_count;
    uint32_t *order;     /* the inner nodes reached, by level; the origin first */
    uint32_t *level;     /* by inner node; GRAPH_NONE: not reached */
    uint32_t *into_from; /* by inner node: its links are into[into_from[node]] … */
    struct route_link *into;
    struct route_end *ends; /* by class, then by member */
    struct route_link *end_into;
    uint32_t ends_count;
    uint32_t *end_of;            /* by member: place in `ends`, GRAPH_NONE: not reached */
    struct route_class *classes; /* those that occur, ascending */
    uint32_t classes_count;
    uint32_t *steps; /* places that part widths into classes, ascending */
    uint32_t steps_count;
    uint32_t members_first, members_count; /* of by_origin */
};

/* A route that was given. */
struct given {
    uint32_t from, to; /* members */
    uint32_t hops;
    uint32_t first,
        count; /* of given_links; count 0: a link of it is down, so there is no route */
    double routes;
};

struct given_link {
    uint32_t link;
    double share;
};

struct overlay_private {
    struct arrays arrays; /* all below, and the origins' */
    const struct graph *graph;
    uint32_t *members;   /* → rank number */
    uint32_t *member_of; /* rank number → member */
    uint32_t *place;     /* by graph link */
    uint32_t inner_count;
    uint32_t *inner_of; /* by graph node; GRAPH_NONE: a rank */
    uint32_t *node_of;  /* by inner node */
    uint32_t places_count;
    uint32_t *into_from, *into_link; /* by member: the links that end there */
    uint32_t *slot;                  /* graph link → overlay link, GRAPH_NONE */
    uint32_t *origin_of;             /* by member */
    uint32_t *up; /* by member: its link to the origin, GRAPH_NONE: it is the origin */
    uint32_t *up_class;  /* by member: of that link's width, among its origin's */
    uint32_t *by_origin; /* members, by origin */
    struct origin *origins;
    uint32_t origins_count;
    struct given *givens; /* by from, then to */
    struct given_link *given_links;
    uint32_t givens_count, given_links_count;
    double *link_price;  /* scratch: by graph link */
    double *node_cost;   /* scratch: by inner node */
    double *node_flow;   /* scratch: by inner node, all 0 between calls */
    double *node_counts; /* scratch, for classes whose counts are not kept */
    double *end_cost;    /* scratch: by member */
    uint32_t *nodes[2];  /* scratch: inner nodes of a level */
    uint32_t *links;
    double *capacity;
};

/* NULL: the route was not given. */
const struct given *overlay_given(const struct overlay_private *own, uint32_t i,
                                  uint32_t j);

/* The inner number of a link's beginning, as seen from `origin`; GRAPH_NONE for a rank that is not the origin. */
static inline uint32_t origin_inner(const struct overlay_private *own,
                                    const struct origin *origin, uint32_t node)
{
    return node == origin->node ? origin->inner : own->inner_of[node];
}

/* Whether a route of that class may end by `link`, one of the end's. An end with one link is not filtered: its width
 * is part of no class. */
static inline bool end_link_counts(const struct overlay_private *own,
                                   const struct route_end *end, uint32_t place_min,
                                   uint32_t link)
{
    bool one = own->into_from[end->member + 1] - own->into_from[end->member] == 1;
    return one || own->place[link] >= place_min;
}

/* The class of the routes from member `i`, whose origin that is, to `end`. */
static inline uint32_t pair_class(const struct overlay_private *own, uint32_t i,
                                  const struct route_end *end)
{
    return own->up_class[i] < end->class ? own->up_class[i] : end->class;
}

#endif
