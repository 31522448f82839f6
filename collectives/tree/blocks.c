/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blocks of a tensor (blocks.h).
 *
 * Invariant: all ends of blocks, times the size of any element, fit 63 bits, and no two
 * blocks overlap.
 */
#include "blocks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/text/hash.h"
#include "core/text/refuse.h"
#include "rendezvous/op/dtype.h"

static const char prepare_call[] = "prepare a collective";
#define ELEMENTS_MAX (UINT64_MAX / 2 / DTYPE_BYTES_MAX)

/* True if the tensor has a block for each rank. With a root, only the root's tensor
 * has. */
static bool has_blocks(const tryst_coll_params *params, bool of_out, int32_t rank)
{
    switch (params->kind) {
    case TRYST_COLL_ALLGATHER: return of_out;
    case TRYST_COLL_REDUCE_SCATTER: return !of_out;
    case TRYST_COLL_ALLTOALL: return true;
    case TRYST_COLL_GATHER: return of_out && rank == params->root;
    case TRYST_COLL_SCATTER: return !of_out && rank == params->root;
    default: return false;
    }
}

static const uint64_t *counts_of(const tryst_coll_params *params, bool of_out)
{
    return of_out ? params->out_counts : params->in_counts;
}

static const uint64_t *offsets_of(const tryst_coll_params *params, bool of_out)
{
    return of_out ? params->out_offsets : params->in_offsets;
}

/* ---- checks ------------------------------------------------------------------------ */

static tryst_status too_many(bool of_out)
{
    return refuse(TRYST_E_INVALID,
                  "cannot %s: the blocks of %s reach beyond %" PRIu64 " elements",
                  prepare_call, of_out ? "out" : "in", ELEMENTS_MAX);
}

/* Compute the total, the end and is_dense from counts and offsets. False: too large. */
static bool blocks_sum(struct coll_blocks *blocks, int32_t size)
{
    blocks->is_dense = true;
    for (int32_t i = 0; i < size; i++) {
        uint64_t count = blocks->counts[i], offset = blocks->offsets[i];
        if (count > ELEMENTS_MAX || offset > ELEMENTS_MAX - count)
            return false;
        blocks->is_dense &= offset == blocks->total;
        blocks->total += count;
        if (blocks->total > ELEMENTS_MAX)
            return false;
        if (count && offset + count > blocks->end)
            blocks->end = offset + count;
    }
    return true;
}

struct extent {
    uint64_t offset, count;
};

static int extent_compare(const void *a, const void *b)
{
    uint64_t x = ((const struct extent *)a)->offset;
    uint64_t y = ((const struct extent *)b)->offset;
    return (x > y) - (x < y);
}

/* Refuse blocks that overlap. */
static tryst_status blocks_apart(const struct coll_blocks *blocks, bool of_out,
                                 int32_t size)
{
    struct extent *extents = mem_alloc((size_t)size * sizeof *extents);
    size_t count = 0;
    tryst_status status = TRYST_OK;
    if (!extents)
        return refuse_nomem(prepare_call);
    for (int32_t i = 0; i < size; i++)
        if (blocks->counts[i])
            extents[count++] = (struct extent){blocks->offsets[i], blocks->counts[i]};
    qsort(extents, count, sizeof *extents, extent_compare);
    for (size_t i = 1; i < count && status == TRYST_OK; i++)
        if (extents[i].offset - extents[i - 1].offset < extents[i - 1].count)
            status = refuse(TRYST_E_INVALID,
                            "cannot %s: two blocks of %s overlap at element %" PRIu64,
                            prepare_call, of_out ? "out" : "in", extents[i].offset);
    mem_free(extents);
    return status;
}

/* ---- open -------------------------------------------------------------------------- */

/* Copy the arrays; without `offsets` the blocks follow one another. False: no memory. */
static bool arrays_copy(struct coll_blocks *blocks, const uint64_t *counts,
                        const uint64_t *offsets, int32_t size)
{
    size_t count = (size_t)size;
    blocks->counts = mem_zalloc_array(2 * count, sizeof *blocks->counts);
    if (!blocks->counts)
        return false;
    blocks->offsets = blocks->counts + count;
    memcpy(blocks->counts, counts, count * sizeof *counts);
    if (offsets)
        memcpy(blocks->offsets, offsets, count * sizeof *offsets);
    for (size_t i = 1; !offsets && i < count; i++)
        blocks->offsets[i] = blocks->offsets[i - 1] + counts[i - 1];
    return true;
}

static tryst_status equal_open(struct coll_blocks *blocks, bool of_out, uint64_t count,
                               int32_t size)
{
    if (count > ELEMENTS_MAX / (uint64_t)size)
        return too_many(of_out);
    blocks->count = count;
    blocks->is_dense = true;
    blocks->total = blocks->end = count * (uint64_t)size;
    return TRYST_OK;
}

tryst_status coll_blocks_open(const tryst_coll_params *params, bool of_out, int32_t rank,
                              int32_t size, struct coll_blocks *blocks)
{
    const uint64_t *counts = counts_of(params, of_out);
    const uint64_t *offsets = offsets_of(params, of_out);
    *blocks = (struct coll_blocks){.is_given = has_blocks(params, of_out, rank)};
    if (!blocks->is_given)
        return TRYST_OK;
    if (!counts && offsets)
        return refuse(
            TRYST_E_INVALID,
            "cannot %s: %s_offsets is set and %s_counts is NULL; set both or neither",
            prepare_call, of_out ? "out" : "in", of_out ? "out" : "in");
    if (!counts)
        return equal_open(blocks, of_out, params->count, size);
    if (!arrays_copy(blocks, counts, offsets, size))
        return refuse_nomem(prepare_call);
    tryst_status status = blocks_sum(blocks, size) ? TRYST_OK : too_many(of_out);
    if (status == TRYST_OK && !blocks->is_dense)
        status = blocks_apart(blocks, of_out, size);
    return status;
}

void coll_blocks_close(struct coll_blocks *blocks)
{
    mem_free(blocks->counts);
    blocks->counts = NULL;
}

/* ---- comparison -------------------------------------------------------------------- */

bool coll_blocks_same(const struct coll_blocks *blocks, const tryst_coll_params *params,
                      bool of_out, int32_t size)
{
    const uint64_t *counts = counts_of(params, of_out);
    const uint64_t *offsets = offsets_of(params, of_out);
    size_t bytes = (size_t)size * sizeof *counts;
    if (!blocks->is_given)
        return true;
    if (!counts || !blocks->counts)
        return !counts && !blocks->counts && !offsets;
    if (memcmp(counts, blocks->counts, bytes) != 0)
        return false;
    return offsets ? memcmp(offsets, blocks->offsets, bytes) == 0 : blocks->is_dense;
}

bool coll_blocks_are_equal(const struct coll_blocks *blocks, int32_t size)
{
    for (int32_t i = 1; blocks->counts && i < size; i++)
        if (coll_block_count(blocks, i) != coll_block_count(blocks, 0))
            return false;
    return true;
}

int32_t coll_blocks_digest(const struct coll_blocks *blocks, int32_t size)
{
    if (coll_blocks_are_equal(blocks, size))
        return -1;
    uint64_t hash = hash_bytes(blocks->counts, (size_t)size * sizeof *blocks->counts);
    int32_t digest = (int32_t)((uint32_t)hash | UINT32_C(1) << 31);
    return digest == -1 ? -2 : digest;
}

uint64_t coll_blocks_hash(const tryst_coll_params *params, int32_t rank, int32_t size)
{
    uint64_t hash = 0;
    for (int of_out = 0; of_out < 2; of_out++) {
        const uint64_t *counts = counts_of(params, of_out);
        const uint64_t *offsets = offsets_of(params, of_out);
        size_t bytes = (size_t)size * sizeof *counts;
        if (!has_blocks(params, of_out, rank))
            continue;
        hash = hash * 31 + (counts ? hash_bytes(counts, bytes) : 0);
        hash = hash * 31 + (offsets ? hash_bytes(offsets, bytes) : 0);
    }
    return hash;
}
