/* SPDX-License-Identifier: Apache-2.0 */
/* Read a graph from its dump in JSON; graph_json.c shows an example. */
#ifndef TRYST_TOPOLOGY_FORMATS_GRAPH_JSON_H
#define TRYST_TOPOLOGY_FORMATS_GRAPH_JSON_H

#include "core/source/source.h"
#include "topology/base/graph.h"

/** Read a graph, without sealing it; *graph_p is set on success only. Returns TRYST_OK,
 *  TRYST_E_INVALID (the message has line and column) or TRYST_E_NOMEM. */
tryst_status graph_json_read(const struct source *source, struct graph **graph_p);

#endif
