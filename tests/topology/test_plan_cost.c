/* SPDX-License-Identifier: Apache-2.0 */
/* The time of an operation of a given size: answers worked out by hand, and the sizes at
 * which another shape wins.
 *
 * Ranks are at switches by wires of 1 GB/s and 10 us, and a rank sums 1 GB/s. So a
 * message of a million bytes takes 1 ms over a wire, 20 us of latency within a rack, and
 * 1 ms to be added. */
#include "support/unit.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "core/memory/alloc.h"
#include "graph_new.h"
#include "topology/report/plan_report.h"

#define MESSAGE 1000000u
#define RATE    1e9
#define SLICE   65.536 /* us that a slice takes over a wire, or to be added */

/* ---- networks ---------------------------------------------------------------------- */

/* Make `racks` switches in a line, with the ranks in equal parts on them, by number. */
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

/* ---- shapes ------------------------------------------------------------------------ */

struct expected {
    const char *name;
    double latency_us, move_ms, sum_us, fill_us;
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
    fail_msg("no shape is named %s", name);
    return NULL;
}

static struct cost_table table_of(struct graph *graph, enum plan_op op, uint64_t bytes,
                                  double sum_bytes_per_s)
{
    struct overlay *overlay = overlay_new(graph);
    struct plan_params params = {.op = op};
    struct cost_table table = {.bytes = bytes, .sum_bytes_per_s = sum_bytes_per_s};
    struct plan *plan;
    assert_int_equal(plan_open(overlay, &params, NULL, &plan), TRYST_OK);
    assert_int_equal(plan_cost(overlay, plan, 0, NULL, &table), TRYST_OK);
    plan_close(plan);
    overlay_close(overlay);
    return table;
}

static struct cost_table shapes_of(struct graph *graph, enum plan_op op, uint64_t bytes)
{
    return table_of(graph, op, bytes, RATE);
}

static void shapes_check(struct graph *graph, enum plan_op op,
                         const struct expected *expected, uint32_t count)
{
    const struct cost_table table = shapes_of(graph, op, MESSAGE);
    assert_int_equal(table.shapes_count, count + 1); /* and the plan */
    assert_false(table.latency_unknown);
    for (uint32_t k = 0; k < count; k++) {
        const struct cost_shape *shape = shape_of(&table, expected[k].name);
        near(shape->name, shape->latency_s * 1e6, expected[k].latency_us);
        near(shape->name, shape->move_s * 1e3, expected[k].move_ms);
        near(shape->name, shape->sum_s * 1e6, expected[k].sum_us);
        near(shape->name, shape->fill_s * 1e6, expected[k].fill_us);
    }
}

/* Eight ranks at one switch. The busiest wire sends: at the flat tree's root seven
 * messages, at a rank of the chain one, at the root of the binomial tree three, of the
 * binary tree two, of the 4-ary tree four. With traffic up and down at once, a rank in
 * the middle of a chain sends two, of a binary tree three. A slice passes seven rounds,
 * seven, three (one message of each sender in a round), four, four; each round adds one
 * slice at a rank. Ring: 14 steps of 125 us; a slice's trip with its sum and latency is
 * longer in the first seven, and the last step ends a latency later. Halving: steps of
 * 500, 250 and 125 us and back, of which the third is as short. */
static void eight_at_a_switch(void **state)
{
    static const struct expected down[] = {
        {"flat", 20, 7, 0, 0},     {"chain", 140, 1, 0, 6 * SLICE},
        {"binomial", 60, 3, 0, 0}, {"binary", 60, 2, 0, 2 * SLICE},
        {"4-ary", 40, 4, 0, 0},    {"two-level", 20, 7, 0, 0}};
    static const struct expected up[] = {
        {"flat", 20, 7, 7 * SLICE, 0},     {"chain", 140, 1, 7 * SLICE, 6 * SLICE},
        {"binomial", 60, 3, 3 * SLICE, 0}, {"binary", 60, 2, 4 * SLICE, 2 * SLICE},
        {"4-ary", 40, 4, 4 * SLICE, 0},    {"two-level", 20, 7, 7 * SLICE, 0}};
    static const struct expected both[] = {
        {"flat", 40, 7, 7 * SLICE, 7 * SLICE},
        {"chain", 280, 2, 7 * SLICE, 12 * SLICE},
        {"binomial", 120, 3, 3 * SLICE, 3 * SLICE},
        {"binary", 120, 3, 4 * SLICE, 5 * SLICE},
        {"4-ary", 80, 4, 4 * SLICE, 4 * SLICE},
        {"two-level", 40, 7, 7 * SLICE, 7 * SLICE},
        {"ring", 8 * 20, 1.75, 7 * (2 * SLICE - 125), 0},
        {"halving-doubling", 2 * 20, 1.75, 2 * SLICE - 125, 0}};
    struct graph *graph = racks_new(8, 1, 10e3);
    shapes_check(graph, PLAN_BROADCAST, down, 6);
    shapes_check(graph, PLAN_REDUCE, up, 6);
    shapes_check(graph, PLAN_ALLREDUCE, both, 8);
    graph_close(graph);
}

/* Two racks of four. The leaders are 0 and 4, and the way to the other rack is three
 * wires. Four messages of the binomial, binary and 4-ary tree cross the trunk. */
static void two_racks(void **state)
{
    static const struct expected down[] = {{"flat", 30, 7, 0, 0},
                                           {"chain", 150, 1, 0, 6 * SLICE},
                                           {"binomial", 70, 4, 0, 2 * SLICE},
                                           {"binary", 70, 4, 0, 2 * SLICE},
                                           {"4-ary", 50, 4, 0, SLICE},
                                           {"two-level", 50, 4, 0, 0}};
    struct graph *graph = racks_new(8, 2, 10e3);
    shapes_check(graph, PLAN_BROADCAST, down, 6);
    graph_close(graph);
}

static void gathers(void **state)
{
    struct graph *graph = racks_new(4, 1, 10e3);
    struct cost_table table = shapes_of(graph, PLAN_ALLGATHER, MESSAGE);
    assert_int_equal(table.shapes_count, 3);
    for (uint32_t s = 0; s < 3; s++) {
        near("all-gather", table.shapes[s].move_s * 1e3, 0.75);
        near("all-gather", table.shapes[s].sum_s, 0);
        near("all-gather", table.shapes[s].latency_s * 1e6, 20);
    }
    /* Each rank adds three quarters of a message, which takes as long as moving them. The
     * first slices of the three messages that come to a rank are added one after the
     * other; in steps only the last one's sum counts. */
    table = shapes_of(graph, PLAN_REDUCE_SCATTER, MESSAGE);
    for (uint32_t s = 0; s < 3; s++)
        near("reduce-scatter", table.shapes[s].move_s * 1e3, 0.75);
    near("reduce-scatter", table.shapes[0].sum_s * 1e6, 3 * SLICE);
    near("ring", shape_of(&table, "ring")->sum_s * 1e6, SLICE);
    near("halving", shape_of(&table, "halving-doubling")->sum_s * 1e6, SLICE);
    graph_close(graph);
}

/* Six ranks: two fold into two others and back, a whole message each; between, 2 (1/2 +
 * 1/4). */
static void folds(void **state)
{
    struct graph *graph = racks_new(6, 1, 0);
    const struct cost_table table = table_of(graph, PLAN_ALLREDUCE, MESSAGE, INFINITY);
    near("fold", shape_of(&table, "halving-doubling")->move_s * 1e3, 2 + 1.5);
    near("ring", shape_of(&table, "ring")->move_s * 1e3, 2 * 5.0 / 6);
    assert_int_equal(shapes_of(graph, PLAN_ALLGATHER, MESSAGE).shapes_count, 2);
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

/* ---- planned trees ----------------------------------------------------------------- */

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

/* A star up and down: the root adds three of each byte. The sums hide behind the transfer
 * (3 ns a byte) or do not; the first slice waits for its three sums either way. */
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
    near("slow sum", cost.sum_s * 1e6, 3 * 65.536 + 3000);
    cost = planned(&plan, INFINITY);
    near("free sum", cost.sum_s, 0);
}

/* Two trees of a half each, rooted at 0 and 3: each root adds three halves; a slice moves
 * at half the rate. */
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
    near("move of two", cost.move_s * 1e3,
         2); /* the root of one tree receives from the other tree's root */
    near("fill of two", cost.fill_s * 1e6, 2 * 65.536);
}

/* ---- the fastest shape by size ----------------------------------------------------- */

static const char *winner(struct graph *graph, uint64_t bytes)
{
    const struct cost_table table = shapes_of(graph, PLAN_BROADCAST, bytes);
    return table.shapes[table.wins].name;
}

/* Flat takes 20 us + 7 ns a byte, 4-ary 40 + 4, binomial 60 + 3; they meet at 6,667 and
 * 20,000 bytes. The binary tree takes 60 us + 2 ns a byte + two slices of 65,536, from
 * 131,072 on less. The plan is a chain of seven, 140 us + 1 ns a byte + six slices: from
 * 342,144 on. */
static void sizes_decide(void **state)
{
    struct graph *graph = racks_new(8, 1, 10e3);
    assert_string_equal(winner(graph, 1), "flat");
    assert_string_equal(winner(graph, 6666), "flat");
    assert_string_equal(winner(graph, 6667), "4-ary");
    assert_string_equal(winner(graph, 19999), "4-ary");
    assert_string_equal(winner(graph, 20001), "binomial");
    assert_string_equal(winner(graph, 131071), "binomial");
    assert_string_equal(winner(graph, 131073), "binary");
    assert_string_equal(winner(graph, 342143), "binary");
    assert_string_equal(winner(graph, 342145), "plan");
    assert_string_equal(winner(graph, UINT64_C(1) << 40), "plan");
    graph_close(graph);
}

/* ---- the plan beside its rivals ---------------------------------------------------- */

/* Ranks at a switch, of 100, 100, 100, 100, 25 and 10 Gbit/s. */
static struct graph *uneven_star(void)
{
    static const double gbits[] = {100, 100, 100, 100, 25, 10};
    struct graph *graph = graph_new(6, 1);
    for (uint32_t i = 0; i < 6; i++)
        wire_late_new(graph, i, 6, gbits[i] * 1.25e8, 0);
    return graph;
}

/* Eight GPUs at an NVLink switch, each with a rank. */
static struct graph *dgx(double nvlink_bytes_per_s, const char *label)
{
    struct graph *graph = graph_new(0, 0);
    uint32_t hub = node_new(graph, "nvswitch", NODE_NV_SWITCH);
    for (uint32_t i = 0; i < 8; i++) {
        char name[16];
        snprintf(name, sizeof name, "gpu%u", i);
        struct graph_node node = {.name = name,
                                  .kind = NODE_GPU,
                                  .parent = GRAPH_NONE,
                                  .os_index = GRAPH_NONE,
                                  .label = label};
        struct graph_link link = {.to = hub,
                                  .kind = WIRE_NVLINK,
                                  .bytes_per_s = {nvlink_bytes_per_s, ORIGIN_TABLE},
                                  .latency_ns = {0, ORIGIN_TABLE}};
        uint32_t gpu, rank;
        assert_int_equal(graph_node_add(graph, &node, NULL, &gpu), TRYST_OK);
        link.from = gpu;
        assert_int_equal(graph_wire_add(graph, &link, NULL), TRYST_OK);
        snprintf(name, sizeof name, "rank%u", i);
        node.kind = NODE_RANK;
        node.parent = gpu;
        assert_int_equal(graph_node_add(graph, &node, NULL, &rank), TRYST_OK);
        link = (struct graph_link){.from = rank,
                                   .to = gpu,
                                   .kind = WIRE_ATTACH,
                                   .bytes_per_s = {GRAPH_UNLIMITED, ORIGIN_TABLE}};
        assert_int_equal(graph_wire_add(graph, &link, NULL), TRYST_OK);
    }
    return graph;
}

/* Switches in a torus of four by four, a rank at each. */
static struct graph *torus(void)
{
    struct graph *graph = graph_new(16, 16);
    for (uint32_t i = 0; i < 16; i++) {
        wire_late_new(graph, i, 16 + i, RATE, 0);
        wire_late_new(graph, 16 + i, 16 + i / 4 * 4 + (i + 1) % 4, RATE, 0);
        wire_late_new(graph, 16 + i, 16 + (i + 4) % 16, RATE, 0);
    }
    return graph;
}

/* Ranks of two racks, interleaved, and a trunk of half a rank's rate. */
static struct graph *interleaved_racks(void)
{
    struct graph *graph = graph_new(8, 2);
    for (uint32_t i = 0; i < 8; i++)
        wire_late_new(graph, i, 8 + i % 2, RATE, 0);
    wire_late_new(graph, 8, 9, RATE / 2, 0);
    return graph;
}

/* Check that the plan is the best of all rooted trees where the transfer dominates. */
static void trees_check(struct graph *graph, const char *what)
{
    static const double rates[] = {INFINITY, 0};
    for (int k = 0; k < 2; k++) {
        const struct cost_table table =
            table_of(graph, PLAN_ALLREDUCE, UINT64_C(1) << 30, rates[k]);
        const struct cost_shape *plan = &table.shapes[0];
        for (uint32_t s = 1; s < table.shapes_count; s++) {
            const struct cost_shape *rival = &table.shapes[s];
            if (rival->rooted && plan->move_s > rival->move_s * (1 + 1e-9))
                fail_msg("%s: the plan moves slower than %s", what, rival->name);
            if (rival->rooted && cost_total_s(plan) > cost_total_s(rival) * (1 + 1e-9))
                fail_msg("%s: the plan takes %g s, %s %g s", what, cost_total_s(plan),
                         rival->name, cost_total_s(rival));
        }
    }
    graph_close(graph);
}

static void no_tree_is_faster_than_the_plan(void **state)
{
    trees_check(uneven_star(), "star");
    trees_check(dgx(450e9, NULL), "DGX");
    trees_check(torus(), "torus");
    trees_check(interleaved_racks(), "racks");
}

/* On that star the plan is a flat tree, so both take as long; on a line the plan is a
 * chain. */
static void one_tree_has_one_time(void **state)
{
    struct graph *graph = uneven_star();
    struct cost_table table = table_of(graph, PLAN_ALLREDUCE, 1u << 26, 0);
    const struct cost_shape *plan = &table.shapes[0], *flat = shape_of(&table, "flat");
    near("latency", plan->latency_s, flat->latency_s);
    near("move", plan->move_s, flat->move_s);
    near("sum", plan->sum_s, flat->sum_s);
    near("fill", plan->fill_s, flat->fill_s);
    assert_int_equal(table.wins, 0);
    graph_close(graph);
    graph = graph_new(4, 0);
    for (uint32_t i = 1; i < 4; i++)
        wire_late_new(graph, i - 1, i, RATE, 1e3);
    table = table_of(graph, PLAN_BROADCAST, 1u << 20, 0);
    near("chain", cost_total_s(&table.shapes[0]),
         cost_total_s(shape_of(&table, "chain")));
    graph_close(graph);
}

/* 2 (n - 1)/n of the message passes each wire. An uneven star goes at the slowest rank's
 * pace. The ring of two racks crosses the trunk once each way, and halving-doubling
 * begins where the large steps stay in a rack. */
static void rings(void **state)
{
    static const uint32_t sizes[] = {2, 3, 5, 8, 12};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        uint32_t n = sizes[k];
        struct graph *graph = racks_new(n, 1, 0);
        const struct cost_table table =
            table_of(graph, PLAN_ALLREDUCE, MESSAGE, INFINITY);
        near("even ring", cost_total_s(shape_of(&table, "ring")) * 1e3,
             2.0 * (n - 1) / n);
        graph_close(graph);
    }
    struct graph *graph = uneven_star();
    struct cost_table table = table_of(graph, PLAN_ALLREDUCE, MESSAGE, INFINITY);
    near("uneven ring", shape_of(&table, "ring")->move_s, 1e6 * 2 * 5 / 6 / 1.25e9);
    graph_close(graph);
    graph = interleaved_racks();
    table = table_of(graph, PLAN_ALLREDUCE, MESSAGE, INFINITY);
    near("ring of racks", shape_of(&table, "ring")->move_s * 1e3, 2 * 7.0 / 8 * 2);
    near("halving of racks", shape_of(&table, "halving-doubling")->move_s * 1e3,
         2 * (0.5 + 0.25 + 4 * 2 / 8.0));
    graph_close(graph);
}

/* ---- how fast ranks sum ------------------------------------------------------------ */

static void rate_check(struct graph *graph, double given, double gb_per_s,
                       const char *from)
{
    const struct cost_table table = table_of(graph, PLAN_ALLREDUCE, MESSAGE, given);
    near(from, table.sums.bytes_per_s / 1e9, gb_per_s);
    assert_string_equal(table.sums.from, from);
    graph_close(graph);
}

static void sums_by_what_ranks_sit_on(void **state)
{
    rate_check(uneven_star(), 0, 7, "core");
    rate_check(uneven_star(), 3e9, 3, "given");
    rate_check(dgx(450e9, NULL), 0, 3350 / 3.0, "H100");
    rate_check(dgx(300e9, NULL), 0, 1555 / 3.0, "A100");
    rate_check(dgx(900e9, NULL), 0, 8000 / 3.0, "B200");
    rate_check(dgx(20e9, NULL), 0, 100, "GPU of unknown model");
    rate_check(dgx(450e9, "NVIDIA H200"), 0, 1600, "H200");
    rate_check(dgx(300e9, "NVIDIA A100 80GB PCIe"), 0, 645, "A100 80GB PCIe");
    rate_check(dgx(450e9, "another"), 0, 100, "GPU of unknown model");
    rate_check(dgx(450e9, NULL), 7e9, 7, "given");
    /* 256 MiB on eight H100s: 38.4 ms when a GPU summed as slowly as a core */
    struct graph *graph = dgx(450e9, NULL);
    const struct cost_table table = table_of(graph, PLAN_ALLREDUCE, 1u << 28, 0);
    assert_true(cost_total_s(&table.shapes[0]) < 1.1e-3);
    graph_close(graph);
}

/* ---- the rest ---------------------------------------------------------------------- */

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
    assert_int_equal(plan_open(overlay, &params, NULL, &plan), TRYST_OK);
    WALK_ALLOCATIONS(cost_once(overlay, plan));
    plan_close(plan);
    overlay_close(overlay);
    graph_close(graph);
}

/* The default of γ was measured on one machine; print this machine's value for
 * comparison. */
static void summing_here(void **state)
{
    enum { COUNT = 1 << 24, TIMES = 5 };
    float *sum = test_calloc(COUNT, sizeof *sum),
          *part = test_calloc(COUNT, sizeof *part);
    double best_s = INFINITY;
    /* otherwise all of it would map one page of zeros */
    for (size_t i = 0; i < COUNT; i++)
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
                  COUNT * sizeof *sum / best_s / 1e9, SUM_CORE_BYTES_PER_S / 1e9);
    test_free(sum);
    test_free(part);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_at_a_switch),
        cmocka_unit_test(two_racks),
        cmocka_unit_test(gathers),
        cmocka_unit_test(folds),
        cmocka_unit_test(unknown_latencies_are_said),
        cmocka_unit_test(a_chain_fills),
        cmocka_unit_test(sums_hide_behind_the_moving),
        cmocka_unit_test(trees_share),
        cmocka_unit_test(sizes_decide),
        cmocka_unit_test(no_tree_is_faster_than_the_plan),
        cmocka_unit_test(one_tree_has_one_time),
        cmocka_unit_test(rings),
        cmocka_unit_test(sums_by_what_ranks_sit_on),
        cmocka_unit_test(no_memory_is_said),
        cmocka_unit_test(summing_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
