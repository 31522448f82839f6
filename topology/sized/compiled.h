/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan that ranks run: integers alone, as one string of bytes.
 *
 * One idea: the rank that plans computes with doubles, and all others run what it has rounded, so nothing that ranks do
 * depends on how another processor rounds. Equal bytes are equal plans: ranks compare a digest of the bytes.
 *
 * The string, little-endian. A rank is a place in the group, in 2 bytes for groups of up to 65,535 ranks, else in 4
 * ("rank" below); no rank is all ones.
 *
 *   u32 magic, version, epoch, flags, ranks, trees, operations, pairs; u64 bound: bytes/s that no plan exceeds
 *   u32 member × ranks            the ranks of the job that they are
 *   u64 out × ranks               bytes/s that the network carries from the rank's machine (out_rates.h); 0: unknown
 *   tree × trees:      u32 halves (1 up, 2 down, 4 alike), u32 root
 *                      rank parent × ranks of each half; `alike`: of one
 *                      rank child × (ranks − 1) of each half: by rising parent, in the order of addition; `alike`: of the
 *                      half up, and a node's children down are the same in reverse
 *   operation:         u32 operation (enum plan_op), u32 classes
 *     class:           u64 bytes_max, u64 bytes/s planned, u32 slice_bytes, u32 parts
 *       part:          u32 tree, u32 cumulative share
 *   pair × pairs:      rank from, rank to, u32 latency_ns (all ones: unknown), u64 bytes/s, u64 bytes/s of the narrowest link
 *                      of the pair's route (0: none is known)
 *
 * Order of addition: the child with the flattest subtree first, since its sum is complete first; then fewer ranks, then the
 * lower number. Shares: part k of a class ends at cum_share / 2^32 of the elements; the last is all ones and means all.
 * Rate of a pair: the shares of all trees and halves that use it, of the largest class that does, × that class's bytes/s.
 * Invariants: what is decoded is right in itself: trees span, parents and children agree, all indices exist, tree 0 of all
 * classes of an operation is one tree, each edge is a pair, no `out` is known where rates are assumed. Bytes of others are hostile until then.
 * Callers: commsched/context/group_plan.c; a fuzzer.
 */
#ifndef TRYST_TOPOLOGY_COMPILED_H
#define TRYST_TOPOLOGY_COMPILED_H

#include "topology/plan/plan.h"

#define COMPILED_VERSION         3u
#define COMPILED_LATENCY_UNKNOWN UINT32_MAX
/* The rates are nominal: those of the links are unknown. */
#define COMPILED_RATES_ASSUMED 1u
/* No rate is more: that of links that never limit. Below 2^50 (compiled_share_of). */
#define COMPILED_RATE_MOST UINT64_C(1000000000000000)

/* Of ranks 0 to n − 1. Children of rank r are child[first[r]] to child[first[r + 1]]. */
struct compiled_half {
    uint32_t *parent; /* GRAPH_NONE at the root; NULL: the tree has no such half */
    uint32_t *first, *child;
};

struct compiled_tree {
    uint32_t root;
    struct compiled_half up, down;
};

struct compiled_part {
    uint32_t tree, cum_share;
};

struct compiled_class {
    uint64_t bytes_max, bytes_per_s;
    uint32_t slice_bytes, parts_count;
    struct compiled_part *parts;
};

struct compiled_op {
    uint32_t op; /* enum plan_op */
    uint32_t classes_count;
    struct compiled_class *classes;
};

struct compiled_pair {
    uint32_t from, to, latency_ns;
    uint64_t bytes_per_s;      /* planned */
    uint64_t link_bytes_per_s; /* of the narrowest link of the route; 0: none is known */
};

struct compiled_plan {
    struct arrays arrays; /* all below */
    uint32_t epoch, flags, ranks_count, trees_count, ops_count, pairs_count;
    uint64_t bound_bytes_per_s;
    uint32_t *members;
    uint64_t *
        out_bytes_per_s; /* by rank: what the network carries from its machine; 0: unknown */
    struct compiled_tree *trees;
    struct compiled_op *ops;
    struct compiled_pair *pairs; /* by from, then to */
};

/** NULL is allowed. */
void compiled_plan_close(struct compiled_plan *plan);

/** amount × share / 2^32, rounded down, without a wider type: for amounts below 2^50 and shares below 2^46, or shares of at
 *  most 2^32 and any amount. */
static inline uint64_t compiled_share_of(uint64_t amount, uint64_t share)
{
    uint64_t low = share & UINT32_MAX;
    return (share >> 32) * amount + low * (amount >> 32) +
           (low * (amount & UINT32_MAX) >> 32);
}

/** The operation's classes; NULL: the plan has none. */
const struct compiled_op *compiled_plan_op(const struct compiled_plan *plan,
                                           enum plan_op op);
/** The pair; NULL: no tree has such an edge. */
const struct compiled_pair *compiled_plan_pair(const struct compiled_plan *plan,
                                               uint32_t from, uint32_t to);

#endif
