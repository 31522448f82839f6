/* SPDX-License-Identifier: Apache-2.0 */
/* Read a machine from hwloc's XML (lstopo x.xml). */
#ifndef TRYST_TOPOLOGY_FORMATS_HWLOC_XML_H
#define TRYST_TOPOLOGY_FORMATS_HWLOC_XML_H

#include "source.h"

/** Read a graph; the graph is not sealed. On failure *graph_p is not set: TRYST_E_INVALID
 *  with the place, TRYST_E_NOMEM, TRYST_E_UNSUPPORTED (no libxml2). */
tryst_status hwloc_xml_read(const struct source *source, struct graph **graph_p);

#endif
