/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Colours and widths that all pictures of a graph share.
 * Colours are from Okabe and Ito's set, which people with any colour vision can tell apart.
 */
#ifndef TRYST_TOPOLOGY_LOOK_H
#define TRYST_TOPOLOGY_LOOK_H

#include "graph.h"

const char *look_node_fill(enum graph_node_kind kind);
const char *look_link_colour(enum graph_link_kind kind);
/* Of trees; they repeat. */
const char *look_tree_colour(uint32_t tree);
/* A line's width in points: 1 at 1 GB/s and below, wider by 1.1 for each factor of 4. */
double look_link_width(double bytes_per_s);

#endif
