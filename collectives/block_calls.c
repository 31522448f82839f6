/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public calls of collectives of blocks: each finds the count of a block and starts
 * the collective (calls.c).
 */
#include "calls.h"
#include "collectives/tree/blocks.h"
#include "core/text/refuse.h"
#include "rendezvous/coll_op.h"
#include "subgroup.h"

static const char submit_call[] = "submit";

/* Start a collective. `one` is this rank's tensor of one block, `all` the tensor with
 * a block for each rank; one of them may be NULL. `has_counts`: the `v` form, where a
 * rank that has a tensor with all blocks must give their counts. */
static tryst_status block_call(tryst_step *step, tryst_coll_params *what,
                               const tryst_tensor *one, const tryst_tensor *all,
                               bool has_counts, const tryst_op_params *params,
                               tryst_op **op_p)
{
    bool out_is_all =
        what->kind == TRYST_COLL_ALLGATHER || what->kind == TRYST_COLL_GATHER;
    if (!step)
        return refuse_null(submit_call, "step");
    tryst_group *group = step_group(step);
    const tryst_subgroup *subgroup = coll_subgroup_of(params);
    has_counts = has_counts && (!coll_kind_has_root(what->kind) ||
                                what->root == subgroup_rank_in(subgroup, group));
    if (has_counts && !(out_is_all ? what->out_counts : what->in_counts))
        return refuse_null(submit_call, out_is_all ? "out_counts" : "in_counts");
    tryst_status status =
        one ? coll_params_fill(what, one, 1)
            : coll_params_fill(what, all, subgroup_size_in(subgroup, group));
    if (status != TRYST_OK)
        return status;
    if (has_counts)
        what->count = 0; /* the arrays hold all counts */
    return coll_call(step, what, out_is_all ? one : all, out_is_all ? all : one, params,
                     op_p);
}

/* ---- all-gather and reduce-scatter ------------------------------------------------- */

tryst_status tryst_allgather(tryst_step *step, const char *name, const tryst_tensor *in,
                             const tryst_tensor *out, const tryst_op_params *params,
                             tryst_op **op_p)
{
    tryst_coll_params what = {.kind = TRYST_COLL_ALLGATHER, .name = name};
    return block_call(step, &what, in, out, false, params, op_p);
}

tryst_status tryst_allgatherv(tryst_step *step, const char *name, const tryst_tensor *in,
                              const tryst_tensor *out, const uint64_t *out_counts,
                              const uint64_t *out_offsets, const tryst_op_params *params,
                              tryst_op **op_p)
{
    tryst_coll_params what = {.kind = TRYST_COLL_ALLGATHER,
                              .name = name,
                              .out_counts = out_counts,
                              .out_offsets = out_offsets};
    return block_call(step, &what, in, out, true, params, op_p);
}

tryst_status tryst_reduce_scatter(tryst_step *step, const char *name,
                                  const tryst_tensor *in, const tryst_tensor *out,
                                  tryst_reduce_op reduce, const tryst_op_params *params,
                                  tryst_op **op_p)
{
    tryst_coll_params what = {
        .kind = TRYST_COLL_REDUCE_SCATTER, .reduce = reduce, .name = name};
    return block_call(step, &what, out, in, false, params, op_p);
}

tryst_status tryst_reduce_scatterv(tryst_step *step, const char *name,
                                   const tryst_tensor *in, const uint64_t *in_counts,
                                   const uint64_t *in_offsets, const tryst_tensor *out,
                                   tryst_reduce_op reduce, const tryst_op_params *params,
                                   tryst_op **op_p)
{
    tryst_coll_params what = {.kind = TRYST_COLL_REDUCE_SCATTER,
                              .reduce = reduce,
                              .name = name,
                              .in_counts = in_counts,
                              .in_offsets = in_offsets};
    return block_call(step, &what, out, in, true, params, op_p);
}

/* ---- all-to-all -------------------------------------------------------------------- */

tryst_status tryst_alltoall(tryst_step *step, const char *name, const tryst_tensor *in,
                            const tryst_tensor *out, const tryst_op_params *params,
                            tryst_op **op_p)
{
    tryst_coll_params what = {.kind = TRYST_COLL_ALLTOALL, .name = name};
    if (!step)
        return refuse_null(submit_call, "step");
    tryst_status status = coll_params_fill(
        &what, in, subgroup_size_in(coll_subgroup_of(params), step_group(step)));
    return status == TRYST_OK ? coll_call(step, &what, in, out, params, op_p) : status;
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
    tryst_status status = coll_params_fill(&what, in, 1);
    what.count = 0;
    return status == TRYST_OK ? coll_call(step, &what, in, out, params, op_p) : status;
}

/* ---- gather and scatter ------------------------------------------------------------ */

tryst_status tryst_gather(tryst_step *step, const char *name, const tryst_tensor *in,
                          const tryst_tensor *out, int root,
                          const tryst_op_params *params, tryst_op **op_p)
{
    tryst_coll_params what = {.kind = TRYST_COLL_GATHER, .root = root, .name = name};
    return block_call(step, &what, in, out, false, params, op_p);
}

tryst_status tryst_gatherv(tryst_step *step, const char *name, const tryst_tensor *in,
                           const tryst_tensor *out, const uint64_t *out_counts,
                           const uint64_t *out_offsets, int root,
                           const tryst_op_params *params, tryst_op **op_p)
{
    tryst_coll_params what = {.kind = TRYST_COLL_GATHER,
                              .root = root,
                              .name = name,
                              .out_counts = out_counts,
                              .out_offsets = out_offsets};
    return block_call(step, &what, in, out, true, params, op_p);
}

tryst_status tryst_scatter(tryst_step *step, const char *name, const tryst_tensor *in,
                           const tryst_tensor *out, int root,
                           const tryst_op_params *params, tryst_op **op_p)
{
    tryst_coll_params what = {.kind = TRYST_COLL_SCATTER, .root = root, .name = name};
    return block_call(step, &what, out, in, false, params, op_p);
}

tryst_status tryst_scatterv(tryst_step *step, const char *name, const tryst_tensor *in,
                            const uint64_t *in_counts, const uint64_t *in_offsets,
                            const tryst_tensor *out, int root,
                            const tryst_op_params *params, tryst_op **op_p)
{
    tryst_coll_params what = {.kind = TRYST_COLL_SCATTER,
                              .root = root,
                              .name = name,
                              .in_counts = in_counts,
                              .in_offsets = in_offsets};
    return block_call(step, &what, out, in, true, params, op_p);
}
