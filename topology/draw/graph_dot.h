/* SPDX-License-Identifier: Apache-2.0 */
/* Write a graph as DOT, for Graphviz. */
#ifndef TRYST_TOPOLOGY_DRAW_GRAPH_DOT_H
#define TRYST_TOPOLOGY_DRAW_GRAPH_DOT_H

#include "core/text/growing_text.h"
#include "overlaid.h"

void graph_dot_write(const struct graph *graph, const struct graph_overlaid *overlaid,
                     struct text *text);

#endif
