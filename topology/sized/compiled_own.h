/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the files of compiled plans share; private to compiled*.c. */
#ifndef TRYST_TOPOLOGY_SIZED_COMPILED_OWN_H
#define TRYST_TOPOLOGY_SIZED_COMPILED_OWN_H

#include "compiled.h"

enum compiled_halves { HALF_UP = 1, HALF_DOWN = 2, HALVES_ALIKE = 4 };

/** True if both halves exist and have the same parents. */
bool compiled_tree_alike(const struct compiled_tree *tree, uint32_t ranks_count);

/** List the children of each rank in the order of addition (compiled.h), from
 *  half->parent. Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status compiled_half_order(struct arrays *arrays, uint32_t ranks_count,
                                 struct compiled_half *half);

/** List the children of each rank in `half` in the reverse order of `from`. Returns
 *  TRYST_OK or TRYST_E_NOMEM. */
tryst_status compiled_half_reverse(struct arrays *arrays, uint32_t ranks_count,
                                   const struct compiled_half *from,
                                   struct compiled_half *half);

#endif
