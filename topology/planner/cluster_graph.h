/* SPDX-License-Identifier: Apache-2.0 */
/** @file cluster_graph.h
 *  The machines of a group as a graph.
 *
 *      rank0 ─┐
 *      rank1 ─┴─ machine ─── NIC ─── switch ─── NIC ─── machine ─── rank2
 *           memory     no limit    rate    rate    no limit    no limit: one rank
 *
 *  - The switch has no limit. The link of a NIC of an assumed rate has ORIGIN_NONE.
 *  - Each rank of several on a machine has a memory link at the rate of an edge inside a
 *    machine (PLAN_HOST_BYTES_PER_S, measured). A rank alone on its machine has no limit
 *    there, since a memory link would hide the rate of a fast NIC.
 *  - Latencies are unknown, as for machines read from hwloc. That of an edge inside a
 *    machine, 0.5 us with the engine's work (tests/perf/host_edge.sh), is less than the
 *    two slices that the price of a hop counts (tree_cost.h).
 */
#ifndef TRYST_TOPOLOGY_PLANNER_CLUSTER_GRAPH_H
#define TRYST_TOPOLOGY_PLANNER_CLUSTER_GRAPH_H

#include "collectives/plan/planner.h"

/** Build the graph, which is sealed; machines keep their numbers in the names of nodes.
 *  Returns TRYST_OK, or TRYST_E_NOMEM with a text. */
tryst_status cluster_graph_build(const struct planner_cluster *cluster, struct err *err,
                                 struct graph **graph_p);

#endif
