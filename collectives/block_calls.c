/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public calls of collectives of blocks: each finds the count of a block and starts
 * the collective (calls.c).
 */
#include "calls.h"
#include "core/text/refuse.h"
#include "rendezvous/coll_op.h"
#include "subgroup.h"
#include "tryst/sized.h"

static const char submit_call[] = "submit";

/* Take the dtype of `tensor`, and its count divided by `blocks`. A tensor that does not
 * divide is refused later, by its count. */
static tryst_status block_params_set(const tryst_tensor *tensor, int blocks,
                                     tryst_coll_params *what)
{
    tryst_tensor room;
    if (!tensor)
        return refuse_null(submit_call, "a tensor");
    const tryst_tensor *own = tryst_sized_view(tensor, &room, sizeof room);
    if (!own)
        return refuse(TRYST_E_INVALID, "cannot submit: a tensor: %s",
                      tryst_sized_reason(tensor));
    what->dtype = own->dtype;
    what->count = own->count / (uint64_t)blocks;
    return TRYST_OK;
}

/* Start a collective. `one` is this rank's tensor of one block, `all` the tensor with
 * a block for each rank; one of them may be NULL. `has_counts`: the counts of blocks
 * are given. */
static tryst_status block_call(tryst_step *step, tryst_coll_params what,
                               const tryst_tensor *one, const tryst_tensor *all,
                               bool has_counts, const tryst_op_params *params,
                               tryst_op **op_p)
{
    bool in_is_one = what.kind == TRYST_COLL_ALLGATHER || what.kind == TRYST_COLL_GATHER;
    if (!step)
        return refuse_null(submit_call, "step");
    int size = subgroup_size_in(coll_subgroup_of(params), step_group(step));
    tryst_status status =
        one ? block_params_set(one, 1, &what) : block_params_set(all, size, &what);
    if (status != TRYST_OK)
        return status;
    if (has_counts)
        what.count = 0; /* the arrays hold all counts */
    return coll_call(step, what, in_is_one ? one : all, in_is_one ? all : one, params,
                     op_p);
}

/* Check the counts of a `v` form: they are required on the rank that gives the tensor
 * with all blocks. `root` is -1 where every rank does. */
static tryst_status counts_check(tryst_step *step, int root,
                                 const tryst_op_params *params, const uint64_t *counts,
                                 const char *name, bool *is_root_p)
{
    if (!step)
        return refuse_null(submit_call, "step");
    *is_root_p =
        root < 0 || root == subgroup_rank_in(coll_subgroup_of(params), step_group(step));
    return counts || !*is_root_p ? TRYST_OK : refuse_null(submit_call, name);
}

/* ---- all-gather and reduce-scatter ------------------------------------------------- */

tryst_status tryst_allgather(tryst_step *step, const char *name, const tryst_tensor *in,
                             const tryst_tensor *out, const tryst_op_params *params,
                             tryst_op **op_p)
{
    return block_call(step,
                      (tryst_coll_params){.kind = TRYST_COLL_ALLGATHER, .name = name}, in,
                      out, false, params, op_p);
}

tryst_status tryst_allgatherv(tryst_step *step, const char *name, const tryst_tensor *in,
                              const tryst_tensor *out, const uint64_t *out_counts,
                              const uint64_t *out_offsets, const tryst_op_params *params,
                              tryst_op **op_p)
{
    bool is_root;
    tryst_status status =
        counts_check(step, -1, params, out_counts, "out_counts", &is_root);
    return status != TRYST_OK
               ? status
               : block_call(step,
                            (tryst_coll_params){.kind = TRYST_COLL_ALLGATHER,
                                                .name = name,
                                                .out_counts = out_counts,
                                                .out_offsets = out_offsets},
                            in, out, true, params, op_p);
}

tryst_status tryst_reduce_scatter(tryst_step *step, const char *name,
                                  const tryst_tensor *in, const tryst_tensor *out,
                                  tryst_reduce_op reduce, const tryst_op_params *params,
                                  tryst_op **op_p)
{
    return block_call(step,
                      (tryst_coll_params){.kind = TRYST_COLL_REDUCE_SCATTER,
                                          .reduce = reduce,
                                          .name = name},
                      out, in, false, params, op_p);
}

tryst_status tryst_reduce_scatterv(tryst_step *step, const char *name,
                                   const tryst_tensor *in, const uint64_t *in_counts,
                                   const uint64_t *in_offsets, const tryst_tensor *out,
                                   tryst_reduce_op reduce, const tryst_op_params *params,
                                   tryst_op **op_p)
{
    bool is_root;
    tryst_status status =
        counts_check(step, -1, params, in_counts, "in_counts", &is_root);
    return status != TRYST_OK
               ? status
               : block_call(step,
                            (tryst_coll_params){.kind = TRYST_COLL_REDUCE_SCATTER,
                                                .reduce = reduce,
                                                .name = name,
                                                .in_counts = in_counts,
                                                .in_offsets = in_offsets},
                            out, in, true, params, op_p);
}

/* ---- all-to-all -------------------------------------------------------------------- */

tryst_status tryst_alltoall(tryst_step *step, const char *name, const tryst_tensor *in,
                            const tryst_tensor *out, const tryst_op_params *params,
                            tryst_op **op_p)
{
    tryst_coll_params what = {.kind = TRYST_COLL_ALLTOALL, .name = name};
    if (!step)
        return refuse_null(submit_call, "step");
    tryst_status status = block_params_set(
        in, subgroup_size_in(coll_subgroup_of(params), step_group(step)), &what);
    return status == TRYST_OK ? coll_call(step, what, in, out, params, op_p) : status;
}

tryst_status tryst_alltoallv(tryst_step *step, const char *name, const tryst_tensor *in,
                             const uint64_t *in_counts, const uint64_t *in_offsets,
                             const tryst_tensor *out, const uint64_t *out_counts,
                             const uint64_t *out_offsets, const tryst_op_params *params,
                             tryst_op **op_p)
{
    tryst_coll_params what = {.kind = TRYST_COLL_ALLTOALL,
                              .name = name,
                              .in_counts = in_counts,
                              .in_offsets = in_offsets,
                              .out_counts = out_counts,
                              .out_offsets = out_offsets};
    if (!step)
        return refuse_null(submit_call, "step");
    if (!in_counts || !out_counts)
        return refuse_null(submit_call, in_counts ? "out_counts" : "in_counts");
    tryst_status status = block_params_set(in, 1, &what);
    what.count = 0;
    return status == TRYST_OK ? coll_call(step, what, in, out, params, op_p) : status;
}

/* ---- gather and scatter ------------------------------------------------------------ */

tryst_status tryst_gather(tryst_step *step, const char *name, const tryst_tensor *in,
                          const tryst_tensor *out, int root,
                          const tryst_op_params *params, tryst_op **op_p)
{
    return block_call(
        step, (tryst_coll_params){.kind = TRYST_COLL_GATHER, .root = root, .name = name},
        in, out, false, params, op_p);
}

tryst_status tryst_gatherv(tryst_step *step, const char *name, const tryst_tensor *in,
                           const tryst_tensor *out, const uint64_t *out_counts,
                           const uint64_t *out_offsets, int root,
                           const tryst_op_params *params, tryst_op **op_p)
{
    bool is_root;
    tryst_status status =
        counts_check(step, root, params, out_counts, "out_counts", &is_root);
    return status != TRYST_OK
               ? status
               : block_call(step,
                            (tryst_coll_params){.kind = TRYST_COLL_GATHER,
                                                .root = root,
                                                .name = name,
                                                .out_counts = out_counts,
                                                .out_offsets = out_offsets},
                            in, out, is_root, params, op_p);
}

tryst_status tryst_scatter(tryst_step *step, const char *name, const tryst_tensor *in,
                           const tryst_tensor *out, int root,
                           const tryst_op_params *params, tryst_op **op_p)
{
    return block_call(
        step, (tryst_coll_params){.kind = TRYST_COLL_SCATTER, .root = root, .name = name},
        out, in, false, params, op_p);
}

tryst_status tryst_scatterv(tryst_step *step, const char *name, const tryst_tensor *in,
                            const uint64_t *in_counts, const uint64_t *in_offsets,
                            const tryst_tensor *out, int root,
                            const tryst_op_params *params, tryst_op **op_p)
{
    bool is_root;
    tryst_status status =
        counts_check(step, root, params, in_counts, "in_counts", &is_root);
    return status != TRYST_OK ? status
                              : block_call(step,
                                           (tryst_coll_params){.kind = TRYST_COLL_SCATTER,
                                                               .root = root,
                                                               .name = name,
                                                               .in_counts = in_counts,
                                                               .in_offsets = in_offsets},
                                           out, in, is_root, params, op_p);
}
