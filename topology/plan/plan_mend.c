/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repair of a previous plan's trees for a network in which links are gone or slower.
 *
 * One idea: a tree that crosses a missing or slow link lacks one good edge. That edge is
 * removed, and the part below it joins the rest by the cheapest other edge, at prices
 * that grow with each row's load. The share moved to the new tree is what the busiest row
 * has too much, limited by the room of the other rows, so each move relieves the busiest
 * row. (The exchange of one edge is the oldest step on spanning trees: Kruskal 1956; here
 * it saves the oracle and the LP.)
 * Invariant: the shares of a group keep summing to 1; the results are trees, and their
 * time is computed as for any other tree. Effort is counted, not timed.
 */
#include "plan_mend.h"

#include <math.h>
#include <string.h>

#include "topology/routes/overlay_price.h"

#define NONE GRAPH_NONE
/* Price of a row that carries nothing, so that a shorter route is cheaper. */
#define IDLE 1e-4
/* Sum of ranks² over all tries: tens of milliseconds at n = 64. */
#define TRY_WORK 2e6
/* A smaller share is not moved. */
#define SHARE_MIN 1e-9

struct mend {
    struct arrays arrays;
    struct plan_work *work;
    /* By row: the time; what moving one unit of share would add. */
    double *value, *change;
    double *price, *load;       /* by link */
    uint32_t *full, full_count; /* the links of the row to relieve */
    /* By rank below the cut: the cost of reversing the edges from the rank up to the
     * cut. */
    double *turn;
    uint32_t *below;     /* the ranks below the cut, the cut itself first */
    bool *is_below;      /* by rank */
    uint32_t *down, *up; /* the tree being mended */
    /* Time at which the busiest row needs no relief; its present time; work left, in
     * ranks². */
    double enough, longest, work_left;
};

static tryst_status mend_init(struct mend *mend, struct plan_work *work, double gap)
{
    size_t n = work->ranks;
    *mend = (struct mend){.work = work, .work_left = TRY_WORK};
    mend->enough = work->bound / (1 - gap);
    mend->value = arrays_alloc(&mend->arrays, work->rows, sizeof *mend->value);
    mend->change = arrays_alloc(&mend->arrays, work->rows, sizeof *mend->change);
    mend->price = arrays_alloc(&mend->arrays, work->links, sizeof *mend->price);
    mend->load = arrays_alloc(&mend->arrays, work->links, sizeof *mend->load);
    mend->full = arrays_alloc(&mend->arrays, work->links, sizeof *mend->full);
    mend->turn = arrays_alloc(&mend->arrays, n, sizeof *mend->turn);
    mend->below = arrays_alloc(&mend->arrays, n, sizeof *mend->below);
    mend->is_below = arrays_alloc(&mend->arrays, n, sizeof *mend->is_below);
    mend->down = arrays_alloc(&mend->arrays, n, sizeof *mend->down);
    mend->up = arrays_alloc(&mend->arrays, n, sizeof *mend->up);
    return mend->arrays.status;
}

/* Compute the rows' times, and the costs of all edges at prices (time ÷ longest time) to
 * the eighth. */
static void times_price(struct mend *mend)
{
    struct plan_work *work = mend->work;
    mend->longest = plan_work_time(work, mend->value);
    for (uint32_t i = 0; i < work->links; i++) {
        double power =
            mend->longest > 0 ? mend->value[work->link_row[i]] / mend->longest : 0;
        power *= power;
        power *= power;
        mend->price[i] = (power * power + IDLE) / work->overlay->capacity[i];
    }
    overlay_costs(work->overlay, mend->price, work->cost);
}

/* --- one tree ----------------------------------------------------------------------- */

/* Return the cost of the edge between `above` and `rank`: downwards in an out-tree,
 * upwards in an in-tree. */
static double edge_cost(const struct mend *mend, uint32_t above, uint32_t rank, bool down)
{
    size_t n = mend->work->ranks;
    return mend->work->cost[down ? above * n + rank : rank * n + above];
}

/* List the ranks of the subtree at `cut`, from its top, and the cost of reversing the
 * edges from each up to `cut`. Returns how many ranks. */
static uint32_t below_find(struct mend *mend, const uint32_t *parent, uint32_t cut,
                           bool down)
{
    uint32_t n = mend->work->ranks, count = 1;
    memset(mend->is_below, 0, n * sizeof *mend->is_below);
    mend->below[0] = cut;
    mend->is_below[cut] = true;
    mend->turn[cut] = 0;
    for (uint32_t k = 0; k < count; k++) {
        uint32_t at = mend->below[k];
        for (uint32_t i = 0; i < n; i++) {
            if (parent[i] != at || mend->is_below[i])
                continue;
            double was = edge_cost(mend, at, i, down);
            mend->turn[i] =
                mend->turn[at] + edge_cost(mend, i, at, down) - (isfinite(was) ? was : 0);
            mend->is_below[i] = true;
            mend->below[count++] = i;
        }
    }
    return count;
}

/* Replace the edge above `cut` by the cheapest other edge between the rest and the
 * subtree, and re-root the subtree at that edge. Returns false without another edge. */
static bool part_rejoin(struct mend *mend, uint32_t *parent, uint32_t cut, bool down)
{
    uint32_t n = mend->work->ranks, top = NONE, above = NONE;
    uint32_t count = below_find(mend, parent, cut, down);
    double least = INFINITY;
    mend->work_left -= (double)count * n;
    for (uint32_t k = 0; k < count; k++) {
        uint32_t rank = mend->below[k];
        for (uint32_t i = 0; i < n; i++) {
            if (mend->is_below[i] || (rank == cut && i == parent[cut]))
                continue;
            double cost = edge_cost(mend, i, rank, down) + mend->turn[rank];
            if (cost < least) {
                least = cost;
                top = rank;
                above = i;
            }
        }
    }
    if (top == NONE)
        return false;
    for (uint32_t at = top;;) {
        uint32_t next = parent[at];
        parent[at] = above;
        if (at == cut)
            return true;
        above = at;
        at = next;
    }
}

/* Replace each edge that the overlay no longer has. Returns false if one cannot be
 * replaced. */
static bool half_repair(struct mend *mend, uint32_t *parent, bool down)
{
    uint32_t n = mend->work->ranks;
    for (uint32_t i = 0; i < n; i++)
        if (parent[i] < n && !isfinite(edge_cost(mend, parent[i], i, down)) &&
            !part_rejoin(mend, parent, i, down))
            return false;
    return true;
}

/* True if the edge above `rank` loads one of the full links. Only these items of `load`
 * are reset and read. */
static bool edge_is_full(struct mend *mend, uint32_t above, uint32_t rank, bool down)
{
    for (uint32_t k = 0; k < mend->full_count; k++)
        mend->load[mend->full[k]] = 0;
    overlay_load(mend->work->overlay, down ? above : rank, down ? rank : above, 1,
                 mend->load);
    for (uint32_t k = 0; k < mend->full_count; k++)
        if (mend->load[mend->full[k]] > 0)
            return true;
    return false;
}

/* Replace each edge that loads a full link. Returns true if an edge was replaced. */
static bool half_relieve(struct mend *mend, uint32_t *parent, bool down)
{
    bool changed = false;
    for (uint32_t i = 0; i < mend->work->ranks; i++)
        if (parent[i] != NONE && edge_is_full(mend, parent[i], i, down))
            changed |= part_rejoin(mend, parent, i, down);
    return changed;
}

/* --- the previous plan's trees ------------------------------------------------------ */

static void tree_load(struct mend *mend, const uint32_t *down, const uint32_t *up)
{
    size_t bytes = mend->work->ranks * sizeof *mend->down;
    if (down)
        memcpy(mend->down, down, bytes);
    if (up)
        memcpy(mend->up, up, bytes);
}

/* Put one of the previous plan's trees into the pool, repaired where needed. `*column_p`
 * is NONE if the tree cannot be repaired. */
static tryst_status tree_repair_add(struct mend *mend, const struct plan_tree *tree,
                                    uint32_t *column_p)
{
    struct plan_work *work = mend->work;
    const uint32_t *down = tree->broadcast_parent, *up = tree->reduce_parent;
    bool one =
        work->mirrored && down && up && !memcmp(down, up, work->ranks * sizeof *down);
    *column_p = NONE;
    tree_load(mend, down, up);
    if ((down && !half_repair(mend, mend->down, true)) ||
        (up && !one && !half_repair(mend, mend->up, false)))
        return TRYST_OK;
    tryst_status status = plan_work_add(work, tree->root, down ? mend->down : NULL,
                                        one  ? mend->down
                                        : up ? mend->up
                                             : NULL,
                                        column_p);
    if (status == TRYST_E_INVALID)
        *column_p = NONE;
    return status == TRYST_E_INVALID ? TRYST_OK : status;
}

static void shares_scale(struct plan_work *work, double *sum)
{
    for (uint32_t i = 0; i < work->columns_count; i++)
        sum[work->columns[i].group] += work->columns[i].share;
    for (uint32_t i = 0; i < work->columns_count; i++)
        if (sum[work->columns[i].group] > 0)
            work->columns[i].share /= sum[work->columns[i].group];
}

/* Put all trees into the pool: intact ones first, so that the prices at which the others
 * are repaired include their loads. */
static tryst_status trees_repair_add(struct mend *mend, const struct plan *before)
{
    struct plan_work *work = mend->work;
    double *sum = arrays_alloc(&mend->arrays, work->groups, sizeof *sum);
    bool *taken = arrays_alloc(&mend->arrays, before->trees_count, sizeof *taken);
    tryst_status status = mend->arrays.status;
    for (int repair = 0; repair < 2 && !status; repair++)
        for (uint32_t i = 0; i < before->trees_count && !status; i++) {
            const struct plan_tree *tree = &before->trees[i];
            uint32_t column = NONE;
            if (taken[i])
                continue;
            if (repair) {
                times_price(mend);
                status = tree_repair_add(mend, tree, &column);
            } else if (plan_work_add(work, tree->root, tree->broadcast_parent,
                                     tree->reduce_parent, &column) == TRYST_E_NOMEM) {
                status = TRYST_E_NOMEM;
            }
            taken[i] = !status && column != NONE;
            if (taken[i])
                work->columns[column].share += tree->share;
        }
    if (!status)
        shares_scale(work, sum);
    return status;
}

/* --- relief of the busiest row ------------------------------------------------------ */

/* Return the share to move from one tree to the other: what relieves `row` to `enough`,
 * limited by the room of the other rows. */
static double move_size(struct mend *mend, uint32_t from, uint32_t to, uint32_t row)
{
    const struct plan_column *a = &mend->work->columns[from];
    const struct plan_column *b = &mend->work->columns[to];
    double size = a->share;
    for (uint32_t k = 0; k < a->values_count; k++)
        mend->change[a->rows[k]] -= a->values[k];
    for (uint32_t k = 0; k < b->values_count; k++)
        mend->change[b->rows[k]] += b->values[k];
    size = mend->change[row] < 0
               ? fmin(size, (mend->enough - mend->value[row]) / mend->change[row])
               : 0;
    for (uint32_t k = 0; k < b->values_count; k++) {
        uint32_t i = b->rows[k];
        if (mend->change[i] > 0)
            size = fmin(size, (mend->enough - mend->value[i]) / mend->change[i]);
    }
    for (uint32_t k = 0; k < a->values_count; k++)
        mend->change[a->rows[k]] = 0;
    for (uint32_t k = 0; k < b->values_count; k++)
        mend->change[b->rows[k]] = 0;
    return size;
}

/* Move share from a tree that loads `row` to a copy of the tree in which the edges over
 * `row` are replaced. Sets *moved_p if share was moved. */
static tryst_status column_relieve(struct mend *mend, uint32_t from, uint32_t row,
                                   bool *moved_p)
{
    struct plan_work *work = mend->work;
    const struct plan_column *column = &work->columns[from];
    bool one = column->up == column->down, changed = false;
    uint32_t to, root = column->root;
    tree_load(mend, column->down, one ? NULL : column->up);
    if (column->down)
        changed |= half_relieve(mend, mend->down, true);
    if (column->up && !one)
        changed |= half_relieve(mend, mend->up, false);
    if (!changed)
        return TRYST_OK;
    tryst_status status = plan_work_add(work, root, column->down ? mend->down : NULL,
                                        one          ? mend->down
                                        : column->up ? mend->up
                                                     : NULL,
                                        &to);
    if (status)
        return status == TRYST_E_INVALID ? TRYST_OK : status;
    double size = to == from ? 0 : move_size(mend, from, to, row);
    if (size > SHARE_MIN) {
        work->columns[to].share += size;
        work->columns[from].share = fmax(work->columns[from].share - size, 0);
        *moved_p = true;
    }
    return TRYST_OK;
}

/* Find the busiest row and list its links in `full`. */
static uint32_t longest_row(struct mend *mend)
{
    uint32_t row = 0;
    for (uint32_t i = 1; i < mend->work->rows; i++)
        if (mend->value[i] > mend->value[row])
            row = i;
    mend->full_count = 0;
    for (uint32_t i = 0; i < mend->work->links; i++)
        if (mend->work->link_row[i] == row)
            mend->full[mend->full_count++] = i;
    return row;
}

static bool column_loads(const struct plan_column *column, uint32_t row)
{
    for (uint32_t k = 0; k < column->values_count; k++)
        if (column->rows[k] == row)
            return true;
    return false;
}

/* Relieve the busiest row until its time is at most `enough`, no tree on it can move
 * share, or the work is used up. */
static tryst_status rows_relieve(struct mend *mend)
{
    struct plan_work *work = mend->work;
    for (bool moved = true; moved;) {
        times_price(mend);
        if (mend->longest <= mend->enough)
            return TRYST_OK;
        uint32_t row = longest_row(mend), count = work->columns_count;
        moved = false;
        for (uint32_t i = 0; i < count && !moved; i++) {
            if (!(work->columns[i].share > 0) || !column_loads(&work->columns[i], row))
                continue;
            if (mend->work_left < 0 || plan_work_late(work))
                return TRYST_OK;
            mend->work_left -= (double)work->ranks * work->ranks;
            tryst_status status = column_relieve(mend, i, row, &moved);
            if (status)
                return status;
        }
    }
    return TRYST_OK;
}

tryst_status plan_mend(struct plan_work *work, const struct plan *before, double gap)
{
    struct mend mend;
    tryst_status status = mend_init(&mend, work, gap);
    if (!status)
        status = trees_repair_add(&mend, before);
    if (!status && work->rows > 0)
        status = rows_relieve(&mend);
    arrays_free(&mend.arrays);
    return status;
}
