/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prepared collectives, and the memory of their runs.
 *
 * Idea: all that follows from plan, shape and name is computed once: ranges, neighbours, keys, kernel, and
 * the size of a run. A run is one allocation; it returns to its collective when it is over, so a loop
 * allocates nothing.
 * Invariant: the flows of a part, and their keys, are in the order of run.h.
 * Callers: calls.c, cache.c; coll.c, at the end of a run.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/refuse.h"
#include "edges.h"
#include "prepare.h"
#include "rendezvous/coll_op.h"
#include "rendezvous/op/dtype.h"
#include "run.h"

static const char prepare_call[] = "prepare a collective";

/* ---- parts -------------------------------------------------------------------------------- */

static bool climbs(tryst_coll_kind kind)
{
    return kind != TRYST_COLL_BROADCAST;
}

static bool descends(tryst_coll_kind kind)
{
    return kind != TRYST_COLL_REDUCE;
}

static bool has_root(tryst_coll_kind kind)
{
    return kind == TRYST_COLL_REDUCE || kind == TRYST_COLL_BROADCAST;
}

/** Prepare the key of a flow of `tree`, from or to `peer`, and append it. */
static tryst_status key_add(tryst_coll *coll, uint32_t tree, bool up, int32_t peer,
                            bool sends)
{
    char edge[TRYST_COLL_NAME_MAX + 32];
    int32_t rank = tryst_group_rank(coll->group);
    snprintf(edge, sizeof edge, "~c/%s/%" PRIu32 "/%s", coll->label->string, tree,
             up ? "u" : "d");
    tryst_status status = group_key(coll->group, sends ? rank : peer, sends ? peer : rank,
                                    edge, &coll->keys[coll->flows_count]);
    coll->flows_count += status == TRYST_OK;
    return status;
}

/** Where the sums of a part are: in private memory where this rank has no result. */
static void private_place(tryst_coll *coll, struct coll_part *part)
{
    bool adds = part->up_children || coll->reduce == TRYST_REDUCE_PREMULTIPLIED_SUM;
    part->private_at = UINT64_MAX;
    if (coll->kind != TRYST_COLL_REDUCE || part->is_root || !adds)
        return;
    part->private_at = coll->private_bytes;
    coll->private_bytes +=
        (part->bytes + COLL_LINE_BYTES - 1) / COLL_LINE_BYTES * COLL_LINE_BYTES;
}

/** The flows of `edges` of a phase, in the order of run.h. */
static tryst_status phase_add(tryst_coll *coll, struct coll_part *part, uint32_t tree,
                              bool up, const struct coll_edges *edges)
{
    tryst_status status = TRYST_OK;
    part->is_root = edges->parent < 0;
    *(up ? &part->up_children : &part->down_children) = edges->children_count;
    *(up ? &part->sends_up : &part->receives_down) = edges->parent >= 0;
    for (uint32_t i = 0; up && i < edges->children_count && status == TRYST_OK; i++)
        status = key_add(coll, tree, up, edges->children[i], false);
    if (edges->parent >= 0 && status == TRYST_OK)
        status = key_add(coll, tree, up, edges->parent, up);
    for (uint32_t i = 0; !up && i < edges->children_count && status == TRYST_OK; i++)
        status = key_add(coll, tree, up, edges->children[i], true);
    return status;
}

static tryst_status part_add(tryst_coll *coll, const struct coll_plan *plan,
                             const struct coll_class *class, uint32_t tree)
{
    struct coll_range range =
        coll_range_of(class, tree, coll->count, coll->element_bytes);
    struct coll_part *part = &coll->parts[coll->parts_count];
    const struct coll_tree_plan *of = &class->trees[tree];
    if (!range.count && tree)
        return TRYST_OK;
    uint64_t eager_max = coll->colls->eager_max;
    *part = (struct coll_part){.range = range,
                               .bytes = range.count * coll->element_bytes,
                               .flow_slice_bytes = class->slice_bytes,
                               .flow_at = coll->flows_count};
    part->is_small = part->bytes <= eager_max;
    part->slices = coll_slices_of(part->bytes, class->slice_bytes, eager_max);
    part->slice_bytes = part->slices == 1 ? part->bytes : class->slice_bytes;
    if (!part->slices)
        return refuse(TRYST_E_INVALID,
                      "cannot %s: %" PRIu64 " bytes are too many for slices of %" PRIu32
                      "; split the tensor",
                      prepare_call, part->bytes, class->slice_bytes);
    struct coll_edges edges;
    edges.children = mem_alloc(coll_edges_max(of) * sizeof *edges.children);
    if (!edges.children)
        return refuse_nomem(prepare_call);
    tryst_status status = TRYST_OK;
    if (climbs(coll->kind)) {
        coll_edges_find(plan, of, true, coll->root, &edges);
        status = phase_add(coll, part, tree, true, &edges);
    }
    if (descends(coll->kind) && status == TRYST_OK) {
        coll_edges_find(plan, of, false, coll->root, &edges);
        status = phase_add(coll, part, tree, false, &edges);
    }
    mem_free(edges.children);
    private_place(coll, part);
    coll->children_count += part->up_children;
    coll->parts_count++;
    return status;
}

static tryst_status parts_make(tryst_coll *coll, const struct coll_plan *plan)
{
    const struct coll_class *class =
        coll_class_of(plan, coll_bytes(coll->count, coll->element_bytes));
    uint32_t flows = 0;
    coll->paces_bytes_per_s = class->paces_bytes_per_s;
    for (uint32_t t = 0; t < class->trees_count; t++)
        flows += 2 * coll_edges_max(&class->trees[t]) + 2;
    coll->parts = mem_zalloc_array(class->trees_count, sizeof *coll->parts);
    coll->keys = mem_zalloc_array(flows, sizeof *coll->keys);
    if (!coll->parts || !coll->keys)
        return refuse_nomem(prepare_call);
    tryst_status status = TRYST_OK;
    for (uint32_t t = 0; t < class->trees_count && status == TRYST_OK; t++)
        status = part_add(coll, plan, class, t);
    return status;
}

/* ---- runs --------------------------------------------------------------------------------- */

/** A piece of a run's block: where it begins. */
static size_t piece(size_t *at, size_t bytes)
{
    size_t begin = (*at + COLL_LINE_BYTES - 1) / COLL_LINE_BYTES * COLL_LINE_BYTES;
    *at = begin + bytes;
    return begin;
}

static size_t bits_bytes(const struct coll_part *part)
{
    return part->receives_down ? ((size_t)part->slices + 63) / 64 * 8 : 0;
}

static size_t keep_bytes(const struct coll_part *part)
{
    return part->is_small ? part->up_children * (size_t)part->bytes : 0;
}

/** Fill in the pointers of a run at `base`; NULL: only count. Returns the bytes. */
static size_t run_lay(const tryst_coll *coll, char *base)
{
    size_t at = sizeof(struct coll_run);
    size_t trees = piece(&at, coll->parts_count * sizeof(struct coll_tree_run));
    size_t flows = piece(&at, coll->flows_count * sizeof(struct coll_flow));
    size_t child = piece(&at, coll->children_count * sizeof(struct coll_child));
    struct coll_run *run = (struct coll_run *)base;
    if (base) {
        run->trees = (struct coll_tree_run *)(base + trees);
        run->flows = (struct coll_flow *)(base + flows);
    }
    for (uint32_t t = 0; t < coll->parts_count; t++) {
        const struct coll_part *part = &coll->parts[t];
        size_t bits = piece(&at, bits_bytes(part)), keep = piece(&at, keep_bytes(part));
        if (!base)
            continue;
        run->trees[t] = (struct coll_tree_run){
            .run = run,
            .part = part,
            .flows = run->flows + part->flow_at,
            .keep = base + keep,
            .tree = {.slices = part->slices,
                     .children_count = part->up_children,
                     .children = (struct coll_child *)(base + child),
                     .arrived_bits =
                         part->receives_down ? (uint64_t *)(base + bits) : NULL,
                     .is_root = part->is_root}};
        child += part->up_children * sizeof(struct coll_child);
    }
    size_t private = piece(&at, coll->private_bytes);
    if (base)
        run->private = base + private;
    return at;
}

static void flows_reset(struct coll_tree_run *at)
{
    const struct coll_part *part = at->part;
    uint32_t flows =
        part->up_children + part->sends_up + part->receives_down + part->down_children;
    for (uint32_t i = 0; i < flows; i++)
        at->flows[i] = (struct coll_flow){.tree = at,
                                          .child = i,
                                          .flow = {.slice_bytes = part->flow_slice_bytes,
                                                   .shape = at->run->coll->shape}};
}

static void run_reset(struct coll_run *run)
{
    run->op = NULL;
    run->live = 0;
    run->fails = false;
    run->cause.status = TRYST_OK;
    for (uint32_t t = 0; t < run->coll->parts_count; t++) {
        run->trees[t].is_marked = run->trees[t].has_unit = false;
        flows_reset(&run->trees[t]);
    }
}

struct coll_run *coll_run_get(tryst_coll *coll)
{
    pthread_mutex_lock(&coll->colls->lock);
    struct list_node *node = list_pop_front(&coll->idle);
    pthread_mutex_unlock(&coll->colls->lock);
    struct coll_run *run = node ? container_of(node, struct coll_run, idle_node) : NULL;
    if (!run) {
        run = mem_alloc_aligned(COLL_LINE_BYTES, coll->run_bytes);
        if (!run)
            return NULL;
        memset(run, 0, coll->run_bytes - coll->private_bytes);
        run->coll = coll;
        (void)run_lay(coll, (char *)run);
    }
    coll_ref(coll);
    run_reset(run);
    return run;
}

void coll_run_put(struct coll_run *run)
{
    tryst_coll *coll = run->coll;
    pthread_mutex_lock(&coll->colls->lock);
    list_push_front(&coll->idle, &run->idle_node);
    pthread_mutex_unlock(&coll->colls->lock);
    coll_unref(coll);
}

/* ---- the prepared object ------------------------------------------------------------------ */

static void coll_free(tryst_coll *coll)
{
    struct list_node *node;
    while ((node = list_pop_front(&coll->idle)) != NULL)
        mem_free(container_of(node, struct coll_run, idle_node));
    for (uint32_t i = 0; i < coll->flows_count; i++)
        prepared_unref(coll->keys[i]);
    prepared_unref(coll->label);
    mem_free(coll->keys);
    mem_free(coll->parts);
    mem_free(coll);
}

void coll_ref(tryst_coll *coll)
{
    /* relaxed: the caller holds a reference already. */
    atomic_fetch_add_explicit(&coll->refs, 1, memory_order_relaxed);
}

void coll_unref(tryst_coll *coll)
{
    /* acq_rel: the last one sees every other's use before it frees. */
    if (atomic_fetch_sub_explicit(&coll->refs, 1, memory_order_acq_rel) == 1)
        coll_free(coll);
}

const struct coll_plan *coll_plan_get(struct colls *colls, const tryst_group *group)
{
    pthread_mutex_lock(&colls->lock);
    if (!colls->plan && !colls->own_plan)
        colls->own_plan =
            coll_plan_make((uint32_t)tryst_group_size(group), tryst_group_rank(group));
    const struct coll_plan *plan = colls->plan ? colls->plan : colls->own_plan;
    pthread_mutex_unlock(&colls->lock);
    return plan;
}

static void coll_fill(tryst_coll *coll, const tryst_coll_params *params)
{
    bool reduces =
        params->kind == TRYST_COLL_ALLREDUCE || params->kind == TRYST_COLL_REDUCE;
    coll->kind = params->kind;
    coll->reduce = reduces ? params->reduce : TRYST_REDUCE_INVALID;
    coll->root = has_root(params->kind) ? params->root : -1;
    coll->dtype = params->kind == TRYST_COLL_BARRIER ? TRYST_DTYPE_U8 : params->dtype;
    coll->count = params->kind == TRYST_COLL_BARRIER ? 0 : params->count;
    coll->element_bytes = dtype_bytes(coll->dtype);
    coll->kernel = reduces ? reduce_kernel_get(coll->dtype, coll->reduce) : NULL;
    coll->shape = (struct flow_shape){.count = coll->count,
                                      .root = coll->root,
                                      .operation = (uint8_t)coll->kind,
                                      .dtype = (uint8_t)coll->dtype,
                                      .op = (uint8_t)coll->reduce};
}

tryst_status coll_open(struct colls *colls, tryst_group *group,
                       const tryst_coll_params *params, tryst_coll **coll_p)
{
    const struct coll_plan *plan = coll_plan_get(colls, group);
    tryst_coll *coll = plan ? mem_zalloc(sizeof *coll) : NULL;
    if (!coll)
        return refuse_nomem(prepare_call);
    atomic_init(&coll->refs, 1);
    list_init(&coll->idle);
    coll->colls = colls;
    coll->group = group;
    coll->size = tryst_group_size(group);
    coll->is_spread = group_is_spread(group);
    coll_fill(coll, params);
    coll->label = name_key(params->name);
    tryst_status status =
        coll->label ? parts_make(coll, plan) : refuse_nomem(prepare_call);
    if (status != TRYST_OK) {
        coll_free(coll);
        return status;
    }
    coll->run_bytes = run_lay(coll, NULL);
    *coll_p = coll;
    return TRYST_OK;
}
