/* SPDX-License-Identifier: Apache-2.0 */
/* Private functions of topo.c that topo_place.c and topo_probe.c share. */
#ifndef TRYST_TOPOLOGY_TOPO_OWN_H
#define TRYST_TOPOLOGY_TOPO_OWN_H

#include "topology/base/graph.h"
#include "tryst/topo.h"

/** Report `err` to the caller unless `status` is TRYST_OK; return `status`. */
tryst_status topo_result(tryst_status status, const struct err *err);

const struct graph *topo_graph(const tryst_topo *topo);

/** Make a topology that owns `graph`; on failure `graph` is closed. Returns TRYST_OK or
 *  TRYST_E_NOMEM. */
tryst_status topo_wrap(struct graph *graph, struct err *err, tryst_topo **topo_p);

#endif
