/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rate that the network carries from each rank's machine; see out_rates.h.
 *
 * Invariant: if the share s of an edge's bytes takes a link (one of 1/s equal routes),
 * the edge can carry that link's rate / s, so parallel wires count together.
 */
#include "out_rates.h"

#include <math.h>

#include "collectives/plan/compiled.h"
#include "topology/routes/overlay_price.h"

/* A link of the graph, and the edges of one rank that use it. */
struct used {
    uint32_t routes;  /* number of edges that use the link */
    double share_min; /* least share of an edge's bytes on the link */
    /* Least share among the edges with this narrowest link; 0: no such edge. */
    double narrowest_part;
};

struct finding {
    struct arrays arrays; /* memory of the arrays below */
    struct overlay *overlay;
    const struct graph *graph;
    uint32_t *machine; /* by node of the graph: its machine */
    struct used *used; /* by link of the graph */
    uint32_t *links;   /* links that this rank's edges use */
    uint32_t links_count;
    /* Of the edge being walked: its narrowest link, this link's rate ÷ share, the edge's
     * share on this link. */
    uint32_t narrowest;
    double narrowest_rate, narrowest_share;
};

static bool is_network(const struct finding *finding, const struct graph_link *link)
{
    uint32_t machine = finding->machine[link->from];
    return isfinite(link->bytes_per_s.value) &&
           (machine == GRAPH_NONE || machine != finding->machine[link->to]);
}

static void link_use(void *arg, uint32_t number, double share)
{
    struct finding *finding = arg;
    const struct graph_link *link = &finding->graph->links[number];
    struct used *used = &finding->used[number];
    if (!is_network(finding, link))
        return;
    if (used->routes++ == 0) {
        *used = (struct used){.routes = 1, .share_min = share};
        finding->links[finding->links_count++] = number;
    }
    used->share_min = fmin(used->share_min, share);
    double rate = link->bytes_per_s.value / share;
    if (rate < finding->narrowest_rate) {
        finding->narrowest = number;
        finding->narrowest_rate = rate;
        finding->narrowest_share = share;
    }
}

/* Count the links of an edge. Returns false if no link of the network limits the edge. */
static bool route_use(struct finding *finding, uint32_t from, uint32_t to)
{
    finding->narrowest = GRAPH_NONE;
    finding->narrowest_rate = INFINITY;
    overlay_walk(finding->overlay, from, to, link_use, finding);
    if (finding->narrowest == GRAPH_NONE)
        return false;
    double *part = &finding->used[finding->narrowest].narrowest_part;
    *part = *part > 0 ? fmin(*part, finding->narrowest_share) : finding->narrowest_share;
    return true;
}

/* True if i and j are different ranks on different machines; a rank in no machine counts
 * as a machine. */
static bool is_outside(const struct finding *finding, uint32_t i, uint32_t j)
{
    return i != j && !overlay_same_machine(finding->overlay, i, j);
}

/* Return the rate of all `routes` edges together, and clear their links for the next
 * rank. */
static double links_rate(struct finding *finding, uint32_t routes)
{
    double sum = 0, least = INFINITY;
    bool known = true;
    while (finding->links_count) {
        uint32_t number = finding->links[--finding->links_count];
        struct graph_number rate = finding->graph->links[number].bytes_per_s;
        struct used *used = &finding->used[number];
        if (used->narrowest_part > 0)
            sum += rate.value / used->narrowest_part;
        if (used->routes == routes) {
            least = fmin(least, rate.value / used->share_min);
            known = known && rate.origin != ORIGIN_NONE;
        }
        used->routes = 0;
    }
    return known ? fmin(sum, least) : 0;
}

static uint64_t rank_rate(struct finding *finding, uint32_t i)
{
    uint32_t routes = 0;
    bool limited = true;
    for (uint32_t j = 0; j < finding->overlay->ranks_count; j++)
        if (is_outside(finding, i, j)) {
            limited = route_use(finding, i, j) && limited;
            routes++;
        }
    double rate = links_rate(finding, routes);
    return limited && rate < (double)COMPILED_RATE_MOST ? (uint64_t)rate : 0;
}

tryst_status out_rates_find(struct overlay *overlay, uint64_t *out_bytes_per_s)
{
    const struct graph *graph = overlay->graph;
    struct finding finding = {.overlay = overlay, .graph = graph};
    struct arrays *arrays = &finding.arrays;
    finding.machine = arrays_alloc(arrays, graph->nodes_count, sizeof *finding.machine);
    finding.used = arrays_alloc(arrays, graph->links_count, sizeof *finding.used);
    finding.links = arrays_alloc(arrays, graph->links_count, sizeof *finding.links);
    tryst_status status = arrays->status;
    for (uint32_t v = 0; !status && v < graph->nodes_count; v++)
        finding.machine[v] = graph_machine(graph, v);
    for (uint32_t i = 0; !status && i < overlay->ranks_count; i++)
        out_bytes_per_s[i] = rank_rate(&finding, i);
    arrays_free(arrays);
    return status;
}
