/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_check.h"

#include <math.h>

#include "support/unit.h"
#include "topology/routes/overlay_price.h"

static uint32_t depth_check(const uint32_t *parent, uint32_t root, uint32_t n)
{
    uint32_t deepest = 0;
    assert_int_equal(parent[root], GRAPH_NONE);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t steps = 0;
        for (uint32_t at = i; at != root; at = parent[at]) {
            assert_true(parent[at] < n);
            assert_true(++steps < n);
        }
        deepest = steps > deepest ? steps : deepest;
    }
    return deepest;
}

static void tree_check(const struct plan *plan, const struct plan_params *params,
                       const struct plan_tree *tree)
{
    uint32_t n = plan->ranks_count, deepest = 0;
    bool down = params->op == PLAN_ALLREDUCE || params->op == PLAN_BROADCAST ||
                params->op == PLAN_ALLGATHER;
    bool up = params->op == PLAN_ALLREDUCE || params->op == PLAN_REDUCE ||
              params->op == PLAN_REDUCE_SCATTER;
    assert_true(tree->share > 0 && tree->share <= 1);
    assert_int_equal(tree->broadcast_parent != NULL, down);
    assert_int_equal(tree->reduce_parent != NULL, up);
    if (params->op == PLAN_BROADCAST || params->op == PLAN_REDUCE)
        assert_int_equal(tree->root, params->root);
    const uint32_t *halves[2] = {tree->broadcast_parent, tree->reduce_parent};
    for (int half = 0; half < 2; half++) {
        uint32_t depth = halves[half] ? depth_check(halves[half], tree->root, n) : 0;
        deepest = depth > deepest ? depth : deepest;
    }
    assert_int_equal(tree->depth, deepest);
}

static void shares_check(const struct plan *plan, bool all_roots)
{
    uint32_t n = plan->ranks_count, groups = all_roots ? n : 1;
    double *sum = test_calloc(groups, sizeof *sum);
    for (uint32_t i = 0; i < plan->trees_count; i++)
        sum[all_roots ? plan->trees[i].root : 0] += plan->trees[i].share;
    for (uint32_t g = 0; g < groups; g++)
        assert_true(sum[g] == 1);
    test_free(sum);
}

static void half_load(struct overlay *overlay, const uint32_t *parent, bool down,
                      double amount, double *load)
{
    for (uint32_t i = 0; parent && i < overlay->ranks_count; i++)
        if (parent[i] != GRAPH_NONE)
            overlay_load(overlay, down ? parent[i] : i, down ? i : parent[i], amount,
                         load);
}

static void loads_check(struct overlay *overlay, const struct plan *plan, double weight)
{
    double *load = test_calloc(plan->links_count + 1, sizeof *load), time = 0;
    for (uint32_t i = 0; i < plan->trees_count; i++) {
        const struct plan_tree *tree = &plan->trees[i];
        half_load(overlay, tree->broadcast_parent, true, tree->share * weight, load);
        half_load(overlay, tree->reduce_parent, false, tree->share * weight, load);
    }
    for (uint32_t i = 0; i < plan->links_count; i++) {
        assert_true(fabs(load[i] - plan->load[i]) <= 1e-12 * (1 + load[i]));
        time = fmax(time, load[i] / overlay->capacity[i]);
    }
    assert_true(fabs(time - plan->s_per_byte) <= 1e-12 * time);
    test_free(load);
}

/* Compute the cheapest tree of a root the plain way: O(n³), contracting one cycle at a
 * time. */
static double cheapest_tree(const double *cost, uint32_t n, uint32_t root)
{
    double *w = test_malloc((size_t)n * n * sizeof *w), total = 0;
    uint32_t *from = test_malloc(n * sizeof *from), *seen = test_malloc(n * sizeof *seen);
    uint32_t *gone = test_calloc(n, sizeof *gone);
    for (uint32_t i = 0; i < n * n; i++)
        w[i] = cost[i];
    for (bool cycle = true; cycle;) {
        cycle = false;
        for (uint32_t v = 0; v < n; v++) {
            from[v] = GRAPH_NONE;
            for (uint32_t u = 0; u < n && !gone[v] && v != root; u++)
                if (u != v && !gone[u] &&
                    (from[v] == GRAPH_NONE || w[u * n + v] < w[from[v] * n + v]))
                    from[v] = u;
            seen[v] = GRAPH_NONE;
        }
        for (uint32_t start = 0; start < n && !cycle; start++) {
            uint32_t at = start;
            for (; !gone[at] && at != root && seen[at] == GRAPH_NONE; at = from[at])
                seen[at] = start;
            if (gone[at] || at == root || seen[at] != start)
                continue;
            cycle = true; /* the whole cycle becomes `at` */
            double *entry = test_malloc(n * sizeof *entry);
            for (uint32_t u = 0; u < n; u++)
                entry[u] = INFINITY;
            uint32_t v = at;
            do {
                double paid = w[from[v] * n + v];
                total += paid;
                for (uint32_t u = 0; u < n; u++) {
                    entry[u] = fmin(entry[u], w[u * n + v] - paid);
                    w[at * n + u] = fmin(w[at * n + u], w[v * n + u]);
                }
                v = from[v];
            } while (v != at);
            for (v = from[at]; v != at; v = from[v])
                gone[v] = 1;
            for (uint32_t u = 0; u < n; u++)
                w[u * n + at] = entry[u];
            test_free(entry);
        }
    }
    for (uint32_t v = 0; v < n; v++)
        if (from[v] != GRAPH_NONE)
            total += w[from[v] * n + v];
    test_free(w);
    test_free(from);
    test_free(seen);
    test_free(gone);
    return total;
}

/* Compute the bound that the prices prove, without code of the planner. */
static double bound_of(struct overlay *overlay, const struct plan *plan,
                       const struct plan_params *params)
{
    uint32_t n = plan->ranks_count;
    double *cost = test_malloc((size_t)n * n * sizeof *cost);
    double *back = test_malloc((size_t)n * n * sizeof *back);
    double least = INFINITY, sum = 0;
    overlay_costs(overlay, plan->price, cost);
    for (uint32_t i = 0; i < n * n; i++)
        back[i % n * n + i / n] = cost[i];
    for (uint32_t root = 0; root < n; root++) {
        double tree = 0;
        if (plan->trees[0].broadcast_parent)
            tree += cheapest_tree(cost, n, root);
        if (plan->trees[0].reduce_parent)
            tree += cheapest_tree(back, n, root);
        if (params->op == PLAN_ALLREDUCE || root == params->root)
            least = fmin(least, tree);
        sum += tree;
    }
    test_free(cost);
    test_free(back);
    bool all_roots = params->op == PLAN_ALLGATHER || params->op == PLAN_REDUCE_SCATTER;
    return all_roots ? sum / n : least;
}

static void proof_check(struct overlay *overlay, const struct plan *plan,
                        const struct plan_params *params)
{
    double sum = 0;
    for (uint32_t i = 0; i < plan->links_count; i++) {
        assert_true(plan->price[i] >= 0);
        sum += plan->price[i] * overlay->capacity[i];
    }
    assert_true(plan->links_count == 0 || fabs(sum - 1) <= 1e-12);
    assert_true(plan->bound_s_per_byte <= plan->s_per_byte);
    double bound = bound_of(overlay, plan, params);
    if (plan->bound_s_per_byte > bound * (1 + 1e-12))
        fail_msg("the bound is given as %.17g, but the prices prove %.17g",
                 plan->bound_s_per_byte, bound);
}

struct plan *plan_check_open(struct overlay *overlay, const struct plan_params *params)
{
    struct err err = ERR_INIT;
    struct plan *plan;
    if (plan_open(overlay, params, &err, &plan))
        fail_msg("%s", err.text);
    bool all_roots = params->op == PLAN_ALLGATHER || params->op == PLAN_REDUCE_SCATTER;
    assert_int_equal(plan->ranks_count, overlay->ranks_count);
    for (uint32_t i = 0; i < plan->trees_count; i++)
        tree_check(plan, params, &plan->trees[i]);
    shares_check(plan, all_roots);
    loads_check(overlay, plan, all_roots ? 1.0 / plan->ranks_count : 1);
    proof_check(overlay, plan, params);
    return plan;
}
