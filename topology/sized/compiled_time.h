/* SPDX-License-Identifier: Apache-2.0 */
/* Predicted times of a compiled plan, by the model that chose its trees. Callers: commsched/context/group_plan.c. */
#ifndef TRYST_TOPOLOGY_COMPILED_TIME_H
#define TRYST_TOPOLOGY_COMPILED_TIME_H

#include "compiled.h"
#include "plan_sizes.h"

/** Predict the seconds of the plan's all-reduce over that network, which need not be the one that it was made for, at each of
 *  plan_size_steps. INFINITY: an edge has no route. TRYST_E_NOMEM. */
tryst_status compiled_plan_times(const struct compiled_plan *plan,
                                 struct overlay *overlay, double sum_bytes_per_s,
                                 double times_s[PLAN_SIZES]);

#endif
