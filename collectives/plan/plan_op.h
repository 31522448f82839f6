/* SPDX-License-Identifier: Apache-2.0 */
/* The terms that the planner and the ranks share: operations, "no rank", the smallest
 * slice. */
#ifndef TRYST_COLLECTIVES_PLAN_PLAN_OP_H
#define TRYST_COLLECTIVES_PLAN_PLAN_OP_H

#include <stdint.h>

/** In arrays of ranks: no rank, as at a root, which has no parent. */
#define PLAN_NO_RANK UINT32_MAX
/** The smallest slice that the scheduler cuts (SCHED_SLICE_MIN). */
#define PLAN_SLICE_BYTES 65536

/** For each operation: the byte that times are counted per, and the trees.
 *  all-reduce      a byte of every rank's tensor; an in-tree, then an out-tree, any root
 *  broadcast       a byte of the root's tensor; out-trees from `root`
 *  reduce          a byte of each rank's tensor; in-trees to `root`
 *  all-gather      a byte of the whole result, of which each rank contributes 1/n;
 *                  out-trees from every rank; the shares of each root's trees sum to 1
 *  reduce-scatter  a byte of the whole tensor, of which each rank keeps 1/n of the sum;
 *                  in-trees to every rank; the shares of each root's trees sum to 1
 */
enum plan_op {
    PLAN_ALLREDUCE,
    PLAN_BROADCAST,
    PLAN_REDUCE,
    PLAN_ALLGATHER,
    PLAN_REDUCE_SCATTER,
    PLAN_OPS
};

#endif
