/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan that ranks run: integers alone, as one string of bytes.
 *
 * One idea: the planning rank computes with doubles, and all ranks run the rounded
 * result, so no rank's actions depend on another processor's rounding. Equal bytes are
 * equal plans: ranks compare a digest of the bytes.
 *
 * The string is little-endian. A "rank" below is a position in the group, in 2 bytes for
 * groups of up to 65,535 ranks, else in 4; all ones means no rank.
 *
 *   u32 magic, version, epoch, flags, ranks, trees, operations
 *   u64 bound          bytes/s that no plan exceeds
 *   u32 member × ranks the member's rank in the job
 *   u64 out × ranks    bytes/s that the network carries from the rank's machine
 *                      (topology/sized/out_rates.h); 0: unknown
 *   tree × trees:      u32 halves (1 up, 2 down, 4 alike), u32 root
 *                      rank parent × ranks for each half; `alike`: once
 *                      rank child × (ranks − 1) for each half, by rising parent; a
 *                      node's children up in the order of addition, down in the reverse
 *                      order; `alike`: for the half up only
 *   operation:         u32 operation (enum plan_op), u32 classes
 *     class:           u64 bytes_max, u64 bytes/s planned, u32 slice_bytes, u32 flags,
 *                      u32 parts
 *       part:          u32 tree, u32 cumulative share
 *
 * Order of addition: the child with the flattest subtree first, since its sum is complete
 * first; then the one with fewer ranks in its subtree, then the lower number.
 * Shares: part k of a class ends at cum_share / 2^32 of the elements; the last cum_share
 * is all ones and means all elements.
 * Invariants: a decoded plan is consistent: trees span, parents and children agree, all
 * indices exist, all classes of an operation have the same tree 0, and each `out` is 0
 * where rates are assumed. Until decoded, bytes from other ranks are hostile.
 */
#ifndef TRYST_COLLECTIVES_PLAN_COMPILED_H
#define TRYST_COLLECTIVES_PLAN_COMPILED_H

#include "core/memory/arrays.h"
#include "core/text/err.h"
#include "plan_op.h"

#define COMPILED_VERSION 5u
/** Flag: the rates are nominal, since the links' rates are unknown. */
#define COMPILED_RATES_ASSUMED 1u
/** Flag of a class: few ranks exchange small all-reduces directly, since they are on one
 *  host (coll_exchanges). */
#define COMPILED_EXCHANGE 1u
/** The highest rate, for links that do not limit. */
#define COMPILED_RATE_MOST UINT64_C(1000000000000000)

/** The assumed rate of a link of unknown rate: 10 Gbit/s. If no rate is known, the flag
 *  COMPILED_RATES_ASSUMED is set. */
#define COMPILED_RATE_ASSUMED UINT64_C(1250000000)

struct compiled_params {
    uint32_t epoch;
    const uint32_t *members; /**< ranks in the job; NULL: 0, 1, 2… */
    /** For equal links: each rank is alone on its machine, so links are a network's. */
    bool apart;
    bool one_host; /**< for equal links: all ranks are on one host */
};

/** One half of a tree. Children of rank r are child[k], first[r] ≤ k < first[r + 1]. */
struct compiled_half {
    uint32_t *parent; /**< PLAN_NO_RANK at the root; NULL: the tree has no such half */
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
    uint32_t slice_bytes, flags, parts_count;
    struct compiled_part *parts;
};

struct compiled_op {
    uint32_t op; /**< enum plan_op */
    uint32_t classes_count;
    struct compiled_class *classes;
};

struct compiled_plan {
    struct arrays arrays; /**< memory of the arrays below */
    uint32_t epoch, flags, ranks_count, trees_count, ops_count;
    uint64_t bound_bytes_per_s;
    uint32_t *members;
    /** By rank: bytes/s that the network carries from its machine; 0: unknown. */
    uint64_t *out_bytes_per_s;
    struct compiled_tree *trees;
    struct compiled_op *ops;
};

/** Free the plan; NULL is allowed. */
void compiled_plan_close(struct compiled_plan *plan);

/** Find the operation's classes; NULL if the plan has none. */
const struct compiled_op *compiled_plan_op(const struct compiled_plan *plan,
                                           enum plan_op op);

#endif
