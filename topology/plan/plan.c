/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans: from an overlay to trees, shares and their proof (see plan.h).
 *
 * One idea: trees that are grown greedily often meet the bound; column generation finds
 * the optimum, and multiplicative weights come near it where the links are too many;
 * loads, time and bound of the plan are then recomputed from trees and prices alone, as a
 * checker would do it.
 */
#include "plan.h"

#include <math.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/text/hash.h"
#include "plan_columns.h"
#include "plan_mwu.h"
#include "plan_seed.h"
#include "plan_simplify.h"
#include "topology/routes/overlay_price.h"

/* The gap that gap_max 0 means; rounding decides whether a smaller one is reached. */
#define GAP_EXACT 1e-9
/* The gap at which multiplicative weights stop. */
#define GAP_WEIGHTS 1e-4
/* The gap, or the calls of the oracle, at which they stop before columns are generated:
 * after more calls these would have been faster. */
#define GAP_START   1e-3
#define CALLS_START 300
/* Calls of the oracle: CALL_WORK ÷ (ranks² + rows), within these limits. */
#define CALL_WORK 1.6e6
#define CALLS_MIN 200
#define CALLS_MAX 2000
/* Calls of the oracle to price the classes of links. */
#define CLASSES_CALLS 200

void plan_close(struct plan *plan)
{
    if (plan)
        arrays_free(&plan->arrays);
    mem_free(plan);
}

/* --- solve -------------------------------------------------------------------------- */

/* Return how many calls of the oracle the weights may make: half a second's worth at n =
 * 64. Counted, not timed, so that plans repeat. */
static uint32_t calls_max(const struct plan_work *work)
{
    double one = (double)work->ranks * work->ranks + work->rows;
    return (uint32_t)fmin(fmax(CALL_WORK / one, CALLS_MIN), CALLS_MAX);
}

/* Return the time (scaled) at which the gap to the bound is `gap`, so solving may
 * stop. */
static double time_enough(const struct plan_work *work, double gap)
{
    return work->bound / (1 - gap);
}

/* Solve for prices of the classes of links, which are few rows, and price the links by
 * them: a few calls then give a bound of the whole problem. */
static tryst_status classes_price(struct plan_work *work,
                                  const struct plan_params *params)
{
    struct plan_work *classes;
    tryst_status status = plan_work_open(work->overlay, params, true, NULL, &classes);
    if (status)
        return status;
    if (classes->rows && classes->rows <= work->rows / 4) {
        status = plan_columns(classes, GAP_EXACT, CLASSES_CALLS);
        plan_work_price(classes, classes->best_row_price);
        plan_work_price_links(work, classes->price);
        work->priced_count += classes->priced_count;
    }
    plan_work_close(classes);
    return status;
}

/* Start with weights, which find few and even trees; generate columns where the rows are
 * few; use weights again where they are many, or where the pivots were used up. */
static tryst_status shares_solve(struct plan_work *work, double gap)
{
    double gap_weights = fmax(gap, GAP_WEIGHTS);
    tryst_status status = plan_mwu(work, fmax(gap, GAP_START), CALLS_START);
    if (!status)
        status = plan_columns(work, gap, CALLS_MAX);
    if (status || plan_work_time(work, NULL) <= time_enough(work, gap_weights))
        return status;
    return plan_mwu(work, gap_weights, calls_max(work));
}

static tryst_status solve(struct plan_work *work, const struct plan_params *params)
{
    double gap = params->gap_max > 0 ? params->gap_max : GAP_EXACT;
    bool found = false;
    tryst_status status = classes_price(work, params);
    if (!status)
        status = plan_seed(work, INFINITY, time_enough(work, gap), 0, &found);
    uint64_t most =
        params->trees_max ? (uint64_t)params->trees_max * work->groups : UINT32_MAX;
    bool few = !status && found && plan_work_time(work, NULL) <= time_enough(work, gap) &&
               plan_work_used(work) <= most; /* the seed's trees meet the bound */
    if (!status && !few)
        status = shares_solve(work, gap);
    return status ? status : plan_simplify(work, params, time_enough(work, gap), few);
}

/* --- the plan's parts --------------------------------------------------------------- */

static int column_order(const struct plan_column *a, const struct plan_column *b)
{
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    if (a->share != b->share)
        return a->share > b->share ? -1 : 1;
    if (a->root != b->root)
        return a->root < b->root ? -1 : 1;
    return a->hash < b->hash ? -1 : a->hash > b->hash;
}

/* Sort the columns in use by group, then by share, largest first. They are few: insertion
 * sort. */
static uint32_t columns_sort(const struct plan_work *work, uint32_t *order)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < work->columns_count; i++) {
        const struct plan_column *column = &work->columns[i];
        uint32_t at = count;
        if (!(column->share > 0))
            continue;
        for (; at > 0 && column_order(column, &work->columns[order[at - 1]]) < 0; at--)
            order[at] = order[at - 1];
        order[at] = i;
        count++;
    }
    return count;
}

static tryst_status trees_copy(struct plan *plan, struct plan_work *work)
{
    uint32_t *order = arrays_alloc(&work->arrays, work->columns_count, sizeof *order);
    if (!order)
        return TRYST_E_NOMEM;
    uint32_t count = columns_sort(work, order), n = work->ranks;
    plan->trees = arrays_alloc(&plan->arrays, count, sizeof *plan->trees);
    for (; plan->trees && plan->trees_count < count; plan->trees_count++) {
        const struct plan_column *column = &work->columns[order[plan->trees_count]];
        plan->trees[plan->trees_count] = (struct plan_tree){
            .share = column->share,
            .root = column->root,
            .broadcast_parent = arrays_copy(&plan->arrays, column->down, n, sizeof n),
            .reduce_parent = arrays_copy(&plan->arrays, column->up, n, sizeof n),
            .depth = column->depth};
    }
    return plan->arrays.status;
}

static void half_load(struct plan *plan, struct overlay *overlay, const uint32_t *parent,
                      bool down, double amount)
{
    for (uint32_t i = 0; parent && i < plan->ranks_count; i++)
        if (parent[i] != GRAPH_NONE)
            overlay_load(overlay, down ? parent[i] : i, down ? i : parent[i], amount,
                         plan->load);
}

/* Compute loads and the time from the trees alone. */
static void loads_set(struct plan *plan, struct overlay *overlay, double weight)
{
    for (uint32_t i = 0; i < plan->trees_count; i++) {
        const struct plan_tree *tree = &plan->trees[i];
        half_load(plan, overlay, tree->broadcast_parent, true, tree->share * weight);
        half_load(plan, overlay, tree->reduce_parent, false, tree->share * weight);
    }
    for (uint32_t i = 0; i < plan->links_count; i++)
        plan->s_per_byte = fmax(plan->s_per_byte, plan->load[i] / overlay->capacity[i]);
}

/* Return the bound that prices of links prove, from each root's cheapest tree, without
 * merged rows; -1: out of memory. */
static double bound_proved(struct plan_work *work, const double *price)
{
    double least = INFINITY, sum = 0;
    overlay_costs(work->overlay, price, work->cost);
    double *cost = arrays_alloc(&work->arrays, work->ranks, sizeof *cost);
    if (!cost)
        return -1;
    struct arborescence *halves[2] = {work->has_down ? work->down : NULL,
                                      work->has_up ? (work->up ? work->up : work->down)
                                                   : NULL};
    for (int half = 0; half < 2; half++) {
        if (!halves[half])
            continue;
        arborescence_contract(halves[half], work->cost, half == 1);
        for (uint32_t root = 0; root < work->ranks; root++)
            cost[root] += arborescence_tree(halves[half], root, work->parent[0]);
    }
    for (uint32_t root = 0; root < work->ranks; root++) {
        least = fmin(least, cost[root]);
        sum += cost[root];
    }
    double bound = least;
    if (work->all_roots)
        bound = sum / work->ranks;
    else if (work->op != PLAN_ALLREDUCE)
        bound = cost[work->root];
    return bound;
}

static tryst_status proof_set(struct plan *plan, struct plan_work *work)
{
    const struct overlay *overlay = work->overlay;
    double sum = 0;
    for (uint32_t i = 0; i < plan->links_count; i++) {
        uint32_t row = work->link_row[i];
        plan->price[i] =
            work->best_row_price[row] / (work->row_links[row] * overlay->capacity[i]);
        sum += plan->price[i] * overlay->capacity[i];
    }
    for (uint32_t i = 0; sum > 0 && i < plan->links_count; i++)
        plan->price[i] /= sum;
    double bound = bound_proved(work, plan->price);
    if (bound < 0)
        return TRYST_E_NOMEM;
    /* rounding may put the bound above the time */
    plan->bound_s_per_byte = fmin(bound, plan->s_per_byte);
    return TRYST_OK;
}

bool plan_half_same(const uint32_t *a, const uint32_t *b, uint32_t n)
{
    return (!a && !b) || (a && b && memcmp(a, b, n * sizeof *a) == 0);
}

bool plan_tree_same(const struct plan_tree *a, const struct plan_tree *b, uint32_t n)
{
    return a->root == b->root &&
           plan_half_same(a->broadcast_parent, b->broadcast_parent, n) &&
           plan_half_same(a->reduce_parent, b->reduce_parent, n);
}

void plan_tree_hash(struct hash_stream *stream, const struct plan_tree *tree, uint32_t n)
{
    hash_stream_add(stream, &tree->share, sizeof tree->share);
    hash_stream_add(stream, &tree->root, sizeof tree->root);
    if (tree->broadcast_parent)
        hash_stream_add(stream, tree->broadcast_parent, n * sizeof n);
    if (tree->reduce_parent)
        hash_stream_add(stream, tree->reduce_parent, n * sizeof n);
}

tryst_status plan_digest(struct plan *plan)
{
    struct hash_stream *stream;
    tryst_status status = hash_stream_open(&stream);
    if (status)
        return status;
    uint32_t head[3] = {(uint32_t)plan->op, plan->ranks_count, plan->trees_count};
    hash_stream_add(stream, head, sizeof head);
    for (uint32_t i = 0; i < plan->trees_count; i++)
        plan_tree_hash(stream, &plan->trees[i], plan->ranks_count);
    plan->digest = hash_stream_digest(stream).low;
    hash_stream_close(stream);
    return TRYST_OK;
}

static tryst_status plan_make(struct plan_work *work, struct plan **plan_p)
{
    struct plan *plan = mem_zalloc(sizeof *plan);
    if (!plan)
        return TRYST_E_NOMEM;
    plan->op = work->op;
    plan->ranks_count = work->ranks;
    plan->links_count = work->links;
    plan->iterations = work->priced_count;
    plan->columns = work->columns_count;
    memcpy(plan->steps, work->steps, sizeof plan->steps);
    plan->load = arrays_alloc(&plan->arrays, work->links, sizeof *plan->load);
    plan->price = arrays_alloc(&plan->arrays, work->links, sizeof *plan->price);
    plan->links = arrays_copy(&plan->arrays, work->overlay->links, work->links,
                              sizeof *plan->links);
    tryst_status status = trees_copy(plan, work);
    if (!status) {
        loads_set(plan, work->overlay, work->weight);
        plan->steps[PLAN_ROUNDED].s_per_byte = plan->s_per_byte;
        status = proof_set(plan, work);
    }
    if (!status)
        status = plan_digest(plan);
    if (status)
        plan_close(plan);
    else
        *plan_p = plan;
    return status;
}

tryst_status plan_open(struct overlay *overlay, const struct plan_params *params,
                       struct err *err, struct plan **plan_p)
{
    struct plan_work *work;
    if (params->op >= PLAN_OPS || params->root >= overlay->ranks_count)
        return err_set(err, TRYST_E_INVALID,
                       "cannot plan operation %d with root %u: the group has %u ranks, "
                       "counted from 0",
                       (int)params->op, params->root, overlay->ranks_count);
    tryst_status status = plan_work_open(overlay, params, false, err, &work);
    if (status)
        return status;
    status = solve(work, params);
    if (!status)
        status = plan_make(work, plan_p);
    plan_work_close(work);
    return status ? err_set(err, status, "cannot plan for %u ranks: out of memory",
                            overlay->ranks_count)
                  : TRYST_OK;
}

/* ---- steps ------------------------------------------------------------------------- */

const char *plan_step_name(enum plan_step_kind kind)
{
    static const char *const names[PLAN_STEPS] = {[PLAN_SOLVED] = "solved",
                                                  [PLAN_FEWER] = "fewer trees",
                                                  [PLAN_SHALLOWER] = "shallower",
                                                  [PLAN_ROUNDED] = "round shares"};
    return names[kind];
}

/* Return the time to fill a tree, in slice times (a slice's bytes × the plan's seconds
 * per byte): its levels after the first ÷ its part of the plan's rate. 0 for a share
 * below PLAN_SHARE_MIN. */
static double fill_slices(enum plan_op op, uint32_t ranks, uint32_t depth, double share)
{
    bool all_roots = op == PLAN_ALLGATHER || op == PLAN_REDUCE_SCATTER;
    double levels = op == PLAN_ALLREDUCE ? 2.0 * depth : depth;
    double part = all_roots ? share / ranks : share;
    return share < PLAN_SHARE_MIN || levels < 1 ? 0 : (levels - 1) / part;
}

void plan_step_add(struct plan_step *step, enum plan_op op, uint32_t ranks,
                   uint32_t depth, double share)
{
    step->trees_count++;
    step->depth = depth > step->depth ? depth : step->depth;
    step->fill = fmax(step->fill, fill_slices(op, ranks, depth, share));
}

double plan_step_fill_s(const struct plan_step *step)
{
    return step->fill * PLAN_SLICE_BYTES * step->s_per_byte;
}
