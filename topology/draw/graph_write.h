/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Write graphs as files and pictures.
 *
 * One idea: every output begins at the same struct graph; a format is one file with one
 * function, which appends the whole graph to a text that keeps a failure. graph_write.c
 * lists the functions.
 * Threads: any; no state is shared.
 */
#ifndef TRYST_TOPOLOGY_DRAW_GRAPH_WRITE_H
#define TRYST_TOPOLOGY_DRAW_GRAPH_WRITE_H

#include "overlaid.h"
#include "topology/formats/graph_read.h"

/** Write the graph in `format`; *text_p ends with NUL, and the caller frees it by
 *  mem_free. GRAPH_DOT draws the plan `overlaid` (NULL: none), GRAPH_TEXT describes
 *  it. TRYST_E_NOMEM; TRYST_E_UNSUPPORTED: the format cannot be written. */
tryst_status graph_write(const struct graph *graph, enum graph_format format,
                         const struct graph_overlaid *overlaid, struct err *err,
                         char **text_p);

#endif
