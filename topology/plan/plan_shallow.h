/* SPDX-License-Identifier: Apache-2.0 */
/* Shallower trees for the same time. Callers: plan_simplify.c. */
#ifndef TRYST_TOPOLOGY_PLAN_SHALLOW_H
#define TRYST_TOPOLOGY_PLAN_SHALLOW_H

#include "plan_work.h"

/** No row takes longer than `limit` (scaled), or than it did. TRYST_E_NOMEM. */
tryst_status plan_shallow(struct plan_work *work, double limit);

#endif
