/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph of a cluster (cluster_graph.h).
 *
 * Idea: each machine is a description with one port, which the builder of
 * topology/machine adds to the graph.
 */
#include "cluster_graph.h"

#include <stdio.h>

#include "topology/base/graph.h"
#include "topology/machine/machine_build.h"
#include "topology/sized/tree_cost.h"

struct making {
    const struct planner_cluster *cluster;
    struct graph *graph;
    struct err *err;
};

static const struct graph_number unknown = MACHINE_UNKNOWN;

static tryst_status machine_add(const struct making *making, uint32_t m, uint32_t network)
{
    const struct planner_machine *from = &making->cluster->machines[m];
    struct machine machine = MACHINE_INIT;
    char prefix[32];
    snprintf(prefix, sizeof prefix, "machine%u/", m);
    const struct machine_build build = {.prefix = prefix, .network = network};
    struct machine_port *port = machine_port_add(&machine);
    tryst_status status = port ? TRYST_OK : TRYST_E_NOMEM;
    if (port) {
        port->name = "nic";
        port->kind = WIRE_ETHERNET;
        port->bytes_per_s = (struct graph_number){
            (double)from->bytes_per_s, from->rate_known ? ORIGIN_DETECTED : ORIGIN_NONE};
        port->latency_ns = unknown;
        status = machine_build(making->graph, &machine, &build, making->err);
    }
    machine_drop(&machine);
    return status;
}

static tryst_status rank_add(const struct making *making, uint32_t rank)
{
    uint32_t m = making->cluster->machine_of[rank];
    char name[32];
    snprintf(name, sizeof name, "machine%u", m);
    uint32_t at = graph_find(making->graph, name);
    if (making->cluster->machines[m].ranks == 1)
        return machine_rank_add(making->graph, at, making->err);
    snprintf(name, sizeof name, "rank%u", rank);
    const struct graph_node node = {
        .name = name, .kind = NODE_RANK, .parent = at, .os_index = GRAPH_NONE};
    struct graph_link link = {.to = at,
                              .kind = WIRE_MEMORY,
                              .bytes_per_s = {PLAN_HOST_BYTES_PER_S, ORIGIN_TABLE},
                              .latency_ns = unknown};
    tryst_status status = graph_node_add(making->graph, &node, making->err, &link.from);
    return status ? status : graph_wire_add(making->graph, &link, making->err);
}

static tryst_status graph_fill(struct making *making)
{
    const struct graph_node network = {.name = "switch",
                                       .kind = NODE_SWITCH,
                                       .parent = GRAPH_NONE,
                                       .os_index = GRAPH_NONE};
    uint32_t node;
    tryst_status status = graph_open(&making->graph);
    if (!status)
        status = graph_node_add(making->graph, &network, making->err, &node);
    for (uint32_t m = 0; !status && m < making->cluster->machines_count; m++)
        status = machine_add(making, m, node);
    for (uint32_t rank = 0; !status && rank < making->cluster->ranks_count; rank++)
        status = rank_add(making, rank);
    return status ? status : graph_seal(making->graph, making->err);
}

tryst_status cluster_graph_build(const struct planner_cluster *cluster, struct err *err,
                                 struct graph **graph_p)
{
    struct making making = {.cluster = cluster, .err = err};
    tryst_status status = graph_fill(&making);
    if (status == TRYST_OK) {
        *graph_p = making.graph;
        return status;
    }
    graph_close(making.graph);
    return status == TRYST_E_NOMEM
               ? err_set(err, status,
                         "cannot plan collectives for %u ranks: out of memory",
                         cluster->ranks_count)
               : status;
}
