/* SPDX-License-Identifier: Apache-2.0 */
#include "step_graph.h"

#include "core/memory/alloc.h"

/* ---- groups ------------------------------------------------------------------------ */

bool joined_open(struct joined *joined, const struct tryst_profile *profile)
{
    size_t n = (size_t)profile->nodes_count + 1;
    *joined = (struct joined){
        .nodes_count = profile->nodes_count,
        .of = mem_zalloc_array(n, sizeof *joined->of),
        .first = mem_zalloc_array(n, sizeof *joined->first),
        .bytes = mem_zalloc_array(n, sizeof *joined->bytes),
    };
    return joined->of && joined->first && joined->bytes;
}

void joined_close(struct joined *joined)
{
    mem_free(joined->of);
    mem_free(joined->first);
    mem_free(joined->bytes);
}

void joined_put(struct joined *joined, const struct tryst_profile *profile, uint32_t node,
                uint32_t group)
{
    if (group == joined->count)
        joined->first[joined->count++] = node;
    joined->of[node] = group;
    joined->bytes[group] += (double)profile->nodes[node].bytes;
}

/* ---- graph ------------------------------------------------------------------------- */

struct step_graph {
    uint32_t nodes_count, edges_count;
    struct oracle_node *nodes;
    struct oracle_edge *edges;
};

static bool graph_open(struct step_graph *graph, size_t nodes_count, size_t edges_count)
{
    graph->nodes = mem_zalloc_array(nodes_count + 1, sizeof *graph->nodes);
    graph->edges = mem_zalloc_array(edges_count + 1, sizeof *graph->edges);
    graph->nodes_count = (uint32_t)nodes_count;
    return graph->nodes && graph->edges && nodes_count < UINT32_MAX &&
           edges_count < UINT32_MAX;
}

static void graph_close(struct step_graph *graph)
{
    mem_free(graph->nodes);
    mem_free(graph->edges);
}

static void edge_add(struct step_graph *graph, uint32_t from, uint32_t to)
{
    graph->edges[graph->edges_count++] = (struct oracle_edge){from, to};
}

static struct oracle_node operation(double bytes, const tryst_profile_params *params)
{
    return (struct oracle_node){true, params->overhead_s + bytes / params->bytes_per_s,
                                params->latency_s};
}

static void profile_fill(struct step_graph *graph, const struct tryst_profile *profile,
                         const tryst_profile_params *params, const struct joined *joined)
{
    for (uint32_t i = 0; i < profile->nodes_count; i++) {
        const struct profile_node *node = &profile->nodes[i];
        bool is_joined = joined && node->is_operation;
        uint32_t to = is_joined ? profile->nodes_count + joined->of[i] : i;
        graph->nodes[i] = node->is_operation && !is_joined
                              ? operation((double)node->bytes, params)
                              : (struct oracle_node){false, node->seconds, 0};
        for (uint32_t a = 0; a < node->after_count; a++)
            edge_add(graph, profile->after[node->after_first + a], to);
    }
}

static void groups_fill(struct step_graph *graph, const struct tryst_profile *profile,
                        const tryst_profile_params *params, const struct joined *joined,
                        bool barrier)
{
    uint32_t n = profile->nodes_count, end = n + joined->count;
    for (uint32_t g = 0; g < joined->count; g++) {
        graph->nodes[n + g] = operation(joined->bytes[g], params);
        if (barrier)
            edge_add(graph, n + g, end);
    }
    for (uint32_t i = 0; i < n; i++)
        if (profile->nodes[i].is_operation)
            edge_add(graph, barrier ? end : n + joined->of[i], i);
}

tryst_status step_graph_open(struct tryst_profile *profile,
                             const tryst_profile_params *params,
                             const struct joined *joined, bool barrier, struct err *err,
                             uint32_t *cycle_p)
{
    struct step_graph graph = {0};
    size_t n = profile->nodes_count;
    size_t nodes_count = n + (joined ? joined->count + (size_t)barrier : 0);
    size_t edges_count = profile->after_count + (joined ? n + joined->count : 0);
    tryst_status status;
    if (graph_open(&graph, nodes_count, edges_count)) {
        profile_fill(&graph, profile, params, joined);
        if (joined)
            groups_fill(&graph, profile, params, joined, barrier);
        oracle_close(profile->oracle);
        status = oracle_open(graph.nodes, graph.nodes_count, graph.edges,
                             graph.edges_count, err, cycle_p, &profile->oracle);
    } else {
        status = err_set(err, TRYST_E_NOMEM, "cannot replay the profile: out of memory");
    }
    graph_close(&graph);
    return status;
}
