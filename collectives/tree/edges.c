/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Neighbours in a tree, and a plan of binary trees (edges.h).
 *
 * Invariant: the results of two neighbours agree: for every root, a is a child of b
 * exactly if b is the parent of a.
 */
#include "edges.h"

#include <string.h>

#include "core/memory/alloc.h"

/* ---- neighbours -------------------------------------------------------------------- */

uint32_t coll_edges_max(const struct coll_tree_plan *tree)
{
    uint32_t up = tree->up_children_count, down = tree->down_children_count;
    return (up > down ? up : down) + 1;
}

/* Return the child of `rank` on the path down to `root`; -1: `root` is not below
 * `rank`. */
static int32_t step_towards(const int32_t *parents, int32_t rank, int32_t root)
{
    int32_t at = root;
    while (at >= 0 && parents[at] != rank)
        at = parents[at];
    return at;
}

void coll_edges_find(const struct coll_plan *plan, const struct coll_tree_plan *tree,
                     bool up, int32_t root, struct coll_edges *edges)
{
    const int32_t *children = up ? tree->up_children : tree->down_children;
    uint32_t count = up ? tree->up_children_count : tree->down_children_count;
    int32_t parent = up ? tree->up_parent : tree->down_parent;
    /* True if this rank is on the path between the two roots. */
    bool is_above = root >= 0 && root != tree->root;
    int32_t towards = -1;
    if (is_above && root != plan->rank)
        towards =
            step_towards(up ? tree->up_parents : tree->down_parents, plan->rank, root);
    is_above = is_above && (towards >= 0 || root == plan->rank);
    edges->children_count = 0;
    for (uint32_t i = 0; i < count; i++)
        if (children[i] != towards)
            edges->children[edges->children_count++] = children[i];
    if (is_above && parent >= 0)
        edges->children[edges->children_count++] = parent;
    edges->parent = is_above ? towards : parent;
}

void coll_parents_find(const struct coll_plan *plan, const struct coll_tree_plan *tree,
                       bool up, int32_t root, int32_t *parents)
{
    const int32_t *planned = up ? tree->up_parents : tree->down_parents;
    memcpy(parents, planned, plan->size * sizeof *parents);
    /* On the path from the new root to the plan's root, the parent of each rank is the
     * rank below it. */
    for (int32_t at = root, below = -1; at >= 0; below = at, at = planned[at])
        parents[at] = below;
}

/* ---- binary trees ------------------------------------------------------------------ */

enum { SIMPLE_TREES = 2, SIMPLE_CLASSES = 2 };
#define SIMPLE_SMALL_BYTES (64u << 10)
#define SIMPLE_SLICE_BYTES (256u << 10)

struct simple_plan {
    struct coll_plan plan;
    struct coll_class classes[SIMPLE_CLASSES];
    struct coll_tree_plan trees[SIMPLE_TREES];
    int32_t children[SIMPLE_TREES][2];
    int32_t parents[]; /* SIMPLE_TREES arrays of `size` parents */
};

/* Return the number of a rank in a tree. The root has number 0: rank 0 in tree 0, the
 * last rank in tree 1, so most ranks are leaves of one tree. The same function turns
 * a number back into a rank. */
static uint32_t simple_number(uint32_t size, uint32_t tree, uint32_t rank)
{
    return tree ? size - 1 - rank : rank;
}

static void simple_tree_fill(struct simple_plan *simple, uint32_t at)
{
    uint32_t size = simple->plan.size;
    struct coll_tree_plan *tree = &simple->trees[at];
    int32_t *parents = simple->parents + (size_t)at * size;
    for (uint32_t number = 0; number < size; number++)
        parents[simple_number(size, at, number)] =
            number ? (int32_t)simple_number(size, at, (number - 1) / 2) : -1;
    uint32_t own = simple_number(size, at, (uint32_t)simple->plan.rank);
    for (uint64_t number = 2 * (uint64_t)own + 1; number <= 2 * (uint64_t)own + 2;
         number++)
        if (number < size)
            simple->children[at][tree->up_children_count++] =
                (int32_t)simple_number(size, at, (uint32_t)number);
    tree->down_children_count = tree->up_children_count;
    tree->up_children = tree->down_children = simple->children[at];
    tree->up_parents = tree->down_parents = parents;
    tree->up_parent = tree->down_parent = parents[simple->plan.rank];
    tree->root = (int32_t)simple_number(size, at, 0);
    tree->cum_share = at + 1 == SIMPLE_TREES ? UINT32_MAX : UINT32_MAX / SIMPLE_TREES;
}

struct coll_plan *coll_plan_make(uint32_t size, int32_t rank)
{
    struct simple_plan *simple =
        mem_zalloc(sizeof *simple + SIMPLE_TREES * size * sizeof(int32_t));
    if (!simple)
        return NULL;
    simple->plan = (struct coll_plan){.size = size,
                                      .rank = rank,
                                      .classes_count = SIMPLE_CLASSES,
                                      .classes = simple->classes};
    for (uint32_t i = 0; i < SIMPLE_TREES; i++)
        simple_tree_fill(simple, i);
    simple->classes[0] = (struct coll_class){.bytes_max = SIMPLE_SMALL_BYTES,
                                             .slice_bytes = SIMPLE_SMALL_BYTES,
                                             .trees_count = 1,
                                             .trees = simple->trees};
    simple->classes[1] = (struct coll_class){.bytes_max = UINT64_MAX,
                                             .slice_bytes = SIMPLE_SLICE_BYTES,
                                             .trees_count = SIMPLE_TREES,
                                             .trees = simple->trees};
    return &simple->plan;
}
