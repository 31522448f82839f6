/* SPDX-License-Identifier: Apache-2.0 */
/* Readable shares. */
#ifndef TRYST_TOPOLOGY_PLAN_PLAN_SHARES_H
#define TRYST_TOPOLOGY_PLAN_PLAN_SHARES_H

#include "plan_work.h"

/** Round the shares to the first grid on which no row takes longer than `limit` (scaled),
 *  or if there is none to multiples of 2^-52. The shares of each group then sum to
 *  exactly 1. Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status plan_shares_round(struct plan_work *work, double limit);

#endif
