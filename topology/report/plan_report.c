/* SPDX-License-Identifier: Apache-2.0 */
/* Names of operations, and the gap; see plan_report.h. */
#include "plan_report.h"

#include <string.h>

/* A time and its bound may be sums of the same loads in different orders: a gap below
 * this is rounding. */
#define ROUNDING 1e-11

static const char *const op_names[PLAN_OPS] = {
    [PLAN_ALLREDUCE] = "allreduce",
    [PLAN_BROADCAST] = "broadcast",
    [PLAN_REDUCE] = "reduce",
    [PLAN_ALLGATHER] = "allgather",
    [PLAN_REDUCE_SCATTER] = "reduce_scatter",
};

const char *plan_op_name(enum plan_op op)
{
    return op < PLAN_OPS ? op_names[op] : "?";
}

enum plan_op plan_op_parse(const char *name)
{
    unsigned op = 0;
    while (op < PLAN_OPS && strcmp(name, op_names[op]) != 0)
        op++;
    return (enum plan_op)op;
}

bool plan_op_sums(enum plan_op op)
{
    return op == PLAN_ALLREDUCE || op == PLAN_REDUCE || op == PLAN_REDUCE_SCATTER;
}

double plan_gap(double time, double bound)
{
    double gap = bound > 0 && time > bound ? time / bound - 1 : 0;
    return gap > ROUNDING ? gap : 0;
}
