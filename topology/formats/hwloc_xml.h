/* SPDX-License-Identifier: Apache-2.0 */
/* Read hwloc's XML (lstopo x.xml), by hwloc. */
#ifndef TRYST_TOPOLOGY_FORMATS_HWLOC_XML_H
#define TRYST_TOPOLOGY_FORMATS_HWLOC_XML_H

#include "core/source/source.h"
#include "topology/base/graph.h"

/** Read `source` into an unsealed graph. TRYST_E_INVALID, TRYST_E_NOMEM,
 *  TRYST_E_UNSUPPORTED (no hwloc). */
tryst_status hwloc_xml_read(const struct source *source, struct graph **graph_p);

#endif
