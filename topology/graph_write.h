/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writers behind graph_write: each appends the whole graph to a text, which remembers a failure.
 * Called by graph_io.
 */
#ifndef TRYST_TOPOLOGY_GRAPH_WRITE_H
#define TRYST_TOPOLOGY_GRAPH_WRITE_H

#include "graph_io.h"
#include "topology/base/text.h"

void graph_json_write(const struct graph *graph, struct text *text);
void graph_text_write(const struct graph *graph, const struct graph_overlaid *overlaid,
                      struct text *text);
void graph_dot_write(const struct graph *graph, const struct graph_overlaid *overlaid,
                     struct text *text);
void graph_svg_write(const struct graph *graph, const struct graph_overlaid *overlaid,
                     struct text *text);
void nccl_xml_write(const struct graph *graph, struct text *text);
/* TRYST_E_UNSUPPORTED: not one machine. */
tryst_status hwloc_xml_write(const struct graph *graph, struct err *err,
                             struct text *text);

#endif
