/* SPDX-License-Identifier: Apache-2.0 */
/* A plan's trees, each by itself, below a picture of the graph. Callers: graph_svg.c. */
#ifndef TRYST_TOPOLOGY_SVG_TREES_H
#define TRYST_TOPOLOGY_SVG_TREES_H

#include "overlaid.h"
#include "topology/base/text.h"

#define SVG_TREE_RANKS 128 /* of more ranks no tree is drawn by itself */
/* The first `count` trees one by one in rows of at most `width`; returns how far down they go. */
double svg_trees_draw(struct text *text, const struct graph_overlaid *overlaid,
                      uint32_t count, double left, double top, double width);

#endif
