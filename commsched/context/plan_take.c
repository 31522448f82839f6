/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank's part of a compiled plan (plan_take.h).
 *
 * Invariant: the part is a copy, so the compiled plan may be closed.
 */
#include "plan_take.h"

#include "core/memory/alloc.h"
#include "rendezvous/op/transfer.h"

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
 * slice waits for one slice, and a paced lane has a slice's debt. */
static uint32_t slice_bytes_for(const struct compiled_plan *compiled,
                                const struct compiled_class *class)
{
    bool paced = !(compiled->flags & COMPILED_RATES_ASSUMED);
    return paced && class->slice_bytes > DISPATCH_SLICE_PACED ? DISPATCH_SLICE_PACED
                                                              : class->slice_bytes;
}

/* Add `rate` to the ranks that this rank sends to in `half`: the parent if the half
 * climbs, else the children. */
static void half_paces_add(const struct compiled_half *half, uint32_t rank, bool climbs,
                           uint64_t rate, uint64_t *paces)
{
    if (climbs && half->parent[rank] != GRAPH_NONE)
        paces[half->parent[rank]] += rate;
    for (uint32_t k = half->first[rank]; !climbs && k < half->first[rank + 1]; k++)
        paces[half->child[k]] += rate;
}

/* Compute the rate from this rank to each rank, for an all-reduce at the class's
 * planned rate. */
static const uint64_t *paces_make(struct taking *taking,
                                  const struct compiled_class *class)
{
    const struct compiled_plan *compiled = taking->compiled;
    uint64_t *paces =
        arrays_alloc(&taking->plan->arrays, compiled->ranks_count, sizeof *paces);
    uint64_t before = 0;
    for (uint32_t p = 0; paces && p < class->parts_count; p++) {
        const struct compiled_part *part = &class->parts[p];
        bool last = p + 1 == class->parts_count;
        uint64_t upto = last ? 1ull << 32 : part->cum_share;
        uint64_t rate = compiled_share_of(class->bytes_per_s, upto - before);
        const struct compiled_tree *tree = &compiled->trees[part->tree];
        half_paces_add(&tree->up, taking->rank, true, rate, paces);
        half_paces_add(&tree->down, taking->rank, false, rate, paces);
        before = upto;
    }
    return paces;
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
        out->slice_bytes = slice_bytes_for(taking->compiled, class);
        out->bytes_per_s = coll->bound_bytes_per_s ? class->bytes_per_s : 0;
        if (!(taking->compiled->flags & COMPILED_RATES_ASSUMED))
            out->paces_bytes_per_s = paces_make(taking, class);
        out->trees = arrays_alloc(arrays, class->parts_count, sizeof *out->trees);
        for (uint32_t p = 0; out->trees && p < class->parts_count; p++)
            tree_part_copy(taking, &class->parts[p], &out->trees[out->trees_count++]);
    }
}

/* Copy the pairs from this rank or to this rank. */
static void rank_pairs_copy(struct taking *taking)
{
    const struct compiled_plan *from = taking->compiled;
    struct group_plan *plan = taking->plan;
    uint32_t count = 0;
    for (uint32_t k = 0; k < from->pairs_count; k++)
        count += from->pairs[k].from == taking->rank || from->pairs[k].to == taking->rank;
    struct compiled_pair *pairs = arrays_alloc(&plan->arrays, count, sizeof *pairs);
    for (uint32_t k = 0; pairs && k < from->pairs_count; k++)
        if (from->pairs[k].from == taking->rank || from->pairs[k].to == taking->rank)
            pairs[plan->pairs_count++] = from->pairs[k];
    plan->pairs = pairs;
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
    if (taking.parents) {
        classes_copy(&taking, op);
        rank_pairs_copy(&taking);
    }
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

uint64_t group_plan_pace(const struct group_plan *plan, uint32_t rank)
{
    uint64_t most = 0;
    for (uint32_t c = 0; c < plan->coll.classes_count; c++) {
        const uint64_t *paces = plan->coll.classes[c].paces_bytes_per_s;
        most = paces && paces[rank] > most ? paces[rank] : most;
    }
    return most;
}

void group_plan_close(struct group_plan *plan)
{
    if (plan)
        arrays_free(&plan->arrays);
    mem_free(plan);
}
