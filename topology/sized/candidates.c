/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sets of trees among which each size chooses; see candidates.h.
 *
 * One idea: the plan's trees give orders in which near ranks follow each other, shapes
 * over these orders give depth and degree, and a small linear program gives a set its
 * shares.
 * Invariant: effort is counted, so equal inputs give equal sets.
 */
#include "candidates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/plan/shapes.h"
#include "earliest.h"
#include "topology/plan/lp.h"
#include "topology/routes/overlay_price.h"

/* With at most this many ranks, each is tried as the root of a single tree, a set of
 * stars has a star around each, and a ring has a tree for each. */
#define ROOTS_TRIED_MAX 32u
/* A ring that moves bytes slower than the plan by more than this part is not tried. */
#define RING_GAP 0.01
/* The most trees of a linear program. */
#define POOL_MAX 48u
/* Trees that earliest.c makes for one set; each avoids the edges of those before. */
#define BURDENED 16u
/* The most pivots of a linear program. */
#define PIVOTS_MAX 5000u
/* A tree with a smaller share is left out of a set: it takes long to fill with slices. */
#define SHARE_LEAST (1.0 / 256)

enum order { BY_RANK, BY_TREE, BY_RATE, ORDERS };

struct making {
    struct candidates *candidates;
    uint32_t n, root; /* number of ranks; the operation's root, GRAPH_NONE: any rank */
    uint32_t *order[ORDERS];
    uint32_t orders;   /* the first `orders` of `order` are distinct */
    uint32_t *rotated; /* scratch by rank */
    double *load;      /* scratch by link */
    uint32_t *rows;    /* scratch by link */
    double *values;    /* scratch by link */
};

/* ---- sets -------------------------------------------------------------------------- */

static bool is_full(const struct making *making)
{
    return making->candidates->arrays.status != TRYST_OK;
}

static int share_order(const void *a, const void *b)
{
    const struct plan_tree *x = a, *y = b;
    if (x->share != y->share)
        return x->share > y->share ? -1 : 1;
    if (x->depth != y->depth)
        return x->depth < y->depth ? -1 : 1;
    return x->root < y->root ? -1 : x->root > y->root;
}

/* Merge equal trees and add their shares. Returns how many trees are left. */
static uint32_t equals_merge(struct plan_tree *trees, uint32_t count, uint32_t n)
{
    uint32_t left = 0;
    for (uint32_t t = 0; t < count; t++) {
        uint32_t k = 0;
        while (k < left && !plan_tree_same(&trees[k], &trees[t], n))
            k++;
        if (k < left)
            trees[k].share += trees[t].share;
        else
            trees[left++] = trees[t];
    }
    return left;
}

/* Add a copy of a set, with shares that sum to 1. */
static void set_add(struct making *making, const struct plan_tree *trees, uint32_t count)
{
    struct candidates *candidates = making->candidates;
    double sum = 0;
    if (candidates->count == candidates->room || !count)
        return;
    struct plan_tree *copy =
        arrays_copy(&candidates->arrays, trees, count, sizeof *trees);
    if (!copy)
        return;
    count = equals_merge(copy, count, making->n);
    qsort(copy, count, sizeof *copy, share_order);
    for (uint32_t t = 0; t < count; t++)
        sum += copy[t].share;
    for (uint32_t t = 0; t < count; t++)
        copy[t].share /= sum;
    candidates->sets[candidates->count++] = (struct candidate){copy, count};
    if (count > candidates->trees_max)
        candidates->trees_max = count;
}

/* Start a tree with the same parents up and down. Returns the parents for the caller to
 * fill in; NULL if out of memory. */
static uint32_t *tree_new(struct making *making, struct plan_tree *tree)
{
    enum plan_op op = making->candidates->plan->op;
    uint32_t *parent =
        arrays_alloc(&making->candidates->arrays, making->n, sizeof *parent);
    *tree = (struct plan_tree){.share = 1,
                               .broadcast_parent = op == PLAN_REDUCE ? NULL : parent,
                               .reduce_parent = op == PLAN_BROADCAST ? NULL : parent};
    return parent;
}

static void tree_end(struct making *making, struct plan_tree *tree)
{
    const uint32_t *parent = plan_tree_parents(tree);
    tree->root = 0;
    while (parent[tree->root] != GRAPH_NONE)
        tree->root++;
    tree->depth = shape_depth(parent, making->n);
}

/* ---- shares ------------------------------------------------------------------------ */

static void half_load(const struct making *making, const uint32_t *parent, bool down)
{
    for (uint32_t i = 0; parent && i < making->n; i++)
        if (parent[i] != GRAPH_NONE)
            overlay_load(making->candidates->overlay, down ? parent[i] : i,
                         down ? i : parent[i], 1, making->load);
}

/* True if each edge of the tree has a route. */
static bool half_routed(const struct making *making, const uint32_t *parent, bool down)
{
    for (uint32_t i = 0; parent && i < making->n; i++) {
        struct overlay_edge edge;
        if (parent[i] == GRAPH_NONE)
            continue;
        overlay_edge(making->candidates->overlay, down ? parent[i] : i,
                     down ? i : parent[i], &edge);
        if (!(edge.routes > 0))
            return false;
    }
    return true;
}

static bool tree_routed(const struct making *making, const struct plan_tree *tree)
{
    return half_routed(making, tree->broadcast_parent, true) &&
           half_routed(making, tree->reduce_parent, false);
}

/* Append a tree's column: the links' times for the whole tensor, divided by `scale`. */
static tryst_status column_add(struct making *making, const struct plan_tree *tree,
                               struct lp *lp, double scale)
{
    const struct overlay *overlay = making->candidates->overlay;
    uint32_t count = 0;
    memset(making->load, 0, overlay->links_count * sizeof *making->load);
    half_load(making, tree->broadcast_parent, true);
    half_load(making, tree->reduce_parent, false);
    for (uint32_t l = 0; l < overlay->links_count; l++) {
        if (!(making->load[l] > 0))
            continue;
        making->rows[count] = l;
        making->values[count++] = making->load[l] / overlay->capacity[l] / scale;
    }
    return lp_column_add(lp, 0, count, making->rows, making->values);
}

/* Set the shares for which the busiest link takes the least time. Returns false if they
 * were not found: no links, no memory, or more than PIVOTS_MAX pivots. */
static bool shares_solve(struct making *making, struct plan_tree *trees, uint32_t count)
{
    struct lp *lp;
    double scale = making->candidates->plan->s_per_byte;
    bool solved = true;
    if (!(scale > 0) || making->candidates->overlay->links_count == 0 ||
        lp_open(making->candidates->overlay->links_count, 1, PIVOTS_MAX, &lp) != TRYST_OK)
        return false;
    for (uint32_t t = 0; t < count && solved; t++)
        solved = column_add(making, &trees[t], lp, scale) == TRYST_OK;
    solved = solved && lp_solve(lp);
    for (uint32_t t = 0; t < count && solved; t++)
        trees[t].share = lp_share(lp, t);
    lp_close(lp);
    return solved;
}

/* Drop the trees with a share below SHARE_LEAST, and all but the `most` largest. Returns
 * how many are left. */
static uint32_t shares_thin(struct plan_tree *trees, uint32_t count, uint32_t most)
{
    qsort(trees, count, sizeof *trees, share_order);
    count = count < most ? count : most;
    while (count > 1 && trees[count - 1].share < SHARE_LEAST)
        count--;
    return count;
}

/* Add sets of at most 32, 16, … 2 trees of a pool: each has the largest shares of the one
 * before. */
static void pool_add(struct making *making, struct plan_tree *pool, uint32_t count)
{
    for (uint32_t most = 32; most >= 2 && count > 1 && !is_full(making); most /= 2) {
        if (!shares_solve(making, pool, count))
            return;
        uint32_t left = shares_thin(pool, count, most);
        if (left < count && !shares_solve(making, pool, left))
            return;
        count = shares_thin(pool, left, most);
        set_add(making, pool, count);
    }
}

/* ---- orders ------------------------------------------------------------------------ */

/* List the ranks of a tree depth-first, each before its children. */
static tryst_status order_by_tree(const struct plan_tree *tree, uint32_t n,
                                  uint32_t *order)
{
    struct arrays scratch = {0};
    const uint32_t *parent = plan_tree_parents(tree);
    uint32_t *child = arrays_alloc(&scratch, n, sizeof *child);
    uint32_t *next = arrays_alloc(&scratch, n, sizeof *next);
    tryst_status status = scratch.status;
    uint32_t at = tree->root, count = 0;
    for (uint32_t i = 0; !status && i < n; i++)
        child[i] = next[i] = GRAPH_NONE;
    for (uint32_t i = n; !status && i-- > 0;)
        if (parent[i] != GRAPH_NONE) {
            next[i] = child[parent[i]];
            child[parent[i]] = i;
        }
    while (!status && at != GRAPH_NONE) {
        order[count++] = at;
        if (child[at] != GRAPH_NONE) {
            at = child[at];
            continue;
        }
        while (at != GRAPH_NONE && next[at] == GRAPH_NONE)
            at = parent[at];
        at = at == GRAPH_NONE ? at : next[at];
    }
    arrays_free(&scratch);
    return status;
}

/* Compute each rank's rate: the sum over its links out or that over its links in,
 * whichever is smaller. */
static void rates_find(const struct making *making, double *rate)
{
    const struct overlay *overlay = making->candidates->overlay;
    const struct graph *graph = overlay->graph;
    for (uint32_t i = 0; i < making->n; i++) {
        double out = 0, in = 0;
        uint32_t node = graph->ranks[overlay_rank(overlay, i)];
        for (uint32_t l = 0; l < overlay->links_count; l++) {
            const struct graph_link *link = &graph->links[overlay->links[l]];
            out += link->from == node ? overlay->capacity[l] : 0;
            in += link->to == node ? overlay->capacity[l] : 0;
        }
        rate[i] = fmin(out, in);
    }
}

/* Sort the ranks by rate, fastest first, equal ones in the tree's order. Insertion sort,
 * since runs of equal ranks need no moves. */
static tryst_status order_by_rate(const struct making *making, uint32_t *order)
{
    struct arrays scratch = {0};
    double *rate = arrays_alloc(&scratch, making->n, sizeof *rate);
    if (!rate)
        return TRYST_E_NOMEM;
    rates_find(making, rate);
    for (uint32_t k = 0; k < making->n; k++) {
        uint32_t i = making->order[BY_TREE][k], at = k;
        for (; at > 0 && rate[order[at - 1]] < rate[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    arrays_free(&scratch);
    return TRYST_OK;
}

static void root_first(uint32_t root, uint32_t *order)
{
    uint32_t at = 0;
    while (order[at] != root)
        at++;
    memmove(order + 1, order, at * sizeof *order);
    order[0] = root;
}

static tryst_status orders_make(struct making *making)
{
    const struct plan *plan = making->candidates->plan;
    size_t bytes = making->n * sizeof **making->order;
    for (uint32_t i = 0; i < making->n; i++)
        making->order[BY_RANK][i] = i;
    tryst_status status =
        order_by_tree(&plan->trees[0], making->n, making->order[BY_TREE]);
    if (!status)
        status = order_by_rate(making, making->order[BY_RATE]);
    for (uint32_t k = 0; !status && k < ORDERS; k++) {
        uint32_t *order = making->order[k];
        bool again = false;
        if (making->root != GRAPH_NONE)
            root_first(making->root, order);
        for (uint32_t p = 0; p < making->orders; p++)
            again |= memcmp(making->order[p], order, bytes) == 0;
        if (!again) {
            making->order[k] = making->order[making->orders];
            making->order[making->orders++] = order;
        }
    }
    return status;
}

/* Return the order rotated by `first` positions; with a root, only the ranks behind the
 * root rotate. */
static const uint32_t *order_rotate(const struct making *making, const uint32_t *order,
                                    uint32_t first)
{
    uint32_t fixed = making->root != GRAPH_NONE, n = making->n - fixed;
    making->rotated[0] = order[0];
    for (uint32_t k = 0; k < n; k++)
        making->rotated[fixed + k] = order[fixed + (first + k) % n];
    return making->rotated;
}

/* ---- single trees ------------------------------------------------------------------ */

enum shape { STAR, BINOMIAL, CHAIN, BINARY, TERNARY, FOUR_ARY, EIGHT_ARY, SHAPES };

static const uint32_t degrees[SHAPES] = {
    [CHAIN] = 1, [BINARY] = 2, [TERNARY] = 3, [FOUR_ARY] = 4, [EIGHT_ARY] = 8};

static bool shape_make(struct making *making, const uint32_t *order, enum shape shape,
                       struct plan_tree *tree)
{
    uint32_t *parent = tree_new(making, tree);
    tryst_status status = TRYST_OK;
    if (!parent)
        return false;
    if (shape == STAR)
        shape_star(order, making->n, 0, parent);
    else if (shape == BINOMIAL)
        shape_binomial(order, making->n, parent);
    else
        status = shape_intervals(order, making->n, degrees[shape], parent);
    if (status) {
        making->candidates->arrays.status = status;
        return false;
    }
    tree_end(making, tree);
    return tree_routed(making, tree);
}

static void singles_add(struct making *making, const uint32_t *order)
{
    for (enum shape shape = 0; shape < SHAPES; shape++) {
        struct plan_tree tree;
        if (shape_make(making, order, shape, &tree))
            set_add(making, &tree, 1);
    }
}

static void earliest_add(struct making *making, struct earliest *earliest, uint32_t root)
{
    static const double bytes[] = {4096, 65536};
    for (size_t k = 0; k < sizeof bytes / sizeof *bytes; k++) {
        struct plan_tree tree;
        uint32_t *parent = tree_new(making, &tree);
        if (!parent || !earliest_tree(earliest, root, bytes[k], parent))
            return;
        tree_end(making, &tree);
        if (tree_routed(making, &tree))
            set_add(making, &tree, 1);
    }
}

/* Copy the plan's first trees of depth at most `depth_max`, at most `most` of them.
 * Returns how many. */
static uint32_t pool_trees_copy(const struct making *making, uint32_t depth_max,
                                uint32_t most, struct plan_tree *trees)
{
    const struct plan *plan = making->candidates->plan;
    uint32_t count = 0;
    for (uint32_t t = 0; t < plan->trees_count && count < most; t++)
        if (plan->trees[t].depth <= depth_max)
            trees[count++] = plan->trees[t];
    return count;
}

/* Add sets of trees of earliest.c that avoid each other's edges, alone and with the
 * plan's trees. */
static void burdened_add(struct making *making, struct earliest *earliest)
{
    struct plan_tree pool[POOL_MAX];
    uint32_t made = 0;
    for (uint32_t k = 0; k < BURDENED; k++) {
        uint32_t root = making->root;
        uint32_t *parent = tree_new(making, &pool[made]);
        if (root == GRAPH_NONE)
            root = making->order[0][(uint64_t)k * making->n / BURDENED];
        if (!parent || !earliest_tree(earliest, root, PLAN_SLICE_BYTES, parent))
            return;
        earliest_burden(earliest, parent);
        tree_end(making, &pool[made]);
        made += tree_routed(making, &pool[made]);
    }
    for (uint32_t count = 2; count <= made; count *= 2)
        set_add(making, pool, count);
    uint32_t all =
        made + pool_trees_copy(making, UINT32_MAX, POOL_MAX - made, pool + made);
    struct plan_tree alone[BURDENED];
    memcpy(alone, pool, made * sizeof *pool);
    pool_add(making, alone, made);
    pool_add(making, pool, all);
}

static tryst_status soonests_add(struct making *making)
{
    struct earliest *earliest;
    bool any_root = making->root == GRAPH_NONE && making->n <= ROOTS_TRIED_MAX;
    uint32_t roots = any_root ? making->n : making->orders;
    tryst_status status = earliest_open(making->candidates->overlay, &earliest);
    if (status)
        return status == TRYST_E_UNSUPPORTED ? TRYST_OK : status;
    if (making->root != GRAPH_NONE)
        roots = 1;
    for (uint32_t k = 0; k < roots; k++)
        earliest_add(making, earliest, any_root ? k : making->order[k][0]);
    burdened_add(making, earliest);
    earliest_close(earliest);
    return TRYST_OK;
}

static tryst_status all_singles_add(struct making *making)
{
    bool any_root = making->root == GRAPH_NONE && making->n <= ROOTS_TRIED_MAX;
    for (uint32_t k = 0; k < making->orders; k++)
        singles_add(making, making->order[k]);
    for (uint32_t r = 1; any_root && r < making->n; r++)
        singles_add(making, order_rotate(making, making->order[0], r));
    return soonests_add(making);
}

/* ---- sets -------------------------------------------------------------------------- */

/* Make a pair of trees over an order; with a root, over the other ranks, with the root
 * above both. Returns false if out of memory or an edge has no route. */
static bool pair_make(struct making *making, const uint32_t *order,
                      struct plan_tree *trees)
{
    uint32_t fixed = making->root != GRAPH_NONE;
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t *parent = tree_new(making, &trees[k]);
        if (!parent)
            return false;
        uint32_t top = shape_of_pair(order + fixed, making->n - fixed, k > 0, parent);
        if (fixed) {
            parent[top] = making->root;
            parent[making->root] = GRAPH_NONE;
        }
        tree_end(making, &trees[k]);
        if (!tree_routed(making, &trees[k]))
            return false;
    }
    return true;
}

/* Make `count` pairs over one order, each over a different rotation. Returns how many
 * trees were made. */
static uint32_t pairs_make(struct making *making, const uint32_t *order, uint32_t count,
                           struct plan_tree *trees)
{
    uint32_t made = 0;
    for (uint32_t k = 0; k < count; k++) {
        const uint32_t *turned = order_rotate(making, order, making->n / count * k);
        if (pair_make(making, turned, trees + made))
            made += 2;
    }
    return made;
}

static void pairs_add(struct making *making)
{
    struct plan_tree trees[16];
    for (uint32_t k = 0; k < making->orders; k++)
        for (uint32_t count = 1; count <= 4 && 4 * count <= making->n + 2; count *= 2)
            set_add(making, trees, pairs_make(making, making->order[k], count, trees));
}

/* Add the set of a star around each rank: direct exchange. */
static void stars_add(struct making *making)
{
    struct plan_tree trees[ROOTS_TRIED_MAX];
    uint32_t made = 0;
    if (making->root != GRAPH_NONE || making->n > ROOTS_TRIED_MAX)
        return;
    for (uint32_t r = 0; r < making->n; r++) {
        uint32_t *parent = tree_new(making, &trees[made]);
        if (!parent)
            return;
        shape_star(making->order[0], making->n, r, parent);
        tree_end(making, &trees[made]);
        made += tree_routed(making, &trees[made]);
    }
    set_add(making, trees, made);
    pool_add(making, trees, made);
}

/* Make the tree of a ring that has its root at position `first`. Returns false if out of
 * memory or an edge has no route. */
static bool ring_tree_make(struct making *making, const uint32_t *order, uint32_t first,
                           struct plan_tree *tree)
{
    uint32_t *up = tree_new(making, tree);
    uint32_t *down = arrays_alloc(&making->candidates->arrays, making->n, sizeof *down);
    if (!up || !down)
        return false;
    shape_ring(order, making->n, first, up, down);
    tree->broadcast_parent = down;
    tree_end(making, tree);
    return tree_routed(making, tree);
}

/* True if trees with equal shares move a byte as fast as the plan does. */
static bool moves_as_plan(const struct making *making, const struct plan_tree *trees,
                          uint32_t count)
{
    const struct overlay *overlay = making->candidates->overlay;
    double most = making->candidates->plan->s_per_byte * (1 + RING_GAP) * count;
    memset(making->load, 0, overlay->links_count * sizeof *making->load);
    for (uint32_t t = 0; t < count; t++) {
        half_load(making, trees[t].broadcast_parent, true);
        half_load(making, trees[t].reduce_parent, false);
    }
    for (uint32_t l = 0; l < overlay->links_count; l++)
        if (making->load[l] / overlay->capacity[l] > most)
            return false;
    return true;
}

/* Add the ring over each order: a tree for each rank as root, with equal shares. It is
 * deep, so it is worth a try only where trees move no byte faster. */
static void rings_add(struct making *making)
{
    struct plan_tree trees[ROOTS_TRIED_MAX];
    if (making->candidates->plan->op != PLAN_ALLREDUCE || making->n > ROOTS_TRIED_MAX)
        return;
    for (uint32_t k = 0; k < making->orders; k++) {
        uint32_t made = 0;
        while (made < making->n &&
               ring_tree_make(making, making->order[k], made, &trees[made]))
            made++;
        if (made == making->n && moves_as_plan(making, trees, made))
            set_add(making, trees, made);
    }
}

/* Add sets of shapes together with trees of the plan. */
static void mixed_add(struct making *making, uint32_t depth_max)
{
    struct plan_tree pool[POOL_MAX];
    uint32_t count = pool_trees_copy(making, depth_max, 16, pool);
    for (uint32_t k = 0; k < making->orders; k++) {
        for (enum shape shape = 0; shape < SHAPES && count < POOL_MAX - 4; shape++)
            if ((shape != CHAIN || making->n <= depth_max) &&
                shape_make(making, making->order[k], shape, &pool[count]))
                count++;
        if (making->n >= 4 && count + 4 <= POOL_MAX)
            count += pairs_make(making, making->order[k], 2, pool + count);
    }
    pool_add(making, pool, count);
}

/* Add the plan, and parts of it: its trees with the largest shares. */
static void parts_add(struct making *making)
{
    const struct plan *plan = making->candidates->plan;
    struct plan_tree pool[POOL_MAX];
    for (uint32_t t = 0; t < plan->trees_count && t < 4; t++)
        set_add(making, &plan->trees[t], 1);
    for (uint32_t most = 2; most < plan->trees_count && most <= 64; most *= 2)
        set_add(making, plan->trees, most);
    pool_add(making, pool, pool_trees_copy(making, UINT32_MAX, POOL_MAX, pool));
    set_add(making, plan->trees, plan->trees_count);
}

static tryst_status making_init(struct making *making, struct candidates *candidates)
{
    const struct plan *plan = candidates->plan;
    struct arrays *arrays = &candidates->arrays;
    uint32_t n = plan->ranks_count, links = candidates->overlay->links_count;
    *making = (struct making){.candidates = candidates, .n = n, .root = GRAPH_NONE};
    if (plan->op != PLAN_ALLREDUCE)
        making->root = plan->trees[0].root;
    for (uint32_t k = 0; k < ORDERS; k++)
        making->order[k] = arrays_alloc(arrays, n, sizeof **making->order);
    making->rotated = arrays_alloc(arrays, n, sizeof *making->rotated);
    making->load = arrays_alloc(arrays, links, sizeof *making->load);
    making->rows = arrays_alloc(arrays, links, sizeof *making->rows);
    making->values = arrays_alloc(arrays, links, sizeof *making->values);
    candidates->room = 128 + SHAPES * (ROOTS_TRIED_MAX + ORDERS);
    candidates->sets = arrays_alloc(arrays, candidates->room, sizeof *candidates->sets);
    return arrays->status;
}

tryst_status candidates_make(struct candidates *candidates)
{
    struct making making;
    uint32_t n = candidates->plan->ranks_count, levels = 1;
    while (1u << levels < n)
        levels++;
    tryst_status status = making_init(&making, candidates);
    if (!status)
        status = orders_make(&making);
    if (!status)
        status = all_singles_add(&making);
    if (status)
        return status;
    pairs_add(&making);
    stars_add(&making);
    rings_add(&making);
    mixed_add(&making, 2 * levels);
    mixed_add(&making, 8 * levels);
    parts_add(&making);
    return candidates->arrays.status;
}

void candidates_free(struct candidates *candidates)
{
    arrays_free(&candidates->arrays);
}
