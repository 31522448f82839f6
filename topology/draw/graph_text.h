/* SPDX-License-Identifier: Apache-2.0 */
/* A graph as a tree and a matrix for people. Callers: graph_write.c. */
#ifndef TRYST_TOPOLOGY_GRAPH_TEXT_H
#define TRYST_TOPOLOGY_GRAPH_TEXT_H

#include "overlaid.h"
#include "topology/base/text.h"

void graph_text_write(const struct graph *graph, const struct graph_overlaid *overlaid,
                      struct text *text);

#endif
