/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows, columns and the oracle of a plan (see plan_work.h).
 */
#include "plan_work.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/os/clock.h"
#include "core/os/random.h"
#include "core/text/hash.h"
#include "plan_class.h"
#include "topology/routes/overlay_price.h"

#define NONE GRAPH_NONE

/* --- wires: pairs of links in opposite directions ----------------------------------- */

struct wire_end {
    uint32_t low, high; /* the wire's two nodes */
    bool forth;         /* from low to high */
    uint32_t link;
};

static int wire_end_order(const void *left, const void *right)
{
    const struct wire_end *a = left, *b = right;
    if (a->low != b->low)
        return a->low < b->low ? -1 : 1;
    if (a->high != b->high)
        return a->high < b->high ? -1 : 1;
    if (a->forth != b->forth)
        return a->forth ? -1 : 1;
    return a->link < b->link ? -1 : a->link > b->link;
}

/* Pair the links between two nodes: the k-th link forth mirrors the k-th link back.
 * Returns false if their numbers or capacities differ. */
static bool wire_pair(const struct overlay *overlay, const struct wire_end *run,
                      uint32_t length, uint32_t *mirror)
{
    for (uint32_t i = 0; i < length / 2; i++) {
        uint32_t a = run[i].link, b = run[i + length / 2].link;
        if (!run[i].forth || run[i + length / 2].forth ||
            overlay->capacity[a] != overlay->capacity[b])
            return false;
        mirror[a] = b;
        mirror[b] = a;
    }
    return length % 2 == 0;
}

static bool mirror_find(const struct overlay *overlay, struct wire_end *ends,
                        uint32_t *mirror)
{
    uint32_t count = overlay->links_count;
    for (uint32_t i = 0; i < count; i++) {
        const struct graph_link *link = &overlay->graph->links[overlay->links[i]];
        bool forth = link->from < link->to;
        ends[i] = (struct wire_end){.low = forth ? link->from : link->to,
                                    .high = forth ? link->to : link->from,
                                    .forth = forth,
                                    .link = i};
    }
    qsort(ends, count, sizeof *ends, wire_end_order);
    for (uint32_t first = 0, next; first < count; first = next) {
        for (next = first + 1; next < count && ends[next].low == ends[first].low &&
                               ends[next].high == ends[first].high;
             next++)
            ;
        if (!wire_pair(overlay, ends + first, next - first, mirror))
            return false;
    }
    return true;
}

/* True if the routes back load the mirrors of the links that the routes forth load, as
 * tested with random prices. A wrong answer would cost a worse plan, not a false
 * bound. */
static bool routes_mirrored(struct plan_work *work, const uint32_t *mirror, double *other)
{
    uint32_t n = work->ranks;
    struct random random;
    random_seed(&random, 1);
    for (uint32_t i = 0; i < work->links; i++)
        work->price[i] = 1 + random_unit(&random);
    overlay_costs(work->overlay, work->price, work->cost);
    for (uint32_t i = 0; i < work->links; i++)
        work->load[mirror[i]] = work->price[i];
    overlay_costs(work->overlay, work->load, other);
    bool same = true;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            double a = work->cost[i * n + j], b = other[j * n + i];
            same &= a == b || fabs(a - b) <= 1e-9 * a;
        }
    return same;
}

/* Number the rows: one for each link, wire (if mirrored) or class (if averaged). */
static tryst_status rows_make(struct plan_work *work)
{
    uint32_t count = work->links;
    struct arrays scratch = {0};
    struct wire_end *ends = arrays_alloc(&scratch, count, sizeof *ends);
    uint32_t *mirror = arrays_alloc(&scratch, count, sizeof *mirror);
    double *other =
        arrays_alloc(&scratch, (size_t)work->ranks * work->ranks, sizeof *other);
    tryst_status status = scratch.status;
    if (!status)
        work->mirrored = work->op == PLAN_ALLREDUCE && count > 0 &&
                         mirror_find(work->overlay, ends, mirror) &&
                         routes_mirrored(work, mirror, other);
    for (uint32_t i = 0; !status && !work->averaged && i < count; i++) {
        bool second = work->mirrored && mirror[i] < i;
        work->link_row[i] = second ? work->link_row[mirror[i]] : work->rows++;
    }
    arrays_free(&scratch);
    if (!status && work->averaged)
        status = plan_classes(work, work->link_row, &work->rows);
    for (uint32_t i = 0; !status && i < count; i++)
        work->row_links[work->link_row[i]]++;
    return status;
}

/* --- open and close ----------------------------------------------------------------- */

void plan_work_close(struct plan_work *work)
{
    if (!work)
        return;
    arborescence_close(work->down);
    arborescence_close(work->up);
    mem_free(work->columns);
    mem_free(work->index);
    arrays_free(&work->arrays);
    mem_free(work);
}

static void op_set(struct plan_work *work, const struct plan_params *params)
{
    work->op = params->op;
    work->root = params->root;
    work->has_down = params->op == PLAN_ALLREDUCE || params->op == PLAN_BROADCAST ||
                     params->op == PLAN_ALLGATHER;
    work->has_up = params->op == PLAN_ALLREDUCE || params->op == PLAN_REDUCE ||
                   params->op == PLAN_REDUCE_SCATTER;
    work->all_roots = params->op == PLAN_ALLGATHER || params->op == PLAN_REDUCE_SCATTER;
    work->groups = work->all_roots ? work->ranks : 1;
    work->weight = work->all_roots ? 1.0 / work->ranks : 1;
    work->scale = 1;
}

static tryst_status room_make(struct plan_work *work)
{
    size_t n = work->ranks, links = work->links;
    work->link_row = arrays_alloc(&work->arrays, links, sizeof *work->link_row);
    work->row_links = arrays_alloc(&work->arrays, links, sizeof *work->row_links);
    work->price = arrays_alloc(&work->arrays, links, sizeof *work->price);
    work->load = arrays_alloc(&work->arrays, links, sizeof *work->load);
    work->row_value = arrays_alloc(&work->arrays, links, sizeof *work->row_value);
    work->best_row_price =
        arrays_alloc(&work->arrays, links, sizeof *work->best_row_price);
    work->cost = arrays_alloc(&work->arrays, n * n, sizeof *work->cost);
    work->parent[0] = arrays_alloc(&work->arrays, n, sizeof *work->parent[0]);
    work->parent[1] = arrays_alloc(&work->arrays, n, sizeof *work->parent[1]);
    work->walk = arrays_alloc(&work->arrays, 3 * n + 1, sizeof *work->walk);
    return work->arrays.status;
}

/* Scale times so that they are 1 or little more: divide by the better bound of two
 * guesses, equal prices of rows, or of bytes (exact where every link is full, as in a
 * mesh). */
static void scale_set(struct plan_work *work)
{
    double sum = 0;
    for (uint32_t i = 0; i < work->rows; i++)
        work->row_value[i] = 1.0 / work->rows;
    plan_work_price(work, work->row_value);
    memset(work->row_value, 0, work->rows * sizeof *work->row_value);
    for (uint32_t i = 0; i < work->links; i++) {
        work->row_value[work->link_row[i]] += work->overlay->capacity[i];
        sum += work->overlay->capacity[i];
    }
    for (uint32_t i = 0; i < work->rows; i++)
        work->row_value[i] /= sum;
    plan_work_price(work, work->row_value);
    if (work->bound > 0) {
        work->scale = 1 / work->bound;
        work->bound = 1;
    }
}

tryst_status plan_work_open(struct overlay *overlay, const struct plan_params *params,
                            bool averaged, struct err *err, struct plan_work **work_p)
{
    struct plan_work *work = mem_zalloc(sizeof *work);
    if (!work)
        return err_set(err, TRYST_E_NOMEM, "cannot plan for %u ranks: out of memory",
                       overlay->ranks_count);
    work->overlay = overlay;
    work->averaged = averaged;
    work->ranks = overlay->ranks_count;
    work->links = overlay->links_count;
    op_set(work, params);
    tryst_status status = room_make(work);
    if (!status)
        status = rows_make(work);
    if (!status && work->has_down)
        status = arborescence_open(work->ranks, &work->down);
    if (!status && work->has_up && !work->mirrored)
        status = arborescence_open(work->ranks, &work->up);
    if (status) {
        plan_work_close(work);
        return err_set(err, status, "cannot plan for %u ranks: out of memory",
                       overlay->ranks_count);
    }
    if (params->budget_ns)
        work->end_ns = clock_monotonic_ns() + params->budget_ns;
    scale_set(work);
    *work_p = work;
    return TRYST_OK;
}

bool plan_work_late(const struct plan_work *work)
{
    return work->end_ns && clock_monotonic_ns() >= work->end_ns;
}

/* --- the oracle --------------------------------------------------------------------- */

/* Return the cost of the cheapest tree of `root`, times weight and scale. */
static double root_cost(const struct plan_work *work, uint32_t root)
{
    double cost = 0;
    if (work->has_down)
        cost += arborescence_cost(work->down, root);
    if (work->mirrored)
        return 2 * cost * work->scale;
    if (work->has_up)
        cost += arborescence_cost(work->up, root);
    return cost * work->weight * work->scale;
}

uint32_t plan_work_best_root(const struct plan_work *work, uint32_t group)
{
    if (work->all_roots)
        return group;
    if (work->op != PLAN_ALLREDUCE)
        return work->root;
    uint32_t best = 0;
    double least = root_cost(work, 0);
    for (uint32_t root = 1; root < work->ranks; root++) {
        double cost = root_cost(work, root);
        if (cost < least * (1 - 1e-12)) { /* by more than rounding */
            least = cost;
            best = root;
        }
    }
    return best;
}

static double bound_now(const struct plan_work *work)
{
    double bound = 0;
    for (uint32_t group = 0; group < work->groups; group++)
        bound += root_cost(work, plan_work_best_root(work, group));
    return bound;
}

double plan_work_price_links(struct plan_work *work, const double *price)
{
    double sum = 0, *row_price = work->row_value;
    memset(row_price, 0, work->rows * sizeof *row_price);
    for (uint32_t i = 0; i < work->links; i++) {
        double value = price[i] * work->overlay->capacity[i];
        row_price[work->link_row[i]] += value;
        sum += value;
    }
    for (uint32_t i = 0; i < work->rows; i++)
        row_price[i] /= sum;
    return plan_work_price(work, row_price);
}

double plan_work_price(struct plan_work *work, const double *row_price)
{
    for (uint32_t i = 0; i < work->links; i++) {
        uint32_t row = work->link_row[i];
        work->price[i] =
            row_price[row] / (work->row_links[row] * work->overlay->capacity[i]);
    }
    overlay_costs(work->overlay, work->price, work->cost);
    bool connected = true;
    if (work->down)
        connected &= arborescence_contract(work->down, work->cost, false);
    if (work->up)
        connected &= arborescence_contract(work->up, work->cost, true);
    assert(connected); /* overlay_open checks it */
    work->priced_count++;
    double bound = bound_now(work);
    if (bound > work->bound) {
        work->bound = bound;
        memcpy(work->best_row_price, row_price, work->rows * sizeof *row_price);
    }
    return bound;
}

/* --- trees -------------------------------------------------------------------------- */

/* Return the depth of the tree, or NONE if the parents do not all lead to the root.
 * Writes each rank's depth to `depth`; `chain` is scratch. */
static uint32_t tree_depth(const uint32_t *parent, uint32_t root, uint32_t n,
                           uint32_t *depth, uint32_t *chain)
{
    uint32_t most = 0;
    memset(depth, 0xff, n * sizeof *depth);
    depth[root] = 0;
    if (parent[root] != NONE)
        return NONE;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t length = 0, at = i;
        for (; depth[at] == NONE; at = parent[at]) {
            if (parent[at] >= n || length > n)
                return NONE;
            chain[length++] = at;
        }
        uint32_t above = depth[at];
        while (length > 0)
            depth[chain[--length]] = ++above;
        most = above > most ? above : most;
    }
    return most;
}

/* Return the deepest rank, the lowest of equals. */
static uint32_t farthest(const uint32_t *depth, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (depth[i] > depth[best])
            best = i;
    return best;
}

/* Reverse the edges on the way to the old root, so that `root` becomes the root. */
static void tree_reroot(uint32_t *parent, uint32_t root)
{
    uint32_t above = NONE;
    assert(parent);
    for (uint32_t at = root; at != NONE;) {
        uint32_t next = parent[at];
        parent[at] = above;
        above = at;
        at = next;
    }
}

/* Root an undirected tree in the middle of a longest path, where it is shallowest.
 * Returns the root. */
static uint32_t tree_centre(struct plan_work *work, uint32_t *parent, uint32_t root)
{
    uint32_t n = work->ranks, *depth = work->walk, *chain = depth + n;
    assert(parent);
    tree_depth(parent, root, n, depth, chain);
    uint32_t end = farthest(depth, n);
    tree_reroot(parent, end);
    tree_depth(parent, end, n, depth, chain);
    uint32_t at = farthest(depth, n);
    for (uint32_t steps = depth[at] / 2; steps > 0; steps--)
        at = parent[at];
    tree_reroot(parent, at);
    return at;
}

double plan_column_cost(const struct plan_column *column, const double *row_price)
{
    double cost = 0;
    for (uint32_t i = 0; i < column->values_count; i++)
        cost += column->values[i] * row_price[column->rows[i]];
    return cost;
}

/* --- the pool ----------------------------------------------------------------------- */

static uint64_t tree_hash(uint32_t root, const uint32_t *down, const uint32_t *up,
                          uint32_t n)
{
    uint64_t part[3] = {root, 0, 0};
    if (down)
        part[1] = hash_bytes(down, n * sizeof *down);
    if (up)
        part[2] = hash_bytes(up, n * sizeof *up);
    return hash_bytes(part, sizeof part);
}

static tryst_status index_grow(struct plan_work *work)
{
    uint32_t room = work->index_room ? 2 * work->index_room : 256;
    uint32_t *index = mem_zalloc_array(room, sizeof *index);
    if (!index)
        return TRYST_E_NOMEM;
    for (uint32_t i = 0; i < work->columns_count; i++) {
        uint32_t at = (uint32_t)work->columns[i].hash & (room - 1);
        while (index[at])
            at = (at + 1) & (room - 1);
        index[at] = i + 1;
    }
    mem_free(work->index);
    work->index = index;
    work->index_room = room;
    return TRYST_OK;
}

/* Find the item of `index` that has this hash, or the free item where it belongs. */
static uint32_t *index_find(struct plan_work *work, uint64_t hash)
{
    uint32_t at = (uint32_t)hash & (work->index_room - 1);
    while (work->index[at] && work->columns[work->index[at] - 1].hash != hash)
        at = (at + 1) & (work->index_room - 1);
    return &work->index[at];
}

static void load_tree(struct plan_work *work, const uint32_t *parent, bool down)
{
    for (uint32_t i = 0; parent && i < work->ranks; i++)
        if (parent[i] != NONE)
            overlay_load(work->overlay, down ? parent[i] : i, down ? i : parent[i], 1,
                         work->load);
}

static tryst_status column_values(struct plan_work *work, struct plan_column *column)
{
    uint32_t count = 0;
    memset(work->load, 0, work->links * sizeof *work->load);
    memset(work->row_value, 0, work->rows * sizeof *work->row_value);
    load_tree(work, column->down, true);
    load_tree(work, column->up, false);
    for (uint32_t i = 0; i < work->links; i++) {
        double value =
            work->load[i] / work->overlay->capacity[i] * work->weight * work->scale;
        double *most = &work->row_value[work->link_row[i]];
        if (work->averaged)
            *most += value / work->row_links[work->link_row[i]];
        else
            *most = value > *most ? value : *most;
    }
    for (uint32_t i = 0; i < work->rows; i++)
        count += work->row_value[i] > 0;
    column->rows = arrays_alloc(&work->arrays, count, sizeof *column->rows);
    column->values = arrays_alloc(&work->arrays, count, sizeof *column->values);
    if (!column->rows || !column->values)
        return TRYST_E_NOMEM;
    for (uint32_t i = 0; i < work->rows; i++)
        if (work->row_value[i] > 0) {
            column->rows[column->values_count] = i;
            column->values[column->values_count++] = work->row_value[i];
        }
    return TRYST_OK;
}

static tryst_status column_fill(struct plan_work *work, const uint32_t *down,
                                const uint32_t *up, struct plan_column *column)
{
    size_t n = work->ranks;
    column->down = arrays_copy(&work->arrays, down, n, sizeof *down);
    column->up =
        up == down ? column->down : arrays_copy(&work->arrays, up, n, sizeof *up);
    return work->arrays.status ? TRYST_E_NOMEM : column_values(work, column);
}

static tryst_status columns_room(struct plan_work *work)
{
    if (!mem_reserve(&work->columns, &work->columns_room, (size_t)work->columns_count + 1,
                     sizeof *work->columns))
        return TRYST_E_NOMEM;
    return 2 * work->columns_count >= work->index_room ? index_grow(work) : TRYST_OK;
}

/* Put checked trees into the pool, or find them there by their hash. A mirrored tree is
 * rooted at its centre already. */
static tryst_status column_put(struct plan_work *work, uint32_t root, uint32_t depth,
                               const uint32_t *down, const uint32_t *up,
                               uint32_t *column_p)
{
    tryst_status status = columns_room(work);
    if (status)
        return status;
    uint64_t hash = tree_hash(root, down, up, work->ranks);
    uint32_t *slot = index_find(work, hash);
    if (!*slot) {
        struct plan_column *column = &work->columns[work->columns_count++];
        *column = (struct plan_column){.group = work->all_roots ? root : 0,
                                       .root = root,
                                       .depth = depth,
                                       .hash = hash};
        *slot = work->columns_count;
        status = column_fill(work, down, up, column);
        if (status)
            return status; /* the plan fails: the incomplete column is never read */
    }
    *column_p = *slot - 1;
    return TRYST_OK;
}

/* True if the overlay has each edge of the tree, by the costs of the last pricing. */
static bool edges_exist(const struct plan_work *work, const uint32_t *parent, bool down)
{
    size_t n = work->ranks;
    for (size_t i = 0; parent && i < n; i++)
        if (parent[i] != NONE &&
            !isfinite(work->cost[down ? parent[i] * n + i : i * n + parent[i]]))
            return false;
    return true;
}

tryst_status plan_work_add(struct plan_work *work, uint32_t root, const uint32_t *down,
                           const uint32_t *up, uint32_t *column_p)
{
    uint32_t n = work->ranks, *depth = work->walk, *chain = depth + n, deep = 0;
    if (root >= n || !!down != work->has_down || !!up != work->has_up)
        return TRYST_E_INVALID;
    if (!work->all_roots && work->op != PLAN_ALLREDUCE && root != work->root)
        return TRYST_E_INVALID;
    const uint32_t *halves[2] = {down, up};
    for (int half = 0; half < 2; half++) {
        if (!halves[half])
            continue;
        uint32_t least = tree_depth(halves[half], root, n, depth, chain);
        if (least == NONE || !edges_exist(work, halves[half], half == 0))
            return TRYST_E_INVALID;
        deep = least > deep ? least : deep;
    }
    assert(!work->mirrored || (down && up));
    if (work->mirrored && (down == up || !memcmp(down, up, n * sizeof *down))) {
        if (down != work->parent[0])
            memcpy(work->parent[0], down, n * sizeof *down);
        down = up = work->parent[0];
        root = tree_centre(work, work->parent[0], root);
        deep = tree_depth(down, root, n, depth, chain);
    }
    return column_put(work, root, deep, down, up, column_p);
}

tryst_status plan_work_add_cheapest(struct plan_work *work, uint32_t root,
                                    uint32_t *column_p)
{
    const uint32_t *down = NULL, *up = NULL;
    if (work->has_down) {
        arborescence_tree(work->down, root, work->parent[0]);
        down = work->parent[0];
    }
    if (work->mirrored)
        up = down;
    else if (work->has_up) {
        arborescence_tree(work->up, root, work->parent[1]);
        up = work->parent[1];
    }
    return plan_work_add(work, root, down, up, column_p);
}

uint32_t plan_work_used(const struct plan_work *work)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < work->columns_count; i++)
        count += work->columns[i].share > 0;
    return count;
}

double plan_work_time(struct plan_work *work, double *value_p)
{
    double *value = value_p ? value_p : work->row_value;
    double most = 0;
    memset(value, 0, work->rows * sizeof *value);
    for (uint32_t i = 0; i < work->columns_count; i++) {
        const struct plan_column *column = &work->columns[i];
        for (uint32_t k = 0; column->share > 0 && k < column->values_count; k++)
            value[column->rows[k]] += column->share * column->values[k];
    }
    for (uint32_t i = 0; i < work->rows; i++)
        most = value[i] > most ? value[i] : most;
    return most;
}
