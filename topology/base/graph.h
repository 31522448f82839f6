/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one graph: machines and networks as nodes and directed links.
 *
 * One idea: whatever is known of the hardware, from wherever it comes (detected, probed, imported,
 * made up), is in one plain structure, so that a machine that one does not own is a file, and a file
 * is a test.
 * Invariants: links are directed and there is at most one graph_link for a wire and a direction;
 * parallel wires are links of their own. A number that nobody knows is GRAPH_UNKNOWN, never 0. Names
 * are unique among nodes. Node and link numbers are stable: nothing is removed, a dead link is `down`.
 * Nodes stand in the order in which they were added; `graph_seal` sorts nothing, it checks and
 * builds the adjacency.
 * Threads: none of its own; a sealed graph is only read.
 * Callers: readers of machines and of files (build); routes, plan, place, writers (read).
 */
#ifndef TRYST_TOPOLOGY_GRAPH_H
#define TRYST_TOPOLOGY_GRAPH_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/text/err.h"

#define GRAPH_NONE    UINT32_MAX /* no node, no link, no rank */
#define GRAPH_UNKNOWN (-1.0)     /* a bandwidth or a latency that nobody knows */
#define GRAPH_UNLIMITED \
    INFINITY /* a bandwidth that never limits (a rank at its own core set) */

enum graph_node_kind {
    NODE_MACHINE,
    NODE_PACKAGE,
    NODE_NUMA,
    NODE_HOST_BRIDGE, /* where PCI leaves a package */
    NODE_PCI_SWITCH,
    NODE_GPU,
    NODE_NIC,
    NODE_SWITCH,    /* of a network: Ethernet, InfiniBand */
    NODE_NV_SWITCH, /* of NVLinks inside a machine */
    NODE_RANK,      /* an end: routes begin and end here and never pass through */
    NODE_KINDS
};

enum graph_link_kind {
    WIRE_UNKNOWN,
    WIRE_ATTACH, /* a rank at its core set or GPU; a NUMA node in its package: no wire */
    WIRE_MEMORY,
    WIRE_UPI, /* between packages: UPI, Infinity Fabric, X-Bus */
    WIRE_PCI,
    WIRE_NVLINK,
    WIRE_C2C,
    WIRE_ETHERNET,
    WIRE_INFINIBAND,
    WIRE_KINDS
};

/* Where a number comes from, worst first: a better origin replaces a worse one. */
enum graph_origin {
    ORIGIN_NONE,
    ORIGIN_TABLE,    /* what links of that kind do */
    ORIGIN_IMPORTED, /* a file's word */
    ORIGIN_DETECTED, /* this machine's word (hwloc, sysfs, a driver) */
    ORIGIN_MEASURED, /* a probe */
    ORIGINS
};

struct graph_number {
    double value; /* bytes/s or ns; GRAPH_UNKNOWN; GRAPH_UNLIMITED for a bandwidth only */
    enum graph_origin origin;
};

struct graph_node {
    const char *name; /* unique, not empty, UTF-8; the graph's */
    enum graph_node_kind kind;
    uint32_t
        parent; /* what it sits in (a NUMA node in a package in a machine), or GRAPH_NONE */
    uint32_t os_index; /* NUMA node, package, GPU: the system's number, or GRAPH_NONE */
    const char *label; /* for people: a model, an interface; NULL: none */
    const char *pci;   /* "0000:3b:00.0"; NULL: none */
    const char *cpus;  /* a list as in /sys ("0-3,8"); NULL: none */
};

struct graph_link {
    uint32_t from, to;
    enum graph_link_kind kind;
    uint16_t generation; /* PCI 1…6, NVLink 1…5; 0: unknown or has none */
    uint16_t width;      /* PCI lanes, NVLinks side by side; 0: unknown or has none */
    bool down;           /* as if it were not there */
    struct graph_number bytes_per_s;
    struct graph_number latency_ns;
};

/* A route that was given instead of found: from `from` to `to` (ranks) through `via`. */
struct graph_route {
    uint32_t from, to;
    uint32_t via_count;
    const uint32_t *via;
};

/* A device or a link of the source that the graph leaves out. */
struct graph_skip {
    const char *what; /* "0000:03:00.0" */
    const char *why;  /* a phrase for people */
};

struct graph {
    struct graph_node *nodes;
    struct graph_link *links;
    struct graph_route *routes;
    struct graph_skip *skips;
    uint32_t *ranks; /* rank number → node (of kind NODE_RANK) */
    uint32_t *
        out_next; /* after seal: out_first[node] … out_first[node + 1] index out_next: links */
    uint32_t *out_first;
    uint32_t nodes_count, links_count, routes_count, skips_count, ranks_count;
    bool sealed;
    struct graph_private *own; /* room, names, the index of names */
};

/** An empty graph. TRYST_E_NOMEM. */
tryst_status graph_open(struct graph **graph_p);
void graph_close(struct graph *graph);

/** Copies what `node` points to. Adds a rank's number when it is of NODE_RANK. TRYST_E_NOMEM;
 *  TRYST_E_INVALID with a sentence: a name twice, empty, or a parent that is not there. */
tryst_status graph_node_add(struct graph *graph, const struct graph_node *node,
                            struct err *err, uint32_t *node_p);
/** TRYST_E_INVALID: ends that are not there or equal, a bandwidth that is NaN, 0 or below, a latency
 *  that is NaN or below 0 (but GRAPH_UNKNOWN). */
tryst_status graph_link_add(struct graph *graph, const struct graph_link *link,
                            struct err *err, uint32_t *link_p);
/** Both directions alike; the second link follows the first. */
tryst_status graph_wire_add(struct graph *graph, const struct graph_link *link,
                            struct err *err);
/** Copies `via`. TRYST_E_INVALID: ends that are no ranks, a rank between. */
tryst_status graph_route_add(struct graph *graph, const struct graph_route *route,
                             struct err *err);

/** Copies both texts. TRYST_E_NOMEM. */
tryst_status graph_skip_add(struct graph *graph, const struct graph_skip *skip,
                            struct err *err);

/** Nothing is added afterwards (numbers of links may still be improved): builds the adjacency.
 *  TRYST_E_NOMEM; TRYST_E_INVALID: a given route that takes a link that is not there, passes a node twice or is
 *  there twice. A graph that was refused may be added to, or closed. */
tryst_status graph_seal(struct graph *graph, struct err *err);

/** By name; GRAPH_NONE. */
uint32_t graph_find(const struct graph *graph, const char *name);
/** The machine that a node sits in or is; GRAPH_NONE. */
uint32_t graph_machine(const struct graph *graph, uint32_t node);
/** The next link, where it is the other direction of the wire `link`; NULL. */
const struct graph_link *graph_back(const struct graph *graph, uint32_t link);
/** The first link of the wire that follows the one that begins with `link`: a loop from 0 meets each wire once. */
uint32_t graph_wire_next(const struct graph *graph, uint32_t link);
/** What sits in each node, in order: its first, and of each the next in the same; GRAPH_NONE ends. Both have room for
 *  nodes_count + 1; what sits in nothing hangs at nodes_count. */
void graph_children(const struct graph *graph, uint32_t *first_child_p,
                    uint32_t *next_sibling_p);
/** The rank number of a node, GRAPH_NONE where it is no rank. */
uint32_t graph_rank_of(const struct graph *graph, uint32_t node);

const char *graph_node_kind_name(enum graph_node_kind kind);
const char *graph_link_kind_name(enum graph_link_kind kind);
const char *graph_origin_name(enum graph_origin origin);

#endif
