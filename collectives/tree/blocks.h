/* SPDX-License-Identifier: Apache-2.0 */
/** @file blocks.h
 *  The positions of the blocks in `in` and `out`, for collectives with a block for each
 *  rank.
 */
#ifndef TRYST_COLLECTIVES_TREE_BLOCKS_H
#define TRYST_COLLECTIVES_TREE_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "tryst/coll.h"

/** The blocks of one tensor, in elements. All zero: the tensor is one block. */
struct coll_blocks {
    bool is_given;     /**< the tensor has a block for each rank */
    bool is_dense;     /**< the blocks follow one another in the order of ranks */
    uint64_t count;    /**< count of each block, where `counts` is NULL */
    uint64_t *counts;  /**< count of each rank's block; NULL: `count`, and dense */
    uint64_t *offsets; /**< offset of each block, in the allocation of `counts` */
    uint64_t total;    /**< sum of all counts */
    uint64_t end;      /**< first element behind all blocks */
};

static inline uint64_t coll_block_count(const struct coll_blocks *blocks, int32_t rank)
{
    return blocks->counts ? blocks->counts[rank] : blocks->count;
}

static inline uint64_t coll_block_offset(const struct coll_blocks *blocks, int32_t rank)
{
    return blocks->counts ? blocks->offsets[rank] : blocks->count * (uint64_t)rank;
}

/** True if a collective of `kind` has blocks. */
static inline bool coll_kind_has_blocks(tryst_coll_kind kind)
{
    return kind >= TRYST_COLL_ALLGATHER && kind <= TRYST_COLL_SCATTER;
}

/** True if `kind` is made of flows between pairs, without trees. */
static inline bool coll_kind_is_list(tryst_coll_kind kind)
{
    return kind >= TRYST_COLL_ALLTOALL && kind <= TRYST_COLL_SCATTER;
}

/** True if a collective of `kind` names a root. */
static inline bool coll_kind_has_root(tryst_coll_kind kind)
{
    return kind == TRYST_COLL_REDUCE || kind == TRYST_COLL_BROADCAST ||
           kind == TRYST_COLL_GATHER || kind == TRYST_COLL_SCATTER;
}

/** True if a collective of `kind` combines the ranks' terms. */
static inline bool coll_kind_reduces(tryst_coll_kind kind)
{
    return kind == TRYST_COLL_ALLREDUCE || kind == TRYST_COLL_REDUCE ||
           kind == TRYST_COLL_REDUCE_SCATTER;
}

/** Find the blocks of a collective's `in` (`of_out`: of its `out`) at `rank` of `size`
 *  ranks. TRYST_OK, TRYST_E_INVALID, TRYST_E_NOMEM; writes a text for
 *  tryst_last_error. */
tryst_status coll_blocks_open(const tryst_coll_params *params, bool of_out, int32_t rank,
                              int32_t size, struct coll_blocks *blocks);
void coll_blocks_close(struct coll_blocks *blocks);
/** True if `blocks` are those that `params` describe. */
bool coll_blocks_same(const struct coll_blocks *blocks, const tryst_coll_params *params,
                      bool of_out, int32_t size);
/** True if all blocks have one count. */
bool coll_blocks_are_equal(const struct coll_blocks *blocks, int32_t size);
/** Return the digest that the shape of an all-gather or reduce-scatter holds as root:
 *  -1 where all blocks have one count, since the total gives this count, else a
 *  negative hash of the counts. */
int32_t coll_blocks_digest(const struct coll_blocks *blocks, int32_t size);
/** Return a hash of the arrays that `rank` uses. */
uint64_t coll_blocks_hash(const tryst_coll_params *params, int32_t rank, int32_t size);

#endif
