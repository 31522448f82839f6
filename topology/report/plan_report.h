/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contents of a plan's report: the plan, its group, its trees by size; names of
 * operations.
 */
#ifndef TRYST_TOPOLOGY_REPORT_PLAN_REPORT_H
#define TRYST_TOPOLOGY_REPORT_PLAN_REPORT_H

#include "topology/plan/plan.h"
#include "topology/sized/plan_sizes.h"

#define BYTES_PER_GBIT 1.25e8 /* documents use Gbit and seconds per Gbit */

struct plan_report {
    const struct graph *graph;
    const struct overlay *overlay;
    const struct plan *plan;
    /** Rank numbers; NULL: all ranks, and the document does not list them. */
    const uint32_t *members;
    uint32_t root; /**< of a broadcast or reduce: position in the group */
    const struct plan_sizes *sizes; /**< trees by size; NULL: none */
    /** Rate at which ranks sum in `sizes`; 0: by each rank's device. */
    double sizes_sum_bytes_per_s;
};

/** Return an operation's name: "allreduce"… */
const char *plan_op_name(enum plan_op op);
/** Return the operation of this name; PLAN_OPS if the name is unknown. */
enum plan_op plan_op_parse(const char *name);
/** True if ranks sum in the operation. */
bool plan_op_sums(enum plan_op op);

/** Return time ÷ bound - 1; 0 if that is below rounding errors, or `bound` is 0. */
double plan_gap(double time, double bound);

#endif
