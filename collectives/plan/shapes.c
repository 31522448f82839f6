/* SPDX-License-Identifier: Apache-2.0 */
/* Shallow trees over an order; see shapes.h. */
#include "shapes.h"

#include "core/memory/alloc.h"
#include "plan_op.h"

/* ---- intervals --------------------------------------------------------------------- */

struct interval {
    uint32_t first, end, parent;
};

/* Cut an interval, without its first rank, into parts. Returns the number of parts. */
static uint32_t interval_cut(const uint32_t *order, const struct interval *whole,
                             uint32_t degree, struct interval *parts)
{
    uint32_t rest = whole->end - whole->first - 1, first = whole->first + 1;
    uint32_t count = rest < degree ? rest : degree;
    for (uint32_t k = 0; k < count; k++) {
        uint32_t length = rest / count + (k < rest % count);
        parts[k] = (struct interval){first, first + length, order[whole->first]};
        first += length;
    }
    return count;
}

tryst_status shape_intervals(const uint32_t *order, uint32_t count, uint32_t degree,
                             uint32_t *parent)
{
    struct interval *queue = mem_alloc((count + 1) * sizeof *queue);
    uint32_t end = 1;
    if (!queue)
        return TRYST_E_NOMEM;
    queue[0] = (struct interval){0, count, PLAN_NO_RANK};
    for (uint32_t k = 0; k < end; k++) {
        struct interval whole = queue[k];
        parent[order[whole.first]] = whole.parent;
        end += interval_cut(order, &whole, degree, queue + end);
    }
    mem_free(queue);
    return TRYST_OK;
}

void shape_star(const uint32_t *order, uint32_t count, uint32_t first, uint32_t *parent)
{
    for (uint32_t k = 0; k < count; k++)
        parent[order[k]] = k == first ? PLAN_NO_RANK : order[first];
}

/* ---- by bits of positions ---------------------------------------------------------- */

void shape_binomial(const uint32_t *order, uint32_t count, uint32_t *parent)
{
    for (uint32_t v = 0; v < count; v++)
        parent[order[v]] = v ? order[v & (v - 1)] : PLAN_NO_RANK;
}

/* Return the parent's position in the first tree of a pair: position 0 is the root, odd
 * positions are leaves, and a position with k low zero bits is k levels above the
 * leaves. */
static uint32_t pair_parent(uint32_t v, uint32_t count)
{
    uint32_t bit = v & (0 - v), up = (v ^ bit) | bit << 1;
    if (v == 0)
        return PLAN_NO_RANK;
    return up >= count ? v ^ bit : up;
}

/* Return the position in the order of position v of a tree. The second tree of a pair is
 * the mirror image of the first or, for an odd count, the first moved by one position, so
 * that its leaves are the first one's inner ranks. */
static uint32_t pair_place(uint32_t v, uint32_t count, bool second)
{
    if (!second)
        return v;
    return count % 2 == 0 ? count - 1 - v : (v + 1) % count;
}

uint32_t shape_of_pair(const uint32_t *order, uint32_t count, bool second,
                       uint32_t *parent)
{
    for (uint32_t v = 0; v < count; v++) {
        uint32_t up = pair_parent(v, count);
        parent[order[pair_place(v, count, second)]] =
            up == PLAN_NO_RANK ? PLAN_NO_RANK : order[pair_place(up, count, second)];
    }
    return order[pair_place(0, count, second)];
}

void shape_ring(const uint32_t *order, uint32_t count, uint32_t first,
                uint32_t *reduce_parent, uint32_t *broadcast_parent)
{
    for (uint32_t k = 0; k < count; k++) {
        uint32_t rank = order[k], next = order[(k + 1) % count];
        reduce_parent[rank] = k == first ? PLAN_NO_RANK : next;
        broadcast_parent[next] = (k + 1) % count == first ? PLAN_NO_RANK : rank;
    }
}

uint32_t shape_depth(const uint32_t *parent, uint32_t count)
{
    uint32_t deepest = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t depth = 0;
        for (uint32_t at = i; parent[at] != PLAN_NO_RANK; at = parent[at])
            depth++;
        deepest = depth > deepest ? depth : deepest;
    }
    return deepest;
}
