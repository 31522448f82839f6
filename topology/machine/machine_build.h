/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a machine's description to nodes and links of a graph.
 * Callers: detection, the importers of hwloc's and NCCL's XML, synthetic.
 */
#ifndef TRYST_TOPOLOGY_MACHINE_BUILD_H
#define TRYST_TOPOLOGY_MACHINE_BUILD_H

#include "machine.h"

/* How the builder names, and what it adds beside the machine. */
struct machine_build {
    const char *prefix; /* stands before every name: "" for a machine alone, "node3/" */
    bool ranks; /* one at each GPU, without GPUs one at each NUMA node that has cores */
    uint32_t
        network; /* a node that all ports lead to; GRAPH_NONE: each to a network of its own */
};

/** Adds the machine to `graph`, and writes each PCI device's node into its description. A name that is
 *  taken gets a number behind it ("eth0#2"). TRYST_E_NOMEM, TRYST_E_INVALID (what the graph does not take). */
tryst_status machine_build(struct graph *graph, struct machine *machine,
                           const struct machine_build *build, struct err *err);

/** The next rank ("rank<number>"), at `node`. */
tryst_status machine_rank_add(struct graph *graph, uint32_t node, struct err *err);

#endif
