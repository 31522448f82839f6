/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Predicted time of a set of trees for an operation of a given size.
 *
 * One idea (the α-β-γ model: Thakur, Rabenseifner, Gropp 2005): trees work in rounds. The message is cut into slices, a
 * slice passes the rounds one after the other, and slices follow each other at the pace of the busiest link or of the
 * rank that sums most:
 *
 *   time = latency + Z × Σ rounds (busiest link + most sums) + (S − Z) × max(busiest link, most sums, of all rounds)
 *
 * where Z is one slice of every tree. A round is a level of the tree, or for a single tree also one message of each
 * sender, the largest part of the tree first. Trees of a set go round by round together. A node with many children
 * fills more slowly: its edges share its links in one round.
 *
 * The loads of the rounds are independent of size and slice (`struct tree_pace`), so one measurement prices all of them.
 * Two costs of the engine are added where a caller gives them: one for each slice at a rank, one for each flow.
 * Invariant: equal inputs give equal bits.
 * Callers: plan_sizes.c; report/plan_cost.c.
 */
#ifndef TRYST_TOPOLOGY_TREE_COST_H
#define TRYST_TOPOLOGY_TREE_COST_H

#include "topology/plan/plan.h"

/* The trees of a plan, or a single one. Only trees with a share count. */
struct tree_set {
    const struct plan_tree *trees;
    uint32_t count;
    bool in_turn; /* a round is one message of each sender; else a level */
};

/* The time for a byte of the tensor in one tree of the set. */
struct tree_pace {
    double part;      /* of the tensor */
    double latency_s; /* longest way up and down */
    double move, sum; /* Σ over rounds: busiest link, most sums; s/byte */
    uint32_t rounds;
};

struct tree_measure {
    struct tree_pace *trees; /* the costing's; valid until the next measurement */
    uint32_t count;
    double link, sums; /* of all rounds together, s/byte */
    double handled;    /* bytes that the busiest rank sends and receives for a byte */
    uint32_t flows;    /* of the rank with the most edges */
    bool routed;       /* each edge has a route; else nothing above is valid */
};

struct tree_costing {
    struct arrays arrays;
    struct overlay *overlay;
    enum plan_op op;
    uint32_t n;
    double *gamma;        /* by rank: seconds to sum a byte; the caller's to fill */
    bool latency_unknown; /* of an edge so far: it counts as 0 */
    uint32_t *turns,
        *below;       /* by rank: its place among its siblings; ranks of its part */
    uint32_t *edges;  /* by rank */
    uint32_t *rounds; /* [tree × n + rank]: when the edge to its parent carries, from 1 */
    uint32_t *last_round;    /* by tree */
    struct tree_pace *pace;  /* by tree */
    double *load, *load_all; /* by link: of a round, of all */
    double *adds, *adds_all; /* by rank, in seconds */
    double *handled;         /* by rank */
};

/* Costs of the engine at a rank. */
struct tree_overheads {
    double slice_s, flow_s;
};

/** For sets of up to `trees_max` trees. TRYST_E_NOMEM. */
tryst_status tree_costing_init(struct tree_costing *costing, struct overlay *overlay,
                               enum plan_op op, uint32_t trees_max);
void tree_costing_free(struct tree_costing *costing);

/** Measure one set. */
struct tree_measure tree_costing_measure(struct tree_costing *costing,
                                         const struct tree_set *set);

/** Add the load of `part` of the tensor on one edge to costing->load, and raise `*latency_s_p` to the edge's. False:
 *  no route exists. */
bool tree_costing_edge(struct tree_costing *costing, uint32_t from, uint32_t to,
                       double part, double *latency_s_p);
/** The busiest link's time under `load`. */
double tree_costing_busiest(const struct tree_costing *costing, const double *load);
/** The greatest of the values; 0 without any. */
double tree_costing_most(const double *values, uint32_t count);

/** A difference of two sums, where it is more than their rounding; else 0. */
double tree_cost_difference(double a, double b);

struct tree_cost {
    double latency_s, move_s, sum_s, fill_s;
};

/** The parts of the time, each the longest of all trees. All of an unrouted set is INFINITY. */
struct tree_cost tree_measure_cost(const struct tree_measure *measure, double bytes,
                                   double slice_bytes);

/** The time with the engine's costs; INFINITY: an edge has no route. */
double tree_measure_time(const struct tree_measure *measure, double bytes,
                         double slice_bytes, const struct tree_overheads *overheads);

#endif
