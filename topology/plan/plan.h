/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans: which trees carry which share of a tensor, with a lower bound on the time of any
 * plan.
 *
 * One idea: the best rooted trees are a linear program over far too many trees. Link
 * prices pick the few trees that matter (column generation: Gilmore and Gomory 1961;
 * minimum-cost arborescences: Chu and Liu 1965, Edmonds 1967). The same prices prove the
 * lower bound for all plans of trees on these routes.
 * Invariants: shares are ≥ 0 and sum to 1 (for each root where every rank is a root: see
 * plan_op); s_per_byte is recomputed from the trees, never taken from the solver;
 * bound_s_per_byte ≤ s_per_byte is what the prices alone prove; equal inputs give equal
 * bits, unless `budget_ns` is set.
 *
 * Times are seconds per byte of the tensor ("s_per_byte"): the busiest link's load ÷
 * capacity.
 */
#ifndef TRYST_TOPOLOGY_PLAN_PLAN_H
#define TRYST_TOPOLOGY_PLAN_PLAN_H

#include "collectives/plan/plan_op.h"
#include "core/memory/arrays.h"
#include "core/text/hash.h"
#include "topology/routes/overlay.h"

/** Trees with a smaller share are ignored where an operation's time is predicted. */
#define PLAN_SHARE_MIN 1e-6

/** A tree with its share. A parents array is indexed by position in the group, holds
 *  GRAPH_NONE at the root, and is NULL where the operation lacks that half. */
struct plan_tree {
    double share;
    uint32_t root;
    uint32_t *broadcast_parent;
    uint32_t *reduce_parent;
    uint32_t depth; /**< the most edges between the root and a rank, in either half */
};

struct plan_params {
    enum plan_op op;
    uint32_t root; /**< of a broadcast or reduce; 0 for other operations */
    /** The most trees of each group of shares; 0: as few as cost no time. */
    uint32_t trees_max;
    /** Relative gap between time and bound at which solving stops; 0: 1e-9. */
    double gap_max;
    /** Time after which solving stops; 0: no limit. With a limit, the plan depends on the
     *  machine's speed, so two runs may differ. */
    uint64_t budget_ns;
};

/** Return the half to show in reports: the broadcast half, else the reduce half. */
static inline const uint32_t *plan_tree_parents(const struct plan_tree *tree)
{
    return tree->broadcast_parent ? tree->broadcast_parent : tree->reduce_parent;
}

/** The steps from the solver's shares to the plan, in order; PLAN_ROUNDED is the plan
 *  itself. */
enum plan_step_kind { PLAN_SOLVED, PLAN_FEWER, PLAN_SHALLOWER, PLAN_ROUNDED, PLAN_STEPS };

/** The trees and the time after a step. */
struct plan_step {
    uint32_t trees_count, depth;
    double s_per_byte;
    /** Fill time of the tree that fills slowest, in slice times of the whole plan: see
     *  fill_slices in plan.c. */
    double fill;
};

struct plan {
    struct arrays arrays; /**< memory of all arrays below and of the trees */
    enum plan_op op;
    uint32_t ranks_count, trees_count, links_count; /**< links: those of the overlay */
    struct plan_tree *trees;
    uint32_t *links; /**< by overlay link: its number in the graph */
    double *load;    /**< by overlay link: bytes per byte of the tensor */
    double *price;   /**< by overlay link; the sum of price × capacity is 1 */
    double s_per_byte, bound_s_per_byte;
    /** Calls of the oracle (plan_work_price); trees that the solvers tried. */
    uint32_t iterations, columns;
    struct plan_step steps[PLAN_STEPS];
    uint64_t digest; /**< of operation, trees and shares */
};

/** Compute a plan for the ranks of `overlay`.
 *  Returns: TRYST_E_INVALID  unknown operation, or a root outside the group
 *           TRYST_E_NOMEM */
tryst_status plan_open(struct overlay *overlay, const struct plan_params *params,
                       struct err *err, struct plan **plan_p);
void plan_close(struct plan *plan);

/** True if two trees of n ranks have the same root and parents. */
bool plan_tree_same(const struct plan_tree *a, const struct plan_tree *b, uint32_t n);
/** True if two halves of n parents are equal, or both are NULL. */
bool plan_half_same(const uint32_t *a, const uint32_t *b, uint32_t n);
/** Add share, root and parents of a tree of n ranks to a digest. */
void plan_tree_hash(struct hash_stream *stream, const struct plan_tree *tree, uint32_t n);

/** Recompute plan->digest from operation, trees and shares. Returns TRYST_OK or
 *  TRYST_E_NOMEM. */
tryst_status plan_digest(struct plan *plan);

/** Return a step's name in reports: "solved", "fewer trees", "shallower", "round
 *  shares". */
const char *plan_step_name(enum plan_step_kind kind);

/** Count a tree of `ranks` ranks, with its depth and share, in `step`. */
void plan_step_add(struct plan_step *step, enum plan_op op, uint32_t ranks,
                   uint32_t depth, double share);

/** Return the seconds that the trees of `step` take to fill, with slices of
 *  PLAN_SLICE_BYTES. */
double plan_step_fill_s(const struct plan_step *step);

#endif
