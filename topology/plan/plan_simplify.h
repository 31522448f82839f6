/* SPDX-License-Identifier: Apache-2.0 */
/* From a solver's shares to a simple plan. */
#ifndef TRYST_TOPOLOGY_PLAN_PLAN_SIMPLIFY_H
#define TRYST_TOPOLOGY_PLAN_PLAN_SIMPLIFY_H

#include "plan_work.h"

/** Make the trees fewer and shallower and round their shares. The time stays within the
 *  present one or `time_enough` (scaled), unless more than params->trees_max (0: any
 *  number) trees of a group have to be removed. With `few` no trees are removed. Writes
 *  each step's result to work->steps.
 *  Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status plan_simplify(struct plan_work *work, const struct plan_params *params,
                           double time_enough, bool few);

#endif
