/* SPDX-License-Identifier: Apache-2.0 */
/* The matrix of a machine's devices, like `nvidia-smi topo -m`, but in GB/s and ns. Called by graph_text. */
#ifndef TRYST_TOPOLOGY_GRAPH_MATRIX_H
#define TRYST_TOPOLOGY_GRAPH_MATRIX_H

#include "topology/base/graph.h"
#include "topology/base/text.h"

void graph_matrix_write(const struct graph *graph, struct text *text);

#endif
