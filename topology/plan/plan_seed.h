/* SPDX-License-Identifier: Apache-2.0 */
/* Few, shallow trees, built greedily instead of solved for. */
#ifndef TRYST_TOPOLOGY_PLAN_PLAN_SEED_H
#define TRYST_TOPOLOGY_PLAN_PLAN_SEED_H

#include "plan_work.h"

/** Build sets of at most `trees_max` (0: any number) equal trees for each group, at the
 *  prices that proved the bound. Set the shares to the best set, if its time (scaled) is
 *  at most `time_enough` or below `time_max`; else leave the shares. `*found_p` is true
 *  if the shares were set.
 *  Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status plan_seed(struct plan_work *work, double time_max, double time_enough,
                       uint32_t trees_max, bool *found_p);

#endif
