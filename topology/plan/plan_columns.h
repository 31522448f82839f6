/* SPDX-License-Identifier: Apache-2.0 */
/* Column generation, where there is an LP. Callers: plan.c. */
#ifndef TRYST_TOPOLOGY_PLAN_COLUMNS_H
#define TRYST_TOPOLOGY_PLAN_COLUMNS_H

#include "plan_work.h"

/** Whether there are few enough rows for an LP. */
bool plan_columns_can(const struct plan_work *work);
/** Column generation to `gap`; TRYST_E_UNSUPPORTED: no LP here (the shares are as they were). */
tryst_status plan_columns(struct plan_work *work, double gap, uint32_t calls_max);

#endif
