/* SPDX-License-Identifier: Apache-2.0 */
/* Plans against all possible trees: every spanning tree is a column, and the LP is solved
 * at once.
 *
 * An all-reduce of 5 ranks has 78,125 pairs of trees, so few such networks are tried; one
 * of 4 ranks has 1,024. */
#include "support/unit.h"

#include <math.h>

#include "core/os/random.h"
#include "overlay_fake.h"
#include "plan_check.h"
#include "topology/plan/lp.h"
#include "topology/routes/overlay_price.h"

#define NODES_MAX 5
#define TREES_MAX 125 /* n^(n - 2) from one root */
#define NONE      UINT32_MAX

struct trees {
    uint32_t parent[TREES_MAX][NODES_MAX];
    uint32_t count;
};

static bool is_tree(const uint32_t *parent, uint32_t n, uint32_t root)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = i;
        for (uint32_t steps = 0; at != root; at = parent[at])
            if (steps++ == n)
                return false;
    }
    return true;
}

/* List all trees from `root` with edges of the overlay. For in-trees `cost` is
 * transposed. */
static void trees_list(const double *cost, uint32_t n, uint32_t root, bool down,
                       struct trees *trees)
{
    uint32_t parent[NODES_MAX], choices = 1;
    for (uint32_t i = 1; i < n; i++)
        choices *= n - 1;
    trees->count = 0;
    for (uint32_t choice = 0; choice < choices; choice++) {
        uint32_t rest = choice;
        bool there = true;
        for (uint32_t i = 0; i < n; i++) {
            parent[i] = NONE;
            if (i == root)
                continue;
            parent[i] = rest % (n - 1);
            parent[i] += parent[i] >= i;
            rest /= n - 1;
            there &= isfinite(cost[down ? parent[i] * n + i : i * n + parent[i]]) != 0;
        }
        if (!there || !is_tree(parent, n, root))
            continue;
        for (uint32_t i = 0; i < n; i++)
            trees->parent[trees->count][i] = parent[i];
        trees->count++;
    }
}

static void load_add(struct overlay *overlay, const uint32_t *parent, bool down,
                     double amount, double *load)
{
    for (uint32_t i = 0; i < overlay->ranks_count; i++)
        if (parent[i] != NONE)
            overlay_load(overlay, down ? parent[i] : i, down ? i : parent[i], amount,
                         load);
}

struct brute {
    struct overlay *overlay;
    struct lp *lp;
    double weight, scale;
    double *load, *value;
    uint32_t *row;
};

/* Add the column of a tree down and a tree up; either may be missing. */
static void column_add(struct brute *brute, uint32_t group, const uint32_t *down,
                       const uint32_t *up)
{
    uint32_t count = 0, links = brute->overlay->links_count;
    for (uint32_t i = 0; i < links; i++)
        brute->load[i] = 0;
    if (down)
        load_add(brute->overlay, down, true, brute->weight, brute->load);
    if (up)
        load_add(brute->overlay, up, false, brute->weight, brute->load);
    for (uint32_t i = 0; i < links; i++)
        if (brute->load[i] > 0) {
            brute->row[count] = i;
            brute->value[count++] =
                brute->load[i] / brute->overlay->capacity[i] * brute->scale;
        }
    assert_int_equal(lp_column_add(brute->lp, group, count, brute->row, brute->value),
                     TRYST_OK);
}

static void root_add(struct brute *brute, enum plan_op op, const double *cost,
                     uint32_t root, uint32_t group)
{
    static struct trees down, up;
    uint32_t n = brute->overlay->ranks_count;
    bool has_down = op != PLAN_REDUCE && op != PLAN_REDUCE_SCATTER;
    bool has_up = op != PLAN_BROADCAST && op != PLAN_ALLGATHER;
    trees_list(cost, n, root, true, &down);
    trees_list(cost, n, root, false, &up);
    for (uint32_t i = 0; i < (has_down ? down.count : 1); i++)
        for (uint32_t k = 0; k < (has_up ? up.count : 1); k++)
            column_add(brute, group, has_down ? down.parent[i] : NULL,
                       has_up ? up.parent[k] : NULL);
}

/* Return the least time of all plans. */
static double least_time(struct overlay *overlay, const struct plan_params *params)
{
    uint32_t n = overlay->ranks_count, links = overlay->links_count;
    bool all_roots = params->op == PLAN_ALLGATHER || params->op == PLAN_REDUCE_SCATTER;
    struct brute brute = {.overlay = overlay,
                          .weight = all_roots ? 1.0 / n : 1,
                          .scale = 1e9,
                          .load = test_calloc(links, sizeof(double)),
                          .value = test_calloc(links, sizeof(double)),
                          .row = test_calloc(links, sizeof(uint32_t))};
    double cost[NODES_MAX * NODES_MAX];
    for (uint32_t i = 0; i < links; i++)
        brute.load[i] = 1;
    overlay_costs(overlay, brute.load, cost);
    assert_int_equal(lp_open(links, all_roots ? n : 1, UINT32_MAX, &brute.lp), TRYST_OK);
    for (uint32_t root = 0; root < n; root++)
        if (all_roots || params->op == PLAN_ALLREDUCE || root == params->root)
            root_add(&brute, params->op, cost, root, all_roots ? root : 0);
    assert_true(lp_solve(brute.lp));
    double time = lp_time(brute.lp) / brute.scale;
    lp_close(brute.lp);
    test_free(brute.load);
    test_free(brute.value);
    test_free(brute.row);
    return time;
}

static void link_add(struct fake_link *links, uint32_t *count, struct random *random,
                     uint32_t from, uint32_t to)
{
    double rate = 1e8 * (double)(1 + random_range(random, 10));
    links[(*count)++] = (struct fake_link){from, to, rate};
}

/* Make ranks at one or two switches, some pairs with a direct link; a ring keeps the
 * network connected where there is no switch. */
static struct overlay *network_make(struct random *random, uint32_t ranks)
{
    struct fake_link links[64];
    uint32_t count = 0, switches = (uint32_t)random_range(random, 3);
    bool alike = random_range(random, 3) == 0;
    for (uint32_t i = 0; i < ranks; i++) {
        uint32_t to =
            switches ? ranks + (uint32_t)random_range(random, switches) : (i + 1) % ranks;
        link_add(links, &count, random, i, to);
        link_add(links, &count, random, to, i);
    }
    if (switches == 2) {
        link_add(links, &count, random, ranks, ranks + 1);
        link_add(links, &count, random, ranks + 1, ranks);
    }
    for (uint32_t i = 0; i < ranks; i++) {
        uint32_t a = (uint32_t)random_range(random, ranks);
        uint32_t b = (uint32_t)random_range(random, ranks);
        if (a == b)
            continue;
        link_add(links, &count, random, a, b);
        if (alike || random_range(random, 2))
            link_add(links, &count, random, b, a);
    }
    for (uint32_t i = 0; alike && i + 1 < count; i += 2)
        links[i + 1].bytes_per_s = links[i].bytes_per_s;
    return fake_open(ranks, ranks + switches, links, count);
}

static void plans_are_as_good_as_any(void **state)
{
    struct random random;
    random_seed(&random, unit_seed());
    for (int round = 0; round < 1000; round++) {
        struct plan_params params = {.op = (enum plan_op)(round % PLAN_OPS)};
        bool large = params.op != PLAN_ALLREDUCE || round % 500 == 0;
        uint32_t ranks = 2 + (uint32_t)random_range(&random, large ? 4 : 3);
        struct overlay *overlay = network_make(&random, ranks);
        params.root = (uint32_t)random_range(&random, ranks);
        double least = least_time(overlay, &params);
        struct plan *plan = plan_check_open(overlay, &params);
        if (fabs(plan->s_per_byte - least) > 1e-6 * least)
            fail_msg(
                "round %d, operation %d, %u ranks: %.9g s per GB, and %.9g is the least",
                round, (int)params.op, ranks, plan->s_per_byte * 1e9, least * 1e9);
        plan_close(plan);
        fake_close(overlay);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(plans_are_as_good_as_any)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
