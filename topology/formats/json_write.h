/* SPDX-License-Identifier: Apache-2.0 */
/* A graph as JSON of our own, the dump. Callers: graph_write.c. */
#ifndef TRYST_TOPOLOGY_JSON_WRITE_H
#define TRYST_TOPOLOGY_JSON_WRITE_H

#include "topology/base/graph.h"
#include "topology/base/text.h"

#define GRAPH_JSON_VERSION 1

/** Reading it gives an equal graph, and writing that the same bytes. */
void graph_json_write(const struct graph *graph, struct text *text);

#endif
