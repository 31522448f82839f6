/* SPDX-License-Identifier: Apache-2.0 */
/* Networks from graphs. A graph is made by a test, or comes from a file that tryst-topo
 * reads: a cluster's JSON, a dump or a machine. */
#ifndef TRYST_TESTS_SIM_CLUSTER_H
#define TRYST_TESTS_SIM_CLUSTER_H

#include "network.h"
#include "topology/routes/overlay.h"

/** Make the network of a graph. Ranks are nodes 0, 1, …. Routes are those of the overlay,
 *  as for the planner; equal routes are used in turn. A link of unknown latency gets
 *  none, and a link that never limits gets 1 TB/s. */
void cluster_make(struct net *net, struct overlay *overlay, uint32_t packet_bytes);
/** Make the network of a file, and return the number of ranks. */
int cluster_load(struct net *net, const char *path, uint32_t packet_bytes);

#endif
