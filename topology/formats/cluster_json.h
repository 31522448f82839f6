/* SPDX-License-Identifier: Apache-2.0 */
/* Clusters as JSON, the exchange format for planning; cluster_json.c shows an example. */
#ifndef TRYST_TOPOLOGY_FORMATS_CLUSTER_JSON_H
#define TRYST_TOPOLOGY_FORMATS_CLUSTER_JSON_H

#include "source.h"

/** Read a graph; the graph is not sealed. On failure *graph_p is not set: TRYST_E_INVALID
 *  with the place, TRYST_E_NOMEM. */
tryst_status cluster_json_read(const struct source *source, struct graph **graph_p);

#endif
