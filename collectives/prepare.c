/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prepared collectives, the memory of their runs, and one-shot collectives.
 *
 * Idea: everything that follows from plan, shape and name is computed once: blocks,
 * kernel, parts (parts.c), and the size of a run. A run is one allocation, which returns
 * to its collective at the end, so a loop allocates nothing.
 *
 * A job uses the same names and shapes in every step, so a one-shot call with the name
 * and shape of an earlier call finds its collective in a table. The table is bounded, and
 * drops the least recently used collective first; runs under way keep a dropped
 * collective alive. The bytes of idle runs, with their private memory, have a bound of
 * their own, so a job with varying names pins no memory.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "calls.h"
#include "collectives/tree/edges.h"
#include "commsched/profile/recorder.h"
#include "copies.h"
#include "core/memory/alloc.h"
#include "core/text/hash.h"
#include "core/text/refuse.h"
#include "parts.h"
#include "prepare.h"
#include "rendezvous/coll_op.h"
#include "rendezvous/op/dtype.h"
#include "run.h"
#include "subgroup.h"

static const char prepare_call[] = "prepare a collective";

static void coll_ref(tryst_coll *coll)
{
    /* relaxed: the caller holds a reference already. */
    atomic_fetch_add_explicit(&coll->refs, 1, memory_order_relaxed);
}

/* ---- runs -------------------------------------------------------------------------- */

/* Reserve `bytes` in a run's allocation, and return their offset. */
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
    uint32_t terms = part->up_children + part->is_exchange;
    return part->is_small ? terms * (size_t)part->bytes : 0;
}

/* Set the pointers of a run at `base`; NULL: only count. Returns the bytes of the
 * run. */
static size_t run_lay(const tryst_coll *coll, char *base)
{
    size_t at = sizeof(struct coll_run);
    size_t trees = piece(&at, coll->parts_count * sizeof(struct coll_tree_run));
    size_t flows = piece(&at, coll->flows_count * sizeof(struct coll_flow));
    size_t child = piece(&at, coll->children_count * sizeof(struct coll_child));
    struct coll_run *run = (struct coll_run *)base;
    if (base) {
        run->lead = (struct coll_lead){.ahead = COLL_LEAD};
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
        if (part_passes_on(part)) {
            run->trees[t].tree.next = run->lead.first;
            run->lead.first = &run->trees[t].tree;
        }
    }
    size_t private = piece(&at, coll->private_bytes);
    if (base)
        run->private = base + private;
    return at;
}

static void flows_reset(struct coll_tree_run *at)
{
    const struct coll_part *part = at->part;
    for (uint32_t i = 0; i < part_flows(part); i++)
        at->flows[i] = (struct coll_flow){
            .tree = at,
            .child = i,
            .flow = {.slice_bytes = part->flow_slice_bytes, .shape = part->shape}};
}

static void run_reset(struct coll_run *run)
{
    run->op = NULL;
    run->live = run->awaited = 0;
    run->fails = run->completes = false;
    run->cause.status = TRYST_OK;
    for (uint32_t t = 0; t < run->coll->parts_count; t++) {
        run->trees[t].is_marked = run->trees[t].has_unit = run->trees[t].stalls = false;
        run->trees[t].bring = NULL;
        flows_reset(&run->trees[t]);
    }
}

/* Take an idle run; NULL: none. The caller holds the lock if coll->is_kept. */
static struct coll_run *idle_run_pop(tryst_coll *coll)
{
    struct list_node *node = list_pop_front(&coll->idle);
    struct coll_run *run = node ? container_of(node, struct coll_run, idle_node) : NULL;
    if (run && coll->is_kept) {
        list_remove(&run->order);
        coll->colls->idle_bytes -= coll->run_bytes;
        coll->colls->idle_count--;
    }
    return run;
}

/* Keep a run for the next start, and move the least recently used runs beyond the
 * bounds to `over`. The caller holds the lock. */
static void idle_put(struct coll_run *run, struct list *over)
{
    tryst_coll *coll = run->coll;
    struct colls *colls = coll->colls;
    list_push_front(&coll->idle, &run->idle_node);
    if (!coll->is_kept)
        return;
    list_push_back(&colls->idle_order, &run->order);
    colls->idle_bytes += coll->run_bytes;
    colls->idle_count++;
    while (colls->idle_bytes > colls->idle_bytes_max &&
           colls->idle_count > COLLS_IDLE_LEAST) {
        struct coll_run *old =
            container_of(list_pop_front(&colls->idle_order), struct coll_run, order);
        list_remove(&old->idle_node);
        colls->idle_bytes -= old->coll->run_bytes;
        colls->idle_count--;
        list_push_back(over, &old->idle_node);
    }
}

static void runs_free(struct list *runs)
{
    struct list_node *node;
    while ((node = list_pop_front(runs)) != NULL)
        mem_free(container_of(node, struct coll_run, idle_node));
}

struct coll_run *coll_run_get(tryst_coll *coll)
{
    pthread_mutex_lock(&coll->colls->lock);
    struct coll_run *run = idle_run_pop(coll);
    pthread_mutex_unlock(&coll->colls->lock);
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
    struct list over;
    list_init(&over);
    coll_copies_close(run);
    pthread_mutex_lock(&coll->colls->lock);
    idle_put(run, &over);
    pthread_mutex_unlock(&coll->colls->lock);
    runs_free(&over);
    coll_unref(coll);
}

/* ---- the prepared object ----------------------------------------------------------- */

/* Free the idle runs. A prepared collective of the caller may outlive its context, so
 * only a kept one takes the lock. */
static void idle_free(tryst_coll *coll)
{
    struct list all;
    struct coll_run *run;
    list_init(&all);
    if (coll->is_kept)
        pthread_mutex_lock(&coll->colls->lock);
    while ((run = idle_run_pop(coll)) != NULL)
        list_push_back(&all, &run->idle_node);
    if (coll->is_kept)
        pthread_mutex_unlock(&coll->colls->lock);
    runs_free(&all);
}

static void coll_free(tryst_coll *coll)
{
    idle_free(coll);
    for (uint32_t i = 0; i < coll->flows_count; i++)
        prepared_unref(coll->keys[i]);
    prepared_unref(coll->uses_key);
    prepared_unref(coll->label);
    subgroup_unref(coll->subgroup);
    mem_free(coll->keys);
    mem_free(coll->parts);
    coll_blocks_close(&coll->in_blocks);
    coll_blocks_close(&coll->out_blocks);
    mem_free(coll);
}

void coll_unref(tryst_coll *coll)
{
    /* acq_rel: all uses under other references happen before the free. */
    if (atomic_fetch_sub_explicit(&coll->refs, 1, memory_order_acq_rel) == 1)
        coll_free(coll);
}

const struct coll_plan *coll_plan_get(struct colls *colls, const tryst_group *group)
{
    int32_t size = tryst_group_size(group);
    pthread_mutex_lock(&colls->lock);
    if (!colls->plan && !colls->own_plan)
        colls->own_plan = coll_plan_make((uint32_t)size, tryst_group_rank(group));
    if (!colls->lost) {
        colls->lost = mem_zalloc_array((size_t)size, sizeof *colls->lost);
        colls->lost_capacity = colls->lost ? size : 0;
    }
    const struct coll_plan *plan = colls->plan ? colls->plan : colls->own_plan;
    plan = colls->lost ? plan : NULL;
    pthread_mutex_unlock(&colls->lock);
    return plan;
}

static void coll_fill(tryst_coll *coll, const tryst_coll_params *params)
{
    bool reduces = coll_kind_reduces(params->kind);
    coll->kind = params->kind;
    coll->reduce = reduces ? params->reduce : TRYST_REDUCE_INVALID;
    coll->root = coll_kind_has_root(params->kind) ? params->root : -1;
    coll->dtype = params->kind == TRYST_COLL_BARRIER ? TRYST_DTYPE_U8 : params->dtype;
    coll->tensor_dtype = coll->dtype;
    coll->params_count = params->count;
    coll->count = params->kind == TRYST_COLL_BARRIER ? 0 : params->count;
    coll->in_count = coll->out_count = coll->count;
    coll->element_bytes = dtype_bytes(coll->dtype);
    coll->kernel = reduces ? reduce_kernel_get(coll->dtype, coll->reduce) : NULL;
    coll->shape = (struct flow_shape){.count = coll->count,
                                      .root = coll->root,
                                      .operation = (uint8_t)coll->kind,
                                      .dtype = (uint8_t)coll->dtype,
                                      .op = (uint8_t)coll->reduce};
}

/* True if one all-reduce of all blocks is cheaper than a tree for each rank. With a
 * tree for each rank, a rank has 2 (n - 1) messages of about 1 us; with the
 * all-reduce, 6 messages at most in a binary tree and twice the bytes, at about 8
 * GB/s. The copies to and from private memory are not cut in pieces, so the bytes of
 * one turn are the bound. */
static bool is_packed(const tryst_coll *coll, uint64_t bytes)
{
    uint64_t others = (uint64_t)coll->size - 1;
    bool has_roots =
        coll->kind == TRYST_COLL_ALLGATHER || coll->kind == TRYST_COLL_REDUCE_SCATTER;
    return has_roots && others > 3 && bytes && bytes <= COLL_WORK_BYTES &&
           bytes <= others * (16u << 10);
}

/* Pack all blocks into one all-reduce. An all-gather combines them by OR: each rank
 * has zeros in place of the other ranks' blocks. */
static void pack(tryst_coll *coll)
{
    coll->is_packed = true;
    if (coll->kind != TRYST_COLL_ALLGATHER)
        return;
    coll->count *= coll->element_bytes;
    coll->element_bytes = 1;
    coll->dtype = TRYST_DTYPE_U8;
    coll->kernel = reduce_kernel_get(TRYST_DTYPE_U8, TRYST_REDUCE_OR);
}

static tryst_status blocks_open(tryst_coll *coll, const tryst_coll_params *params)
{
    int32_t rank = coll->rank;
    struct coll_blocks *in = &coll->in_blocks, *out = &coll->out_blocks;
    if (!coll_kind_has_blocks(coll->kind))
        return TRYST_OK;
    tryst_status status = coll_blocks_open(params, false, rank, coll->size, in);
    if (status == TRYST_OK)
        status = coll_blocks_open(params, true, rank, coll->size, out);
    if (status != TRYST_OK)
        return status;
    uint64_t own_in = out->is_given ? coll_block_count(out, rank) : params->count;
    uint64_t own_out = in->is_given ? coll_block_count(in, rank) : params->count;
    coll->in_count = in->is_given ? in->end : own_in;
    coll->out_count = out->is_given ? out->end : own_out;
    coll->count = in->is_given ? in->total : out->is_given ? out->total : params->count;
    coll->shape.count = coll->count;
    if (!coll_kind_is_list(coll->kind))
        coll->shape.root = coll_blocks_digest(in->is_given ? in : out, coll->size);
    if (is_packed(coll, coll->count * coll->element_bytes))
        pack(coll);
    return TRYST_OK;
}

/* Set coll->recorder_name. Collectives that can meet have one name on all ranks, and
 * others of a rank have other names. */
static void coll_record_name(tryst_coll *coll)
{
    char suffix[SUBGROUP_SUFFIX_BYTES];
    char text[TRYST_COLL_NAME_MAX + SUBGROUP_SUFFIX_BYTES];
    const char *name = coll->label->string;
    coll->is_own = strncmp(name, COLL_OWN_NAMES, strlen(COLL_OWN_NAMES)) == 0;
    if (!coll->colls->host.recorder || coll->is_own)
        return;
    snprintf(text, sizeof text, "%s%s", name, subgroup_suffix(coll->subgroup, suffix));
    coll->recorder_name = recorder_name(coll->colls->host.recorder, text);
}

tryst_status coll_open(struct colls *colls, tryst_group *group,
                       const tryst_coll_params *params, tryst_coll **coll_p)
{
    const struct coll_plan *plan =
        params->subgroup ? params->subgroup->plan : coll_plan_get(colls, group);
    tryst_coll *coll = plan ? mem_zalloc(sizeof *coll) : NULL;
    if (!coll)
        return refuse_nomem(prepare_call);
    atomic_init(&coll->refs, 1);
    list_init(&coll->idle);
    coll->colls = colls;
    coll->group = group;
    coll->subgroup = subgroup_ref(params->subgroup);
    coll->size = (int32_t)plan->size;
    coll->rank = plan->rank;
    coll->is_spread = group_is_spread(group);
    coll_fill(coll, params);
    coll->label = name_key(params->name);
    tryst_status status =
        coll->label ? blocks_open(coll, params) : refuse_nomem(prepare_call);
    if (status == TRYST_OK)
        status = coll_parts_make(coll, plan);
    if (status != TRYST_OK) {
        coll_free(coll);
        return status;
    }
    coll->run_bytes = run_lay(coll, NULL);
    coll_record_name(coll);
    *coll_p = coll;
    return TRYST_OK;
}

/* ---- one-shot collectives ---------------------------------------------------------- */

static uint64_t what_hash(const tryst_group *group, const tryst_coll_params *params)
{
    struct {
        uint64_t name, count, blocks, subgroup;
        int32_t kind, reduce, dtype, root;
    } what = {hash_bytes(params->name, strlen(params->name)),
              params->count,
              0,
              (uintptr_t)params->subgroup,
              params->kind,
              params->reduce,
              params->dtype,
              params->root};
    if (coll_kind_has_blocks(params->kind))
        what.blocks = coll_blocks_hash(params, subgroup_rank_in(params->subgroup, group),
                                       subgroup_size_in(params->subgroup, group));
    return hash_bytes(&what, sizeof what);
}

static bool is_same(const tryst_coll *coll, const tryst_group *group,
                    const tryst_coll_params *params)
{
    bool root_is_same = coll->root < 0 || coll->root == params->root;
    bool dtype_is_same =
        coll->kind == TRYST_COLL_BARRIER || coll->tensor_dtype == params->dtype;
    return coll->group == group && coll->subgroup == params->subgroup &&
           coll->kind == params->kind && coll->reduce == params->reduce &&
           coll->params_count == params->count && root_is_same && dtype_is_same &&
           coll_blocks_same(&coll->in_blocks, params, false, coll->size) &&
           coll_blocks_same(&coll->out_blocks, params, true, coll->size) &&
           strcmp(coll->label->string, params->name) == 0;
}

/* Find a kept collective; the caller gets a reference. NULL: none. The caller holds
 * the lock. */
static tryst_coll *kept_get(struct colls *colls, const tryst_group *group,
                            const tryst_coll_params *params, uint64_t hash)
{
    hash_table_for_each (&colls->kept, hash, node) {
        tryst_coll *coll = container_of(node, tryst_coll, by_what);
        if (!is_same(coll, group, params))
            continue;
        list_remove(&coll->order);
        list_push_back(&colls->kept_order, &coll->order);
        coll_ref(coll);
        return coll;
    }
    return NULL;
}

/* Remove the least recently used collective of `subgroup` (NULL: of all) from the
 * table, and return it; NULL: none. The caller holds the lock. */
static tryst_coll *kept_pop_oldest(struct colls *colls, const tryst_subgroup *subgroup)
{
    list_for_each_safe (&colls->kept_order, node, after) {
        tryst_coll *coll = container_of(node, tryst_coll, order);
        if (subgroup && coll->subgroup != subgroup)
            continue;
        list_remove(node);
        hash_table_remove(&colls->kept, &coll->by_what);
        return coll;
    }
    return NULL;
}

tryst_status coll_find(struct colls *colls, tryst_group *group,
                       const tryst_coll_params *params, tryst_coll **coll_p)
{
    uint64_t hash = what_hash(group, params);
    pthread_mutex_lock(&colls->lock);
    tryst_coll *coll = kept_get(colls, group, params, hash);
    pthread_mutex_unlock(&colls->lock);
    if (!coll) {
        tryst_status status = coll_open(colls, group, params, &coll);
        if (status != TRYST_OK)
            return status;
        coll_ref(coll); /* for the table */
        coll->is_kept = true;
        pthread_mutex_lock(&colls->lock);
        hash_table_add(&colls->kept, &coll->by_what, hash);
        list_push_back(&colls->kept_order, &coll->order);
        tryst_coll *old =
            colls->kept.count > COLLS_KEPT ? kept_pop_oldest(colls, NULL) : NULL;
        pthread_mutex_unlock(&colls->lock);
        if (old)
            coll_unref(old);
    }
    *coll_p = coll;
    return TRYST_OK;
}

void coll_kept_drop(struct colls *colls, const tryst_subgroup *subgroup)
{
    tryst_coll *coll;
    do {
        pthread_mutex_lock(&colls->lock);
        coll = kept_pop_oldest(colls, subgroup);
        pthread_mutex_unlock(&colls->lock);
        if (coll)
            coll_unref(coll);
    } while (coll);
}
