/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an operation of a given size takes: the plan against shapes that are made for small messages.
 *
 * One idea (the α-β-γ model: Thakur, Rabenseifner, Gropp 2005): a tree takes the latency of its longest path (α), moves
 * bytes (β) and sums them (γ). A shape sends the whole message on round by round (a level, or for the binomial tree one
 * message of each sender): it moves it through the busiest link of each round, and then the rank with most messages of
 * that round adds them. The plan cuts it into slices: it moves it through its busiest link once, sums beside that, so that
 * only what its busiest rank sums longer counts, and each further level adds a slice's time (fill), and what the
 * first slice waits for its sums on the way up.
 * Invariant: of equal overlays and sizes the same wins; of equal times the first in the table.
 * Callers: tryst/topo.h's implementation; writers of plans; plan_told.c.
 */
#ifndef TRYST_TOPOLOGY_PLAN_COST_H
#define TRYST_TOPOLOGY_PLAN_COST_H

#include "topology/plan/plan.h"

#define COST_SHAPES_MAX 6
/* 1/γ where nobody says: float32 from memory, one core: test_plan_cost prints what this machine has. */
#define COST_SUM_BYTES_PER_S 7e9

struct cost_shape {
    const char *name; /* "plan", "flat", "binomial", "binary", "4-ary", "two-level" */
    uint32_t root;    /* a member */
    double latency_s, move_s, sum_s, fill_s;
};

struct cost_table {
    uint64_t bytes;         /* 0: nobody asked */
    double sum_bytes_per_s; /* 1/γ; INFINITY: for nothing */
    uint32_t shapes_count, wins;
    bool latency_unknown; /* of some link: it counts as 0 */
    struct cost_shape shapes[COST_SHAPES_MAX];
};

/** Fills the table for table->bytes and its rate of sums; all-gather and reduce-scatter have the plan alone. Reads
 *  of the plan its operation, trees and time. TRYST_E_NOMEM. */
tryst_status plan_cost(struct overlay *overlay, const struct plan *plan, uint32_t root,
                       struct err *err, struct cost_table *table);

double cost_total_s(const struct cost_shape *shape);

#endif
