/* SPDX-License-Identifier: Apache-2.0 */
/* From a solution to a plan that is simple. Callers: plan.c. */
#ifndef TRYST_TOPOLOGY_PLAN_SIMPLIFY_H
#define TRYST_TOPOLOGY_PLAN_SIMPLIFY_H

#include "plan_work.h"

/** Fewer and shallower trees with round shares, in a time no longer than the present one or `time_enough` (scaled); at
 *  most params->trees_max of each group (0: any number), whatever that costs. `few`: they are few already. Notes each
 *  step in work->steps. */
tryst_status plan_simplify(struct plan_work *work, const struct plan_params *params,
                           double time_enough, bool few);

#endif
