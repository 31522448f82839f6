/* SPDX-License-Identifier: Apache-2.0 */
/* Column generation with the LP solver. */
#ifndef TRYST_TOPOLOGY_PLAN_PLAN_COLUMNS_H
#define TRYST_TOPOLOGY_PLAN_PLAN_COLUMNS_H

#include "plan_work.h"

/** Generate columns until the relative gap is at most `gap`, no column is new, or
 *  `calls_max` calls of the oracle or the pivots are used up. Does nothing
 *  where the rows are too many. Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status plan_columns(struct plan_work *work, double gap, uint32_t calls_max);

#endif
