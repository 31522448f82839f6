/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Predicted time of a set of trees for an operation of a given size.
 *
 * One idea (the α-β-γ model: Thakur, Rabenseifner, Gropp 2005): trees run in rounds. The
 * message is cut into slices, a slice passes the rounds one after the other, and slices
 * follow each other at the rate of the busiest link or of the rank that sums most:
 *
 *   time = latency + Z × Σ over rounds (busiest link + most sums)
 *                  + (S − Z) × max(busiest link of all rounds, most sums of all rounds)
 *
 * where S is the size and Z is one slice of every tree: all trees have equally many
 * slices, so Z is the slice of the largest tree over that tree's part. A round is a level
 * of the tree or, as an alternative for a single tree, one message of each sender, to the
 * largest subtree first. The trees of a set run round by round together. A node with many
 * children fills more slowly, since its edges share its links in one round.
 *
 * The loads of the rounds do not depend on size and slice (`struct tree_pace`), so one
 * measurement prices all of them. A caller may add two overheads of the engine, one for
 * each slice at a rank, one for each flow; the bytes that a slice costs a link beside its
 * own; and the part of its time that a link loses to retransmissions where several pairs
 * of ranks send over it at a time (incast). Links with credits (PCI, NVLink, InfiniBand)
 * lose nothing. The overheads are those of an edge between machines; an edge inside a
 * machine, where slices are borrowed (collectives/README.md), counts as a part of one.
 * Invariant: equal inputs give equal bits.
 */
#ifndef TRYST_TOPOLOGY_SIZED_TREE_COST_H
#define TRYST_TOPOLOGY_SIZED_TREE_COST_H

#include "topology/plan/plan.h"

/** Overheads of the engine at a rank for an edge between machines, in seconds. Estimates,
 *  not measured: for a slice, both ends together execute up to 1,600 instructions, half a
 *  microsecond, and the transport of each makes a system call or handles a completion; a
 *  flow needs two operations, a WANT, its match and a key. Over UCX on TCP a slice took
 *  24 us of a processor (tests/perf/RESULTS.md). */
#define PLAN_SLICE_S 2e-6
#define PLAN_FLOW_S  4e-6
/** The same for an edge inside a machine, and the rate at which a rank adds or copies the
 *  bytes of its edges there. Measured (tests/perf/host_edge.sh), plain memory; memory of
 *  tryst_mem_alloc is twice as fast. */
#define PLAN_HOST_SLICE_S     0.8e-6
#define PLAN_HOST_FLOW_S      0.4e-6
#define PLAN_HOST_BYTES_PER_S 5.4e9
/** The rate at which one core sums float32 from memory, as measured; test_tree_cost
 *  prints that of the machine that it runs on. */
#define PLAN_SUM_BYTES_PER_S 7e9

/** The trees of a plan, or a single one. The time of a set is the longest time of its
 *  trees with a share. */
struct tree_set {
    const struct plan_tree *trees;
    uint32_t count;
    bool in_turn; /**< a round is one message of each sender; else a level */
};

/** The rounds of one tree of a set. */
struct tree_pace {
    double part;      /**< part of the tensor that the tree carries */
    double latency_s; /**< of the slowest path up plus that of the slowest path down */
    double move, sum; /**< sums over rounds, in s/byte: busiest link; most sums */
    /** Number of rounds; one with edges inside machines alone counts as
     *  PLAN_HOST_SLICE_S / PLAN_SLICE_S. */
    double rounds;
};

struct tree_measure {
    struct tree_pace *trees; /**< of the costing; valid until the next measurement */
    uint32_t count;
    /** Of all rounds, in s/byte: busiest link; most sums and copies of a rank. */
    double link, sums;
    /** as `link`, of the links that lose packets and that several pairs of ranks use */
    double crowded;
    /** of one byte beside each slice, while one slice of every tree moves: seconds on the
     *  busiest link */
    double beside;
    double part_most, part_least; /**< of the trees that carry anything */
    /** while one slice of every tree moves: the longest time of a slice on a link, per
     *  byte of all of them, in s/byte */
    double slice;
    /** Edges of the rank with the most; an edge inside a machine counts by its slices as
     *  PLAN_HOST_SLICE_S / PLAN_SLICE_S, its flow as PLAN_HOST_FLOW_S / PLAN_FLOW_S. */
    double edges, flows;
    bool routed; /**< each edge has a route; else the members above are not valid */
};

struct tree_costing {
    struct arrays arrays;
    struct overlay *overlay;
    enum plan_op op;
    uint32_t n;
    double gamma; /**< seconds in which a rank sums a byte */
    /** By rank: position among its siblings, from 1; ranks in its subtree. */
    uint32_t *turns, *below;
    /** By rank: edges in all trees and halves, between machines and inside one. */
    uint32_t *edges, *inside;
    uint32_t *rounds; /**< [tree × n + rank]: round of the edge to its parent, from 1 */
    uint32_t *last_round;    /**< by tree: last round of the present half */
    struct tree_pace *pace;  /**< by tree: what tree_costing_measure returns */
    double *load, *load_all; /**< by link: bytes per byte in a round; in all rounds */
    /** By rank: seconds of sums per byte of the tensor in a round; in all rounds, with
     *  what its processor copies over memory. */
    double *adds, *adds_all;
    uint8_t *pairs;  /**< bit from × n + to: the pair is counted in `streams` */
    double *streams; /**< by link: number of pairs that send over it */
    double *slices;  /**< by link: slices over it, while one slice of every tree moves */
    double slice;    /**< as in tree_measure */
    double hop;      /**< what the present round adds to tree_pace.rounds */
};

struct tree_overheads {
    /** Of the engine at a rank, for an edge between machines: each slice, each flow. */
    double slice_s, flow_s;
    double crowded;     /**< by how much a crowded link takes longer; 0.05: 5 % */
    double slice_bytes; /**< bytes on the wire for each slice, beside its own */
};

/** Prepare for sets of up to `trees_max` trees of ranks that sum at `sum_bytes_per_s`;
 *  0: at PLAN_SUM_BYTES_PER_S; INFINITY: sums take no time. Returns TRYST_OK or
 *  TRYST_E_NOMEM; in both cases the caller calls tree_costing_free. */
tryst_status tree_costing_init(struct tree_costing *costing, struct overlay *overlay,
                               enum plan_op op, uint32_t trees_max,
                               double sum_bytes_per_s);
void tree_costing_free(struct tree_costing *costing);

/** Measure the loads of a set's rounds. */
struct tree_measure tree_costing_measure(struct tree_costing *costing,
                                         const struct tree_set *set);

/** Return the time with overheads; INFINITY if an edge has no route. `slice_bytes` is the
 *  slice of the tree that carries the most. An unknown latency counts as 0. */
double tree_measure_time(const struct tree_measure *measure, double bytes,
                         double slice_bytes, const struct tree_overheads *overheads);

#endif
