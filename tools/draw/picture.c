/* SPDX-License-Identifier: Apache-2.0 */
/* See picture.h. Most wires have colours of Okabe and Ito's set, which is distinct for
 * every colour vision. */
#include "picture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct picture_style node_styles[NODE_KINDS] = {
    [NODE_MACHINE] = {"machine", "machine", "#ffffff"},
    [NODE_PACKAGE] = {"package", "package", "#f3f4f6"},
    [NODE_NUMA] = {"numa", "NUMA node", "#e3edf7"},
    [NODE_HOST_BRIDGE] = {"host-bridge", "host bridge", "#eceff1"},
    [NODE_PCI_SWITCH] = {"pci-switch", "PCIe switch", "#e4e7ea"},
    [NODE_GPU] = {"gpu", "GPU", "#d5efe3"},
    [NODE_NIC] = {"nic", "NIC", "#fdeccb"},
    [NODE_SWITCH] = {"switch", "network switch", "#f9e0d2"},
    [NODE_NV_SWITCH] = {"nv-switch", "NVLink switch", "#c3e6d6"},
    [NODE_RANK] = {"rank", "rank", "#ffffff"}};

const struct picture_style wire_styles[WIRE_KINDS] = {
    [WIRE_UNKNOWN] = {"unknown", "link", "#8a8f98"},
    [WIRE_ATTACH] = {"attach", "", "#c4c8ce"},
    [WIRE_MEMORY] = {"memory", "memory", "#56b4e9"},
    [WIRE_UPI] = {"upi", "between packages", "#0072b2"},
    [WIRE_PCI] = {"pci", "PCIe", "#6b7280"},
    [WIRE_NVLINK] = {"nvlink", "NVLink", "#009e73"},
    [WIRE_C2C] = {"c2c", "C2C", "#8fbc3f"},
    [WIRE_ETHERNET] = {"ethernet", "Ethernet", "#e69f00"},
    [WIRE_INFINIBAND] = {"infiniband", "InfiniBand", "#d55e00"}};

/* Return the row of a kind; the tables have every kind of tryst/topo.h. */
static int kind_find(const struct picture_style *styles, int count, const char *kind)
{
    int row = count - 1;
    while (row > 0 && strcmp(styles[row].kind, kind) != 0)
        row--;
    return row;
}

static bool nodes_read(const tryst_topo *topo, struct picture *picture)
{
    for (uint32_t i = 0; i < picture->nodes_count; i++) {
        tryst_topo_node node = {.struct_size = sizeof node};
        if (tryst_topo_node_get(topo, (int)i, &node) != TRYST_OK)
            return false;
        int kind = kind_find(node_styles, NODE_KINDS, node.kind);
        picture->nodes[i] = (struct picture_node){.name = node.name,
                                                  .short_name = node.short_name,
                                                  .label = node.label,
                                                  .pci = node.pci,
                                                  .cpus = node.cpus,
                                                  .kind = (enum node_kind)kind,
                                                  .parent = (uint32_t)node.parent,
                                                  .machine = (uint32_t)node.machine};
        if (kind == NODE_RANK)
            picture->ranks[picture->ranks_count++] = i;
    }
    return true;
}

static bool wires_read(const tryst_topo *topo, int links, struct picture *picture)
{
    bool second = false; /* the link is the second one of a wire */
    for (int i = 0; i < links; i++) {
        tryst_topo_link link = {.struct_size = sizeof link};
        if (tryst_topo_link_get(topo, i, &link) != TRYST_OK)
            return false;
        if (link.bytes_per_s > 0)
            picture->narrowest = fmin(picture->narrowest, link.bytes_per_s);
        if (isfinite(link.bytes_per_s))
            picture->widest = fmax(picture->widest, link.bytes_per_s);
        second = !second && i > 0 && picture->wires[picture->wires_count - 1].two_way;
        if (second)
            continue;
        struct picture_wire *wire = &picture->wires[picture->wires_count++];
        int kind = kind_find(wire_styles, WIRE_KINDS, link.kind);
        *wire = (struct picture_wire){.from = (uint32_t)link.from,
                                      .to = (uint32_t)link.to,
                                      .kind = (enum wire_kind)kind,
                                      .bytes_per_s = link.bytes_per_s,
                                      .down = link.down,
                                      .two_way = link.two_way};
        memcpy(wire->text, link.text, sizeof wire->text);
    }
    return true;
}

/* List the wires by their ends: a counting sort, which keeps their order. */
static void wires_sort(struct picture *picture)
{
    /* by node: where its wires begin in `at`; after the fill, where they end */
    uint32_t *first = picture->at_first + 1;
    for (uint32_t i = 0; i < picture->wires_count; i++) {
        first[picture->wires[i].from + 1]++;
        first[picture->wires[i].to + 1]++;
    }
    for (uint32_t i = 0; i < picture->nodes_count; i++)
        first[i + 1] += first[i];
    for (uint32_t i = 0; i < picture->wires_count; i++) {
        picture->at[first[picture->wires[i].from]++] = i;
        picture->at[first[picture->wires[i].to]++] = i;
    }
}

static void turns_count(struct picture *picture)
{
    for (uint32_t i = 0; i < picture->wires_count; i++) {
        struct picture_wire *wire = &picture->wires[i];
        const uint32_t *at = &picture->at[picture->at_first[wire->from]];
        for (; *at < i; at++)
            wire->turn += picture_other(&picture->wires[*at], wire->from) == wire->to;
    }
}

static void trees_read(const tryst_plan *plan, struct picture *picture)
{
    tryst_plan_info info = {.struct_size = sizeof info};
    if (!plan || tryst_plan_info_get(plan, &info) != TRYST_OK)
        return;
    picture->trees_all = (uint32_t)info.trees_count;
    picture->members_count = (uint32_t)info.ranks_count;
    for (int t = 0; t < info.trees_count && t < PICTURE_TREES_MAX; t++) {
        picture->trees[t].struct_size = sizeof *picture->trees;
        (void)tryst_plan_tree_get(plan, t, &picture->trees[t]);
        picture->trees_count++;
    }
}

bool picture_open(const tryst_topo *topo, const tryst_plan *plan, struct picture *picture)
{
    size_t nodes = (size_t)tryst_topo_nodes(topo), links = (size_t)tryst_topo_links(topo);
    *picture = (struct picture){.nodes = calloc(nodes + 1, sizeof *picture->nodes),
                                .wires = calloc(links + 1, sizeof *picture->wires),
                                .ranks = calloc(nodes + 1, sizeof(uint32_t)),
                                .at_first = calloc(nodes + 2, sizeof(uint32_t)),
                                .at = calloc(2 * links + 1, sizeof(uint32_t)),
                                .nodes_count = (uint32_t)nodes,
                                .widest = -1,
                                .narrowest = INFINITY};
    if (!picture->nodes || !picture->wires || !picture->ranks || !picture->at_first ||
        !picture->at || !nodes_read(topo, picture) ||
        !wires_read(topo, (int)links, picture)) {
        picture_close(picture);
        return false;
    }
    wires_sort(picture);
    turns_count(picture);
    trees_read(plan, picture);
    return true;
}

void picture_close(struct picture *picture)
{
    free(picture->nodes);
    free(picture->wires);
    free(picture->ranks);
    free(picture->at_first);
    free(picture->at);
    *picture = (struct picture){0};
}

const char *picture_tree_colour(uint32_t tree)
{
    static const char *const colours[PICTURE_TREES_MAX] = {
        "#cc3d8f", "#3f5bd6", "#12a0a0", "#b8860b",
        "#7a3fc0", "#c0392b", "#2e7d32", "#5d4037"};
    return colours[tree];
}
