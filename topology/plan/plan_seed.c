/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Few, shallow trees, built greedily instead of solved for.
 *
 * One idea: an optimal plan uses only trees that are cheapest at the prices that prove
 * the bound. Many trees are cheapest, so the shallow ones are chosen. K trees of equal
 * shares are grown one after the other, each from the rank with the most spare capacity.
 * Of equally cheap edges, the one from the shallowest parent with room for a child is
 * taken, and of equal children the one with the most room. A rank's room is the spare
 * capacity of the link that all its edges share, less what the rank needs as a leaf of
 * the later trees. K rises until the time of K trees is at most `time_enough`.
 * Invariant: the heuristics affect quality only: each result is a tree, and its time is
 * computed as for any other tree.
 */
#include "plan_seed.h"

#include <math.h>
#include <string.h>

#include "topology/routes/overlay_price.h"

#define NONE GRAPH_NONE
/* Edges of a rank that are sampled to find the link that all its edges share. */
#define SAMPLES 8
/* Strain of one level of depth, as a part of the strain of the cheapest edge. An edge's
 * strain is its cost at prices that rise with the loads of the set's trees. */
#define LEVEL 0.25
/* Sets of up to this many trees replace a smaller set if they halve its depth. */
#define EXTRA_MAX 16
/* Levels of strain added to a rank without room for children, so that others join
 * first. */
#define LEAF 4.0
/* Strain of a link that carries nothing yet. */
#define NEAR 0.05
/* Edges examined in all: about a second; counted, so that plans repeat. */
#define EDGE_WORK 2e8

/* The link that all edges of a rank share, in one direction. */
struct access {
    uint32_t row;
    double value; /* load of the row by one unit over an edge; 0: the link is missing */
};

struct seed {
    struct arrays arrays;
    struct plan_work *work;
    struct access *out, *in; /* by rank */
    /* Ranks × ranks: costs of edges at the prices that proved the bound; costs at prices
     * from the loads of the set's trees. */
    double *cost, *strain;
    double *used;           /* by row: load of the set's trees */
    double *row_price;      /* scratch by row */
    double time, work_left; /* time to reach; edges that may still be examined */
    /* By rank: parent in the tree; depth (NONE: not in the tree yet); best parent for a
     * rank that is not in the tree, or NONE. */
    uint32_t *parent, *depth, *best;
    uint32_t *open, open_count; /* ranks in the tree with room for a child */
    double *room; /* by rank: children that the rank may still take in this tree */
    double tie;   /* costs that differ by less count as equal */
    double level; /* strain of one level of depth */
};

/* Find the rank's access link: of the rows that every sampled edge of `rank` loads, the
 * one loaded most. */
static struct access access_find(struct plan_work *work, uint32_t rank, bool out,
                                 double *least)
{
    uint32_t n = work->ranks;
    struct access found = {0, 0};
    for (uint32_t s = 0; s < SAMPLES; s++) {
        uint32_t other = (uint32_t)((rank + 1 + (uint64_t)s * (n - 1) / SAMPLES) % n);
        size_t at = out ? (size_t)rank * n + other : (size_t)other * n + rank;
        memset(work->load, 0, work->links * sizeof *work->load);
        if (isfinite(work->cost[at]))
            overlay_load(work->overlay, out ? rank : other, out ? other : rank, 1,
                         work->load);
        for (uint32_t i = 0; i < work->links; i++) {
            double value = work->load[i] / work->overlay->capacity[i] * work->scale;
            least[i] = s == 0 ? value : fmin(least[i], value);
        }
    }
    for (uint32_t i = 0; i < work->links; i++)
        if (least[i] > found.value)
            found = (struct access){work->link_row[i], least[i]};
    return found;
}

static tryst_status seed_init(struct seed *seed, struct plan_work *work)
{
    size_t n = work->ranks;
    *seed = (struct seed){.work = work, .work_left = EDGE_WORK};
    seed->out = arrays_alloc(&seed->arrays, n, sizeof *seed->out);
    seed->in = arrays_alloc(&seed->arrays, n, sizeof *seed->in);
    seed->cost = arrays_alloc(&seed->arrays, n * n, sizeof *seed->cost);
    seed->strain = arrays_alloc(&seed->arrays, n * n, sizeof *seed->strain);
    seed->used = arrays_alloc(&seed->arrays, work->links, sizeof *seed->used);
    seed->row_price = arrays_alloc(&seed->arrays, work->links, sizeof *seed->row_price);
    seed->parent = arrays_alloc(&seed->arrays, n, sizeof *seed->parent);
    seed->depth = arrays_alloc(&seed->arrays, n, sizeof *seed->depth);
    seed->best = arrays_alloc(&seed->arrays, n, sizeof *seed->best);
    seed->open = arrays_alloc(&seed->arrays, n, sizeof *seed->open);
    seed->room = arrays_alloc(&seed->arrays, n, sizeof *seed->room);
    if (seed->arrays.status)
        return TRYST_E_NOMEM;
    for (uint32_t i = 0; i < n && n > 1; i++) {
        seed->out[i] = access_find(work, i, true, seed->row_price);
        seed->in[i] = access_find(work, i, false, seed->row_price);
    }
    return TRYST_OK;
}

/* Sum the costs of each edge in the directions that the operation's trees use: down, up
 * or both. */
static void costs_fold(const struct plan_work *work, const double *cost, double *folded)
{
    size_t n = work->ranks;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            folded[i * n + j] = (work->has_down ? cost[i * n + j] : 0) +
                                (work->has_up ? cost[j * n + i] : 0);
}

static void costs_set(struct seed *seed)
{
    struct plan_work *work = seed->work;
    size_t n = work->ranks;
    double sum = 0;
    plan_work_price(work, work->best_row_price);
    costs_fold(work, work->cost, seed->cost);
    for (uint32_t row = 0; row < work->rows; row++)
        sum += work->best_row_price[row];
    double cheapest = 0;
    for (size_t i = 0; i < n; i++) {
        double least = INFINITY;
        for (size_t j = 0; j < n; j++)
            if (j != i && seed->cost[j * n + i] < least)
                least = seed->cost[j * n + i];
        cheapest += isfinite(least) ? least : 0;
    }
    seed->tie = sum > 0 ? 1e-6 * cheapest / (double)n : 0;
}

static double near_least(const struct seed *seed)
{
    size_t n = seed->work->ranks;
    double least = INFINITY;
    for (size_t i = 0; i < n * n; i++)
        if (i / n != i % n && seed->strain[i] < least)
            least = seed->strain[i];
    return least;
}

/* Compute the strain of edges from the loads of the set's trees so far. Each link adds a
 * little, so that near ranks join before far ones; a row without a price counts only as
 * it fills up (cubed). */
static void strain_set(struct seed *seed)
{
    struct plan_work *work = seed->work;
    for (uint32_t i = 0; i < work->links; i++) {
        uint32_t row = work->link_row[i];
        double used = seed->used[row] / seed->time;
        double strain = work->best_row_price[row] > 0 ? used : used * used * used;
        work->price[i] = (strain + NEAR) / work->overlay->capacity[i] * work->scale;
    }
    overlay_costs(work->overlay, work->price, work->cost);
    costs_fold(work, work->cost, seed->strain);
    if (!(seed->level > 0))
        seed->level = LEVEL * near_least(seed);
    seed->work_left -= 4.0 * work->ranks * work->ranks;
}

/* Return how many children `rank` may take: the room of its access link, less its load as
 * a leaf of this tree and of `later` others. `unit` is the load that this tree puts on an
 * edge. */
static double room_of(const struct seed *seed, uint32_t rank, double unit, double later)
{
    const struct plan_work *work = seed->work;
    bool both = work->has_down && work->has_up;
    const struct access *to = work->has_down ? &seed->out[rank] : &seed->in[rank];
    if (!(to->value > 0))
        return work->ranks;
    double as_leaf = both ? unit * to->value * (1 + later) : 0;
    double left = seed->time - seed->used[to->row] - as_leaf;
    return floor(left / (unit * to->value) + 1e-6);
}

/* Return strain and depth as one number: the edge's strain plus seed->level for each
 * level of `from`. */
static double effort_of(const struct seed *seed, uint32_t from, uint32_t to)
{
    return seed->strain[(size_t)from * seed->work->ranks + to] +
           seed->level * seed->depth[from];
}

/* True if `from` is a better parent for `to` than `than`: by cost, then room, then
 * effort. */
static bool parent_better(const struct seed *seed, uint32_t from, uint32_t than,
                          uint32_t to)
{
    size_t n = seed->work->ranks;
    if (than == NONE)
        return isfinite(seed->cost[from * n + to]);
    double gain = seed->cost[from * n + to] - seed->cost[than * n + to];
    if (fabs(gain) > seed->tie)
        return gain < 0;
    bool room = seed->room[from] >= 1, room_than = seed->room[than] >= 1;
    if (room != room_than)
        return room;
    return effort_of(seed, from, to) < effort_of(seed, than, to) - 1e-9;
}

/* Find the best parent of `to`: among ranks with room for a child, else among all ranks
 * of the tree. */
static void parent_find(struct seed *seed, uint32_t to)
{
    uint32_t best = NONE;
    for (uint32_t k = 0; k < seed->open_count; k++)
        if (parent_better(seed, seed->open[k], best, to))
            best = seed->open[k];
    for (uint32_t from = 0; best == NONE && from < seed->work->ranks; from++)
        if (seed->depth[from] != NONE && parent_better(seed, from, best, to))
            best = from;
    seed->best[to] = best;
    seed->work_left -= seed->open_count;
}

/* True if `a` should join before `b`, each at its best parent. */
static bool child_first(const struct seed *seed, uint32_t a, uint32_t b)
{
    size_t n = seed->work->ranks;
    if (b == NONE || seed->best[b] == NONE)
        return seed->best[a] != NONE;
    if (seed->best[a] == NONE)
        return false;
    size_t from_a = seed->best[a] * n + a, from_b = seed->best[b] * n + b;
    double gain = seed->cost[from_a] - seed->cost[from_b];
    if (fabs(gain) > seed->tie)
        return gain < 0;
    bool room_a = seed->room[seed->best[a]] >= 1, room_b = seed->room[seed->best[b]] >= 1;
    if (room_a != room_b)
        return room_a;
    gain = effort_of(seed, seed->best[a], a) - effort_of(seed, seed->best[b], b);
    gain += seed->level * LEAF * ((seed->room[a] < 1) - (seed->room[b] < 1));
    if (fabs(gain) > 1e-9)
        return gain < 0;
    return seed->room[a] > seed->room[b];
}

static uint32_t child_next(struct seed *seed)
{
    uint32_t next = NONE;
    for (uint32_t i = 0; i < seed->work->ranks; i++)
        if (seed->depth[i] == NONE && child_first(seed, i, next))
            next = i;
    seed->work_left -= seed->work->ranks;
    return next != NONE && seed->best[next] != NONE ? next : NONE;
}

/* Add `rank` to the tree, and make it the best parent of each rank for which it is
 * better. */
static void rank_joined(struct seed *seed, uint32_t rank, uint32_t depth)
{
    seed->depth[rank] = depth;
    if (seed->room[rank] >= 1)
        seed->open[seed->open_count++] = rank;
    for (uint32_t i = 0; i < seed->work->ranks; i++)
        if (seed->depth[i] == NONE && parent_better(seed, rank, seed->best[i], i))
            seed->best[i] = rank;
}

/* Take room for one child from `rank`. If the room is used up, find other parents for the
 * ranks that had `rank` as their best parent. */
static void child_room_use(struct seed *seed, uint32_t rank)
{
    bool last = seed->room[rank] >= 1 && seed->room[rank] < 2;
    seed->room[rank] -= 1;
    if (!last)
        return;
    for (uint32_t k = 0; k < seed->open_count; k++)
        if (seed->open[k] == rank)
            seed->open[k--] = seed->open[--seed->open_count];
    for (uint32_t i = 0; i < seed->work->ranks; i++)
        if (seed->depth[i] == NONE && seed->best[i] == rank)
            parent_find(seed, i);
}

/* Grow one tree into seed->parent. Returns false if the overlay has no edge to a rank
 * that is left. */
static bool tree_grow(struct seed *seed, uint32_t root, double unit, double later)
{
    uint32_t n = seed->work->ranks;
    for (uint32_t i = 0; i < n; i++) {
        seed->room[i] = room_of(seed, i, unit, later);
        seed->depth[i] = seed->best[i] = NONE;
    }
    seed->room[root] += seed->work->has_down && seed->work->has_up;
    seed->parent[root] = NONE;
    seed->open_count = 0;
    rank_joined(seed, root, 0);
    for (uint32_t joined = 1; joined < n; joined++) {
        uint32_t next = child_next(seed);
        if (next == NONE)
            return false;
        uint32_t parent = seed->best[next];
        seed->parent[next] = parent;
        rank_joined(seed, next, seed->depth[parent] + 1);
        child_room_use(seed, parent);
    }
    return true;
}

static uint32_t root_choose(const struct seed *seed, double unit, double later)
{
    uint32_t best = 0;
    double most = -INFINITY;
    if (seed->work->op != PLAN_ALLREDUCE)
        return seed->work->root;
    for (uint32_t i = 0; i < seed->work->ranks; i++) {
        double room = room_of(seed, i, unit, later);
        if (room > most) {
            most = room;
            best = i;
        }
    }
    return best;
}

/* Grow `count` trees of equal shares for each group into the pool and list them in
 * `column`. `*done_p` is false if a tree could not be grown, or the work or the caller's
 * time is used up. */
static tryst_status set_grow(struct seed *seed, uint32_t count, uint32_t *column,
                             bool *done_p)
{
    struct plan_work *work = seed->work;
    double unit = work->weight / count;
    memset(seed->used, 0, work->rows * sizeof *seed->used);
    *done_p = false;
    for (uint32_t k = 0; k < count * work->groups; k++) {
        double later = count * work->groups - k - 1;
        strain_set(seed);
        uint32_t root =
            work->all_roots ? k % work->groups : root_choose(seed, unit, later);
        if (seed->work_left < 0 || plan_work_late(work) ||
            !tree_grow(seed, root, unit, later))
            return TRYST_OK;
        tryst_status status =
            plan_work_add(work, root, work->has_down ? seed->parent : NULL,
                          work->has_up ? seed->parent : NULL, &column[k]);
        if (status)
            return status == TRYST_E_INVALID ? TRYST_OK : status;
        const struct plan_column *made = &work->columns[column[k]];
        for (uint32_t i = 0; i < made->values_count; i++)
            seed->used[made->rows[i]] += made->values[i] / count;
    }
    *done_p = true;
    return TRYST_OK;
}

static double used_most(const struct seed *seed)
{
    double most = 0;
    for (uint32_t i = 0; i < seed->work->rows; i++)
        most = fmax(most, seed->used[i]);
    return most;
}

static void shares_equal(struct plan_work *work, const uint32_t *column, uint32_t count)
{
    for (uint32_t i = 0; i < work->columns_count; i++)
        work->columns[i].share = 0;
    for (uint32_t k = 0; k < count * work->groups; k++)
        work->columns[column[k]].share += 1.0 / count;
}

/* Return the number of trees to try after `count`: 1, 2, 3, 4, 6, 8, 12, 16, …, and also
 * half the ranks, which equal hosts at one switch need. */
static uint32_t count_after(uint32_t count, uint32_t ranks)
{
    uint32_t power = 1, next;
    while (power * 2 <= count)
        power *= 2;
    next = count < 4 ? count + 1 : count == power ? power + power / 2 : 2 * power;
    return count < ranks / 2 && next > ranks / 2 ? ranks / 2 : next;
}

static uint32_t set_depth(const struct plan_work *work, const uint32_t *column,
                          uint32_t count)
{
    uint32_t deepest = 0;
    for (uint32_t k = 0; k < count * work->groups; k++)
        if (work->columns[column[k]].depth > deepest)
            deepest = work->columns[column[k]].depth;
    return deepest;
}

/* Set the shares to the smallest set with a time of at most `time_enough`, or to a larger
 * one that halves the depth; without such a set, to the one with the best time below
 * `time_max`. */
static tryst_status sets_try(struct seed *seed, double time_max, double time_enough,
                             uint32_t trees_max, uint32_t *column, bool *found_p)
{
    struct plan_work *work = seed->work;
    double best = time_max;
    uint32_t depth = 0, fewest = 0;
    *found_p = false;
    for (uint32_t count = 1; count <= trees_max;
         count = count_after(count, work->ranks)) {
        bool done;
        if (fewest && (count > EXTRA_MAX || depth < 4))
            break;
        tryst_status status = set_grow(seed, count, column, &done);
        if (status)
            return status;
        if (seed->work_left < 0)
            break;
        double time = done ? used_most(seed) : INFINITY;
        uint32_t deep = done ? set_depth(work, column, count) : 0;
        bool enough = time <= time_enough;
        if (fewest ? enough && 2 * deep <= depth : enough || time < best * (1 - 1e-12)) {
            best = time;
            shares_equal(work, column, count);
            *found_p = true;
            fewest = enough ? count : 0;
            depth = deep;
        }
    }
    return TRYST_OK;
}

tryst_status plan_seed(struct plan_work *work, double time_max, double time_enough,
                       uint32_t trees_max, bool *found_p)
{
    struct seed seed;
    *found_p = false;
    if (!work->rows)
        return TRYST_OK;
    if (!trees_max || trees_max > work->ranks)
        trees_max = work->ranks;
    if (work->all_roots)
        trees_max = 1;
    tryst_status status = seed_init(&seed, work);
    uint32_t *column =
        arrays_alloc(&seed.arrays, (size_t)trees_max * work->groups, sizeof *column);
    if (!column)
        status = TRYST_E_NOMEM;
    if (!status) {
        seed.time = time_enough;
        costs_set(&seed);
        status = sets_try(&seed, time_max, time_enough, trees_max, column, found_p);
    }
    arrays_free(&seed.arrays);
    return status;
}
