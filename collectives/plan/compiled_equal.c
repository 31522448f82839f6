/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compiled plan for equal links; see compiled_equal.h.
 *
 * One idea: a few shapes over the ranks in their order, chosen by size, so every rank
 * computes the same plan by itself.
 */
#include "compiled_equal.h"

#include "compiled_build.h"
#include "shapes.h"

/* Up to this many ranks, equal links get a direct exchange by one star for each rank, or
 * a ring. Both gain 1/n over a pair of trees, but in the exchange each rank has n − 1
 * peers. */
#define STARS_RANKS_MAX 16u

/* Up to this size, equal links get one binomial tree, which has few messages; a pair of
 * trees would halve slices that are short already. */
#define EQUAL_ONE_TREE_BYTES (64ul << 10)

/* The same for two ranks of one host: beyond what they exchange, two stars use both
 * processors. Measured (tests/perf/RESULTS.md): 64 KiB of plain memory in 0.69 of the
 * time, 8 KiB in 0.64. */
#define PAIR_ONE_TREE_BYTES (4ul << 10)

/* Beyond this size, ranks of one host use slices twice as large: 4 MiB in 0.91 of the
 * time. */
#define HOST_LONG_BYTES       (1ul << 20)
#define HOST_LONG_SLICE_BYTES (128u << 10)

/* Up to this size, equal links between machines get the direct exchange; beyond, a ring:
 * each rank receives from one rank alone, so no link loses packets, for 2(n − 1) hops in
 * place of two. */
#define EQUAL_DIRECT_BYTES (8ul << 20)

struct equal {
    struct compiled_plan *plan;
    uint32_t *order;
};

/* The trees of a class: `count` of the plan's trees from `first` on, with equal shares,
 * and the rate of an all-reduce. */
struct equal_set {
    uint32_t first, count;
    uint64_t bytes_per_s;
};

static uint32_t *equal_tree(struct compiled_plan *plan, uint32_t root)
{
    struct compiled_tree *tree = &plan->trees[plan->trees_count++];
    uint32_t *parent = arrays_alloc(&plan->arrays, plan->ranks_count, sizeof *parent);
    *tree =
        (struct compiled_tree){.root = root, .up.parent = parent, .down.parent = parent};
    return parent;
}

/* Make the binomial tree, which is tree 0. For one byte, its busiest link carries log2 n
 * bytes. */
static struct equal_set equal_single(struct equal *equal)
{
    uint32_t n = equal->plan->ranks_count, levels = 1;
    uint32_t *parent = equal_tree(equal->plan, 0);
    while (1ul << levels < n)
        levels++;
    if (parent)
        shape_binomial(equal->order, n, parent);
    return (struct equal_set){0, 1, COMPILED_RATE_ASSUMED / levels};
}

/* Return the rate where the busiest link carries 2(n − 1)/n bytes for one byte, which is
 * also the upper bound of any all-reduce over equal links. */
static uint64_t direct_rate(uint32_t n)
{
    return n > 1 ? COMPILED_RATE_ASSUMED * n / (2ul * (n - 1)) : COMPILED_RATE_ASSUMED;
}

/* Make a star for each rank. With two or three ranks tree 0 is also the star around rank
 * 0, and carries a share. */
static struct equal_set equal_stars(struct equal *equal)
{
    struct compiled_plan *plan = equal->plan;
    uint32_t n = plan->ranks_count, has_first = n <= 3;
    for (uint32_t k = has_first; k < n; k++) {
        uint32_t *parent = equal_tree(plan, k);
        if (parent)
            shape_star(equal->order, n, k, parent);
    }
    return (struct equal_set){!has_first, n, direct_rate(n)};
}

/* Make a pair of trees. For one byte, their busiest link carries 2 bytes. */
static struct equal_set equal_pair(struct equal *equal)
{
    struct compiled_plan *plan = equal->plan;
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t *parent = equal_tree(plan, k);
        if (parent)
            plan->trees[plan->trees_count - 1].root =
                shape_of_pair(equal->order, plan->ranks_count, k > 0, parent);
    }
    return (struct equal_set){1, 2, COMPILED_RATE_ASSUMED / 2};
}

/* Make a ring: a tree for each rank as root. */
static struct equal_set equal_ring(struct equal *equal)
{
    struct compiled_plan *plan = equal->plan;
    uint32_t n = plan->ranks_count, first = plan->trees_count;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t *up = equal_tree(plan, k);
        uint32_t *down = arrays_alloc(&plan->arrays, n, sizeof *down);
        if (!up || !down)
            continue;
        shape_ring(equal->order, n, k, up, down);
        plan->trees[plan->trees_count - 1].down.parent = down;
    }
    return (struct equal_set){first, n, direct_rate(n)};
}

/* Add the class of `set`. Where tree 0 is not in the set, it is in front with a share of
 * 0. */
static struct compiled_class *equal_class(struct compiled_plan *plan, uint64_t bytes_max,
                                          struct equal_set set)
{
    uint32_t idle = set.first > 0, all = idle + set.count;
    struct compiled_op *op = &plan->ops[0];
    struct compiled_class *class = &op->classes[op->classes_count++];
    if (op->classes_count > 1)
        class[-1].bytes_max = bytes_max;
    *class = (struct compiled_class){.bytes_max = UINT64_MAX,
                                     .bytes_per_s = set.bytes_per_s,
                                     .slice_bytes = PLAN_SLICE_BYTES};
    class->parts = arrays_alloc(&plan->arrays, all, sizeof *class->parts);
    for (uint32_t t = 0; class->parts && t < all; t++) {
        uint64_t cum = t < idle ? 0 : ((uint64_t)(t - idle + 1) << 32) / set.count;
        class->parts[class->parts_count++] = (struct compiled_part){
            .tree = t < idle ? 0 : set.first + t - idle,
            .cum_share = t + 1 == all ? UINT32_MAX : (uint32_t)cum};
    }
    return class;
}

/* Add the classes, by size: each call gives the end of the class before. */
static void equal_classes(struct equal *equal, const struct compiled_params *params)
{
    struct compiled_plan *plan = equal->plan;
    bool is_small = plan->ranks_count <= STARS_RANKS_MAX;
    bool is_pair = params->one_host && plan->ranks_count == 2;
    struct compiled_class *class = equal_class(plan, 0, equal_single(equal));
    class->flags = params->one_host ? COMPILED_EXCHANGE : 0;
    struct equal_set set = is_small ? equal_stars(equal) : equal_pair(equal);
    equal_class(plan, is_pair ? PAIR_ONE_TREE_BYTES : EQUAL_ONE_TREE_BYTES, set);
    if (params->one_host) {
        class = equal_class(plan, HOST_LONG_BYTES, set);
        class->slice_bytes = HOST_LONG_SLICE_BYTES;
    }
    if (params->apart && is_small && plan->ranks_count > 2)
        equal_class(plan, EQUAL_DIRECT_BYTES, equal_ring(equal));
}

tryst_status compiled_plan_equal(uint32_t n, const struct compiled_params *params,
                                 struct err *err, struct compiled_plan **plan_p)
{
    struct equal equal = {0};
    tryst_status status = compiled_plan_new(n, params, &equal.plan);
    struct compiled_plan *plan = equal.plan;
    if (status == TRYST_OK) {
        plan->flags = COMPILED_RATES_ASSUMED;
        plan->bound_bytes_per_s = direct_rate(n);
        plan->ops = arrays_alloc(&plan->arrays, 1, sizeof *plan->ops);
        plan->trees =
            arrays_alloc(&plan->arrays, 2 * STARS_RANKS_MAX + 1, sizeof *plan->trees);
        equal.order = arrays_alloc(&plan->arrays, n, sizeof *equal.order);
        status = plan->arrays.status;
    }
    if (status == TRYST_OK) {
        for (uint32_t i = 0; i < n; i++)
            equal.order[i] = i;
        struct compiled_op *op = &plan->ops[plan->ops_count++];
        op->op = PLAN_ALLREDUCE;
        op->classes = arrays_alloc(&plan->arrays, 3, sizeof *op->classes);
        if (op->classes)
            equal_classes(&equal, params);
        status = plan->arrays.status;
    }
    return compiled_plan_end(status, plan, err, plan_p);
}
