/* SPDX-License-Identifier: Apache-2.0 */
#include "svg_layout.h"

#include <math.h>
#include <string.h>

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

static uint32_t degree(const struct graph *graph, uint32_t node)
{
    return graph->out_first[node + 1] - graph->out_first[node];
}

/* True if the node is a network switch outside of machines, unless it has exactly one
 * link: a network behind one port is a box below the port. */
static bool is_comb(const struct graph *graph, uint32_t node)
{
    return graph->nodes[node].kind == NODE_SWITCH && degree(graph, node) != 1 &&
           graph_machine(graph, node) == GRAPH_NONE;
}

uint32_t svg_comb_of(const struct svg_layout *layout, uint32_t node)
{
    uint32_t comb = 0;
    if (!layout->machines || !is_comb(layout->graph, node))
        return GRAPH_NONE;
    for (uint32_t i = 0; i < node; i++)
        comb += is_comb(layout->graph, i);
    return comb;
}

struct svg_place svg_place_of(const struct svg_layout *layout, uint32_t node)
{
    if (layout->places[node].w == 0 && layout->graph->nodes[node].parent != GRAPH_NONE)
        node = layout->graph->nodes[node].parent;
    return layout->places[node];
}

/* ---- in a machine ------------------------------------------------------------------ */

static bool in_tree(enum graph_node_kind kind)
{
    return kind != NODE_RANK && kind != NODE_NV_SWITCH && kind != NODE_SWITCH;
}

/* Return the number of columns of a node and its descendants. */
static uint32_t leaves_of(const struct svg_layout *layout, uint32_t node, unsigned depth)
{
    uint32_t leaves = 0;
    for (uint32_t i = layout->first_child[node]; i != GRAPH_NONE && depth < DEPTH_MAX;
         i = layout->next_sibling[i])
        if (in_tree(layout->graph->nodes[i].kind))
            leaves += leaves_of(layout, i, depth + 1);
    return leaves ? leaves : 1;
}

/* Return the row of a kind: packages above NUMA nodes, host bridges, PCI switches,
 * devices. Rows that no machine uses take no space. */
static unsigned row_of(enum graph_node_kind kind)
{
    static const unsigned rows[NODE_KINDS] = {
        [NODE_PACKAGE] = 0,    [NODE_NUMA] = 1, [NODE_HOST_BRIDGE] = 2,
        [NODE_PCI_SWITCH] = 3, [NODE_GPU] = 5,  [NODE_NIC] = 5};
    return rows[kind];
}

#define ROWS 6

/* Return the row of a node: the inner one of nested PCI switches is in row 4. */
static unsigned node_row(const struct graph *graph, uint32_t node)
{
    const struct graph_node *at = &graph->nodes[node];
    bool nested = at->kind == NODE_PCI_SWITCH && at->parent != GRAPH_NONE &&
                  graph->nodes[at->parent].kind == NODE_PCI_SWITCH;
    return row_of(at->kind) + nested;
}

/* Return the rows that some machine uses, as bits. */
static unsigned rows_used(const struct graph *graph)
{
    unsigned used = 0;
    for (uint32_t i = 0; i < graph->nodes_count; i++)
        if (in_tree(graph->nodes[i].kind) && graph->nodes[i].kind != NODE_MACHINE)
            used |= 1u << node_row(graph, i);
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
    const struct graph_node *nodes = layout->graph->nodes;
    bool devices = false;
    for (uint32_t i = layout->first_child[node]; i != GRAPH_NONE;
         i = layout->next_sibling[i])
        devices = devices || in_tree(nodes[i].kind);
    return nodes[node].kind == NODE_NUMA && devices;
}

double svg_lane_x(const struct svg_layout *layout, uint32_t node, uint32_t above)
{
    uint32_t between = layout->graph->nodes[node].parent;
    if (between == GRAPH_NONE || between == above || !has_lane(layout, between))
        return NAN;
    return layout->places[between].x + layout->places[between].w + layout->cell * 0.08;
}

/* Compute a box's distances from the left and right end of its columns. */
static void box_margins(const struct svg_layout *layout, uint32_t node, uint32_t leaves,
                        double *left_p, double *right_p)
{
    enum graph_node_kind kind = layout->graph->nodes[node].kind;
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
    const struct graph *graph = layout->graph;
    enum graph_node_kind kind = graph->nodes[node].kind;
    uint32_t leaves = leaves_of(layout, node, depth);
    if (kind != NODE_MACHINE) {
        double left, right;
        box_margins(layout, node, leaves, &left, &right);
        layout->places[node] = (struct svg_place){
            .x = x + left,
            .y = top + bits_below(used, node_row(graph, node)) * layout->row,
            .w = leaves * layout->cell - left - right,
            .h = layout->row * 0.55};
    }
    for (uint32_t i = layout->first_child[node]; i != GRAPH_NONE && depth < DEPTH_MAX;
         i = layout->next_sibling[i]) {
        if (!in_tree(graph->nodes[i].kind))
            continue;
        node_place(layout, i, x, top, used, depth + 1);
        x += leaves_of(layout, i, depth + 1) * layout->cell;
    }
}

/* Place an NVLink switch as a bar under the devices that it joins. */
static void nv_switch_place(struct svg_layout *layout, uint32_t node, double y)
{
    const struct graph *graph = layout->graph;
    double left = INFINITY, right = -INFINITY;
    for (uint32_t i = graph->out_first[node]; i < graph->out_first[node + 1]; i++) {
        struct svg_place at = layout->places[graph->links[graph->out_next[i]].to];
        left = at.w && at.x < left ? at.x : left;
        right = at.w && at.x + at.w > right ? at.x + at.w : right;
    }
    if (left < right)
        layout->places[node] =
            (struct svg_place){left, y, right - left, layout->row * 0.3};
}

static bool any_kind(const struct graph *graph, enum graph_node_kind kind)
{
    for (uint32_t i = 0; i < graph->nodes_count; i++)
        if (graph->nodes[i].kind == kind)
            return true;
    return false;
}

static void machine_place(struct svg_layout *layout, uint32_t machine, double x, double y,
                          double w, double h, unsigned used)
{
    double inner = leaves_of(layout, machine, 0) * layout->cell;
    double top = y + TITLE + PAD * 0.5;
    layout->places[machine] = (struct svg_place){x, y, w, h};
    node_place(layout, machine, x + (w - inner) / 2, top, used, 0);
    top += bits_below(used, ROWS) * layout->row;
    for (uint32_t i = layout->first_child[machine]; i != GRAPH_NONE;
         i = layout->next_sibling[i])
        if (layout->graph->nodes[i].kind == NODE_NV_SWITCH)
            nv_switch_place(layout, i, top);
}

/* ---- machines and their networks --------------------------------------------------- */

double svg_bar_y(const struct svg_layout *layout, uint32_t machine, uint32_t comb)
{
    const struct svg_place *panel = &layout->places[machine];
    return panel->y + panel->h + GAP + comb * layout->comb_gap;
}

/* Place each network behind one port: a box under its NIC, below the panel. */
static void plain_networks_place(struct svg_layout *layout)
{
    const struct graph *graph = layout->graph;
    for (uint32_t i = 0; i < graph->nodes_count; i++) {
        if (graph->nodes[i].kind != NODE_SWITCH || degree(graph, i) != 1)
            continue;
        uint32_t nic = graph->links[graph->out_next[graph->out_first[i]]].to;
        uint32_t machine = graph_machine(graph, nic);
        struct svg_place at = layout->places[nic];
        if (machine == GRAPH_NONE || !at.w)
            continue;
        layout->places[i] = (struct svg_place){at.x, svg_bar_y(layout, machine, 0), at.w,
                                               layout->row * 0.4};
    }
}

/* Place each comb's spine: its top is the first bar. */
static void combs_place(struct svg_layout *layout)
{
    const struct graph *graph = layout->graph;
    uint32_t first = 0;
    while (graph->nodes[first].kind != NODE_MACHINE)
        first++;
    for (uint32_t i = 0; i < graph->nodes_count; i++) {
        uint32_t comb = svg_comb_of(layout, i);
        if (comb == GRAPH_NONE)
            continue;
        layout->places[i] = (struct svg_place){layout->spine_x - comb * layout->comb_gap,
                                               svg_bar_y(layout, first, comb), 1, 1};
    }
}

static void machines_place(struct svg_layout *layout, uint32_t count,
                           uint32_t leaves_most)
{
    const struct graph *graph = layout->graph;
    unsigned used = rows_used(graph);
    double w = leaves_most * layout->cell + 2 * PAD;
    double h = TITLE + PAD + bits_below(used, ROWS) * layout->row +
               (any_kind(graph, NODE_NV_SWITCH) ? layout->row * 0.45 : 0);
    double below =
        layout->combs_count ? layout->combs_count * layout->comb_gap : layout->row * 0.4;
    double left =
        layout->combs_count * layout->comb_gap + (layout->combs_count ? GAP : 0);
    w = w > 96 ? w : 96; /* room for a title */
    if (any_kind(graph, NODE_SWITCH))
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
    for (uint32_t i = 0; i < graph->nodes_count; i++) {
        if (graph->nodes[i].kind != NODE_MACHINE)
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

tryst_status svg_layout_open(const struct graph *graph, struct svg_layout *layout)
{
    size_t count = (size_t)graph->nodes_count + 1;
    uint32_t machines = 0, leaves = 0, most = 0;
    *layout = (struct svg_layout){.graph = graph};
    layout->places = arrays_alloc(&layout->arrays, count, sizeof *layout->places);
    layout->first_child = arrays_alloc(&layout->arrays, count, sizeof(uint32_t));
    layout->next_sibling = arrays_alloc(&layout->arrays, count, sizeof(uint32_t));
    if (layout->arrays.status) {
        svg_layout_close(layout);
        return TRYST_E_NOMEM;
    }
    graph_children(graph, layout->first_child, layout->next_sibling);
    for (uint32_t i = 0; i < graph->nodes_count; i++) {
        layout->combs_count += is_comb(graph, i);
        if (graph->nodes[i].kind != NODE_MACHINE)
            continue;
        uint32_t its = leaves_of(layout, i, 0);
        machines++;
        leaves += its;
        most = its > most ? its : most;
    }
    layout->machines = machines > 0;
    scale_choose(layout, machines ? leaves : graph->ranks_count);
    if (machines)
        machines_place(layout, machines, most);
    else if (svg_network_place(layout) != TRYST_OK) {
        svg_layout_close(layout);
        return TRYST_E_NOMEM;
    }
    return TRYST_OK;
}

void svg_layout_close(struct svg_layout *layout)
{
    arrays_free(&layout->arrays);
    *layout = (struct svg_layout){0};
}
