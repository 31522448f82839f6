/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Costs of edges at given prices, and their loads; see overlay_price.h and overlay_own.h.
 *
 * One idea: forwards from an origin, a node's cost is the mean over the links into it,
 * weighted by the number of routes over each link; backwards from an end, the flow into a
 * node is divided among these links with the same weights.
 * Invariant: both use the same weights, so the sum of prices × loads is the cost.
 */
#include "overlay_price.h"

#include <math.h>
#include <stddef.h>

#include "overlay_origin.h"

/* ---- weights ----------------------------------------------------------------------- */

static const double *counts_of(const struct overlay_private *own,
                               const struct origin *origin,
                               const struct route_class *class)
{
    if (class->counts)
        return class->counts;
    origin_count(own, origin, class->place_min, own->node_counts);
    return own->node_counts;
}

static const struct route_class *class_find(const struct origin *origin, uint32_t class)
{
    uint32_t low = 0, high = origin->classes_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (origin->classes[middle].class <= class)
            low = middle;
        else
            high = middle;
    }
    return &origin->classes[low];
}

/* A weighted mean, exact if there is only one value. */
struct mean {
    double weights, sum, only;
    bool several;
};

static void mean_add(struct mean *mean, double weight, double value)
{
    if (weight == 0)
        return;
    mean->several = mean->weights > 0;
    mean->weights += weight;
    mean->sum += weight * value;
    mean->only = value;
}

static double mean_get(const struct mean *mean)
{
    return mean->several ? mean->sum / mean->weights : mean->only;
}

/* ---- costs ------------------------------------------------------------------------- */

static void nodes_cost(const struct overlay_private *own, const struct origin *origin,
                       const struct route_class *class, const double *counts)
{
    double *cost = own->node_cost;
    cost[origin->inner] = 0;
    for (uint32_t k = 1; k < origin->order_count; k++) {
        uint32_t at = origin->order[k];
        struct mean mean = {0, 0, 0, false};
        for (uint32_t l = origin->into_from[at]; l < origin->into_from[at + 1]; l++) {
            const struct route_link *into = &origin->into[l];
            if (own->place[into->link] >= class->place_min)
                mean_add(&mean, counts[into->from],
                         cost[into->from] + own->link_price[into->link]);
        }
        cost[at] = mean_get(&mean);
    }
}

static double end_cost(const struct overlay_private *own, const struct origin *origin,
                       const struct route_end *end, uint32_t place_min,
                       const double *counts)
{
    const struct route_link *into = origin->end_into + end->into_first;
    struct mean mean = {0, 0, 0, false};
    for (uint32_t k = 0; k < end->into_count; k++)
        if (end_link_counts(own, end, place_min, into[k].link))
            mean_add(&mean, counts[into[k].from],
                     own->node_cost[into[k].from] + own->link_price[into[k].link]);
    return mean_get(&mean);
}

/* Return the position of the first end of at least this class. */
static uint32_t ends_from(const struct origin *origin, uint32_t class)
{
    uint32_t low = 0, high = origin->ends_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (origin->ends[middle].class < class)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Compute the costs of the routes of one class from one origin. */
static void class_cost(const struct overlay *overlay, const struct origin *origin,
                       const struct route_class *class, double *cost)
{
    const struct overlay_private *own = overlay->own;
    const double *counts = counts_of(own, origin, class);
    uint32_t first = ends_from(origin, class->class);
    uint32_t next = ends_from(origin, class->class + 1);
    uint32_t needed = next; /* higher classes' ends: only if some `up` has this class */
    for (uint32_t k = 0; k < origin->members_count; k++)
        if (own->up_class[own->by_origin[origin->members_first + k]] == class->class)
            needed = origin->ends_count;
    nodes_cost(own, origin, class, counts);
    for (uint32_t e = first; e < needed; e++)
        own->end_cost[e] =
            end_cost(own, origin, &origin->ends[e], class->place_min, counts);
    for (uint32_t k = 0; k < origin->members_count; k++) {
        uint32_t i = own->by_origin[origin->members_first + k];
        if (own->up_class[i] < class->class)
            continue;
        double up = own->up[i] == GRAPH_NONE ? 0 : own->link_price[own->up[i]];
        double *row = cost + (size_t)i * overlay->ranks_count;
        uint32_t last = own->up_class[i] > class->class ? next : origin->ends_count;
        for (uint32_t e = first; e < last; e++)
            row[origin->ends[e].member] = up + own->end_cost[e];
    }
}

static double given_cost(const struct overlay_private *own, const struct given *given)
{
    double cost = 0;
    for (uint32_t k = given->first; k < given->first + given->count; k++)
        cost += own->given_links[k].share * own->link_price[own->given_links[k].link];
    return given->count ? cost : INFINITY;
}

void overlay_costs(struct overlay *overlay, const double *price, double *cost)
{
    const struct overlay_private *own = overlay->own;
    size_t ranks_count = overlay->ranks_count;
    for (uint32_t l = 0; l < overlay->links_count; l++)
        own->link_price[overlay->links[l]] = price[l]; /* other links keep 0 */
    for (size_t k = 0; k < ranks_count * ranks_count; k++)
        cost[k] = INFINITY;
    for (uint32_t o = 0; o < own->origins_count; o++)
        for (uint32_t c = 0; c < own->origins[o].classes_count; c++)
            class_cost(overlay, &own->origins[o], &own->origins[o].classes[c], cost);
    for (uint32_t k = 0; k < own->givens_count; k++)
        cost[own->givens[k].from * ranks_count + own->givens[k].to] =
            given_cost(own, &own->givens[k]);
    for (size_t i = 0; i < ranks_count; i++)
        cost[i * ranks_count + i] = 0;
}

/* ---- loads ------------------------------------------------------------------------- */

/* A walk from an end to the origin, level by level; `next` collects the nodes of the next
 * level. */
struct walk {
    const struct overlay_private *own;
    const struct origin *origin;
    const double *counts;
    uint32_t place_min;
    void (*fn)(void *arg, uint32_t link, double share);
    void *arg;
    uint32_t *next;
    uint32_t next_count;
};

/* Report `flow` over the link, and add it to the node that the link leaves. */
static void walk_link(struct walk *walk, uint32_t link, uint32_t from, double flow)
{
    double *at = &walk->own->node_flow[from];
    walk->fn(walk->arg, link, flow);
    if (*at == 0 && flow > 0)
        walk->next[walk->next_count++] = from;
    *at += flow;
}

static void walk_end(struct walk *walk, const struct route_end *end)
{
    const struct route_link *into = walk->origin->end_into + end->into_first;
    double weights = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t k = 0; k < end->into_count; k++) {
            double count = walk->counts[into[k].from];
            if (!end_link_counts(walk->own, end, walk->place_min, into[k].link))
                continue;
            if (pass == 0)
                weights += count;
            else if (count > 0)
                walk_link(walk, into[k].link, into[k].from, count / weights);
        }
    }
}

static void walk_node(struct walk *walk, uint32_t at)
{
    const struct overlay_private *own = walk->own;
    const struct origin *origin = walk->origin;
    double flow = own->node_flow[at], weights = 0;
    own->node_flow[at] = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t l = origin->into_from[at]; l < origin->into_from[at + 1]; l++) {
            const struct route_link *into = &origin->into[l];
            double count = walk->counts[into->from];
            if (own->place[into->link] < walk->place_min || count == 0)
                continue;
            if (pass == 0)
                weights += count;
            else
                walk_link(walk, into->link, into->from, flow * (count / weights));
        }
    }
}

static void walk_found(struct walk *walk, uint32_t i, const struct route_end *end)
{
    const struct overlay_private *own = walk->own;
    const struct route_class *class = class_find(walk->origin, pair_class(own, i, end));
    walk->counts = counts_of(own, walk->origin, class);
    walk->place_min = class->place_min;
    walk->next = own->nodes[0];
    walk_end(walk, end);
    for (int turn = 0; walk->next_count; turn ^= 1) {
        const uint32_t *level = own->nodes[turn];
        uint32_t level_count = walk->next_count;
        walk->next = own->nodes[turn ^ 1];
        walk->next_count = 0;
        for (uint32_t k = 0; k < level_count; k++)
            walk_node(walk, level[k]);
    }
    if (own->up[i] != GRAPH_NONE)
        walk->fn(walk->arg, own->up[i], 1);
}

void overlay_walk(struct overlay *overlay, uint32_t i, uint32_t j,
                  void (*fn)(void *arg, uint32_t link, double share), void *arg)
{
    const struct overlay_private *own = overlay->own;
    const struct origin *origin = &own->origins[own->origin_of[i]];
    const struct given *given = overlay_given(own, i, j);
    if (given) {
        for (uint32_t k = given->first + given->count; k-- > given->first;)
            fn(arg, own->given_links[k].link, own->given_links[k].share);
    } else if (i != j && origin->end_of[j] != GRAPH_NONE) {
        struct walk walk = {.own = own, .origin = origin, .fn = fn, .arg = arg};
        walk_found(&walk, i, &origin->ends[origin->end_of[j]]);
    }
}

struct loading {
    const uint32_t *slot;
    double amount;
    double *load;
};

static void link_load(void *arg, uint32_t link, double share)
{
    const struct loading *loading = arg;
    uint32_t slot = loading->slot[link];
    if (slot != GRAPH_NONE)
        loading->load[slot] += loading->amount * share;
}

void overlay_load(struct overlay *overlay, uint32_t i, uint32_t j, double amount,
                  double *load)
{
    struct loading loading = {overlay->own->slot, amount, load};
    overlay_walk(overlay, i, j, link_load, &loading);
}

/* ---- one edge ---------------------------------------------------------------------- */

struct edge_sum {
    const struct overlay *overlay;
    struct overlay_edge *edge;
};

static void edge_link(void *arg, uint32_t link, double share)
{
    const struct edge_sum *sum = arg;
    struct overlay_edge *edge = sum->edge;
    double latency_ns = sum->overlay->own->graph->links[link].latency_ns.value;
    uint32_t slot = sum->overlay->own->slot[link];
    if (latency_ns == GRAPH_UNKNOWN || edge->latency_ns == GRAPH_UNKNOWN)
        edge->latency_ns = GRAPH_UNKNOWN;
    else
        edge->latency_ns += share * latency_ns;
    if (slot == GRAPH_NONE)
        return;
    double bytes_per_s = sum->overlay->capacity[slot] / share;
    if (bytes_per_s < edge->bytes_per_s ||
        (bytes_per_s == edge->bytes_per_s && slot < edge->bottleneck)) {
        edge->bytes_per_s = bytes_per_s;
        edge->bottleneck = slot;
    }
}

/* Return the number of routes to an end: the sum of the counts of the nodes before it.
 * Where the counts were scaled down (beyond 2^512), the number is too small. */
static double routes_count(const struct overlay_private *own, uint32_t i,
                           const struct origin *origin, const struct route_end *end)
{
    const struct route_class *class = class_find(origin, pair_class(own, i, end));
    const double *counts = counts_of(own, origin, class);
    const struct route_link *into = origin->end_into + end->into_first;
    double routes = 0;
    for (uint32_t k = 0; k < end->into_count; k++)
        if (end_link_counts(own, end, class->place_min, into[k].link))
            routes += counts[into[k].from];
    return routes;
}

void overlay_edge(struct overlay *overlay, uint32_t i, uint32_t j,
                  struct overlay_edge *edge_p)
{
    const struct overlay_private *own = overlay->own;
    const struct origin *origin = &own->origins[own->origin_of[i]];
    const struct given *given = overlay_given(own, i, j);
    struct overlay_edge edge = {.bytes_per_s = INFINITY, .bottleneck = GRAPH_NONE};
    if (given) {
        edge.hops = given->count ? given->hops : 0;
        edge.routes = given->routes;
    } else if (i != j && origin->end_of[j] != GRAPH_NONE) {
        const struct route_end *end = &origin->ends[origin->end_of[j]];
        edge.hops = end->hops + (own->up[i] != GRAPH_NONE);
        edge.routes = routes_count(own, i, origin, end);
    }
    if (edge.routes > 0) {
        struct edge_sum sum = {overlay, &edge};
        overlay_walk(overlay, i, j, edge_link, &sum);
    }
    *edge_p = edge;
}
