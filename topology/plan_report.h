/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan as others see it: JSON out, and JSON checked.
 *
 * One idea: the document holds all that is needed to check it against the cluster it is for: trees, shares, loads and the
 * prices that prove the bound. So the check needs no solver, and shares no code with one.
 * Units in the document are Gbit and seconds per Gbit. A link's price there is the weight of its time in the bound (the
 * plan's price × its capacity); the weights sum to 1, so no plan can be faster than the cheapest tree's
 * sum of weight × load ÷ capacity.
 * Callers: tryst/topo.h's implementation.
 */
#ifndef TRYST_TOPOLOGY_PLAN_REPORT_H
#define TRYST_TOPOLOGY_PLAN_REPORT_H

#include <stddef.h>

#include "plan_cost.h"
#include "topology/base/text.h"
#include "topology/plan/plan.h"

#define BYTES_PER_GBIT 1.25e8

struct plan_report {
    const struct graph *graph;
    const struct overlay *overlay;
    const struct plan *plan;
    const uint32_t
        *members; /* rank numbers; NULL: all ranks, and the document does not list them */
    uint32_t root;           /* broadcast, reduce: a member */
    double ring_s_per_byte;  /* INFINITY: no ring */
    struct cost_table costs; /* bytes 0: none */
};

/** "allreduce"…; PLAN_OPS for an unknown name. */
const char *plan_op_name(enum plan_op op);
enum plan_op plan_op_parse(const char *name);
/** Whether ranks add in it. */
bool plan_op_sums(enum plan_op op);

/** How much longer the plan takes than its bound, as a part of the bound. */
double plan_gap(double time, double bound);

void plan_json_write(const struct plan_report *report, struct text *text);

/** Whether the document `json` is a right plan for `graph`: everything in it is recomputed. TRYST_E_NOMEM;
 *  TRYST_E_INVALID with "name: what is wrong". */
tryst_status plan_verify(const struct graph *graph, const char *json, size_t bytes,
                         const char *name, struct err *err);

/** The cheapest out-tree from `root` (an arborescence) at cost[i × n + j] per edge i → j, or, `inwards`, the cheapest
 *  in-tree; INFINITY when there is none. By reductions alone: Chu and Liu 1965, Edmonds 1967. `scratch` holds n × n. */
double cheapest_tree_cost(const double *cost, uint32_t n, uint32_t root, bool inwards,
                          double *scratch, uint32_t *numbers);

/** The same for each root at once, into costs_p[n]. False: not strongly connected, and nothing is written. `numbers` holds
 *  5 n, `sums` 2 n. */
bool cheapest_tree_costs(const double *cost, uint32_t n, bool inwards, double *scratch,
                         uint32_t *numbers, double *sums, double *costs_p);

#endif
