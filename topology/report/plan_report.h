/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan with all that is told of it: what it is for, what it is compared with, what its operations are called.
 * Callers: tryst/topo.h's implementation, the writers and the verifier here.
 */
#ifndef TRYST_TOPOLOGY_PLAN_REPORT_H
#define TRYST_TOPOLOGY_PLAN_REPORT_H

#include "plan_cost.h"
#include "topology/plan/plan.h"

#define BYTES_PER_GBIT 1.25e8 /* documents count in Gbit and seconds per Gbit */

struct plan_report {
    const struct graph *graph;
    const struct overlay *overlay;
    const struct plan *plan;
    const uint32_t
        *members; /* rank numbers; NULL: all ranks, and the document does not list them */
    uint32_t root;                  /* broadcast, reduce: a member */
    double ring_s_per_byte;         /* INFINITY: no ring */
    struct cost_table costs;        /* bytes 0: none */
    const struct plan_sizes *sizes; /* NULL: none */
    double sizes_sum_bytes_per_s;   /* 0: by what each rank sits on */
    struct cost_rivals rivals[PLAN_SIZES];
};

/** "allreduce"…; PLAN_OPS for an unknown name. */
const char *plan_op_name(enum plan_op op);
enum plan_op plan_op_parse(const char *name);
/** Whether ranks add in it. */
bool plan_op_sums(enum plan_op op);

/** How much longer the plan takes than its bound, as a part of the bound. */
double plan_gap(double time, double bound);

#endif
