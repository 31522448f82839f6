/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Colours and line widths of all pictures of a graph.
 * Most wires have colours of Okabe and Ito's set, which is distinct for every colour
 * vision.
 */
#ifndef TRYST_TOPOLOGY_DRAW_LOOK_H
#define TRYST_TOPOLOGY_DRAW_LOOK_H

#include "topology/base/graph.h"

const char *look_node_fill(enum graph_node_kind kind);
const char *look_link_colour(enum graph_link_kind kind);
/** Return the colour of a tree; colours repeat. */
const char *look_tree_colour(uint32_t tree);
/** Return the widest finite bandwidth of the graph; GRAPH_UNKNOWN for none. */
double look_most(const struct graph *graph);
/** Return a line's width in points: 6 for `most`, 0.9 less for each halving, at least 1;
 *  1 where unknown or unlimited. */
double look_link_width(double bytes_per_s, double most);

#endif
