/* SPDX-License-Identifier: Apache-2.0 */
/* Read a synthetic machine; README.md has the grammar. */
#ifndef TRYST_TOPOLOGY_FORMATS_SYNTHETIC_H
#define TRYST_TOPOLOGY_FORMATS_SYNTHETIC_H

#include "core/source/source.h"
#include "topology/base/graph.h"

/** Read a graph, without sealing it; *graph_p is set on success only. Returns TRYST_OK,
 *  TRYST_E_INVALID (the message has line and column) or TRYST_E_NOMEM. */
tryst_status synthetic_read(const struct source *source, struct graph **graph_p);

#endif
