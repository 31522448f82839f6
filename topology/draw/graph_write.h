/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs as files and pictures.
 *
 * One idea: every picture begins at the same struct graph; a format is one file with one function, which appends the
 * whole graph to a text that remembers a failure. They are listed in graph_write.c.
 * Threads: none of its own. Callers: tryst/topo.h's implementation, tests.
 */
#ifndef TRYST_TOPOLOGY_GRAPH_WRITE_H
#define TRYST_TOPOLOGY_GRAPH_WRITE_H

#include "overlaid.h"
#include "topology/formats/graph_read.h"

/** The graph as text, terminated, the caller's to mem_free. `overlaid` (NULL: none) is drawn by GRAPH_SVG and
 *  GRAPH_DOT, told by GRAPH_TEXT. TRYST_E_NOMEM; TRYST_E_UNSUPPORTED: that format cannot be written. */
tryst_status graph_write(const struct graph *graph, enum graph_format format,
                         const struct graph_overlaid *overlaid, struct err *err,
                         char **text_p);

#endif
