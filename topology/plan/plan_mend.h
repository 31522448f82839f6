/* SPDX-License-Identifier: Apache-2.0 */
/* Repair of a previous plan for a network in which links are gone or slower. */
#ifndef TRYST_TOPOLOGY_PLAN_PLAN_MEND_H
#define TRYST_TOPOLOGY_PLAN_PLAN_MEND_H

#include "plan_work.h"

/** Put the previous plan's trees and shares into the pool, repaired where they cross a
 *  missing link; then move share off the busiest rows by exchanging single edges, until
 *  the gap to the bound is `gap`, no exchange helps or the work is used up. The rows must
 *  have been priced (plan_work_price).
 *  Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status plan_mend(struct plan_work *work, const struct plan *before, double gap);

#endif
