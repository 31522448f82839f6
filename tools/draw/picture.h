/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The content of a picture: a topology and the first trees of a plan, as arrays.
 *
 * One idea: tryst/topo.h is read once, into plain arrays, so no call of the code that
 * draws can fail.
 * Invariant: texts and trees belong to the topology and the plan, which outlive the
 * picture.
 */
#ifndef TRYST_TOOLS_DRAW_PICTURE_H
#define TRYST_TOOLS_DRAW_PICTURE_H

#include <stdbool.h>
#include <stdint.h>

#include <tryst/topo.h>

#define PICTURE_NONE UINT32_MAX /* no node */
enum { PICTURE_TREES_MAX = 8 };

enum node_kind {
    NODE_MACHINE,
    NODE_PACKAGE,
    NODE_NUMA,
    NODE_HOST_BRIDGE,
    NODE_PCI_SWITCH,
    NODE_GPU,
    NODE_NIC,
    NODE_SWITCH,
    NODE_NV_SWITCH,
    NODE_RANK,
    NODE_KINDS
};

enum wire_kind {
    WIRE_UNKNOWN,
    WIRE_ATTACH, /**< no wire: a rank at its GPU, a host bridge at its package */
    WIRE_MEMORY,
    WIRE_UPI,
    WIRE_PCI,
    WIRE_NVLINK,
    WIRE_C2C,
    WIRE_ETHERNET,
    WIRE_INFINIBAND,
    WIRE_KINDS
};

struct picture_style {
    const char *kind; /**< in tryst/topo.h */
    const char *title, *colour;
};

extern const struct picture_style node_styles[NODE_KINDS], wire_styles[WIRE_KINDS];

struct picture_node {
    const char *name, *short_name, *label, *pci, *cpus;
    enum node_kind kind;
    uint32_t parent, machine; /**< PICTURE_NONE: none */
};

/** A link in one direction, or the two links of a wire. */
struct picture_wire {
    uint32_t from, to;
    enum wire_kind kind;
    double bytes_per_s; /**< below 0: unknown; INFINITY: no limit */
    bool down, two_way;
    uint32_t turn; /**< number of earlier wires between the same two nodes */
    char text[TRYST_LINK_TEXT_BYTES];
};

struct picture {
    struct picture_node *nodes;
    struct picture_wire *wires;
    uint32_t *ranks; /**< by rank number: the node */
    /** The wires at `node` are at[i], at_first[node] <= i < at_first[node + 1]. */
    uint32_t *at_first, *at;
    uint32_t nodes_count, wires_count, ranks_count;
    double widest, narrowest; /**< bandwidths in bytes/s; widest -1: none is known */
    tryst_plan_tree trees[PICTURE_TREES_MAX]; /**< the first trees of the plan */
    uint32_t trees_count, trees_all;          /**< in `trees`; in the plan */
    uint32_t members_count;                   /**< ranks of the plan */
};

/** Read a topology and the trees of `plan` (NULL: none). False: out of memory. */
bool picture_open(const tryst_topo *topo, const tryst_plan *plan,
                  struct picture *picture);
void picture_close(struct picture *picture);

/** Return the other end of a wire at `node`. */
static inline uint32_t picture_other(const struct picture_wire *wire, uint32_t node)
{
    return wire->from == node ? wire->to : wire->from;
}

/** Return the rank at index `member` of a tree's group. */
static inline uint32_t picture_member(const tryst_plan_tree *tree, uint32_t member)
{
    return tree->ranks ? (uint32_t)tree->ranks[member] : member;
}

/** Return the colour of a tree. */
const char *picture_tree_colour(uint32_t tree);

#endif
