/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way between two devices, for people: how far, how wide, through what.
 *
 * One idea: the same rule as for routes (fewest links, then widest; never through a rank), but for any
 * pair of nodes and with unknown numbers left unknown, so that a machine can be shown before it is measured.
 * Callers: the writers for people (tree, matrix), bind, place.
 */
#ifndef TRYST_TOPOLOGY_PATH_H
#define TRYST_TOPOLOGY_PATH_H

#include "graph.h"

struct path {
    uint32_t hops;      /* GRAPH_NONE: no way */
    uint32_t last_link; /* the one that it arrives by; GRAPH_NONE at the source */
    double bytes_per_s; /* GRAPH_UNKNOWN when one on the way is; GRAPH_UNLIMITED */
    double
        latency_ns; /* the sum; GRAPH_UNKNOWN when one on the way is (WIRE_ATTACH counts 0) */
    uint32_t kinds; /* bit k: a link of enum graph_link_kind k */
    uint16_t pci_switches,
        host_bridges; /* passed through; a package counts as a bridge of its own */
    uint16_t width;   /* least width of an NVLink on the way, 0: none known */
};

/** The paths from `from` to every node, one for each of nodes_count. The graph is sealed. TRYST_E_NOMEM. */
tryst_status path_find(const struct graph *graph, uint32_t from, struct path *paths);

/** The same by ways that a device's copy engine takes: through bridges, packages and switches of the machine, never
 *  through another device or a network. TRYST_E_NOMEM. */
tryst_status path_find_direct(const struct graph *graph, uint32_t from,
                              struct path *paths);

/* What a path goes over, by its worst part. */
enum path_kind {
    PATH_NONE,   /* no way */
    PATH_NET,    /* a network, or wires of unknown kind: a cluster file's, a probe's */
    PATH_SYS,    /* between packages */
    PATH_NODE,   /* within a package, between its host bridges */
    PATH_PHB,    /* one host bridge */
    PATH_PXN,    /* NVLinks and PCIe */
    PATH_PXB,    /* several PCIe switches */
    PATH_PIX,    /* one PCIe switch */
    PATH_C2C,    /* chip to chip */
    PATH_NVLINK, /* NVLinks alone */
    PATH_LOC,    /* no wire */
};
enum path_kind path_kind_of(const struct path *path);

/** nvidia-smi's and NCCL's word for a path: NV18, PXN, C2C, PIX, PXB, PHB, NODE, SYS; NET through a network; LOC; "-". */
const char *path_word(const struct path *path, char word_p[8]);

#endif
