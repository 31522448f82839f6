/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One start of a prepared collective (start.h).
 *
 * Idea: each part has an offset in `in`, in `out`, or in both, so one function finds the
 * memory of every kind. Where only one tensor is given, the other one is in place: the
 * same memory or, with blocks, this rank's own block. A block that is not in place is
 * copied by the engine in pieces (COLL_OWN). Tensors in device memory are replaced by
 * host memory here (copies.h), so all that follows is about host memory.
 *
 * Invariant: a refused start has no effect.
 */
#include "start.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "copies.h"
#include "core/text/refuse.h"
#include "prepare.h"
#include "rendezvous/coll_op.h"
#include "rendezvous/op/dtype.h"
#include "tryst/sized.h"

static const char submit_call[] = "submit";

static uint64_t tensor_bytes(const tryst_coll *coll, uint64_t count)
{
    return count * dtype_bytes(coll->tensor_dtype);
}

/* ---- tensors ----------------------------------------------------------------------- */

/* Does this rank give a tensor? */
enum given { IGNORED, OPTIONAL, REQUIRED };

struct tensors_given {
    enum given in, out;
};

static struct tensors_given tensors_of(const tryst_coll *coll)
{
    bool is_root = coll->root < 0 || coll->root == coll->rank;
    switch (coll->kind) {
    case TRYST_COLL_BARRIER: return (struct tensors_given){IGNORED, IGNORED};
    case TRYST_COLL_BROADCAST: return (struct tensors_given){IGNORED, REQUIRED};
    case TRYST_COLL_REDUCE:
    case TRYST_COLL_GATHER:
        return is_root ? (struct tensors_given){OPTIONAL, REQUIRED}
                       : (struct tensors_given){REQUIRED, IGNORED};
    case TRYST_COLL_SCATTER:
        return is_root ? (struct tensors_given){REQUIRED, OPTIONAL}
                       : (struct tensors_given){IGNORED, REQUIRED};
    case TRYST_COLL_REDUCE_SCATTER:
    case TRYST_COLL_ALLTOALL: return (struct tensors_given){REQUIRED, REQUIRED};
    default: return (struct tensors_given){OPTIONAL, REQUIRED};
    }
}

/* Check the memory of a tensor; TRYST_IN_PROGRESS: its driver starts. */
static tryst_status memory_check(const tryst_coll *coll, const char *name,
                                 tryst_tensor *tensor)
{
    tryst_status status =
        group_memory_check(coll->group, tensor, tensor_bytes(coll, tensor->count));
    if (status == TRYST_OK || status == TRYST_IN_PROGRESS)
        return status;
    return refuse(status,
                  "cannot submit: memory %d, device %d, mem %p and ready_event %p of %s "
                  "do not describe its bytes at %p: %s",
                  (int)tensor->memory, (int)tensor->device, (void *)tensor->mem,
                  tensor->ready_event, name, tensor->data, tryst_status_str(status));
}

/* Check one tensor and copy it; `copy` has no data if the tensor is not given.
 * TRYST_IN_PROGRESS: its driver starts. */
static tryst_status tensor_copy(const tryst_coll *coll, bool of_out, enum given given,
                                const tryst_tensor *tensor, tryst_tensor *copy)
{
    const struct coll_blocks *blocks = of_out ? &coll->out_blocks : &coll->in_blocks;
    uint64_t count = of_out ? coll->out_count : coll->in_count;
    const char *name = !of_out                              ? "in"
                       : coll->kind == TRYST_COLL_BROADCAST ? "tensor"
                                                            : "out";
    *copy = (tryst_tensor){.struct_size = sizeof *copy};
    if (given == IGNORED || (given == OPTIONAL && !tensor))
        return TRYST_OK;
    if (!tensor)
        return refuse_null(submit_call, name);
    if (!tryst_sized_read(copy, sizeof *copy, tensor))
        return refuse(TRYST_E_INVALID, "cannot submit: %s: %s", name,
                      tryst_sized_reason(tensor));
    /* blocks with offsets need not reach the end of their tensor */
    if (copy->dtype != coll->tensor_dtype || copy->count < count ||
        (copy->count > count && !blocks->counts))
        return refuse(TRYST_E_INVALID,
                      "cannot submit: %s has %" PRIu64
                      " elements of %s; the collective has "
                      "%" PRIu64 " of %s",
                      name, copy->count, tryst_dtype_name(copy->dtype), count,
                      tryst_dtype_name(coll->tensor_dtype));
    if (copy->count && !copy->data)
        return refuse(TRYST_E_INVALID,
                      "cannot submit: %s->data is NULL; %" PRIu64 " elements need memory",
                      name, copy->count);
    return memory_check(coll, name, copy);
}

/* Return this rank's own block in `all`, or `all` if it has no blocks; NULL: it is not
 * given. */
static char *own_block(const tryst_coll *coll, const tryst_tensor *all,
                       const struct coll_blocks *blocks)
{
    return all->data ? (char *)all->data +
                           tensor_bytes(coll, coll_block_offset(blocks, coll->rank))
                     : NULL;
}

/* True if two ranges of memory share a byte. */
static bool overlap(const char *a, uint64_t a_bytes, const char *b, uint64_t b_bytes)
{
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return x < y ? y - x < a_bytes && b_bytes : x - y < b_bytes && a_bytes;
}

struct tryst_mem *coll_region_of(const struct coll_run *run, const char *data)
{
    const tryst_tensor *const tensors[] = {&run->in, &run->out};
    for (int i = 0; i < 2; i++) {
        uint64_t bytes = tensor_bytes(run->coll, tensors[i]->count);
        if (tensors[i]->mem && overlap(tensors[i]->data, bytes, data, 1))
            return tensors[i]->mem;
    }
    return NULL;
}

/* Set the missing tensor of a collective in place, and refuse any other overlap. */
static tryst_status in_place_check(struct coll_run *run)
{
    const tryst_coll *coll = run->coll;
    tryst_tensor *in = &run->in, *out = &run->out;
    bool in_has_all = coll->in_blocks.is_given;
    bool is_alltoall = in_has_all && coll->out_blocks.is_given; /* never in place */
    tryst_tensor *one = in_has_all ? out : in, *all = in_has_all ? in : out;
    char *own = in_has_all ? own_block(coll, in, &coll->in_blocks)
                           : own_block(coll, out, &coll->out_blocks);
    if (!is_alltoall && (!one->data || one->data == own)) {
        if (!one->ready_event)
            one->ready_event = all->ready_event;
        one->data = own;
        one->mem = all->mem;
        one->memory = all->memory;
        one->device = all->device;
        return TRYST_OK;
    }
    if (!in->data || !out->data ||
        !overlap(in->data, tensor_bytes(coll, coll->in_count), out->data,
                 tensor_bytes(coll, coll->out_count)))
        return TRYST_OK;
    return refuse(TRYST_E_INVALID,
                  coll_kind_has_blocks(coll->kind)
                      ? "cannot submit: in (%p) and out (%p) overlap; in place is this "
                        "rank's own block alone"
                      : "cannot submit: in (%p) and out (%p) overlap in part; give the "
                        "same memory for both, or memory that does not overlap",
                  in->data, out->data);
}

static tryst_status tensors_copy(struct coll_run *run, const tryst_tensor *in,
                                 const tryst_tensor *out)
{
    struct tensors_given given = tensors_of(run->coll);
    tryst_status of_in = tensor_copy(run->coll, false, given.in, in, &run->in), of_out;
    if (of_in != TRYST_OK && of_in != TRYST_IN_PROGRESS)
        return of_in;
    of_out = tensor_copy(run->coll, true, given.out, out, &run->out);
    if (of_out != TRYST_OK && of_out != TRYST_IN_PROGRESS)
        return of_out;
    tryst_status status = in_place_check(run);
    bool unchecked = of_in == TRYST_IN_PROGRESS || of_out == TRYST_IN_PROGRESS;
    return status == TRYST_OK ? coll_copies_open(run, unchecked) : status;
}

/* ---- packed blocks ----------------------------------------------------------------- */

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

/* True if this rank's terms of a packed collective lie in `in` as they are sent. */
static bool terms_are_packed(const tryst_coll *coll)
{
    return coll->kind != TRYST_COLL_ALLGATHER && coll->in_blocks.is_dense;
}

/* Return where this rank's terms are. */
static char *terms_of(const struct coll_run *run)
{
    bool in_private = run->coll->is_packed && !terms_are_packed(run->coll);
    return in_private ? run->private : run->in.data;
}

/* Copy the terms of a packed collective to private memory, unless they are dense. */
static void terms_pack(struct coll_run *run)
{
    const tryst_coll *coll = run->coll;
    uint64_t bytes = tensor_bytes(coll, coll->in_count);
    if (terms_are_packed(coll))
        return;
    if (coll->kind != TRYST_COLL_ALLGATHER) {
        blocks_copy(run, &coll->in_blocks, &run->in, true);
        return;
    }
    memset(run->private, 0, coll->private_bytes);
    if (bytes)
        memcpy(own_packed(run, &coll->out_blocks), run->in.data, bytes);
}

void coll_unpack(struct coll_run *run)
{
    const tryst_coll *coll = run->coll;
    uint64_t bytes = tensor_bytes(coll, coll->out_count);
    if (coll->kind == TRYST_COLL_ALLGATHER)
        blocks_copy(run, &coll->out_blocks, &run->out, false);
    else if (bytes)
        memcpy(run->out.data, own_packed(run, &coll->in_blocks), bytes);
}

/* ---- trees ------------------------------------------------------------------------- */

/* Set the memory of a part in the tensors `in` and `out`. A root without a block in `out`
 * sends its block from `in`. */
static void memory_set(struct coll_tree_run *at, char *in, char *out)
{
    const struct coll_part *part = at->part;
    char *own = in && part->in_at != COLL_NOWHERE ? in + part->in_at : NULL;
    char *result = out && part->out_at != COLL_NOWHERE ? out + part->out_at : NULL;
    at->own = own;
    at->result = part->is_root && part->out_at == COLL_NOWHERE ? own : result;
    at->sums = part->private_at == COLL_NOWHERE ? at->result
                                                : at->run->private + part->private_at;
}

/* Return where this rank's term of an exchange is out of the way of the sums: other ranks
 * may get it after the first addition. */
static char *own_kept(const struct coll_tree_run *at)
{
    return at->keep + at->part->up_children * at->part->bytes;
}

/* Put this rank's term there; not `takes`: the term is fetched later. */
static void own_keep(struct coll_tree_run *at, bool takes)
{
    const char *term = at->own;
    at->own = own_kept(at);
    if (takes && term) /* a barrier has none */
        run_own_compute(at->run, own_kept(at), term, at->part->bytes);
}

void coll_terms_take(struct coll_run *run)
{
    if (run->coll->is_packed)
        terms_pack(run);
    for (uint32_t t = 0; t < run->coll->parts_count; t++) {
        const struct coll_tree_run *at = &run->trees[t];
        if (at->part->is_exchange && at->part->bytes)
            run_own_compute(run, own_kept(at), terms_of(run) + at->part->in_at,
                            at->part->bytes);
    }
}

/* Reset the counters of a tree, and set which arithmetic it needs. The tree's memory
 * is set before. */
static void tree_reset(struct coll_tree_run *at)
{
    const tryst_coll *coll = at->run->coll;
    const struct coll_part *part = at->part;
    struct coll_tree *tree = &at->tree;
    bool scales = coll->reduce == TRYST_REDUCE_PREMULTIPLIED_SUM;
    bool copies = part->is_root && at->own != at->sums;
    tree->owns = !part->up_children && (scales || copies);
    tree->finishes =
        part->is_root && coll->reduce == TRYST_REDUCE_AVERAGE && coll->size > 1;
    const char *sent = part->up_children || tree->owns ? at->sums : at->own;
    tree->reuses = part->sends_up && part->receives_down && sent == at->result;
    tree->fetched = coll_copies_fetch(at) ? 0 : tree->slices;
    coll_tree_reset(tree);
}

static void trees_reset(struct coll_run *run)
{
    bool is_packed = run->coll->is_packed, takes = !run->copies;
    char *in = terms_of(run), *out = is_packed ? run->private : run->out.data;
    if (takes && is_packed)
        terms_pack(run);
    for (uint32_t t = 0; t < run->coll->parts_count; t++) {
        struct coll_tree_run *at = &run->trees[t];
        memory_set(at, in, out);
        if (at->part->is_exchange)
            own_keep(at, takes);
        tree_reset(at);
    }
    coll_lead_begin(&run->lead);
    if (run->copies)
        coll_copies_lay(run);
}

/* ---- the start --------------------------------------------------------------------- */

/* Start the progress thread if the group is on several hosts: each rank forwards
 * bytes of other ranks, so it must make progress while its program computes. Ranks of
 * one host mostly compute and wait at the same times, and need all processors. */
static tryst_status thread_check(struct colls *colls, bool is_spread)
{
    /* relaxed: a second start does nothing. */
    if (atomic_load_explicit(&colls->thread_started, memory_order_relaxed) ||
        !is_spread || !colls->host.start)
        return TRYST_OK;
    tryst_status status = colls->host.start(colls->host.owner);
    if (status != TRYST_OK)
        return refuse(status, "cannot submit: cannot create the progress thread: %s",
                      err_reason(errno));
    atomic_store_explicit(&colls->thread_started, true, memory_order_relaxed);
    return TRYST_OK;
}

tryst_status coll_start(tryst_step *step, tryst_coll *coll, const tryst_tensor *in,
                        const tryst_tensor *out, const tryst_op_params *params,
                        tryst_op **op_p)
{
    struct coll_run *run = coll_run_get(coll);
    if (!run)
        return refuse_nomem(submit_call);
    run->factor = params && params->factor != 0 ? params->factor : 1;
    tryst_status status = tensors_copy(run, in, out);
    if (status == TRYST_OK)
        status = thread_check(coll->colls, coll->is_spread);
    if (status == TRYST_OK) {
        trees_reset(run);
        status =
            coll_op_submit(step, coll->label, params, run, run->copies != NULL, op_p);
    }
    if (status != TRYST_OK)
        coll_run_put(run);
    return status;
}
