/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which rank computes on which device of a machine: those that talk most, over the best wires.
 *
 * One idea: an arrangement is as good as its worst link between ranks that talk, then its second worst, and so on;
 * links are ordered by what they are (NVLink, one PCIe switch, several, a host bridge, a package, the socket beyond) and
 * then by bandwidth. So wherever numbers are unknown the order still is the one that hardware has.
 * Invariants: a pure function of graph, devices and pairs: every process of a machine that asks the same gets the
 * same. Ranks that share a device are neighbours, and shares differ by one rank at most. Of arrangements that are as
 * good the first in the devices' own order is taken. Effort is counted, not timed.
 * Callers: topo_place.c.
 */
#ifndef TRYST_TOPOLOGY_PLACE_H
#define TRYST_TOPOLOGY_PLACE_H

#include "topology/base/path.h"

/* Two ranks that talk, and how much (by any measure, above 0). */
struct place_pair {
    uint32_t a, b, weight;
};

struct place_ask {
    const struct graph *graph; /* sealed; NULL: nothing is known */
    const uint32_t *nodes;     /* [devices] in the graph, GRAPH_NONE: not there */
    uint32_t devices_count, ranks_count; /* at least 1 */
    const struct place_pair *pairs;      /* NULL: each rank with the next, weight 1 */
    uint32_t pairs_count;
};

/* Links of a kind and width, and how many of the asked for pairs (by weight) go over them. */
struct place_links {
    struct path path; /* one of them; hops GRAPH_NONE: no way, or unknown */
    uint32_t chosen;  /* in this arrangement */
    uint32_t in_turn; /* had the devices been taken in their own order */
};

struct place {
    uint32_t *devices;         /* [ranks] */
    struct place_links *links; /* best first; those over which nothing goes too */
    uint32_t links_count;
    uint32_t unknown_count; /* devices that the graph does not have */
    bool in_order;          /* the devices' own order was taken */
};

/** TRYST_E_NOMEM. */
tryst_status place_decide(const struct place_ask *ask, struct place *place_p);
void place_drop(struct place *place);

/** The node with a PCI address, however it is written ("00000000:3B:00.0"); GRAPH_NONE. */
uint32_t place_node(const struct graph *graph, const char *bus_id);

#endif
