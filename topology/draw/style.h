/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Colours and line widths of all pictures of a graph.
 * Most wires have colours of Okabe and Ito's set, which is distinct for every colour
 * vision.
 */
#ifndef TRYST_TOPOLOGY_DRAW_STYLE_H
#define TRYST_TOPOLOGY_DRAW_STYLE_H

#include "topology/base/graph.h"

const char *style_node_fill(enum graph_node_kind kind);
const char *style_link_colour(enum graph_link_kind kind);
/** Return the colour of a tree; colours repeat. */
const char *style_tree_colour(uint32_t tree);
/** Return the widest finite bandwidth of the graph; GRAPH_UNKNOWN for none. */
double style_widest(const struct graph *graph);
/** Return a line's width in points: 6 for `most`, 0.9 less for each halving, at least 1;
 *  1 where unknown or unlimited. */
double style_link_width(double bytes_per_s, double most);

#endif
