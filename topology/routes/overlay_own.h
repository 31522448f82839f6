/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of an overlay; private to overlay*.c.
 *
 * One idea: ranks with one outgoing link each, all to the same node, share all routes
 * behind that node. So there is one search per *origin* (such a node, or a rank with
 * several links or a link to a rank), and the routes of its ranks differ in one link.
 *
 * Routes are the widest of the shortest. From one origin the shortest routes form a
 * directed acyclic graph (the links that lead one level on), and the routes of width w
 * are all its paths through links of at least w. So the routes to two ends are counted
 * together if no link's bandwidth lies between their widths: these widths form a *class*.
 * If all links behind the ranks have equal bandwidths, there is one class.
 *
 * Bandwidths are compared by their *place* in the sorted list of all bandwidths; unknown
 * comes first.
 *
 * *Inner* nodes are the nodes that are not ranks; an origin that is a rank has the number
 * after that of the last inner node. The number of routes to a node is a double that is
 * scaled down, a level at a time, before it overflows; only ratios within one level are
 * used.
 */
#ifndef TRYST_TOPOLOGY_ROUTES_OVERLAY_OWN_H
#define TRYST_TOPOLOGY_ROUTES_OVERLAY_OWN_H

#include "core/memory/arrays.h"
#include "overlay.h"

/** A link of the graph of shortest routes. */
struct route_link {
    uint32_t from; /**< inner number of the node that the link leaves */
    uint32_t link; /**< number in the graph */
};

/** A member that an origin reaches. */
struct route_end {
    uint32_t member;
    uint32_t class; /**< class of the width from the origin to the member */
    uint32_t hops;  /**< links from the origin to the member */
    /** The range of origin.end_into: links by which shortest routes enter the member. */
    uint32_t into_first, into_count;
};

/** A class of widths, with the numbers of routes to the inner nodes. */
struct route_class {
    uint32_t class;
    uint32_t place_min; /**< routes of this class take links of at least this place */
    double *counts;     /**< by inner node; NULL: recomputed on each use */
};

struct origin {
    uint32_t node;
    uint32_t inner; /**< the node's inner number */
    uint32_t order_count;
    uint32_t *order; /**< inner nodes reached, by level, the origin first */
    uint32_t *level; /**< by inner node; GRAPH_NONE: not reached */
    /** By inner node: shortest routes enter the node by into[into_from[node]] …
     *  into[into_from[node + 1] - 1]. */
    uint32_t *into_from;
    struct route_link *into;
    struct route_end *ends;      /**< the members reached, by class, then by member */
    struct route_link *end_into; /**< links into the ends, in order of members */
    uint32_t ends_count;
    uint32_t *end_of; /**< by member: position in `ends`; GRAPH_NONE: not reached */
    struct route_class *classes; /**< classes that some pair of ranks needs, ascending */
    uint32_t classes_count;
    uint32_t *steps; /**< places that separate the classes, ascending */
    uint32_t steps_count;
    /** The range of by_origin with the origin's members. */
    uint32_t members_first, members_count;
};

/** A given route. */
struct given {
    uint32_t from, to; /**< member numbers */
    uint32_t hops;
    /** The range of given_links; count 0: some hop has no live link, so the pair has
     *  no route. */
    uint32_t first, count;
    double routes; /**< product of the hops' numbers of parallel links */
};

struct given_link {
    uint32_t link;
    double share;
};

struct overlay_private {
    struct arrays arrays; /**< memory of all arrays below and of the origins' arrays */
    const struct graph *graph;
    uint32_t *members;   /**< member → rank number */
    uint32_t *member_of; /**< rank number → member; GRAPH_NONE: not in the group */
    uint32_t *place;     /**< by graph link: place of its bandwidth */
    uint32_t inner_count;
    uint32_t *inner_of; /**< graph node → inner number; GRAPH_NONE: a rank */
    uint32_t *node_of;  /**< inner number → graph node */
    uint32_t places_count;
    /** By member: the live links that end there are into_link[into_from[member]] … */
    uint32_t *into_from, *into_link;
    uint32_t *slot; /**< graph link → overlay link; GRAPH_NONE: not in the overlay */
    uint32_t *origin_of; /**< by member: number of its origin */
    /** By member: the link to its origin; GRAPH_NONE: the member itself is the origin. */
    uint32_t *up;
    uint32_t *up_class;  /**< by member: class of the width of `up`, in its origin */
    uint32_t *by_origin; /**< members, sorted by origin */
    struct origin *origins;
    uint32_t origins_count;
    struct given *givens; /**< sorted by from, then to */
    struct given_link *given_links;
    uint32_t givens_count, given_links_count;
    double *link_price;  /**< scratch: price by graph link; 0 for infinite bandwidth */
    double *node_cost;   /**< scratch: cost by inner node */
    double *node_flow;   /**< scratch: flow by inner node, all 0 between calls */
    double *node_counts; /**< scratch: by inner node, counts that no class keeps */
    double *end_cost;    /**< scratch: cost by position in origin.ends */
    uint32_t *nodes[2];  /**< scratch: inner nodes of a level */
    uint32_t *links;     /**< overlay.links */
    double *capacity;    /**< overlay.capacity */
};

/** Find the given route from i to j; NULL if there is none. */
const struct given *overlay_given(const struct overlay_private *own, uint32_t i,
                                  uint32_t j);

/** Return the inner number of `node` in a search from `origin`; GRAPH_NONE for a rank
 *  other than the origin. */
static inline uint32_t origin_inner(const struct overlay_private *own,
                                    const struct origin *origin, uint32_t node)
{
    return node == origin->node ? origin->inner : own->inner_of[node];
}

/** True if routes of a class with `place_min` may enter the end by `link`, one of its
 *  links. A link that is the end's only one always counts: its width limits no choice of
 *  route. */
static inline bool end_link_counts(const struct overlay_private *own,
                                   const struct route_end *end, uint32_t place_min,
                                   uint32_t link)
{
    bool one = own->into_from[end->member + 1] - own->into_from[end->member] == 1;
    return one || own->place[link] >= place_min;
}

/** Return the class of the routes from member `i` to `end`, an end of the member's
 *  origin. */
static inline uint32_t pair_class(const struct overlay_private *own, uint32_t i,
                                  const struct route_end *end)
{
    return own->up_class[i] < end->class ? own->up_class[i] : end->class;
}

#endif
