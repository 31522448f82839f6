/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans: which trees carry which share of a tensor, with a proof of how good that is.
 *
 * One idea: the best rooted trees are a linear program over far too many trees; link prices pick the
 * few that matter (column generation: Gilmore and Gomory 1961; minimum-cost arborescences: Chu and Liu 1965, Edmonds
 * 1967), and the same prices prove how far any plan of trees on these routes can be from ours.
 * Invariants: shares are ≥ 0 and sum to 1 (per root where every rank is one: see plan_op); `time` is recomputed
 * from the trees, never taken from the solver; `bound` ≤ time is what the prices prove by themselves;
 * equal inputs give equal bits.
 * Callers: tryst/topo.h's implementation; topology/sized; commsched/context/group_plan.c.
 *
 * Times are seconds per byte of the tensor ("s_per_byte"): the busiest link's load ÷ capacity.
 */
#ifndef TRYST_TOPOLOGY_PLAN_H
#define TRYST_TOPOLOGY_PLAN_H

#include "core/text/hash.h"
#include "topology/base/arrays.h"
#include "topology/routes/overlay.h"

/* The least that the dispatch cuts. */
#define PLAN_SLICE_BYTES 65536
/* Trees that carry less decide nothing about how long an operation takes. */
#define PLAN_SHARE_MIN 1e-6

/* What one tensor's byte is, and what a tree is made of:
 *   all-reduce      a byte of the tensor that every rank has and gets: in-tree, then out-tree, any root
 *   broadcast       a byte of the root's tensor: out-trees from `root`
 *   reduce          in-trees to `root`
 *   all-gather      a byte of the whole result, of which each rank brings 1/n: out-trees from every
 *                   rank; the shares of each root's trees sum to 1
 *   reduce-scatter  the mirror of it: in-trees
 */
enum plan_op {
    PLAN_ALLREDUCE,
    PLAN_BROADCAST,
    PLAN_REDUCE,
    PLAN_ALLGATHER,
    PLAN_REDUCE_SCATTER,
    PLAN_OPS
};

/* Parents by position in the group; GRAPH_NONE at the root, and the array is NULL where the operation has
 * no such half. */
struct plan_tree {
    double share;
    uint32_t root;
    uint32_t *broadcast_parent;
    uint32_t *reduce_parent;
    uint32_t depth; /* most edges from a rank down to the root or from it up */
};

struct plan_params {
    enum plan_op op;
    uint32_t root;      /* broadcast, reduce */
    uint32_t trees_max; /* 0: as few as cost nothing */
    double
        gap_max; /* stop here; 0: to the optimum, or where there is a previous plan at 1 % */
    uint64_t
        budget_ns; /* stop then; 0: none. Such a plan is as good as the machine was fast: it need
                           not be the same twice */
    bool weights_only; /* multiplicative weights, though there is an LP */
};

/** The half that is told to people: the broadcast's, else the reduce's. */
static inline const uint32_t *plan_tree_parents(const struct plan_tree *tree)
{
    return tree->broadcast_parent ? tree->broadcast_parent : tree->reduce_parent;
}

/* What was done to the solution, in this order, and what it came to; the last is the plan itself. */
enum plan_step_kind { PLAN_SOLVED, PLAN_FEWER, PLAN_SHALLOWER, PLAN_ROUNDED, PLAN_STEPS };

struct plan_step {
    uint32_t trees_count, depth;
    double s_per_byte;
    double
        fill; /* of the tree that fills slowest, in slices of the whole plan: see fill_slices in plan.c */
};

struct plan {
    struct arrays arrays; /* all below, and the trees' */
    enum plan_op op;
    uint32_t ranks_count, trees_count, links_count; /* as the overlay's */
    struct plan_tree *trees;
    uint32_t *links; /* by overlay link: its number in the graph */
    double *load;    /* by overlay link: bytes per byte of tensor */
    double *price;   /* by overlay link: sum of price × capacity = 1 */
    double s_per_byte, bound_s_per_byte;
    uint32_t iterations, columns;
    struct plan_step steps[PLAN_STEPS];
    uint64_t digest; /* of operation, trees and shares: what ranks compare */
};

/** TRYST_E_NOMEM; TRYST_E_INVALID. `before` (NULL: none) is a plan of the same group and graph, of which links went
 *  down or changed since: its trees and prices are a start, and a small part of the effort is spent. */
tryst_status plan_open(struct overlay *overlay, const struct plan_params *params,
                       const struct plan *before, struct err *err, struct plan **plan_p);
void plan_close(struct plan *plan);

/** True if two trees of n ranks have the same root and parents. */
bool plan_tree_same(const struct plan_tree *a, const struct plan_tree *b, uint32_t n);
/** True if two halves of n parents are equal; both may be NULL. */
bool plan_half_same(const uint32_t *a, const uint32_t *b, uint32_t n);
/** Add share, root and parents of a tree of n ranks to a digest. */
void plan_tree_hash(struct hash_stream *stream, const struct plan_tree *tree, uint32_t n);

/** Set the digest anew, from operation, trees and shares. TRYST_E_NOMEM. */
tryst_status plan_digest(struct plan *plan);

/** "solved", "fewer trees"… */
const char *plan_step_name(enum plan_step_kind kind);

/** One tree more in a step. */
void plan_step_add(struct plan_step *step, enum plan_op op, uint32_t ranks,
                   uint32_t depth, double share);

/** What filling costs after a step, with slices of PLAN_SLICE_BYTES. */
double plan_step_fill_s(const struct plan_step *step);

#endif
