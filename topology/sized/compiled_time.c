/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Predicted times of a compiled plan; see compiled_time.h.
 *
 * One idea: a class converts to a plan_size, which plan_size_time prices.
 */
#include "compiled_time.h"

static const struct compiled_class *class_of(const struct compiled_op *op, uint64_t bytes)
{
    uint32_t c = 0;
    while (op->classes[c].bytes_max < bytes)
        c++;
    return &op->classes[c];
}

static void trees_of(const struct compiled_plan *plan, const struct compiled_class *class,
                     struct plan_tree *trees)
{
    uint64_t before = 0;
    for (uint32_t p = 0; p < class->parts_count; p++) {
        const struct compiled_tree *tree = &plan->trees[class->parts[p].tree];
        bool last = p + 1 == class->parts_count;
        uint64_t upto = last ? 1ull << 32 : class->parts[p].cum_share;
        trees[p] = (struct plan_tree){.share = (double)(upto - before) / 0x1p32,
                                      .root = tree->root,
                                      .broadcast_parent = tree->down.parent,
                                      .reduce_parent = tree->up.parent};
        before = upto;
    }
}

tryst_status compiled_plan_times(const struct compiled_plan *plan,
                                 struct overlay *overlay, double sum_bytes_per_s,
                                 double times_s[PLAN_SIZES])
{
    const struct compiled_op *op = compiled_plan_op(plan, PLAN_ALLREDUCE);
    struct arrays arrays = {0};
    struct plan_tree *trees = arrays_alloc(&arrays, plan->trees_count, sizeof *trees);
    struct tree_costing costing;
    tryst_status status = tree_costing_init(&costing, overlay, PLAN_ALLREDUCE,
                                            plan->trees_count, sum_bytes_per_s);
    if (!status)
        status = arrays.status;
    for (uint32_t s = 0; !status && s < PLAN_SIZES; s++) {
        const struct compiled_class *class = class_of(op, plan_size_steps[s].bytes);
        trees_of(plan, class, trees);
        const struct plan_size size = {.bytes = plan_size_steps[s].bytes,
                                       .slice_bytes = class->slice_bytes,
                                       .trees_count = class->parts_count,
                                       .trees = trees};
        times_s[s] = plan_size_time(&costing, &size);
    }
    tree_costing_free(&costing);
    arrays_free(&arrays);
    return status;
}
