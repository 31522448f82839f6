/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draw a topology: machines as panels, devices as boxes, wires with width by bandwidth
 * and colour by kind (dashed where the bandwidth is unknown), a plan's trees as arrows.
 * Every box and wire has a tooltip. svg_layout.c computes the places.
 */
#include "topo_svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "svg_network.h"
#include "svg_trees.h"
#include "tools/figures.h"

#define MARGIN     28.0
#define HEAD       34.0 /* height of the lines above the drawing */
#define LEGEND_ROW 20.0
#define DASHED     " stroke-dasharray='4 3'"

struct svg {
    struct picture picture;
    FILE *out;
    struct svg_layout layout;
    double top; /* y of the drawing on the page */
};

/* ---- primitives -------------------------------------------------------------------- */

/* Draw a text; `anchor` is start, middle or end; `halo` draws white behind the
 * letters. */
static void label(struct svg *svg, double x, double y, double size, const char *anchor,
                  const char *colour, bool halo, const char *words)
{
    char attributes[128];
    snprintf(attributes, sizeof attributes,
             "style='font-size:%.1fpx;fill:%s' text-anchor='%s'%s", size, colour, anchor,
             halo ? " class='halo'" : "");
    tool_svg_text(svg->out, x, y, attributes, "%s", words);
}

/* Return a line's width in points: 6 for the widest, 0.9 less for each halving, at least
 * 1; 1 where unknown or unlimited. */
static double rate_width(const struct svg *svg, double bytes_per_s)
{
    if (!(bytes_per_s > 0) || !isfinite(bytes_per_s) || !(svg->picture.widest > 0))
        return 1;
    return fmax(1, 6 + 0.9 * log2(bytes_per_s / svg->picture.widest));
}

/* Write a bandwidth in Gbit/s with three digits: "50.4", "400", "0.0125"; "?" if
 * unknown. */
static void rate_write(double bytes_per_s, char words[32])
{
    double rate = bytes_per_s * 8e-9;
    if (rate < 0)
        snprintf(words, 32, "?");
    else if (rate < 0.995)
        snprintf(words, 32, "%g", floor(rate * 1e4 + 0.5) / 1e4);
    else
        snprintf(words, 32, "%.*f", rate >= 99.95 ? 0 : rate >= 9.995 ? 1 : 2, rate);
}

static double centre(struct tool_svg_box at)
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
    const char *name = svg->picture.nodes[node].short_name;
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
static void box_small(struct svg *svg, const struct picture_node *node,
                      struct tool_svg_box at, double size)
{
    char words[96];
    if (!node->label)
        return;
    size_t room = (size_t)(at.w / (size * 0.56));
    if (room < 12)
        return;
    size_t kept = strnlen(node->label, room < sizeof words ? room : sizeof words - 1);
    while (kept && (node->label[kept] & 0xc0) == 0x80)
        kept--; /* no character is cut in two */
    snprintf(words, sizeof words, "%.*s", (int)kept, node->label);
    label(svg, centre(at), at.y + at.h * 0.5 + size * 1.15, size, "middle", "#66707c",
          false, words);
}

/* Draw the box of a node. */
static void box(struct svg *svg, uint32_t number, const char *edge, double round)
{
    const struct picture_node *node = &svg->picture.nodes[number];
    const struct picture_style *style = &node_styles[node->kind];
    const char *parts[] = {node->label, node->pci, node->cpus};
    char attributes[64];
    snprintf(attributes, sizeof attributes, "rx='%.1f' stroke='%s'", round, edge);
    for (int i = 0; i < 3; i++)
        parts[i] = parts[i] ? parts[i] : "";
    tool_svg_box(svg->out, svg->layout.places[number],
                 node->kind == NODE_MACHINE ? "#fbfcfd" : style->colour, attributes,
                 "%s, %s%s%s%s%s%s%s", node->name, style->title, *parts[0] ? ", " : "",
                 parts[0], *parts[1] ? ", " : "", parts[1], *parts[2] ? ", cpus " : "",
                 parts[2]);
}

static void node_draw(struct svg *svg, uint32_t number)
{
    const struct picture_node *node = &svg->picture.nodes[number];
    struct tool_svg_box at = svg->layout.places[number];
    double font = svg->layout.font;
    if (!at.w || node->kind == NODE_MACHINE ||
        svg_comb_of(&svg->layout, number) != PICTURE_NONE)
        return;
    bool device =
        node->kind == NODE_GPU || node->kind == NODE_NIC || node->kind == NODE_RANK;
    box(svg, number, device ? "#4b5563" : "#9aa3ad", at.h / (device ? 5 : 8));
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
    for (uint32_t i = 0; i < svg->picture.nodes_count; i++)
        if ((svg->picture.nodes[i].kind == NODE_NV_SWITCH) == bars)
            node_draw(svg, i);
}

static void panel_draw(struct svg *svg, uint32_t machine)
{
    struct tool_svg_box at = svg->layout.places[machine];
    const struct picture_node *node = &svg->picture.nodes[machine];
    box(svg, machine, "#cbd2d9", 8);
    label(svg, at.x + 12, at.y + 16, 12, "start", "#1f2933", false, node->name);
    if (node->label &&
        fits(node->label, 11, at.w - 30 - 7.0 * (double)strlen(node->name)))
        label(svg, at.x + at.w - 12, at.y + 16, 11, "end", "#66707c", false, node->label);
}

/* Draw a rank's number at the corner of its parent's box. */
static void rank_draw(struct svg *svg, uint32_t rank)
{
    uint32_t node = svg->picture.ranks[rank];
    struct tool_svg_box at = svg_place_of(&svg->layout, node);
    double size = svg->layout.font * 0.75;
    char words[16];
    if (svg->layout.places[node].w || !at.w || size <= 0)
        return;
    snprintf(words, sizeof words, "%u", rank);
    double w = size * 0.62 * (double)strlen(words) + size * 0.7, h = size * 1.35;
    if (w > at.w)
        return;
    struct tool_svg_box badge = {at.x + at.w - w * 0.7, at.y - h * 0.55, w, h};
    char attributes[48];
    snprintf(attributes, sizeof attributes, "rx='%.1f' stroke='#ffffff'", h / 2);
    tool_svg_box(svg->out, badge, "#1f2933", attributes, "rank %u", rank);
    label(svg, centre(badge), badge.y + h * 0.5 + size * 0.36, size, "middle", "#ffffff",
          false, words);
}

/* ---- wires ------------------------------------------------------------------------- */

static double wire_width(const struct svg *svg, const struct picture_wire *wire)
{
    double font = svg->layout.font;
    double width = rate_width(svg, wire->bytes_per_s);
    return font >= 12 ? width : font > 0 ? 0.6 * width : 0.35 * width;
}

/* True if wires have numbers: beside them or, without machines, on them. */
static bool has_numbers(const struct svg *svg)
{
    return svg->layout.font >= 12 &&
           (svg->layout.machines || svg->picture.nodes_count <= 24);
}

static bool is_unknown(const struct picture_wire *wire)
{
    return wire->bytes_per_s < 0 && wire->kind != WIRE_ATTACH;
}

/* Draw a wire through `points`; see tool_svg_path. */
static void wire_add(struct svg *svg, const struct picture_wire *wire, const char *shape,
                     const double *points)
{
    char attributes[96];
    snprintf(attributes, sizeof attributes, "stroke='%s' stroke-width='%.1f'%s",
             wire->down ? "#d1d5db" : wire_styles[wire->kind].colour,
             wire_width(svg, wire), wire->down || is_unknown(wire) ? DASHED : "");
    tool_svg_path(svg->out, shape, points, attributes, "%s %s %s: %s",
                  svg->picture.nodes[wire->from].name, wire->two_way ? "-" : "to",
                  svg->picture.nodes[wire->to].name, wire->text);
}

/* Write the number of a wire, with a white border, or (`plate`) on a white box in the
 * middle of the wire, since the wire would show between the digits. */
static void rate_label(struct svg *svg, const struct picture_wire *wire, double x,
                       double y, const char *anchor, bool plate)
{
    char words[32];
    double size = 9;
    if (svg->layout.font < 12 || wire->bytes_per_s == INFINITY)
        return;
    rate_write(wire->bytes_per_s, words);
    double w = (double)strlen(words) * size * 0.62 + 5;
    if (plate)
        tool_svg_box(svg->out,
                     (struct tool_svg_box){x - w / 2, y - size * 0.68, w, size * 1.36},
                     "#ffffff", "rx='2'", NULL);
    label(svg, x, plate ? y + size * 0.36 : y, size, anchor, "#52606d", !plate, words);
}

/* Draw a wire from the top of a box up to a box above, past the boxes between them. */
static void up_draw(struct svg *svg, const struct picture_wire *wire, uint32_t from,
                    uint32_t above)
{
    struct tool_svg_box low = svg->layout.places[from], high = svg->layout.places[above];
    double shift = wire->kind == WIRE_C2C ? low.w * 0.3 : 0, x = centre(low) + shift;
    double lane = svg_lane_x(&svg->layout, from, above), to = isnan(lane) ? x : lane;
    double bend = high.y + high.h + (low.y - high.y - high.h) * 0.3;
    double corner = fmin(3, svg->layout.cell * 0.1);
    if (to <= high.x + corner || to >= high.x + high.w - corner)
        to = centre(high) + shift;
    /* past unused rows: bend just above the box */
    if (low.y - bend > svg->layout.row)
        bend = low.y - svg->layout.row * 0.3;
    double end = high.y + high.h;
    if (to != x)
        wire_add(svg, wire, "MLLL", (double[]){x, low.y, x, bend, to, bend, to, end});
    else
        wire_add(svg, wire, "ML", (double[]){x, low.y, to, end});
    if (wire->kind != WIRE_ATTACH)
        rate_label(svg, wire, x + 4, low.y - 4, "start", false);
}

/* Draw a wire straight down to a bar, with white borders, because it may cross other
 * wires. */
static void down_draw(struct svg *svg, const struct picture_wire *wire,
                      struct tool_svg_box from, double y)
{
    char attributes[64];
    double x = centre(from);
    const double points[] = {x, from.y + from.h, x, y};
    snprintf(attributes, sizeof attributes,
             "class='halo' stroke='#ffffff' stroke-width='%.1f'",
             wire_width(svg, wire) + 3);
    tool_svg_path(svg->out, "ML", points, attributes, NULL);
    wire_add(svg, wire, "ML", points);
    rate_label(svg, wire, x + 5, from.y + from.h + 11, "start", false);
}

/* Draw a wire between boxes of one row: straight for UPI between
 * neighbours, else an arc: below the row for NVLink, above for others. */
static void side_draw(struct svg *svg, const struct picture_wire *wire,
                      struct tool_svg_box a, struct tool_svg_box b)
{
    if (a.x > b.x) {
        struct tool_svg_box swap = a;
        a = b;
        b = swap;
    }
    double gap = b.x - a.x - a.w, y = a.y + a.h / 2;
    if (wire->kind == WIRE_UPI && gap < svg->layout.cell) {
        wire_add(svg, wire, "ML", (double[]){a.x + a.w, y, b.x, y});
        rate_label(svg, wire, a.x + a.w + gap / 2, y - 5, "middle", false);
        return;
    }
    bool below = wire->kind == WIRE_NVLINK;
    double edge = below ? a.y + a.h : a.y;
    double bow = (below ? 1 : -1) * (6 + (centre(b) - centre(a)) * 0.16);
    wire_add(svg, wire, "MQ ",
             (double[]){centre(a), edge, (centre(a) + centre(b)) / 2, edge + bow,
                        centre(b), edge});
}

/* Return the arc between two combs, above the tops of their spines. */
static struct svg_curve comb_arc(struct tool_svg_box a, struct tool_svg_box b,
                                 uint32_t turn)
{
    double above = 10 + fabs(a.x - b.x) * 0.5 + turn * 8;
    return (struct svg_curve){a.x, a.y, (a.x + b.x) / 2, fmin(a.y, b.y) - above,
                              b.x, b.y};
}

/* Draw a curve of the layout or (`number`) its number, at two fifths of the way. */
static void curve_draw(struct svg *svg, const struct picture_wire *wire,
                       struct svg_curve at, bool number)
{
    if (number)
        rate_label(svg, wire, at.ax * 0.36 + at.cx * 0.48 + at.bx * 0.16,
                   at.ay * 0.36 + at.cy * 0.48 + at.by * 0.16, "middle", true);
    else
        wire_add(svg, wire, "MQ ", (double[]){at.ax, at.ay, at.cx, at.cy, at.bx, at.by});
}

/* Draw a wire or (`number`) only the number that lies on it. */
static void wire_draw(struct svg *svg, const struct picture_wire *wire, bool number)
{
    const struct svg_layout *layout = &svg->layout;
    bool swap = svg_comb_of(layout, wire->from) != PICTURE_NONE;
    uint32_t from = swap ? wire->to : wire->from, to = swap ? wire->from : wire->to;
    struct tool_svg_box a = layout->places[from], b = layout->places[to];
    uint32_t comb = svg_comb_of(layout, to), machine = svg->picture.nodes[from].machine;
    enum node_kind kind = svg->picture.nodes[to].kind;
    if (!a.w || (!b.w && comb == PICTURE_NONE))
        return;
    if (comb != PICTURE_NONE && machine == PICTURE_NONE)
        curve_draw(svg, wire, comb_arc(a, b, wire->turn), number);
    else if (!layout->machines)
        curve_draw(svg, wire, svg_network_wire(layout, wire), number);
    else if (number)
        return;
    else if (comb != PICTURE_NONE)
        down_draw(svg, wire, a, svg_bar_y(layout, machine, comb));
    else if (a.y + a.h <= b.y && (kind == NODE_NV_SWITCH || kind == NODE_SWITCH))
        down_draw(svg, wire, a, b.y);
    else if (fabs(a.y - b.y) < 1)
        side_draw(svg, wire, a, b);
    else
        up_draw(svg, wire, a.y > b.y ? from : to, a.y > b.y ? to : from);
}

/* Draw all wires or (`numbers`) the numbers that lie on wires. */
static void wires_draw(struct svg *svg, bool numbers)
{
    for (uint32_t i = 0; i < svg->picture.wires_count; i++)
        wire_draw(svg, &svg->picture.wires[i], numbers);
}

/* ---- network switches as combs ----------------------------------------------------- */

static const char *comb_colour(const struct svg *svg, uint32_t node)
{
    const struct picture *picture = &svg->picture;
    uint32_t first = picture->at_first[node];
    bool any = first < picture->at_first[node + 1];
    return wire_styles[any ? picture->wires[picture->at[first]].kind : WIRE_ETHERNET]
        .colour;
}

static void bar_draw(struct svg *svg, const char *colour, double x1, double y1, double x2,
                     double y2)
{
    char attributes[96];
    snprintf(attributes, sizeof attributes,
             "stroke-linecap='round' stroke='%s' stroke-width='%.1f'", colour,
             svg->layout.font > 0 ? 6.0 : 4.0);
    tool_svg_line(svg->out, x1, y1, x2, y2, attributes);
}

static void comb_draw(struct svg *svg, uint32_t node, uint32_t comb)
{
    const struct svg_layout *layout = &svg->layout;
    double x = layout->places[node].x, first = 0, last = 0;
    const char *colour = comb_colour(svg, node);
    uint32_t seen = 0;
    for (uint32_t i = 0; i < svg->picture.nodes_count; i++) {
        if (svg->picture.nodes[i].kind != NODE_MACHINE)
            continue;
        double y = svg_bar_y(layout, i, comb);
        const struct tool_svg_box *panel = &layout->places[i];
        bar_draw(svg, colour, seen % layout->columns ? panel->x - 30 : x, y,
                 panel->x + panel->w, y);
        first = seen++ ? first : y;
        last = y;
    }
    bar_draw(svg, colour, x, first, x, last);
    label(svg, x + 12, first + 17, 12, "start", colour, true,
          svg->picture.nodes[node].name);
}

static void combs_draw(struct svg *svg)
{
    for (uint32_t i = 0; i < svg->picture.nodes_count; i++) {
        uint32_t comb = svg_comb_of(&svg->layout, i);
        if (comb != PICTURE_NONE)
            comb_draw(svg, i, comb);
    }
}

/* ---- trees ------------------------------------------------------------------------- */

/* True if all ranks are in one row or in machines, not in a ring or a grid. */
static bool ranks_in_rows(const struct svg *svg)
{
    const struct picture *picture = &svg->picture;
    if (svg->layout.machines)
        return true;
    for (uint32_t i = 1; i < picture->ranks_count; i++)
        if (svg_place_of(&svg->layout, picture->ranks[i]).y !=
            svg_place_of(&svg->layout, picture->ranks[0]).y)
            return false;
    return true;
}

/* Return the height that arrows may take under a row. */
static double arc_room(const struct svg *svg)
{
    double room = svg->layout.machines ? svg->layout.row * 0.6 : svg->layout.width * 0.1;
    return fmin(fmax(room, 24), 140);
}

static struct tool_svg_box member_place(const struct svg *svg, uint32_t position)
{
    uint32_t rank = picture_member(&svg->picture.trees[0], position);
    return svg_place_of(&svg->layout, svg->picture.ranks[rank]);
}

/* Draw an edge through `points`; see tool_svg_path. */
static void edge_add(struct svg *svg, uint32_t tree, const char *shape,
                     const double *points)
{
    char attributes[160];
    snprintf(attributes, sizeof attributes,
             "stroke='%s' stroke-opacity='0.55' marker-end='url(#arrow%u)' "
             "stroke-width='%s'",
             picture_tree_colour(tree), tree, svg->layout.font > 0 ? "2" : "1.2");
    tool_svg_path(svg->out, shape, points, attributes, "tree %u", tree);
}

/* Draw an edge within a row as an arc below the row, deeper for a longer edge; each tree
 * has its own position at the boxes, so no box hides an arrow. */
static void arc_draw(struct svg *svg, uint32_t tree, struct tool_svg_box a,
                     struct tool_svg_box b)
{
    double side = ((tree + 0.5) / PICTURE_TREES_MAX - 0.5) * 0.8;
    double ax = centre(a) + side * a.w, bx = centre(b) + side * b.w;
    double part = fmin(1, fabs(bx - ax) / (svg->layout.width + 1));
    double depth = arc_room(svg) * (0.25 + 0.7 * sqrt(part));
    edge_add(svg, tree, "MC  ",
             (double[]){ax, a.y + a.h, ax + (bx - ax) * 0.15, a.y + a.h + depth * 4 / 3,
                        bx - (bx - ax) * 0.15, b.y + b.h + depth * 4 / 3, bx,
                        b.y + b.h + 2});
}

/* Return the distance from a box's centre at which a line of this direction leaves the
 * box. */
static double leaving(struct tool_svg_box at, double dx, double dy)
{
    double length = hypot(dx, dy) + 1e-9;
    double by_width = fabs(dx) > 1e-9 ? at.w / 2 * length / fabs(dx) : INFINITY;
    double by_height = fabs(dy) > 1e-9 ? at.h / 2 * length / fabs(dy) : INFINITY;
    return fmin(fmin(by_width, by_height), length) + 2;
}

/* Draw an edge from parent to child, bent by the tree's number, so that trees do not
 * cover each other. */
static void edge_draw(struct svg *svg, uint32_t tree, struct tool_svg_box a,
                      struct tool_svg_box b)
{
    if (ranks_in_rows(svg) && fabs(a.y - b.y) < 1) {
        arc_draw(svg, tree, a, b);
        return;
    }
    double ax = centre(a), ay = a.y + a.h / 2, bx = centre(b), by = b.y + b.h / 2;
    double dx = bx - ax, dy = by - ay, length = hypot(dx, dy) + 1e-9;
    double bow = (length * 0.12 + 10 + 5.0 * (tree / 2)) * (tree % 2 ? -1 : 1);
    double back = leaving(b, dx, dy); /* the arrow ends beside the box */
    edge_add(svg, tree, "MQ ",
             (double[]){ax, ay, (ax + bx) / 2 - dy / length * bow,
                        (ay + by) / 2 + dx / length * bow, bx - dx / length * back,
                        by - dy / length * back});
}

static void trees_draw(struct svg *svg)
{
    for (uint32_t t = 0; t < svg->picture.trees_count; t++) {
        const int32_t *parent = svg->picture.trees[t].parents;
        for (uint32_t i = 0; i < svg->picture.members_count; i++)
            if (parent[i] >= 0)
                edge_draw(svg, t, member_place(svg, (uint32_t)parent[i]),
                          member_place(svg, i));
    }
}

static void arrows_define(struct svg *svg)
{
    fputs("<defs>\n", svg->out);
    for (uint32_t t = 0; t < svg->picture.trees_count; t++)
        fprintf(svg->out,
                "<marker id='arrow%u' viewBox='0 0 8 8' refX='6' refY='4' "
                "markerWidth='5' markerHeight='5' orient='auto'>"
                "<path d='M0 0L8 4L0 8z' fill='%s'/></marker>\n",
                t, picture_tree_colour(t));
    fputs("</defs>\n", svg->out);
}

/* ---- legend ------------------------------------------------------------------------ */

static double legend_item(struct svg *svg, double x, double y, const char *colour,
                          double width, bool dashed, const char *words)
{
    char attributes[96];
    snprintf(attributes, sizeof attributes, "stroke='%s' stroke-width='%.1f'%s", colour,
             width, dashed ? DASHED : "");
    tool_svg_line(svg->out, x, y - 4, x + 26, y - 4, attributes);
    label(svg, x + 32, y, 11, "start", "#3e4c59", false, words);
    return x + 32 + 6.4 * (double)strlen(words) + 20;
}

static void legend_kinds(struct svg *svg, double x, double y)
{
    bool seen[WIRE_KINDS] = {false}, unknown = false;
    for (uint32_t i = 0; i < svg->picture.wires_count; i++) {
        seen[svg->picture.wires[i].kind] = true;
        unknown = unknown || is_unknown(&svg->picture.wires[i]);
    }
    for (int kind = 0; kind < WIRE_KINDS; kind++)
        if (seen[kind] && kind != WIRE_ATTACH)
            x = legend_item(svg, x, y, wire_styles[kind].colour, 3, false,
                            wire_styles[kind].title);
    if (unknown)
        legend_item(svg, x, y, "#6b7280", 1, true, "unknown");
}

/* Draw the line widths of the widest link's bandwidth, of a quarter of it and so on, down
 * to the narrowest link's. */
static void legend_widths(struct svg *svg, double y)
{
    double x = MARGIN, most = svg->picture.widest;
    for (double part = 1;
         most > 0 && part <= 64 && most / part >= 0.99 * svg->picture.narrowest;
         part *= 4) {
        char rate[32], words[40];
        rate_write(most / part, rate);
        snprintf(words, sizeof words, "%s Gbit/s", rate);
        x = legend_item(svg, x, y, "#6b7280", rate_width(svg, most / part), false, words);
    }
}

/* Draw the trees separately under a line with their number; return the y where the trees
 * end. */
static double trees_below(struct svg *svg, double y, double width)
{
    char words[128];
    uint32_t shown = svg->picture.trees_count;
    if (!shown)
        return y;
    snprintf(words, sizeof words,
             "%u of %u tree%s; each box is a rank, the filled one the root", shown,
             svg->picture.trees_all, tool_plural(svg->picture.trees_all));
    label(svg, MARGIN, y + 16, 12, "start", "#3e4c59", false, words);
    return svg_trees_draw(svg->out, &svg->picture, MARGIN, y + 24, width);
}

/* ---- the whole --------------------------------------------------------------------- */

/* Draw the title: "2 machines, 16 GPUs". */
static void counts_draw(struct svg *svg)
{
    static const enum node_kind kinds[] = {NODE_MACHINE, NODE_GPU, NODE_NIC, NODE_SWITCH,
                                           NODE_RANK};
    uint32_t counts[NODE_KINDS] = {0};
    char words[160] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < svg->picture.nodes_count; i++)
        counts[svg->picture.nodes[i].kind]++;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        uint32_t count = counts[kinds[k]];
        const char *plural = kinds[k] == NODE_SWITCH ? "es" : "s";
        if (count)
            used += (size_t)snprintf(words + used, sizeof words - used, "%s%u %s%s",
                                     used ? ", " : "", count, node_styles[kinds[k]].title,
                                     count == 1 ? "" : plural);
    }
    label(svg, MARGIN, MARGIN + 4, 15, "start", "#1f2933", false, words);
}

static void head_draw(struct svg *svg)
{
    const char *words = svg->layout.machines && has_numbers(svg)
                            ? "numbers beside wires: Gbit/s one way; black badges: ranks"
                        : svg->layout.machines ? "black badges: ranks"
                        : has_numbers(svg)     ? "numbers on wires: Gbit/s one way"
                                               : "";
    counts_draw(svg);
    label(svg, MARGIN, MARGIN + 20, 11, "start", "#66707c", false, words);
}

static void drawing_add(struct svg *svg)
{
    fprintf(svg->out, "<g transform='translate(%.1f %.1f)'>\n", MARGIN, svg->top);
    for (uint32_t i = 0; i < svg->picture.nodes_count; i++)
        if (svg->picture.nodes[i].kind == NODE_MACHINE)
            panel_draw(svg, i);
    combs_draw(svg);
    nodes_draw(svg, true);
    wires_draw(svg, false);
    if (has_numbers(svg))
        wires_draw(svg, true); /* after all wires, so that no wire covers a number */
    trees_draw(svg);           /* behind the boxes, which stay readable */
    nodes_draw(svg, false);
    for (uint32_t i = 0; i < svg->picture.ranks_count; i++)
        rank_draw(svg, i);
    fputs("</g>\n", svg->out);
}

/* Draw the body; return the height of the page. */
static double body_draw(struct svg *svg, double width)
{
    bool arcs = svg->picture.trees_count && !svg->layout.machines && ranks_in_rows(svg);
    double bottom = svg->top + svg->layout.height + 14 + (arcs ? arc_room(svg) : 0);
    head_draw(svg);
    drawing_add(svg);
    legend_kinds(svg, MARGIN, bottom + LEGEND_ROW);
    legend_widths(svg, bottom + 2 * LEGEND_ROW);
    return trees_below(svg, bottom + 2.6 * LEGEND_ROW, width - 2 * MARGIN) + MARGIN;
}

/* Draw the page. Its head has the height of the body, so the body is drawn first, to
 * memory. */
static bool page_draw(struct svg *svg, FILE *out)
{
    char *body = NULL;
    size_t bytes;
    double width = fmax(640, 2 * MARGIN + svg->layout.width);
    svg->out = open_memstream(&body, &bytes);
    if (!svg->out)
        return false;
    double height = body_draw(svg, width);
    bool fine = fclose(svg->out) == 0;
    svg->out = out;
    if (fine) {
        tool_svg_begin(out, (int)ceil(width), (int)ceil(height),
                       "text{font-family:Helvetica,Arial,'DejaVu Sans',sans-serif}"
                       "text.halo{paint-order:stroke;stroke:#ffffff;stroke-width:3px;"
                       "stroke-linejoin:round}");
        arrows_define(svg);
        fputs(body, out);
        tool_svg_end(out);
    }
    free(body);
    return fine;
}

bool topo_svg_draw(FILE *out, const tryst_topo *topo, const tryst_plan *plan)
{
    struct svg svg = {.top = MARGIN + HEAD};
    if (!picture_open(topo, plan, &svg.picture))
        return false;
    bool fine = svg_layout_open(&svg.picture, &svg.layout) && page_draw(&svg, out);
    svg_layout_close(&svg.layout);
    picture_close(&svg.picture);
    return fine;
}
