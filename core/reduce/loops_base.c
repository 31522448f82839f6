/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels for every processor of this architecture, by the compiler's own choice of
 * instructions (SSE2 on x86-64, NEON on aarch64); see reduce_loops.h.
 */
#define REDUCE_TABLE reduce_table_base
#include "reduce_loops.h"
