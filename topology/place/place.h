/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Place ranks on the devices of a machine: the ranks that communicate most get the best
 * links.
 *
 * One idea: an arrangement is as good as its worst link between ranks that communicate,
 * then its second worst, and so on; links are ordered by kind (NVLink, one PCIe switch,
 * several, a host bridge, a package, another socket) and then by bandwidth. So the order
 * is the hardware's even where numbers are unknown.
 * Invariants: a pure function of graph, devices and pairs, so all processes of a machine
 * get equal results. Ranks that share a device are neighbours, and the numbers of ranks
 * on two devices differ by at most one. Of equally good arrangements the first in the
 * devices' own order is chosen. Effort is counted, not timed.
 */
#ifndef TRYST_TOPOLOGY_PLACE_PLACE_H
#define TRYST_TOPOLOGY_PLACE_PLACE_H

#include "topology/base/graph_path.h"

/** Two ranks that communicate; `weight` is the amount in any unit, at least 1. */
struct place_pair {
    uint32_t a, b, weight;
};

struct place_request {
    const struct graph *graph; /**< sealed; NULL: no topology is known */
    /** [devices]: the device's node in the graph; GRAPH_NONE: the graph lacks the
     *  device */
    const uint32_t *nodes;
    uint32_t devices_count, ranks_count; /**< at least 1 */
    const struct place_pair *pairs;      /**< NULL: each rank with the next, weight 1 */
    uint32_t pairs_count;
};

/** The links of one kind and bandwidth, and the summed weight of the pairs that use
 *  them. */
struct place_links {
    struct graph_path path; /**< one of them; hops GRAPH_NONE: no path, or unknown */
    uint32_t chosen;        /**< weight in this arrangement */
    uint32_t in_turn;       /**< weight if the devices were used in their own order */
};

struct place {
    uint32_t *devices;         /**< [ranks]: number of the rank's device */
    struct place_links *links; /**< best first; includes links that no pair uses */
    uint32_t links_count;
    uint32_t unknown_count; /**< number of devices that the graph lacks */
    bool in_order;          /**< the devices are used in their own order */
};

/** Compute the arrangement; the caller frees it by place_drop. Returns TRYST_OK or
 *  TRYST_E_NOMEM. */
tryst_status place_decide(const struct place_request *ask, struct place *place_p);
void place_drop(struct place *place);

/** Return the node with a PCI address, in any notation ("00000000:3B:00.0");
 *  GRAPH_NONE: no node has it. */
uint32_t place_node(const struct graph *graph, const char *bus_id);

#endif
