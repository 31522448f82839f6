/* SPDX-License-Identifier: Apache-2.0 */
/* Draw a graph as SVG. */
#ifndef TRYST_TOPOLOGY_DRAW_GRAPH_SVG_H
#define TRYST_TOPOLOGY_DRAW_GRAPH_SVG_H

#include "core/text/growing_text.h"
#include "overlaid.h"

void graph_svg_write(const struct graph *graph, const struct graph_overlaid *overlaid,
                     struct text *text);

#endif
