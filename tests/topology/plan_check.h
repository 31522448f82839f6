/* SPDX-License-Identifier: Apache-2.0 */
/* Open a plan and check all that can be checked without the solver: trees, shares, loads,
 * bound. */
#ifndef TRYST_TESTS_TOPOLOGY_PLAN_CHECK_H
#define TRYST_TESTS_TOPOLOGY_PLAN_CHECK_H

#include "topology/plan/plan.h"

struct plan *plan_check_open(struct overlay *overlay, const struct plan_params *params);

#endif
