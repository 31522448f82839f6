/* SPDX-License-Identifier: Apache-2.0 */
/* Plans chosen for each size: never slower than the plan itself, the same tree 0, equal
 * bits, and known answers.
 *
 * With arguments: the family (by number) and the ranks of one network; its table is
 * printed. */
#include "support/unit.h"

#include <math.h>
#include <string.h>

#include "collectives/plan/shapes.h"
#include "graph_new.h"
#include "plan_nets.h"
#include "topology/sized/candidates.h"
#include "topology/sized/earliest.h"
#include "topology/sized/plan_sizes.h"

struct chosen {
    struct graph *graph;
    struct overlay *overlay;
    struct plan *plan;
    struct plan_sizes *sizes;
};

static struct chosen chosen_of(struct graph *graph, const struct plan_params *params)
{
    struct err err = ERR_INIT;
    struct chosen chosen = {.graph = graph};
    assert_int_equal(overlay_open(graph, NULL, 0, &err, &chosen.overlay), TRYST_OK);
    assert_int_equal(plan_open(chosen.overlay, params, &err, &chosen.plan), TRYST_OK);
    assert_int_equal(plan_sizes_open(chosen.overlay, chosen.plan, 0, &err, &chosen.sizes),
                     TRYST_OK);
    return chosen;
}

static void chosen_close(struct chosen *chosen)
{
    plan_sizes_close(chosen->sizes);
    plan_close(chosen->plan);
    overlay_close(chosen->overlay);
    graph_close(chosen->graph);
}

/* Compute the time of the plan itself for each size, in the best slice or in slices of 64
 * KiB. */
static void plan_times(const struct chosen *chosen, bool any_slice, double *time_s)
{
    static const struct tree_overheads overheads = {PLAN_SLICE_S, PLAN_FLOW_S,
                                                    PLAN_CROWDED, PLAN_SLICE_WIRE_BYTES};
    struct tree_set set = {chosen->plan->trees, chosen->plan->trees_count, false};
    struct tree_costing costing;
    assert_int_equal(
        tree_costing_init(&costing, chosen->overlay, chosen->plan->op, set.count, 0),
        TRYST_OK);
    for (int turn = 0; turn < (set.count == 1 ? 2 : 1); turn++) {
        set.in_turn = turn > 0;
        struct tree_measure measure = tree_costing_measure(&costing, &set);
        uint32_t most = any_slice ? PLAN_SLICE_BYTES_MAX : PLAN_SLICE_BYTES;
        for (uint32_t s = 0; s < PLAN_SIZES; s++) {
            double bytes = (double)plan_size_steps[s].bytes;
            time_s[s] = turn ? time_s[s] : INFINITY;
            for (uint32_t slice = PLAN_SLICE_BYTES; slice <= most; slice *= 2)
                time_s[s] = fmin(time_s[s],
                                 tree_measure_time(&measure, bytes, slice, &overheads));
        }
    }
    tree_costing_free(&costing);
}

static double processor_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void table_print(enum net_family family, uint32_t n, double gap)
{
    struct plan_params params = {.op = PLAN_ALLREDUCE, .gap_max = gap};
    struct chosen chosen = {.graph = net_open(family, n, NULL)};
    double began = processor_s();
    assert_int_equal(overlay_open(chosen.graph, NULL, 0, NULL, &chosen.overlay),
                     TRYST_OK);
    assert_int_equal(plan_open(chosen.overlay, &params, NULL, &chosen.plan), TRYST_OK);
    double planned = processor_s();
    assert_int_equal(plan_sizes_open(chosen.overlay, chosen.plan, 0, NULL, &chosen.sizes),
                     TRYST_OK);
    double ended = processor_s();
    uint32_t depth = 0;
    for (uint32_t t = 0; t < chosen.plan->trees_count; t++)
        depth = chosen.plan->trees[t].depth > depth ? chosen.plan->trees[t].depth : depth;
    print_message("%s of %u: plan %u trees, depth %u; planned %.2f s, chosen %.2f s\n",
                  net_names[family], n, chosen.plan->trees_count, depth, planned - began,
                  ended - planned);
    double plan_s[PLAN_SIZES];
    plan_times(&chosen, false, plan_s);
    for (uint32_t s = 0; s < chosen.sizes->count; s++) {
        const struct plan_size *size = &chosen.sizes->sizes[s];
        double bound_s = (double)size->bytes * chosen.sizes->bound_s_per_byte;
        print_message(
            "| %8.0f KiB | %3u trees | depth %3u | slice %4u KiB | %9.3f ms | plan "
            "%9.3f ms | bound %9.3f ms | %.3f | share0 %.3f rate %.3f\n",
            (double)size->bytes / 1024, size->trees_count, size->depth,
            size->slice_bytes >> 10, size->predicted_s * 1e3, plan_s[s] * 1e3,
            bound_s * 1e3, size->predicted_s / bound_s, size->trees[0].share,
            chosen.sizes->bound_s_per_byte / size->s_per_byte);
    }
    chosen_close(&chosen);
}

/* ---- the choice -------------------------------------------------------------------- */

static void tree_right(const struct plan_tree *tree, const struct plan *plan)
{
    const uint32_t *halves[2] = {tree->broadcast_parent, tree->reduce_parent};
    assert_int_equal(halves[0] != NULL, plan->op != PLAN_REDUCE);
    assert_int_equal(halves[1] != NULL, plan->op != PLAN_BROADCAST);
    if (plan->op != PLAN_ALLREDUCE)
        assert_int_equal(tree->root, plan->trees[0].root);
    for (int half = 0; half < 2; half++) {
        const uint32_t *parent = halves[half];
        for (uint32_t i = 0; parent && i < plan->ranks_count; i++) {
            uint32_t steps = 0;
            for (uint32_t at = i; at != tree->root; at = parent[at])
                assert_true(++steps < plan->ranks_count &&
                            parent[at] < plan->ranks_count);
            assert_true(steps <= tree->depth);
        }
    }
}

/* Check the slices of a size: those of its smallest tree are not too small for the ranks,
 * and those above 64 KiB take no link for long. */
static void slices_right(struct tree_costing *costing, const struct plan_size *size)
{
    uint32_t idle = !(size->trees[0].share > 0);
    struct tree_set set = {size->trees + idle, size->trees_count - idle, false};
    struct tree_measure measure = tree_costing_measure(costing, &set);
    double all = size->slice_bytes / measure.part_most;
    assert_true(all * measure.part_least > PLAN_SLICE_BYTES_THIN - 1);
    assert_true(size->slice_bytes <= PLAN_SLICE_BYTES ||
                all * measure.slice <= PLAN_SLICE_TIME_S * (1 + 1e-9));
}

/* The time by which a size was chosen is that of its trees, the idle flows of tree 0
 * included. */
static void predictions_right(const struct chosen *chosen)
{
    const struct plan_sizes *sizes = chosen->sizes;
    struct tree_costing costing;
    uint32_t most = 1;
    for (uint32_t s = 0; s < sizes->count; s++)
        if (sizes->sizes[s].trees_count > most)
            most = sizes->sizes[s].trees_count;
    assert_int_equal(
        tree_costing_init(&costing, chosen->overlay, chosen->plan->op, most, 0),
        TRYST_OK);
    for (uint32_t s = 0; s < sizes->count; s++) {
        double time_s = plan_size_time(&costing, &sizes->sizes[s]);
        if (!(fabs(time_s / sizes->sizes[s].predicted_s - 1) < 1e-9))
            fail_msg("size %u: %g s, predicted %g s", s, time_s,
                     sizes->sizes[s].predicted_s);
        slices_right(&costing, &sizes->sizes[s]);
    }
    tree_costing_free(&costing);
}

/* Check that shares sum to 1, that tree 0 is the same for all sizes, and that no size
 * takes longer than the plan itself, but for tree 0's flows. */
static void sizes_right(const struct chosen *chosen)
{
    const struct plan_sizes *sizes = chosen->sizes;
    const struct plan_tree *first = &sizes->sizes[0].trees[0];
    size_t bytes = sizes->ranks_count * sizeof(uint32_t);
    double plan_s[PLAN_SIZES];
    plan_times(chosen, true, plan_s);
    predictions_right(chosen);
    assert_int_equal(sizes->sizes[0].trees_count, 1);
    assert_int_equal(sizes->sizes[PLAN_SIZES - 1].bytes_max, UINT64_MAX);
    for (uint32_t s = 0; s < sizes->count; s++) {
        const struct plan_size *size = &sizes->sizes[s];
        double sum = 0;
        for (uint32_t t = 0; t < size->trees_count; t++) {
            sum += size->trees[t].share;
            assert_true(size->trees[t].share > (t ? 0 : -1));
            for (uint32_t k = 0; k < t; k++)
                assert_false(
                    plan_tree_same(&size->trees[t], &size->trees[k], sizes->ranks_count));
            tree_right(&size->trees[t], chosen->plan);
        }
        assert_true(fabs(sum - 1) < 1e-12);
        assert_memory_equal(plan_tree_parents(&size->trees[0]), plan_tree_parents(first),
                            bytes);
        assert_true(size->predicted_s >=
                    0.999 * (double)size->bytes * sizes->bound_s_per_byte);
        if (s > 0)
            assert_true(size->predicted_s <=
                        1.01 * plan_s[s] + 4 * sizes->ranks_count * PLAN_FLOW_S);
    }
}

static void every_network(void **state)
{
    static const enum plan_op ops[] = {PLAN_ALLREDUCE, PLAN_BROADCAST, PLAN_REDUCE};
    for (uint32_t seed = 0; seed < unit_cases(6) * NET_FAMILIES; seed++) {
        struct random random;
        random_seed(&random, seed);
        uint32_t n = 2 + (uint32_t)random_range(&random, 31);
        struct random again = random;
        enum net_family family = (enum net_family)(seed % NET_FAMILIES);
        struct plan_params params = {.op = ops[seed % COUNT_OF(ops)], .root = 1};
        struct graph *graph = net_open(family, n, &random);
        struct chosen chosen = chosen_of(graph, &params);
        struct chosen same = chosen_of(net_open(family, n, &again), &params);
        sizes_right(&chosen);
        assert_int_equal(chosen.sizes->digest, same.sizes->digest);
        chosen_close(&same);
        chosen_close(&chosen);
    }
}

/* Every root's trees: nothing is chosen, but there is a digest. */
static void all_roots(void **state)
{
    struct plan_params params = {.op = PLAN_ALLGATHER};
    struct chosen chosen = chosen_of(net_open(NET_STAR, 4, NULL), &params);
    assert_int_equal(chosen.sizes->count, 0);
    assert_int_not_equal(chosen.sizes->digest, chosen.plan->digest);
    chosen_close(&chosen);
}

/* The plan of the first network has 128 trees, that of the second one tree of depth
 * 512. */
static void large_networks_fill_fast(void **state)
{
    static const struct {
        enum net_family family;
        uint32_t n, depth_max;
        /* Ratio to the bound at 64 MiB, on links that several pairs use at a time; the
         * plans take 1.11 and 1.58 of what such links allow. */
        double ratio_max;
    } nets[] = {{NET_FAT_TREE, 256, 16, 1.03 * (1 + PLAN_CROWDED)},
                {NET_DRAGONFLY, 1024, 20, 1.03 * (1 + PLAN_CROWDED)}};
    for (size_t k = 0; k < COUNT_OF(nets); k++) {
        struct plan_params params = {.op = PLAN_ALLREDUCE, .gap_max = 0.05};
        struct chosen chosen =
            chosen_of(net_open(nets[k].family, nets[k].n, NULL), &params);
        const struct plan_size *size = &chosen.sizes->sizes[4];
        double bound_s = (double)size->bytes * chosen.sizes->bound_s_per_byte;
        sizes_right(&chosen);
        assert_int_equal(size->bytes, 64u << 20);
        assert_true(size->depth <= nets[k].depth_max);
        if (size->predicted_s > nets[k].ratio_max * bound_s)
            fail_msg("%s of %u: %.3f times the bound", net_names[nets[k].family],
                     nets[k].n, size->predicted_s / bound_s);
        chosen_close(&chosen);
    }
}

static struct graph *star_new(uint32_t n)
{
    struct graph *graph = graph_new(n, 1);
    for (uint32_t i = 0; i < n; i++)
        wire_new(graph, i, n, 1e9);
    return graph;
}

/* Mark the pairs of ranks that a half of a tree sends between. */
static void pairs_mark(const uint32_t *parent, bool up, uint32_t n, bool *sends)
{
    for (uint32_t i = 0; i < n; i++)
        if (parent[i] != GRAPH_NONE)
            sends[up ? i * n + parent[i] : parent[i] * n + i] = true;
}

/* Return the most ranks that send to one rank, in trees with a share. */
static uint32_t senders_most(const struct plan_size *size, uint32_t n)
{
    bool *sends = test_calloc((size_t)n * n, sizeof *sends);
    uint32_t most = 0;
    for (uint32_t t = 0; t < size->trees_count; t++)
        if (size->trees[t].share > 0) {
            pairs_mark(size->trees[t].reduce_parent, true, n, sends);
            pairs_mark(size->trees[t].broadcast_parent, false, n, sends);
        }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t senders = 0;
        for (uint32_t k = 0; k < n; k++)
            senders += sends[k * n + i];
        most = senders > most ? senders : most;
    }
    test_free(sends);
    return most;
}

/* Where links lose packets, an all-reduce takes a ring if none of its links has to carry
 * more than the plan's: each rank receives from one rank. Where they have credits, or one
 * is slow, it takes trees. */
static void rings_where_packets_are_lost(void **state)
{
    static const struct {
        uint32_t n;
        enum graph_link_kind kind;
        double last_part; /* of the rate of the others, the last rank's */
        bool is_ring;
    } rows[] = {{4, WIRE_UNKNOWN, 1, true},     {4, WIRE_ETHERNET, 1, true},
                {9, WIRE_ETHERNET, 1, true},    {32, WIRE_ETHERNET, 1, true},
                {4, WIRE_INFINIBAND, 1, false}, {9, WIRE_INFINIBAND, 1, false},
                {4, WIRE_ETHERNET, 0.25, false}};
    static const struct plan_params params = {.op = PLAN_ALLREDUCE};
    for (size_t k = 0; k < COUNT_OF(rows); k++) {
        struct graph *graph = star_new(rows[k].n);
        for (uint32_t l = 0; l < graph->links_count; l++) {
            struct graph_link *link = &graph->links[l];
            link->kind = rows[k].kind;
            if (link->from == rows[k].n - 1 || link->to == rows[k].n - 1)
                link->bytes_per_s.value *= rows[k].last_part;
        }
        assert_int_equal(graph_seal(graph, NULL), TRYST_OK);
        struct chosen chosen = chosen_of(graph, &params);
        sizes_right(&chosen);
        uint32_t most = senders_most(&chosen.sizes->sizes[4], rows[k].n);
        if ((most == 1) != rows[k].is_ring)
            fail_msg("row %zu: a rank receives from %u", k, most);
        chosen_close(&chosen);
    }
}

/* ---- parts of the choice ----------------------------------------------------------- */

/* A slice passes each round in two overheads: one of its sender, one of its receiver. */
static void a_round_costs_two_overheads(void **state)
{
    static const struct tree_overheads overheads = {.slice_s = 1, .flow_s = 100};
    struct tree_pace pace = {.part = 1, .latency_s = 0.5, .rounds = 3};
    const struct tree_measure measure = {.trees = &pace,
                                         .count = 1,
                                         .part_most = 1,
                                         .edges = 2,
                                         .flows = 2,
                                         .routed = true};
    assert_true(tree_measure_time(&measure, 4096, 4096, &overheads) == 206.5);
}

/* The root of a star with three children serves one in each round. */
static void siblings_take_turns(void **state)
{
    static uint32_t parent[] = {GRAPH_NONE, 0, 0, 0};
    const struct plan_tree tree = {
        .share = 1, .depth = 1, .broadcast_parent = parent, .reduce_parent = parent};
    struct tree_set set = {&tree, 1, false};
    struct graph *graph = star_new(4);
    struct overlay *overlay = overlay_new(graph);
    struct tree_costing costing;
    assert_int_equal(tree_costing_init(&costing, overlay, PLAN_ALLREDUCE, 1, 0),
                     TRYST_OK);
    assert_int_equal(tree_costing_measure(&costing, &set).trees->rounds, 2);
    set.in_turn = true;
    assert_int_equal(tree_costing_measure(&costing, &set).trees->rounds, 6);
    tree_costing_free(&costing);
    overlay_close(overlay);
    graph_close(graph);
}

/* In a pair of trees no rank has children in both, but for one of an odd number. */
static void pairs_share_no_inner_rank(void **state)
{
    for (uint32_t n = 2; n <= 40; n++) {
        uint32_t order[40], parent[2][40], both = 0;
        bool inner[2][40] = {{false}};
        for (uint32_t i = 0; i < n; i++)
            order[i] = n - 1 - i;
        for (int second = 0; second < 2; second++) {
            uint32_t root = shape_of_pair(order, n, second, parent[second]);
            assert_int_equal(parent[second][root], GRAPH_NONE);
            for (uint32_t i = 0; i < n; i++)
                if (parent[second][i] != GRAPH_NONE)
                    inner[second][parent[second][i]] = true;
        }
        for (uint32_t i = 0; i < n; i++)
            both += inner[0][i] && inner[1][i];
        assert_true(both <= n % 2);
    }
}

/* Sums go forward through the order to the root, results forward from it. */
static void a_ring_goes_forward(void **state)
{
    static const uint32_t order[] = {2, 0, 3, 1};
    static const uint32_t wanted_up[] = {GRAPH_NONE, 2, 0, 1};
    static const uint32_t wanted_down[] = {GRAPH_NONE, 3, 1, 0};
    uint32_t up[4], down[4];
    shape_ring(order, 4, 1, up, down);
    assert_memory_equal(up, wanted_up, sizeof up);
    assert_memory_equal(down, wanted_down, sizeof down);
}

/* A link with two senders is crowded, one that two trees share for one sender is not. */
static void crowded_is_by_pairs(void **state)
{
    static uint32_t chain[] = {GRAPH_NONE, 0, 1}, star[] = {GRAPH_NONE, 0, 0};
    struct plan_tree trees[] = {{.share = 0.5, .broadcast_parent = chain},
                                {.share = 0.5, .broadcast_parent = chain}};
    struct tree_set set = {trees, 2, false};
    struct graph *graph = star_new(3);
    struct overlay *overlay = overlay_new(graph);
    struct tree_costing costing;
    assert_int_equal(tree_costing_init(&costing, overlay, PLAN_BROADCAST, 2, 0),
                     TRYST_OK);
    assert_true(tree_costing_measure(&costing, &set).crowded == 0);
    trees[1].broadcast_parent = star; /* rank 0 also sends to 2 now: 1.5 of the bytes */
    assert_float_equal(tree_costing_measure(&costing, &set).crowded, 1.5e-9, 1e-15);
    tree_costing_free(&costing);
    overlay_close(overlay);
    graph_close(graph);
}

/* All of the time that a crowded link is busy is longer, in the first slices too. */
static void crowded_takes_longer(void **state)
{
    static const struct tree_overheads overheads = {.crowded = 0.5};
    struct tree_pace pace = {.part = 1, .move = 3, .rounds = 2};
    struct tree_measure measure = {.trees = &pace,
                                   .count = 1,
                                   .link = 2,
                                   .crowded = 2,
                                   .part_most = 1,
                                   .routed = true};
    assert_true(tree_measure_time(&measure, 10, 4, &overheads) == 1.5 * (4 * 3 + 6 * 2));
    measure.crowded = 1; /* not the busiest link */
    assert_true(tree_measure_time(&measure, 10, 4, &overheads) == 4 * 3 + 6 * 2);
}

/* All trees fill with a slice each, the smaller ones with smaller slices; the slices of
 * the largest are given. */
static void trees_have_equally_many_slices(void **state)
{
    static const struct tree_overheads none;
    struct tree_pace paces[] = {{.part = 0.75, .move = 3}, {.part = 0.25, .move = 5}};
    const struct tree_measure measure = {
        .trees = paces, .count = 2, .link = 2, .part_most = 0.75, .routed = true};
    assert_true(tree_measure_time(&measure, 10, 3, &none) == 4 * 5 + 6 * 2);
}

/* A chain of three in two trees: the middle rank sends and receives a slice of each. */
static void slices_cost_bytes_beside_their_own(void **state)
{
    static uint32_t chain[] = {GRAPH_NONE, 0, 1};
    struct plan_tree trees[] = {{.share = 0.8, .broadcast_parent = chain},
                                {.share = 0.2, .broadcast_parent = chain}};
    struct tree_set set = {trees, 2, false};
    static const struct tree_overheads overheads = {.slice_bytes = 100};
    struct graph *graph = star_new(3);
    struct overlay *overlay = overlay_new(graph);
    struct tree_costing costing;
    assert_int_equal(tree_costing_init(&costing, overlay, PLAN_BROADCAST, 2, 0),
                     TRYST_OK);
    struct tree_measure measure = tree_costing_measure(&costing, &set);
    assert_float_equal(measure.beside, 2e-9, 1e-15);
    assert_float_equal(measure.slice, 0.8e-9, 1e-15);
    assert_true(measure.part_most == 0.8 && measure.part_least == 0.2);
    double more_s = tree_measure_time(&measure, 1e6, 800, &overheads);
    double time_s =
        tree_measure_time(&measure, 1e6, 800, &(struct tree_overheads){.slice_s = 0});
    assert_float_equal(more_s - time_s, 1e6 / 1000 * 100 * 2e-9 + 1000 * 0.2e-9, 1e-6);
    tree_costing_free(&costing);
    overlay_close(overlay);
    graph_close(graph);
}

/* Ranks 0 and 1 on one machine, over memory of 4 GB/s, and rank 2 outside. */
static struct graph *machine_new(void)
{
    struct graph *graph;
    assert_int_equal(graph_open(&graph), TRYST_OK);
    uint32_t machine = node_new(graph, "m", NODE_MACHINE), ranks[3];
    for (uint32_t i = 0; i < 3; i++) {
        struct graph_node node = {.name = (const char *[]){"a", "b", "c"}[i],
                                  .kind = NODE_RANK,
                                  .parent = i < 2 ? machine : GRAPH_NONE,
                                  .os_index = GRAPH_NONE};
        assert_int_equal(graph_node_add(graph, &node, NULL, &ranks[i]), TRYST_OK);
        wire_new(graph, ranks[i], machine, i < 2 ? 4e9 : 1e9);
    }
    for (uint32_t l = 0; l < 4; l++)
        graph->links[l].kind = WIRE_MEMORY;
    return graph;
}

/* Inside a machine slices and flows cost less, and a rank that adds at 8 GB/s adds or
 * copies at the 4 GB/s of the memory. */
static void edges_inside_a_machine_cost_less(void **state)
{
    static const double slice = PLAN_HOST_SLICE_S / PLAN_SLICE_S,
                        flow = PLAN_HOST_FLOW_S / PLAN_FLOW_S;
    static uint32_t star[] = {GRAPH_NONE, 0, 0};
    const struct plan_tree tree = {
        .share = 1, .depth = 1, .broadcast_parent = star, .reduce_parent = star};
    struct tree_set set = {&tree, 1, false};
    struct graph *graph = machine_new();
    struct overlay *overlay = overlay_new(graph);
    struct tree_costing costing;
    assert_int_equal(tree_costing_init(&costing, overlay, PLAN_ALLREDUCE, 1, 8e9),
                     TRYST_OK);
    struct tree_measure measure = tree_costing_measure(&costing, &set);
    assert_float_equal(measure.edges, 2 + 2 * slice, 1e-12);
    assert_float_equal(measure.flows, 2 + 2 * flow, 1e-12);
    assert_float_equal(measure.sums, 1 / 4e9 + 1 / 8e9, 1e-15);
    assert_float_equal(measure.trees->rounds, 2, 1e-12);
    set.in_turn = true;
    measure = tree_costing_measure(&costing, &set);
    assert_float_equal(measure.trees->rounds, 2 + 2 * slice, 1e-12);
    tree_costing_free(&costing);
    overlay_close(overlay);
    graph_close(graph);
}

/* Slices take less time than PLAN_SLICE_TIME_S where links are slow, and no less than the
 * least; a fast network gets larger ones. */
static void slices_follow_the_links(void **state)
{
    static const struct {
        double bytes_per_s;
        uint32_t slice_bytes; /* of 64 MiB */
    } rows[] = {{6.25e6, 16 << 10}, {25e6, 32 << 10}, {50e6, 64 << 10}, {50e9, 1 << 20}};
    static const struct plan_params params = {.op = PLAN_ALLREDUCE};
    for (size_t k = 0; k < COUNT_OF(rows); k++) {
        struct graph *graph = star_new(4);
        for (uint32_t l = 0; l < graph->links_count; l++)
            graph->links[l].bytes_per_s.value = rows[k].bytes_per_s;
        assert_int_equal(graph_seal(graph, NULL), TRYST_OK);
        struct chosen chosen = chosen_of(graph, &params);
        assert_int_equal(chosen.sizes->sizes[4].slice_bytes, rows[k].slice_bytes);
        chosen_close(&chosen);
    }
}

/* A tree over the edges between 0 and 1 makes later trees avoid them, in both
 * directions: rank 2 reaches the other one. */
static void burdened_edges_come_last(void **state)
{
    static const uint32_t tree[2][4] = {{GRAPH_NONE, 0, GRAPH_NONE, GRAPH_NONE},
                                        {1, GRAPH_NONE, GRAPH_NONE, GRAPH_NONE}};
    struct graph *graph = star_new(4);
    struct overlay *overlay = overlay_new(graph);
    for (int root = 0; root < 2; root++)
        for (int k = 0; k < 2; k++) {
            struct earliest *earliest;
            uint32_t parent[4];
            assert_int_equal(earliest_open(overlay, &earliest), TRYST_OK);
            assert_true(earliest_tree(earliest, (uint32_t)root, 1e6, parent));
            assert_int_equal(parent[!root], root);
            earliest_burden(earliest, tree[k]);
            assert_true(earliest_tree(earliest, (uint32_t)root, 1e6, parent));
            assert_int_equal(parent[!root], 2);
            earliest_close(earliest);
        }
    overlay_close(overlay);
    graph_close(graph);
}

/* True if the parents are those of a chain from rank order[0] to order[n - 1]. */
static bool is_chain(const uint32_t *parent, const uint32_t *order, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        if (parent[order[k]] != (k ? order[k - 1] : GRAPH_NONE))
            return false;
    return true;
}

/* One of the candidates is the chain from the fastest rank to the slowest, and a tree
 * that is not the plan's carries a part that is worth it. */
static void candidates_right(void **state)
{
    static const struct plan_params params = {.op = PLAN_ALLREDUCE};
    static const uint32_t by_rate[] = {2, 0, 4, 1, 3};
    static const double rates[] = {8e8, 2e8, 16e8, 1e8, 4e8};
    struct graph *graph = graph_new(5, 1);
    for (uint32_t i = 0; i < 5; i++)
        wire_new(graph, i, 5, rates[i]);
    struct overlay *overlay = overlay_new(graph);
    struct candidates candidates = {.overlay = overlay};
    struct plan *plan;
    bool chain = false;
    assert_int_equal(plan_open(overlay, &params, NULL, &plan), TRYST_OK);
    candidates.plan = plan;
    assert_int_equal(candidates_make(&candidates), TRYST_OK);
    for (uint32_t k = 0; k < candidates.count; k++)
        if (candidates.sets[k].count == 1)
            chain |=
                is_chain(plan_tree_parents(&candidates.sets[k].trees[0]), by_rate, 5);
    assert_true(chain);
    candidates_free(&candidates);
    plan_close(plan);
    overlay_close(overlay);
    graph_close(graph);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_network),
        cmocka_unit_test(all_roots),
        cmocka_unit_test(large_networks_fill_fast),
        cmocka_unit_test(rings_where_packets_are_lost),
        cmocka_unit_test(a_ring_goes_forward),
        cmocka_unit_test(crowded_is_by_pairs),
        cmocka_unit_test(crowded_takes_longer),
        cmocka_unit_test(trees_have_equally_many_slices),
        cmocka_unit_test(slices_cost_bytes_beside_their_own),
        cmocka_unit_test(edges_inside_a_machine_cost_less),
        cmocka_unit_test(slices_follow_the_links),
        cmocka_unit_test(a_round_costs_two_overheads),
        cmocka_unit_test(siblings_take_turns),
        cmocka_unit_test(pairs_share_no_inner_rank),
        cmocka_unit_test(burdened_edges_come_last),
        cmocka_unit_test(candidates_right),
    };
    if (argc >= 3) {
        table_print((enum net_family)atoi(argv[1]), (uint32_t)atoi(argv[2]),
                    argc > 3 ? atof(argv[3]) : 0);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
