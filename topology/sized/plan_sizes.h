/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans by size: the trees and the slice that operations of each size run.
 *
 * One idea: the plan that is best per byte pays for its depth and for the number of its
 * trees, since each tree fills with slices at its part of the rate. So one model
 * (tree_cost.h) prices the plan and many shallower sets of trees for several sizes and
 * slices, and each size gets the set with the shortest predicted time.
 *
 * Tree 0 is the same tree in every size: the best one for the smallest size. Ranks that
 * disagree about the size of an operation meet on the edges of tree 0. If a larger size's
 * set lacks this tree, the tree is put in front with a share of 0.
 * Invariant: equal inputs give equal bits. Shares of a size are ≥ 0 and sum to 1, up to
 * rounding.
 */
#ifndef TRYST_TOPOLOGY_SIZED_PLAN_SIZES_H
#define TRYST_TOPOLOGY_SIZED_PLAN_SIZES_H

#include "topology/plan/plan.h"
#include "tree_cost.h"

#define PLAN_SIZES 6

/** The least and the largest slice that are tried, of the tree that carries the most.
 *  Slices are powers of two. */
#define PLAN_SLICE_BYTES_MIN (16u << 10)
#define PLAN_SLICE_BYTES_MAX (1u << 20)
/** The longest time that a slice of more than PLAN_SLICE_BYTES_MIN takes on a link: an
 *  urgent slice waits for a few slices in flight, and where several ranks send to one,
 *  their slices meet in the queue of its port. So slices take 1 to 2 ms where links are
 *  slow, and the lead (collectives/tree/lead.h) covers 8 ms or more there. With 5 ms,
 *  an all-reduce over a trunk of 400 Mbit/s took 1.5 of its bound. */
#define PLAN_SLICE_TIME_S 2e-3
/** The least slice of the tree that carries the least, unless the largest slice is too
 *  small for it: ranks cut no smaller ones (collectives/tree/map.h). */
#define PLAN_SLICE_BYTES_THIN 4096

/** Bytes on the wire for each slice, beside its own: the frames that announce, grant and
 *  acknowledge, and the headers of all packets. Measured as the bytes of an interface, in
 *  all-reduces over UCX on TCP with slices of 32 KiB less those with slices of 64 KiB:
 *  358 (star of tests/perf/networks.sh). */
#define PLAN_SLICE_WIRE_BYTES 360

/** By how much a link takes longer that several pairs of ranks send over at a time.
 *  All-reduces of 25 and 64 MiB on a star of 4 hosts x 400 Mbit/s took 1.05 to 1.09 of
 *  their bound over trees, where each host receives from two or three, and 1.01 to 1.02
 *  over a ring, without retransmissions (tests/perf/RESULTS.md). */
#define PLAN_CROWDED 0.05

/** A size may exceed its limit (plan_sizes_open_within) by this part: gains predicted for
 *  more trees are not reliable to 1 %. */
#define PLAN_LIMIT_SLACK 0.01

struct plan_size {
    uint64_t bytes; /**< the size that predicted_s is for */
    /** The largest operation that runs these trees; UINT64_MAX for the last size. */
    uint64_t bytes_max;
    uint32_t slice_bytes;
    uint32_t trees_count, depth; /**< depth: of the deepest tree with a share */
    struct plan_tree *trees;     /**< tree 0 first, then by descending share */
    double s_per_byte;           /**< the busiest link's time for a byte of the tensor */
    double predicted_s;
};

struct plan_sizes {
    struct arrays arrays; /**< memory of all trees below */
    enum plan_op op;
    /** Number of ranks; number of sizes, 0 if every rank is a root or there is only
     *  one. */
    uint32_t ranks_count, count;
    struct plan_size sizes[PLAN_SIZES];
    double bound_s_per_byte; /**< of the plan */
    uint64_t digest;         /**< of the plan, sizes, slices, trees and shares */
};

/** For each size: the bytes for which trees are chosen, and the largest operation that
 *  runs them. */
extern const struct plan_size_step {
    uint64_t bytes, bytes_max;
} plan_size_steps[PLAN_SIZES];

/** Choose trees and slice for each size. `sum_bytes_per_s` as in tree_costing_init.
 *  Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status plan_sizes_open(struct overlay *overlay, const struct plan *plan,
                             double sum_bytes_per_s, struct err *err,
                             struct plan_sizes **sizes_p);
/** Choose as plan_sizes_open does, but take as tree 0 the best tree for the smallest size
 *  with which no size is predicted slower than limits_s[size] × (1 + PLAN_LIMIT_SLACK).
 *  If there is none, or `limits_s` is NULL, choose exactly as plan_sizes_open. */
tryst_status plan_sizes_open_within(struct overlay *overlay, const struct plan *plan,
                                    double sum_bytes_per_s,
                                    const double limits_s[PLAN_SIZES], struct err *err,
                                    struct plan_sizes **sizes_p);
void plan_sizes_close(struct plan_sizes *sizes);

/** Return the predicted time of a size's trees at its slice; INFINITY if an edge has no
 *  route. */
double plan_size_time(struct tree_costing *costing, const struct plan_size *size);

/** Recompute the digest. Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status plan_sizes_digest(struct plan_sizes *sizes, uint64_t plan_digest);

#endif
