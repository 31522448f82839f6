/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph: machines and networks as nodes and directed links.
 *
 * One idea: hardware of every source (detected, probed, imported, synthetic) is described
 * by one plain structure, so a machine that you do not own is a file, and a file is a
 * test.
 * Invariants: links are directed; each wire has at most one graph_link per direction;
 * parallel wires are separate links. An unknown number is GRAPH_UNKNOWN, never 0. Node
 * names are unique. Node and link numbers are stable: nothing is removed, a dead link is
 * `down`. Nodes stay in the order of their addition; `graph_seal` moves no node and no
 * link: it checks the graph and builds the adjacency.
 * Threads: one while the graph is built; any thread may read a sealed graph.
 */
#ifndef TRYST_TOPOLOGY_BASE_GRAPH_H
#define TRYST_TOPOLOGY_BASE_GRAPH_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/text/err.h"

#define GRAPH_NONE    UINT32_MAX /* no node, no link, no rank */
#define GRAPH_UNKNOWN (-1.0)     /* an unknown bandwidth or latency */
/** A bandwidth that never limits, such as that of an attachment (WIRE_ATTACH). */
#define GRAPH_UNLIMITED INFINITY

enum graph_node_kind {
    NODE_MACHINE,
    NODE_PACKAGE,
    NODE_NUMA,
    NODE_HOST_BRIDGE, /**< where PCI leaves a package */
    NODE_PCI_SWITCH,
    NODE_GPU,
    NODE_NIC,
    NODE_SWITCH,    /**< network switch: Ethernet, InfiniBand */
    NODE_NV_SWITCH, /**< NVLink switch inside a machine */
    NODE_RANK,      /**< routes begin and end at ranks and never pass through one */
    NODE_KINDS
};

enum graph_link_kind {
    WIRE_UNKNOWN,
    /** No wire: a rank at its GPU or NUMA node, a host bridge at its package. */
    WIRE_ATTACH,
    WIRE_MEMORY,
    WIRE_UPI, /**< between packages: UPI, Infinity Fabric, X-Bus */
    WIRE_PCI,
    WIRE_NVLINK,
    WIRE_C2C,
    WIRE_ETHERNET,
    WIRE_INFINIBAND,
    WIRE_KINDS
};

/** The source of a number, from the least to the most reliable. */
enum graph_origin {
    ORIGIN_NONE,
    ORIGIN_TABLE,    /**< of link_table.h: typical for links of this kind */
    ORIGIN_IMPORTED, /**< from a file */
    ORIGIN_DETECTED, /**< reported by this machine (hwloc, sysfs, a driver) */
    ORIGIN_MEASURED, /**< by a probe */
    ORIGINS
};

struct graph_number {
    /** A bandwidth in bytes/s, or a latency in ns; GRAPH_UNKNOWN or, for a bandwidth
     *  only, GRAPH_UNLIMITED. */
    double value;
    enum graph_origin origin;
};

struct graph_node {
    const char *name; /**< unique, not empty, UTF-8; owned by the graph */
    enum graph_node_kind kind;
    /** The enclosing node (a NUMA node in a package in a machine), or GRAPH_NONE. */
    uint32_t parent;
    /** The system's number of a NUMA node, package or GPU; GRAPH_NONE: other kinds, or
     *  unknown. */
    uint32_t os_index;
    const char *label; /**< a model or an interface, for people; NULL: none */
    const char *pci;   /**< PCI address ("0000:3b:00.0"); NULL: none */
    const char *cpus;  /**< processors, listed as in /sys ("0-3,8"); NULL: none */
};

struct graph_link {
    uint32_t from, to;
    enum graph_link_kind kind;
    uint16_t generation; /**< of PCI (1…6) or NVLink (1…5); 0: unknown, or none */
    uint16_t width; /**< number of PCI lanes or parallel NVLinks; 0: unknown, or none */
    bool down;      /**< the link is treated as absent */
    struct graph_number bytes_per_s;
    struct graph_number latency_ns;
};

/** A route that the source of the graph gives: from the rank at node `from`, through the
 *  nodes `via` in order, to the rank at node `to`. */
struct graph_route {
    uint32_t from, to;
    uint32_t via_count;
    const uint32_t *via;
};

/** A device or a link of the source that the graph omits. */
struct graph_skip {
    const char *what; /**< the device or link, such as "0000:03:00.0" */
    const char *why;  /**< the reason, a phrase for people */
};

struct graph {
    struct graph_node *nodes;
    struct graph_link *links;
    struct graph_route *routes;
    struct graph_skip *skips;
    uint32_t *ranks; /**< rank number → node (of kind NODE_RANK) */
    /** After seal: the links that leave `node` are out_next[i], out_first[node] <= i <
     *  out_first[node + 1]. */
    uint32_t *out_next;
    uint32_t *out_first;
    uint32_t nodes_count, links_count, routes_count, skips_count, ranks_count;
    bool sealed;
    struct graph_private *own; /**< of graph.c: room of arrays, rank numbers, names */
};

/** Make an empty graph. Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status graph_open(struct graph **graph_p);
void graph_close(struct graph *graph);

/** Add a node; the strings of `node` are copied. A NODE_RANK gets the next rank number.
 *  `node_p` may be NULL. TRYST_E_NOMEM; TRYST_E_INVALID with a message in `err`: an empty
 *  or duplicate name, an unknown kind, or a parent that does not exist. */
tryst_status graph_node_add(struct graph *graph, const struct graph_node *node,
                            struct err *err, uint32_t *node_p);
/** Add a link; `link_p` may be NULL. TRYST_E_NOMEM; TRYST_E_INVALID: ends that do not
 *  exist or are equal; an unknown kind or origin; a bandwidth that is NaN, 0 or below; a
 *  latency that is NaN, below 0 or above 1e18 ns. GRAPH_UNKNOWN is valid for both
 *  numbers. */
tryst_status graph_link_add(struct graph *graph, const struct graph_link *link,
                            struct err *err, uint32_t *link_p);
/** Add a wire: `link` and, as the next link, its reverse with the same numbers. Returns
 *  as graph_link_add; on failure neither link is added. */
tryst_status graph_wire_add(struct graph *graph, const struct graph_link *link,
                            struct err *err);
/** Add a given route; `via` is copied. TRYST_E_NOMEM; TRYST_E_INVALID: ends that are not
 *  two different ranks, a node that does not exist, or a rank in `via`. */
tryst_status graph_route_add(struct graph *graph, const struct graph_route *route,
                             struct err *err);

/** Add a skip; both strings are copied. Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status graph_skip_add(struct graph *graph, const struct graph_skip *skip,
                            struct err *err);

/** Build the adjacency and check the given routes; nothing may be added after TRYST_OK.
 *  TRYST_E_NOMEM; TRYST_E_INVALID: a given route that takes a missing link, passes a node
 *  twice or is given twice. After an error the graph is open as before: it may be added
 *  to or closed. */
tryst_status graph_seal(struct graph *graph, struct err *err);

/** Return the node named `name`; GRAPH_NONE: no node has this name. */
uint32_t graph_find(const struct graph *graph, const char *name);
/** Return the machine that contains `node` or is `node`; GRAPH_NONE: the node is in no
 *  machine. */
uint32_t graph_machine(const struct graph *graph, uint32_t node);
/** Return the other direction of the wire that begins with `link`: the next link, if this
 *  link joins the same two nodes backwards and has the same kind and `down`. NULL: `link`
 *  has no other direction. */
const struct graph_link *graph_back(const struct graph *graph, uint32_t link);
/** Return the first link of the wire after the one that begins with `link`: a loop from 0
 *  visits each wire once. */
uint32_t graph_wire_next(const struct graph *graph, uint32_t link);
/** Write the first child of each node and the next sibling of each node, in order of
 *  number; GRAPH_NONE ends a list. Both arrays have room for nodes_count + 1; nodes
 *  without a parent are children of nodes_count. */
void graph_children(const struct graph *graph, uint32_t *first_child_p,
                    uint32_t *next_sibling_p);
/** Return the rank number of a node; GRAPH_NONE where the node is not a rank. */
uint32_t graph_rank_of(const struct graph *graph, uint32_t node);

const char *graph_node_kind_name(enum graph_node_kind kind);
const char *graph_link_kind_name(enum graph_link_kind kind);
const char *graph_origin_name(enum graph_origin origin);

#endif
