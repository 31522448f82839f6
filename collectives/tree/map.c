/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges and slices (map.h).
 *
 * Idea: the end of a tree's range is count * cumulative share, in 128 bits, rounded down
 * to a cache line. The next range begins at the same number, so ranges neither overlap
 * nor leave a gap.
 */
#include "map.h"

__extension__ typedef unsigned __int128 u128;

uint64_t coll_bytes(uint64_t count, size_t element_bytes)
{
    u128 bytes = (u128)count * element_bytes;
    return bytes > UINT64_MAX ? UINT64_MAX : (uint64_t)bytes;
}

const struct coll_class *coll_class_of(const struct coll_plan *plan, uint64_t bytes)
{
    uint32_t at = 0;
    while (at + 1 < plan->classes_count && bytes > plan->classes[at].bytes_max)
        at++;
    return &plan->classes[at];
}

bool coll_exchanges(const struct coll_plan *plan, const struct coll_class *class,
                    uint64_t bytes, uint64_t eager_max)
{
    bool is_small = plan->size == 2 || bytes <= COLL_EXCHANGE_BYTES_MAX;
    return class->exchange && plan->size > 1 && plan->size <= COLL_EXCHANGE_RANKS_MAX &&
           bytes <= eager_max && is_small;
}

bool coll_may_exchange(const struct coll_plan *plan)
{
    return coll_exchanges(plan, &plan->classes[0], 0, 0);
}

/* Return the first element behind the range of `tree`. */
static uint64_t range_end(const struct coll_class *class, uint32_t tree, uint64_t count,
                          size_t element_bytes)
{
    if (tree + 1 == class->trees_count)
        return count;
    uint64_t line = COLL_LINE_BYTES / element_bytes;
    uint64_t end = (uint64_t)((u128)count * class->trees[tree].cum_share >> 32);
    return end - end % line;
}

struct coll_range coll_range_of(const struct coll_class *class, uint32_t tree,
                                uint64_t count, size_t element_bytes)
{
    uint64_t begin = tree ? range_end(class, tree - 1, count, element_bytes) : 0;
    uint64_t end = range_end(class, tree, count, element_bytes);
    return (struct coll_range){begin, end - begin};
}

uint64_t coll_share_of(const struct coll_class *class, uint32_t tree)
{
    bool last = tree + 1 == class->trees_count;
    uint64_t end = last ? UINT64_C(1) << 32 : class->trees[tree].cum_share;
    return end - (tree ? class->trees[tree - 1].cum_share : 0);
}

uint32_t coll_slice_bytes(const struct coll_class *class, uint32_t tree)
{
    uint64_t most = 1, share = coll_share_of(class, tree);
    for (uint32_t t = 0; t < class->trees_count; t++)
        most = coll_share_of(class, t) > most ? coll_share_of(class, t) : most;
    uint64_t bytes = (uint64_t)((u128) class->slice_bytes * share / most);
    bytes = (bytes + COLL_LINE_BYTES - 1) / COLL_LINE_BYTES * COLL_LINE_BYTES;
    return bytes > COLL_SLICE_BYTES_MIN ? (uint32_t)bytes : COLL_SLICE_BYTES_MIN;
}

uint32_t coll_tree_of_root(const struct coll_class *class, int32_t root)
{
    uint32_t tree = 0;
    while (tree < class->trees_count &&
           (class->trees[tree].root != root || !coll_share_of(class, tree)))
        tree++;
    return tree;
}

/* Cumulative shares are rounded, so shares may differ by 1, and the last one by
 * `size`. */
bool coll_has_tree_for_each_root(const struct coll_class *class, uint32_t size)
{
    uint64_t equal = (UINT64_C(1) << 32) / size;
    for (uint32_t root = 0; root < size; root++) {
        uint32_t tree = coll_tree_of_root(class, (int32_t)root);
        if (tree == class->trees_count || coll_share_of(class, tree) + 1 < equal ||
            coll_share_of(class, tree) > equal + size)
            return false;
    }
    return true;
}

uint32_t coll_slices_of(uint64_t bytes, uint32_t slice_bytes, uint64_t eager_max)
{
    if (bytes <= eager_max || bytes == 0)
        return 1;
    uint64_t slices = bytes / slice_bytes + (bytes % slice_bytes != 0);
    return slices > COLL_SLICES_MAX ? 0 : (uint32_t)slices;
}
