/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank's part of a compiled plan (plan_take.h).
 *
 * Invariant: the part is a copy, so the compiled plan may be closed.
 */
#include "plan_take.h"

#include "commsched/sched/transfer.h"
#include "core/memory/alloc.h"

struct taking {
    const struct compiled_plan *compiled;
    struct group_plan *plan;
    uint32_t rank;
    /* By tree of the compiled plan: up parents, then down parents; NULL: not copied
     * yet. */
    int32_t **parents;
};

/* Copy ranks. "No rank" is all ones in a compiled plan, which is -1 here. */
static const int32_t *ranks_copy(struct arrays *arrays, const uint32_t *ranks,
                                 uint32_t count)
{
    return arrays_copy(arrays, ranks, count, sizeof *ranks);
}

static const int32_t *parents_copy(struct taking *taking, uint32_t tree, bool down)
{
    const struct compiled_tree *from = &taking->compiled->trees[tree];
    int32_t **kept = &taking->parents[2 * tree + down];
    if (!*kept && down && from->down.parent == from->up.parent)
        *kept = taking->parents[2 * tree];
    if (!*kept)
        *kept =
            arrays_copy(&taking->plan->arrays, down ? from->down.parent : from->up.parent,
                        taking->compiled->ranks_count, sizeof **kept);
    return *kept;
}

static void tree_part_copy(struct taking *taking, const struct compiled_part *part,
                           struct coll_tree_plan *out)
{
    const struct compiled_tree *tree = &taking->compiled->trees[part->tree];
    const struct compiled_half *up = &tree->up, *down = &tree->down;
    struct arrays *arrays = &taking->plan->arrays;
    uint32_t rank = taking->rank;
    *out = (struct coll_tree_plan){
        .cum_share = part->cum_share,
        .root = (int32_t)tree->root,
        .up_parent = (int32_t)up->parent[rank],
        .down_parent = (int32_t)down->parent[rank],
        .up_children_count = up->first[rank + 1] - up->first[rank],
        .down_children_count = down->first[rank + 1] - down->first[rank],
        .up_parents = parents_copy(taking, part->tree, false),
        .down_parents = parents_copy(taking, part->tree, true)};
    out->up_children =
        ranks_copy(arrays, up->child + up->first[rank], out->up_children_count);
    out->down_children =
        ranks_copy(arrays, down->child + down->first[rank], out->down_children_count);
}

/* Return the slice of a class, which is small where the rates are known: an urgent
 * slice waits for one slice. */
static uint32_t slice_bytes_for(const struct compiled_plan *compiled,
                                const struct compiled_class *class)
{
    bool known = !(compiled->flags & COMPILED_RATES_ASSUMED);
    return known && class->slice_bytes > SCHED_SLICE_PLANNED ? SCHED_SLICE_PLANNED
                                                             : class->slice_bytes;
}

static void classes_copy(struct taking *taking, const struct compiled_op *op)
{
    struct arrays *arrays = &taking->plan->arrays;
    struct coll_plan *coll = &taking->plan->coll;
    coll->classes = arrays_alloc(arrays, op->classes_count, sizeof *coll->classes);
    for (uint32_t c = 0; coll->classes && c < op->classes_count; c++) {
        const struct compiled_class *class = &op->classes[c];
        struct coll_class *out = &coll->classes[coll->classes_count++];
        out->bytes_max = class->bytes_max;
        out->exchange = class->flags & COMPILED_EXCHANGE;
        out->slice_bytes = slice_bytes_for(taking->compiled, class);
        out->bytes_per_s = coll->bound_bytes_per_s ? class->bytes_per_s : 0;
        out->trees = arrays_alloc(arrays, class->parts_count, sizeof *out->trees);
        for (uint32_t p = 0; out->trees && p < class->parts_count; p++)
            tree_part_copy(taking, &class->parts[p], &out->trees[out->trees_count++]);
    }
}

static tryst_status plan_fill(const struct compiled_plan *compiled,
                              const struct compiled_op *op, struct group_plan *plan)
{
    struct arrays scratch = {0};
    struct taking taking = {.compiled = compiled,
                            .plan = plan,
                            .rank = (uint32_t)plan->coll.rank,
                            .parents = arrays_alloc(&scratch, 2ul * compiled->trees_count,
                                                    sizeof *taking.parents)};
    plan->flags = compiled->flags;
    plan->bound_bytes_per_s = compiled->bound_bytes_per_s;
    plan->out_bytes_per_s = compiled->out_bytes_per_s[plan->coll.rank];
    if (!(plan->flags & COMPILED_RATES_ASSUMED))
        plan->coll.bound_bytes_per_s = plan->bound_bytes_per_s;
    if (taking.parents)
        classes_copy(&taking, op);
    arrays_free(&scratch);
    return scratch.status ? scratch.status : plan->arrays.status;
}

tryst_status group_plan_copy(const struct compiled_plan *compiled, uint32_t rank,
                             uint64_t digest, struct group_plan **plan_p)
{
    const struct compiled_op *op = compiled_plan_op(compiled, PLAN_ALLREDUCE);
    if (!op)
        return TRYST_E_INVALID;
    struct group_plan *plan = mem_zalloc(sizeof *plan);
    if (!plan)
        return TRYST_E_NOMEM;
    plan->coll = (struct coll_plan){
        .size = compiled->ranks_count, .rank = (int32_t)rank, .digest = digest};
    tryst_status status = plan_fill(compiled, op, plan);
    if (status == TRYST_OK)
        *plan_p = plan;
    else
        group_plan_close(plan);
    return status;
}

void group_plan_close(struct group_plan *plan)
{
    if (plan)
        arrays_free(&plan->arrays);
    mem_free(plan);
}
