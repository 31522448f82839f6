/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a compiled plan is made: begin a plan, fill in trees (their parents), operations
 * and rates, end the plan.
 */
#ifndef TRYST_COLLECTIVES_PLAN_COMPILED_BUILD_H
#define TRYST_COLLECTIVES_PLAN_COMPILED_BUILD_H

#include "compiled.h"

enum compiled_halves { HALF_UP = 1, HALF_DOWN = 2, HALVES_ALIKE = 4 };

/** True if both halves exist and have the same parents. */
bool compiled_tree_alike(const struct compiled_tree *tree, uint32_t ranks_count);

/** List the children of each rank in `half` in the reverse order of `from`. Returns
 *  TRYST_OK or TRYST_E_NOMEM. */
tryst_status compiled_half_reverse(struct arrays *arrays, uint32_t ranks_count,
                                   const struct compiled_half *from,
                                   struct compiled_half *half);

/** Begin a plan of `ranks_count` ranks: members are set, out_bytes_per_s is all unknown.
 *  `*plan_p` must be NULL; a failure, too, may set it. Returns TRYST_OK or
 *  TRYST_E_NOMEM. */
tryst_status compiled_plan_new(uint32_t ranks_count, const struct compiled_params *params,
                               struct compiled_plan **plan_p);
/** List the children of all trees and set *plan_p. On failure, or if `status` is one,
 *  close `plan` (NULL is allowed). Returns TRYST_OK, or TRYST_E_NOMEM with a text. */
tryst_status compiled_plan_end(tryst_status status, struct compiled_plan *plan,
                               struct err *err, struct compiled_plan **plan_p);

#endif
