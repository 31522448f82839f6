/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of networks that lost a wire or have a slower one, started from the earlier
 * plan. */
#include "support/unit.h"

#include <string.h>

#include "plan_check.h"
#include "plan_nets.h"

#define CHANGES     6 /* changes of each network; every other one cuts a wire */
#define LIMIT_S     0.1
#define CUTS_TRIED  20
#define SMALL_RANKS 12

/* Times count only in optimised builds without a sanitizer. */
#if defined(__OPTIMIZE__) && !defined(TEST_SANITIZED)
#define TIMES_COUNT true
#else
#define TIMES_COUNT false
#endif

static double processor_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A change of both directions of the wire `link`: slower, or down; it can be undone. */
struct change {
    struct graph *graph;
    uint32_t link;
    double slower; /* factor of the rate; 0: down */
};

static void change_apply(const struct change *change, bool undo)
{
    const struct graph_link wire = change->graph->links[change->link];
    for (uint32_t i = 0; i < change->graph->links_count; i++) {
        struct graph_link *link = &change->graph->links[i];
        if ((link->from != wire.from || link->to != wire.to) &&
            (link->from != wire.to || link->to != wire.from))
            continue;
        if (change->slower > 0)
            link->bytes_per_s.value *= undo ? 1 / change->slower : change->slower;
        else
            link->down = !undo;
    }
}

/* Change a wire and open the overlay of the remaining network. False if every wire that
 * was tried is needed. */
static bool change_open(struct random *random, struct change *change,
                        struct overlay **overlay_p)
{
    static const double slower[] = {0.5, 0.25, 0.1};
    bool cut = change->slower == 0;
    for (int i = 0; i < CUTS_TRIED; i++) {
        struct err err = ERR_INIT;
        change->link = (uint32_t)random_range(random, change->graph->links_count);
        change->slower = cut ? 0 : slower[random_range(random, COUNT_OF(slower))];
        change_apply(change, false);
        if (overlay_open(change->graph, NULL, 0, &err, overlay_p) == TRYST_OK)
            return true;
        change_apply(change, true);
    }
    return false;
}

struct family {
    double time_s[CHANGES], gap;
    uint32_t count;
};

static void again(struct change *change, struct random *random, const struct plan *before,
                  struct family *family)
{
    struct plan_params params = {.op = PLAN_ALLREDUCE};
    struct overlay *overlay;
    struct plan *plan;
    if (!change_open(random, change, &overlay))
        return;
    double began = processor_s();
    assert_int_equal(plan_open(overlay, &params, before, NULL, &plan), TRYST_OK);
    family->time_s[family->count++] = processor_s() - began;
    double gap = 1 - plan->bound_s_per_byte / plan->s_per_byte;
    family->gap = gap > family->gap ? gap : family->gap;
    plan_close(plan);
    overlay_close(overlay);
    change_apply(change, true);
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static void changes_take_a_moment(void **state)
{
    struct random random;
    uint32_t medians = 0;
    if (!TIMES_COUNT)
        skip(); /* not optimised, or a sanitizer's build */
    random_seed(&random, 5);
    for (int net = 0; net < NET_FAMILIES; net++) {
        struct family family = {.gap = 0};
        struct plan_params params = {.op = PLAN_ALLREDUCE};
        struct change change = {.graph = net_open((enum net_family)net, 64, &random)};
        struct overlay *overlay;
        struct plan *before;
        assert_int_equal(overlay_open(change.graph, NULL, 0, NULL, &overlay), TRYST_OK);
        assert_int_equal(plan_open(overlay, &params, NULL, NULL, &before), TRYST_OK);
        overlay_close(overlay);
        for (int i = 0; i < CHANGES; i++) {
            change.slower = i % 2;
            again(&change, &random, before, &family);
        }
        assert_true(family.count > 0);
        qsort(family.time_s, family.count, sizeof *family.time_s, by_value);
        double median = family.time_s[family.count / 2];
        print_message(
            "%-10s %u changes, %.1f ms in the median, %.1f ms at most, gap %.1e\n",
            net_names[net], family.count, 1e3 * median,
            1e3 * family.time_s[family.count - 1], family.gap);
        assert_true(median < LIMIT_S);
        assert_true(family.gap <= 0.05);
        medians++;
        plan_close(before);
        graph_close(change.graph);
    }
    assert_int_equal(medians, NET_FAMILIES);
}

/* Small networks, where everything about the plan is checked. */
static void what_is_mended_is_a_plan(void **state)
{
    struct random random;
    random_seed(&random, unit_seed());
    for (int round = 0; round < 4 * NET_FAMILIES; round++) {
        struct plan_params params = {.op = (enum plan_op)random_range(&random, PLAN_OPS)};
        struct change change = {.graph = net_open((enum net_family)(round % NET_FAMILIES),
                                                  SMALL_RANKS, &random),
                                .slower = round / NET_FAMILIES % 2};
        struct overlay *overlay;
        assert_int_equal(overlay_open(change.graph, NULL, 0, NULL, &overlay), TRYST_OK);
        params.root = (uint32_t)random_range(&random, overlay->ranks_count);
        struct plan *before = plan_check_open(overlay, &params, NULL);
        overlay_close(overlay);
        if (change_open(&random, &change, &overlay)) {
            struct plan *plan = plan_check_open(overlay, &params, before);
            if (plan->s_per_byte - plan->bound_s_per_byte > 0.02 * plan->s_per_byte)
                fail_msg("round %d (%s, operation %d): time %g, bound %g", round,
                         net_names[round % NET_FAMILIES], (int)params.op,
                         plan->s_per_byte, plan->bound_s_per_byte);
            plan_close(plan);
            overlay_close(overlay);
        }
        plan_close(before);
        graph_close(change.graph);
    }
}

/* Nothing changed: the old trees and prices prove themselves, and the solver is not
 * called. */
static void nothing_changed_is_seen_at_once(void **state)
{
    struct random random;
    for (int net = 0; net < NET_FAMILIES; net++) {
        struct plan_params params = {.op = PLAN_ALLREDUCE};
        random_seed(&random, 7);
        struct graph *graph = net_open((enum net_family)net, SMALL_RANKS, &random);
        struct overlay *overlay;
        assert_int_equal(overlay_open(graph, NULL, 0, NULL, &overlay), TRYST_OK);
        struct plan *before = plan_check_open(overlay, &params, NULL);
        struct plan *plan = plan_check_open(overlay, &params, before);
        assert_int_equal(plan->trees_count, before->trees_count);
        assert_true(plan->iterations < 10);
        plan_close(plan);
        plan_close(before);
        overlay_close(overlay);
        graph_close(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_take_a_moment),
        cmocka_unit_test(what_is_mended_is_a_plan),
        cmocka_unit_test(nothing_changed_is_seen_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
