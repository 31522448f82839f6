/* SPDX-License-Identifier: Apache-2.0 */
/* Networks from graphs; see cluster.h. */
#include "cluster.h"

#include <stdlib.h>

#include "support/unit.h"
#include "topology/formats/graph_read.h"
#include "topology/routes/overlay_price.h"

#define UNLIMITED_BYTES_PER_S 1000000000000u

/* Number the nodes: ranks first, by their numbers, then the other nodes in the graph's
 * order. */
static int *nodes_number(const struct graph *graph)
{
    int *numbers = malloc(graph->nodes_count * sizeof *numbers);
    int others = (int)graph->ranks_count;
    assert_non_null(numbers);
    for (uint32_t i = 0; i < graph->nodes_count; i++) {
        uint32_t rank = graph_rank_of(graph, i);
        numbers[i] = rank == GRAPH_NONE ? others++ : (int)rank;
    }
    return numbers;
}

/* Add the link, and return its number in the network; -1: the link is down. */
static int graph_link_add_net(struct net *net, const struct graph_link *link,
                              const int *numbers)
{
    double bytes_per_s = link->bytes_per_s.value;
    double latency_ns = link->latency_ns.value;
    if (link->down)
        return -1;
    assert_true(bytes_per_s > 0); /* the graph gives the link a rate */
    return net_link_add(net, numbers[link->from], numbers[link->to],
                        isinf(bytes_per_s) ? UNLIMITED_BYTES_PER_S
                                           : (uint64_t)bytes_per_s,
                        latency_ns > 0 ? (uint64_t)latency_ns : 0);
}

struct walk {
    struct net *net;
    const int *links; /* numbers in the network by link of the graph */
    int from, to;
};

static void on_link(void *arg, uint32_t link, double share)
{
    const struct walk *walk = arg;
    net_way_add(walk->net, walk->from, walk->to, walk->links[link], share);
}

static void ways_find(struct net *net, struct overlay *overlay, const int *links)
{
    struct walk walk = {.net = net, .links = links};
    for (walk.from = 0; walk.from < net->ends; walk.from++)
        for (walk.to = 0; walk.to < net->ends; walk.to++)
            if (walk.from != walk.to)
                overlay_walk(overlay, (uint32_t)walk.from, (uint32_t)walk.to, on_link,
                             &walk);
}

void cluster_make(struct net *net, struct overlay *overlay, uint32_t packet_bytes)
{
    const struct graph *graph = overlay->graph;
    int *numbers = nodes_number(graph);
    int *links = malloc(graph->links_count * sizeof *links);
    assert_non_null(links);
    net_init(net, (int)graph->nodes_count, (int)graph->ranks_count, packet_bytes);
    for (uint32_t i = 0; i < graph->links_count; i++)
        links[i] = graph_link_add_net(net, &graph->links[i], numbers);
    net_routes(net);
    ways_find(net, overlay, links);
    free(links);
    free(numbers);
}

int cluster_load(struct net *net, const char *path, uint32_t packet_bytes)
{
    struct err err = ERR_INIT;
    struct graph *graph = NULL;
    struct overlay *overlay = NULL;
    if (graph_load(path, &err, &graph) != TRYST_OK ||
        overlay_open(graph, NULL, 0, &err, &overlay) != TRYST_OK) {
        fail_msg("%s", err.text);
        return 0;
    }
    int ranks = (int)graph->ranks_count;
    cluster_make(net, overlay, packet_bytes);
    overlay_close(overlay);
    graph_close(graph);
    return ranks;
}
