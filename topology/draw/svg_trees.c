/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draw a plan's trees separately below the picture: the root at the top, children below
 * their parent, a number for each rank. Eight trees over the picture alone are a
 * tangle.
 *
 * Of an all-reduce's two halves only the broadcast is drawn; edges lead from parent to
 * child (in a reduce the data flows the other way).
 */
#include "svg_trees.h"

#include <stdio.h>

#include "style.h"

#define GAP 18.0

struct drawing {
    const uint32_t *parent;
    uint32_t ranks_count;
    double radius, next_x;
    double x[SVG_TREE_RANKS], y[SVG_TREE_RANKS]; /* by position in the group */
    uint32_t depth;
};

/* Place leaves side by side, each parent above the middle of its children. */
static void node_place(struct drawing *drawing, uint32_t node, uint32_t depth)
{
    double first = 0, last = 0;
    bool any = false;
    for (uint32_t i = 0; i < drawing->ranks_count && depth < drawing->ranks_count; i++) {
        if (drawing->parent[i] != node)
            continue;
        node_place(drawing, i, depth + 1);
        first = any ? first : drawing->x[i];
        last = drawing->x[i];
        any = true;
    }
    if (!any) {
        first = last = drawing->next_x;
        drawing->next_x += drawing->radius * 2.5;
    }
    drawing->x[node] = (first + last) / 2;
    drawing->y[node] = depth * drawing->radius * 4.2;
    drawing->depth = depth > drawing->depth ? depth : drawing->depth;
}

static bool drawing_make(const struct plan *plan, uint32_t number,
                         struct drawing *drawing)
{
    const struct plan_tree *tree = &plan->trees[number];
    *drawing = (struct drawing){.parent = plan_tree_parents(tree),
                                .ranks_count = plan->ranks_count,
                                .radius = plan->ranks_count <= 16   ? 9
                                          : plan->ranks_count <= 32 ? 7
                                                                    : 5.5};
    if (!drawing->parent || plan->ranks_count > SVG_TREE_RANKS)
        return false;
    node_place(drawing, tree->root, 0);
    return true;
}

static void edge_draw(struct text *text, const struct drawing *drawing, uint32_t child,
                      const char *colour)
{
    uint32_t parent = drawing->parent[child];
    text_addf(text,
              "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
              "stroke-width=\"1.6\"/>\n",
              drawing->x[parent], drawing->y[parent], drawing->x[child],
              drawing->y[child], colour);
}

static void rank_draw(struct text *text, const struct drawing *drawing, uint32_t node,
                      uint32_t rank, const char *colour)
{
    bool root = drawing->parent[node] == GRAPH_NONE;
    double size = drawing->radius * (rank > 99 ? 0.85 : 1.05);
    text_addf(text,
              "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\" stroke=\"%s\"/>\n",
              drawing->x[node], drawing->y[node], drawing->radius,
              root ? colour : "#ffffff", colour);
    text_addf(text,
              "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%.1f\" text-anchor=\"middle\" "
              "fill=\"%s\">%u</text>\n",
              drawing->x[node], drawing->y[node] + size * 0.36, size,
              root ? "#ffffff" : "#1f2933", rank);
}

static void tree_draw(struct text *text, const struct graph_overlaid *overlaid,
                      uint32_t number, const struct drawing *drawing, double left,
                      double top)
{
    const char *colour = style_tree_colour(number);
    text_addf(text,
              "<g transform=\"translate(%.1f %.1f)\">\n<text x=\"-6\" y=\"-20\" "
              "font-size=\"11\" fill=\"%s\">tree %u, %.1f %%</text>\n",
              left + drawing->radius, top, colour, number,
              overlaid->plan->trees[number].share * 100);
    for (uint32_t i = 0; i < drawing->ranks_count; i++)
        if (drawing->parent[i] != GRAPH_NONE)
            edge_draw(text, drawing, i, colour);
    for (uint32_t i = 0; i < drawing->ranks_count; i++)
        rank_draw(text, drawing, i, overlaid_rank(overlaid, i), colour);
    text_add(text, "</g>\n");
}

double svg_trees_draw(struct text *text, const struct graph_overlaid *overlaid,
                      uint32_t count, double left, double top, double width)
{
    double x = left, y = top + 30, lowest = top;
    for (uint32_t i = 0; i < count; i++) {
        struct drawing drawing;
        if (!drawing_make(overlaid->plan, i, &drawing))
            continue;
        double w = drawing.next_x + GAP < 96 ? 96 : drawing.next_x + GAP;
        if (x > left && x + w > left + width) {
            x = left;
            y = lowest + 42;
        }
        tree_draw(text, overlaid, i, &drawing, x, y);
        double bottom = y + drawing.depth * drawing.radius * 4.2 + drawing.radius;
        lowest = bottom > lowest ? bottom : lowest;
        x += w;
    }
    return lowest;
}
