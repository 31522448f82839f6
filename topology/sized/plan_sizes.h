/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan chosen for its size: which trees and which slice an operation of so many bytes runs.
 *
 * One idea: the plan that is best per byte pays for its depth and for the number of its trees, since each tree fills
 * with slices at its part of the rate. So the plan and many shallower sets of trees are priced by one model
 * (tree_cost.h) for a few sizes and slices, and each size gets the set that is predicted to end first.
 *
 * Tree 0 is the same tree in every size: the one that is best for the smallest size. Ranks that disagree about the size
 * of an operation meet on its edges. A larger size without this tree in its set has it in front with a share of 0.
 * Invariant: equal inputs give equal bits. Shares of a size are ≥ 0 and sum to 1 but for rounding.
 * Callers: tryst/topo.h's implementation; commsched/context/group_plan.c.
 */
#ifndef TRYST_TOPOLOGY_PLAN_SIZES_H
#define TRYST_TOPOLOGY_PLAN_SIZES_H

#include "topology/plan/plan.h"
#include "tree_cost.h"

#define PLAN_SIZES 6

/* The slices that are tried: powers of two. The least is PLAN_SLICE_BYTES. */
#define PLAN_SLICE_BYTES_MAX (1u << 20)

/* Costs of the engine at a rank, in seconds. Estimates until it is measured: a slice costs both of its ends together up
 * to 1,600 instructions, half a microsecond, and the transport a system call or a completion each; a flow costs two
 * operations, a WANT, its match and a key. */
#define PLAN_SLICE_S 2e-6
#define PLAN_FLOW_S  4e-6

/* By so much a set of fewer trees may be slower than a limit: what more trees are predicted to gain counts less than that. */
#define PLAN_LIMIT_SLACK 0.01

struct plan_size {
    uint64_t bytes; /* what it was chosen for */
    uint64_t
        bytes_max; /* it serves operations of at most so many; the last: UINT64_MAX */
    uint32_t slice_bytes;
    uint32_t trees_count, depth;
    struct plan_tree *trees; /* tree 0 first, then by descending share */
    double s_per_byte;       /* the busiest link's */
    double predicted_s;
};

struct plan_sizes {
    struct arrays arrays; /* all below */
    enum plan_op op;
    uint32_t ranks_count, count; /* count 0: the operation has every rank as a root */
    struct plan_size sizes[PLAN_SIZES];
    double bound_s_per_byte; /* the plan's */
    uint64_t digest;         /* of the plan, sizes, slices, trees and shares */
};

/* The sizes that are chosen for, and the largest that each serves. */
extern const struct plan_size_step {
    uint64_t bytes, bytes_max;
} plan_size_steps[PLAN_SIZES];

/** The engine's costs that predictions count. */
struct tree_overheads plan_size_overheads(void);

/** Seconds to sum a byte, by rank. */
void plan_sizes_gamma(struct overlay *overlay, double sum_bytes_per_s, double *gamma);

/** `sum_bytes_per_s` as in cost_table: 0 is by what each rank sits on, INFINITY that summing costs nothing.
 *  TRYST_E_NOMEM. */
tryst_status plan_sizes_open(struct overlay *overlay, const struct plan *plan,
                             double sum_bytes_per_s, struct err *err,
                             struct plan_sizes **sizes_p);
/** As plan_sizes_open, but where no size shall be predicted slower than `limits_s` (by size): tree 0 is the best for the
 *  smallest size of those trees that allow that, as far as PLAN_LIMIT_SLACK; without such a tree as there. */
tryst_status plan_sizes_open_within(struct overlay *overlay, const struct plan *plan,
                                    double sum_bytes_per_s,
                                    const double limits_s[PLAN_SIZES], struct err *err,
                                    struct plan_sizes **sizes_p);
void plan_sizes_close(struct plan_sizes *sizes);

/** The time of a size's trees at its slice, which is what `predicted_s` has. INFINITY: an edge has no route. */
double plan_size_time(struct tree_costing *costing, const struct plan_size *size);

/** Set the digest anew. TRYST_E_NOMEM. */
tryst_status plan_sizes_digest(struct plan_sizes *sizes, uint64_t plan_digest);

#endif
