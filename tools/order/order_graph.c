/* SPDX-License-Identifier: Apache-2.0 */
/* Implements order_graph.h: one pass over the profile collects nodes and edges. */
#include "order_graph.h"

#include <stdlib.h>

/* ---- groups ------------------------------------------------------------------------ */

struct order_groups order_groups_open(const struct order_profile *profile)
{
    return (struct order_groups){
        .of = order_zalloc(profile->count, sizeof(uint32_t)),
        .first = order_zalloc(profile->count, sizeof(uint32_t)),
    };
}

void order_groups_close(struct order_groups *groups)
{
    free(groups->of);
    free(groups->first);
}

void order_groups_put(struct order_groups *groups, uint32_t node, uint32_t group)
{
    if (group == groups->count)
        groups->first[groups->count++] = node;
    groups->of[node] = group;
}

/* ---- graphs ------------------------------------------------------------------------ */

struct edge {
    uint32_t from, to;
};

/* Fill in which nodes come after which. */
static void edges_take(struct order_graph *graph, const struct edge *edges,
                       size_t edges_count)
{
    uint32_t first = 0;
    graph->next = order_zalloc(edges_count, sizeof *graph->next);
    for (size_t e = 0; e < edges_count; e++)
        graph->nodes[edges[e].from].next_count++;
    for (uint32_t i = 0; i < graph->count; i++) {
        graph->nodes[i].next_first = first;
        first += graph->nodes[i].next_count;
        graph->nodes[i].next_count = 0;
    }
    for (size_t e = 0; e < edges_count; e++) {
        struct order_graph_node *from = &graph->nodes[edges[e].from];
        graph->next[from->next_first + from->next_count++] = edges[e].to;
        graph->nodes[edges[e].to].before_count++;
    }
}

struct order_graph order_graph_open(const struct order_profile *profile,
                                    const struct order_groups *groups)
{
    uint32_t n = profile->count, end = n + (groups ? groups->count : 0);
    struct order_graph graph = {.count = end + (groups ? 1 : 0)};
    struct edge *edges = order_zalloc((size_t)profile->edges_count + end, sizeof *edges);
    size_t count = 0;
    graph.nodes = order_zalloc(graph.count, sizeof *graph.nodes);
    for (uint32_t i = 0; i < n; i++) {
        const struct order_node *node = &profile->nodes[i];
        bool is_joined = groups && node->is_operation;
        uint32_t at = is_joined ? n + groups->of[i] : i;
        graph.nodes[at].is_operation = node->is_operation;
        graph.nodes[at].seconds = node->seconds;
        graph.nodes[at].bytes += node->bytes;
        graph.nodes[at].origin = is_joined ? groups->first[groups->of[i]] : i;
        for (uint32_t a = 0; a < node->after_count; a++)
            edges[count++] = (struct edge){node->after[a], at};
        if (is_joined)
            edges[count++] = (struct edge){end, i};
    }
    for (uint32_t group = n; group < end; group++)
        edges[count++] = (struct edge){group, end};
    edges_take(&graph, edges, count);
    free(edges);
    return graph;
}

struct order_graph order_graph_bare(const struct order_profile *profile)
{
    struct order_graph graph = {.nodes =
                                    order_zalloc(profile->count, sizeof *graph.nodes)};
    for (uint32_t i = 0; i < profile->count; i++)
        if (profile->nodes[i].is_operation)
            graph.nodes[graph.count++] = (struct order_graph_node){
                .is_operation = true, .bytes = profile->nodes[i].bytes, .origin = i};
    edges_take(&graph, NULL, 0);
    return graph;
}

void order_graph_close(struct order_graph *graph)
{
    free(graph->nodes);
    free(graph->next);
    *graph = (struct order_graph){.nodes = NULL};
}
