/* SPDX-License-Identifier: Apache-2.0 */
/* A graph from JSON of our own; graph_json.c shows it. Callers: graph_read.c. */
#ifndef TRYST_TOPOLOGY_GRAPH_JSON_H
#define TRYST_TOPOLOGY_GRAPH_JSON_H

#include "source.h"

/** A graph that is not sealed; nothing on failure: TRYST_E_INVALID with the place, TRYST_E_NOMEM. */
tryst_status graph_json_read(const struct source *source, struct graph **graph_p);

#endif
