/* SPDX-License-Identifier: Apache-2.0 */
/* Write a graph as a tree and a matrix for people. */
#ifndef TRYST_TOPOLOGY_DRAW_GRAPH_TEXT_H
#define TRYST_TOPOLOGY_DRAW_GRAPH_TEXT_H

#include "core/text/growing_text.h"
#include "overlaid.h"

void graph_text_write(const struct graph *graph, const struct graph_overlaid *overlaid,
                      struct text *text);

#endif
