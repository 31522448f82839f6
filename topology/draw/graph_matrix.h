/* SPDX-License-Identifier: Apache-2.0 */
/* Write the matrix of a machine's devices, like `nvidia-smi topo -m`, but in GB/s and
 * ns. */
#ifndef TRYST_TOPOLOGY_DRAW_GRAPH_MATRIX_H
#define TRYST_TOPOLOGY_DRAW_GRAPH_MATRIX_H

#include "core/text/growing_text.h"
#include "topology/base/graph.h"

void graph_matrix_write(const struct graph *graph, struct text *text);

#endif
