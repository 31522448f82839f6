/* SPDX-License-Identifier: Apache-2.0 */
#include "svg_layout.h"

#include <math.h>
#include <stdlib.h>

#include "svg_network.h"

#define PAD       14.0 /* inside a panel */
#define GAP       26.0 /* between panels */
#define TITLE     22.0 /* height of a panel's title */
#define DEPTH_MAX 64

/* Sizes by the number of columns: a screen is about 1,500 wide. */
static const struct scale {
    double leaves_max, cell, row, font;
} scales[] = {
    {20, 82, 66, 12}, {140, 30, 40, 9}, {1200, 10, 19, 0}, {INFINITY, 5, 12, 0}};

static uint32_t degree(const struct picture *picture, uint32_t node)
{
    return picture->at_first[node + 1] - picture->at_first[node];
}

/* True if the node is a network switch outside of machines, unless it has exactly one
 * wire: a network behind one port is a box below the port. */
static bool is_comb(const struct picture *picture, uint32_t node)
{
    return picture->nodes[node].kind == NODE_SWITCH && degree(picture, node) != 1 &&
           picture->nodes[node].machine == PICTURE_NONE;
}

uint32_t svg_comb_of(const struct svg_layout *layout, uint32_t node)
{
    uint32_t comb = 0;
    if (!layout->machines || !is_comb(layout->picture, node))
        return PICTURE_NONE;
    for (uint32_t i = 0; i < node; i++)
        comb += is_comb(layout->picture, i);
    return comb;
}

struct tool_svg_box svg_place_of(const struct svg_layout *layout, uint32_t node)
{
    if (layout->places[node].w == 0 &&
        layout->picture->nodes[node].parent != PICTURE_NONE)
        node = layout->picture->nodes[node].parent;
    return layout->places[node];
}

/* ---- in a machine ------------------------------------------------------------------ */

static bool in_tree(enum node_kind kind)
{
    return kind != NODE_RANK && kind != NODE_NV_SWITCH && kind != NODE_SWITCH;
}

/* Return the number of columns of a node and its descendants. */
static uint32_t leaves_of(const struct svg_layout *layout, uint32_t node, unsigned depth)
{
    uint32_t leaves = 0;
    for (uint32_t i = layout->first_child[node]; i != PICTURE_NONE && depth < DEPTH_MAX;
         i = layout->next_sibling[i])
        if (in_tree(layout->picture->nodes[i].kind))
            leaves += leaves_of(layout, i, depth + 1);
    return leaves ? leaves : 1;
}

/* Return the row of a kind: packages above NUMA nodes, host bridges, PCI switches,
 * devices. Rows that no machine uses take no space. */
static unsigned row_of(enum node_kind kind)
{
    static const unsigned rows[NODE_KINDS] = {
        [NODE_PACKAGE] = 0,    [NODE_NUMA] = 1, [NODE_HOST_BRIDGE] = 2,
        [NODE_PCI_SWITCH] = 3, [NODE_GPU] = 5,  [NODE_NIC] = 5};
    return rows[kind];
}

#define ROWS 6

/* Return the row of a node: the inner one of nested PCI switches is in row 4. */
static unsigned node_row(const struct picture *picture, uint32_t node)
{
    const struct picture_node *at = &picture->nodes[node];
    bool nested = at->kind == NODE_PCI_SWITCH && at->parent != PICTURE_NONE &&
                  picture->nodes[at->parent].kind == NODE_PCI_SWITCH;
    return row_of(at->kind) + nested;
}

/* Return the rows that some machine uses, as bits. */
static unsigned rows_used(const struct picture *picture)
{
    unsigned used = 0;
    for (uint32_t i = 0; i < picture->nodes_count; i++)
        if (in_tree(picture->nodes[i].kind) && picture->nodes[i].kind != NODE_MACHINE)
            used |= 1u << node_row(picture, i);
    return used;
}

static unsigned bits_below(unsigned bits, unsigned bit)
{
    unsigned count = 0;
    for (unsigned i = 0; i < bit; i++)
        count += bits >> i & 1;
    return count;
}

/* True if the node is a NUMA node with devices below: the devices' wires pass at its
 * right. */
static bool has_lane(const struct svg_layout *layout, uint32_t node)
{
    const struct picture_node *nodes = layout->picture->nodes;
    bool devices = false;
    for (uint32_t i = layout->first_child[node]; i != PICTURE_NONE;
         i = layout->next_sibling[i])
        devices = devices || in_tree(nodes[i].kind);
    return nodes[node].kind == NODE_NUMA && devices;
}

double svg_lane_x(const struct svg_layout *layout, uint32_t node, uint32_t above)
{
    uint32_t between = layout->picture->nodes[node].parent;
    if (between == PICTURE_NONE || between == above || !has_lane(layout, between))
        return NAN;
    return layout->places[between].x + layout->places[between].w + layout->cell * 0.08;
}

/* Compute a box's distances from the left and right end of its columns. */
static void box_margins(const struct svg_layout *layout, uint32_t node, uint32_t leaves,
                        double *left_p, double *right_p)
{
    enum node_kind kind = layout->picture->nodes[node].kind;
    double span = leaves * layout->cell, margin = layout->cell * 0.06;
    if (kind == NODE_PACKAGE && leaves > 1)
        margin = layout->cell * 0.2; /* room for the wire between packages */
    else if ((kind == NODE_HOST_BRIDGE || kind == NODE_PCI_SWITCH) && leaves > 2)
        margin = (span - layout->cell * 2.28) / 2;
    *left_p = margin;
    *right_p = has_lane(layout, node) ? layout->cell * 0.42 : margin;
}

/* Place a node's box over the columns from `x`, then its descendants. */
static void node_place(struct svg_layout *layout, uint32_t node, double x, double top,
                       unsigned used, unsigned depth)
{
    const struct picture *picture = layout->picture;
    enum node_kind kind = picture->nodes[node].kind;
    uint32_t leaves = leaves_of(layout, node, depth);
    if (kind != NODE_MACHINE) {
        double left, right;
        box_margins(layout, node, leaves, &left, &right);
        layout->places[node] = (struct tool_svg_box){
            .x = x + left,
            .y = top + bits_below(used, node_row(picture, node)) * layout->row,
            .w = leaves * layout->cell - left - right,
            .h = layout->row * 0.55};
    }
    for (uint32_t i = layout->first_child[node]; i != PICTURE_NONE && depth < DEPTH_MAX;
         i = layout->next_sibling[i]) {
        if (!in_tree(picture->nodes[i].kind))
            continue;
        node_place(layout, i, x, top, used, depth + 1);
        x += leaves_of(layout, i, depth + 1) * layout->cell;
    }
}

/* Place an NVLink switch as a bar under the devices that it joins. */
static void nv_switch_place(struct svg_layout *layout, uint32_t node, double y)
{
    const struct picture *picture = layout->picture;
    double left = INFINITY, right = -INFINITY;
    for (uint32_t i = picture->at_first[node]; i < picture->at_first[node + 1]; i++) {
        uint32_t other = picture_other(&picture->wires[picture->at[i]], node);
        struct tool_svg_box at = layout->places[other];
        left = at.w && at.x < left ? at.x : left;
        right = at.w && at.x + at.w > right ? at.x + at.w : right;
    }
    if (left < right)
        layout->places[node] =
            (struct tool_svg_box){left, y, right - left, layout->row * 0.3};
}

static bool any_kind(const struct picture *picture, enum node_kind kind)
{
    for (uint32_t i = 0; i < picture->nodes_count; i++)
        if (picture->nodes[i].kind == kind)
            return true;
    return false;
}

static void machine_place(struct svg_layout *layout, uint32_t machine, double x, double y,
                          double w, double h, unsigned used)
{
    double inner = leaves_of(layout, machine, 0) * layout->cell;
    double top = y + TITLE + PAD * 0.5;
    layout->places[machine] = (struct tool_svg_box){x, y, w, h};
    node_place(layout, machine, x + (w - inner) / 2, top, used, 0);
    top += bits_below(used, ROWS) * layout->row;
    for (uint32_t i = layout->first_child[machine]; i != PICTURE_NONE;
         i = layout->next_sibling[i])
        if (layout->picture->nodes[i].kind == NODE_NV_SWITCH)
            nv_switch_place(layout, i, top);
}

/* ---- machines and their networks --------------------------------------------------- */

double svg_bar_y(const struct svg_layout *layout, uint32_t machine, uint32_t comb)
{
    const struct tool_svg_box *panel = &layout->places[machine];
    return panel->y + panel->h + GAP + comb * layout->comb_gap;
}

/* Place each network behind one port: a box under its NIC, below the panel. */
static void plain_networks_place(struct svg_layout *layout)
{
    const struct picture *picture = layout->picture;
    for (uint32_t i = 0; i < picture->nodes_count; i++) {
        if (picture->nodes[i].kind != NODE_SWITCH || degree(picture, i) != 1)
            continue;
        uint32_t nic =
            picture_other(&picture->wires[picture->at[picture->at_first[i]]], i);
        uint32_t machine = picture->nodes[nic].machine;
        struct tool_svg_box at = layout->places[nic];
        if (machine == PICTURE_NONE || !at.w)
            continue;
        layout->places[i] = (struct tool_svg_box){at.x, svg_bar_y(layout, machine, 0),
                                                  at.w, layout->row * 0.4};
    }
}

/* Place each comb's spine: its top is the first bar. */
static void combs_place(struct svg_layout *layout)
{
    const struct picture *picture = layout->picture;
    uint32_t first = 0;
    while (picture->nodes[first].kind != NODE_MACHINE)
        first++;
    for (uint32_t i = 0; i < picture->nodes_count; i++) {
        uint32_t comb = svg_comb_of(layout, i);
        if (comb == PICTURE_NONE)
            continue;
        layout->places[i] =
            (struct tool_svg_box){layout->spine_x - comb * layout->comb_gap,
                                  svg_bar_y(layout, first, comb), 1, 1};
    }
}

static void machines_place(struct svg_layout *layout, uint32_t count,
                           uint32_t leaves_most)
{
    const struct picture *picture = layout->picture;
    unsigned used = rows_used(picture);
    double w = leaves_most * layout->cell + 2 * PAD;
    double h = TITLE + PAD + bits_below(used, ROWS) * layout->row +
               (any_kind(picture, NODE_NV_SWITCH) ? layout->row * 0.45 : 0);
    double below =
        layout->combs_count ? layout->combs_count * layout->comb_gap : layout->row * 0.4;
    double left =
        layout->combs_count * layout->comb_gap + (layout->combs_count ? GAP : 0);
    w = w > 96 ? w : 96; /* room for a title */
    if (any_kind(picture, NODE_SWITCH))
        below += 2 * GAP;
    else
        below = GAP;
    uint32_t columns = (uint32_t)ceil(sqrt(count * (h + below) / (w + GAP) * 1.7));
    columns = columns < 1 ? 1 : columns > count ? count : columns;
    for (uint32_t near = columns > 1 ? columns - 1 : 1; near <= columns + 1; near++)
        if (count % near == 0 && count % columns != 0)
            columns = near; /* one column more or less avoids an incomplete row */
    layout->columns = columns;
    layout->spine_x = left - GAP;
    uint32_t seen = 0;
    for (uint32_t i = 0; i < picture->nodes_count; i++) {
        if (picture->nodes[i].kind != NODE_MACHINE)
            continue;
        machine_place(layout, i, left + seen % columns * (w + GAP),
                      seen / columns * (h + below), w, h, used);
        seen++;
    }
    layout->width = left + columns * (w + GAP) - GAP;
    layout->height = (count + columns - 1) / columns * (h + below);
    plain_networks_place(layout);
    combs_place(layout);
}

/* ---- the whole --------------------------------------------------------------------- */

static void scale_choose(struct svg_layout *layout, double leaves)
{
    const struct scale *scale = scales;
    while (leaves > scale->leaves_max)
        scale++;
    layout->cell = scale->cell;
    layout->row = scale->row;
    layout->font = scale->font;
    layout->comb_gap = scale->font > 0 ? 16 : 9;
}

static void children_find(struct svg_layout *layout)
{
    const struct picture *picture = layout->picture;
    for (uint32_t i = 0; i < picture->nodes_count; i++)
        layout->first_child[i] = layout->next_sibling[i] = PICTURE_NONE;
    for (uint32_t i = picture->nodes_count; i-- > 0;) {
        uint32_t parent = picture->nodes[i].parent;
        if (parent == PICTURE_NONE)
            continue;
        layout->next_sibling[i] = layout->first_child[parent];
        layout->first_child[parent] = i;
    }
}

/* Allocate all arrays; those of numbers are one block. */
static bool arrays_make(struct svg_layout *layout)
{
    size_t count = (size_t)layout->picture->nodes_count + 1;
    uint32_t *block = calloc(6 * count, sizeof *block);
    layout->places = calloc(count, sizeof *layout->places);
    layout->first_child = block;
    if (!block || !layout->places) {
        svg_layout_close(layout);
        return false;
    }
    layout->next_sibling = block + count;
    layout->level = block + 2 * count;
    layout->hub = block + 3 * count;
    layout->seat = block + 4 * count;
    layout->hung = block + 5 * count;
    return true;
}

bool svg_layout_open(const struct picture *picture, struct svg_layout *layout)
{
    uint32_t machines = 0, leaves = 0, most = 0;
    *layout = (struct svg_layout){.picture = picture};
    if (!arrays_make(layout))
        return false;
    children_find(layout);
    for (uint32_t i = 0; i < picture->nodes_count; i++) {
        layout->combs_count += is_comb(picture, i);
        if (picture->nodes[i].kind != NODE_MACHINE)
            continue;
        uint32_t its = leaves_of(layout, i, 0);
        machines++;
        leaves += its;
        most = its > most ? its : most;
    }
    layout->machines = machines > 0;
    scale_choose(layout, machines ? leaves : picture->ranks_count);
    if (machines)
        machines_place(layout, machines, most);
    else
        svg_network_place(layout);
    return true;
}

void svg_layout_close(struct svg_layout *layout)
{
    free(layout->first_child);
    free(layout->places);
    *layout = (struct svg_layout){0};
}
