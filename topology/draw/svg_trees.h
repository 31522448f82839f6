/* SPDX-License-Identifier: Apache-2.0 */
/* Draw a plan's trees, each separately, below a picture of the graph. */
#ifndef TRYST_TOPOLOGY_DRAW_SVG_TREES_H
#define TRYST_TOPOLOGY_DRAW_SVG_TREES_H

#include "core/text/growing_text.h"
#include "overlaid.h"

#define SVG_TREE_RANKS 128 /* trees of more ranks are not drawn separately */
/** Draw the first `count` trees in rows of at most `width`; return the y where the last
 *  row ends. */
double svg_trees_draw(struct text *text, const struct graph_overlaid *overlaid,
                      uint32_t count, double left, double top, double width);

#endif
