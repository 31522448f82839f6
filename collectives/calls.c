/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public calls of collectives: check the caller's arguments, find or prepare the
 * collective, start it.
 *
 * Invariant: a refused call has no effect; an accepted call completes exactly once.
 */
#include <inttypes.h>
#include <string.h>

#include "calls.h"
#include "collectives/tree/edges.h"
#include "collectives/tree/map.h"
#include "core/text/refuse.h"
#include "prepare.h"
#include "rendezvous/coll_op.h"
#include "rendezvous/op/dtype.h"
#include "run.h"
#include "start.h"
#include "subgroup.h"
#include "tryst/sized.h"

static const char submit_call[] = "submit";

/* ---- preparation ------------------------------------------------------------------- */

static const char prepare_call[] = "prepare a collective";

static tryst_status name_check(const char *name)
{
    if (!name)
        return refuse_null("prepare a collective", "the name");
    size_t bytes = strnlen(name, TRYST_COLL_NAME_MAX + 1);
    if (*name == *COLL_OWN_NAMES &&
        strncmp(name, COLL_OWN_NAMES, strlen(COLL_OWN_NAMES)) == 0)
        return refuse(TRYST_E_INVALID,
                      "cannot prepare a collective: the name \"%.64s\" begins with "
                      "\"" COLL_OWN_NAMES "\": such names are the library's",
                      name);
    if (bytes && bytes <= TRYST_COLL_NAME_MAX && !memchr(name, ';', bytes))
        return TRYST_OK;
    return refuse(
        TRYST_E_INVALID,
        "cannot prepare a collective: not a valid name: \"%.64s\" (1 to %d bytes, "
        "without ';')",
        name, TRYST_COLL_NAME_MAX);
}

static tryst_status reduce_check(const tryst_coll_params *params)
{
    if (reduce_kernel_get(params->dtype, params->reduce))
        return TRYST_OK;
    return refuse(
        TRYST_E_INVALID,
        "cannot prepare a collective: %s has no reduction %d (%s); tryst_reduce_op "
        "lists which go together",
        tryst_dtype_name(params->dtype), (int)params->reduce,
        reduce_op_name(params->reduce));
}

static tryst_status shape_check(const tryst_group *group, const tryst_coll_params *params)
{
    const tryst_subgroup *subgroup = params->subgroup;
    if (subgroup && subgroup->group != group)
        return refuse(TRYST_E_INVALID,
                      "cannot prepare a collective: the subgroup is of another group");
    if (params->kind == TRYST_COLL_BARRIER)
        return TRYST_OK;
    if (params->kind < TRYST_COLL_ALLREDUCE || params->kind > TRYST_COLL_SCATTER)
        return refuse(TRYST_E_INVALID,
                      "cannot prepare a collective: kind is %d; the kinds are 1 "
                      "(all-reduce) to 9 (scatter)",
                      (int)params->kind);
    if (!dtype_bytes(params->dtype))
        return refuse(TRYST_E_INVALID,
                      "cannot prepare a collective: dtype is %d; tryst_dtype lists them",
                      (int)params->dtype);
    if (params->count > UINT64_MAX / 2 / DTYPE_BYTES_MAX)
        return refuse(TRYST_E_INVALID,
                      "cannot prepare a collective: count is %" PRIu64
                      "; at most %" PRIu64 " elements",
                      params->count, UINT64_MAX / 2 / DTYPE_BYTES_MAX);
    int size = coll_kind_has_root(params->kind) ? subgroup_size_in(subgroup, group) : 0;
    if (size && (params->root < 0 || params->root >= size))
        return refuse(
            TRYST_E_INVALID,
            "cannot prepare a collective: root is not a rank of the %s: %d (0 to %d)",
            subgroup ? "subgroup" : "group", (int)params->root, size - 1);
    return coll_kind_reduces(params->kind) ? reduce_check(params) : TRYST_OK;
}

tryst_status tryst_coll_prepare(tryst_group *group, const tryst_coll_params *coll_params,
                                tryst_coll **coll_p)
{
    tryst_coll_params room;
    if (!group || !coll_params || !coll_p)
        return refuse_null("prepare a collective", !group         ? "group"
                                                   : !coll_params ? "coll_params"
                                                                  : "coll_p");
    const tryst_coll_params *params = tryst_sized_view(coll_params, &room, sizeof room);
    if (!params)
        return refuse(TRYST_E_INVALID, "cannot prepare a collective: coll_params: %s",
                      tryst_sized_reason(coll_params));
    tryst_status status = group_check(group, prepare_call);
    if (status == TRYST_OK)
        status = name_check(params->name);
    if (status == TRYST_OK)
        status = shape_check(group, params);
    return status == TRYST_OK ? coll_open(group_colls(group), group, params, coll_p)
                              : status;
}

static const char describe_call[] = "describe a collective";

/* Check the parameters of a query, and find the plan. */
static tryst_status plan_find(tryst_group *group, const tryst_coll_params *coll_params,
                              tryst_coll_params *own_p, const struct coll_plan **plan_p)
{
    if (!tryst_sized_read(own_p, sizeof *own_p, coll_params))
        return refuse(TRYST_E_INVALID, "cannot %s: coll_params: %s", describe_call,
                      tryst_sized_reason(coll_params));
    tryst_status status = group_check(group, describe_call);
    if (status == TRYST_OK)
        status = shape_check(group, own_p);
    if (status != TRYST_OK)
        return status;
    *plan_p = own_p->subgroup ? own_p->subgroup->plan
                              : coll_plan_get(group_colls(group), group);
    return *plan_p ? TRYST_OK : refuse_nomem(describe_call);
}

static uint64_t params_bytes(const tryst_coll_params *params)
{
    bool has_bytes = params->kind != TRYST_COLL_BARRIER;
    return has_bytes ? coll_bytes(params->count, dtype_bytes(params->dtype)) : 0;
}

/* Return the class of the tensor or, with blocks, of one block. Lists use the slices
 * of large tensors (parts.c). */
static const struct coll_class *class_for(const struct coll_plan *plan,
                                          const tryst_coll_params *params)
{
    return coll_kind_is_list(params->kind) ? &plan->classes[plan->classes_count - 1]
                                           : coll_class_of(plan, params_bytes(params));
}

/* Return how many trees of `class` the collective uses: a barrier one, a list none. */
static uint32_t trees_of(const struct coll_class *class, const tryst_coll_params *params)
{
    if (coll_kind_is_list(params->kind))
        return 0;
    return params->kind == TRYST_COLL_BARRIER ? 1 : class->trees_count;
}

tryst_status tryst_coll_estimate(tryst_group *group, const tryst_coll_params *coll_params,
                                 tryst_coll_info *info)
{
    const struct coll_plan *plan;
    tryst_coll_params params;
    tryst_coll_info own = {.struct_size = sizeof own};
    if (!group || !coll_params || !info)
        return refuse_null(describe_call, !group         ? "group"
                                          : !coll_params ? "coll_params"
                                                         : "info");
    if (!tryst_sized_is_set(info))
        return refuse_unsized(describe_call, "info");
    tryst_status status = plan_find(group, coll_params, &params, &plan);
    if (status != TRYST_OK)
        return status;
    uint64_t bytes = params_bytes(&params);
    const struct coll_class *class = class_for(plan, &params);
    own.trees = trees_of(class, &params);
    own.slice_bytes = class->slice_bytes;
    if (params.kind == TRYST_COLL_ALLREDUCE && plan->bound_bytes_per_s) {
        own.bound_seconds = (double)bytes / (double)plan->bound_bytes_per_s;
        own.planned_bytes_per_s = class->bytes_per_s;
    }
    (void)tryst_sized_write(info, &own, sizeof own);
    return TRYST_OK;
}

tryst_status tryst_coll_tree(tryst_group *group, const tryst_coll_params *coll_params,
                             uint32_t tree, bool is_up, int32_t *parents)
{
    const struct coll_plan *plan;
    tryst_coll_params params;
    if (!group || !coll_params || !parents)
        return refuse_null(describe_call, !group         ? "group"
                                          : !coll_params ? "coll_params"
                                                         : "parents");
    tryst_status status = plan_find(group, coll_params, &params, &plan);
    if (status != TRYST_OK)
        return status;
    const struct coll_class *class = class_for(plan, &params);
    if (tree >= trees_of(class, &params))
        return refuse(TRYST_E_INVALID,
                      "cannot %s: tree is %" PRIu32 "; the collective has %" PRIu32
                      " trees",
                      describe_call, tree, trees_of(class, &params));
    bool is_planned =
        params.kind == TRYST_COLL_ALLREDUCE || params.kind == TRYST_COLL_BARRIER;
    int32_t root = is_planned ? -1 : params.root; /* -1: the plan's root */
    if (root < -1 || root >= (int32_t)plan->size)
        return refuse(TRYST_E_INVALID,
                      "cannot %s: root is not a rank of the group: %" PRId32,
                      describe_call, params.root);
    coll_parents_find(plan, &class->trees[tree], is_up, root, parents);
    return TRYST_OK;
}

void tryst_coll_release(tryst_coll *coll)
{
    if (coll)
        coll_unref(coll);
}

/* ---- starts ------------------------------------------------------------------------ */

static tryst_status params_check(const tryst_coll *coll, const tryst_op_params *params)
{
    uint32_t known = TRYST_OP_PRIORITY | TRYST_OP_BACKGROUND;
    if (params && (params->flags & ~known))
        return refuse(TRYST_E_INVALID,
                      "cannot submit: params->flags has the bits 0x%x; collectives take "
                      "TRYST_OP_PRIORITY and TRYST_OP_BACKGROUND",
                      params->flags & ~known);
    if (params && params->priority && !(params->flags & TRYST_OP_PRIORITY))
        return refuse_priority(params->priority);
    if (params && params->alloc)
        return refuse(
            TRYST_E_INVALID,
            "cannot submit: params->alloc is set for a collective; only receives "
            "take it");
    if (params && params->subgroup && params->subgroup != coll->subgroup)
        return refuse(
            TRYST_E_INVALID,
            "cannot submit: params->subgroup is not that of the prepared collective; "
            "leave it NULL");
    return TRYST_OK;
}

/* Check the parameters, and start a collective of the step's group. */
static tryst_status checked_start(tryst_step *step, tryst_coll *coll,
                                  const tryst_tensor *in, const tryst_tensor *out,
                                  const tryst_op_params *params, tryst_op **op_p)
{
    tryst_op_params room;
    const tryst_op_params *own =
        params ? tryst_sized_view(params, &room, sizeof room) : NULL;
    if (params && !own)
        return refuse(TRYST_E_INVALID, "cannot submit: params: %s",
                      tryst_sized_reason(params));
    tryst_status status = params_check(coll, own);
    return status == TRYST_OK ? coll_start(step, coll, in, out, own, op_p) : status;
}

tryst_status tryst_coll_start(tryst_step *step, tryst_coll *coll, const tryst_tensor *in,
                              const tryst_tensor *out, const tryst_op_params *params,
                              tryst_op **op_p)
{
    if (!step || !coll)
        return refuse_null(submit_call, step ? "coll" : "step");
    tryst_status status = group_check(step_group(step), submit_call);
    if (status != TRYST_OK)
        return status;
    if (step_group(step) != coll->group)
        return refuse(TRYST_E_INVALID,
                      "cannot submit: the step and the collective are of two groups; "
                      "give both of one group");
    return checked_start(step, coll, in, out, params, op_p);
}

/* ---- one call ---------------------------------------------------------------------- */

const tryst_subgroup *coll_subgroup_of(const tryst_op_params *params)
{
    tryst_op_params room;
    const tryst_op_params *own =
        params ? tryst_sized_view(params, &room, sizeof room) : NULL;
    return own ? own->subgroup : NULL; /* invalid params are refused later */
}

/* Find or prepare the collective, and start it; its name is checked. */
static tryst_status named_call(tryst_step *step, tryst_coll_params *what,
                               const tryst_tensor *in, const tryst_tensor *out,
                               const tryst_op_params *params, tryst_op **op_p)
{
    tryst_coll *coll;
    tryst_group *group = step_group(step);
    struct colls *colls = group_colls(group);
    tryst_status status = group_check(group, prepare_call);
    what->struct_size = sizeof *what;
    what->subgroup = coll_subgroup_of(params);
    if (status == TRYST_OK)
        status = shape_check(group, what);
    if (status == TRYST_OK)
        status = coll_find(colls, group, what, &coll);
    if (status != TRYST_OK)
        return status;
    status = checked_start(step, coll, in, out, params, op_p);
    coll_unref(coll);
    return status;
}

tryst_status coll_call(tryst_step *step, tryst_coll_params *what, const tryst_tensor *in,
                       const tryst_tensor *out, const tryst_op_params *params,
                       tryst_op **op_p)
{
    tryst_status status = name_check(what->name);
    return status == TRYST_OK ? named_call(step, what, in, out, params, op_p) : status;
}

tryst_status coll_call_own(tryst_step *step, tryst_coll_params *what,
                           const tryst_tensor *tensor, const tryst_op_params *params)
{
    return named_call(step, what, tensor, tensor, params, NULL);
}

tryst_status coll_params_fill(tryst_coll_params *what, const tryst_tensor *tensor,
                              int blocks)
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

/* Start the collective that `what` describes, with count and dtype of `tensor`. */
static tryst_status call(tryst_step *step, tryst_coll_params *what,
                         const tryst_tensor *tensor, const tryst_tensor *in,
                         const tryst_tensor *out, const tryst_op_params *params,
                         tryst_op **op_p)
{
    if (!step)
        return refuse_null(submit_call, "step");
    tryst_status status = coll_params_fill(what, tensor, 1);
    return status == TRYST_OK ? coll_call(step, what, in, out, params, op_p) : status;
}

tryst_status tryst_allreduce(tryst_step *step, const char *name, const tryst_tensor *in,
                             const tryst_tensor *out, tryst_reduce_op reduce,
                             const tryst_op_params *params, tryst_op **op_p)
{
    tryst_coll_params what = {
        .kind = TRYST_COLL_ALLREDUCE, .reduce = reduce, .name = name};
    return call(step, &what, out, in, out, params, op_p);
}

tryst_status tryst_reduce(tryst_step *step, const char *name, const tryst_tensor *in,
                          const tryst_tensor *out, tryst_reduce_op reduce, int root,
                          const tryst_op_params *params, tryst_op **op_p)
{
    tryst_coll_params what = {
        .kind = TRYST_COLL_REDUCE, .reduce = reduce, .root = root, .name = name};
    return call(step, &what, in ? in : out, in, out, params, op_p);
}

tryst_status tryst_broadcast(tryst_step *step, const char *name,
                             const tryst_tensor *tensor, int root,
                             const tryst_op_params *params, tryst_op **op_p)
{
    tryst_coll_params what = {.kind = TRYST_COLL_BROADCAST, .root = root, .name = name};
    return call(step, &what, tensor, NULL, tensor, params, op_p);
}

tryst_status tryst_barrier(tryst_step *step, const char *name,
                           const tryst_op_params *params, tryst_op **op_p)
{
    tryst_coll_params what = {.kind = TRYST_COLL_BARRIER, .name = name};
    if (!step)
        return refuse_null(submit_call, "step");
    return coll_call(step, &what, NULL, NULL, params, op_p);
}
