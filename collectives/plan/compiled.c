/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiled plans in memory: look-up, order of children, building; see compiled.h.
 *
 * Invariant: all computations use integers, and no result depends on the order in which
 * qsort puts equal items.
 */
#include "compiled.h"

#include <stdlib.h>
#include <string.h>

#include "compiled_build.h"

void compiled_plan_close(struct compiled_plan *plan)
{
    if (plan)
        arrays_free(&plan->arrays);
    mem_free(plan);
}

/* ---- finding ----------------------------------------------------------------------- */

const struct compiled_op *compiled_plan_op(const struct compiled_plan *plan,
                                           enum plan_op op)
{
    for (uint32_t k = 0; k < plan->ops_count; k++)
        if (plan->ops[k].op == (uint32_t)op)
            return &plan->ops[k];
    return NULL;
}

/* ---- children ---------------------------------------------------------------------- */

bool compiled_tree_alike(const struct compiled_tree *tree, uint32_t ranks_count)
{
    return tree->up.parent && tree->down.parent &&
           memcmp(tree->up.parent, tree->down.parent,
                  ranks_count * sizeof *tree->up.parent) == 0;
}

/* Subtree of a rank: levels below the rank; ranks of the subtree, the rank included. */
struct part {
    uint32_t height, ranks;
};

static void parts_find(const uint32_t *parent, uint32_t n, struct part *parts)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t height = 0;
        for (uint32_t at = i; at != PLAN_NO_RANK; at = parent[at], height++) {
            parts[at].ranks++;
            if (parts[at].height < height)
                parts[at].height = height;
        }
    }
}

/* Set half->first: count the children of each rank, then sum the counts. */
static void first_set(const struct compiled_half *half, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (half->parent[i] != PLAN_NO_RANK)
            half->first[half->parent[i] + 1]++;
    for (uint32_t i = 0; i < n; i++)
        half->first[i + 1] += half->first[i];
}

static tryst_status half_alloc(struct arrays *arrays, uint32_t n,
                               struct compiled_half *half)
{
    half->first = arrays_alloc(arrays, n + 1ul, sizeof *half->first);
    half->child = arrays_alloc(arrays, n, sizeof *half->child);
    return arrays->status;
}

static int number_order(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Return a rank's key in the order of addition: height, ranks, number; 21 bits each,
 * since a group has at most 2^20 ranks. */
static uint64_t part_key(const struct part *parts, uint32_t i)
{
    return (uint64_t)parts[i].height << 42 | (uint64_t)parts[i].ranks << 21 | i;
}

/* List the children of each rank in the order of addition, from half->parent. */
static tryst_status half_order(struct arrays *arrays, uint32_t n,
                               struct compiled_half *half)
{
    struct arrays scratch = {0};
    struct part *parts = arrays_alloc(&scratch, n, sizeof *parts);
    uint64_t *keys = arrays_alloc(&scratch, n, sizeof *keys);
    uint32_t *filled = arrays_alloc(&scratch, n, sizeof *filled);
    tryst_status status = scratch.status;
    if (!status)
        status = half_alloc(arrays, n, half);
    if (!status) {
        parts_find(half->parent, n, parts);
        first_set(half, n);
        for (uint32_t i = 0; i < n; i++)
            keys[i] = part_key(parts, i);
        qsort(keys, n, sizeof *keys, number_order);
        for (uint32_t k = 0; k < n; k++) {
            uint32_t i = keys[k] & 0x1fffff, parent = half->parent[i];
            if (parent != PLAN_NO_RANK)
                half->child[half->first[parent] + filled[parent]++] = i;
        }
    }
    arrays_free(&scratch);
    return status;
}

tryst_status compiled_half_reverse(struct arrays *arrays, uint32_t n,
                                   const struct compiled_half *from,
                                   struct compiled_half *half)
{
    tryst_status status = half_alloc(arrays, n, half);
    if (status)
        return status;
    memcpy(half->first, from->first, (n + 1ul) * sizeof *half->first);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = from->first[i]; k < from->first[i + 1]; k++)
            half->child[from->first[i] + from->first[i + 1] - 1 - k] = from->child[k];
    return TRYST_OK;
}

/* ---- building -------------------------------------------------------------------- */

tryst_status compiled_plan_new(uint32_t ranks_count, const struct compiled_params *params,
                               struct compiled_plan **plan_p)
{
    struct compiled_plan *plan = mem_zalloc(sizeof *plan);
    if (!plan)
        return TRYST_E_NOMEM;
    plan->epoch = params->epoch;
    plan->ranks_count = ranks_count;
    plan->members = arrays_alloc(&plan->arrays, ranks_count, sizeof *plan->members);
    for (uint32_t i = 0; plan->members && i < ranks_count; i++)
        plan->members[i] = params->members ? params->members[i] : i;
    plan->out_bytes_per_s =
        arrays_alloc(&plan->arrays, ranks_count, sizeof *plan->out_bytes_per_s);
    *plan_p = plan;
    return plan->arrays.status;
}

/* List the children of a half down that has no equal half up: the tallest subtree
 * first. */
static tryst_status down_order(struct compiled_plan *plan, struct compiled_half *down)
{
    struct compiled_half up = {.parent = down->parent};
    tryst_status status = half_order(&plan->arrays, plan->ranks_count, &up);
    return status ? status
                  : compiled_half_reverse(&plan->arrays, plan->ranks_count, &up, down);
}

static tryst_status tree_finish(struct compiled_plan *plan, struct compiled_tree *tree)
{
    tryst_status status = TRYST_OK;
    if (tree->up.parent)
        status = half_order(&plan->arrays, plan->ranks_count, &tree->up);
    if (!status && compiled_tree_alike(tree, plan->ranks_count))
        return compiled_half_reverse(&plan->arrays, plan->ranks_count, &tree->up,
                                     &tree->down);
    return !status && tree->down.parent ? down_order(plan, &tree->down) : status;
}

tryst_status compiled_plan_end(tryst_status status, struct compiled_plan *plan,
                               struct err *err, struct compiled_plan **plan_p)
{
    for (uint32_t t = 0; status == TRYST_OK && t < plan->trees_count; t++)
        status = tree_finish(plan, &plan->trees[t]);
    if (status == TRYST_OK) {
        *plan_p = plan;
        return status;
    }
    compiled_plan_close(plan);
    return err_set(err, status, "cannot compile a plan: out of memory");
}
