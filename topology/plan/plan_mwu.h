/* SPDX-License-Identifier: Apache-2.0 */
/* Shares by multiplicative weights. */
#ifndef TRYST_TOPOLOGY_PLAN_PLAN_MWU_H
#define TRYST_TOPOLOGY_PLAN_PLAN_MWU_H

#include "plan_work.h"

/** Improve the columns' shares until the relative gap is at most `gap`, with at most
 *  `calls_max` calls of the oracle. Start from their present shares and, for each group
 *  without a share, from one tree. Leaves the best shares found. Returns TRYST_OK or
 *  TRYST_E_NOMEM. */
tryst_status plan_mwu(struct plan_work *work, double gap, uint32_t calls_max);

#endif
