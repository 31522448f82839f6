/* SPDX-License-Identifier: Apache-2.0 */
/* Minimum-cost arborescences against all spanning trees. */
#include "support/unit.h"

#include <math.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/os/random.h"
#include "topology/plan/arborescence.h"

#define NODES_MAX 6
#define NONE      UINT32_MAX

/* True if the parents lead every node to `root`. */
static bool is_tree(const uint32_t *parent, uint32_t n, uint32_t root)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = i;
        for (uint32_t steps = 0; at != root; steps++) {
            if (steps == n || at == NONE)
                return false;
            at = parent[at];
        }
    }
    return parent[root] == NONE;
}

static double parents_cost(const double *cost, const uint32_t *parent, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += parent[i] == NONE ? 0 : cost[parent[i] * n + i];
    return sum;
}

/* Find the cheapest of all (n - 1)^(n - 1) choices of parents that are trees. */
static double brute_force(const double *cost, uint32_t n, uint32_t root)
{
    uint32_t parent[NODES_MAX];
    uint64_t choices = 1;
    double best = INFINITY;
    for (uint32_t i = 1; i < n; i++)
        choices *= n - 1;
    for (uint64_t choice = 0; choice < choices; choice++) {
        uint64_t rest = choice;
        for (uint32_t i = 0; i < n; i++) {
            if (i == root) {
                parent[i] = NONE;
                continue;
            }
            parent[i] = (uint32_t)(rest % (n - 1));
            parent[i] += parent[i] >= i; /* skip the node itself */
            rest /= n - 1;
        }
        double sum = parents_cost(cost, parent, n);
        if (sum < best && is_tree(parent, n, root))
            best = sum;
    }
    return best;
}

static void transpose(const double *cost, uint32_t n, double *transposed)
{
    for (uint32_t i = 0; i < n * n; i++)
        transposed[i % n * n + i / n] = cost[i];
}

static void check_roots(struct arborescence *a, const double *cost, uint32_t n,
                        const double *best)
{
    uint32_t parent[NODES_MAX];
    for (uint32_t root = 0; root < n; root++) {
        double sum = arborescence_tree(a, root, parent);
        assert_true(is_tree(parent, n, root));
        assert_true(fabs(sum - parents_cost(cost, parent, n)) <= 1e-12 * (1 + sum));
        assert_true(fabs(sum - best[root]) <= 1e-12 * (1 + sum));
        assert_true(fabs(arborescence_cost(a, root) - sum) <= 1e-12 * (1 + sum));
    }
}

static void check_matrix(const double *cost, uint32_t n)
{
    double best[NODES_MAX], transposed[NODES_MAX * NODES_MAX];
    bool connected = true;
    for (uint32_t root = 0; root < n; root++) {
        best[root] = brute_force(cost, n, root);
        connected &= isfinite(best[root]) != 0;
    }
    struct arborescence *a;
    assert_int_equal(arborescence_open(n, &a), TRYST_OK);
    transpose(cost, n, transposed);
    /* twice: the first run must leave no state behind */
    for (int round = 0; round < 2; round++) {
        assert_int_equal(arborescence_contract(a, transposed, true), connected);
        if (connected)
            check_roots(a, cost, n, best);
        assert_int_equal(arborescence_contract(a, cost, false), connected);
        if (connected)
            check_roots(a, cost, n, best);
    }
    arborescence_close(a);
}

static void every_root_gets_its_cheapest_tree(void **state)
{
    struct random random;
    random_seed(&random, unit_seed());
    for (int round = 0; round < 1000; round++) {
        double cost[NODES_MAX * NODES_MAX];
        uint32_t n = 1 + (uint32_t)random_range(&random, round % 20 ? 5 : NODES_MAX);
        /* few costs: many ties, zeros too */
        uint64_t kinds = 1 + random_range(&random, 40);
        uint64_t holes = random_range(&random, 4);
        for (uint32_t i = 0; i < n * n; i++)
            cost[i] = random_range(&random, 8) < holes
                          ? INFINITY
                          : (double)random_range(&random, kinds) / 8;
        check_matrix(cost, n);
    }
}

static void ties_always_break_alike(void **state)
{
    enum { N = 16 };
    static double cost[N * N];
    uint32_t first[N], again[N];
    struct arborescence *a;
    for (int i = 0; i < N * N; i++)
        cost[i] = 1;
    assert_int_equal(arborescence_open(N, &a), TRYST_OK);
    assert_true(arborescence_contract(a, cost, false));
    assert_true(arborescence_tree(a, 3, first) == N - 1);
    assert_true(arborescence_contract(a, cost, false));
    arborescence_tree(a, 3, again);
    assert_memory_equal(first, again, sizeof first);
    arborescence_close(a);
}

static tryst_status open_and_close(void)
{
    struct arborescence *a;
    tryst_status status = arborescence_open(5, &a);
    if (!status)
        arborescence_close(a);
    return status;
}

static void no_memory_is_said(void **state)
{
    WALK_ALLOCATIONS(open_and_close());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_root_gets_its_cheapest_tree),
        cmocka_unit_test(ties_always_break_alike),
        cmocka_unit_test(no_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
