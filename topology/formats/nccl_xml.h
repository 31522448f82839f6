/* SPDX-License-Identifier: Apache-2.0 */
/* Read machines from NCCL's XML; nccl_xml.c shows an example. */
#ifndef TRYST_TOPOLOGY_FORMATS_NCCL_XML_H
#define TRYST_TOPOLOGY_FORMATS_NCCL_XML_H

#include "core/source/source.h"
#include "topology/base/graph.h"

/** Read a graph, without sealing it; *graph_p is set on success only. Returns TRYST_OK,
 *  TRYST_E_INVALID (the message has the line), TRYST_E_NOMEM or TRYST_E_UNSUPPORTED (no
 *  libxml2). */
tryst_status nccl_xml_read(const struct source *source, struct graph **graph_p);

#endif
