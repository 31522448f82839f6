/* SPDX-License-Identifier: Apache-2.0 */
/* Draw a graph as SVG. */
#ifndef TRYST_TOPOLOGY_DRAW_GRAPH_SVG_H
#define TRYST_TOPOLOGY_DRAW_GRAPH_SVG_H

#include "overlaid.h"
#include "topology/base/text.h"

void graph_svg_write(const struct graph *graph, const struct graph_overlaid *overlaid,
                     struct text *text);

#endif
