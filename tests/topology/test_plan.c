/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: known answers, and properties of every plan. */
#include "support/unit.h"

#include <math.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/os/random.h"
#include "overlay_fake.h"
#include "plan_check.h"
#include "topology/plan/plan_mwu.h"

#define G 1e9

/* ---- known answers ----------------------------------------------------------------- */

struct answer {
    const char *what;
    struct overlay *(*make)(uint32_t n);
    uint32_t n;
    double time[PLAN_OPS]; /* s per GB; 0: not checked */
    uint32_t trees_max;    /* of the all-reduce */
    uint32_t depth_max;
};

static struct overlay *star_of(uint32_t n, const double *rate)
{
    struct fake_link links[128];
    for (uint32_t i = 0; i < n; i++) {
        links[2 * i] = (struct fake_link){i, n, rate[i] * G};
        links[2 * i + 1] = (struct fake_link){n, i, rate[i] * G};
    }
    return fake_open(n, n + 1, links, 2 * n);
}

static struct overlay *star(uint32_t n)
{
    double rate[64];
    for (uint32_t i = 0; i < n; i++)
        rate[i] = 1;
    return star_of(n, rate);
}

static struct overlay *slow_host(uint32_t n)
{
    const double rate[4] = {0.8, 0.8, 0.4, 0.2};
    return star_of(n, rate);
}

struct wires {
    struct fake_link links[4096];
    uint32_t count;
};

static void wire(struct wires *wires, uint32_t a, uint32_t b, double rate)
{
    wires->links[wires->count++] = (struct fake_link){a, b, rate * G};
    wires->links[wires->count++] = (struct fake_link){b, a, rate * G};
}

static struct overlay *two_racks(uint32_t n)
{
    static struct wires wires;
    wires.count = 0;
    for (uint32_t i = 0; i < n; i++)
        wire(&wires, i, n + i % 2, 1);
    wire(&wires, n, n + 1, 0.4);
    return fake_open(n, n + 2, wires.links, wires.count);
}

static struct overlay *ring(uint32_t n)
{
    static struct wires wires;
    wires.count = 0;
    for (uint32_t i = 0; i < n; i++)
        wire(&wires, i, (i + 1) % n, 1);
    return fake_open(n, n, wires.links, wires.count);
}

static struct overlay *line(uint32_t n)
{
    static struct wires wires;
    wires.count = 0;
    for (uint32_t i = 0; i + 1 < n; i++)
        wire(&wires, i, i + 1, 1);
    return fake_open(n, n, wires.links, wires.count);
}

static struct overlay *torus(uint32_t n)
{
    static struct wires wires;
    uint32_t side = (uint32_t)(sqrt(n) + 0.5);
    wires.count = 0;
    for (uint32_t i = 0; i < n; i++) {
        wire(&wires, i, i / side * side + (i + 1) % side, 1);
        wire(&wires, i, (i + side) % n, 1);
    }
    return fake_open(n, n, wires.links, wires.count);
}

static struct overlay *mesh(uint32_t n)
{
    static struct wires wires;
    wires.count = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < i; j++)
            wire(&wires, i, j, 1);
    return fake_open(n, n, wires.links, wires.count);
}

/* Leaves of 4 hosts, two uplinks of half their rate each: 2:1 means 2 GB/s up for 4
 * GB/s. */
static struct overlay *fat_tree(uint32_t n)
{
    static struct wires wires;
    uint32_t leaves = n / 4;
    wires.count = 0;
    for (uint32_t i = 0; i < n; i++)
        wire(&wires, i, n + i / 4, 1);
    for (uint32_t i = 0; i < leaves; i++) {
        wire(&wires, n + i, n + leaves, 1);
        wire(&wires, n + i, n + leaves + 1, 1);
    }
    return fake_open(n, n + leaves + 2, wires.links, wires.count);
}

static struct overlay *alone(uint32_t n)
{
    return fake_open(n, n, NULL, 0);
}

/* In the order all-reduce, broadcast, reduce, all-gather, reduce-scatter. */
static const struct answer answers[] = {
    {"one rank", alone, 1, {0}, 1, 0},
    {"two ranks", line, 2, {1, 1, 1, 0.5, 0.5}, 1, 1},
    {"4 equal hosts", star, 4, {1.5, 1, 1, 0.75, 0.75}, 4, 2},
    {"8 equal hosts", star, 8, {1.75, 1, 1, 0.875, 0.875}, 8, 4},
    {"800/800/400/200", slow_host, 4, {5, 5, 5, 3.75, 3.75}, 1, 2},
    {"two racks, thin trunk", two_racks, 8, {2.5, 2.5, 2.5, 1.25, 1.25}, 3, 4},
    {"ring", ring, 8, {0.875, 0.5, 0.5, 0.4375, 0.4375}, 8, 7},
    {"line", line, 8, {1, 1, 1, 0.875, 0.875}, 1, 4},
    {"torus", torus, 16, {15.0 / 32, 0.25, 0.25, 15.0 / 64, 15.0 / 64}, 32, 15},
    {"mesh", mesh, 8, {0.25, 1.0 / 7, 1.0 / 7, 0.125, 0.125}, 8, 7},
    {"fat tree 2:1", fat_tree, 16, {1.875, 1, 1, 0.9375, 0.9375}, 16, 6},
};

static void answers_are_found(void **state)
{
    for (size_t i = 0; i < COUNT_OF(answers); i++) {
        const struct answer *answer = &answers[i];
        struct overlay *overlay = answer->make(answer->n);
        for (int op = 0; op < PLAN_OPS; op++) {
            struct plan_params params = {.op = (enum plan_op)op};
            struct plan *plan = plan_check_open(overlay, &params);
            double time = plan->s_per_byte * G;
            if (fabs(time - answer->time[op]) > 2e-6)
                fail_msg("%s, operation %d: %.9f, not %.9f", answer->what, op, time,
                         answer->time[op]);
            assert_true(plan->s_per_byte - plan->bound_s_per_byte <=
                        2e-6 * plan->s_per_byte);
            if (op == PLAN_ALLREDUCE && plan->trees_count > answer->trees_max)
                fail_msg("%s: %u trees", answer->what, plan->trees_count);
            for (uint32_t k = 0; op == PLAN_ALLREDUCE && k < plan->trees_count; k++)
                if (plan->trees[k].depth > answer->depth_max)
                    fail_msg("%s: depth %u", answer->what, plan->trees[k].depth);
            plan_close(plan);
        }
        fake_close(overlay);
    }
}

/* Return the time of a byte by multiplicative weights, without simplifying. */
static double weights_s_per_byte(struct overlay *overlay, enum plan_op op)
{
    struct plan_params params = {.op = op};
    struct plan_work *work;
    assert_int_equal(plan_work_open(overlay, &params, false, NULL, &work), TRYST_OK);
    assert_int_equal(plan_mwu(work, 1e-4, 2000), TRYST_OK);
    double time = plan_work_time(work, NULL) / work->scale;
    plan_work_close(work);
    return time;
}

static void weights_alone_come_near(void **state)
{
    for (size_t i = 0; i < COUNT_OF(answers); i++) {
        const struct answer *answer = &answers[i];
        struct overlay *overlay = answer->make(answer->n);
        for (int op = 0; op < PLAN_OPS; op++) {
            double time = weights_s_per_byte(overlay, (enum plan_op)op) * G;
            if (time < answer->time[op] - 1e-9 || time > answer->time[op] * 1.0002)
                fail_msg("%s, operation %d: %.9f, not %.9f", answer->what, op, time,
                         answer->time[op]);
        }
        fake_close(overlay);
    }
}

/* ---- properties of every plan ------------------------------------------------------ */

static struct overlay *random_network(struct random *random)
{
    static struct wires wires;
    uint32_t ranks = 2 + (uint32_t)random_range(random, 9);
    uint32_t switches = 1 + (uint32_t)random_range(random, 3);
    bool both_alike = random_range(random, 2);
    wires.count = 0;
    for (uint32_t i = 0; i < ranks + switches - 1; i++) {
        uint32_t peer = ranks + (uint32_t)random_range(random, switches);
        if (i >= ranks)
            peer = i + 1;
        wire(&wires, i, peer, 0.1 * (double)(1 + random_range(random, 10)));
    }
    for (uint32_t extra = 0; extra < ranks; extra++) {
        uint32_t a = (uint32_t)random_range(random, ranks + switches);
        uint32_t b = (uint32_t)random_range(random, ranks + switches);
        if (a != b)
            wire(&wires, a, b, 0.1 * (double)(1 + random_range(random, 10)));
    }
    for (uint32_t i = 0; i < wires.count && !both_alike; i++)
        wires.links[i].bytes_per_s *= 0.5 + random_unit(random);
    return fake_open(ranks, ranks + switches, wires.links, wires.count);
}

static void every_plan_keeps_its_word(void **state)
{
    struct random random;
    random_seed(&random, unit_seed());
    for (int round = 0; round < 300; round++) {
        struct overlay *overlay = random_network(&random);
        struct plan_params params = {
            .op = (enum plan_op)random_range(&random, PLAN_OPS),
            .root = (uint32_t)random_range(&random, overlay->ranks_count),
            .gap_max = random_range(&random, 2) ? 0 : 0.01};
        struct plan *plan = plan_check_open(overlay, &params);
        double gap = params.gap_max > 0 ? params.gap_max : 1e-8;
        if (plan->s_per_byte - plan->bound_s_per_byte > gap * plan->s_per_byte)
            fail_msg("round %d, operation %d: time %g, bound %g", round, (int)params.op,
                     plan->s_per_byte, plan->bound_s_per_byte);
        plan_close(plan);
        fake_close(overlay);
    }
}

static void equal_input_gives_equal_bits(void **state)
{
    struct random random;
    random_seed(&random, unit_seed());
    for (int round = 0; round < 40; round++) {
        struct overlay *overlay = random_network(&random);
        struct plan_params params = {.op = (enum plan_op)(round % PLAN_OPS)};
        struct plan *one = plan_check_open(overlay, &params);
        struct plan *two = plan_check_open(overlay, &params);
        assert_true(one->digest == two->digest);
        assert_true(one->s_per_byte == two->s_per_byte);
        assert_true(one->bound_s_per_byte == two->bound_s_per_byte);
        assert_memory_equal(one->price, two->price,
                            one->links_count * sizeof *one->price);
        plan_close(one);
        plan_close(two);
        fake_close(overlay);
    }
}

/* ---- simplifying ------------------------------------------------------------------- */

/* Check that no step takes longer (but for a solver's rounding), adds trees or adds
 * depth. */
static void steps_check(const struct plan *plan, double gap)
{
    const struct plan_step *steps = plan->steps, *last = &steps[PLAN_ROUNDED];
    double slower = 1 + 4e-9 + 1.1 * gap;
    uint32_t depth = 0;
    for (uint32_t t = 0; t < plan->trees_count; t++)
        depth = plan->trees[t].depth > depth ? plan->trees[t].depth : depth;
    assert_int_equal(last->trees_count, plan->trees_count);
    assert_int_equal(last->depth, depth);
    assert_true(last->s_per_byte == plan->s_per_byte);
    for (int k = 1; k < PLAN_STEPS; k++) {
        assert_true(steps[k].trees_count <= steps[k - 1].trees_count);
        assert_true(steps[k].s_per_byte <= steps[k - 1].s_per_byte * slower);
    }
    assert_true(steps[PLAN_SHALLOWER].depth <= steps[PLAN_FEWER].depth);
    assert_true(steps[PLAN_ROUNDED].depth <= steps[PLAN_SHALLOWER].depth);
}

/* For each operation, many plans of random networks have fewer trees and less depth than
 * the solution. */
static void all_operations_are_simplified(void **state)
{
    struct random random;
    random_seed(&random, unit_seed());
    for (int op = 0; op < PLAN_OPS; op++) {
        uint32_t before[2] = {0}, after[2] = {0};
        for (int round = 0; round < 40; round++) {
            struct overlay *overlay = random_network(&random);
            struct plan_params params = {.op = (enum plan_op)op,
                                         .gap_max = round % 4 ? 0 : 0.01};
            struct plan *plan = plan_check_open(overlay, &params);
            steps_check(plan, params.gap_max);
            before[0] += plan->steps[PLAN_SOLVED].trees_count;
            after[0] += plan->trees_count;
            before[1] += plan->steps[PLAN_FEWER].depth;
            after[1] += plan->steps[PLAN_SHALLOWER].depth;
            plan_close(plan);
            fake_close(overlay);
        }
        if (after[0] >= before[0] || after[1] >= before[1])
            fail_msg("operation %d: %u trees of %u, depth %u of %u", op, after[0],
                     before[0], after[1], before[1]);
    }
}

/* Depth 1 costs nothing where the root's wire is wide: four hosts of 800, 800, 400 and
 * 200 Mbit/s. */
static void depth_that_costs_nothing_goes(void **state)
{
    struct overlay *overlay = slow_host(4);
    for (int op = 0; op < PLAN_OPS; op++) {
        struct plan_params params = {.op = (enum plan_op)op};
        struct plan *plan = plan_check_open(overlay, &params);
        for (uint32_t t = 0; t < plan->trees_count; t++)
            assert_int_equal(plan->trees[t].depth, 1);
        plan_close(plan);
    }
    fake_close(overlay);
}

/* A broadcast in a mesh of n sends a part to each of n - 1 ranks first. The parts must be
 * equal, and as near to 1/(n - 1) as a double can be. */
static void shares_are_round(void **state)
{
    for (uint32_t n = 4; n <= 12; n++) {
        struct overlay *overlay = mesh(n);
        struct plan_params params = {.op = PLAN_BROADCAST};
        struct plan *plan = plan_check_open(overlay, &params);
        assert_int_equal(plan->trees_count, n - 1);
        for (uint32_t t = 0; t < plan->trees_count; t++)
            assert_true(fabs(plan->trees[t].share - 1.0 / (n - 1)) < 1e-14);
        plan_close(plan);
        fake_close(overlay);
    }
}

static void trees_max_is_kept(void **state)
{
    struct overlay *overlay = star(8);
    double least = 1.75e-9;
    for (uint32_t most = 1; most <= 4; most++) {
        struct plan_params params = {.op = PLAN_ALLREDUCE, .trees_max = most};
        struct plan *plan = plan_check_open(overlay, &params);
        assert_true(plan->trees_count <= most);
        /* a path alone takes 2 s per GB */
        assert_true(plan->s_per_byte <= (most == 4 ? least * (1 + 1e-6) : 2e-9 * 1.34));
        assert_true(fabs(plan->bound_s_per_byte - least) <= 1e-6 * least);
        plan_close(plan);
    }
    fake_close(overlay);
}

static void a_wrong_root_is_refused(void **state)
{
    struct overlay *overlay = star(4);
    struct plan_params params = {.op = PLAN_BROADCAST, .root = 4};
    struct err err = ERR_INIT;
    struct plan *plan = NULL;
    assert_int_equal(plan_open(overlay, &params, &err, &plan), TRYST_E_INVALID);
    assert_null(plan);
    assert_non_null(strstr(err.text, "root 4"));
    fake_close(overlay);
}

static tryst_status open_and_close(struct overlay *overlay, enum plan_op op)
{
    struct plan_params params = {.op = op};
    struct plan *plan;
    tryst_status status = plan_open(overlay, &params, NULL, &plan);
    if (!status)
        plan_close(plan);
    return status;
}

static void no_memory_is_said(void **state)
{
    struct overlay *overlay = two_racks(4);
    for (int op = 0; op < PLAN_OPS; op++) {
        /* so that the walk does not count what is loaded once */
        open_and_close(overlay, (enum plan_op)op);
        WALK_ALLOCATIONS(open_and_close(overlay, (enum plan_op)op));
    }
    fake_close(overlay);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_found),
        cmocka_unit_test(weights_alone_come_near),
        cmocka_unit_test(every_plan_keeps_its_word),
        cmocka_unit_test(equal_input_gives_equal_bits),
        cmocka_unit_test(all_operations_are_simplified),
        cmocka_unit_test(depth_that_costs_nothing_goes),
        cmocka_unit_test(shares_are_round),
        cmocka_unit_test(trees_max_is_kept),
        cmocka_unit_test(a_wrong_root_is_refused),
        cmocka_unit_test(no_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
