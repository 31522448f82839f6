/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draw a plan's trees separately below the picture: the root at the top, children below
 * their parent, each rank by its name, or by its number where names are long or ranks
 * are many. Eight trees over the picture alone are a tangle.
 *
 * Of an all-reduce's two halves only the broadcast is drawn; edges lead from parent to
 * child (in a reduce the data flows the other way).
 */
#include "svg_trees.h"

#include <string.h>

#include "tools/svg.h"

#define GAP       18.0
#define EM_WIDTHS 0.62 /* of a character, by the size of its font */
/* Names of more ranks, or longer ones, would not fit. */
enum { NAMED_RANKS = 32, NAME_CHARS = 12 };

struct drawing {
    const int32_t *parent;
    uint32_t ranks_count;
    double radius, next_x;
    double half;                                 /* half of the width of a rank's box */
    bool is_named;                               /* else numbered */
    double x[SVG_TREE_RANKS], y[SVG_TREE_RANKS]; /* by position in the group */
    uint32_t depth;
};

/* Place leaves side by side, each parent above the middle of its children. */
static void node_place(struct drawing *drawing, int32_t node, uint32_t depth)
{
    double first = 0, last = 0;
    bool any = false;
    for (uint32_t i = 0; i < drawing->ranks_count && depth < drawing->ranks_count; i++) {
        if (drawing->parent[i] != node)
            continue;
        node_place(drawing, (int32_t)i, depth + 1);
        first = any ? first : drawing->x[i];
        last = drawing->x[i];
        any = true;
    }
    if (!any) {
        first = last = drawing->next_x;
        drawing->next_x += drawing->half * 2 + drawing->radius / 2;
    }
    drawing->x[node] = (first + last) / 2;
    drawing->y[node] = depth * drawing->radius * 4.2;
    drawing->depth = depth > drawing->depth ? depth : drawing->depth;
}

/* Return the name of a rank. */
static const char *rank_name(const struct picture *picture, uint32_t rank)
{
    return picture->nodes[picture->ranks[rank]].short_name;
}

/* Return the characters of the longest name of a tree's ranks; 0: they are numbered. */
static size_t name_chars(const struct picture *picture, const tryst_plan_tree *tree)
{
    size_t most = 1;
    if (picture->members_count > NAMED_RANKS)
        return 0;
    for (uint32_t i = 0; i < picture->members_count; i++) {
        const char *name = rank_name(picture, picture_member(tree, i));
        size_t chars = name ? strlen(name) : NAME_CHARS + 1;
        most = chars > most ? chars : most;
    }
    return most <= NAME_CHARS ? most : 0;
}

static void drawing_make(const struct picture *picture, const tryst_plan_tree *tree,
                         struct drawing *drawing)
{
    uint32_t count = picture->members_count;
    size_t chars = name_chars(picture, tree);
    *drawing = (struct drawing){.parent = tree->parents,
                                .ranks_count = count,
                                .radius = count <= 16   ? 9
                                          : count <= 32 ? 7
                                                        : 5.5};
    double half = (double)(chars + 1) * drawing->radius * 1.05 * EM_WIDTHS / 2;
    drawing->is_named = chars > 0;
    drawing->half = half > drawing->radius ? half : drawing->radius;
    node_place(drawing, tree->root, 0);
}

static void edge_draw(FILE *out, const struct drawing *drawing, uint32_t child,
                      const char *colour)
{
    uint32_t parent = (uint32_t)drawing->parent[child];
    char attributes[48];
    snprintf(attributes, sizeof attributes, "stroke='%s' stroke-width='1.6'", colour);
    tool_svg_line(out, drawing->x[parent], drawing->y[parent], drawing->x[child],
                  drawing->y[child], attributes);
}

static void rank_draw(FILE *out, const struct picture *picture,
                      const struct drawing *drawing, uint32_t node, uint32_t rank,
                      const char *colour)
{
    bool root = drawing->parent[node] < 0;
    double size = drawing->radius * (rank > 99 ? 0.85 : 1.05);
    char attributes[96];
    fprintf(out,
            "<rect x='%.6g' y='%.6g' width='%.6g' height='%.6g' rx='%.6g' fill='%s' "
            "stroke='%s'/>\n",
            drawing->x[node] - drawing->half, drawing->y[node] - drawing->radius,
            drawing->half * 2, drawing->radius * 2, drawing->radius,
            root ? colour : "#ffffff", colour);
    snprintf(attributes, sizeof attributes,
             "style='font-size:%.1fpx;fill:%s' text-anchor='middle'", size,
             root ? "#ffffff" : "#1f2933");
    double x = drawing->x[node], y = drawing->y[node] + size * 0.36;
    if (drawing->is_named)
        tool_svg_text(out, x, y, attributes, "%s", rank_name(picture, rank));
    else
        tool_svg_text(out, x, y, attributes, "%u", rank);
}

static void tree_draw(FILE *out, const struct picture *picture, uint32_t number,
                      const struct drawing *drawing, double left, double top)
{
    const tryst_plan_tree *tree = &picture->trees[number];
    const char *colour = picture_tree_colour(number);
    char attributes[64];
    fprintf(out, "<g transform='translate(%.1f %.1f)'>\n", left + drawing->half, top);
    snprintf(attributes, sizeof attributes, "style='font-size:11px;fill:%s'", colour);
    tool_svg_text(out, drawing->radius / 3 - drawing->half, -20, attributes,
                  "tree %u, %.1f %%", number, tree->share * 100);
    for (uint32_t i = 0; i < drawing->ranks_count; i++)
        if (drawing->parent[i] >= 0)
            edge_draw(out, drawing, i, colour);
    for (uint32_t i = 0; i < drawing->ranks_count; i++)
        rank_draw(out, picture, drawing, i, picture_member(tree, i), colour);
    fputs("</g>\n", out);
}

double svg_trees_draw(FILE *out, const struct picture *picture, double left, double top,
                      double width)
{
    double x = left, y = top + 30, lowest = top;
    uint32_t count = picture->members_count <= SVG_TREE_RANKS ? picture->trees_count : 0;
    for (uint32_t i = 0; i < count; i++) {
        struct drawing drawing;
        drawing_make(picture, &picture->trees[i], &drawing);
        double w = drawing.next_x + GAP < 96 ? 96 : drawing.next_x + GAP;
        if (x > left && x + w > left + width) {
            x = left;
            y = lowest + 42;
        }
        tree_draw(out, picture, i, &drawing, x, y);
        double bottom = y + drawing.depth * drawing.radius * 4.2 + drawing.radius;
        lowest = bottom > lowest ? bottom : lowest;
        x += w;
    }
    return lowest;
}
