/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of the cheapest arborescence, for checking; see cheapest_tree.h. The solver
 * uses its own code (plan/arborescence.c).
 *
 * One idea (Edmonds 1967, in the dense form of Tarjan 1977): each rank except the root
 * must be entered, so the cheapest edge into a rank is paid in any case, and its cost is
 * subtracted from all edges into the rank. Where the paid edges form a cycle, the cycle
 * is merged ("molten") into one rank. The sum of what was subtracted is the cost.
 * A walk follows the paid edges backwards until it meets itself, and merges that cycle:
 * 2n iterations of n steps each. At the end all ranks are one set. The cost from a root
 * is the sum over the sets that do not contain the root.
 */
#include "cheapest_tree.h"

#include <math.h>
#include <string.h>

#include "topology/base/graph.h"

/* States of a rank; MOLTEN: merged into another one. */
enum { FREE, ON_WALK, MOLTEN };

struct melt {
    double *in; /* in[v × n + u]: what remains of the cost of u → v */
    uint32_t n;
    uint32_t *state, *walk;
    uint32_t walk_count;
};

static void melt_begin(struct melt *melt, const double *cost, bool inwards)
{
    size_t n = melt->n;
    for (size_t v = 0; v < n; v++)
        for (size_t u = 0; u < n; u++)
            melt->in[v * n + u] = inwards ? cost[v * n + u] : cost[u * n + v];
    for (size_t v = 0; v < n; v++)
        melt->state[v] = FREE;
}

static uint32_t cheapest_in(const struct melt *melt, uint32_t v)
{
    const double *in = melt->in + (size_t)v * melt->n;
    uint32_t best = v;
    for (uint32_t u = 0; u < melt->n; u++)
        if (u != v && melt->state[u] != MOLTEN && (best == v || in[u] < in[best]))
            best = u;
    return best;
}

/* Merge b into a. */
static void melt_two(struct melt *melt, uint32_t a, uint32_t b)
{
    size_t n = melt->n;
    double *into_a = melt->in + a * n;
    const double *into_b = melt->in + b * n;
    melt->state[b] = MOLTEN;
    for (size_t u = 0; u < n; u++)
        into_a[u] = fmin(into_a[u], into_b[u]);
    for (size_t v = 0; v < n; v++)
        melt->in[v * n + a] = fmin(melt->in[v * n + a], melt->in[v * n + b]);
}

/* Sets of ranks by number: the ranks themselves, then the cycles in the order in which
 * they were merged. What was subtracted from the edges into a set is paid by each root
 * outside the set, and by no root inside. */
struct sets {
    uint32_t *of;     /* by live rank: its set */
    uint32_t *around; /* by set: the set it was merged into; GRAPH_NONE: the last set */
    double *paid;     /* by set: what was subtracted from the edges into the set */
    uint32_t count;
};

static void circle_melt(struct melt *melt, struct sets *sets, uint32_t u)
{
    uint32_t circle = sets->count++;
    while (melt->walk[melt->walk_count - 1] != u) {
        uint32_t w = melt->walk[--melt->walk_count];
        sets->around[sets->of[w]] = circle;
        melt_two(melt, u, w);
    }
    melt->walk_count--;
    sets->around[sets->of[u]] = circle;
    sets->of[u] = circle;
    sets->around[circle] = GRAPH_NONE;
    sets->paid[circle] = 0;
}

/* Walk backwards until all ranks are one set. Returns false if no edge enters some
 * set. */
static bool melt_all(struct melt *melt, struct sets *sets)
{
    uint32_t v = 0, live = melt->n;
    while (live > 1) {
        melt->walk[melt->walk_count++] = v;
        melt->state[v] = ON_WALK;
        uint32_t u = cheapest_in(melt, v);
        double least = melt->in[(size_t)v * melt->n + u];
        if (u == v || !isfinite(least))
            return false;
        sets->paid[sets->of[v]] = least;
        for (uint32_t w = 0; w < melt->n; w++)
            melt->in[(size_t)v * melt->n + w] -= least;
        if (melt->state[u] == ON_WALK) {
            uint32_t walked = melt->walk_count;
            circle_melt(melt, sets, u);
            live -= walked - melt->walk_count - 1;
        }
        v = u;
    }
    return true;
}

bool cheapest_tree_costs(const double *cost, uint32_t n, bool inwards, double *scratch,
                         uint32_t *numbers, double *sums, double *costs_p)
{
    struct melt melt = {
        .in = scratch, .n = n, .state = numbers, .walk = numbers + n, .walk_count = 0};
    struct sets sets = {
        .of = numbers + 2ul * n, .around = numbers + 3ul * n, .paid = sums, .count = n};
    double all = 0;
    melt_begin(&melt, cost, inwards);
    for (uint32_t v = 0; v < n; v++) {
        sets.of[v] = v;
        sets.around[v] = GRAPH_NONE;
        sets.paid[v] = 0;
    }
    if (!melt_all(&melt, &sets))
        return false;
    for (uint32_t s = 0; s < sets.count; s++)
        all += sets.paid[s];
    for (uint32_t s = sets.count;
         s-- > 0;) /* outermost set first: add what is paid around s */
        if (sets.around[s] != GRAPH_NONE)
            sets.paid[s] += sets.paid[sets.around[s]];
    for (uint32_t r = 0; r < n; r++)
        costs_p[r] = all - sets.paid[r];
    return true;
}
