/* SPDX-License-Identifier: Apache-2.0 */
/* The time of trees for an operation of a given size: answers worked out by hand; the
 * plan beside simple trees; rates at which ranks sum.
 *
 * Ranks are at switches by wires of 1 GB/s and 10 us, and a rank sums 1 GB/s. So a
 * message of a million bytes takes 1 ms over a wire, 20 us of latency within a rack, and
 * 1 ms to be added. */
#include "support/unit.h"

#include <math.h>
#include <time.h>

#include "graph_new.h"
#include "topology/routes/overlay.h"
#include "topology/sized/plan_sizes.h"
#include "topology/sized/tree_cost.h"

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

enum { RANKS_MAX = 16 };

static void near(const char *what, double is, double wanted)
{
    if (fabs(is - wanted) > 1e-9 * fmax(1e-6, wanted))
        fail_msg("%s: %.12g, not %.12g", what, is, wanted);
}

/* Return the time of trees, in rounds of the faster kind. *link_p, unless it is NULL,
 * becomes the busiest link's time for a byte. */
static double trees_time(struct graph *graph, const struct plan *plan, double bytes,
                         double sum_bytes_per_s, double *link_p)
{
    static const struct tree_overheads none;
    struct overlay *overlay = overlay_new(graph);
    struct tree_set set = {plan->trees, plan->trees_count, false};
    struct tree_costing costing;
    double time_s = INFINITY;
    assert_int_equal(
        tree_costing_init(&costing, overlay, plan->op, set.count, sum_bytes_per_s),
        TRYST_OK);
    for (int turn = 0; turn < (set.count == 1 ? 2 : 1); turn++) {
        set.in_turn = turn > 0;
        struct tree_measure measure = tree_costing_measure(&costing, &set);
        time_s =
            fmin(time_s, tree_measure_time(&measure, bytes, PLAN_SLICE_BYTES, &none));
        if (link_p)
            *link_p = measure.link;
    }
    tree_costing_free(&costing);
    overlay_close(overlay);
    return time_s;
}

static uint32_t flat_parent(uint32_t v)
{
    return 0;
}

static uint32_t chain_parent(uint32_t v)
{
    return v - 1;
}

static uint32_t binomial_parent(uint32_t v)
{
    return v - (1u << (31 - __builtin_clz(v)));
}

static uint32_t binary_parent(uint32_t v)
{
    return (v - 1) / 2;
}

static uint32_t four_ary_parent(uint32_t v)
{
    return (v - 1) / 4;
}

/* The leaders of two racks of four are 0 and 4. */
static uint32_t two_level_parent(uint32_t v)
{
    return v < 5 ? 0 : 4;
}

struct expected {
    const char *name;
    uint32_t (*parent)(uint32_t v);
    double latency_us, move_ms, sum_us, fill_us;
};

/* A plan of one tree with root 0. */
struct shape {
    uint32_t parent[RANKS_MAX];
    struct plan_tree tree;
    struct plan plan;
};

static const struct plan *shape_fill(struct shape *shape, enum plan_op op, uint32_t n,
                                     uint32_t (*parent)(uint32_t v))
{
    *shape = (struct shape){.tree = {.share = 1}};
    for (uint32_t v = 0; v < n; v++)
        shape->parent[v] = v == 0 ? GRAPH_NONE : parent(v);
    if (op != PLAN_REDUCE)
        shape->tree.broadcast_parent = shape->parent;
    if (op != PLAN_BROADCAST)
        shape->tree.reduce_parent = shape->parent;
    shape->plan = (struct plan){
        .op = op, .ranks_count = n, .trees_count = 1, .trees = &shape->tree};
    return &shape->plan;
}

static void shapes_check(struct graph *graph, enum plan_op op,
                         const struct expected *expected, uint32_t count)
{
    for (uint32_t k = 0; k < count; k++) {
        const struct expected *shape = &expected[k];
        struct shape room;
        const struct plan *plan = shape_fill(&room, op, 8, shape->parent);
        near(shape->name, trees_time(graph, plan, MESSAGE, RATE, NULL) * 1e6,
             shape->latency_us + shape->move_ms * 1e3 + shape->sum_us + shape->fill_us);
    }
}

/* Eight ranks at one switch. The busiest wire sends: at the flat tree's root seven
 * messages, at a rank of the chain one, at the root of the binomial tree three, of the
 * binary tree two, of the 4-ary tree four. With traffic up and down at once, a rank in
 * the middle of a chain sends two, of a binary tree three. A slice passes seven rounds,
 * seven, three (one message of each sender in a round), four, four; each round adds one
 * slice at a rank. */
static void eight_at_a_switch(void **state)
{
    static const struct expected down[] = {{"flat", flat_parent, 20, 7, 0, 0},
                                           {"chain", chain_parent, 140, 1, 0, 6 * SLICE},
                                           {"binomial", binomial_parent, 60, 3, 0, 0},
                                           {"binary", binary_parent, 60, 2, 0, 2 * SLICE},
                                           {"4-ary", four_ary_parent, 40, 4, 0, 0}};
    static const struct expected up[] = {
        {"flat", flat_parent, 20, 7, 7 * SLICE, 0},
        {"chain", chain_parent, 140, 1, 7 * SLICE, 6 * SLICE},
        {"binomial", binomial_parent, 60, 3, 3 * SLICE, 0},
        {"binary", binary_parent, 60, 2, 4 * SLICE, 2 * SLICE},
        {"4-ary", four_ary_parent, 40, 4, 4 * SLICE, 0}};
    static const struct expected both[] = {
        {"flat", flat_parent, 40, 7, 7 * SLICE, 7 * SLICE},
        {"chain", chain_parent, 280, 2, 7 * SLICE, 12 * SLICE},
        {"binomial", binomial_parent, 120, 3, 3 * SLICE, 3 * SLICE},
        {"binary", binary_parent, 120, 3, 4 * SLICE, 5 * SLICE},
        {"4-ary", four_ary_parent, 80, 4, 4 * SLICE, 4 * SLICE}};
    struct graph *graph = racks_new(8, 1, 10e3);
    shapes_check(graph, PLAN_BROADCAST, down, 5);
    shapes_check(graph, PLAN_REDUCE, up, 5);
    shapes_check(graph, PLAN_ALLREDUCE, both, 5);
    graph_close(graph);
}

/* Two racks of four. The leaders are 0 and 4, and the way to the other rack is three
 * wires. Four messages of the binomial, binary and 4-ary tree cross the trunk. */
static void two_racks(void **state)
{
    static const struct expected down[] = {
        {"flat", flat_parent, 30, 7, 0, 0},
        {"chain", chain_parent, 150, 1, 0, 6 * SLICE},
        {"binomial", binomial_parent, 70, 4, 0, 2 * SLICE},
        {"binary", binary_parent, 70, 4, 0, 2 * SLICE},
        {"4-ary", four_ary_parent, 50, 4, 0, SLICE},
        {"two-level", two_level_parent, 50, 4, 0, 0}};
    struct graph *graph = racks_new(8, 2, 10e3);
    shapes_check(graph, PLAN_BROADCAST, down, 6);
    graph_close(graph);
}

/* Each rank of an all-gather or reduce-scatter sends a quarter of the message three
 * times. The first slices of the three messages that come to a rank are added one after
 * the other. */
static void gathers(void **state)
{
    static const enum plan_op ops[] = {PLAN_ALLGATHER, PLAN_REDUCE_SCATTER};
    static const double sums_us[] = {0, 3 * SLICE};
    struct graph *graph = racks_new(4, 1, 10e3);
    for (int k = 0; k < 2; k++) {
        struct overlay *overlay = overlay_new(graph);
        struct plan_params params = {.op = ops[k]};
        struct plan *plan;
        assert_int_equal(plan_open(overlay, &params, NULL, &plan), TRYST_OK);
        near("gather", trees_time(graph, plan, MESSAGE, RATE, NULL) * 1e6,
             20 + 750 + sums_us[k]);
        plan_close(plan);
        overlay_close(overlay);
    }
    graph_close(graph);
}

static void unknown_latencies_count_as_0(void **state)
{
    struct graph *graph = racks_new(4, 1, GRAPH_UNKNOWN);
    struct shape room;
    const struct plan *flat = shape_fill(&room, PLAN_BROADCAST, 4, flat_parent);
    near("flat", trees_time(graph, flat, MESSAGE, RATE, NULL) * 1e3, 3);
    graph_close(graph);
}

/* ---- planned trees ----------------------------------------------------------------- */

static double planned_us(const struct plan *plan, double sum_bytes_per_s)
{
    struct graph *graph = racks_new(4, 1, 10e3);
    double time_s = trees_time(graph, plan, MESSAGE, sum_bytes_per_s, NULL);
    graph_close(graph);
    return time_s * 1e6;
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
    near("chain", planned_us(&plan, RATE), 60 + 1000 + 2 * SLICE);
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
    near("sum", planned_us(&plan, RATE), 40 + 3000 + 2 * 3 * SLICE);
    near("slow sum", planned_us(&plan, RATE / 2), 40 + 3000 + 2 * 3 * SLICE + 3000);
    near("free sum", planned_us(&plan, INFINITY), 40 + 3000 + 3 * SLICE);
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
    near("reduce", planned_us(&plan, RATE), 20 + 1500 + 3 * SLICE);
    plan.op = PLAN_ALLREDUCE;
    trees[0].broadcast_parent = first;
    trees[1].broadcast_parent = second;
    /* the root of one tree receives from the other tree's root */
    near("all-reduce", planned_us(&plan, RATE), 40 + 2000 + 3 * SLICE + 2 * SLICE);
}

/* ---- the plan beside simple trees -------------------------------------------------- */

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
static struct graph *dgx(void)
{
    struct graph *graph = graph_new(0, 0);
    uint32_t hub = node_new(graph, "nvswitch", NODE_NV_SWITCH);
    for (uint32_t i = 0; i < 8; i++) {
        char name[16];
        snprintf(name, sizeof name, "gpu%u", i);
        struct graph_node node = {
            .name = name, .kind = NODE_GPU, .parent = GRAPH_NONE, .os_index = GRAPH_NONE};
        struct graph_link link = {.to = hub,
                                  .kind = WIRE_NVLINK,
                                  .bytes_per_s = {450e9, ORIGIN_TABLE},
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

/* Check that no simple tree is faster than the plan where the transfer dominates. */
static void trees_check(struct graph *graph, const char *what)
{
    static uint32_t (*const parents[])(uint32_t v) = {
        flat_parent, chain_parent, binomial_parent, binary_parent, four_ary_parent};
    static const double rates[] = {INFINITY, 0};
    struct overlay *overlay = overlay_new(graph);
    struct plan_params params = {.op = PLAN_ALLREDUCE};
    struct plan *plan;
    assert_int_equal(plan_open(overlay, &params, NULL, &plan), TRYST_OK);
    for (int k = 0; k < 2; k++) {
        double link, other_link;
        double time_s = trees_time(graph, plan, 1u << 30, rates[k], &link);
        for (size_t s = 0; s < sizeof parents / sizeof *parents; s++) {
            struct shape room;
            const struct plan *other =
                shape_fill(&room, params.op, plan->ranks_count, parents[s]);
            double other_s = trees_time(graph, other, 1u << 30, rates[k], &other_link);
            if (link > other_link * (1 + 1e-9))
                fail_msg("%s: the plan moves slower than tree %zu", what, s);
            if (time_s > other_s * (1 + 1e-9))
                fail_msg("%s: the plan takes %g s, tree %zu %g s", what, time_s, s,
                         other_s);
        }
    }
    plan_close(plan);
    overlay_close(overlay);
    graph_close(graph);
}

static void no_tree_is_faster_than_the_plan(void **state)
{
    trees_check(uneven_star(), "star");
    trees_check(dgx(), "DGX");
    trees_check(torus(), "torus");
    trees_check(interleaved_racks(), "racks");
}

/* ---- the rest ---------------------------------------------------------------------- */

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
                  COUNT * sizeof *sum / best_s / 1e9, PLAN_SUM_BYTES_PER_S / 1e9);
    test_free(sum);
    test_free(part);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_at_a_switch),
        cmocka_unit_test(two_racks),
        cmocka_unit_test(gathers),
        cmocka_unit_test(unknown_latencies_count_as_0),
        cmocka_unit_test(a_chain_fills),
        cmocka_unit_test(sums_hide_behind_the_moving),
        cmocka_unit_test(trees_share),
        cmocka_unit_test(no_tree_is_faster_than_the_plan),
        cmocka_unit_test(summing_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
