/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shallower trees for the same time.
 *
 * One idea: a solver ignores depth, so most trees are deeper than the links require. The
 * deepest tree loses a level: each rank at its bottom, or an ancestor of it, moves to a
 * parent nearer to the root. Of such parents, the chosen one leaves the busiest link of
 * the move least busy; no link may take longer than `limit`. If one rank of the bottom
 * cannot move, the tree is restored.
 * Invariants: shares do not change. No link's time rises above `limit`. Each lost level
 * lowers a tree's depth, so the loop ends. A move replaces one edge of an in-tree, of an
 * out-tree, or of both where both halves are one tree, so all operations are treated
 * alike.
 */
#include "plan_shallow.h"

#include <math.h>
#include <string.h>

#include "topology/routes/overlay_price.h"

#define NONE GRAPH_NONE
/* Links examined in all: a tenth of a second; counted, so that plans repeat. */
#define LINK_WORK 1e8

enum { DOWN, UP, HALVES };

struct lifted {
    uint32_t column; /* the tree's column in the pool */
    double share;
    double unit; /* bytes over each edge of the tree per byte of the tensor */
    /* Copies of the column's parents; NULL: the operation lacks this half, or this half
     * is UP and equals DOWN. */
    uint32_t *parent[HALVES];
    uint32_t depth;
    bool both; /* DOWN serves as UP too */
    /* The tree has lost a level; the tree cannot lose another level. */
    bool changed, done;
};

struct lifting {
    struct arrays arrays;
    struct plan_work *work;
    double limit, work_left;
    double *used;        /* by link: an upper bound of its time, scaled as rows are */
    double *used_before; /* `used` before this level, to restore */
    /* By link: change in bytes if the old edge is removed; if the new edge replaces the
     * old one. */
    double *without, *moved;
    /* By rank: the parents before this level, to restore; depths. */
    uint32_t *parent_before, *depth;
    struct lifted *trees;
    uint32_t count;
};

/* ---- edges and loads --------------------------------------------------------------- */

static void edge_put(const struct lifting *lifting, const struct lifted *tree, int half,
                     uint32_t parent, uint32_t child, double amount, double *load)
{
    if (half == DOWN)
        overlay_load(lifting->work->overlay, parent, child, amount, load);
    if (half == UP || tree->both)
        overlay_load(lifting->work->overlay, child, parent, amount, load);
}

static bool edge_exists(const struct lifting *lifting, const struct lifted *tree,
                        int half, uint32_t parent, uint32_t child)
{
    const double *cost = lifting->work->cost;
    size_t n = lifting->work->ranks;
    return (half == UP || isfinite(cost[parent * n + child])) &&
           ((half == DOWN && !tree->both) || isfinite(cost[child * n + parent]));
}

static double busy_of(const struct lifting *lifting, uint32_t link, double bytes)
{
    return bytes / lifting->work->overlay->capacity[link] * lifting->work->scale;
}

static void lifted_tree_add(struct lifting *lifting, uint32_t column)
{
    struct plan_work *work = lifting->work;
    const struct plan_column *from = &work->columns[column];
    struct lifted *tree = &lifting->trees[lifting->count++];
    size_t n = work->ranks;
    bool both = from->up == from->down;
    *tree = (struct lifted){
        .column = column,
        .share = from->share,
        .unit = from->share * work->weight,
        .parent = {arrays_copy(&lifting->arrays, from->down, n, sizeof *from->down),
                   arrays_copy(&lifting->arrays, both ? NULL : from->up, n,
                               sizeof *from->up)},
        .depth = from->depth,
        .both = both};
}

static tryst_status lifting_init(struct lifting *lifting, struct plan_work *work,
                                 double limit)
{
    size_t n = work->ranks, links = work->links;
    *lifting = (struct lifting){.work = work, .limit = limit, .work_left = LINK_WORK};
    lifting->used = arrays_alloc(&lifting->arrays, links, sizeof(double));
    lifting->used_before = arrays_alloc(&lifting->arrays, links, sizeof(double));
    lifting->without = arrays_alloc(&lifting->arrays, links, sizeof(double));
    lifting->moved = arrays_alloc(&lifting->arrays, links, sizeof(double));
    lifting->parent_before = arrays_alloc(&lifting->arrays, n, sizeof(uint32_t));
    lifting->depth = arrays_alloc(&lifting->arrays, n, sizeof(uint32_t));
    lifting->trees =
        arrays_alloc(&lifting->arrays, plan_work_used(work), sizeof *lifting->trees);
    if (lifting->arrays.status)
        return TRYST_E_NOMEM;
    for (uint32_t i = 0; i < work->columns_count; i++)
        if (work->columns[i].share > 0)
            lifted_tree_add(lifting, i);
    plan_work_time(work, work->row_value);
    for (uint32_t i = 0; i < work->links; i++)
        lifting->used[i] = work->row_value[work->link_row[i]];
    return lifting->arrays.status;
}

/* ---- a move ------------------------------------------------------------------------ */

/* Find the depths of all ranks. Returns the greatest. */
static uint32_t depths_find(struct lifting *lifting, const uint32_t *parent)
{
    uint32_t n = lifting->work->ranks, *depth = lifting->depth, deepest = 0;
    memset(depth, 0xff, n * sizeof *depth);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t steps = 0, at = i;
        for (; depth[at] == NONE && parent[at] != NONE; at = parent[at])
            steps++;
        uint32_t below = steps + (depth[at] == NONE ? 0 : depth[at]);
        deepest = below > deepest ? below : deepest;
        for (at = i; depth[at] == NONE; at = parent[at]) {
            depth[at] = below--;
            if (parent[at] == NONE)
                break;
        }
    }
    return deepest;
}

/* Return the time of the busiest link of the move; INFINITY if the time exceeds the limit
 * or the overlay lacks the edge. */
static double move_peak(struct lifting *lifting, const struct lifted *tree, int half,
                        uint32_t child, uint32_t to)
{
    double peak = 0;
    uint32_t links = lifting->work->links;
    lifting->work_left -= links;
    if (!edge_exists(lifting, tree, half, to, child))
        return INFINITY;
    memcpy(lifting->moved, lifting->without, links * sizeof *lifting->moved);
    edge_put(lifting, tree, half, to, child, tree->unit, lifting->moved);
    for (uint32_t i = 0; i < links; i++) {
        if (!(lifting->moved[i] > 0))
            continue;
        double busy = lifting->used[i] + busy_of(lifting, i, lifting->moved[i]);
        if (busy > lifting->limit)
            return INFINITY;
        peak = busy > peak ? busy : peak;
    }
    return peak;
}

static void move_make(struct lifting *lifting, const struct lifted *tree, int half,
                      uint32_t child, uint32_t to)
{
    memcpy(lifting->moved, lifting->without, lifting->work->links * sizeof(double));
    edge_put(lifting, tree, half, to, child, tree->unit, lifting->moved);
    for (uint32_t i = 0; i < lifting->work->links; i++)
        lifting->used[i] += busy_of(lifting, i, lifting->moved[i]);
    tree->parent[half][child] = to;
}

/* Move `child` to the best parent at least two levels above it. Returns false if there is
 * none. */
static bool child_lift(struct lifting *lifting, const struct lifted *tree, int half,
                       uint32_t child)
{
    uint32_t best = NONE, *depth = lifting->depth;
    double least = INFINITY;
    memset(lifting->without, 0, lifting->work->links * sizeof(double));
    edge_put(lifting, tree, half, tree->parent[half][child], child, -tree->unit,
             lifting->without);
    for (uint32_t to = 0; to < lifting->work->ranks; to++) {
        if (depth[to] + 1 >= depth[child])
            continue;
        double peak = move_peak(lifting, tree, half, child, to);
        if (peak < least) {
            least = peak;
            best = to;
        }
    }
    if (best != NONE)
        move_make(lifting, tree, half, child, best);
    return best != NONE;
}

/* Move the rank itself or its nearest movable ancestor. Returns false if none can
 * move. */
static bool rank_lift(struct lifting *lifting, const struct lifted *tree, int half,
                      uint32_t rank)
{
    for (uint32_t at = rank; lifting->depth[at] >= 2; at = tree->parent[half][at]) {
        if (lifting->work_left < 0)
            return false;
        if (child_lift(lifting, tree, half, at))
            return true;
    }
    return false;
}

/* ---- levels ------------------------------------------------------------------------ */

/* Move all ranks of the tree's lowest level up, or restore this half. Returns false if it
 * was restored. */
static bool level_drop(struct lifting *lifting, struct lifted *tree, int half)
{
    uint32_t n = lifting->work->ranks, *parent = tree->parent[half];
    size_t links_bytes = lifting->work->links * sizeof *lifting->used;
    uint32_t deepest = depths_find(lifting, parent);
    if (deepest < tree->depth)
        return true; /* only the other half has this level */
    memcpy(lifting->parent_before, parent, n * sizeof *parent);
    memcpy(lifting->used_before, lifting->used, links_bytes);
    for (uint32_t i = 0; i < n; i++) {
        if (lifting->depth[i] < deepest)
            continue;
        if (!rank_lift(lifting, tree, half, i)) {
            memcpy(parent, lifting->parent_before, n * sizeof *parent);
            memcpy(lifting->used, lifting->used_before, links_bytes);
            return false;
        }
        depths_find(lifting, parent);
    }
    tree->changed = true;
    return true;
}

/* Find the deepest tree that may still lose a level; NULL if there is none. */
static struct lifted *deepest_find(struct lifting *lifting)
{
    struct lifted *deepest = NULL;
    for (uint32_t t = 0; t < lifting->count; t++) {
        struct lifted *tree = &lifting->trees[t];
        if (!tree->done && tree->depth > 1 && (!deepest || tree->depth > deepest->depth))
            deepest = tree;
    }
    return deepest;
}

static void trees_lift(struct lifting *lifting)
{
    struct lifted *tree;
    while (lifting->work_left > 0 && (tree = deepest_find(lifting))) {
        for (int half = 0; half < HALVES && !tree->done; half++)
            if (tree->parent[half])
                tree->done = !level_drop(lifting, tree, half);
        tree->depth -= !tree->done;
    }
}

/* Put the changed trees into the pool with the shares of their old columns, which lose
 * theirs. If the pool already has the changed tree, its share there grows. */
static tryst_status trees_hand_in(struct lifting *lifting)
{
    struct plan_work *work = lifting->work;
    for (uint32_t t = 0; t < lifting->count; t++)
        if (lifting->trees[t].changed)
            work->columns[lifting->trees[t].column].share = 0;
    for (uint32_t t = 0; t < lifting->count; t++) {
        const struct lifted *tree = &lifting->trees[t];
        uint32_t column, root = work->columns[tree->column].root;
        if (!tree->changed)
            continue;
        const uint32_t *down = work->has_down ? tree->parent[DOWN] : NULL;
        const uint32_t *up = tree->both ? down : tree->parent[UP];
        tryst_status status = plan_work_add(work, root, down, up, &column);
        if (status)
            return status;
        work->columns[column].share += tree->share;
    }
    return TRYST_OK;
}

tryst_status plan_shallow(struct plan_work *work, double limit)
{
    struct lifting lifting;
    tryst_status status = lifting_init(&lifting, work, limit);
    if (!status) {
        trees_lift(&lifting);
        status = trees_hand_in(&lifting);
    }
    arrays_free(&lifting.arrays);
    return status;
}
