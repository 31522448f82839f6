/* SPDX-License-Identifier: Apache-2.0 */
/* See bind_decide.h. */
#include "bind_decide.h"

#include "core/memory/alloc.h"
#include "topology/base/graph_path.h"

/* Return the nearest NIC to a node, except over a network; of several equally near NICs,
 * number `turn` modulo their count. GRAPH_NONE: there is none. */
static uint32_t nic_choose(const struct graph *graph, const struct graph_path *paths,
                           uint32_t turn)
{
    uint32_t network = 1u << WIRE_ETHERNET | 1u << WIRE_INFINIBAND;
    uint32_t least = GRAPH_NONE, count = 0;
    for (uint32_t i = 0; i < graph->nodes_count; i++) {
        if (graph->nodes[i].kind != NODE_NIC || paths[i].kinds & network ||
            paths[i].hops > least || paths[i].hops == GRAPH_NONE)
            continue;
        count = paths[i].hops < least ? 1 : count + 1;
        least = paths[i].hops;
    }
    for (uint32_t i = 0; count && i < graph->nodes_count; i++)
        if (graph->nodes[i].kind == NODE_NIC && !(paths[i].kinds & network) &&
            paths[i].hops == least && turn-- % count == 0)
            return i;
    return GRAPH_NONE;
}

/* Read the processors of the innermost node around a device that lists processors.
 * Returns false if no node does, or its list is malformed. */
static bool cpus_near(const struct graph *graph, uint32_t node, struct index_set *cpus_p)
{
    while (node != GRAPH_NONE && !graph->nodes[node].cpus)
        node = graph->nodes[node].parent;
    return node != GRAPH_NONE && index_set_parse(graph->nodes[node].cpus, cpus_p);
}

/* Choose the processors near `node` that the process may use. Returns false if these are
 * fewer than two. */
static bool cpus_choose(const struct graph *graph, uint32_t node,
                        const struct index_set *given, struct index_set *cpus_p)
{
    struct index_set near;
    if (node == GRAPH_NONE || !cpus_near(graph, node, &near))
        return false;
    index_set_meet(&near, given);
    if (index_set_count(&near) < 2) /* a single processor would be the rank's own */
        return false;
    *cpus_p = near;
    return true;
}

tryst_status bind_decide(const struct graph *graph, uint32_t rank,
                         const struct index_set *given, struct bind_choice *choice_p)
{
    struct bind_choice choice = {.nic = GRAPH_NONE};
    struct graph_path *paths =
        mem_zalloc_array((size_t)graph->nodes_count + 1, sizeof *paths);
    uint32_t node = graph->ranks[rank];
    tryst_status status = paths ? graph_path_find(graph, node, paths) : TRYST_E_NOMEM;
    if (status == TRYST_OK) {
        choice.nic = nic_choose(graph, paths, rank);
        if (!cpus_choose(graph, choice.nic, given, &choice.cpus)) {
            bool second = cpus_choose(graph, node, given, &choice.cpus);
            choice.why =
                second ? "near the rank, fewer than two usable ones are near the NIC"
                       : "fewer than two usable processors near the NIC and the rank";
        }
        *choice_p = choice;
    }
    mem_free(paths);
    return status;
}
