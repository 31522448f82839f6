/* SPDX-License-Identifier: Apache-2.0 */
/* A plan of before, made to fit a network of which something is gone or slower. Callers: plan.c. */
#ifndef TRYST_TOPOLOGY_PLAN_MEND_H
#define TRYST_TOPOLOGY_PLAN_MEND_H

#include "plan_work.h"

/** The trees of a previous plan with their shares, repaired where they cross what is gone, and what of them loads the
 *  longest rows moved elsewhere, as far as that goes by exchanging single edges. Prices must have been set. */
tryst_status plan_mend(struct plan_work *work, const struct plan *before, double gap);

#endif
