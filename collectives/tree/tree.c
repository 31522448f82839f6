/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counters of one tree at one rank (tree.h).
 *
 * Invariant: for each child added <= granted <= slices_announced (a borrowing child 0:
 * slices), granted <= limit and granted - added <= COLL_GRANTS_MAX; `added` of a child is
 * at most `added` of the child before, and of the first child at most `own`, which is at
 * most `fetched`.
 */
#include "tree.h"

#include <assert.h>
#include <string.h>

void coll_tree_reset(struct coll_tree *tree)
{
    for (uint32_t c = 0; c < tree->children_count; c++) {
        struct coll_child *child = &tree->children[c];
        child->slices_announced = child->granted = child->added = 0;
        child->landed = 0;
    }
    if (tree->arrived_bits)
        memset(tree->arrived_bits, 0, ((size_t)tree->slices + 63) / 64 * 8);
    tree->own = tree->owns ? 0 : tree->fetched;
    tree->finished = tree->sent = tree->arrived = 0;
}

void coll_tree_fetched(struct coll_tree *tree, uint32_t slices)
{
    assert(slices >= tree->fetched && slices <= tree->slices);
    tree->fetched = slices;
    if (!tree->owns)
        tree->own = slices;
}

/* Return how many slices were added in the step before `child` in the order of
 * addition. */
static uint32_t added_before(const struct coll_tree *tree, uint32_t child)
{
    return child ? tree->children[child - 1].added : tree->own;
}

uint32_t coll_tree_ready_up(const struct coll_tree *tree)
{
    return added_before(tree, tree->children_count);
}

uint32_t coll_tree_ready_down(const struct coll_tree *tree)
{
    if (!tree->is_root)
        return tree->arrived;
    return tree->finishes ? tree->finished : coll_tree_ready_up(tree);
}

uint32_t coll_tree_passed(const struct coll_tree *tree)
{
    return tree->is_root ? coll_tree_ready_up(tree) : tree->sent;
}

bool coll_tree_is_done(const struct coll_tree *tree)
{
    return coll_tree_ready_up(tree) == tree->slices &&
           (!tree->finishes || tree->finished == tree->slices);
}

/* ---- up: from the children --------------------------------------------------------- */

/* Return how many slices were granted in the step before `child` in the order of
 * addition. */
static uint32_t granted_before(const struct coll_tree *tree, uint32_t child)
{
    return child ? tree->children[child - 1].granted : tree->own;
}

/* True if the lead and the number of grants allow `child` one more. */
static bool has_room(const struct coll_tree *tree, uint32_t child)
{
    const struct coll_child *from = &tree->children[child];
    return from->granted < granted_before(tree, child) && from->granted < tree->limit &&
           from->granted - from->added < COLL_GRANTS_MAX;
}

bool coll_tree_may_grant(const struct coll_tree *tree, uint32_t child)
{
    const struct coll_child *from = &tree->children[child];
    return from->granted < from->slices_announced && has_room(tree, child);
}

/* True if slice `index` of the child is here, and not added. */
static bool is_here(const struct coll_child *from, uint32_t index)
{
    return index < from->granted && from->landed >> index % COLL_GRANTS_MAX & 1;
}

bool coll_tree_may_borrow(const struct coll_tree *tree, uint32_t child)
{
    const struct coll_child *from = &tree->children[child];
    if (!child)
        return has_room(tree, child);
    return coll_tree_may_grant(tree, child) &&
           (from->granted < from[-1].added || is_here(&from[-1], from->granted));
}

void coll_tree_grant(struct coll_tree *tree, uint32_t child, void *buffer)
{
    struct coll_child *from = &tree->children[child];
    assert(buffer ? coll_tree_may_grant(tree, child) : coll_tree_may_borrow(tree, child));
    from->buffers[from->granted % COLL_GRANTS_MAX] = buffer;
    from->granted++;
}

void coll_tree_landed(struct coll_tree *tree, uint32_t child, uint32_t index)
{
    struct coll_child *from = &tree->children[child];
    assert(index - from->added < from->granted - from->added);
    from->landed |= UINT64_C(1) << index % COLL_GRANTS_MAX;
}

void coll_tree_taken(struct coll_tree *tree, uint32_t child, void *payload)
{
    struct coll_child *from = &tree->children[child];
    assert(tree->slices == 1 && from->granted == 0);
    from->slices_announced = from->granted = 1;
    from->landed = 1;
    from->buffers[0] = payload;
}

/* True if the next slice of `child` has landed and is next in the order of addition. */
static bool child_is_due(const struct coll_tree *tree, uint32_t child)
{
    const struct coll_child *from = &tree->children[child];
    return from->added < added_before(tree, child) && is_here(from, from->added);
}

bool coll_tree_next(const struct coll_tree *tree, struct coll_unit *unit_p)
{
    if (tree->finishes && tree->finished < coll_tree_ready_up(tree)) {
        *unit_p = (struct coll_unit){.work = COLL_FINISH, .index = tree->finished};
        return true;
    }
    for (uint32_t c = tree->children_count; c-- > 0;) {
        const struct coll_child *from = &tree->children[c];
        if (!child_is_due(tree, c))
            continue;
        *unit_p = (struct coll_unit){COLL_ADD, c, from->added,
                                     from->buffers[from->added % COLL_GRANTS_MAX]};
        return true;
    }
    if (tree->own == tree->fetched)
        return false;
    *unit_p = (struct coll_unit){.work = COLL_OWN, .index = tree->own};
    return true;
}

void coll_tree_advance(struct coll_tree *tree, const struct coll_unit *unit)
{
    struct coll_child *from = &tree->children[unit->child];
    switch (unit->work) {
    case COLL_OWN: tree->own++; break;
    case COLL_FINISH: tree->finished++; break;
    case COLL_ADD:
        assert(unit->index == from->added);
        from->landed &= ~(UINT64_C(1) << unit->index % COLL_GRANTS_MAX);
        from->added++;
        break;
    }
}

/* ---- up: to the parent, and down --------------------------------------------------- */

void coll_tree_sent(struct coll_tree *tree, uint32_t index)
{
    assert(index == tree->sent);
    tree->sent = index + 1;
}

bool coll_tree_may_place(const struct coll_tree *tree, uint32_t index)
{
    return !tree->reuses || index < tree->sent;
}

void coll_tree_arrived(struct coll_tree *tree, uint32_t index)
{
    uint64_t *bits = tree->arrived_bits;
    bits[index / 64] |= UINT64_C(1) << index % 64;
    while (tree->arrived < tree->slices &&
           bits[tree->arrived / 64] >> tree->arrived % 64 & 1)
        tree->arrived++;
}
