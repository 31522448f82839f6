/* SPDX-License-Identifier: Apache-2.0 */
/* Distance from the bound, number of trees, time: 1,000 networks of up to 64 ranks, and
 * three of 1,024.
 *
 * Arguments: the first network (0 … 999) and how many; a count of 0 selects the large
 * ones. Prints the table of tests/perf/RESULTS.md. Times are processor times of this
 * process on all processors, not wall time, and include routes and plan. */
#include "support/unit.h"

#include <sys/resource.h>

#include "plan_nets.h"
#include "topology/plan/plan.h"

static uint32_t first, count;

enum figure { LINKS, ITERATIONS, TREES, DEPTH, GAP, TIME_S, FIGURES };

struct row {
    double *figures[FIGURES];
    uint32_t plans;
};

static double processor_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static uint32_t depth_of(const struct plan *plan)
{
    uint32_t deepest = 0;
    for (uint32_t i = 0; i < plan->trees_count; i++)
        deepest = plan->trees[i].depth > deepest ? plan->trees[i].depth : deepest;
    return deepest;
}

static void row_add(struct row *row, const struct plan *plan, double time_s)
{
    const double figures[FIGURES] = {
        [LINKS] = plan->links_count,
        [ITERATIONS] = plan->iterations,
        [TREES] = plan->trees_count,
        [DEPTH] = depth_of(plan),
        [GAP] = 1 - plan->bound_s_per_byte / plan->s_per_byte,
        [TIME_S] = time_s,
    };
    for (int i = 0; i < FIGURES; i++) {
        row->figures[i] =
            realloc(row->figures[i], (row->plans + 1) * sizeof *row->figures[i]);
        assert_non_null(row->figures[i]);
        row->figures[i][row->plans] = figures[i];
    }
    row->plans++;
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static void row_sort(struct row *row)
{
    for (int i = 0; i < FIGURES && row->plans; i++)
        qsort(row->figures[i], row->plans, sizeof *row->figures[i], by_value);
}

static double worst(const struct row *row, enum figure figure)
{
    return row->plans ? row->figures[figure][row->plans - 1] : 0;
}

static double median(const struct row *row, enum figure figure)
{
    return row->plans ? row->figures[figure][row->plans / 2] : 0;
}

static void row_free(struct row *row)
{
    for (int i = 0; i < FIGURES; i++)
        free(row->figures[i]);
}

static void table_head(void)
{
    print_message(
        "| network | n | plans | links | iterations | trees | depth | gap | s |\n"
        "|---|---|---|---|---|---|---|---|---|\n");
}

static void table_row(const char *name, const char *ranks, const struct row *row)
{
    print_message("| %s | %s | %u | %.0f | %.0f, %.0f | %.0f, %.0f | %.0f, %.0f | %.1e, "
                  "%.1e | %.3f, %.3f |\n",
                  name, ranks, row->plans, worst(row, LINKS), median(row, ITERATIONS),
                  worst(row, ITERATIONS), median(row, TREES), worst(row, TREES),
                  median(row, DEPTH), worst(row, DEPTH), median(row, GAP),
                  worst(row, GAP), median(row, TIME_S), worst(row, TIME_S));
}

static void plan_one(enum net_family family, uint32_t n, struct random *random,
                     double gap_max, struct row *row)
{
    struct err err = ERR_INIT;
    struct graph *graph = net_open(family, n, random);
    struct overlay *overlay;
    struct plan *plan;
    struct plan_params params = {.op = PLAN_ALLREDUCE, .gap_max = gap_max};
    double began = processor_s();
    assert_int_equal(overlay_open(graph, NULL, 0, &err, &overlay), TRYST_OK);
    assert_int_equal(plan_open(overlay, &params, &err, &plan), TRYST_OK);
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
    for (int family = 0; family < NET_FAMILIES; family++) {
        row_sort(&rows[family]);
        table_row(net_names[family], "2–64", &rows[family]);
    }
    for (int family = 0; family < NET_FAMILIES; family++) {
        assert_true(worst(&rows[family], GAP) <= 0.01);
        assert_true(worst(&rows[family], TIME_S) < 2);
        row_free(&rows[family]);
    }
}

/* Equal rates, every size: no size must take long, also one that random sizes miss. */
static void every_size_ends(void **state)
{
    static const enum net_family families[] = {NET_TORUS, NET_MESH};
    if (!count)
        skip();
    for (size_t i = 0; i < COUNT_OF(families); i++) {
        struct row row = {0};
        for (uint32_t n = 2; n <= 64; n++)
            plan_one(families[i], n, NULL, 0, &row);
        row_sort(&row);
        table_row(net_names[families[i]], "2…64, alike", &row);
        assert_true(worst(&row, GAP) <= 0.01);
        assert_true(worst(&row, TIME_S) < 2);
        row_free(&row);
    }
}

static void a_thousand_ranks(void **state)
{
    /* 5 % are enough; a torus gets nearer for a few trees more */
    static const struct {
        enum net_family family;
        double gap_max;
    } nets[] = {{NET_FAT_TREE, 0.05}, {NET_DRAGONFLY, 0.05}, {NET_TORUS, 0.01}};
    if (count)
        skip();
    table_head();
    for (size_t i = 0; i < COUNT_OF(nets); i++) {
        struct row row = {0};
        struct rusage usage;
        plan_one(nets[i].family, 1024, NULL, nets[i].gap_max, &row);
        table_row(net_names[nets[i].family], "1024", &row);
        assert_true(worst(&row, GAP) <= nets[i].gap_max);
        assert_true(worst(&row, TIME_S) < 60);
        row_free(&row);
        getrusage(RUSAGE_SELF, &usage);
        print_message("most memory so far: %ld MiB\n", usage.ru_maxrss / 1024);
        assert_true(usage.ru_maxrss < 2 * 1024 * 1024);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(up_to_64_ranks),
        cmocka_unit_test(every_size_ends),
        cmocka_unit_test(a_thousand_ranks),
    };
    if (argc == 3) {
        first = (uint32_t)atoi(argv[1]);
        count = (uint32_t)atoi(argv[2]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
