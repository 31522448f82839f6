/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draw a graph as SVG: machines as panels, devices as boxes, wires with width by
 * bandwidth and colour by kind (dashed where the bandwidth is unknown), a plan's trees as
 * arrows. Every box and wire has a tooltip. svg_layout.c computes the places.
 */
#include "graph_svg.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/text/text.h"
#include "style.h"
#include "svg_network.h"
#include "svg_trees.h"
#include "topology/base/graph_describe.h"

#define MARGIN     28.0
#define HEAD       34.0 /* height of the lines above the drawing */
#define LEGEND_ROW 20.0
#define TREES_MAX  8
#define XY         "%.1f %.1f"
#define PATH       "<path fill=\"none\" d=\"M" XY

struct svg {
    const struct graph *graph;
    struct text *text;
    /* numbers on wires, appended after all wires so that no wire covers a number */
    struct text plates;
    struct svg_layout layout;
    const struct graph_overlaid *overlaid;
    double top;  /* y of the drawing on the page */
    double most; /* widest finite bandwidth */
};

/* ---- primitives -------------------------------------------------------------------- */

static void box(struct svg *svg, struct svg_place at, const char *fill, const char *edge,
                double round)
{
    text_addf(svg->text,
              "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%.1f\" "
              "fill=\"%s\" stroke=\"%s\">",
              at.x, at.y, at.w, at.h, round, fill, edge);
}

/* Draw a text; `anchor` is start, middle or end; `halo` draws white behind the
 * letters. */
static void label(struct svg *svg, double x, double y, double size, const char *anchor,
                  const char *colour, bool halo, const char *words)
{
    text_addf(svg->text,
              "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%.1f\" text-anchor=\"%s\" "
              "fill=\"%s\"%s>",
              x, y, size, anchor, colour, halo ? " class=\"halo\"" : "");
    text_add_xml(svg->text, words);
    text_add(svg->text, "</text>\n");
}

/* Free `words`; a failure is kept in svg->text. */
static void words_drop(struct svg *svg, struct text *words)
{
    svg->text->failed = svg->text->failed || words->failed;
    text_drop(words);
}

static double centre(struct svg_place at)
{
    return at.x + at.w / 2;
}

/* True if a sans-serif text probably fits into `width`. */
static bool fits(const char *words, double size, double width)
{
    return strlen(words) * size * 0.56 <= width;
}

/* ---- boxes ------------------------------------------------------------------------- */

/* Draw the longest label that fits: the name, else its number ("gpu12": "12"), else
 * nothing. */
static void box_label(struct svg *svg, uint32_t node, double x, double y, double size,
                      double width)
{
    const char *name = node_short_name(svg->graph, node);
    if (strncmp(name, "net:", 4) == 0) /* "net:mlx5_0": the network behind port mlx5_0 */
        name = fits(name + 4, size, width) ? name + 4 : "network";
    if (!fits(name, size, width)) {
        const char *digits = name + strlen(name);
        while (digits > name && digits[-1] >= '0' && digits[-1] <= '9')
            digits--;
        name = digits;
    }
    if (*name && fits(name, size, width))
        label(svg, x, y, size, "middle", "#1f2933", false, name);
}

/* Draw the node's label (a model) in small letters under its name, cut to the box;
 * nothing for a narrow box. */
static void box_small(struct svg *svg, const struct graph_node *node, struct svg_place at,
                      double size)
{
    char words[96];
    if (!node->label)
        return;
    size_t room = (size_t)(at.w / (size * 0.56));
    if (room < 12)
        return;
    size_t kept = strlen(node->label);
    if (kept > room || kept >= sizeof words)
        kept = text_cut(node->label, room < sizeof words ? room : sizeof words - 1);
    memcpy(words, node->label, kept);
    words[kept] = '\0';
    label(svg, centre(at), at.y + at.h * 0.5 + size * 1.15, size, "middle", "#66707c",
          false, words);
}

static void title(struct svg *svg, uint32_t number)
{
    const struct graph_node *node = &svg->graph->nodes[number];
    const char *const parts[] = {node->label, node->pci, node->cpus};
    text_add(svg->text, "<title>");
    text_add_xml(svg->text, node->name);
    text_addf(svg->text, ", %s", node_kind_title(node->kind));
    for (int i = 0; i < 3; i++) {
        if (!parts[i])
            continue;
        text_add(svg->text, i == 2 ? ", cpus " : ", ");
        text_add_xml(svg->text, parts[i]);
    }
    text_add(svg->text, "</title></rect>\n");
}

static void node_draw(struct svg *svg, uint32_t number)
{
    const struct graph_node *node = &svg->graph->nodes[number];
    struct svg_place at = svg->layout.places[number];
    double font = svg->layout.font;
    if (!at.w || node->kind == NODE_MACHINE ||
        svg_comb_of(&svg->layout, number) != GRAPH_NONE)
        return;
    bool device =
        node->kind == NODE_GPU || node->kind == NODE_NIC || node->kind == NODE_RANK;
    box(svg, at, style_node_fill(node->kind), device ? "#4b5563" : "#9aa3ad",
        at.h / (device ? 5 : 8));
    title(svg, number);
    bool two_lines = font >= 12 && node->label && at.w > font * 8;
    double x = node->kind == NODE_NV_SWITCH ? fmin(centre(at), at.x + 2.5 * font)
                                            : centre(at); /* left of the first wire */
    if (font > 0)
        box_label(svg, number, x, at.y + at.h / 2 + (two_lines ? -1 : font * 0.36), font,
                  at.w - 4);
    if (two_lines)
        box_small(svg, node, at, font * 0.78);
}

/* Draw the NVLink switches (`bars`), before the wires, since wires of NICs cross them; or
 * all other nodes, after the wires. */
static void nodes_draw(struct svg *svg, bool bars)
{
    for (uint32_t i = 0; i < svg->graph->nodes_count; i++)
        if ((svg->graph->nodes[i].kind == NODE_NV_SWITCH) == bars)
            node_draw(svg, i);
}

static void panel_draw(struct svg *svg, uint32_t machine)
{
    struct svg_place at = svg->layout.places[machine];
    const struct graph_node *node = &svg->graph->nodes[machine];
    box(svg, at, "#fbfcfd", "#cbd2d9", 8);
    title(svg, machine);
    label(svg, at.x + 12, at.y + 16, 12, "start", "#1f2933", false, node->name);
    if (node->label &&
        fits(node->label, 11, at.w - 30 - 7.0 * (double)strlen(node->name)))
        label(svg, at.x + at.w - 12, at.y + 16, 11, "end", "#66707c", false, node->label);
}

/* Draw a rank's number at the corner of its parent's box. */
static void rank_draw(struct svg *svg, uint32_t rank)
{
    uint32_t node = svg->graph->ranks[rank];
    struct svg_place at = svg_place_of(&svg->layout, node);
    double size = svg->layout.font * 0.75;
    char words[16];
    if (svg->layout.places[node].w || !at.w || size <= 0)
        return;
    snprintf(words, sizeof words, "%u", rank);
    double w = size * 0.62 * (double)strlen(words) + size * 0.7, h = size * 1.35;
    if (w > at.w)
        return;
    struct svg_place badge = {at.x + at.w - w * 0.7, at.y - h * 0.55, w, h};
    box(svg, badge, "#1f2933", "#ffffff", h / 2);
    text_addf(svg->text, "<title>rank %u</title></rect>\n", rank);
    label(svg, centre(badge), badge.y + h * 0.5 + size * 0.36, size, "middle", "#ffffff",
          false, words);
}

/* ---- wires ------------------------------------------------------------------------- */

static double wire_width(const struct svg *svg, const struct graph_link *link)
{
    double font = svg->layout.font;
    double width = style_link_width(link->bytes_per_s.value, svg->most);
    return font >= 12 ? width : font > 0 ? 0.6 * width : 0.35 * width;
}

/* True if wires have numbers: beside them or, without machines, on them. */
static bool has_numbers(const struct svg *svg)
{
    return svg->layout.font >= 12 &&
           (svg->layout.machines || svg->graph->nodes_count <= 24);
}

/* End the path of a wire: its stroke and tooltip. */
static void wire_end(struct svg *svg, const struct graph_link *link,
                     const struct graph_link *back)
{
    bool dashed = link->down ||
                  (link->bytes_per_s.value == GRAPH_UNKNOWN && link->kind != WIRE_ATTACH);
    text_addf(svg->text, "\" stroke=\"%s\" stroke-width=\"%.1f\"%s><title>",
              link->down ? "#d1d5db" : style_link_colour(link->kind),
              wire_width(svg, link), dashed ? " stroke-dasharray=\"4 3\"" : "");
    text_add_xml(svg->text, svg->graph->nodes[link->from].name);
    text_add(svg->text, back ? " - " : " to ");
    text_add_xml(svg->text, svg->graph->nodes[link->to].name);
    text_add(svg->text, ": ");
    describe_link(svg->text, link, back);
    text_add(svg->text, "</title></path>\n");
}

static void rate_label(struct svg *svg, const struct graph_link *link, double x, double y,
                       const char *anchor)
{
    struct text words = {0};
    if (svg->layout.font < 12 || link->bytes_per_s.value == GRAPH_UNLIMITED)
        return;
    describe_rate(&words, link->bytes_per_s.value);
    if (words.data)
        label(svg, x, y, 9, anchor, "#52606d", true, words.data);
    words_drop(svg, &words);
}

/* Draw the number on a wire, with a white box behind it, since the wire would show
 * between the digits. */
static void rate_plate(struct svg *svg, const struct graph_link *link, double x, double y)
{
    struct text words = {0}, *below = svg->text;
    double size = 9;
    if (svg->layout.font < 12 || link->bytes_per_s.value == GRAPH_UNLIMITED)
        return;
    svg->text = &svg->plates;
    describe_rate(&words, link->bytes_per_s.value);
    if (words.data) {
        double w = (double)strlen(words.data) * size * 0.62 + 5;
        text_addf(svg->text,
                  "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"2\" "
                  "fill=\"#ffffff\"/>",
                  x - w / 2, y - size * 0.68, w, size * 1.36);
        label(svg, x, y + size * 0.36, size, "middle", "#52606d", false, words.data);
    }
    svg->text = below;
    words_drop(svg, &words);
}

/* Draw a wire from the top of a box up to a box above, past the boxes between them. */
static void up_draw(struct svg *svg, const struct graph_link *link,
                    const struct graph_link *back, uint32_t from, uint32_t above)
{
    struct svg_place low = svg->layout.places[from], high = svg->layout.places[above];
    double shift = link->kind == WIRE_C2C ? low.w * 0.3 : 0, x = centre(low) + shift;
    double lane = svg_lane_x(&svg->layout, from, above), to = isnan(lane) ? x : lane;
    double bend = high.y + high.h + (low.y - high.y - high.h) * 0.3;
    double corner = fmin(3, svg->layout.cell * 0.1);
    if (to <= high.x + corner || to >= high.x + high.w - corner)
        to = centre(high) + shift;
    /* past unused rows: bend just above the box */
    if (low.y - bend > svg->layout.row)
        bend = low.y - svg->layout.row * 0.3;
    text_addf(svg->text, PATH, x, low.y);
    if (to != x)
        text_addf(svg->text, "L" XY "L" XY, x, bend, to, bend);
    text_addf(svg->text, "L" XY, to, high.y + high.h);
    wire_end(svg, link, back);
    if (link->kind != WIRE_ATTACH)
        rate_label(svg, link, x + 4, low.y - 4, "start");
}

/* Draw a wire straight down to a bar, with white borders, because it may cross other
 * wires. */
static void down_draw(struct svg *svg, const struct graph_link *link,
                      const struct graph_link *back, struct svg_place from, double y)
{
    double x = centre(from);
    text_addf(svg->text,
              "<path fill=\"none\" class=\"halo\" d=\"M" XY "L" XY
              "\" stroke=\"#ffffff\" stroke-width=\"%.1f\"/>\n",
              x, from.y + from.h, x, y, wire_width(svg, link) + 3);
    text_addf(svg->text, PATH "L" XY, x, from.y + from.h, x, y);
    wire_end(svg, link, back);
    rate_label(svg, link, x + 5, from.y + from.h + 11, "start");
}

/* Draw a wire between boxes of one row: straight for UPI between
 * neighbours, else an arc: below the row for NVLink, above for others. */
static void side_draw(struct svg *svg, const struct graph_link *link,
                      const struct graph_link *back, struct svg_place a,
                      struct svg_place b)
{
    if (a.x > b.x) {
        struct svg_place swap = a;
        a = b;
        b = swap;
    }
    double gap = b.x - a.x - a.w, y = a.y + a.h / 2;
    if (link->kind == WIRE_UPI && gap < svg->layout.cell) {
        text_addf(svg->text, PATH "L" XY, a.x + a.w, y, b.x, y);
        wire_end(svg, link, back);
        rate_label(svg, link, a.x + a.w + gap / 2, y - 5, "middle");
        return;
    }
    bool below = link->kind == WIRE_NVLINK;
    double edge = below ? a.y + a.h : a.y;
    double bow = (below ? 1 : -1) * (6 + (centre(b) - centre(a)) * 0.16);
    text_addf(svg->text, PATH "Q" XY " " XY, centre(a), edge, (centre(a) + centre(b)) / 2,
              edge + bow, centre(b), edge);
    wire_end(svg, link, back);
}

/* Draw a curve of the layout, with its number at two fifths of the way. */
static void curve_draw(struct svg *svg, const struct graph_link *link,
                       const struct graph_link *back, struct svg_curve at)
{
    text_addf(svg->text, PATH "Q" XY " " XY, at.ax, at.ay, at.cx, at.cy, at.bx, at.by);
    wire_end(svg, link, back);
    if (has_numbers(svg))
        rate_plate(svg, link, at.ax * 0.36 + at.cx * 0.48 + at.bx * 0.16,
                   at.ay * 0.36 + at.cy * 0.48 + at.by * 0.16);
}

/* Return the arc between two combs, above the tops of their spines. */
static struct svg_curve comb_arc(struct svg_place a, struct svg_place b, uint32_t turn)
{
    double above = 10 + fabs(a.x - b.x) * 0.5 + turn * 8;
    return (struct svg_curve){a.x, a.y, (a.x + b.x) / 2, fmin(a.y, b.y) - above,
                              b.x, b.y};
}

static void link_draw(struct svg *svg, uint32_t number, uint32_t turn)
{
    const struct svg_layout *layout = &svg->layout;
    const struct graph_link *link = &svg->graph->links[number];
    const struct graph_link *back = graph_back(svg->graph, number);
    uint32_t from = link->from, to = link->to;
    if (svg_comb_of(layout, from) != GRAPH_NONE) {
        from = link->to;
        to = link->from;
    }
    struct svg_place a = layout->places[from], b = layout->places[to];
    uint32_t comb = svg_comb_of(layout, to), machine = graph_machine(svg->graph, from);
    if (!a.w || (!b.w && comb == GRAPH_NONE))
        return;
    if (comb != GRAPH_NONE && machine != GRAPH_NONE)
        down_draw(svg, link, back, a, svg_bar_y(layout, machine, comb));
    else if (comb != GRAPH_NONE)
        curve_draw(svg, link, back, comb_arc(a, b, turn));
    else if (!layout->machines)
        curve_draw(svg, link, back, svg_network_wire(layout, link, turn));
    else if (a.y + a.h <= b.y && (svg->graph->nodes[to].kind == NODE_NV_SWITCH ||
                                  svg->graph->nodes[to].kind == NODE_SWITCH))
        down_draw(svg, link, back, a, b.y);
    else if (fabs(a.y - b.y) < 1)
        side_draw(svg, link, back, a, b);
    else
        up_draw(svg, link, back, a.y > b.y ? from : to, a.y > b.y ? to : from);
}

/* Count the links from one node to another before link `number`, with or without the
 * halves of wires. */
static uint32_t links_before(const struct graph *graph, uint32_t from, uint32_t to,
                             uint32_t number, bool halves)
{
    uint32_t count = 0;
    for (uint32_t i = graph->out_first[from]; i < graph->out_first[from + 1]; i++) {
        uint32_t k = graph->out_next[i];
        bool half = graph_back(graph, k) || (k > 0 && graph_back(graph, k - 1));
        count += k < number && graph->links[k].to == to && (halves || !half);
    }
    return count;
}

/* Count the earlier wires with the same two ends as link `number`. */
static uint32_t wires_before(const struct graph *graph, uint32_t number)
{
    uint32_t small = graph->links[number].from, large = graph->links[number].to;
    if (graph->out_first[small + 1] - graph->out_first[small] >
        graph->out_first[large + 1] - graph->out_first[large]) {
        small = large;
        large = graph->links[number].from;
    }
    uint32_t count = links_before(graph, small, large, number, true);
    if (!graph_back(graph, number)) /* a one-way link: others may lead back */
        count += links_before(graph, large, small, number, false);
    return count;
}

static void links_draw(struct svg *svg)
{
    const struct graph *graph = svg->graph;
    for (uint32_t i = 0; i < graph->links_count; i = graph_wire_next(graph, i))
        link_draw(svg, i, wires_before(graph, i));
    text_join(svg->text, &svg->plates);
}

/* ---- network switches as combs ----------------------------------------------------- */

static const char *comb_colour(const struct svg *svg, uint32_t node)
{
    const struct graph *graph = svg->graph;
    uint32_t first = graph->out_first[node];
    if (first == graph->out_first[node + 1])
        return style_link_colour(WIRE_ETHERNET);
    return style_link_colour(graph->links[graph->out_next[first]].kind);
}

static void bar_draw(struct svg *svg, const char *colour, double x1, double y1, double x2,
                     double y2)
{
    text_addf(svg->text,
              "<path fill=\"none\" stroke-linecap=\"round\" d=\"M" XY "L" XY
              "\" stroke=\"%s\" stroke-width=\"%.1f\"/>\n",
              x1, y1, x2, y2, colour, svg->layout.font > 0 ? 6.0 : 4.0);
}

static void comb_draw(struct svg *svg, uint32_t node, uint32_t comb)
{
    const struct svg_layout *layout = &svg->layout;
    double x = layout->places[node].x, first = 0, last = 0;
    const char *colour = comb_colour(svg, node);
    uint32_t seen = 0;
    for (uint32_t i = 0; i < svg->graph->nodes_count; i++) {
        if (svg->graph->nodes[i].kind != NODE_MACHINE)
            continue;
        double y = svg_bar_y(layout, i, comb);
        const struct svg_place *panel = &layout->places[i];
        bar_draw(svg, colour, seen % layout->columns ? panel->x - 30 : x, y,
                 panel->x + panel->w, y);
        first = seen++ ? first : y;
        last = y;
    }
    bar_draw(svg, colour, x, first, x, last);
    label(svg, x + 12, first + 17, 12, "start", colour, true,
          svg->graph->nodes[node].name);
}

static void combs_draw(struct svg *svg)
{
    for (uint32_t i = 0; i < svg->graph->nodes_count; i++) {
        uint32_t comb = svg_comb_of(&svg->layout, i);
        if (comb != GRAPH_NONE)
            comb_draw(svg, i, comb);
    }
}

/* ---- trees ------------------------------------------------------------------------- */

/* True if all ranks are in one row or in machines, not in a ring or a grid. */
static bool ranks_in_rows(const struct svg *svg)
{
    const struct graph *graph = svg->graph;
    if (svg->layout.machines)
        return true;
    for (uint32_t i = 1; i < graph->ranks_count; i++)
        if (svg_place_of(&svg->layout, graph->ranks[i]).y !=
            svg_place_of(&svg->layout, graph->ranks[0]).y)
            return false;
    return true;
}

/* Return the height that arrows may take under a row. */
static double arc_room(const struct svg *svg)
{
    double room = svg->layout.machines ? svg->layout.row * 0.6 : svg->layout.width * 0.1;
    return fmin(fmax(room, 24), 140);
}

static struct svg_place member_place(const struct svg *svg, uint32_t position)
{
    uint32_t rank = overlaid_rank(svg->overlaid, position);
    return svg_place_of(&svg->layout, svg->graph->ranks[rank]);
}

static void edge_begin(struct svg *svg, uint32_t tree)
{
    text_addf(svg->text,
              "<path fill=\"none\" stroke=\"%s\" stroke-opacity=\"0.55\" "
              "marker-end=\"url(#arrow%u)\" d=\"",
              style_tree_colour(tree), tree);
}

static void edge_end(struct svg *svg, uint32_t tree)
{
    text_addf(svg->text, "\" stroke-width=\"%s\"><title>tree %u</title></path>\n",
              svg->layout.font > 0 ? "2" : "1.2", tree);
}

/* Draw an edge within a row as an arc below the row, deeper for a longer edge; each tree
 * has its own position at the boxes, so no box hides an arrow. */
static void arc_draw(struct svg *svg, uint32_t tree, struct svg_place a,
                     struct svg_place b)
{
    double side = ((tree + 0.5) / TREES_MAX - 0.5) * 0.8;
    double ax = centre(a) + side * a.w, bx = centre(b) + side * b.w;
    double part = fmin(1, fabs(bx - ax) / (svg->layout.width + 1));
    double depth = arc_room(svg) * (0.25 + 0.7 * sqrt(part));
    edge_begin(svg, tree);
    text_addf(svg->text, "M" XY "C" XY " " XY " " XY, ax, a.y + a.h,
              ax + (bx - ax) * 0.15, a.y + a.h + depth * 4 / 3, bx - (bx - ax) * 0.15,
              b.y + b.h + depth * 4 / 3, bx, b.y + b.h + 2);
    edge_end(svg, tree);
}

/* Return the distance from a box's centre at which a line of this direction leaves the
 * box. */
static double leaving(struct svg_place at, double dx, double dy)
{
    double length = hypot(dx, dy) + 1e-9;
    double by_width = fabs(dx) > 1e-9 ? at.w / 2 * length / fabs(dx) : INFINITY;
    double by_height = fabs(dy) > 1e-9 ? at.h / 2 * length / fabs(dy) : INFINITY;
    return fmin(fmin(by_width, by_height), length) + 2;
}

/* Draw an edge from parent to child, bent by the tree's number, so that trees do not
 * cover each other. */
static void edge_draw(struct svg *svg, uint32_t tree, struct svg_place a,
                      struct svg_place b)
{
    if (ranks_in_rows(svg) && fabs(a.y - b.y) < 1) {
        arc_draw(svg, tree, a, b);
        return;
    }
    double ax = centre(a), ay = a.y + a.h / 2, bx = centre(b), by = b.y + b.h / 2;
    double dx = bx - ax, dy = by - ay, length = hypot(dx, dy) + 1e-9;
    double bow = (length * 0.12 + 10 + 5.0 * (tree / 2)) * (tree % 2 ? -1 : 1);
    double back = leaving(b, dx, dy); /* the arrow ends beside the box */
    edge_begin(svg, tree);
    text_addf(svg->text, "M" XY "Q" XY " " XY, ax, ay, (ax + bx) / 2 - dy / length * bow,
              (ay + by) / 2 + dx / length * bow, bx - dx / length * back,
              by - dy / length * back);
    edge_end(svg, tree);
}

static uint32_t trees_shown(const struct svg *svg)
{
    if (!svg->overlaid || !svg->overlaid->plan)
        return 0;
    uint32_t count = svg->overlaid->plan->trees_count;
    return count < TREES_MAX ? count : TREES_MAX;
}

static void trees_draw(struct svg *svg)
{
    for (uint32_t t = 0; t < trees_shown(svg); t++) {
        const struct plan_tree *tree = &svg->overlaid->plan->trees[t];
        const uint32_t *parent = plan_tree_parents(tree);
        for (uint32_t i = 0; parent && i < svg->overlaid->plan->ranks_count; i++)
            if (parent[i] != GRAPH_NONE)
                edge_draw(svg, t, member_place(svg, parent[i]), member_place(svg, i));
    }
}

static void arrows_define(struct svg *svg)
{
    for (uint32_t t = 0; t < trees_shown(svg); t++)
        text_addf(
            svg->text,
            "<marker id=\"arrow%u\" viewBox=\"0 0 8 8\" refX=\"6\" refY=\"4\" "
            "markerWidth=\"5\" "
            "markerHeight=\"5\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"%s\"/>"
            "</marker>\n",
            t, style_tree_colour(t));
}

/* ---- legend ------------------------------------------------------------------------ */

static double legend_item(struct svg *svg, double x, double y, const char *colour,
                          double width, bool dashed, const char *words)
{
    text_addf(svg->text, PATH "L" XY "\" stroke=\"%s\"%s stroke-width=\"%.1f\"/>\n", x,
              y - 4, x + 26, y - 4, colour, dashed ? " stroke-dasharray=\"4 3\"" : "",
              width);
    label(svg, x + 32, y, 11, "start", "#3e4c59", false, words);
    return x + 32 + 6.4 * (double)strlen(words) + 20;
}

static void legend_kinds(struct svg *svg, double x, double y)
{
    bool seen[WIRE_KINDS] = {false}, unknown = false;
    for (uint32_t i = 0; i < svg->graph->links_count; i++) {
        const struct graph_link *link = &svg->graph->links[i];
        seen[link->kind] = true;
        unknown = unknown ||
                  (link->bytes_per_s.value == GRAPH_UNKNOWN && link->kind != WIRE_ATTACH);
    }
    for (int kind = 0; kind < WIRE_KINDS; kind++)
        if (seen[kind] && kind != WIRE_ATTACH)
            x = legend_item(
                svg, x, y, style_link_colour((enum graph_link_kind)kind), 3, false,
                kind == WIRE_UPI ? "between packages"
                                 : link_kind_title((enum graph_link_kind)kind));
    if (unknown)
        legend_item(svg, x, y, "#6b7280", 1, true, "unknown");
}

/* Draw the line widths of the widest link's bandwidth, of a quarter of it and so on, down
 * to the narrowest link's. */
static void legend_widths(struct svg *svg, double y)
{
    double x = MARGIN, least = svg->most;
    if (!(svg->most > 0))
        return;
    for (uint32_t i = 0; i < svg->graph->links_count; i++)
        if (svg->graph->links[i].bytes_per_s.value > 0)
            least = fmin(least, svg->graph->links[i].bytes_per_s.value);
    for (double part = 1; part <= 64 && svg->most / part >= 0.99 * least; part *= 4) {
        struct text words = {0};
        describe_rate(&words, svg->most / part);
        text_add(&words, " GB/s");
        if (words.data)
            x = legend_item(svg, x, y, "#6b7280",
                            style_link_width(svg->most / part, svg->most), false,
                            words.data);
        words_drop(svg, &words);
    }
}

/* Draw the trees separately under a line with their number; return the y where the trees
 * end. */
static double trees_below(struct svg *svg, double y, double width)
{
    char words[128];
    uint32_t shown = trees_shown(svg);
    if (!shown)
        return y;
    snprintf(words, sizeof words,
             "%u of %u trees; each number is a rank, the filled one the root", shown,
             svg->overlaid->plan->trees_count);
    label(svg, MARGIN, y + 16, 12, "start", "#3e4c59", false, words);
    return svg_trees_draw(svg->text, svg->overlaid, shown, MARGIN, y + 24, width);
}

/* ---- the whole --------------------------------------------------------------------- */

static void head_draw(struct svg *svg)
{
    struct text words = {0};
    describe_counts(&words, svg->graph,
                    1u << NODE_MACHINE | 1u << NODE_GPU | 1u << NODE_NIC |
                        1u << NODE_SWITCH | 1u << NODE_RANK);
    if (words.data)
        label(svg, MARGIN, MARGIN + 4, 15, "start", "#1f2933", false, words.data);
    if (svg->layout.machines)
        label(svg, MARGIN, MARGIN + 20, 11, "start", "#66707c", false,
              has_numbers(svg) ? "numbers beside wires: GB/s one way; black badges: ranks"
                               : "black badges: ranks");
    else if (has_numbers(svg))
        label(svg, MARGIN, MARGIN + 20, 11, "start", "#66707c", false,
              "numbers on wires: GB/s one way");
    words_drop(svg, &words);
}

static void page_begin(struct svg *svg, double width, double height)
{
    text_addf(svg->text,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.1f\" height=\"%.1f\""
              " font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\">\n"
              "<style>text.halo{paint-order:stroke;stroke:#ffffff;stroke-width:3px;"
              "stroke-linejoin:round}</style>\n<defs>\n",
              width, height);
    arrows_define(svg);
    text_add(svg->text,
             "</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n");
}

static void drawing_add(struct svg *svg)
{
    text_addf(svg->text, "<g transform=\"translate(" XY ")\">\n", MARGIN, svg->top);
    for (uint32_t i = 0; i < svg->graph->nodes_count; i++)
        if (svg->graph->nodes[i].kind == NODE_MACHINE)
            panel_draw(svg, i);
    combs_draw(svg);
    nodes_draw(svg, true);
    links_draw(svg);
    trees_draw(svg); /* behind the boxes, which stay readable */
    nodes_draw(svg, false);
    for (uint32_t i = 0; i < svg->graph->ranks_count; i++)
        rank_draw(svg, i);
    text_add(svg->text, "</g>\n");
}

/* Draw the body. The head of the page is written later, since it has the page's
 * height. */
static void body_draw(struct svg *svg, double width, double *height_p)
{
    bool arcs = trees_shown(svg) && !svg->layout.machines && ranks_in_rows(svg);
    double bottom = svg->top + svg->layout.height + 14 + (arcs ? arc_room(svg) : 0);
    head_draw(svg);
    drawing_add(svg);
    legend_kinds(svg, MARGIN, bottom + LEGEND_ROW);
    legend_widths(svg, bottom + 2 * LEGEND_ROW);
    *height_p = trees_below(svg, bottom + 2.6 * LEGEND_ROW, width - 2 * MARGIN) + MARGIN;
}

void graph_svg_write(const struct graph *graph, const struct graph_overlaid *overlaid,
                     struct text *text)
{
    struct text body = {0};
    struct svg svg = {
        .graph = graph, .text = &body, .overlaid = overlaid, .most = style_widest(graph)};
    double height;
    if (svg_layout_open(graph, &svg.layout) != TRYST_OK) {
        text->failed = true;
        return;
    }
    svg.top = MARGIN + HEAD;
    double width = 2 * MARGIN + svg.layout.width;
    width = width < 640 ? 640 : width;
    body_draw(&svg, width, &height);
    svg.text = text;
    page_begin(&svg, width, height);
    text_join(text, &body);
    text_add(text, "</svg>\n");
    svg_layout_close(&svg.layout);
}
