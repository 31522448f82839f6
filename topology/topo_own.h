/* SPDX-License-Identifier: Apache-2.0 */
/* What the public face of topologies (topo.c, topo_place.c, topo_probe.c) shares. */
#ifndef TRYST_TOPOLOGY_TOPO_OWN_H
#define TRYST_TOPOLOGY_TOPO_OWN_H

#include "topology/base/graph.h"
#include "tryst/topo.h"

/* Hands the sentence to the caller and passes the status on. */
tryst_status topo_result(tryst_status status, const struct err *err);

const struct graph *topo_graph(const tryst_topo *topo);

/* Takes the graph over. */
tryst_status topo_wrap(struct graph *graph, struct err *err, tryst_topo **topo_p);

#endif
