/* SPDX-License-Identifier: Apache-2.0 */
/* How far from the bound, how many trees, how long: 1,000 networks of up to 64 ranks, and three of 1,024.
 *
 * Arguments: the first network (0 … 999) and how many; a count of 0 is the large ones. Prints the table of
 * topology/README.md. Times are of this process's processor, not the wall's. */
#include "support/unit.h"

#include <sys/resource.h>

#include "plan_nets.h"
#include "topology/plan.h"

static uint32_t first, count;

struct row {
    uint32_t plans, trees, depth, links, iterations;
    double gap, time_s;
};

static double processor_s(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static uint32_t depth_of(const struct plan *plan)
{
    uint32_t deepest = 0;
    for (uint32_t i = 0; i < plan->trees_count; i++)
        deepest = plan->trees[i].depth > deepest ? plan->trees[i].depth : deepest;
    return deepest;
}

/* Keeps the worst of each figure. */
static void row_add(struct row *row, const struct plan *plan, double time_s)
{
    double gap = 1 - plan->bound_s_per_byte / plan->s_per_byte;
    uint32_t depth = depth_of(plan);
    row->plans++;
    row->gap = gap > row->gap ? gap : row->gap;
    row->time_s = time_s > row->time_s ? time_s : row->time_s;
    row->trees = plan->trees_count > row->trees ? plan->trees_count : row->trees;
    row->depth = depth > row->depth ? depth : row->depth;
    row->links = plan->links_count > row->links ? plan->links_count : row->links;
    row->iterations =
        plan->iterations > row->iterations ? plan->iterations : row->iterations;
}

static void table_head(void)
{
    print_message(
        "| network | n | plans | links | iterations | trees | depth | gap | s |\n"
        "|---|---|---|---|---|---|---|---|---|\n");
}

static void table_row(const char *name, uint32_t n, const struct row *row)
{
    print_message("| %s | %u | %u | %u | %u | %u | %u | %.1e | %.2f |\n", name, n,
                  row->plans, row->links, row->iterations, row->trees, row->depth,
                  row->gap, row->time_s);
}

static void plan_one(enum net_family family, uint32_t n, struct random *random,
                     double gap_max, struct row *row)
{
    struct err err = ERR_INIT;
    struct graph *graph = net_open(family, n, random);
    struct overlay *overlay;
    struct plan *plan;
    struct plan_params params = {.op = PLAN_ALLREDUCE, .gap_max = gap_max};
    assert_int_equal(overlay_open(graph, NULL, 0, &err, &overlay), TRYST_OK);
    double began = processor_s();
    assert_int_equal(plan_open(overlay, &params, NULL, &err, &plan), TRYST_OK);
    row_add(row, plan, processor_s() - began);
    plan_close(plan);
    overlay_close(overlay);
    graph_close(graph);
}

static void up_to_64_ranks(void **state)
{
    static struct row rows[NET_FAMILIES];
    if (!count)
        skip();
    for (uint32_t seed = first; seed < first + count; seed++) {
        struct random random;
        random_seed(&random, seed);
        enum net_family family = (enum net_family)(seed % NET_FAMILIES);
        uint32_t n = seed % 5 == 0 ? 64 : 2 + (uint32_t)random_range(&random, 63);
        plan_one(family, n, seed < NET_FAMILIES ? NULL : &random, 0, &rows[family]);
    }
    table_head();
    for (int family = 0; family < NET_FAMILIES; family++)
        table_row(net_names[family], 64, &rows[family]);
    for (int family = 0; family < NET_FAMILIES; family++) {
        assert_true(rows[family].gap <= 0.01);
        assert_true(rows[family].time_s < 2);
    }
}

static void a_thousand_ranks(void **state)
{
    static const enum net_family families[] = {NET_FAT_TREE, NET_DRAGONFLY, NET_TORUS};
    if (count)
        skip();
    table_head();
    for (size_t i = 0; i < COUNT_OF(families); i++) {
        struct row row = {0};
        struct rusage usage;
        plan_one(families[i], 1024, NULL, 0.05, &row);
        table_row(net_names[families[i]], 1024, &row);
        assert_true(row.gap <= 0.05);
        assert_true(row.time_s < 60);
        getrusage(RUSAGE_SELF, &usage);
        print_message("most memory so far: %ld MiB\n", usage.ru_maxrss / 1024);
        assert_true(usage.ru_maxrss < 2 * 1024 * 1024);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(up_to_64_ranks),
        cmocka_unit_test(a_thousand_ranks),
    };
    if (argc == 3) {
        first = (uint32_t)atoi(argv[1]);
        count = (uint32_t)atoi(argv[2]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
