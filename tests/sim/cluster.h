/* SPDX-License-Identifier: Apache-2.0 */
/* A network from a file that tryst-topo reads: a cluster's JSON, a dump, a machine. */
#ifndef TESTS_SIM_CLUSTER_H
#define TESTS_SIM_CLUSTER_H

#include "network.h"

/* Its ranks are nodes 0, 1, …; returns how many. A link whose latency nobody knows has none, one that never
 * limits takes 1 TB/s. Routes that the file gives are not followed, so a file with some is refused. */
int cluster_load(struct net *net, const char *path, uint32_t packet_bytes);

#endif
