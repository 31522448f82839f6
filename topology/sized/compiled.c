/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiled plans in memory: look-up, order of children, rates of pairs; see compiled.h.
 *
 * Invariant: all computations use integers, and no result depends on the order in which
 * qsort puts equal items.
 */
#include "compiled.h"

#include <stdlib.h>
#include <string.h>

#include "compiled_own.h"

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

static int pair_order(const void *a, const void *b)
{
    const struct compiled_pair *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

const struct compiled_pair *compiled_plan_pair(const struct compiled_plan *plan,
                                               uint32_t from, uint32_t to)
{
    struct compiled_pair key = {.from = from, .to = to};
    return plan->pairs_count
               ? bsearch(&key, plan->pairs, plan->pairs_count, sizeof key, pair_order)
               : NULL;
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
        for (uint32_t at = i; at != GRAPH_NONE; at = parent[at], height++) {
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
        if (half->parent[i] != GRAPH_NONE)
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

tryst_status compiled_half_order(struct arrays *arrays, uint32_t n,
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
            if (parent != GRAPH_NONE)
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

/* ---- pairs ------------------------------------------------------------------------- */

/* One edge of one class. */
struct edge {
    uint32_t from, to;
    uint32_t rank; /* its class: by operation, the largest first */
    uint64_t share, bytes_per_s;
};

static int edge_order(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static size_t half_edges(const struct compiled_half *half, uint32_t n, bool up,
                         const struct edge *like, struct edge *edges)
{
    size_t count = 0;
    for (uint32_t i = 0; half->parent && i < n; i++) {
        if (half->parent[i] == GRAPH_NONE)
            continue;
        edges[count] = *like;
        edges[count].from = up ? i : half->parent[i];
        edges[count++].to = up ? half->parent[i] : i;
    }
    return count;
}

static size_t class_edges(const struct compiled_plan *plan,
                          const struct compiled_class *class, uint32_t rank,
                          struct edge *edges)
{
    struct edge like = {.rank = rank, .bytes_per_s = class->bytes_per_s};
    uint32_t before = 0;
    size_t count = 0;
    for (uint32_t p = 0; p < class->parts_count; p++) {
        const struct compiled_tree *tree = &plan->trees[class->parts[p].tree];
        bool last = p + 1 == class->parts_count;
        like.share = (uint64_t) class->parts[p].cum_share + last - before;
        before = class->parts[p].cum_share;
        count += half_edges(&tree->up, plan->ranks_count, true, &like, edges + count);
        count += half_edges(&tree->down, plan->ranks_count, false, &like, edges + count);
    }
    return count;
}

static size_t edges_room(const struct compiled_plan *plan)
{
    size_t room = 0;
    for (uint32_t o = 0; o < plan->ops_count; o++)
        for (uint32_t c = 0; c < plan->ops[o].classes_count; c++)
            room += 2ul * plan->ops[o].classes[c].parts_count * plan->ranks_count;
    return room;
}

static size_t edges_collect(const struct compiled_plan *plan, struct edge *edges)
{
    size_t count = 0;
    for (uint32_t o = 0; o < plan->ops_count; o++)
        for (uint32_t c = plan->ops[o].classes_count; c-- > 0;)
            count +=
                class_edges(plan, &plan->ops[o].classes[c],
                            plan->ops[o].classes_count - 1 - c + 1000 * o, edges + count);
    return count;
}

/* Return the rate of the edges first … end - 1, all of one pair, in the first class in
 * which they carry data; 1 if they carry none. */
static uint64_t edges_rate(const struct edge *edges, size_t first, size_t end)
{
    for (size_t k = first; k < end;) {
        uint32_t rank = edges[k].rank;
        uint64_t share = 0, bytes_per_s = edges[k].bytes_per_s;
        for (; k < end && edges[k].rank == rank; k++)
            share += edges[k].share;
        uint64_t rate = compiled_share_of(bytes_per_s, share);
        if (rate > 0)
            return rate;
    }
    return 1;
}

tryst_status compiled_pairs_make(struct compiled_plan *plan)
{
    struct arrays scratch = {0};
    struct edge *edges = arrays_alloc(&scratch, edges_room(plan) + 1, sizeof *edges);
    size_t count = edges ? edges_collect(plan, edges) : 0;
    if (edges)
        qsort(edges, count, sizeof *edges, edge_order);
    plan->pairs = arrays_alloc(&plan->arrays, count + 1, sizeof *plan->pairs);
    for (size_t k = 0, end; plan->pairs && edges && k < count; k = end) {
        end = k + 1;
        while (end < count && edges[end].from == edges[k].from &&
               edges[end].to == edges[k].to)
            end++;
        plan->pairs[plan->pairs_count++] =
            (struct compiled_pair){.from = edges[k].from,
                                   .to = edges[k].to,
                                   .latency_ns = COMPILED_LATENCY_UNKNOWN,
                                   .bytes_per_s = edges_rate(edges, k, end)};
    }
    arrays_free(&scratch);
    return scratch.status ? scratch.status : plan->arrays.status;
}
