/* SPDX-License-Identifier: Apache-2.0 */
/* Read a synthetic machine; README.md has the grammar. */
#ifndef TRYST_TOPOLOGY_FORMATS_SYNTHETIC_H
#define TRYST_TOPOLOGY_FORMATS_SYNTHETIC_H

#include "source.h"

/** Read a graph; the graph is not sealed. On failure *graph_p is not set: TRYST_E_INVALID
 *  with the place, TRYST_E_NOMEM. */
tryst_status synthetic_read(const struct source *source, struct graph **graph_p);

#endif
