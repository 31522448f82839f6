/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The path between two nodes, for people and for placing: hops, bandwidth, and the kinds
 * of links.
 *
 * One idea: a path follows the rule of routes (fewest links, then widest; never through a
 * rank), but its ends may be any nodes and its numbers may be unknown, so a machine can
 * be shown before it is measured.
 */
#ifndef TRYST_TOPOLOGY_BASE_GRAPH_PATH_H
#define TRYST_TOPOLOGY_BASE_GRAPH_PATH_H

#include "graph.h"

struct graph_path {
    uint32_t hops;      /**< number of links; GRAPH_NONE: no path */
    uint32_t last_link; /**< the path's last link; GRAPH_NONE at the source */
    /** Bandwidth of the narrowest link; GRAPH_UNKNOWN if that of any link is unknown;
     *  GRAPH_UNLIMITED if no link limits. */
    double bytes_per_s;
    /** Sum over the links; GRAPH_UNKNOWN if that of any link is unknown (a WIRE_ATTACH of
     *  unknown latency counts as 0). */
    double latency_ns;
    uint32_t kinds; /**< bit k: the path has a link of enum graph_link_kind k */
    /** Numbers of such nodes between the ends; a package counts as a host bridge. */
    uint16_t pci_switches, host_bridges;
    uint16_t width; /**< least width of the NVLinks; 0: unknown, or none */
};

/** Find the paths from `from` to every node; `paths` has nodes_count entries. The graph
 *  is sealed. Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status graph_path_find(const struct graph *graph, uint32_t from,
                             struct graph_path *paths);

/** Find the paths that a device's copy engine can take: through bridges, packages and
 *  PCIe or NVLink switches of the machine, never through another device or a network
 *  switch. Otherwise as graph_path_find. */
tryst_status graph_path_find_direct(const struct graph *graph, uint32_t from,
                                    struct graph_path *paths);

/** The kind of a path, given by its worst part. */
enum path_kind {
    PATH_NONE, /**< no path */
    /** A network, or wires of unknown kind (from a cluster file or a probe). */
    PATH_NET,
    PATH_SYS,    /**< between packages */
    PATH_NODE,   /**< within a package, between its host bridges */
    PATH_PHB,    /**< one host bridge */
    PATH_PXN,    /**< NVLinks and PCIe */
    PATH_PXB,    /**< several PCIe switches */
    PATH_PIX,    /**< one PCIe switch */
    PATH_C2C,    /**< chip to chip */
    PATH_NVLINK, /**< NVLinks alone */
    PATH_LOC,    /**< no wire */
};
enum path_kind graph_path_kind(const struct graph_path *path);

/** Write nvidia-smi's and NCCL's word for a path: NV18, PXN, C2C, PIX, PXB, PHB, NODE,
 *  SYS; NET through a network; LOC; "-" where there is no path. Return `word_p`. */
const char *graph_path_word(const struct graph_path *path, char word_p[8]);

#endif
