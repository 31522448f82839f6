/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Predicted times of an operation; see plan_cost.h.
 */
#include "plan_cost.h"

#include <math.h>
#include <string.h>

#include "plan_ring.h"
#include "topology/routes/overlay_price.h"

/* With at most this many ranks, each rank is tried as the root of a shape. */
#define ROOTS_TRIED_MAX 32u

enum shape { FLAT, CHAIN, BINOMIAL, BINARY, FOUR_ARY, TWO_LEVEL, SHAPES };

static const char *const shape_names[SHAPES] = {
    [FLAT] = "flat",     [CHAIN] = "chain",    [BINOMIAL] = "binomial",
    [BINARY] = "binary", [FOUR_ARY] = "4-ary", [TWO_LEVEL] = "two-level",
};

struct costing {
    struct arrays arrays;
    struct tree_costing trees;
    struct overlay *overlay;
    enum plan_op op;
    uint32_t n;
    double bytes;
    double slice_bytes;
    /* of steps; here trees are priced without overheads */
    struct tree_overheads overheads;
    double gamma_most; /* the slowest rank's seconds to sum a byte */
    /* By member: parent in the shape; the node that the member is near (overlay_near). */
    uint32_t *parent, *next_to;
    uint32_t *order; /* members in the ring's order: near ones follow each other */
    uint32_t first;  /* position in `order` where halving-doubling begins */
    bool ordered;    /* `order` is a ring */
};

double cost_total_s(const struct cost_shape *shape)
{
    return shape->latency_s + shape->move_s + shape->sum_s + shape->fill_s;
}

static bool has_all_roots(enum plan_op op)
{
    return op == PLAN_ALLGATHER || op == PLAN_REDUCE_SCATTER;
}

/* ---- trees ------------------------------------------------------------------------- */

/* Return the cost of a set of trees in rounds of one kind; move_s is INFINITY if an edge
 * has no route. */
static struct cost_shape set_cost_by(struct costing *costing, const struct tree_set *set)
{
    struct tree_measure measure = tree_costing_measure(&costing->trees, set);
    struct tree_cost cost = tree_measure_cost(&measure, costing->bytes, PLAN_SLICE_BYTES);
    return (struct cost_shape){.rooted = true,
                               .latency_s = cost.latency_s,
                               .move_s = cost.move_s,
                               .sum_s = cost.sum_s,
                               .fill_s = cost.fill_s};
}

static struct cost_shape set_cost(struct costing *costing, const struct plan_tree *trees,
                                  uint32_t count)
{
    struct tree_set set = {trees, count, false};
    struct cost_shape levels = set_cost_by(costing, &set);
    set.in_turn = true;
    if (count != 1 || !isfinite(levels.move_s))
        return levels;
    struct cost_shape turns = set_cost_by(costing, &set);
    return cost_total_s(&turns) < cost_total_s(&levels) ? turns : levels;
}

/* ---- shapes of trees --------------------------------------------------------------- */

/* Return the parent's position for position v > 0; the root has position 0. */
static uint32_t shape_parent(enum shape shape, uint32_t v)
{
    switch (shape) {
    case CHAIN: return v - 1;
    case BINOMIAL: return v - (1u << (31 - __builtin_clz(v)));
    case BINARY: return (v - 1) / 2;
    case FOUR_ARY: return (v - 1) / 4;
    default: return 0;
    }
}

/* Return the leader of member i in the two-level shape: the root if both are at one node,
 * else the first member at i's node. */
static uint32_t leader_of(const struct costing *costing, uint32_t root, uint32_t i)
{
    if (costing->next_to[i] == costing->next_to[root])
        return root;
    for (uint32_t k = 0; k < i; k++)
        if (costing->next_to[k] == costing->next_to[i])
            return k;
    return i;
}

/* Return the member at position v of a shape: in the ring's order for a chain, else by
 * number, both from the root on. */
static uint32_t member_at(const struct costing *costing, enum shape shape, uint32_t root,
                          uint32_t v)
{
    uint32_t first = 0, n = costing->n;
    if (shape != CHAIN)
        return (root + v) % n;
    while (costing->order[first] != root)
        first++;
    return costing->order[(first + v) % n];
}

static void shape_fill(struct costing *costing, enum shape shape, uint32_t root)
{
    for (uint32_t v = 0; v < costing->n; v++) {
        uint32_t i = member_at(costing, shape, root, v);
        if (v == 0)
            costing->parent[i] = GRAPH_NONE;
        else if (shape == TWO_LEVEL)
            costing->parent[i] =
                leader_of(costing, root, i) == i ? root : leader_of(costing, root, i);
        else
            costing->parent[i] = member_at(costing, shape, root, shape_parent(shape, v));
    }
}

static struct cost_shape shape_cost(struct costing *costing, enum shape shape,
                                    uint32_t root)
{
    struct plan_tree tree = {.share = 1, .root = root};
    shape_fill(costing, shape, root);
    if (costing->op != PLAN_REDUCE)
        tree.broadcast_parent = costing->parent;
    if (costing->op != PLAN_BROADCAST)
        tree.reduce_parent = costing->parent;
    struct cost_shape cost = set_cost(costing, &tree, 1);
    cost.name = shape_names[shape];
    cost.root = root;
    return cost;
}

static void shape_add(struct cost_table *table, const struct cost_shape *shape)
{
    if (isfinite(shape->move_s))
        table->shapes[table->shapes_count++] = *shape;
}

static void trees_add(struct costing *costing, uint32_t root, struct cost_table *table)
{
    bool any_root = costing->op == PLAN_ALLREDUCE && costing->n <= ROOTS_TRIED_MAX;
    uint32_t first = any_root ? 0 : root, last = any_root ? costing->n - 1 : root;
    for (enum shape shape = 0; shape < SHAPES; shape++) {
        struct cost_shape best = {.name = "halving-doubling", .move_s = INFINITY};
        for (uint32_t r = first; r <= last; r++) {
            struct cost_shape cost = shape_cost(costing, shape, r);
            if (cost_total_s(&cost) < cost_total_s(&best))
                best = cost;
        }
        shape_add(table, &best);
    }
}

/* ---- shapes of steps --------------------------------------------------------------- */

/* A step in which ranks send to each other at the same time. */
struct step {
    double move;      /* the busiest link's seconds for one byte on each edge */
    double latency_s; /* latency of the slowest edge */
    bool routed;      /* each edge has a route */
};

static void step_begin(struct costing *costing, struct step *step)
{
    *step = (struct step){.routed = true};
    memset(costing->trees.load, 0,
           costing->overlay->links_count * sizeof *costing->trees.load);
}

/* Add the edge between two positions of the order to the step. */
static void step_edge(struct costing *costing, uint32_t from, uint32_t to,
                      struct step *step)
{
    uint32_t n = costing->n, first = costing->first;
    if (!tree_costing_edge(&costing->trees, costing->order[(first + from) % n],
                           costing->order[(first + to) % n], 1, &step->latency_s))
        step->routed = false;
}

/* Add the time of a step with `bytes` on each edge to `cost`. The next step begins with
 * the first slice, so the trip of a slice counts in full only for the last step. Each
 * rank has one flow in and one flow out. */
static void step_add(struct costing *costing, struct step *step, double bytes, bool sums,
                     bool last, struct cost_shape *cost)
{
    const struct tree_overheads *overheads = &costing->overheads;
    double slice = fmin(costing->slice_bytes, bytes);
    double gamma = (sums ? costing->gamma_most : 0) + 2 * overheads->slice_s / slice;
    step->move = tree_costing_busiest(&costing->trees, costing->trees.load);
    double own_s = step->latency_s + 2 * overheads->flow_s;
    double trip_s = slice * (step->move + gamma) + own_s;
    double move_s = step->routed ? bytes * step->move : INFINITY;
    double step_s = fmax(fmax(move_s, bytes * gamma), trip_s);
    if (last)
        step_s = trip_s + (bytes - slice) * fmax(step->move, gamma);
    cost->move_s += move_s;
    if (!step->routed)
        return;
    double more_s = tree_cost_difference(step_s, move_s);
    double latency_s = fmin(own_s, more_s);
    cost->latency_s += latency_s;
    cost->sum_s += tree_cost_difference(more_s, latency_s);
}

static void ring_add(struct costing *costing, struct cost_table *table)
{
    struct cost_shape cost = {.name = "ring"};
    uint32_t n = costing->n, steps = (costing->op == PLAN_ALLREDUCE ? 2 : 1) * (n - 1);
    struct step step;
    if (!costing->ordered)
        return;
    step_begin(costing, &step);
    for (uint32_t k = 0; k < n; k++)
        step_edge(costing, k, (k + 1) % n, &step);
    for (uint32_t k = 0; k < steps; k++)
        step_add(costing, &step, costing->bytes / n,
                 costing->op != PLAN_ALLGATHER && k < n - 1, k + 1 == steps, &cost);
    shape_add(table, &cost);
}

/* Add the step in which `folded` ranks send their tensors to their partners, or, with
 * `back`, receive the result. */
static void fold_add(struct costing *costing, uint32_t folded, bool back,
                     struct cost_shape *cost)
{
    struct step step;
    step_begin(costing, &step);
    for (uint32_t i = 0; i < folded; i++)
        step_edge(costing, 2 * i + !back, 2 * i + back, &step);
    if (folded)
        step_add(costing, &step, costing->bytes, !back, back, cost);
}

/* Add the step in which each of `count` ranks exchanges with the rank at distance 2^k. */
static void exchange_add(struct costing *costing, uint32_t k, uint32_t folded,
                         uint32_t count, bool sums, bool last, struct cost_shape *cost)
{
    struct step step;
    step_begin(costing, &step);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t other = i ^ 1u << k;
        step_edge(costing, i < folded ? 2 * i : i + folded,
                  other < folded ? 2 * other : other + folded, &step);
    }
    step_add(costing, &step, ldexp(costing->bytes, -(int)k - 1), sums, last, cost);
}

static struct cost_shape halving_cost(struct costing *costing)
{
    struct cost_shape cost = {.name = "halving-doubling"};
    uint32_t levels = 31u - (uint32_t)__builtin_clz(costing->n), count = 1u << levels;
    uint32_t folded = costing->n - count;
    fold_add(costing, folded, false, &cost);
    for (uint32_t k = 0; costing->op != PLAN_ALLGATHER && k < levels; k++)
        exchange_add(costing, k, folded, count, true,
                     costing->op == PLAN_REDUCE_SCATTER && k + 1 == levels, &cost);
    for (uint32_t k = levels; costing->op != PLAN_REDUCE_SCATTER && k-- > 0;)
        exchange_add(costing, k, folded, count, false, k == 0 && !folded, &cost);
    fold_add(costing, folded, true, &cost);
    return cost;
}

/* Add halving-doubling from its best first position: the position decides which ranks
 * exchange in the large steps. */
static void halving_add(struct costing *costing, struct cost_table *table)
{
    struct cost_shape best = {.name = "halving-doubling", .move_s = INFINITY};
    uint32_t n = costing->n, firsts = n <= ROOTS_TRIED_MAX ? n : 1;
    if ((n & (n - 1)) != 0 && costing->op != PLAN_ALLREDUCE)
        return;
    for (costing->first = 0; costing->first < firsts; costing->first++) {
        struct cost_shape cost = halving_cost(costing);
        if (cost_total_s(&cost) < cost_total_s(&best))
            best = cost;
    }
    shape_add(table, &best);
}

/* ---- the table --------------------------------------------------------------------- */

static void rates_find(struct costing *costing, struct cost_table *table)
{
    const struct graph *graph = costing->overlay->graph;
    table->sums = (struct sum_rate){.bytes_per_s = INFINITY, .from = "given"};
    for (uint32_t i = 0; i < costing->n; i++) {
        struct sum_rate rate = {.bytes_per_s = table->sum_bytes_per_s, .from = "given"};
        if (!(table->sum_bytes_per_s > 0))
            rate = sum_rate_of(graph, graph->ranks[overlay_rank(costing->overlay, i)]);
        costing->trees.gamma[i] = 1 / rate.bytes_per_s;
        if (i == 0 || rate.bytes_per_s < table->sums.bytes_per_s)
            table->sums = rate;
    }
    costing->gamma_most = tree_costing_most(costing->trees.gamma, costing->n);
}

static tryst_status costing_init(struct costing *costing, struct overlay *overlay,
                                 const struct plan *plan, uint64_t bytes)
{
    uint32_t n = overlay->ranks_count;
    struct arrays *arrays = &costing->arrays;
    *costing = (struct costing){.overlay = overlay,
                                .op = plan->op,
                                .n = n,
                                .bytes = (double)bytes,
                                .slice_bytes = PLAN_SLICE_BYTES};
    costing->parent = arrays_alloc(arrays, n, sizeof *costing->parent);
    costing->next_to = arrays_alloc(arrays, n, sizeof *costing->next_to);
    costing->order = arrays_alloc(arrays, n, sizeof *costing->order);
    tryst_status status =
        tree_costing_init(&costing->trees, overlay, plan->op, plan->trees_count);
    return arrays->status ? arrays->status : status;
}

static void shapes_add(struct costing *costing, uint32_t root, struct cost_table *table)
{
    for (uint32_t i = 0; i < costing->n; i++)
        costing->next_to[i] = overlay_near(costing->overlay, i);
    if (!has_all_roots(costing->op))
        trees_add(costing, root, table);
    if (costing->op != PLAN_BROADCAST && costing->op != PLAN_REDUCE) {
        ring_add(costing, table);
        halving_add(costing, table);
    }
}

static tryst_status table_fill(struct costing *costing, const struct plan *plan,
                               uint32_t root, struct err *err, struct cost_table *table)
{
    double ring;
    tryst_status status =
        plan_ring(costing->overlay, plan->op, root, err, &ring, costing->order);
    if (status)
        return status;
    costing->ordered = isfinite(ring);
    rates_find(costing, table);
    table->shapes[0] = set_cost(costing, plan->trees, plan->trees_count);
    table->shapes[0].name = "plan";
    table->shapes[0].root = root;
    table->shapes_count = 1;
    table->wins = 0;
    if (costing->n > 1)
        shapes_add(costing, root, table);
    for (uint32_t s = 1; s < table->shapes_count; s++)
        if (cost_total_s(&table->shapes[s]) < cost_total_s(&table->shapes[table->wins]))
            table->wins = s;
    table->latency_unknown = costing->trees.latency_unknown;
    return TRYST_OK;
}

tryst_status plan_cost(struct overlay *overlay, const struct plan *plan, uint32_t root,
                       struct err *err, struct cost_table *table)
{
    struct costing costing;
    tryst_status status = costing_init(&costing, overlay, plan, table->bytes);
    status = status ? err_set(err, status, "cannot predict times: out of memory")
                    : table_fill(&costing, plan, root, err, table);
    tree_costing_free(&costing.trees);
    arrays_free(&costing.arrays);
    return status;
}

/* ---- rivals of sizes --------------------------------------------------------------- */

static void rivals_update(const struct cost_table *table, struct cost_rivals *rivals)
{
    for (uint32_t s = 0; s < table->shapes_count; s++) {
        bool ring = strcmp(table->shapes[s].name, "ring") == 0;
        double *least_s = ring ? &rivals->ring_s : &rivals->halving_s;
        *least_s = fmin(*least_s, cost_total_s(&table->shapes[s]));
    }
}

static void rivals_find(struct costing *costing, uint64_t bytes,
                        struct cost_rivals *rivals)
{
    *rivals = (struct cost_rivals){INFINITY, INFINITY};
    costing->bytes = (double)bytes;
    for (uint32_t slice = PLAN_SLICE_BYTES_MIN; slice <= PLAN_SLICE_BYTES_MAX;
         slice *= 2) {
        struct cost_table table = {.bytes = bytes};
        costing->slice_bytes = slice;
        ring_add(costing, &table);
        halving_add(costing, &table);
        rivals_update(&table, rivals);
    }
}

tryst_status plan_rivals(struct overlay *overlay, const struct plan *plan, uint32_t root,
                         double sum_bytes_per_s, struct err *err,
                         struct cost_rivals rivals_p[PLAN_SIZES])
{
    struct costing costing;
    double ring = INFINITY;
    tryst_status status = costing_init(&costing, overlay, plan, 0);
    bool steps = plan->op != PLAN_BROADCAST && plan->op != PLAN_REDUCE && costing.n > 1;
    if (!status)
        status = plan_ring(overlay, plan->op, root, err, &ring, costing.order);
    if (!status) {
        plan_sizes_gamma(overlay, sum_bytes_per_s, costing.trees.gamma);
        costing.gamma_most = tree_costing_most(costing.trees.gamma, costing.n);
        costing.ordered = isfinite(ring);
        costing.overheads = plan_size_overheads();
    }
    for (uint32_t s = 0; !status && s < PLAN_SIZES; s++) {
        rivals_p[s] = (struct cost_rivals){INFINITY, INFINITY};
        if (steps)
            rivals_find(&costing, plan_size_steps[s].bytes, &rivals_p[s]);
    }
    tree_costing_free(&costing.trees);
    arrays_free(&costing.arrays);
    return status ? err_set(err, status, "cannot predict times: out of memory")
                  : TRYST_OK;
}
