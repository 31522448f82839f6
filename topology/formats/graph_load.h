/* SPDX-License-Identifier: Apache-2.0 */
/* A graph from a path. Callers: tryst/topo.h's implementation, commsched/context/group_plan.c. */
#ifndef TRYST_TOPOLOGY_GRAPH_LOAD_H
#define TRYST_TOPOLOGY_GRAPH_LOAD_H

#include "topology/base/graph.h"

/** Read the file `path`, in any format of graph_read; "-" is standard input. Words of a synthetic machine
 *  ("node:4 gpu:8") are read where no file has this name. TRYST_E_IO: the file cannot be read; else as
 *  graph_read. */
tryst_status graph_load(const char *path, struct err *err, struct graph **graph_p);

#endif
