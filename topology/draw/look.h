/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Colours and widths that all pictures of a graph share.
 * Colours are from Okabe and Ito's set, which people with any colour vision can tell apart.
 */
#ifndef TRYST_TOPOLOGY_LOOK_H
#define TRYST_TOPOLOGY_LOOK_H

#include "topology/base/graph.h"

const char *look_node_fill(enum graph_node_kind kind);
const char *look_link_colour(enum graph_link_kind kind);
/* Of trees; they repeat. */
const char *look_tree_colour(uint32_t tree);
/* The widest bandwidth of the graph that limits; GRAPH_UNKNOWN where there is none. */
double look_most(const struct graph *graph);
/* A line's width in points: 6 for `most`, 0.9 less for each halving, at least 1 (so for unknown ones). */
double look_link_width(double bytes_per_s, double most);

#endif
