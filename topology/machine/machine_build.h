/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Build nodes and links of a graph from a machine's description.
 */
#ifndef TRYST_TOPOLOGY_MACHINE_MACHINE_BUILD_H
#define TRYST_TOPOLOGY_MACHINE_MACHINE_BUILD_H

#include "machine.h"

/** The builder's names, and what the builder adds to the machine. */
struct machine_build {
    const char *prefix; /**< precedes every name: "" for a single machine, "node3/" */
    /** Add ranks: one at each GPU; without GPUs one at each NUMA node with cores; else
     *  one. */
    bool ranks;
    /** A node to which all ports lead; GRAPH_NONE: each port gets its own network. */
    uint32_t network;
};

/** Add the machine to `graph`, and set `node` of each PCI device in `machine`. A name in
 *  use gets a number ("eth0#2"). TRYST_E_NOMEM; TRYST_E_INVALID: the graph rejects a
 *  part. */
tryst_status machine_build(struct graph *graph, struct machine *machine,
                           const struct machine_build *build, struct err *err);

/** Add the next rank ("rank<number>") at `node`. */
tryst_status machine_rank_add(struct graph *graph, uint32_t node, struct err *err);

#endif
