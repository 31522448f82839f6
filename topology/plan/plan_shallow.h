/* SPDX-License-Identifier: Apache-2.0 */
/* Shallower trees for the same time. */
#ifndef TRYST_TOPOLOGY_PLAN_PLAN_SHALLOW_H
#define TRYST_TOPOLOGY_PLAN_PLAN_SHALLOW_H

#include "plan_work.h"

/** Make the trees shallower; no row's time rises above `limit` (scaled). Returns TRYST_OK
 *  or TRYST_E_NOMEM. */
tryst_status plan_shallow(struct plan_work *work, double limit);

#endif
