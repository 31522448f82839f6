/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of a subgroup (contract.h).
 *
 * Idea: each tree of the group is contracted: the parent of a member is its nearest
 * ancestor among the members. So members that are near in the tree stay near, and every
 * member computes the same trees from the plan that all ranks have agreed on: nothing is
 * sent, and nothing is rounded. A tree with a root outside the subgroup falls into
 * pieces; the root of the first piece becomes the parent of the other pieces' roots. A
 * class leaves out such trees if another of its trees has a member as root. Tree 0 stays
 * in every class, since every collective uses its edges, with a share of zero in such a
 * class.
 *
 * Invariant: the trees span the members; tree 0 has the same edges in every class, as in
 * the group's plan.
 */
#include "contract.h"

#include <stdbool.h>

#include "core/memory/alloc.h"
#include "map.h"

struct contraction {
    const struct coll_plan *from;
    const int32_t *members;
    uint32_t count;
    uint32_t rank;
    int32_t *positions; /**< by rank of the group: position in `members`, or -1 */
    int32_t *left;      /**< unused memory for parents and children */
};

/* ---- one half of a tree ------------------------------------------------------------ */

/* Return the position of the nearest ancestor among the members; -1: none. */
static int32_t parent_find(const struct contraction *c, const int32_t *parents,
                           uint32_t position)
{
    int32_t at = parents[c->members[position]];
    while (at >= 0 && c->positions[at] < 0)
        at = parents[at];
    return at < 0 ? -1 : c->positions[at];
}

/* Contract one half, up or down, of a tree into `out`. Returns the root. */
static int32_t half_contract(struct contraction *c, const int32_t *parents, int32_t *out)
{
    int32_t root = -1;
    for (uint32_t position = 0; position < c->count; position++) {
        out[position] = parent_find(c, parents, position);
        if (out[position] >= 0)
            continue;
        out[position] = root;
        root = root < 0 ? (int32_t)position : root;
    }
    return root;
}

/* Write the children of this rank to `left`. Returns their number. */
static uint32_t children_write(struct contraction *c, const int32_t *parents)
{
    uint32_t children = 0;
    for (uint32_t position = 0; position < c->count; position++)
        if (parents[position] == (int32_t)c->rank)
            c->left[children++] = (int32_t)position;
    return children;
}

static int32_t *ints_alloc(struct contraction *c, uint32_t count)
{
    int32_t *taken = c->left;
    c->left += count;
    return taken;
}

/* ---- trees and classes ------------------------------------------------------------- */

static void tree_contract(struct contraction *c, const struct coll_tree_plan *from,
                          struct coll_tree_plan *out)
{
    bool is_whole = c->positions[from->root] >= 0;
    int32_t *up = ints_alloc(c, c->count), *down = up;
    out->root = half_contract(c, from->up_parents, up);
    /* If the root is not a member, the pieces of the two halves may have different roots,
     * so the contracted up half serves both. */
    if (is_whole) {
        down = ints_alloc(c, c->count);
        (void)half_contract(c, from->down_parents, down);
    }
    out->up_parents = up;
    out->down_parents = down;
    out->up_parent = up[c->rank];
    out->down_parent = down[c->rank];
    out->up_children = c->left;
    out->up_children_count = children_write(c, up);
    (void)ints_alloc(c, out->up_children_count);
    out->down_children = c->left;
    out->down_children_count = children_write(c, down);
    (void)ints_alloc(c, out->down_children_count);
}

/* Return the sum of the shares of the trees that are rooted at a member of the
 * subgroup. */
static uint64_t rooted_share(const struct contraction *c, const struct coll_class *class)
{
    uint64_t sum = 0;
    for (uint32_t t = 0; t < class->trees_count; t++)
        if (c->positions[class->trees[t].root] >= 0)
            sum += coll_share_of(class, t);
    return sum;
}

static void class_contract(struct contraction *c, const struct coll_class *from,
                           struct coll_class *out)
{
    uint64_t rooted = rooted_share(c, from), sum = 0;
    uint64_t whole = rooted ? rooted : UINT64_C(1) << 32;
    for (uint32_t t = 0; t < from->trees_count; t++) {
        bool counts = !rooted || c->positions[from->trees[t].root] >= 0;
        if (t && !counts)
            continue;
        sum += counts ? coll_share_of(from, t) : 0;
        struct coll_tree_plan *tree = &out->trees[out->trees_count++];
        tree_contract(c, &from->trees[t], tree);
        tree->cum_share = sum == whole ? UINT32_MAX : (uint32_t)((sum << 32) / whole);
    }
    out->bytes_max = from->bytes_max;
    out->slice_bytes = from->slice_bytes;
    out->exchange = from->exchange;
}

/* ---- the plan ---------------------------------------------------------------------- */

static void plan_fill(struct contraction *c, struct coll_plan *plan,
                      struct coll_tree_plan *trees)
{
    plan->size = c->count;
    plan->rank = (int32_t)c->rank;
    plan->digest = c->from->digest;
    plan->classes_count = c->from->classes_count;
    for (uint32_t i = 0; i < plan->classes_count; i++) {
        plan->classes[i].trees = trees;
        class_contract(c, &c->from->classes[i], &plan->classes[i]);
        trees += plan->classes[i].trees_count;
    }
}

static uint32_t trees_count(const struct coll_plan *plan)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->classes_count; i++)
        count += plan->classes[i].trees_count;
    return count;
}

/* Return the most integers of a tree: in both halves the parents of all members, and
 * the children of this rank. */
static size_t tree_ints(uint32_t count)
{
    return 4 * (size_t)count;
}

struct coll_plan *coll_plan_contract(const struct coll_plan *plan, const int32_t *members,
                                     uint32_t count, uint32_t rank)
{
    uint32_t trees = trees_count(plan);
    size_t trees_at =
        sizeof(struct coll_plan) + plan->classes_count * sizeof(struct coll_class);
    size_t ints_at = trees_at + trees * sizeof(struct coll_tree_plan);
    char *block = mem_zalloc(ints_at + trees * tree_ints(count) * sizeof(int32_t));
    int32_t *positions = mem_alloc(plan->size * sizeof *positions);
    if (!block || !positions) {
        mem_free(block);
        mem_free(positions);
        return NULL;
    }
    struct contraction c = {.from = plan,
                            .members = members,
                            .count = count,
                            .rank = rank,
                            .positions = positions,
                            .left = (int32_t *)(void *)(block + ints_at)};
    for (uint32_t i = 0; i < plan->size; i++)
        positions[i] = -1;
    for (uint32_t i = 0; i < count; i++)
        positions[members[i]] = (int32_t)i;
    struct coll_plan *out = (struct coll_plan *)(void *)block;
    out->classes = (struct coll_class *)(void *)(out + 1);
    plan_fill(&c, out, (struct coll_tree_plan *)(void *)(block + trees_at));
    mem_free(positions);
    return out;
}
