/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detect this machine as a graph: hwloc's tree, then the numbers of /sys and the driver's
 * NVLinks.
 */
#ifndef TRYST_TOPOLOGY_MACHINE_DETECT_H
#define TRYST_TOPOLOGY_MACHINE_DETECT_H

#include "topology/base/graph.h"

/** Detect this machine; the graph is sealed. Ranks: one at each GPU; without GPUs one at
 *  each NUMA node with cores; else one. Unreported numbers are unknown. Returns TRYST_OK,
 *  TRYST_E_NOMEM, TRYST_E_SYSTEM, TRYST_E_UNSUPPORTED (no hwloc), or TRYST_E_INVALID if
 *  the graph rejects a part. */
tryst_status graph_detect(struct err *err, struct graph **graph_p);

#endif
