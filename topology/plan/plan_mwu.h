/* SPDX-License-Identifier: Apache-2.0 */
/* Shares by multiplicative weights. Callers: plan.c. */
#ifndef TRYST_TOPOLOGY_PLAN_MWU_H
#define TRYST_TOPOLOGY_PLAN_MWU_H

#include "plan_work.h"

struct plan_mwu_params {
    double gap;         /* relative, to stop at */
    uint32_t calls_max; /* of the oracle */
    bool mu_by_gap;     /* no LP follows: shares count, prices no longer */
};

/** Leaves shares in the columns. TRYST_E_NOMEM. */
tryst_status plan_mwu(struct plan_work *work, const struct plan_mwu_params *params);

#endif
