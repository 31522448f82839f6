/* SPDX-License-Identifier: Apache-2.0 */
/* Write a graph of one machine as hwloc's XML. */
#ifndef TRYST_TOPOLOGY_FORMATS_HWLOC_WRITE_H
#define TRYST_TOPOLOGY_FORMATS_HWLOC_WRITE_H

#include "topology/base/graph.h"
#include "topology/base/text.h"

/** Append the XML. TRYST_E_UNSUPPORTED: the graph has no machine or several. */
tryst_status hwloc_xml_write(const struct graph *graph, struct err *err,
                             struct text *text);

#endif
