/* SPDX-License-Identifier: Apache-2.0 */
/* Shares that people can read. Callers: plan_simplify.c. */
#ifndef TRYST_TOPOLOGY_PLAN_SHARES_H
#define TRYST_TOPOLOGY_PLAN_SHARES_H

#include "plan_work.h"

/** No row takes longer than `limit` (scaled). TRYST_E_NOMEM. */
tryst_status plan_shares_round(struct plan_work *work, double limit);

#endif
