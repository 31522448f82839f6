/* SPDX-License-Identifier: Apache-2.0 */
/* Few, shallow trees, built instead of solved for. Callers: plan.c, plan_simplify.c. */
#ifndef TRYST_TOPOLOGY_PLAN_SEED_H
#define TRYST_TOPOLOGY_PLAN_SEED_H

#include "plan_work.h"

/** Builds few, shallow trees for the prices that proved the bound and sets the shares to the best set that
 *  it found, when that is better than `time_max` (scaled) or equal with fewer trees than `trees_max` (0: any);
 *  else leaves the shares. `*found_p` says which. */
tryst_status plan_seed(struct plan_work *work, double time_max, double time_enough,
                       uint32_t trees_max, bool *found_p);

#endif
