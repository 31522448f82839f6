/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This machine as a graph: hwloc's tree where hwloc is, else /sys alone; then the numbers of /sys and the NVLinks of
 * the driver.
 * Callers: tryst/topo.h's implementation, bind.
 */
#ifndef TRYST_TOPOLOGY_DETECT_H
#define TRYST_TOPOLOGY_DETECT_H

#include "topology/base/graph.h"

/** Sealed. One rank at each GPU, where there are no GPUs one at each NUMA node. What the system does not say is
 *  unknown. TRYST_E_NOMEM, TRYST_E_SYSTEM. */
tryst_status graph_detect(struct err *err, struct graph **graph_p);

#endif
