/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiled plans from plans by size; see collectives/plan/compiled.h.
 *
 * One idea: each tree is stored once, however many sizes run it; doubles become integers
 * here.
 */
#include "compiled_make.h"

#include <math.h>

#include "collectives/plan/compiled_build.h"
#include "out_rates.h"

_Static_assert(GRAPH_NONE == PLAN_NO_RANK, "parents of planned trees are copied");

/* Return the number of a tree; add the tree to plan->trees, which has room, if it is
 * new. */
static uint32_t tree_number(struct compiled_plan *plan, const struct plan_tree *tree)
{
    uint32_t n = plan->ranks_count;
    for (uint32_t t = 0; t < plan->trees_count; t++)
        if (plan->trees[t].root == tree->root &&
            plan_half_same(plan->trees[t].up.parent, tree->reduce_parent, n) &&
            plan_half_same(plan->trees[t].down.parent, tree->broadcast_parent, n))
            return t;
    plan->trees[plan->trees_count] = (struct compiled_tree){
        .root = tree->root,
        .up.parent = arrays_copy(&plan->arrays, tree->reduce_parent, n, sizeof n),
        .down.parent = arrays_copy(&plan->arrays, tree->broadcast_parent, n, sizeof n)};
    return plan->trees_count++;
}

/* Return the rate of a time per byte, between 1 byte/s and COMPILED_RATE_MOST. */
static uint64_t rate_of(double s_per_byte)
{
    double rate = s_per_byte > 0 ? 1 / s_per_byte : (double)COMPILED_RATE_MOST;
    return (uint64_t)fmin(fmax(rate, 1), (double)COMPILED_RATE_MOST);
}

static void class_make(struct compiled_plan *plan, const struct plan_size *size,
                       struct compiled_class *class)
{
    double sum = 0;
    class->bytes_max = size->bytes_max;
    class->bytes_per_s = rate_of(size->s_per_byte);
    class->slice_bytes = size->slice_bytes;
    class->parts = arrays_alloc(&plan->arrays, size->trees_count, sizeof *class->parts);
    for (uint32_t t = 0; class->parts && t < size->trees_count; t++) {
        bool last = t + 1 == size->trees_count;
        sum += size->trees[t].share;
        double cum = last ? UINT32_MAX : fmin(floor(sum * 0x1p32 + 0.5), UINT32_MAX);
        class->parts[class->parts_count++] = (struct compiled_part){
            .tree = tree_number(plan, &size->trees[t]), .cum_share = (uint32_t)cum};
    }
}

static void op_make(struct compiled_plan *plan, const struct plan_sizes *sizes,
                    struct compiled_op *op)
{
    op->op = sizes->op;
    op->classes = arrays_alloc(&plan->arrays, sizes->count, sizeof *op->classes);
    for (uint32_t s = 0; op->classes && s < sizes->count; s++)
        class_make(plan, &sizes->sizes[s], &op->classes[op->classes_count++]);
}

tryst_status compiled_plan_make(struct overlay *overlay,
                                const struct plan_sizes *const *sizes, uint32_t count,
                                const struct compiled_params *params, struct err *err,
                                struct compiled_plan **plan_p)
{
    struct compiled_plan *plan = NULL;
    uint32_t trees = 0;
    tryst_status status = compiled_plan_new(sizes[0]->ranks_count, params, &plan);
    for (uint32_t o = 0; o < count; o++)
        for (uint32_t s = 0; s < sizes[o]->count; s++)
            trees += sizes[o]->sizes[s].trees_count;
    if (status == TRYST_OK) {
        plan->bound_bytes_per_s = rate_of(sizes[0]->bound_s_per_byte);
        plan->trees = arrays_alloc(&plan->arrays, trees, sizeof *plan->trees);
        plan->ops = arrays_alloc(&plan->arrays, count, sizeof *plan->ops);
        for (uint32_t o = 0; plan->trees && plan->ops && o < count; o++)
            op_make(plan, sizes[o], &plan->ops[plan->ops_count++]);
        status = plan->arrays.status;
    }
    if (status == TRYST_OK)
        status = out_rates_find(overlay, plan->out_bytes_per_s);
    return compiled_plan_end(status, plan, err, plan_p);
}
