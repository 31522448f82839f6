/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled plans: the ranks' plan must be the planned one, survive encoding, and be
 * refused after any change that makes it invalid. */
#include "support/unit.h"

#include <math.h>
#include <string.h>

#include "collectives/plan/compiled_equal.h"
#include "collectives/plan/compiled_wire.h"
#include "core/memory/alloc.h"
#include "graph_new.h"
#include "plan_nets.h"
#include "topology/sized/compiled_make.h"

static const struct compiled_params no_params;

/* ---- checks of a plan -------------------------------------------------------------- */

static void half_check(const struct compiled_half *half, uint32_t root, uint32_t n)
{
    bool *seen = test_calloc(n, sizeof *seen);
    assert_int_equal(half->first[0], 0);
    assert_int_equal(half->first[n], n - 1);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t steps = 0;
        for (uint32_t at = i; at != root; at = half->parent[at])
            assert_true(++steps < n && half->parent[at] < n);
        for (uint32_t k = half->first[i]; k < half->first[i + 1]; k++) {
            assert_int_equal(half->parent[half->child[k]], i);
            assert_false(seen[half->child[k]]);
            seen[half->child[k]] = true;
        }
    }
    assert_int_equal(half->parent[root], GRAPH_NONE);
    test_free(seen);
}

/* Return the end of part p of `count` elements of 4 bytes, as collectives cuts
 * them. */
static uint64_t range_end(const struct compiled_class *class, uint32_t p, uint64_t count)
{
    return p + 1 == class->parts_count
               ? count
               : (uint64_t)((double)count * class->parts[p].cum_share * 0x1p-32) / 16 *
                     16;
}

static void ranges_check(const struct compiled_class *class)
{
    static const uint64_t counts[] = {0, 1, 15, 16, 17, 4096, 1000003, 1ul << 33};
    for (size_t k = 0; k < COUNT_OF(counts); k++) {
        uint64_t at = 0;
        for (uint32_t p = 0; p < class->parts_count; p++) {
            uint64_t end = range_end(class, p, counts[k]);
            assert_true(end >= at && end <= counts[k]);
            at = end;
        }
        assert_int_equal(at, counts[k]);
    }
}

static void plan_right(const struct compiled_plan *plan)
{
    for (uint32_t t = 0; t < plan->trees_count; t++) {
        const struct compiled_tree *tree = &plan->trees[t];
        if (tree->up.parent)
            half_check(&tree->up, tree->root, plan->ranks_count);
        if (tree->down.parent)
            half_check(&tree->down, tree->root, plan->ranks_count);
    }
    for (uint32_t o = 0; o < plan->ops_count; o++) {
        const struct compiled_op *op = &plan->ops[o];
        assert_int_equal(op->classes[op->classes_count - 1].bytes_max, UINT64_MAX);
        for (uint32_t c = 0; c < op->classes_count; c++) {
            ranges_check(&op->classes[c]);
            assert_int_equal(op->classes[c].parts[0].tree, op->classes[0].parts[0].tree);
        }
    }
}

/* ---- round trips ------------------------------------------------------------------- */

/* Encode, decode and encode again; the bytes must be equal. The caller frees them. */
static uint8_t *round_trip(const struct compiled_plan *plan, size_t *count_p)
{
    struct err err = ERR_INIT;
    struct compiled_plan *back;
    uint8_t *bytes, *again;
    size_t count, count_again;
    assert_int_equal(compiled_plan_encode(plan, &err, &bytes, &count), TRYST_OK);
    if (compiled_plan_decode(bytes, count, &err, &back) != TRYST_OK)
        fail_msg("%s", err.text);
    plan_right(back);
    assert_int_equal(compiled_plan_encode(back, &err, &again, &count_again), TRYST_OK);
    assert_int_equal(count, count_again);
    assert_memory_equal(bytes, again, count);
    assert_int_equal(compiled_plan_digest(bytes, count),
                     compiled_plan_digest(again, count));
    mem_free(again);
    compiled_plan_close(back);
    *count_p = count;
    return bytes;
}

/* Check that shares are those of the plan within 2^-32, and that each tree is one of the
 * plan's. */
static void sizes_same(const struct compiled_plan *plan, const struct plan_sizes *sizes)
{
    const struct compiled_op *op = compiled_plan_op(plan, sizes->op);
    assert_non_null(op);
    assert_int_equal(op->classes_count, sizes->count);
    for (uint32_t s = 0; s < sizes->count; s++) {
        const struct plan_size *size = &sizes->sizes[s];
        const struct compiled_class *class = &op->classes[s];
        double sum = 0;
        assert_int_equal(class->bytes_max, size->bytes_max);
        assert_int_equal(class->slice_bytes, size->slice_bytes);
        assert_int_equal(class->parts_count, size->trees_count);
        for (uint32_t t = 0; t < size->trees_count; t++) {
            const struct compiled_tree *tree = &plan->trees[class->parts[t].tree];
            const uint32_t *parent = plan_tree_parents(&size->trees[t]);
            const uint32_t *mine =
                tree->down.parent ? tree->down.parent : tree->up.parent;
            sum += size->trees[t].share;
            assert_int_equal(tree->root, size->trees[t].root);
            assert_memory_equal(mine, parent, plan->ranks_count * sizeof *parent);
            assert_true(fabs(class->parts[t].cum_share / 0x1p32 - sum) < 1e-9);
        }
    }
}

/* Return the key of rank i's subtree in the order of addition (compiled.h): its height,
 * its ranks, i. */
static uint64_t subtree_key(const uint32_t *parent, uint32_t n, uint32_t i)
{
    uint64_t height = 0, ranks = 0;
    for (uint32_t k = 0; k < n; k++) {
        uint64_t steps = 0;
        uint32_t at = k;
        for (; at != i && at != GRAPH_NONE; at = parent[at])
            steps++;
        if (at == GRAPH_NONE)
            continue;
        ranks++;
        height = steps > height ? steps : height;
    }
    return height << 42 | ranks << 21 | i;
}

/* A rank adds the flattest subtree first, and sends to the tallest first. */
static void half_ordered(const struct compiled_half *half, uint32_t n, bool up)
{
    for (uint32_t i = 0; half->parent && i < n; i++)
        for (uint32_t k = half->first[i] + 1; k < half->first[i + 1]; k++) {
            uint64_t before = subtree_key(half->parent, n, half->child[k - 1]);
            uint64_t after = subtree_key(half->parent, n, half->child[k]);
            assert_true(up ? before < after : before > after);
        }
}

static uint8_t *net_compile(enum net_family family, uint32_t n, struct random *random,
                            enum plan_op op, size_t *count_p)
{
    struct err err = ERR_INIT;
    struct graph *graph = net_open(family, n, random);
    struct plan_params params = {.op = op, .root = op == PLAN_ALLREDUCE ? 0 : n / 3};
    struct overlay *overlay;
    struct plan *plan;
    struct plan_sizes *sizes;
    struct compiled_plan *compiled;
    if (params.root >= graph->ranks_count)
        params.root = 0;
    assert_int_equal(overlay_open(graph, NULL, 0, &err, &overlay), TRYST_OK);
    assert_int_equal(plan_open(overlay, &params, &err, &plan), TRYST_OK);
    assert_int_equal(plan_sizes_open(overlay, plan, 0, &err, &sizes), TRYST_OK);
    const struct plan_sizes *all[] = {sizes};
    assert_int_equal(compiled_plan_make(overlay, all, 1, &no_params, &err, &compiled),
                     TRYST_OK);
    plan_right(compiled);
    sizes_same(compiled, sizes);
    for (uint32_t t = 0; t < compiled->trees_count; t++) {
        half_ordered(&compiled->trees[t].up, compiled->ranks_count, true);
        half_ordered(&compiled->trees[t].down, compiled->ranks_count, false);
    }
    uint8_t *bytes = round_trip(compiled, count_p);
    compiled_plan_close(compiled);
    plan_sizes_close(sizes);
    plan_close(plan);
    overlay_close(overlay);
    graph_close(graph);
    return bytes;
}

static void every_network_survives(void **state)
{
    static const enum plan_op ops[] = {PLAN_ALLREDUCE, PLAN_BROADCAST, PLAN_REDUCE};
    for (uint32_t seed = 0; seed < unit_cases(10) * NET_FAMILIES; seed++) {
        struct random random;
        size_t count, count_again;
        enum net_family family = (enum net_family)(seed % NET_FAMILIES);
        random_seed(&random, seed);
        uint32_t n = 2 + (uint32_t)random_range(&random, 23);
        struct random again = random;
        uint8_t *bytes = net_compile(family, n, &random, ops[seed % 3], &count);
        uint8_t *same = net_compile(family, n, &again, ops[seed % 3], &count_again);
        assert_int_equal(count, count_again);
        assert_memory_equal(bytes, same, count);
        mem_free(bytes);
        mem_free(same);
    }
}

/* ---- the network's rate from a rank's machine -------------------------------------- */

enum { OUT_RANKS = 4 };

static struct graph *star(const double *rates)
{
    struct graph *graph = graph_new(OUT_RANKS, 1);
    for (uint32_t i = 0; i < OUT_RANKS; i++)
        wire_new(graph, i, OUT_RANKS, rates[i]);
    return graph;
}

static struct graph *uneven_star(void)
{
    return star((const double[]){800, 800, 400, 200});
}

/* A star; the rate of the first wire has no origin. */
static struct graph *guessed_star(void)
{
    struct graph *graph = uneven_star();
    graph->links[0].bytes_per_s.origin = ORIGIN_NONE;
    graph->links[1].bytes_per_s.origin = ORIGIN_NONE;
    return graph;
}

static struct graph *unlimited_pair(void)
{
    return star((const double[]){GRAPH_UNLIMITED, GRAPH_UNLIMITED, 400, 200});
}

static struct graph *mesh(void)
{
    struct graph *graph = graph_new(OUT_RANKS, 0);
    for (uint32_t i = 0; i < OUT_RANKS; i++)
        for (uint32_t j = i + 1; j < OUT_RANKS; j++)
            wire_new(graph, i, j, j == i + 1 ? 800 : 200);
    return graph;
}

static struct graph *parallel_wires(void)
{
    struct graph *graph = graph_new(OUT_RANKS, 1);
    for (uint32_t i = 0; i < 2 * OUT_RANKS; i++)
        wire_new(graph, i / 2, OUT_RANKS, 100);
    return graph;
}

/* Two machines with two ranks each and a trunk between their switches. */
static struct graph *machines(void)
{
    struct graph *graph = graph_new(OUT_RANKS, 2);
    for (uint32_t m = 0; m < 2; m++) {
        uint32_t at = node_new(graph, m ? "m1" : "m0", NODE_MACHINE);
        for (uint32_t i = 2 * m; i < 2 * m + 2; i++) {
            graph->nodes[i].parent = at;
            wire_new(graph, i, at, 50);
        }
        wire_new(graph, at, OUT_RANKS + m, m ? 200 : 400);
    }
    wire_new(graph, OUT_RANKS, OUT_RANKS + 1, 300);
    return graph;
}

static struct graph *one_machine(void)
{
    struct graph *graph = uneven_star();
    uint32_t at = node_new(graph, "m0", NODE_MACHINE);
    for (uint32_t i = 0; i < OUT_RANKS; i++)
        graph->nodes[i].parent = at;
    return graph;
}

static struct compiled_plan *graph_compile(struct graph *graph, bool memory_fails)
{
    static const struct plan_params params = {.op = PLAN_ALLREDUCE};
    struct err err = ERR_INIT;
    struct overlay *overlay = overlay_new(graph);
    struct plan *plan;
    struct plan_sizes *sizes;
    struct compiled_plan *compiled = NULL;
    assert_int_equal(plan_open(overlay, &params, &err, &plan), TRYST_OK);
    assert_int_equal(plan_sizes_open(overlay, plan, 0, &err, &sizes), TRYST_OK);
    const struct plan_sizes *all[] = {sizes};
    for (uint32_t k = 1; !compiled; k++) {
        if (memory_fails)
            alloc_fail_at(k);
        tryst_status status =
            compiled_plan_make(overlay, all, 1, &no_params, &err, &compiled);
        bool failed = alloc_fail_off();
        assert_int_equal(status, failed ? TRYST_E_NOMEM : TRYST_OK);
    }
    plan_sizes_close(sizes);
    plan_close(plan);
    overlay_close(overlay);
    graph_close(graph);
    return compiled;
}

static void out_rates(void **state)
{
    static const struct {
        const char *name;
        struct graph *(*make)(void);
        uint64_t out[OUT_RANKS];
    } rows[] = {
        {"uneven star", uneven_star, {800, 800, 400, 200}},
        {"guessed star", guessed_star, {0, 800, 400, 200}},
        {"unlimited pair", unlimited_pair, {0, 0, 400, 200}},
        {"mesh", mesh, {1200, 1800, 1800, 1200}},
        {"parallel wires", parallel_wires, {200, 200, 200, 200}},
        {"machines", machines, {200, 200, 200, 200}},
        {"one machine", one_machine, {0, 0, 0, 0}},
    };
    for (size_t k = 0; k < COUNT_OF(rows); k++) {
        struct compiled_plan *plan = graph_compile(rows[k].make(), k == 0);
        size_t count;
        for (uint32_t i = 0; i < OUT_RANKS; i++)
            if (plan->out_bytes_per_s[i] != rows[k].out[i])
                fail_msg("%s: %llu bytes/s from rank %u", rows[k].name,
                         (unsigned long long)plan->out_bytes_per_s[i], i);
        mem_free(round_trip(plan, &count));
        compiled_plan_close(plan);
    }
}

static void equal_links(void **state)
{
    static const uint32_t ranks[] = {2, 3, 4, 5, 7, 8, 15, 16, 17, 18, 31, 64, 511, 512};
    struct err err = ERR_INIT;
    for (size_t k = 0; k < COUNT_OF(ranks); k++) {
        struct compiled_plan *plan;
        size_t count;
        assert_int_equal(compiled_plan_equal(ranks[k], &no_params, &err, &plan),
                         TRYST_OK);
        plan_right(plan);
        assert_int_equal(plan->flags, COMPILED_RATES_ASSUMED);
        for (uint32_t i = 0; i < ranks[k]; i++)
            assert_int_equal(plan->out_bytes_per_s[i], 0);
        mem_free(round_trip(plan, &count));
        compiled_plan_close(plan);
    }
}

/* Return the most ranks that send to one rank in the class's trees, tree 0 but for its
 * share not counted. */
static uint32_t senders_most(const struct compiled_plan *plan,
                             const struct compiled_class *class)
{
    uint32_t n = plan->ranks_count, most = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t senders = 0;
        for (uint32_t from = 0; from < n; from++) {
            bool sends = false;
            for (uint32_t p = class->parts[0].cum_share == 0; p < class->parts_count;
                 p++) {
                const struct compiled_tree *tree = &plan->trees[class->parts[p].tree];
                sends |= tree->up.parent[from] == i || tree->down.parent[i] == from;
            }
            senders += sends;
        }
        most = senders > most ? senders : most;
    }
    return most;
}

/* Between machines, large operations of up to 16 ranks run a ring; two ranks need
 * none. */
static void equal_links_apart(void **state)
{
    const struct compiled_params apart = {.apart = true};
    struct err err = ERR_INIT;
    for (uint32_t n = 2; n <= 18; n++) {
        struct compiled_plan *plan;
        size_t count;
        bool has_ring = n >= 3 && n <= 16;
        assert_int_equal(compiled_plan_equal(n, &apart, &err, &plan), TRYST_OK);
        plan_right(plan);
        mem_free(round_trip(plan, &count));
        const struct compiled_op *op = compiled_plan_op(plan, PLAN_ALLREDUCE);
        assert_int_equal(op->classes_count, 2 + has_ring);
        if (has_ring) {
            assert_int_equal(op->classes[1].bytes_max, 8 << 20);
            assert_int_equal(senders_most(plan, &op->classes[1]), n - 1);
            assert_int_equal(senders_most(plan, &op->classes[2]), 1);
            assert_int_equal(op->classes[2].bytes_per_s, op->classes[1].bytes_per_s);
        }
        compiled_plan_close(plan);
    }
}

/* Return the most bytes that a rank sends for one byte of the class. */
static double sent_most(const struct compiled_plan *plan,
                        const struct compiled_class *class)
{
    double most = 0;
    for (uint32_t i = 0; i < plan->ranks_count; i++) {
        double before = 0, sent = 0;
        for (uint32_t p = 0; p < class->parts_count; p++) {
            const struct compiled_tree *tree = &plan->trees[class->parts[p].tree];
            double upto = class->parts[p].cum_share / (double)UINT32_MAX;
            uint32_t children = tree->down.first[i + 1] - tree->down.first[i];
            sent += (upto - before) * (children + (i != tree->root));
            before = upto;
        }
        most = fmax(most, sent);
    }
    return most;
}

/* At the planned rate the busiest rank fills its link. Stars load all links alike; a pair
 * of trees loads no link more. */
static void rates_fill_links(void **state)
{
    struct err err = ERR_INIT;
    for (uint32_t n = 4; n <= 40; n += 12) {
        struct compiled_plan *plan;
        assert_int_equal(compiled_plan_equal(n, &no_params, &err, &plan), TRYST_OK);
        const struct compiled_class *class = &plan->ops[0].classes[1];
        double rate = (double)class->bytes_per_s * sent_most(plan, class);
        assert_true(rate > 1.2e9 && rate < 1.2501e9);
        compiled_plan_close(plan);
    }
}

/* A root adds its children in the order in which their sums arrive: the flatter first. */
static void children_in_order(void **state)
{
    struct err err = ERR_INIT;
    struct compiled_plan *plan;
    static const uint32_t up[] = {1, 2, 4}, down[] = {4, 2, 1};
    assert_int_equal(compiled_plan_equal(8, &no_params, &err, &plan), TRYST_OK);
    const struct compiled_tree *tree = &plan->trees[0];
    assert_int_equal(tree->up.first[1], 3);
    assert_memory_equal(tree->up.child, up, sizeof up);
    assert_memory_equal(tree->down.child, down, sizeof down);
    compiled_plan_close(plan);
}

/* ---- hostile bytes ----------------------------------------------------------------- */

/* True if a changed plan is valid, or is refused with a text. */
static bool changed_holds(const uint8_t *bytes, size_t count)
{
    struct err err = ERR_INIT;
    struct compiled_plan *plan;
    /* so that a sanitizer detects reads behind its end */
    uint8_t *exact = test_malloc(count + !count);
    memcpy(exact, bytes, count);
    tryst_status status = compiled_plan_decode(exact, count, &err, &plan);
    test_free(exact);
    if (status == TRYST_OK) {
        plan_right(plan);
        compiled_plan_close(plan);
        return true;
    }
    assert_int_equal(status, TRYST_E_INVALID);
    assert_true(err.text[0] != '\0');
    return false;
}

static void changes_are_refused(void **state)
{
    struct random random;
    size_t count;
    random_seed(&random, 33);
    uint8_t *bytes = net_compile(NET_FAT_TREE, 9, NULL, PLAN_ALLREDUCE, &count);
    assert_true(changed_holds(bytes, count));
    for (size_t k = 0; k < count; k++)
        assert_false(changed_holds(bytes, k));
    for (size_t k = 0; k < count; k++) {
        static const uint8_t masks[] = {1, 0x80, 0xff};
        for (size_t m = 0; m < COUNT_OF(masks); m++) {
            bytes[k] ^= masks[m];
            changed_holds(bytes, count);
            bytes[k] ^= masks[m];
        }
    }
    for (uint32_t turn = 0; turn < unit_cases(20000); turn++) {
        uint8_t old[4];
        size_t at = (size_t)random_range(&random, count - 4);
        memcpy(old, bytes + at, 4);
        for (uint32_t k = 0; k < 4; k++)
            bytes[at + k] = (uint8_t)random_range(&random, 16);
        changed_holds(bytes, count);
        memcpy(bytes + at, old, 4);
    }
    mem_free(bytes);
}

/* The last class of an operation has no end. */
static void last_class_without_end(void **state)
{
    const uint8_t no_end[8] = {255, 255, 255, 255, 255, 255, 255, 255};
    struct err err = ERR_INIT;
    struct compiled_plan *plan;
    uint8_t *bytes;
    size_t count, at = 0;
    assert_int_equal(compiled_plan_equal(2, &no_params, &err, &plan), TRYST_OK);
    assert_int_equal(compiled_plan_encode(plan, &err, &bytes, &count), TRYST_OK);
    compiled_plan_close(plan);
    for (size_t i = 0; i + 8 < count; i++)
        at = memcmp(bytes + i, no_end, 8) == 0 ? i : at;
    assert_true(at > 0);
    bytes[at + 7] = 0;
    assert_int_equal(compiled_plan_decode(bytes, count, &err, &plan), TRYST_E_INVALID);
    assert_non_null(strstr(err.text, "the last one, ends at 72057594037927935 bytes"));
    mem_free(bytes);
}

/* The offsets that compiled.h gives: each of these breaks one rule. */
static void each_rule_refuses(void **state)
{
    static const struct {
        size_t at;
        uint8_t value;
        const char *says;
    } changes[] = {
        {0, 0, "not a compiled plan"},
        {4, 1, "version 1"},
        {12, 2, "flags"},
        {16, 1, "number of ranks: 1"},
        {36, 1, "again"},
        {39, 1, "of no job"},
        {44, 1, "rank 0 of a compiled plan sends 1 bytes/s to the network, though"},
        {60, 0, "halves"},
        {64, 2, "root 2"},
        {68, 0, "no such parent"},
        {70, 1, "cycle"},
        {72, 0, "not a child"},
        {116, 2, "class 0 of a compiled plan: not valid flags: 0x2"},
    };
    struct err err = ERR_INIT;
    struct compiled_plan *plan;
    uint8_t *bytes;
    size_t count;
    assert_int_equal(compiled_plan_equal(2, &no_params, &err, &plan), TRYST_OK);
    assert_int_equal(compiled_plan_encode(plan, &err, &bytes, &count), TRYST_OK);
    compiled_plan_close(plan);
    for (size_t k = 0; k < COUNT_OF(changes); k++) {
        uint8_t old = bytes[changes[k].at];
        err = (struct err)ERR_INIT;
        bytes[changes[k].at] = changes[k].value;
        assert_int_equal(compiled_plan_decode(bytes, count, &err, &plan),
                         TRYST_E_INVALID);
        if (!strstr(err.text, changes[k].says))
            fail_msg("change %zu: %s", k, err.text);
        bytes[changes[k].at] = old;
    }
    bytes[12] = 0; /* no rates are assumed now */
    bytes[52] = 7;
    assert_int_equal(compiled_plan_decode(bytes, count, &err, &plan), TRYST_OK);
    assert_int_equal(plan->out_bytes_per_s[1], 7);
    compiled_plan_close(plan);
    bytes[59] = 1;
    assert_int_equal(compiled_plan_decode(bytes, count, &err, &plan), TRYST_E_INVALID);
    assert_non_null(strstr(err.text, "rank 1 of a compiled plan sends"));
    mem_free(bytes);
}

/* The children of rank 0 in the first tree of three ranks are at 86 and 88: each may
 * come once. */
static void child_twice(void **state)
{
    struct err err = ERR_INIT;
    struct compiled_plan *plan;
    uint8_t *bytes;
    size_t count;
    assert_int_equal(compiled_plan_equal(3, &no_params, &err, &plan), TRYST_OK);
    assert_int_equal(compiled_plan_encode(plan, &err, &bytes, &count), TRYST_OK);
    compiled_plan_close(plan);
    bytes[88] = bytes[86];
    assert_int_equal(compiled_plan_decode(bytes, count, &err, &plan), TRYST_E_INVALID);
    assert_non_null(strstr(err.text, "item 1 of the children"));
    mem_free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_network_survives),
        cmocka_unit_test(equal_links),
        cmocka_unit_test(equal_links_apart),
        cmocka_unit_test(rates_fill_links),
        cmocka_unit_test(children_in_order),
        cmocka_unit_test(changes_are_refused),
        cmocka_unit_test(each_rule_refuses),
        cmocka_unit_test(child_twice),
        cmocka_unit_test(out_rates),
        cmocka_unit_test(last_class_without_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
