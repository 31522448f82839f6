/* SPDX-License-Identifier: Apache-2.0 */
/* What simplifying a plan costs; see plan.h. */
#include "plan.h"

const char *plan_step_name(enum plan_step_kind kind)
{
    static const char *const names[PLAN_STEPS] = {[PLAN_SOLVED] = "solved",
                                                  [PLAN_FEWER] = "fewer trees",
                                                  [PLAN_SHALLOWER] = "shallower",
                                                  [PLAN_ROUNDED] = "round shares"};
    return names[kind];
}

double plan_fill_slices(enum plan_op op, uint32_t ranks, uint32_t depth, double share)
{
    bool all_roots = op == PLAN_ALLGATHER || op == PLAN_REDUCE_SCATTER;
    double levels = op == PLAN_ALLREDUCE ? 2.0 * depth : depth;
    double part = all_roots ? share / ranks : share;
    return share < PLAN_SHARE_MIN || levels < 1 ? 0 : (levels - 1) / part;
}

double plan_step_fill_s(const struct plan_step *step)
{
    return step->fill * PLAN_SLICE_BYTES * step->s_per_byte;
}
