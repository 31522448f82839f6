/* SPDX-License-Identifier: Apache-2.0 */
/* Write a graph as JSON, the dump. */
#ifndef TRYST_TOPOLOGY_FORMATS_JSON_WRITE_H
#define TRYST_TOPOLOGY_FORMATS_JSON_WRITE_H

#include "core/text/growing_text.h"
#include "topology/base/graph.h"

#define GRAPH_JSON_VERSION 1

/** Append the dump. Reading the dump gives an equal graph, and writing that graph the
 *  same bytes. */
void graph_json_write(const struct graph *graph, struct text *text);

#endif
