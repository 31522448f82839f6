/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors of blocks (blocks_run.h).
 *
 * Idea: each part has an offset in `in`, in `out`, or in both. A part in both is this
 * rank's own block: the engine copies it in pieces (COLL_OWN), unless the block is in
 * place.
 */
#include "blocks_run.h"

#include <inttypes.h>
#include <string.h>

#include "calls.h"
#include "core/text/refuse.h"
#include "parts.h"
#include "rendezvous/op/dtype.h"

static const char submit_call[] = "submit";

static uint64_t tensor_bytes(const tryst_coll *coll, uint64_t count)
{
    return count * dtype_bytes(coll->tensor_dtype);
}

/* Return the byte offset of this rank's block. */
static uint64_t own_at(const tryst_coll *coll, const struct coll_blocks *blocks)
{
    return tensor_bytes(coll, coll_block_offset(blocks, coll->rank));
}

/* ---- tensors ----------------------------------------------------------------------- */

/* Check which tensors this rank gives: set ignored ones to NULL, and refuse a missing
 * one, unless the block is in place in the other tensor. */
static tryst_status tensors_check(const tryst_coll *coll, const tryst_tensor **in_p,
                                  const tryst_tensor **out_p)
{
    bool is_root = coll->root < 0 || coll->root == coll->rank;
    bool in_may_miss = coll->kind == TRYST_COLL_ALLGATHER;
    bool out_may_miss = false;
    if (coll->kind == TRYST_COLL_GATHER) {
        in_may_miss = is_root;
        out_may_miss = !is_root;
        *out_p = is_root ? *out_p : NULL;
    }
    if (coll->kind == TRYST_COLL_SCATTER) {
        in_may_miss = !is_root;
        out_may_miss = is_root;
        *in_p = is_root ? *in_p : NULL;
    }
    if (!*in_p && !in_may_miss)
        return refuse_null(submit_call, "in");
    return *out_p || out_may_miss ? TRYST_OK : refuse_null(submit_call, "out");
}

/* Return this rank's own block in `from`, the tensor with all blocks; NULL: no
 * tensor. */
static char *own_block(const tryst_coll *coll, const tryst_tensor *from,
                       const struct coll_blocks *blocks)
{
    return from->data ? (char *)from->data + own_at(coll, blocks) : NULL;
}

/* Set the missing tensor of a block in place, and refuse any other overlap. */
static tryst_status place_check(struct coll_run *run)
{
    const tryst_coll *coll = run->coll;
    tryst_tensor *in = &run->in, *out = &run->out;
    bool in_has_all = coll->in_blocks.is_given, out_has_all = coll->out_blocks.is_given;
    if (in_has_all && out_has_all) {
        /* An all-to-all is never in place. */
    } else if (out_has_all) {
        char *own = own_block(coll, out, &coll->out_blocks);
        if (!in->data || in->data == own) {
            in->data = own;
            return TRYST_OK;
        }
    } else if (in_has_all) {
        char *own = own_block(coll, in, &coll->in_blocks);
        if (!out->data || out->data == own) {
            out->data = own;
            return TRYST_OK;
        }
    }
    if (!in->data || !out->data ||
        !coll_overlap(in->data, tensor_bytes(coll, coll->in_count), out->data,
                      tensor_bytes(coll, coll->out_count)))
        return TRYST_OK;
    return refuse(TRYST_E_INVALID,
                  "cannot submit: in (%p) and out (%p) overlap; in place is this rank's "
                  "own block alone",
                  in->data, out->data);
}

tryst_status coll_blocks_copy(struct coll_run *run, const tryst_tensor *in,
                              const tryst_tensor *out)
{
    const tryst_coll *coll = run->coll;
    struct coll_wanted of_in = {coll->tensor_dtype, coll->in_count,
                                coll->in_blocks.counts != NULL};
    struct coll_wanted of_out = {coll->tensor_dtype, coll->out_count,
                                 coll->out_blocks.counts != NULL};
    tryst_status status = tensors_check(coll, &in, &out);
    if (status == TRYST_OK)
        status = coll_tensor_copy("in", in, &of_in, &run->in);
    if (status == TRYST_OK)
        status = coll_tensor_copy("out", out, &of_out, &run->out);
    return status == TRYST_OK ? place_check(run) : status;
}

/* ---- memory of parts --------------------------------------------------------------- */

static char *place(const tryst_tensor *tensor, uint64_t at)
{
    return at == COLL_NOWHERE || !tensor->data ? NULL : (char *)tensor->data + at;
}

/* Set the memory of a part. A root without a place in `out` sends its block from
 * `in`. */
static void part_memory_set(struct coll_tree_run *at)
{
    struct coll_run *run = at->run;
    const struct coll_part *part = at->part;
    char *in = place(&run->in, part->in_at), *out = place(&run->out, part->out_at);
    at->own = in;
    at->result = part->is_root && part->out_at == COLL_NOWHERE ? in : out;
    at->sums =
        part->private_at == COLL_NOWHERE ? at->result : run->private + part->private_at;
}

/* Copy the blocks of `tensor` to or from private memory, where the blocks follow one
 * another. */
static void blocks_copy(struct coll_run *run, const struct coll_blocks *blocks,
                        const tryst_tensor *tensor, bool to_private)
{
    const tryst_coll *coll = run->coll;
    char *packed = run->private;
    for (int32_t i = 0; i < coll->size; i++) {
        uint64_t bytes = tensor_bytes(coll, coll_block_count(blocks, i));
        uint64_t at = tensor_bytes(coll, coll_block_offset(blocks, i));
        char *block = bytes ? (char *)tensor->data + at : NULL;
        if (bytes && to_private)
            memcpy(packed, block, bytes);
        else if (bytes)
            memcpy(block, packed, bytes);
        packed += bytes;
    }
}

/* Return this rank's own block in private memory. */
static char *own_packed(const struct coll_run *run, const struct coll_blocks *blocks)
{
    uint64_t before = 0;
    for (int32_t i = 0; i < run->coll->rank; i++)
        before += coll_block_count(blocks, i);
    return run->private + tensor_bytes(run->coll, before);
}

/* Return this rank's terms of a packed collective: in private memory, where they are
 * copied, or in `in` if these are dense. */
static const char *packed_own(struct coll_run *run)
{
    const tryst_coll *coll = run->coll;
    uint64_t bytes = tensor_bytes(coll, coll->in_count);
    if (coll->kind == TRYST_COLL_ALLGATHER) {
        memset(run->private, 0, coll->private_bytes);
        if (bytes)
            memcpy(own_packed(run, &coll->out_blocks), run->in.data, bytes);
        return run->private;
    }
    if (coll->in_blocks.is_dense)
        return run->in.data;
    blocks_copy(run, &coll->in_blocks, &run->in, true);
    return run->private;
}

void coll_blocks_memory_set(struct coll_run *run)
{
    const tryst_coll *coll = run->coll;
    const char *own = coll->is_packed ? packed_own(run) : NULL;
    for (uint32_t t = 0; t < coll->parts_count; t++) {
        struct coll_tree_run *at = &run->trees[t];
        if (!coll->is_packed) {
            part_memory_set(at);
            continue;
        }
        uint64_t begin = at->part->range.begin * coll->element_bytes;
        at->own = own + begin;
        at->sums = at->result = run->private + begin;
    }
}

void coll_blocks_finish(struct coll_run *run)
{
    const tryst_coll *coll = run->coll;
    uint64_t bytes = tensor_bytes(coll, coll->out_count);
    if (coll->kind == TRYST_COLL_ALLGATHER)
        blocks_copy(run, &coll->out_blocks, &run->out, false);
    else if (bytes)
        memcpy(run->out.data, own_packed(run, &coll->in_blocks), bytes);
}
