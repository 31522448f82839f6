/* SPDX-License-Identifier: Apache-2.0 */
/* See svg_network.h. */
#include "svg_network.h"

#include <math.h>

#define LEVELS_MAX 64
#define TURN       (2 * 3.14159265358979)
#define BOW        14.0 /* distance of parallel wires at their control points */

static double centre_x(struct tool_svg_box at)
{
    return at.x + at.w / 2;
}

static double centre_y(struct tool_svg_box at)
{
    return at.y + at.h / 2;
}

/* Return 0, 1, -1, 2, -2…, so that parallel wires bend to both sides. */
static double side_of(uint32_t turn)
{
    double far = (turn + 1) / 2;
    return turn % 2 ? far : -far;
}

/* ---- layers ------------------------------------------------------------------------ */

/* Find each node's hops from the nearest rank; PICTURE_NONE for an unreachable node.
 * Return the largest. */
static uint32_t levels_find(const struct picture *picture, uint32_t *level)
{
    uint32_t most = 0;
    bool changed = true;
    for (uint32_t i = 0; i < picture->nodes_count; i++)
        level[i] = picture->nodes[i].kind == NODE_RANK ? 0 : PICTURE_NONE;
    for (uint32_t now = 0; changed && now < LEVELS_MAX; now++) {
        changed = false;
        for (uint32_t i = 0; i < picture->wires_count; i++) {
            const uint32_t ends[] = {picture->wires[i].from, picture->wires[i].to};
            for (int e = 0; e < 2; e++)
                if (level[ends[e]] == now && level[ends[!e]] == PICTURE_NONE) {
                    level[ends[!e]] = most = now + 1;
                    changed = true;
                }
        }
    }
    return most;
}

/* Return the first neighbour on the next level, which orders a row; PICTURE_NONE for
 * none. */
static uint32_t upper_of(const struct svg_layout *layout, uint32_t node)
{
    const struct picture *picture = layout->picture;
    const uint32_t *level = layout->level;
    for (uint32_t i = picture->at_first[node]; i < picture->at_first[node + 1]; i++) {
        uint32_t to = picture_other(&picture->wires[picture->at[i]], node);
        if (level[to] != PICTURE_NONE && level[to] == level[node] + 1)
            return to;
    }
    return PICTURE_NONE;
}

/* Place the ranks in one row, grouped by their switches; return where the row ends. */
static double lowest_place(struct svg_layout *layout, double y)
{
    const struct picture *picture = layout->picture;
    double x = 0;
    /* in the last round: the ranks under no switch */
    for (uint32_t s = 0; s <= picture->nodes_count; s++)
        for (uint32_t i = 0; i < picture->nodes_count; i++) {
            uint32_t wanted = s < picture->nodes_count ? s : PICTURE_NONE;
            if (layout->level[i] != 0 || upper_of(layout, i) != wanted)
                continue;
            layout->places[i] =
                (struct tool_svg_box){x, y, layout->cell * 0.8, layout->row * 0.6};
            x += layout->cell;
        }
    return x;
}

/* Return the mean x of the nodes below a switch; `other` if there are none. */
static double middle_below(const struct svg_layout *layout, uint32_t node, double other)
{
    const struct picture *picture = layout->picture;
    double sum = 0, count = 0;
    for (uint32_t i = picture->at_first[node]; i < picture->at_first[node + 1]; i++) {
        uint32_t to = picture_other(&picture->wires[picture->at[i]], node);
        if (layout->level[to] + 1 != layout->level[node])
            continue;
        sum += layout->places[to].x + layout->places[to].w / 2;
        count++;
    }
    return count > 0 ? sum / count : other;
}

/* Place a row of switches: in level 1 each above the middle of its nodes, in higher
 * levels evenly over the width. Return the width. */
static double level_place(struct svg_layout *layout, uint32_t l, double y, double width)
{
    const struct picture *picture = layout->picture;
    double w = layout->cell * 1.6 < 64 ? 64 : layout->cell * 1.6, free_x = 0;
    double gap = fmax(12, layout->cell * 0.7); /* room for a wire and its number */
    uint32_t count = 0, seen = 0;
    for (uint32_t i = 0; i < picture->nodes_count; i++)
        count += layout->level[i] == l;
    for (uint32_t i = 0; i < picture->nodes_count; i++) {
        if (layout->level[i] != l)
            continue;
        double at = width * (seen++ + 0.5) / count;
        at = (l == 1 ? middle_below(layout, i, at) : at) - w / 2;
        at = at < free_x ? free_x : at;
        layout->places[i] = (struct tool_svg_box){at, y, w, layout->row * 0.55};
        free_x = at + w + gap;
    }
    return free_x - gap > width ? free_x - gap : width;
}

static void layers_place(struct svg_layout *layout, uint32_t most)
{
    double row = layout->row * 2.2;
    double widest = layout->picture->ranks_count * layout->cell;
    /* rows far enough apart that long wires are not nearly level */
    row = row < widest / 9 ? widest / 9 : row;
    layout->width = lowest_place(layout, most * row);
    for (uint32_t l = 1; l <= most; l++)
        layout->width = level_place(layout, l, (most - l) * row, layout->width);
    layout->height = most * row + layout->row;
}

/* True if each node is reachable and each wire joins a level with the next, or neighbours
 * in a row of switches. Sets layout->seat. */
static bool layers_hold(struct svg_layout *layout)
{
    uint32_t seen[LEVELS_MAX + 1] = {0};
    const struct picture *picture = layout->picture;
    const uint32_t *level = layout->level;
    for (uint32_t i = 0; i < picture->nodes_count; i++) {
        if (level[i] == PICTURE_NONE)
            return false;
        layout->seat[i] = seen[level[i]]++;
    }
    for (uint32_t i = 0; i < picture->wires_count; i++) {
        uint32_t from = picture->wires[i].from, to = picture->wires[i].to;
        uint32_t apart = level[from] == level[to] ? layout->seat[from] - layout->seat[to]
                                                  : level[from] - level[to];
        if ((apart != 1 && apart != UINT32_MAX) || (level[from] == 0 && level[to] == 0))
            return false;
    }
    return true;
}

static struct svg_curve layers_wire(const struct svg_layout *layout, uint32_t low,
                                    uint32_t high, double side)
{
    struct tool_svg_box a = layout->places[low], b = layout->places[high];
    bool row = layout->level[low] == layout->level[high];
    if (row && a.x > b.x) {
        struct tool_svg_box swap = a;
        a = b;
        b = swap;
    }
    if (row) /* through the gap between the two */
        return (struct svg_curve){
            a.x + a.w, centre_y(a), (a.x + a.w + b.x) / 2, centre_y(a) + side * BOW,
            b.x,       centre_y(b)};
    double aside = side * (BOW + fabs(centre_x(a) - centre_x(b)) * 0.12);
    return (struct svg_curve){
        centre_x(a),           a.y,         (centre_x(a) + centre_x(b)) / 2 + aside,
        (a.y + b.y + b.h) / 2, centre_x(b), b.y + b.h};
}

/* ---- grid and circle: seats and leaves --------------------------------------------- */

/* Record a neighbour of `node`; hub[node] is `node` itself for several neighbours. */
static void neighbour_add(uint32_t *hub, uint32_t node, uint32_t other)
{
    hub[node] = hub[node] == PICTURE_NONE || hub[node] == other ? other : node;
}

/* Find the hub of each node with one neighbour, and number the others as seats. */
static void seats_find(struct svg_layout *layout)
{
    const struct picture *picture = layout->picture;
    uint32_t *hub = layout->hub;
    for (uint32_t i = 0; i < picture->nodes_count; i++)
        hub[i] = PICTURE_NONE;
    for (uint32_t i = 0; i < picture->wires_count; i++) {
        neighbour_add(hub, picture->wires[i].from, picture->wires[i].to);
        neighbour_add(hub, picture->wires[i].to, picture->wires[i].from);
    }
    for (uint32_t i = 0; i < picture->nodes_count; i++)
        if (hub[i] == i || (hub[i] != PICTURE_NONE && hub[hub[i]] == i && i < hub[i]))
            hub[i] = PICTURE_NONE;
    for (uint32_t i = 0; i < picture->nodes_count; i++)
        layout->seat[i] =
            hub[i] == PICTURE_NONE ? layout->seats++ : layout->hung[hub[i]]++;
}

static struct tool_svg_box box_of(const struct svg_layout *layout, uint32_t node,
                                  double x, double y)
{
    bool rank = layout->picture->nodes[node].kind == NODE_RANK;
    double w = layout->cell * (rank ? 0.8 : 0.95), h = layout->cell * (rank ? 0.5 : 0.42);
    return (struct tool_svg_box){x - w / 2, y - h / 2, w, h};
}

/* Move all places so that left and top are 0. */
static void places_fit(struct svg_layout *layout)
{
    double left = INFINITY, top = INFINITY, right = 0, bottom = 0;
    uint32_t count = layout->picture->nodes_count;
    for (uint32_t i = 0; i < count; i++) {
        left = fmin(left, layout->places[i].x);
        top = fmin(top, layout->places[i].y);
        right = fmax(right, layout->places[i].x + layout->places[i].w);
        bottom = fmax(bottom, layout->places[i].y + layout->places[i].h);
    }
    for (uint32_t i = 0; i < count; i++) {
        layout->places[i].x -= left;
        layout->places[i].y -= top;
    }
    layout->centre_x = -left;
    layout->centre_y = -top;
    layout->width = right - left;
    layout->height = bottom - top;
}

/* ---- grid -------------------------------------------------------------------------- */

static bool grid_holds(const struct svg_layout *layout, uint32_t columns)
{
    bool any = false;
    for (uint32_t i = 0; i < layout->picture->wires_count; i++) {
        const struct picture_wire *wire = &layout->picture->wires[i];
        uint32_t a = layout->seat[wire->from], b = layout->seat[wire->to];
        if (layout->hub[wire->from] != PICTURE_NONE ||
            layout->hub[wire->to] != PICTURE_NONE)
            continue;
        if (a / columns != b / columns && a % columns != b % columns)
            return false;
        any = true;
    }
    return any;
}

/* Return the number of columns of the squarest grid that has all wires in its rows and
 * columns; 0 if there is none. */
static uint32_t columns_find(const struct svg_layout *layout)
{
    uint32_t found = 0;
    for (uint32_t columns = 2; 2 * columns <= layout->seats; columns++) {
        if (found && (uint64_t)found * found >= layout->seats)
            break;
        if (layout->seats % columns == 0 && grid_holds(layout, columns))
            found = columns;
    }
    return found;
}

/* Return the space that arcs take above a row or left of a column. */
static double row_room(const struct svg_layout *layout)
{
    return layout->row * 0.75;
}

static double column_room(const struct svg_layout *layout)
{
    return layout->cell * 0.75;
}

static void grid_place(struct svg_layout *layout)
{
    const struct picture *picture = layout->picture;
    double w = 0, h = 0, step = layout->cell * 0.9;
    uint32_t most = 0;
    for (uint32_t i = 0; i < picture->nodes_count; i++) {
        struct tool_svg_box box = box_of(layout, i, 0, 0);
        most = layout->hung[i] > most ? layout->hung[i] : most;
        w = layout->hub[i] == PICTURE_NONE ? fmax(w, box.w) : w;
        h = fmax(h, box.h);
    }
    double below = most ? h + layout->row * 0.5 : 0;
    double pitch_x = column_room(layout) + w + fmax(0, most * step + 14 - w / 2);
    double pitch_y = row_room(layout) + h + below + layout->row * 0.15;
    for (uint32_t i = 0; i < picture->nodes_count; i++) {
        uint32_t seat = layout->seat[layout->hub[i] == PICTURE_NONE ? i : layout->hub[i]];
        double x = seat % layout->columns * pitch_x, y = seat / layout->columns * pitch_y;
        if (layout->hub[i] != PICTURE_NONE) { /* right of the wire that leads down */
            x += 12 + step * (layout->seat[i] + 0.5);
            y += below;
        }
        layout->places[i] = box_of(layout, i, x, y);
    }
    places_fit(layout);
    for (uint32_t i = 0; i < picture->nodes_count; i++) {
        layout->places[i].x += column_room(layout);
        layout->places[i].y += row_room(layout);
    }
    layout->width += column_room(layout);
    layout->height += row_room(layout);
}

/* Return the height of an arc over `apart` of a row's places, in units of the room for
 * arcs. */
static double arc_of(uint32_t apart, uint32_t count, uint32_t turn)
{
    return (0.3 + 0.65 * (apart - 1) / count) / (1 + 0.15 * turn);
}

/* Return the curve of a wire; `a` is left of b, or above it. */
static struct svg_curve grid_wire(const struct svg_layout *layout, uint32_t seat_a,
                                  uint32_t seat_b, struct tool_svg_box a,
                                  struct tool_svg_box b, uint32_t turn)
{
    uint32_t columns = layout->columns, rows = layout->seats / columns;
    bool in_row = seat_a / columns == seat_b / columns;
    uint32_t apart = (seat_b - seat_a) / (in_row ? 1 : columns);
    double x = (centre_x(a) + centre_x(b)) / 2, y = (centre_y(a) + centre_y(b)) / 2;
    if (in_row && apart == 1)
        return (struct svg_curve){a.x + a.w, centre_y(a), x, y + side_of(turn) * BOW,
                                  b.x,       centre_y(b)};
    if (apart == 1)
        return (struct svg_curve){centre_x(a), a.y + a.h,   x - turn * BOW,
                                  y,           centre_x(b), b.y};
    if (in_row)
        return (struct svg_curve){
            a.x + a.w * 0.7,
            a.y,
            x,
            a.y - 2 * row_room(layout) * arc_of(apart, columns, turn),
            b.x + b.w * 0.3,
            b.y};
    return (struct svg_curve){a.x,
                              a.y + a.h * 0.7,
                              a.x - 2 * column_room(layout) * arc_of(apart, rows, turn),
                              y,
                              b.x,
                              b.y + b.h * 0.3};
}

static struct svg_curve hung_wire(const struct svg_layout *layout, uint32_t leaf,
                                  double side)
{
    struct tool_svg_box a = layout->places[layout->hub[leaf]], b = layout->places[leaf];
    bool grid = layout->shape == SVG_GRID;
    double ax = centre_x(a) + (grid ? a.w * 0.3 : 0), ay = grid ? a.y + a.h : centre_y(a);
    double bx = centre_x(b), by = grid ? b.y : centre_y(b);
    double length = hypot(bx - ax, by - ay) + 1e-9;
    double cx = (ax + bx) / 2 - (grid ? 1 : (by - ay) / length) * side * BOW;
    double cy = (ay + by) / 2 + (grid ? 0 : (bx - ax) / length) * side * BOW;
    return (struct svg_curve){ax, ay, cx, cy, bx, by};
}

/* ---- circle ------------------------------------------------------------------------ */

/* Return the length along the circle that a node and its leaves take. */
static double room_of(const struct svg_layout *layout, uint32_t node)
{
    return fmax(box_of(layout, node, 0, 0).w * 2.2,
                layout->hung[node] * layout->cell * 1.1);
}

static void leaves_place(struct svg_layout *layout, uint32_t hub, double angle,
                         double sector, double radius)
{
    uint32_t count = layout->hung[hub];
    double spread = fmin(sector, count * layout->cell * 1.15 / radius);
    for (uint32_t i = 0; i < layout->picture->nodes_count; i++) {
        if (layout->hub[i] != hub)
            continue;
        double at = angle + spread * ((layout->seat[i] + 0.5) / count - 0.5);
        layout->places[i] = box_of(layout, i, radius * sin(at), -radius * cos(at));
    }
}

static void circle_place(struct svg_layout *layout)
{
    const struct picture *picture = layout->picture;
    double around = 0, most = 0, least = INFINITY, angle = NAN, half = 0;
    for (uint32_t i = 0; i < picture->nodes_count; i++) {
        struct tool_svg_box box = box_of(layout, i, 0, 0);
        double room = layout->hub[i] == PICTURE_NONE ? room_of(layout, i) : 0;
        around += room;
        most = fmax(most, room);
        least = room > 0 ? fmin(least, room) : least;
        half = fmax(half, hypot(box.w, box.h) / 2);
    }
    double radius = fmax(around / TURN, layout->row);
    double outer = radius + fmax(layout->row * 1.6, most * 0.3);
    double inner = layout->seats > 1 ? radius : 0;
    layout->straight = radius * (1 - cos(TURN * least / around)) > half + 4;
    for (uint32_t i = 0; i < picture->nodes_count; i++) {
        if (layout->hub[i] != PICTURE_NONE)
            continue;
        double sector = TURN * room_of(layout, i) / around;
        angle = isnan(angle) ? 0 : angle + sector / 2; /* the first node is at the top */
        layout->places[i] = box_of(layout, i, inner * sin(angle), -inner * cos(angle));
        leaves_place(layout, i, angle, sector, outer);
        angle += sector / 2;
    }
    places_fit(layout);
}

/* Return the curve: straight to the next node of the circle, else bent towards the
 * centre, past the nodes between. */
static struct svg_curve circle_wire(const struct svg_layout *layout, uint32_t seats_apart,
                                    struct tool_svg_box a, struct tool_svg_box b,
                                    uint32_t turn)
{
    double ax = centre_x(a), ay = centre_y(a), bx = centre_x(b), by = centre_y(b);
    double x = (ax + bx) / 2, y = (ay + by) / 2, length = hypot(bx - ax, by - ay);
    double dx = layout->centre_x - x, dy = layout->centre_y - y, far = hypot(dx, dy);
    bool next = seats_apart == 1 || seats_apart + 1 == layout->seats;
    double bend = next || layout->straight ? 0 : fmin(0.6 * length, 0.7 * far);
    if (far < 1) { /* through the centre: pass beside it */
        dx = (by - ay) / length;
        dy = (ax - bx) / length;
        far = 1;
    }
    bend = (bend + turn * 1.4 * BOW) / far;
    return (struct svg_curve){ax, ay, x + dx * bend, y + dy * bend, bx, by};
}

/* ---- the whole --------------------------------------------------------------------- */

void svg_network_place(struct svg_layout *layout)
{
    uint32_t most = levels_find(layout->picture, layout->level);
    if (most && layers_hold(layout)) {
        layout->shape = SVG_LAYERS;
        layers_place(layout, most);
        return;
    }
    seats_find(layout);
    layout->columns = columns_find(layout);
    layout->shape = layout->columns ? SVG_GRID : SVG_CIRCLE;
    if (layout->columns)
        grid_place(layout);
    else
        circle_place(layout);
}

struct svg_curve svg_network_wire(const struct svg_layout *layout,
                                  const struct picture_wire *wire)
{
    uint32_t turn = wire->turn, a = wire->from, b = wire->to;
    bool layers = layout->shape == SVG_LAYERS;
    bool swap =
        layers ? layout->level[a] > layout->level[b] : layout->seat[a] > layout->seat[b];
    if (!layers && layout->hub[a] != PICTURE_NONE)
        return hung_wire(layout, a, side_of(turn));
    if (!layers && layout->hub[b] != PICTURE_NONE)
        return hung_wire(layout, b, side_of(turn));
    if (swap) {
        a = wire->to;
        b = wire->from;
    }
    if (layers)
        return layers_wire(layout, a, b, side_of(turn));
    if (layout->shape == SVG_GRID)
        return grid_wire(layout, layout->seat[a], layout->seat[b], layout->places[a],
                         layout->places[b], turn);
    return circle_wire(layout, layout->seat[b] - layout->seat[a], layout->places[a],
                       layout->places[b], turn);
}
