/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an operation of a given size takes: the plan against shapes that are made for small messages.
 *
 * One idea (the α-β model; without γ, the time of the sum, which no file tells): a tree takes the latency of its
 * longest path, and moves bytes. A shape sends the whole message on round by round (a level, or for the binomial tree one message of
 * each sender), so it moves it through the busiest link of each round; the plan cuts it into slices, so it moves it through its busiest link once, and each further level adds
 * the time of one slice (fill).
 * Invariant: of equal overlays and sizes the same wins; of equal times the first in the table.
 * Callers: tryst/topo.h's implementation; writers of plans.
 */
#ifndef TRYST_TOPOLOGY_PLAN_COST_H
#define TRYST_TOPOLOGY_PLAN_COST_H

#include "plan.h"

#define COST_SHAPES_MAX 6

struct cost_shape {
    const char *name; /* "plan", "flat", "binomial", "binary", "4-ary", "two-level" */
    uint32_t root;    /* a member */
    double latency_s, move_s, fill_s;
};

struct cost_table {
    uint64_t bytes; /* 0: nobody asked */
    uint32_t shapes_count, wins;
    bool latency_unknown; /* of some link: it counts as 0 */
    struct cost_shape shapes[COST_SHAPES_MAX];
};

/** Fills the table; all-gather and reduce-scatter have the plan alone. TRYST_E_NOMEM. */
tryst_status plan_cost(struct overlay *overlay, const struct plan *plan, uint32_t root,
                       uint64_t bytes, struct err *err, struct cost_table *table_p);

double cost_total_s(const struct cost_shape *shape);

#endif
