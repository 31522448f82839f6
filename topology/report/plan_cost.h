/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Predicted times of an operation of a given size: the plan and its rivals.
 *
 * One idea: one rule prices all trees, the plan's and the rivals' (topology/sized/tree_cost.h has it). The time falls with
 * the slice, so every shape is cut into the smallest slices that the dispatch cuts.
 *
 * Rings and recursive halving with doubling are steps between ranks that all send: each step takes what its busiest
 * link takes, or its sums, or a slice's trip if that is longer; latencies and sums of a long step hide behind it.
 *
 *   ring              all-reduce 2(n − 1) steps of S/n, all-gather and reduce-scatter n − 1; in plan_ring's order
 *   halving-doubling  Rabenseifner 2004: steps of S/2, S/4… between ranks 1, 2, 4… apart in that order, and back; of
 *                     other n than powers of two the first ranks fold in pairs (all-reduce; the others have no such shape)
 *
 * Invariant: of equal overlays and sizes the same wins; of equal times the first in the table. A plan of one tree that is
 * a rival's has its time.
 * Callers: tryst/topo.h's implementation; writers of plans; plan_told.c.
 */
#ifndef TRYST_TOPOLOGY_PLAN_COST_H
#define TRYST_TOPOLOGY_PLAN_COST_H

#include "topology/plan/plan.h"
#include "topology/sized/plan_sizes.h"
#include "topology/sized/sum_rate.h"
#include "topology/sized/tree_cost.h"

#define COST_SHAPES_MAX 9

struct cost_shape {
    const char
        *name;     /* "plan", "flat", "chain", "binomial", "binary", "4-ary", "two-level",
                         "ring", "halving-doubling" */
    bool rooted;   /* a tree */
    uint32_t root; /* a member */
    double latency_s, move_s, sum_s, fill_s;
};

struct cost_table {
    uint64_t bytes; /* 0: no prediction */
    double
        sum_bytes_per_s; /* 1/γ of every rank, INFINITY: for nothing; 0: by what it sits on */
    struct sum_rate sums; /* result: the slowest rank's rate */
    uint32_t shapes_count, wins;
    bool latency_unknown; /* of some link: it counts as 0 */
    struct cost_shape shapes[COST_SHAPES_MAX];
};

/** Fills the table for table->bytes and its rate of sums. Reads of the plan its operation and trees. TRYST_E_NOMEM. */
tryst_status plan_cost(struct overlay *overlay, const struct plan *plan, uint32_t root,
                       struct err *err, struct cost_table *table);

/* Predicted times of two rivals for a size, in their best slice and with the engine's costs; INFINITY: no such rival. */
struct cost_rivals {
    double ring_s, halving_s;
};

/** For each size of plan_size_steps. Reads of the plan its operation. `sum_bytes_per_s` as in cost_table. TRYST_E_NOMEM. */
tryst_status plan_rivals(struct overlay *overlay, const struct plan *plan, uint32_t root,
                         double sum_bytes_per_s, struct err *err,
                         struct cost_rivals rivals_p[PLAN_SIZES]);

double cost_total_s(const struct cost_shape *shape);

#endif
