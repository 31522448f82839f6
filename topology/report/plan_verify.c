/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a plan without the solver; see plan_verify.h.
 *
 * One idea: read shares, trees and prices; compute all other numbers from the cluster;
 * compare them with the document.
 * Invariant: of the planner's code the check uses only the routes (overlay;
 * test_overlay.c compares them with a list of all paths), plan_digest, the fill time of a
 * tree (plan_step_add) and, for predicted times, the cost model (sized/tree_cost.h).
 */
#include "plan_verify.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cheapest_tree.h"
#include "core/memory/alloc.h"
#include "plan_extras.h"
#include "plan_report.h"
#include "topology/routes/overlay_price.h"

/* Relative difference that another order of summing may cause. */
#define NEAR 1e-9

struct verify {
    struct arrays arrays; /* memory of the arrays below, except plan.trees */
    const struct graph *graph;
    struct err *err;
    struct json *root;
    enum plan_op op;
    uint32_t plan_root; /* of a broadcast or reduce */
    uint32_t *members;
    uint32_t n;
    struct overlay *overlay;
    double *load, *price;     /* by overlay link; price: seconds per byte of load */
    double *roots;            /* n costs of out-trees, n of in-trees, scratch of 2 n */
    double *cost, *scratch;   /* n × n */
    double *share;            /* by root: sum of its trees' shares */
    uint32_t *parent, *depth; /* by member, in one tree */
    uint32_t *numbers;        /* scratch: 5 n */
    double time, bound;       /* recomputed, in seconds per Gbit */
    struct plan plan;         /* the trees read */
    size_t trees_room;
};

/* Set the error without the document's name, which plan_verify puts in front. */
#define WRONG(verify, ...) err_set((verify)->err, TRYST_E_INVALID, __VA_ARGS__)

/* ---- reading ----------------------------------------------------------------------- */

/* True if the value is a whole number ≥ 0 and < `below`; writes it to `*number_p`. */
static bool whole_get(const struct json *value, uint32_t below, uint32_t *number_p)
{
    int64_t number = 0;
    bool valid = json_whole_get(value, 0, (int64_t)below - 1, &number);
    if (valid)
        *number_p = (uint32_t)number;
    return valid;
}

static tryst_status members_read(struct verify *verify)
{
    const struct json *list = json_member(verify->root, "ranks");
    size_t count = list ? json_count(list) : verify->graph->ranks_count;
    if (list &&
        (!json_is(list, JSON_LIST) || count == 0 || count > verify->graph->ranks_count))
        return WRONG(verify, "\"ranks\" must be a list of rank numbers of the cluster");
    verify->n = (uint32_t)count;
    verify->members = arrays_alloc(&verify->arrays, count, sizeof *verify->members);
    if (!verify->members)
        return TRYST_E_NOMEM;
    const struct json *item = json_item(list, 0);
    for (uint32_t i = 0; i < verify->n; i++, item = json_next(item)) {
        verify->members[i] = i;
        if (list && !whole_get(item, verify->graph->ranks_count, &verify->members[i]))
            return WRONG(verify,
                         "\"ranks\": item %u must be a rank number of the cluster", i);
    }
    return TRYST_OK;
}

static tryst_status head_read(struct verify *verify)
{
    const char *op = json_string_of(json_member(verify->root, "op"));
    if (!op || (verify->op = plan_op_parse(op)) == PLAN_OPS)
        return WRONG(verify, "\"op\" must be allreduce, broadcast, reduce, allgather or "
                             "reduce_scatter");
    tryst_status status = members_read(verify);
    if (status != TRYST_OK)
        return status;
    const struct json *root = json_member(verify->root, "root");
    bool rooted = verify->op == PLAN_BROADCAST || verify->op == PLAN_REDUCE;
    if (rooted && !whole_get(root, verify->n, &verify->plan_root))
        return WRONG(verify, "\"root\" must be the number of a rank, 0 to %u",
                     verify->n - 1);
    if (!rooted && root)
        return WRONG(verify, "\"root\" must be absent for %s", op);
    return TRYST_OK;
}

static tryst_status rooms_make(struct verify *verify)
{
    tryst_status status = overlay_open(verify->graph, verify->members, verify->n,
                                       verify->err, &verify->overlay);
    if (status != TRYST_OK)
        return status;
    size_t n = verify->n, links = verify->overlay->links_count;
    struct arrays *arrays = &verify->arrays;
    verify->load = arrays_alloc(arrays, links, sizeof(double));
    verify->price = arrays_alloc(arrays, links, sizeof(double));
    verify->cost = arrays_alloc(arrays, n * n, sizeof(double));
    verify->scratch = arrays_alloc(arrays, n * n, sizeof(double));
    verify->share = arrays_alloc(arrays, n, sizeof(double));
    verify->parent = arrays_alloc(arrays, n, sizeof(uint32_t));
    verify->depth = arrays_alloc(arrays, n, sizeof(uint32_t));
    verify->numbers = arrays_alloc(arrays, 5 * n, sizeof(uint32_t));
    verify->roots = arrays_alloc(arrays, 4 * n, sizeof(double));
    return arrays->status ? TRYST_E_NOMEM : TRYST_OK;
}

/* ---- trees ------------------------------------------------------------------------- */

static tryst_status parents_read(struct verify *verify, const struct json *list,
                                 const char *what, const char *member, uint32_t root)
{
    if (!json_is(list, JSON_LIST) || json_count(list) != verify->n)
        return WRONG(verify, "%s: \"%s\" must list %u parents, one for each rank", what,
                     member, verify->n);
    const struct json *item = json_item(list, 0);
    for (uint32_t i = 0; i < verify->n; i++, item = json_next(item)) {
        bool none = json_whole_get(item, -1, -1, &(int64_t){0});
        if (none != (i == root))
            return WRONG(verify, "%s: \"%s\" of rank %u must be %s", what, member, i,
                         none ? "a rank: the tree does not span" : "-1: it is the root");
        verify->parent[i] = GRAPH_NONE;
        if (!none && !whole_get(item, verify->n, &verify->parent[i]))
            return WRONG(verify, "%s: \"%s\" of rank %u must be a rank", what, member, i);
    }
    return TRYST_OK;
}

/* Find the depths of all ranks by following parents. Returns false if the parents have a
 * cycle. */
static bool depths_find(struct verify *verify, uint32_t *depth_p)
{
    for (uint32_t i = 0; i < verify->n; i++)
        verify->depth[i] = GRAPH_NONE;
    for (uint32_t i = 0; i < verify->n; i++) {
        uint32_t steps = 0, at = i;
        while (verify->depth[at] == GRAPH_NONE && verify->parent[at] != GRAPH_NONE) {
            at = verify->parent[at];
            if (++steps > verify->n)
                return false;
        }
        uint32_t depth =
            steps + (verify->depth[at] == GRAPH_NONE ? 0 : verify->depth[at]);
        *depth_p = depth > *depth_p ? depth : *depth_p;
        for (at = i; verify->depth[at] == GRAPH_NONE; at = verify->parent[at]) {
            verify->depth[at] = depth--;
            if (verify->parent[at] == GRAPH_NONE)
                break;
        }
    }
    return true;
}

/* Append a tree to verify->plan; NULL if out of memory. */
static struct plan_tree *tree_new(struct verify *verify)
{
    struct plan *plan = &verify->plan;
    if (!mem_reserve(&plan->trees, &verify->trees_room, (size_t)plan->trees_count + 1,
                     sizeof *plan->trees))
        return NULL;
    plan->trees[plan->trees_count] = (struct plan_tree){0};
    return &plan->trees[plan->trees_count++];
}

/* Read one half of a tree, check that it spans, and add its loads. */
static tryst_status half_check(struct verify *verify, const struct json *tree,
                               const char *what, bool up, struct plan_tree *kept,
                               double amount)
{
    const char *member = up ? "reduce_parent" : "broadcast_parent";
    bool wanted = verify->op == PLAN_ALLREDUCE ||
                  up == (verify->op == PLAN_REDUCE || verify->op == PLAN_REDUCE_SCATTER);
    const struct json *list = json_member(tree, member);
    if (!wanted && list && !json_is(list, JSON_NULL))
        return WRONG(verify, "%s: \"%s\" must be absent for %s", what, member,
                     plan_op_name(verify->op));
    if (!wanted)
        return TRYST_OK;
    tryst_status status = parents_read(verify, list, what, member, kept->root);
    if (status != TRYST_OK)
        return status;
    if (!depths_find(verify, &kept->depth))
        return WRONG(verify, "%s: \"%s\" has a cycle: the tree does not span", what,
                     member);
    for (uint32_t i = 0; i < verify->n; i++) {
        uint32_t from = up ? i : verify->parent[i], to = up ? verify->parent[i] : i;
        if (verify->parent[i] == GRAPH_NONE)
            continue;
        if (!isfinite(verify->cost[(size_t)from * verify->n + to]))
            return WRONG(verify, "%s: no route from rank %u to rank %u", what, from, to);
        overlay_load(verify->overlay, from, to, amount, verify->load);
    }
    *(up ? &kept->reduce_parent : &kept->broadcast_parent) =
        arrays_copy(&verify->arrays, verify->parent, verify->n, sizeof *verify->parent);
    return verify->arrays.status ? TRYST_E_NOMEM : TRYST_OK;
}

static tryst_status tree_check(struct verify *verify, const struct json *tree,
                               const char *what, double time, uint32_t *root_p)
{
    bool all_roots = verify->op == PLAN_ALLGATHER || verify->op == PLAN_REDUCE_SCATTER;
    double share = 0, bandwidth = 0;
    uint32_t root = 0, said = 0;
    tryst_status status = number_member_read(tree, what, "share", verify->err, &share);
    if (status != TRYST_OK)
        return status;
    if (!(share > 0 && share <= 1 + NEAR))
        return WRONG(verify, "%s: not a valid share: %.12g (above 0, at most 1)", what,
                     share);
    if (!whole_get(json_member(tree, "root"), verify->n, &root))
        return WRONG(verify, "%s: \"root\" must be a rank number", what);
    if ((verify->op == PLAN_BROADCAST || verify->op == PLAN_REDUCE) &&
        root != verify->plan_root)
        return WRONG(verify, "%s: \"root\" is %u, but the plan's is %u", what, root,
                     verify->plan_root);
    double amount = all_roots ? share / verify->n : share;
    struct plan_tree *kept = tree_new(verify);
    if (!kept)
        return TRYST_E_NOMEM;
    kept->root = root;
    kept->share = share;
    status = half_check(verify, tree, what, false, kept, amount);
    if (status == TRYST_OK)
        status = half_check(verify, tree, what, true, kept, amount);
    if (status != TRYST_OK)
        return status;
    if (!whole_get(json_member(tree, "depth"), UINT32_MAX, &said) || said != kept->depth)
        return WRONG(verify, "%s: \"depth\" must be %u", what, kept->depth);
    const struct json *rate = json_member(tree, "bandwidth_gbit_per_s");
    if (time > 0 || !json_is(rate, JSON_NULL)) {
        status = number_member_read(tree, what, "bandwidth_gbit_per_s", verify->err,
                                    &bandwidth);
        if (status == TRYST_OK && !number_is_near(bandwidth, share / time))
            return WRONG(verify,
                         "%s: the bandwidth must be %.12g Gbit/s (the tree's share of "
                         "the plan's), not %.12g",
                         what, share / time, bandwidth);
    }
    verify->share[root] += share;
    *root_p = root;
    return status;
}

static tryst_status trees_check(struct verify *verify, double time)
{
    const struct json *lists = json_member(verify->root, "trees");
    bool all_roots = verify->op == PLAN_ALLGATHER || verify->op == PLAN_REDUCE_SCATTER;
    size_t count = all_roots ? verify->n : 1;
    char what[64];
    if (!json_is(lists, JSON_LIST) || (all_roots && json_count(lists) != count))
        return WRONG(verify, all_roots
                                 ? "\"trees\" must be a list of lists of trees, one "
                                   "for each root"
                                 : "\"trees\" must be a list of trees");
    const struct json *list = all_roots ? json_item(lists, 0) : lists;
    double sum = 0;
    for (uint32_t r = 0; r < count; r++, list = json_next(list)) {
        if (!json_is(list, JSON_LIST))
            return WRONG(verify, "\"trees\": item %u must be a list of trees", r);
        size_t t = 0;
        json_for_each (list, tree) {
            uint32_t root = 0;
            if (all_roots)
                snprintf(what, sizeof what, "tree %zu of root %u", t++, r);
            else
                snprintf(what, sizeof what, "tree %zu", t++);
            tryst_status status = tree_check(verify, tree, what, time, &root);
            if (status != TRYST_OK)
                return status;
            if (all_roots && root != r)
                return WRONG(verify, "%s: \"root\" is %u", what, root);
        }
        if (all_roots && !number_is_near(verify->share[r], 1))
            return WRONG(verify, "the shares of root %u sum to %.12g, not 1", r,
                         verify->share[r]);
    }
    for (uint32_t r = 0; r < verify->n; r++)
        sum += verify->share[r];
    if (!all_roots && !number_is_near(sum, 1))
        return WRONG(verify, "the shares sum to %.12g, not 1", sum);
    return TRYST_OK;
}

/* ---- loads and prices -------------------------------------------------------------- */

static tryst_status link_check(struct verify *verify, const struct json *item, uint32_t l,
                               double *weights)
{
    const struct graph *graph = verify->graph;
    const struct graph_link *link = &graph->links[verify->overlay->links[l]];
    const char *from = json_string_of(json_member(item, "from"));
    const char *to = json_string_of(json_member(item, "to"));
    const char *right_from = graph->nodes[link->from].name;
    const char *right_to = graph->nodes[link->to].name;
    char what[160];
    double load = 0, weight = 0;
    snprintf(what, sizeof what, "link %.60s -> %.60s", right_from, right_to);
    if (!from || !to || strcmp(from, right_from) != 0 || strcmp(to, right_to) != 0)
        return WRONG(verify, "\"links\": item %u must be the %s", l, what);
    tryst_status status = number_member_read(item, what, "load", verify->err, &load);
    if (status == TRYST_OK)
        status = number_member_read(item, what, "price", verify->err, &weight);
    if (status != TRYST_OK)
        return status;
    if (fabs(load - verify->load[l]) > NEAR * fmax(1, verify->load[l]))
        return WRONG(verify, "%s: the load must be %.12g, not %.12g", what,
                     verify->load[l], load);
    if (!(weight >= 0 && weight <= 1 + NEAR))
        return WRONG(verify, "%s: not a valid price: %.12g (0 to 1)", what, weight);
    verify->price[l] = weight / verify->overlay->capacity[l];
    verify->time = fmax(verify->time,
                        verify->load[l] / verify->overlay->capacity[l] * BYTES_PER_GBIT);
    *weights += weight;
    return TRYST_OK;
}

static tryst_status links_check(struct verify *verify)
{
    const struct json *list = json_member(verify->root, "links");
    double weights = 0;
    if (!json_is(list, JSON_LIST) || json_count(list) != verify->overlay->links_count)
        return WRONG(verify, "\"links\" must list the %u links that routes take",
                     verify->overlay->links_count);
    const struct json *item = json_item(list, 0);
    for (uint32_t l = 0; l < verify->overlay->links_count; l++, item = json_next(item)) {
        tryst_status status = link_check(verify, item, l, &weights);
        if (status != TRYST_OK)
            return status;
    }
    if (verify->overlay->links_count && !number_is_near(weights, 1))
        return WRONG(verify, "the prices sum to %.12g, not 1", weights);
    return TRYST_OK;
}

/* ---- the bound --------------------------------------------------------------------- */

/* Return the least cost of any plan at the document's prices. */
static double bound_find(struct verify *verify)
{
    double *out = verify->roots, *in = verify->roots + verify->n;
    double *sums = verify->roots + 2ul * verify->n, best = INFINITY, sum = 0;
    bool up = plan_op_sums(verify->op), connected = true;
    overlay_costs(verify->overlay, verify->price, verify->cost);
    memset(verify->roots, 0, 2ul * verify->n * sizeof *verify->roots);
    if (!up || verify->op == PLAN_ALLREDUCE)
        connected = cheapest_tree_costs(verify->cost, verify->n, false, verify->scratch,
                                        verify->numbers, sums, out);
    if (up && connected)
        connected = cheapest_tree_costs(verify->cost, verify->n, true, verify->scratch,
                                        verify->numbers, sums, in);
    if (!connected)
        return INFINITY;
    for (uint32_t r = 0; r < verify->n; r++) {
        best = fmin(best, out[r] + in[r]);
        sum += (out[r] + in[r]) / verify->n;
    }
    if (verify->op == PLAN_BROADCAST || verify->op == PLAN_REDUCE)
        return out[verify->plan_root] + in[verify->plan_root];
    return verify->op == PLAN_ALLREDUCE ? best : sum;
}

static tryst_status member_value_check(const struct verify *verify, const char *member,
                                       double right)
{
    double said = 0;
    tryst_status status =
        number_member_read(verify->root, "", member, verify->err, &said);
    if (status != TRYST_OK)
        return status;
    if (number_is_near(said, right) || fabs(said - right) <= 1e-12 * verify->time)
        return TRYST_OK;
    return WRONG(verify, "\"%s\" must be %.12g, not %.12g", member, right, said);
}

static tryst_status numbers_check(struct verify *verify)
{
    double time = 0, bound = 0, gap = 0;
    tryst_status status = member_value_check(verify, "time_s_per_gbit", verify->time);
    if (status != TRYST_OK)
        return status;
    verify->bound = bound_find(verify) * BYTES_PER_GBIT;
    status = member_value_check(verify, "lower_bound_s_per_gbit", verify->bound);
    if (status != TRYST_OK)
        return status;
    number_member_read(verify->root, "", "time_s_per_gbit", verify->err, &time);
    number_member_read(verify->root, "", "lower_bound_s_per_gbit", verify->err, &bound);
    status = number_member_read(verify->root, "", "gap", verify->err, &gap);
    if (status == TRYST_OK && fabs(gap - plan_gap(time, bound)) > NEAR)
        return WRONG(verify, "\"gap\" must be %.12g, not %.12g", plan_gap(time, bound),
                     gap);
    return status;
}

/* ---- the whole --------------------------------------------------------------------- */

static tryst_status plan_extras_check(struct verify *verify)
{
    verify->plan.op = verify->op;
    verify->plan.ranks_count = verify->n;
    verify->plan.s_per_byte = verify->time / BYTES_PER_GBIT;
    verify->plan.bound_s_per_byte = verify->bound / BYTES_PER_GBIT;
    return plan_extras_verify(verify->overlay, &verify->plan, verify->plan_root,
                              verify->root, verify->err);
}

static tryst_status all_check(struct verify *verify)
{
    double time = 0;
    tryst_status status = head_read(verify);
    if (status == TRYST_OK)
        status = rooms_make(verify);
    if (status == TRYST_OK)
        status =
            number_member_read(verify->root, "", "time_s_per_gbit", verify->err, &time);
    if (status != TRYST_OK)
        return status;
    /* the costs are finite for edges that exist */
    overlay_costs(verify->overlay, verify->price, verify->cost);
    status = trees_check(verify, time);
    if (status == TRYST_OK)
        status = links_check(verify);
    if (status == TRYST_OK)
        status = numbers_check(verify);
    if (status == TRYST_OK)
        status = plan_extras_check(verify);
    return status;
}

tryst_status plan_verify(const struct graph *graph, const char *json, size_t bytes,
                         const char *name, struct err *err)
{
    struct err why = ERR_INIT;
    struct verify verify = {.graph = graph, .err = &why};
    const struct source source = {json, bytes, name, err};
    tryst_status status = json_parse(&source, &verify.root);
    if (status != TRYST_OK)
        return status;
    status = json_is(verify.root, JSON_OBJECT)
                 ? all_check(&verify)
                 : WRONG(&verify, "a plan must be an object, {…}");
    arrays_free(&verify.arrays);
    mem_free(verify.plan.trees);
    overlay_close(verify.overlay);
    mem_free(verify.root);
    if (status == TRYST_E_INVALID)
        return err_set(err, status, "%.200s: %s", name, why.text);
    return status ? err_set(err, status, "cannot check %.200s: out of memory", name)
                  : TRYST_OK;
}
