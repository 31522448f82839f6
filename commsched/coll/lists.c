/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-to-all, gather and scatter: a list of flows between pairs of ranks.
 *
 * Idea: a flow between two ranks is a tree of two: the sender is the root of a broadcast. A rank's own block is a part
 * without flows: the copy is its only work. Rank r begins with its neighbours r + 1 and r - 1, so no rank is
 * the first peer of all others.
 * Invariant: a pair uses a key once, and a block without elements has a flow, too, so both ends compare counts.
 * Callers: parts.c.
 */
#include <inttypes.h>

#include "core/refuse.h"
#include "parts.h"

/** Append the part of block `rank` of `in` or of `out`; a rank's whole tensor where it has no blocks. */
static tryst_status block_add(tryst_coll *coll, uint32_t slice_bytes, int32_t rank,
                              bool of_out, struct coll_part **part_p)
{
    const struct coll_blocks *blocks = of_out ? &coll->out_blocks : &coll->in_blocks;
    uint64_t count = of_out ? coll->out_count : coll->in_count, at = 0;
    if (blocks->is_given) {
        count = coll_block_count(blocks, rank);
        at = coll_block_offset(blocks, rank) * coll->element_bytes;
    }
    tryst_status status =
        coll_part_add(coll, (struct coll_range){0, count}, slice_bytes, part_p);
    if (status == TRYST_OK) {
        *(of_out ? &(*part_p)->out_at : &(*part_p)->in_at) = at;
        (*part_p)->shape.count = count;
    }
    return status;
}

static tryst_status send_add(tryst_coll *coll, uint32_t slice_bytes, int32_t peer)
{
    struct coll_part *part;
    tryst_status status = block_add(coll, slice_bytes, peer, false, &part);
    if (status != TRYST_OK)
        return status;
    part->is_root = true;
    part->down_children = 1;
    return coll_flow_add(coll, 0, COLL_LIST, peer, true, NULL);
}

static tryst_status recv_add(tryst_coll *coll, uint32_t slice_bytes, int32_t peer)
{
    struct coll_part *part;
    tryst_status status = block_add(coll, slice_bytes, peer, true, &part);
    if (status != TRYST_OK)
        return status;
    part->receives_down = true;
    return coll_flow_add(coll, 0, COLL_LIST, peer, false, NULL);
}

/** Append this rank's own block: it is copied. */
static tryst_status own_add(tryst_coll *coll, uint32_t slice_bytes)
{
    int32_t rank = coll_rank(coll);
    struct coll_part *part;
    tryst_status status = block_add(coll, slice_bytes, rank, false, &part);
    if (status != TRYST_OK)
        return status;
    const struct coll_blocks *out = &coll->out_blocks;
    part->out_at = out->is_given ? coll_block_offset(out, rank) * coll->element_bytes : 0;
    part->is_root = true;
    return TRYST_OK;
}

/** Append the flows with `to`, which is above this rank, and `from`, which is as far below it. */
static tryst_status pair_add(tryst_coll *coll, uint32_t slice_bytes, int32_t to,
                             int32_t from)
{
    bool is_root = coll->root < 0 || coll->root == coll_rank(coll);
    bool receives = is_root, sends = is_root;
    tryst_status status = TRYST_OK;
    if (coll->kind == TRYST_COLL_GATHER)
        sends = to == coll->root;
    if (coll->kind == TRYST_COLL_SCATTER)
        receives = from == coll->root;
    if (receives)
        status = recv_add(coll, slice_bytes, from);
    if (sends && status == TRYST_OK)
        status = send_add(coll, slice_bytes, to);
    return status;
}

/** Refuse two counts of this rank's own block. */
static tryst_status own_check(const tryst_coll *coll)
{
    int32_t rank = coll_rank(coll);
    uint64_t in = coll_block_count(&coll->in_blocks, rank);
    uint64_t out = coll_block_count(&coll->out_blocks, rank);
    if (coll->kind != TRYST_COLL_ALLTOALL || in == out)
        return TRYST_OK;
    return refuse(TRYST_E_INVALID,
                  "cannot prepare a collective: this rank's own block has %" PRIu64
                  " elements in `in` and %" PRIu64 " in `out`; give one count",
                  in, out);
}

tryst_status coll_lists_parts_make(tryst_coll *coll, const struct coll_plan *plan)
{
    int32_t rank = coll_rank(coll), size = coll->size;
    /* The slices of large tensors for all: both ends cut alike, also where their counts differ. */
    uint32_t slice_bytes = plan->classes[plan->classes_count - 1].slice_bytes;
    bool is_root = coll->root < 0 || coll->root == rank;
    uint64_t parts = 2 * (uint64_t)size;
    tryst_status status = own_check(coll);
    if (status == TRYST_OK)
        status = coll_parts_alloc(coll, parts, parts);
    for (int32_t i = 1; i < size && status == TRYST_OK; i++)
        status = pair_add(coll, slice_bytes, (rank + i) % size, (rank - i + size) % size);
    return is_root && status == TRYST_OK ? own_add(coll, slice_bytes) : status;
}
