/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Predicted times of an operation of a given size: the plan and its rivals.
 *
 * One idea: one rule prices all trees, the plan's and the rivals'
 * (topology/sized/tree_cost.h). The smaller the slice, the shorter the time, so plan_cost
 * cuts all tensors into slices of PLAN_SLICE_BYTES.
 *
 * Ring and halving-doubling consist of steps in which all ranks send. A step takes the
 * longest of three times: the busiest link's, the sums', and one slice's trip. Latencies
 * and sums of a long step overlap with its transfer.
 *
 *   ring              2(n − 1) steps of S/n for all-reduce, n − 1 for all-gather and
 *                     reduce-scatter; in plan_ring's order
 *   halving-doubling  Rabenseifner 2004: steps of S/2, S/4… between ranks 1, 2, 4… apart
 *                     in plan_ring's order, and back. If n is not a power of two, the
 *                     first ranks fold in pairs (all-reduce; the other operations then
 *                     lack this shape)
 *
 * Invariant: equal overlays and sizes give the same winner; of equal times the first in
 * the table wins. A plan of one tree and a rival of the same tree have equal times.
 */
#ifndef TRYST_TOPOLOGY_REPORT_PLAN_COST_H
#define TRYST_TOPOLOGY_REPORT_PLAN_COST_H

#include "topology/plan/plan.h"
#include "topology/sized/plan_sizes.h"
#include "topology/sized/sum_rate.h"
#include "topology/sized/tree_cost.h"

#define COST_SHAPES_MAX 9

/** The predicted time of a shape is the sum of its parts. */
struct cost_shape {
    /** "plan", "flat", "chain", "binomial", "binary", "4-ary", "two-level", "ring",
     *  "halving-doubling" */
    const char *name;
    bool rooted;   /**< the shape is a tree, or the plan */
    uint32_t root; /**< position of the tree's root in the group */
    double latency_s, move_s, sum_s, fill_s;
};

struct cost_table {
    uint64_t bytes; /**< size of the operation; 0: no prediction */
    /** Rate at which each rank sums (1/γ); INFINITY: sums take no time; 0: by each rank's
     *  device. */
    double sum_bytes_per_s;
    struct sum_rate sums; /**< result: the slowest rank's rate */
    /** Result: number of shapes, the fastest one's number. */
    uint32_t shapes_count, wins;
    bool latency_unknown; /**< result: some link's latency is unknown and counts as 0 */
    struct cost_shape shapes[COST_SHAPES_MAX];
};

/** Predict the time of each shape; fill the table. The caller sets table->bytes and
 *  table->sum_bytes_per_s. Of `plan`, operation and trees are read. Returns TRYST_OK or
 *  TRYST_E_NOMEM. */
tryst_status plan_cost(struct overlay *overlay, const struct plan *plan, uint32_t root,
                       struct err *err, struct cost_table *table);

/** Predicted times of two rivals for a size, with their best slices and the engine's
 *  overheads; INFINITY: the operation or group lacks this shape. */
struct cost_rivals {
    double ring_s, halving_s;
};

/** Predict the times of the rivals for each size of plan_size_steps. Of `plan`, the
 *  operation is read. `sum_bytes_per_s` as in cost_table. Returns TRYST_OK or
 *  TRYST_E_NOMEM. */
tryst_status plan_rivals(struct overlay *overlay, const struct plan *plan, uint32_t root,
                         double sum_bytes_per_s, struct err *err,
                         struct cost_rivals rivals_p[PLAN_SIZES]);

/** Return the predicted time of a shape in seconds. */
double cost_total_s(const struct cost_shape *shape);

#endif
