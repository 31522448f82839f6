/* SPDX-License-Identifier: Apache-2.0 */
/* See coll_draw.h. */
#include "coll_draw.h"

#include <stdlib.h>
#include <string.h>

#include "api/harness.h"
#include "support/unit.h"

enum { SOME_TREES = 3 };

/* Draw a half of a tree with the root `root`; -1: any. */
static void tree_draw(struct tree_drawn *tree, int32_t root, int size, uint64_t *random)
{
    int32_t order[RANKS_MAX] = {0};
    memset(tree, 0, sizeof *tree);
    for (int i = 0; i < size; i++) {
        int at = (int)(harness_random(random) % (uint64_t)(i + 1));
        order[i] = order[at];
        order[at] = i;
    }
    for (int i = 0; i < size; i++)
        if (order[i] == root) {
            order[i] = order[0];
            order[0] = root;
        }
    tree->root = order[0];
    tree->parents[order[0]] = -1;
    for (int i = 1; i < size; i++) {
        int32_t parent = order[harness_random(random) % (uint64_t)i];
        tree->parents[order[i]] = parent;
        tree->children[parent][tree->counts[parent]++] = order[i];
    }
}

/* Draw the trees: a tree for each rank as root, in the order of ranks, or with any roots;
 * with equal halves or different ones. */
static void trees_draw(struct plan_drawn *drawn, bool each_root, int size,
                       uint64_t *random)
{
    for (int t = 0; t < TREES_MAX; t++) {
        int32_t root = each_root && t < size ? t : -1;
        tree_draw(&drawn->ups[t], root, size, random);
        if (harness_random(random) % 2)
            tree_draw(&drawn->downs[t], drawn->ups[t].root, size, random);
        else
            drawn->downs[t] = drawn->ups[t];
    }
}

/* Draw the number of a class's trees, and their shares. */
static uint32_t shares_draw(uint32_t *shares, bool each_root, int size, uint64_t *random)
{
    uint32_t trees =
        each_root ? (uint32_t)size : 1 + (uint32_t)(harness_random(random) % SOME_TREES);
    uint32_t share = 0;
    for (uint32_t t = 0; t < trees; t++) {
        if (each_root)
            share = (uint32_t)(((uint64_t)(t + 1) << 32) / trees);
        else
            share += (uint32_t)(harness_random(random) % (UINT32_MAX - share)) / 2;
        shares[t] = t + 1 == trees ? UINT32_MAX : share;
    }
    return trees;
}

static struct coll_tree_plan tree_at(const struct plan_drawn *drawn, uint32_t tree,
                                     uint32_t share, int rank)
{
    const struct tree_drawn *up = &drawn->ups[tree], *down = &drawn->downs[tree];
    return (struct coll_tree_plan){.cum_share = share,
                                   .root = up->root,
                                   .up_parent = up->parents[rank],
                                   .down_parent = down->parents[rank],
                                   .up_children_count = up->counts[rank],
                                   .down_children_count = down->counts[rank],
                                   .up_children = up->children[rank],
                                   .down_children = down->children[rank],
                                   .up_parents = up->parents,
                                   .down_parents = down->parents};
}

void plan_draw(struct plan_drawn *drawn, int size, uint64_t seed)
{
    static const uint32_t slices[] = {4096, 8192, 65536, 16448};
    uint64_t random = seed | 1;
    uint32_t shares[CLASSES][TREES_MAX], slice[CLASSES], trees[CLASSES];
    bool each_root = harness_random(&random) % 3 == 0;
    bool exchange = harness_random(&random) % 2;
    trees_draw(drawn, each_root, size, &random);
    for (int c = 0; c < CLASSES; c++) {
        slice[c] = slices[harness_random(&random) % COUNT_OF(slices)];
        trees[c] = shares_draw(shares[c], each_root, size, &random);
    }
    for (int rank = 0; rank < size; rank++) {
        drawn->plans[rank] = (struct coll_plan){.size = (uint32_t)size,
                                                .rank = rank,
                                                .classes_count = CLASSES,
                                                .classes = drawn->classes[rank]};
        for (int c = 0; c < CLASSES; c++) {
            drawn->classes[rank][c] =
                (struct coll_class){.bytes_max = c ? UINT64_MAX : 50000,
                                    .slice_bytes = slice[c],
                                    .exchange = exchange && !c,
                                    .trees_count = trees[c],
                                    .trees = drawn->parts[rank][c]};
            for (uint32_t t = 0; t < trees[c]; t++)
                drawn->parts[rank][c][t] = tree_at(drawn, t, shares[c][t], rank);
        }
    }
}

void terms_fill(const struct terms_drawn *terms, int rank, char *data)
{
    uint64_t random = (terms->seed + (uint64_t)rank * 977) | 1;
    for (uint64_t i = 0; i < terms->count; i++) {
        uint64_t bits = harness_random(&random);
        uint16_t half = (uint16_t)((bits & 0x8fff) | (12 + (bits >> 20) % 4) << 10);
        uint16_t brain = (uint16_t)((bits & 0x807f) | (124 + (bits >> 20) % 6) << 7);
        float single = (float)((int64_t)(bits % 2000001) - 1000000) / 977.0f;
        double full = (double)((int64_t)(bits % 2000001) - 1000000) / 977.0;
        const void *from = &bits;
        from = terms->dtype == TRYST_DTYPE_F16 ? &half : from;
        from = terms->dtype == TRYST_DTYPE_BF16 ? &brain : from;
        from = terms->dtype == TRYST_DTYPE_F32 ? (const void *)&single : from;
        from = terms->dtype == TRYST_DTYPE_F64 ? (const void *)&full : from;
        memcpy(data + i * terms->element_bytes, from, terms->element_bytes);
    }
}

double terms_factor(int rank)
{
    return 0.5 + rank * 0.3;
}

/* Write the term of a rank in a range. */
static void term_write(const struct terms_drawn *terms, int rank, struct coll_range range,
                       char *const *own, char *term)
{
    const char *from = own[rank] + range.begin * terms->element_bytes;
    if (terms->reduce == TRYST_REDUCE_PREMULTIPLIED_SUM)
        terms->kernel->scale(term, from, range.count, terms_factor(rank));
    else
        memcpy(term, from, range.count * terms->element_bytes);
}

/* Fold the terms of all ranks, in their order. */
static void terms_exchange(const struct terms_drawn *terms, uint32_t size,
                           struct coll_range range, char *const *own, char *sum)
{
    char *term = malloc(range.count * terms->element_bytes + 1);
    term_write(terms, 0, range, own, sum);
    for (uint32_t rank = 1; rank < size; rank++) {
        term_write(terms, (int)rank, range, own, term);
        terms->kernel->reduce(sum, sum, term, range.count);
    }
    free(term);
}

void terms_fold(const struct plan_drawn *drawn, const struct terms_drawn *terms,
                const struct coll_tree_plan *tree, int root, int rank,
                struct coll_range range, char *const *own, char *sum)
{
    int32_t children[RANKS_MAX + 1];
    struct coll_edges edges = {.children = children};
    size_t bytes = range.count * terms->element_bytes;
    size_t at = (size_t)(tree - drawn->parts[0][0]);
    if (root < 0 && rank == tree->root &&
        coll_exchanges(&drawn->plans[0], &drawn->classes[0][at / TREES_MAX],
                       terms->count * terms->element_bytes, drawn->eager_max)) {
        terms_exchange(terms, drawn->plans[0].size, range, own, sum);
        return;
    }
    coll_edges_find(&drawn->plans[rank],
                    &drawn->parts[rank][at / TREES_MAX][at % TREES_MAX], true, root,
                    &edges);
    term_write(terms, rank, range, own, sum);
    char *below = malloc(bytes + 1);
    for (uint32_t c = 0; c < edges.children_count; c++) {
        terms_fold(drawn, terms, tree, root, children[c], range, own, below);
        terms->kernel->reduce(sum, sum, below, range.count);
    }
    free(below);
}
