/* SPDX-License-Identifier: Apache-2.0 */
/* A graph of one machine as hwloc's XML. Callers: graph_write.c. */
#ifndef TRYST_TOPOLOGY_HWLOC_WRITE_H
#define TRYST_TOPOLOGY_HWLOC_WRITE_H

#include "topology/base/graph.h"
#include "topology/base/text.h"

/** TRYST_E_UNSUPPORTED: not one machine. */
tryst_status hwloc_xml_write(const struct graph *graph, struct err *err,
                             struct text *text);

#endif
