/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public calls of collectives: check the caller's arguments, find or prepare the
 * collective, start it.
 *
 * Invariant: a refused call has no effect; an accepted call completes exactly once.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "auto_priority.h"
#include "blocks_run.h"
#include "calls.h"
#include "collectives/tree/edges.h"
#include "collectives/tree/map.h"
#include "commsched/profile/recorder.h"
#include "core/text/refuse.h"
#include "prepare.h"
#include "rendezvous/coll_op.h"
#include "rendezvous/op/dtype.h"
#include "run.h"
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
    if (strncmp(name, COLL_OWN_NAMES, strlen(COLL_OWN_NAMES)) == 0)
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

static bool has_root(tryst_coll_kind kind)
{
    return kind == TRYST_COLL_REDUCE || kind == TRYST_COLL_BROADCAST ||
           kind == TRYST_COLL_GATHER || kind == TRYST_COLL_SCATTER;
}

static bool reduces(tryst_coll_kind kind)
{
    return kind == TRYST_COLL_ALLREDUCE || kind == TRYST_COLL_REDUCE ||
           kind == TRYST_COLL_REDUCE_SCATTER;
}

static tryst_status shape_check(const tryst_group *group, const tryst_coll_params *params)
{
    const tryst_subgroup *subgroup = params->subgroup;
    int size = subgroup_size_in(subgroup, group);
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
    if (has_root(params->kind) && (params->root < 0 || params->root >= size))
        return refuse(
            TRYST_E_INVALID,
            "cannot prepare a collective: root is not a rank of the %s: %d (0 to %d)",
            subgroup ? "subgroup" : "group", (int)params->root, size - 1);
    return reduces(params->kind) ? reduce_check(params) : TRYST_OK;
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
    return params->kind == TRYST_COLL_BARRIER
               ? 0
               : coll_bytes(params->count, dtype_bytes(params->dtype));
}

/* Return the class of the tensor or, with blocks, of one block. Lists use the slices
 * of large tensors (block_parts.c). */
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

/* Return the root of the collective's trees; -1: the plan's root. */
static int32_t tree_root(const tryst_coll_params *params)
{
    bool is_planned =
        params->kind == TRYST_COLL_ALLREDUCE || params->kind == TRYST_COLL_BARRIER;
    return is_planned ? -1 : params->root;
}

/* True if `root` is a rank of the plan, or -1. */
static bool root_is_valid(const struct coll_plan *plan, int32_t root)
{
    return root >= -1 && root < (int32_t)plan->size;
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
    if (!root_is_valid(plan, tree_root(&params)))
        return refuse(TRYST_E_INVALID,
                      "cannot %s: root is not a rank of the group: %" PRId32,
                      describe_call, params.root);
    coll_parents_find(plan, &class->trees[tree], is_up, tree_root(&params), parents);
    return TRYST_OK;
}

void tryst_coll_release(tryst_coll *coll)
{
    if (coll)
        coll_unref(coll);
}

/* ---- starts ------------------------------------------------------------------------ */

tryst_status coll_tensor_copy(const char *name, const tryst_tensor *tensor,
                              const struct coll_wanted *wanted, tryst_tensor *own_p)
{
    tryst_tensor own = {.struct_size = sizeof own};
    if (tensor && !tryst_sized_read(&own, sizeof own, tensor))
        return refuse(TRYST_E_INVALID, "cannot submit: %s: %s", name,
                      tryst_sized_reason(tensor));
    if (tensor && own.memory != TRYST_MEMORY_HOST)
        return refuse(TRYST_E_UNSUPPORTED,
                      "cannot submit: %s->memory is %d; collectives take host memory (0)",
                      name, (int)own.memory);
    if (tensor && (own.dtype != wanted->dtype || own.count < wanted->count ||
                   (own.count > wanted->count && !wanted->or_more)))
        return refuse(TRYST_E_INVALID,
                      "cannot submit: %s has %" PRIu64
                      " elements of %s; the collective has "
                      "%" PRIu64 " of %s",
                      name, own.count, tryst_dtype_name(own.dtype), wanted->count,
                      tryst_dtype_name(wanted->dtype));
    if (tensor && own.count && !own.data)
        return refuse(TRYST_E_INVALID,
                      "cannot submit: %s->data is NULL; %" PRIu64 " elements need memory",
                      name, own.count);
    *own_p = own;
    return TRYST_OK;
}

static tryst_status overlap_check(const tryst_coll *coll, const tryst_tensor *in,
                                  const tryst_tensor *out)
{
    uint64_t bytes = coll->count * coll->element_bytes;
    const char *from = in->data, *to = out->data;
    if (!bytes || !from || !to || from == to || !coll_overlap(from, bytes, to, bytes))
        return TRYST_OK;
    return refuse(
        TRYST_E_INVALID,
        "cannot submit: in (%p) and out (%p) overlap in part; give the same memory "
        "for both, or memory that does not overlap",
        in->data, out->data);
}

/* Check that this rank gives the tensors that the collective needs, and set ignored
 * ones to NULL. */
static tryst_status tensors_check(const tryst_coll *coll, const tryst_tensor **in_p,
                                  const tryst_tensor **out_p)
{
    bool is_root = coll->root < 0 || coll->root == coll->rank;
    if (coll->kind == TRYST_COLL_BARRIER)
        *in_p = *out_p = NULL;
    if (coll->kind == TRYST_COLL_BROADCAST)
        *in_p = NULL;
    if (coll->kind == TRYST_COLL_REDUCE && !is_root)
        *out_p = NULL;
    if (coll->kind == TRYST_COLL_BARRIER || *out_p ||
        (coll->kind == TRYST_COLL_REDUCE && !is_root && *in_p))
        return TRYST_OK;
    return refuse_null(submit_call, coll->kind == TRYST_COLL_BROADCAST ? "tensor"
                                    : coll->kind == TRYST_COLL_REDUCE && !is_root
                                        ? "in"
                                        : "out");
}

static tryst_status run_tensors_copy(struct coll_run *run, const tryst_tensor *in,
                                     const tryst_tensor *out)
{
    const tryst_coll *coll = run->coll;
    struct coll_wanted wanted = {.dtype = coll->dtype, .count = coll->count};
    if (coll_kind_has_blocks(coll->kind))
        return coll_blocks_copy(run, in, out);
    tryst_status status = tensors_check(coll, &in, &out);
    if (status == TRYST_OK)
        status = coll_tensor_copy("in", in, &wanted, &run->in);
    if (status == TRYST_OK)
        status = coll_tensor_copy(coll->kind == TRYST_COLL_BROADCAST ? "tensor" : "out",
                                  out, &wanted, &run->out);
    if (status == TRYST_OK)
        status = overlap_check(coll, &run->in, &run->out);
    return status;
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
    coll_tree_reset(tree);
}

/* Set the memory of each tree: its range of the tensors, or of private memory. */
static void run_memory_set(struct coll_run *run)
{
    const tryst_coll *coll = run->coll;
    char *out = run->out.data;
    const char *in = run->in.data ? run->in.data : out;
    for (uint32_t t = 0; t < coll->parts_count; t++) {
        struct coll_tree_run *at = &run->trees[t];
        const struct coll_part *part = at->part;
        uint64_t begin = part->range.begin * coll->element_bytes;
        at->own = in ? in + begin : NULL;
        at->result = out ? out + begin : NULL;
        at->sums = part->private_at == COLL_NOWHERE ? at->result
                                                    : run->private + part->private_at;
    }
}

/* Set the memory of the run, and reset the counters of its trees. */
static void trees_reset(struct coll_run *run)
{
    if (coll_kind_has_blocks(run->coll->kind))
        coll_blocks_memory_set(run);
    else
        run_memory_set(run);
    for (uint32_t t = 0; t < run->coll->parts_count; t++)
        tree_reset(&run->trees[t]);
    coll_lead_begin(&run->lead);
}

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

/* Record the submission, before `op` is submitted. Any thread. */
static void run_record_begin(struct coll_run *run, tryst_op *op)
{
    const tryst_coll *coll = run->coll;
    struct recorder *recorder = coll->colls->recorder;
    if (!recorder || coll->is_own)
        return;
    struct recorder_submitted submitted = recorder_submit(
        recorder, &(struct recorder_submission){
                      .name = coll->recorder_name,
                      .step = op->step_id,
                      .bytes = coll_bytes(coll->count, coll->element_bytes),
                      .by_callback = op_callback_runs(),
                      .cause = op_callback_recorded()});
    run->matched_at = run->first_slice_at = 0;
    run->recorded = op->recorded = submitted.op;
    if (coll->colls->host.priorities)
        auto_priority_set(coll, op, &submitted);
}

static tryst_status coll_start(tryst_step *step, tryst_coll *coll, const tryst_tensor *in,
                               const tryst_tensor *out, const tryst_op_params *params,
                               tryst_op **op_p)
{
    tryst_op *op = NULL;
    struct coll_run *run = coll_run_get(coll);
    if (!run)
        return refuse_nomem(submit_call);
    run->factor = params && params->factor != 0 ? params->factor : 1;
    tryst_status status = run_tensors_copy(run, in, out);
    if (status == TRYST_OK)
        status = thread_check(coll->colls, coll->is_spread);
    if (status == TRYST_OK)
        status = coll_op_open(step, coll->label, params, run, &op);
    if (status != TRYST_OK) {
        coll_run_put(run);
        return status;
    }
    trees_reset(run);
    run_record_begin(run, op);
    if (op_p)
        *op_p = op;
    coll_op_submit(op, !op_p, run_begin);
    return TRYST_OK;
}

tryst_status tryst_coll_start(tryst_step *step, tryst_coll *coll, const tryst_tensor *in,
                              const tryst_tensor *out, const tryst_op_params *params,
                              tryst_op **op_p)
{
    tryst_op_params room;
    if (!step || !coll)
        return refuse_null(submit_call, step ? "coll" : "step");
    tryst_status status = group_check(step_group(step), submit_call);
    if (status != TRYST_OK)
        return status;
    if (step_group(step) != coll->group)
        return refuse(TRYST_E_INVALID,
                      "cannot submit: the step and the collective are of two groups; "
                      "give both of one group");
    const tryst_op_params *own =
        params ? tryst_sized_view(params, &room, sizeof room) : NULL;
    if (params && !own)
        return refuse(TRYST_E_INVALID, "cannot submit: params: %s",
                      tryst_sized_reason(params));
    status = params_check(coll, own);
    return status == TRYST_OK ? coll_start(step, coll, in, out, own, op_p) : status;
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
static tryst_status named_call(tryst_step *step, tryst_coll_params what,
                               const tryst_tensor *in, const tryst_tensor *out,
                               const tryst_op_params *params, tryst_op **op_p)
{
    tryst_coll *coll;
    tryst_group *group = step_group(step);
    what.struct_size = sizeof what;
    what.subgroup = coll_subgroup_of(params);
    tryst_status status = group_check(group, prepare_call);
    if (status == TRYST_OK)
        status = shape_check(group, &what);
    if (status == TRYST_OK)
        status = coll_find(group_colls(group), group, &what, &coll);
    if (status != TRYST_OK)
        return status;
    status = tryst_coll_start(step, coll, in, out, params, op_p);
    coll_unref(coll);
    return status;
}

tryst_status coll_call(tryst_step *step, tryst_coll_params what, const tryst_tensor *in,
                       const tryst_tensor *out, const tryst_op_params *params,
                       tryst_op **op_p)
{
    tryst_status status = name_check(what.name);
    return status == TRYST_OK ? named_call(step, what, in, out, params, op_p) : status;
}

tryst_status coll_call_own(tryst_step *step, tryst_coll_params what,
                           const tryst_tensor *tensor, const tryst_op_params *params)
{
    return named_call(step, what, tensor, tensor, params, NULL);
}

/* Start the collective that `what` describes, with count and dtype of `tensor` (NULL:
 * a barrier). */
static tryst_status call(tryst_step *step, tryst_coll_params what,
                         const tryst_tensor *tensor, const tryst_tensor *in,
                         const tryst_tensor *out, const tryst_op_params *params,
                         tryst_op **op_p)
{
    tryst_tensor room;
    if (!step)
        return refuse_null(submit_call, "step");
    if (tensor) {
        const tryst_tensor *own = tryst_sized_view(tensor, &room, sizeof room);
        if (!own)
            return refuse(TRYST_E_INVALID, "cannot submit: a tensor: %s",
                          tryst_sized_reason(tensor));
        what.count = own->count;
        what.dtype = own->dtype;
    } else if (what.kind != TRYST_COLL_BARRIER) {
        return refuse_null(submit_call, "a tensor");
    }
    return coll_call(step, what, in, out, params, op_p);
}

tryst_status tryst_allreduce(tryst_step *step, const char *name, const tryst_tensor *in,
                             const tryst_tensor *out, tryst_reduce_op reduce,
                             const tryst_op_params *params, tryst_op **op_p)
{
    return call(
        step,
        (tryst_coll_params){.kind = TRYST_COLL_ALLREDUCE, .reduce = reduce, .name = name},
        out, in, out, params, op_p);
}

tryst_status tryst_reduce(tryst_step *step, const char *name, const tryst_tensor *in,
                          const tryst_tensor *out, tryst_reduce_op reduce, int root,
                          const tryst_op_params *params, tryst_op **op_p)
{
    return call(
        step,
        (tryst_coll_params){
            .kind = TRYST_COLL_REDUCE, .reduce = reduce, .root = root, .name = name},
        in ? in : out, in, out, params, op_p);
}

tryst_status tryst_broadcast(tryst_step *step, const char *name,
                             const tryst_tensor *tensor, int root,
                             const tryst_op_params *params, tryst_op **op_p)
{
    return call(
        step,
        (tryst_coll_params){.kind = TRYST_COLL_BROADCAST, .root = root, .name = name},
        tensor, NULL, tensor, params, op_p);
}

tryst_status tryst_barrier(tryst_step *step, const char *name,
                           const tryst_op_params *params, tryst_op **op_p)
{
    return call(step, (tryst_coll_params){.kind = TRYST_COLL_BARRIER, .name = name}, NULL,
                NULL, NULL, params, op_p);
}
