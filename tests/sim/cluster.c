/* SPDX-License-Identifier: Apache-2.0 */
/* Networks from files; see cluster.h. */
#include "cluster.h"

#include <stdlib.h>

#include "support/unit.h"
#include "topology/topo_own.h"

#define UNLIMITED_BYTES_PER_S 1000000000000u

/* Ranks first, by their numbers; then the others, as they stand. */
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

static void link_take(struct net *net, const struct graph_link *link, const int *numbers)
{
    double bytes_per_s = link->bytes_per_s.value;
    double latency_ns = link->latency_ns.value;
    if (link->down)
        return;
    assert_true(bytes_per_s > 0); /* known */
    (void)net_link_add(net, numbers[link->from], numbers[link->to],
                       isinf(bytes_per_s) ? UNLIMITED_BYTES_PER_S : (uint64_t)bytes_per_s,
                       latency_ns > 0 ? (uint64_t)latency_ns : 0);
}

int cluster_load(struct net *net, const char *path, uint32_t packet_bytes)
{
    tryst_topo *topo;
    if (tryst_topo_load(path, &topo) != TRYST_OK)
        fail_msg("%s", tryst_last_error());
    const struct graph *graph = topo_graph(topo);
    int ranks = tryst_topo_ranks(topo);
    int *numbers = nodes_number(graph);
    assert_int_equal(graph->routes_count, 0);
    net_open(net, (int)graph->nodes_count, ranks, packet_bytes);
    for (uint32_t i = 0; i < graph->links_count; i++)
        link_take(net, &graph->links[i], numbers);
    net_routes(net);
    free(numbers);
    tryst_topo_close(topo);
    return ranks;
}
