/* SPDX-License-Identifier: Apache-2.0 */
/* Predicted times of a compiled plan, by the model that chose its trees. */
#ifndef TRYST_TOPOLOGY_SIZED_COMPILED_TIME_H
#define TRYST_TOPOLOGY_SIZED_COMPILED_TIME_H

#include "collectives/plan/compiled.h"
#include "plan_sizes.h"

/** Predict the seconds of the plan's all-reduce over the network of `overlay`, which need
 *  not be the plan's own, at each of plan_size_steps; INFINITY if an edge has no route.
 *  The plan must have an all-reduce. `sum_bytes_per_s` as in tree_costing_init. Returns
 *  TRYST_OK or TRYST_E_NOMEM. */
tryst_status compiled_plan_times(const struct compiled_plan *plan,
                                 struct overlay *overlay, double sum_bytes_per_s,
                                 double times_s[PLAN_SIZES]);

#endif
