/* SPDX-License-Identifier: Apache-2.0 */
/* What an operation of a size takes: answers worked out by hand, and the sizes at which another shape wins.
 *
 * Ranks hang on switches by wires of 1 GB/s and 10 us, and a rank sums 1 GB/s, so a message of a million bytes takes 1 ms
 * over a wire, 20 us of latency within a rack, and 1 ms to be added. */
#include "support/unit.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "core/alloc.h"
#include "graph_new.h"
#include "topology/report/plan_report.h"

#define MESSAGE 1000000u
#define RATE    1e9

/* ---- networks ----------------------------------------------------------------------------- */

/* `racks` switches in a line, the ranks in equal parts on them, by number. */
static struct graph *racks_new(uint32_t ranks, uint32_t racks, double latency_ns)
{
    struct graph *graph = graph_new(ranks, racks);
    for (uint32_t i = 0; i < ranks; i++)
        wire_late_new(graph, i, ranks + i / (ranks / racks), RATE, latency_ns);
    for (uint32_t i = 1; i < racks; i++)
        wire_late_new(graph, ranks + i - 1, ranks + i, RATE, latency_ns);
    assert_int_equal(graph_seal(graph, NULL), TRYST_OK);
    return graph;
}

/* ---- shapes ------------------------------------------------------------------------------- */

struct expected {
    const char *name;
    double latency_us, move_ms, sum_ms;
};

static void near(const char *what, double is, double wanted)
{
    if (fabs(is - wanted) > 1e-9 * fmax(1e-6, wanted))
        fail_msg("%s: %.12g, not %.12g", what, is, wanted);
}

static const struct cost_shape *shape_of(const struct cost_table *table, const char *name)
{
    for (uint32_t s = 0; s < table->shapes_count; s++)
        if (strcmp(table->shapes[s].name, name) == 0)
            return &table->shapes[s];
    fail_msg("there is no shape %s", name);
    return NULL;
}

static struct cost_table shapes_of(struct graph *graph, enum plan_op op, uint64_t bytes)
{
    struct overlay *overlay = overlay_new(graph);
    struct plan_params params = {.op = op};
    struct cost_table table = {.bytes = bytes, .sum_bytes_per_s = RATE};
    struct plan *plan;
    assert_int_equal(plan_open(overlay, &params, NULL, NULL, &plan), TRYST_OK);
    assert_int_equal(plan_cost(overlay, plan, 0, NULL, &table), TRYST_OK);
    plan_close(plan);
    overlay_close(overlay);
    return table;
}

static void shapes_check(struct graph *graph, enum plan_op op,
                         const struct expected *expected)
{
    const struct cost_table table = shapes_of(graph, op, MESSAGE);
    assert_int_equal(table.shapes_count, COST_SHAPES_MAX);
    assert_false(table.latency_unknown);
    for (size_t k = 0; k < COST_SHAPES_MAX - 1; k++) {
        const struct cost_shape *shape = shape_of(&table, expected[k].name);
        near(shape->name, shape->latency_s * 1e6, expected[k].latency_us);
        near(shape->name, shape->move_s * 1e3, expected[k].move_ms);
        near(shape->name, shape->sum_s * 1e3, expected[k].sum_ms);
        near(shape->name, shape->fill_s, 0);
    }
}

/* Of eight at one switch a message a round leaves the root of the flat tree; the binomial one has three rounds, the
 * binary one levels of 2, 4 and 1 (each rank sends two, two, one), the 4-ary one of 4 and 3. */
static void eight_at_a_switch(void **state)
{
    static const struct expected down[] = {{"flat", 20, 7, 0},
                                           {"binomial", 60, 3, 0},
                                           {"binary", 60, 5, 0},
                                           {"4-ary", 40, 7, 0},
                                           {"two-level", 20, 7, 0}};
    static const struct expected up[] = {{"flat", 20, 7, 7},
                                         {"binomial", 60, 3, 3},
                                         {"binary", 60, 5, 5},
                                         {"4-ary", 40, 7, 7},
                                         {"two-level", 20, 7, 7}};
    static const struct expected both[] = {{"flat", 40, 14, 7},
                                           {"binomial", 120, 6, 3},
                                           {"binary", 120, 10, 5},
                                           {"4-ary", 80, 14, 7},
                                           {"two-level", 40, 14, 7}};
    struct graph *graph = racks_new(8, 1, 10e3);
    shapes_check(graph, PLAN_BROADCAST, down);
    shapes_check(graph, PLAN_REDUCE, up);
    shapes_check(graph, PLAN_ALLREDUCE, both);
    graph_close(graph);
}

/* Two racks of four: the leaders are 0 and 4. Level by level 4 and 3 messages leave one rank; the way to the
 * other rack is three wires. The flat tree takes four messages over the trunk, and seven from the root. In the binomial
 * tree 0 sends to 1, both on to 2 and 3, all four across the trunk. */
static void two_racks(void **state)
{
    static const struct expected down[] = {{"flat", 30, 7, 0},
                                           {"binomial", 70, 1 + 1 + 4, 0},
                                           {"binary", 70, 2 + 3 + 1, 0},
                                           {"4-ary", 50, 4 + 3, 0},
                                           {"two-level", 50, 4 + 3, 0}};
    struct graph *graph = racks_new(8, 2, 10e3);
    shapes_check(graph, PLAN_BROADCAST, down);
    graph_close(graph);
}

static void gathers_have_the_plan_alone(void **state)
{
    struct graph *graph = racks_new(4, 1, 10e3);
    struct cost_table table = shapes_of(graph, PLAN_ALLGATHER, MESSAGE);
    assert_int_equal(table.shapes_count, 1);
    near("all-gather", table.shapes[0].move_s * 1e3, 0.75);
    near("all-gather", table.shapes[0].sum_s, 0);
    near("all-gather", table.shapes[0].latency_s * 1e6, 20);
    /* three quarters of a message are added at each rank, which takes as long as moving them; the first slices
     * of the three that come to a rank are added one after the other */
    table = shapes_of(graph, PLAN_REDUCE_SCATTER, MESSAGE);
    near("reduce-scatter", table.shapes[0].move_s * 1e3, 0.75);
    near("reduce-scatter", table.shapes[0].sum_s * 1e6, 3 * 65.536);
    graph_close(graph);
}

static void unknown_latencies_are_said(void **state)
{
    struct graph *graph = racks_new(4, 1, GRAPH_UNKNOWN);
    struct cost_table table = shapes_of(graph, PLAN_BROADCAST, MESSAGE);
    assert_true(table.latency_unknown);
    near("latency", shape_of(&table, "flat")->latency_s, 0);
    graph_close(graph);
}

/* ---- planned trees ------------------------------------------------------------------------ */

static struct cost_shape planned(const struct plan *plan, double sum_bytes_per_s)
{
    struct graph *graph = racks_new(4, 1, 10e3);
    struct overlay *overlay = overlay_new(graph);
    struct cost_table table = {.bytes = MESSAGE, .sum_bytes_per_s = sum_bytes_per_s};
    assert_int_equal(plan_cost(overlay, plan, 0, NULL, &table), TRYST_OK);
    overlay_close(overlay);
    graph_close(graph);
    return table.shapes[0];
}

/* 0 to 1 to 2 to 3: three routes, and two more levels that fill. */
static void a_chain_fills(void **state)
{
    uint32_t parent[] = {GRAPH_NONE, 0, 1, 2};
    struct plan_tree tree = {.share = 1, .broadcast_parent = parent, .depth = 3};
    const struct plan plan = {.op = PLAN_BROADCAST,
                              .ranks_count = 4,
                              .trees_count = 1,
                              .trees = &tree,
                              .s_per_byte = 1e-9};
    const struct cost_shape cost = planned(&plan, RATE);
    near("latency", cost.latency_s * 1e6, 60);
    near("move", cost.move_s * 1e3, 1);
    near("sum", cost.sum_s, 0);
    near("fill", cost.fill_s * 1e6, 2 * 65.536);
    near("total", cost_total_s(&cost) * 1e6, 60 + 1000 + 2 * 65.536);
}

/* A star up and down: the root adds three of each byte. That hides behind the moving (3 ns a byte) or does not; the
 * first slice waits for its three sums either way. */
static void sums_hide_behind_the_moving(void **state)
{
    uint32_t parent[] = {GRAPH_NONE, 0, 0, 0};
    struct plan_tree tree = {
        .share = 1, .broadcast_parent = parent, .reduce_parent = parent, .depth = 1};
    const struct plan plan = {.op = PLAN_ALLREDUCE,
                              .ranks_count = 4,
                              .trees_count = 1,
                              .trees = &tree,
                              .s_per_byte = 3e-9};
    struct cost_shape cost = planned(&plan, RATE);
    near("latency", cost.latency_s * 1e6, 40);
    near("move", cost.move_s * 1e3, 3);
    near("fill", cost.fill_s * 1e6, 3 * 65.536);
    near("sum", cost.sum_s * 1e6, 3 * 65.536);
    cost = planned(&plan, RATE / 2);
    near("slow sum", cost.sum_s * 1e6, 2 * 3 * 65.536 + 3000);
    cost = planned(&plan, INFINITY);
    near("free sum", cost.sum_s, 0);
}

/* Two trees of a half each, rooted at 0 and 3: each root adds three halves; a slice moves at half of the rate. */
static void trees_share(void **state)
{
    uint32_t first[] = {GRAPH_NONE, 0, 0, 0}, second[] = {3, 3, 3, GRAPH_NONE};
    struct plan_tree trees[] = {
        {.share = 0.5, .root = 0, .reduce_parent = first, .depth = 1},
        {.share = 0.5, .root = 3, .reduce_parent = second, .depth = 1}};
    struct plan plan = {.op = PLAN_REDUCE,
                        .ranks_count = 4,
                        .trees_count = 2,
                        .trees = trees,
                        .s_per_byte = 1.5e-9};
    struct cost_shape cost = planned(&plan, RATE);
    near("sum", cost.sum_s * 1e6, 3 * 65.536);
    near("fill", cost.fill_s, 0);
    plan.op = PLAN_ALLREDUCE;
    trees[0].broadcast_parent = first;
    trees[1].broadcast_parent = second;
    cost = planned(&plan, RATE);
    near("fill of two", cost.fill_s * 1e6, 2 * 1.5 * 65.536);
}

/* ---- who wins ----------------------------------------------------------------------------- */

static const char *winner(struct graph *graph, uint64_t bytes)
{
    const struct cost_table table = shapes_of(graph, PLAN_BROADCAST, bytes);
    return table.shapes[table.wins].name;
}

/* Flat takes 20 us + 7 ns a byte, binomial 60 + 3: they meet at 10,000 bytes. The plan is a chain of seven,
 * 140 us + 1 ns a byte + six slices of 65,536: it meets the binomial tree at 236,608. */
static void sizes_decide(void **state)
{
    struct graph *graph = racks_new(8, 1, 10e3);
    assert_string_equal(winner(graph, 1), "flat");
    assert_string_equal(winner(graph, 9999), "flat");
    assert_string_equal(winner(graph, 10001), "binomial");
    assert_string_equal(winner(graph, 236607), "binomial");
    assert_string_equal(winner(graph, 236609), "plan");
    assert_string_equal(winner(graph, UINT64_C(1) << 40), "plan");
    graph_close(graph);
}

/* ---- the rest ----------------------------------------------------------------------------- */

static tryst_status cost_once(struct overlay *overlay, const struct plan *plan)
{
    struct cost_table table = {.bytes = MESSAGE, .sum_bytes_per_s = RATE};
    return plan_cost(overlay, plan, 0, NULL, &table);
}

static void no_memory_is_said(void **state)
{
    struct graph *graph = racks_new(4, 2, 10e3);
    struct overlay *overlay = overlay_new(graph);
    struct plan_params params = {.op = PLAN_ALLREDUCE};
    struct plan *plan;
    assert_int_equal(plan_open(overlay, &params, NULL, NULL, &plan), TRYST_OK);
    WALK_ALLOCATIONS(cost_once(overlay, plan));
    plan_close(plan);
    overlay_close(overlay);
    graph_close(graph);
}

/* The default of γ is a figure of one machine: what this one has, for whoever wants to compare. */
static void summing_here(void **state)
{
    enum { COUNT = 1 << 24, TIMES = 5 };
    float *sum = test_calloc(COUNT, sizeof *sum),
          *part = test_calloc(COUNT, sizeof *part);
    double best_s = INFINITY;
    for (size_t i = 0; i < COUNT; i++) /* or all of it would be one page of zeros */
        sum[i] = part[i] = 1;
    for (int round = 0; round < TIMES; round++) {
        struct timespec begin, end;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
        for (size_t i = 0; i < COUNT; i++)
            sum[i] += part[i];
        __asm__ volatile("" : : "r"(sum) : "memory");
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
        best_s = fmin(best_s, (double)(end.tv_sec - begin.tv_sec) +
                                  (double)(end.tv_nsec - begin.tv_nsec) * 1e-9);
    }
    print_message("a core here adds %.1f GB/s of float32 from memory; %.0f are assumed\n",
                  COUNT * sizeof *sum / best_s / 1e9, COST_SUM_BYTES_PER_S / 1e9);
    test_free(sum);
    test_free(part);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_at_a_switch),
        cmocka_unit_test(two_racks),
        cmocka_unit_test(gathers_have_the_plan_alone),
        cmocka_unit_test(unknown_latencies_are_said),
        cmocka_unit_test(a_chain_fills),
        cmocka_unit_test(sums_hide_behind_the_moving),
        cmocka_unit_test(trees_share),
        cmocka_unit_test(sizes_decide),
        cmocka_unit_test(no_memory_is_said),
        cmocka_unit_test(summing_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
