/* SPDX-License-Identifier: Apache-2.0 */
/* Machines as NCCL's XML; nccl_xml.c shows it. Callers: graph_read.c. */
#ifndef TRYST_TOPOLOGY_NCCL_XML_H
#define TRYST_TOPOLOGY_NCCL_XML_H

#include "source.h"

/** A graph that is not sealed; nothing on failure: TRYST_E_INVALID with the place, TRYST_E_NOMEM, TRYST_E_UNSUPPORTED. */
tryst_status nccl_xml_read(const struct source *source, struct graph **graph_p);

#endif
