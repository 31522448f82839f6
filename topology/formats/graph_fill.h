/* SPDX-License-Identifier: Apache-2.0 */
/** @file graph_fill.h
 *  A graph from a source: opened, filled, and closed again on failure. */
#ifndef TRYST_TOPOLOGY_FORMATS_GRAPH_FILL_H
#define TRYST_TOPOLOGY_FORMATS_GRAPH_FILL_H

#include "core/source/source.h"
#include "topology/base/graph.h"

/** Open a graph and call `fill` on it. On success set *graph_p; on failure close the
 *  graph and report the error of `fill` as source_judge does. */
tryst_status graph_fill_open(const struct source *source, struct text_place place,
                             tryst_status (*fill)(void *arg, struct graph *graph,
                                                  struct err *why),
                             void *arg, struct graph **graph_p);

#endif
