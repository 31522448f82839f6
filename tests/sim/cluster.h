/* SPDX-License-Identifier: Apache-2.0 */
/* Networks from graphs: of a file that tryst-topo reads (a cluster's JSON, a dump, a
 * machine), or made by a test. */
#ifndef TESTS_SIM_CLUSTER_H
#define TESTS_SIM_CLUSTER_H

#include "network.h"
#include "topology/routes/overlay.h"

/* Ranks are nodes 0, 1, …. Routes are the overlay's, which the planner sees too: equal
 * ones are used in turn. A link of unknown latency has none, one that never limits takes
 * 1 TB/s. */
void cluster_make(struct net *net, struct overlay *overlay, uint32_t packet_bytes);
/* The network of a file; returns how many ranks it has. */
int cluster_load(struct net *net, const char *path, uint32_t packet_bytes);

#endif
