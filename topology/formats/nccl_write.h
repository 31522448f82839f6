/* SPDX-License-Identifier: Apache-2.0 */
/* Write a graph as the XML that NCCL reads. */
#ifndef TRYST_TOPOLOGY_FORMATS_NCCL_WRITE_H
#define TRYST_TOPOLOGY_FORMATS_NCCL_WRITE_H

#include "topology/base/graph.h"
#include "topology/base/text.h"

void nccl_xml_write(const struct graph *graph, struct text *text);

#endif
