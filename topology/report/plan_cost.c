/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an operation takes; see plan_cost.h.
 */
#include "plan_cost.h"

#include <math.h>
#include <string.h>

#include "topology/routes/overlay_price.h"

/* Up to so many ranks each is tried as the root of a shape. */
#define ROOTS_TRIED_MAX 32u

enum shape { FLAT, BINOMIAL, BINARY, FOUR_ARY, TWO_LEVEL, SHAPES };

static const char *const shape_names[SHAPES] = {
    [FLAT] = "flat",      [BINOMIAL] = "binomial",   [BINARY] = "binary",
    [FOUR_ARY] = "4-ary", [TWO_LEVEL] = "two-level",
};

struct costing {
    struct arrays arrays;
    struct overlay *overlay;
    enum plan_op op;
    uint32_t n;
    double sum_s; /* γ: seconds to sum a byte */
    uint32_t *parent, *next_to;
    uint32_t *round; /* when the edge to its parent carries the message, from 1 */
    uint32_t *children;
    double *load; /* by link */
    double *adds; /* by rank: bytes that it sums, of a byte of the tensor */
    bool latency_unknown;
};

double cost_total_s(const struct cost_shape *shape)
{
    return shape->latency_s + shape->move_s + shape->sum_s + shape->fill_s;
}

static bool has_all_roots(enum plan_op op)
{
    return op == PLAN_ALLGATHER || op == PLAN_REDUCE_SCATTER;
}

/* ---- one tree ----------------------------------------------------------------------------- */

/* Every level is a round. */
static void rounds_by_depth(struct costing *costing)
{
    for (uint32_t i = 0; i < costing->n; i++) {
        costing->round[i] = 0;
        for (uint32_t at = i; costing->parent[at] != GRAPH_NONE; at = costing->parent[at])
            costing->round[i]++;
    }
}

static void edge_ends(const uint32_t *parent, bool up, uint32_t i, uint32_t *from_p,
                      uint32_t *to_p)
{
    *from_p = up ? i : parent[i];
    *to_p = up ? parent[i] : i;
}

static void children_count(struct costing *costing, const uint32_t *parent)
{
    memset(costing->children, 0, costing->n * sizeof *costing->children);
    for (uint32_t i = 0; i < costing->n; i++)
        if (parent[i] != GRAPH_NONE)
            costing->children[parent[i]]++;
}

/* The longest path's latency, one way. */
static double latency_find(struct costing *costing, const uint32_t *parent, bool up)
{
    double most_ns = 0;
    children_count(costing, parent);
    for (uint32_t i = 0; i < costing->n; i++) {
        double ns = 0;
        bool leaf = !costing->children[i];
        for (uint32_t at = i; leaf && parent[at] != GRAPH_NONE; at = parent[at]) {
            struct overlay_edge edge;
            uint32_t from, to;
            edge_ends(parent, up, at, &from, &to);
            overlay_edge(costing->overlay, from, to, &edge);
            if (edge.latency_ns == GRAPH_UNKNOWN)
                costing->latency_unknown = true;
            else
                ns += edge.latency_ns;
        }
        most_ns = fmax(most_ns, ns);
    }
    return most_ns * 1e-9;
}

/* Seconds per byte of the message, sent on round by round; INFINITY where an edge has no route. */
static double rounds_move(struct costing *costing, const uint32_t *parent, bool up)
{
    const struct overlay *overlay = costing->overlay;
    uint32_t rounds = 0;
    double sum = 0;
    for (uint32_t i = 0; i < costing->n; i++)
        rounds = costing->round[i] > rounds ? costing->round[i] : rounds;
    for (uint32_t d = 1; d <= rounds; d++) {
        double most = 0;
        memset(costing->load, 0, overlay->links_count * sizeof *costing->load);
        for (uint32_t i = 0; i < costing->n; i++) {
            struct overlay_edge edge;
            uint32_t from, to;
            if (costing->round[i] != d)
                continue;
            edge_ends(parent, up, i, &from, &to);
            overlay_edge(costing->overlay, from, to, &edge);
            if (!(edge.routes > 0))
                return INFINITY;
            overlay_load(costing->overlay, from, to, 1, costing->load);
        }
        for (uint32_t l = 0; l < overlay->links_count; l++)
            most = fmax(most, costing->load[l] / overlay->capacity[l]);
        sum += most;
    }
    return sum;
}

/* How many messages are added one after the other, on the way up: of each round the most at one rank. */
static uint32_t rounds_adds(struct costing *costing, const uint32_t *parent)
{
    uint32_t rounds = 0, sum = 0;
    for (uint32_t i = 0; i < costing->n; i++)
        rounds = costing->round[i] > rounds ? costing->round[i] : rounds;
    for (uint32_t d = 1; d <= rounds; d++) {
        uint32_t most = 0;
        memset(costing->children, 0, costing->n * sizeof *costing->children);
        for (uint32_t i = 0; i < costing->n; i++)
            if (costing->round[i] == d && ++costing->children[parent[i]] > most)
                most = costing->children[parent[i]];
        sum += most;
    }
    return sum;
}

/* The most that a path to the root passes: what its ranks add of one slice. */
static uint32_t path_adds(struct costing *costing, const uint32_t *parent)
{
    uint32_t most = 0;
    children_count(costing, parent);
    for (uint32_t i = 0; i < costing->n; i++) {
        uint32_t adds = 0;
        for (uint32_t at = i; at != GRAPH_NONE; at = parent[at])
            adds += costing->children[at];
        most = adds > most ? adds : most;
    }
    return most;
}

/* ---- shapes ------------------------------------------------------------------------------- */

/* What each member hangs on. */
static void neighbours_find(struct costing *costing)
{
    for (uint32_t i = 0; i < costing->n; i++)
        costing->next_to[i] = overlay_near(costing->overlay, i);
}

/* Position v of a shape that begins at position 0; its parent's position. */
static uint32_t shape_parent(enum shape shape, uint32_t v)
{
    switch (shape) {
    case BINOMIAL: return v - (1u << (31 - __builtin_clz(v)));
    case BINARY: return (v - 1) / 2;
    case FOUR_ARY: return (v - 1) / 4;
    default: return 0;
    }
}

/* The first member beside i, the root standing for its own. */
static uint32_t leader_of(const struct costing *costing, uint32_t root, uint32_t i)
{
    if (costing->next_to[i] == costing->next_to[root])
        return root;
    for (uint32_t k = 0; k < i; k++)
        if (costing->next_to[k] == costing->next_to[i])
            return k;
    return i;
}

static void shape_fill(struct costing *costing, enum shape shape, uint32_t root)
{
    uint32_t n = costing->n;
    for (uint32_t v = 0; v < n; v++) {
        uint32_t i = (root + v) % n;
        if (v == 0)
            costing->parent[i] = GRAPH_NONE;
        else if (shape == TWO_LEVEL)
            costing->parent[i] =
                leader_of(costing, root, i) == i ? root : leader_of(costing, root, i);
        else
            costing->parent[i] = (root + shape_parent(shape, v)) % n;
    }
    rounds_by_depth(costing);
    for (uint32_t v = 1; shape == BINOMIAL && v < n; v++) /* each sender one in a round */
        costing->round[(root + v) % n] = 32 - (uint32_t)__builtin_clz(v);
}

static struct cost_shape shape_cost(struct costing *costing, enum shape shape,
                                    uint32_t root, double bytes)
{
    struct cost_shape cost = {.name = shape_names[shape], .root = root};
    shape_fill(costing, shape, root);
    for (int up = 0; up < 2; up++) {
        if (costing->op == (up ? PLAN_BROADCAST : PLAN_REDUCE))
            continue;
        cost.move_s += bytes * rounds_move(costing, costing->parent, up);
        if (isfinite(cost.move_s))
            cost.latency_s += latency_find(costing, costing->parent, up);
        if (up)
            cost.sum_s += bytes * costing->sum_s * rounds_adds(costing, costing->parent);
    }
    return cost;
}

static void shapes_cost(struct costing *costing, uint32_t root, struct cost_table *table)
{
    bool any_root = costing->op == PLAN_ALLREDUCE && costing->n <= ROOTS_TRIED_MAX;
    for (enum shape shape = 0; shape < SHAPES; shape++) {
        struct cost_shape best = {.move_s = INFINITY};
        for (uint32_t r = any_root ? 0 : root; r < (any_root ? costing->n : root + 1);
             r++) {
            struct cost_shape cost = shape_cost(costing, shape, r, (double)table->bytes);
            if (cost_total_s(&cost) < cost_total_s(&best))
                best = cost;
        }
        if (isfinite(best.move_s))
            table->shapes[table->shapes_count++] = best;
    }
}

/* ---- the plan ----------------------------------------------------------------------------- */

static double adds_most(const struct costing *costing)
{
    double most = 0;
    for (uint32_t i = 0; i < costing->n; i++)
        most = fmax(most, costing->adds[i]);
    return most;
}

/* Latency, fill and sums of one tree, of which the plan takes the longest. */
static void plan_tree_cost(struct costing *costing, const struct plan *plan,
                           const struct plan_tree *tree, double bytes,
                           struct cost_shape *cost)
{
    double part = has_all_roots(plan->op) ? tree->share / costing->n : tree->share;
    double slice = fmin(PLAN_SLICE_BYTES, part * bytes), latency_s = 0, first_s = 0;
    if (tree->share < PLAN_SHARE_MIN)
        return;
    if (tree->broadcast_parent)
        latency_s += latency_find(costing, tree->broadcast_parent, false);
    if (tree->reduce_parent) {
        latency_s += latency_find(costing, tree->reduce_parent, true);
        first_s = slice * costing->sum_s * path_adds(costing, tree->reduce_parent);
        for (uint32_t i = 0; i < costing->n; i++)
            costing->adds[i] += part * costing->children[i];
    }
    double fill_s = plan_fill_slices(plan->op, costing->n, tree->depth, tree->share) *
                    slice * plan->s_per_byte;
    cost->latency_s = fmax(cost->latency_s, latency_s);
    cost->sum_s = fmax(cost->sum_s, first_s);
    cost->fill_s = fmax(cost->fill_s, fill_s);
}

static struct cost_shape plan_itself(struct costing *costing, const struct plan *plan,
                                     uint32_t root, double bytes)
{
    struct cost_shape cost = {
        .name = "plan", .root = root, .move_s = bytes * plan->s_per_byte};
    for (uint32_t t = 0; t < plan->trees_count; t++)
        plan_tree_cost(costing, plan, &plan->trees[t], bytes, &cost);
    double sums_s = bytes * costing->sum_s * adds_most(costing);
    cost.sum_s += fmax(0, sums_s - cost.move_s); /* beside the moving, but for this */
    return cost;
}

static tryst_status costing_init(struct costing *costing, struct overlay *overlay,
                                 const struct plan *plan, double sum_bytes_per_s)
{
    uint32_t n = overlay->ranks_count;
    struct arrays *arrays = &costing->arrays;
    *costing = (struct costing){
        .overlay = overlay, .op = plan->op, .n = n, .sum_s = 1 / sum_bytes_per_s};
    costing->parent = arrays_take(arrays, n, sizeof *costing->parent);
    costing->round = arrays_take(arrays, n, sizeof *costing->round);
    costing->next_to = arrays_take(arrays, n, sizeof *costing->next_to);
    costing->children = arrays_take(arrays, n, sizeof *costing->children);
    costing->adds = arrays_take(arrays, n, sizeof *costing->adds);
    costing->load = arrays_take(arrays, overlay->links_count, sizeof *costing->load);
    return arrays->status;
}

tryst_status plan_cost(struct overlay *overlay, const struct plan *plan, uint32_t root,
                       struct err *err, struct cost_table *table)
{
    struct costing costing;
    tryst_status status = costing_init(&costing, overlay, plan, table->sum_bytes_per_s);
    if (status == TRYST_OK) {
        neighbours_find(&costing);
        table->shapes[0] = plan_itself(&costing, plan, root, (double)table->bytes);
        table->shapes_count = 1;
        table->wins = 0;
        if (!has_all_roots(plan->op) && costing.n > 1)
            shapes_cost(&costing, root, table);
        for (uint32_t s = 1; s < table->shapes_count; s++)
            if (cost_total_s(&table->shapes[s]) <
                cost_total_s(&table->shapes[table->wins]))
                table->wins = s;
        table->latency_unknown = costing.latency_unknown;
    }
    arrays_free(&costing.arrays);
    return status ? err_set(err, status, "no memory to predict times") : TRYST_OK;
}
