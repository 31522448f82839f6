/* SPDX-License-Identifier: Apache-2.0 */
/* Shares by multiplicative weights. */
#ifndef TRYST_TOPOLOGY_PLAN_PLAN_MWU_H
#define TRYST_TOPOLOGY_PLAN_PLAN_MWU_H

#include "plan_work.h"

struct plan_mwu_params {
    double gap;         /**< relative gap at which to stop */
    uint32_t calls_max; /**< calls of the oracle after which to stop */
    /** Let mu follow the gap (plan_mwu.c): if no LP follows, good shares matter more than
     *  good prices. */
    bool mu_by_gap;
};

/** Improve the columns' shares. Start from their present shares and, for each group
 *  without a share, from one tree. Leaves the best shares found. Returns TRYST_OK or
 *  TRYST_E_NOMEM. */
tryst_status plan_mwu(struct plan_work *work, const struct plan_mwu_params *params);

#endif
