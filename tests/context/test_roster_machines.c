/* SPDX-License-Identifier: Apache-2.0 */
/* The machines in a roster: when they are planned for, their rates in the planner's
 * graph, and that the plan is predicted to be no slower than the plan for equal links. */
#include "support/unit.h"

#include <math.h>

#include "collectives/plan/compiled_equal.h"
#include "context/roster_machines.h"
#include "core/os/clock.h"
#include "sites.h"
#include "topology/planner/cluster_graph.h"
#include "topology/routes/overlay.h"
#include "topology/sized/compiled_make.h"
#include "topology/sized/compiled_time.h"

/* What rank 0 plans for. */
struct made {
    struct graph *graph; /* NULL: all links count as equal */
    bool rates_assumed;
};

static tryst_status made_open(const struct roster *roster, struct err *err,
                              struct made *made_p)
{
    struct roster_machines machines;
    tryst_status status = roster_machines_find(roster, err, &machines);
    if (status)
        return status;
    *made_p = (struct made){.rates_assumed = machines.rates_assumed};
    if (!machines.alike)
        status = cluster_graph_build(&machines.cluster, err, &made_p->graph);
    roster_machines_drop(&machines);
    return status;
}

static struct made graph_of(const struct sites *sites)
{
    struct err err = ERR_INIT;
    struct roster roster;
    struct made made;
    sites_roster(sites, &roster);
    if (made_open(&roster, &err, &made) != TRYST_OK)
        fail_msg("%s", err.text);
    roster_close(&roster);
    return made;
}

/* ---- the graph --------------------------------------------------------------------- */

static void alike_has_no_graph(void **state)
{
    static const struct {
        struct sites sites;
        bool alike;
    } rows[] = {
        {{.count = 1, .ranks_each = 4, .mbit = {10000}}, true},
        {{.count = 1, .ranks_each = 4, .unknown = true}, true},
        {{.count = 4, .ranks_each = 1, .mbit = {10000}}, true},
        {{.count = 4, .ranks_each = 1}, true},
        {{.count = 4, .ranks_each = 1, .mbit = {10000}, .unknown = true}, true},
        {{.count = 4, .ranks_each = 1, .mbit = {10000}, .unknown_last = true}, true},
        {{.count = 4, .ranks_each = 1, .mbit = {10000}, .mbit_last = 1000}, false},
        {{.count = 4, .ranks_each = 1, .mbit = {10000, 10000}, .mbit_last = 20000}, true},
        {{.count = 2, .ranks_each = 2, .mbit = {10000}}, false},
        {{.count = 2, .ranks_each = 2, .mbit = {10000}, .unknown = true}, false},
        {{.count = 2, .ranks_each = 2}, false},
        {{.count = 512, .ranks_each = 2, .mbit = {10000}}, false},
        {{.count = 513, .ranks_each = 2, .mbit = {10000}}, true},
    };
    for (size_t k = 0; k < COUNT_OF(rows); k++) {
        struct made made = graph_of(&rows[k].sites);
        if ((made.graph == NULL) != rows[k].alike)
            fail_msg("row %zu", k);
        graph_close(made.graph);
    }
}

/* Return the link of a machine's NIC. */
static const struct graph_link *nic_link(const struct graph *graph, int site)
{
    char name[32];
    snprintf(name, sizeof name, "machine%d/nic", site);
    uint32_t nic = graph_find(graph, name), network = graph_find(graph, "switch");
    assert_true(nic != GRAPH_NONE && network != GRAPH_NONE);
    for (uint32_t l = 0; l < graph->links_count; l++)
        if (graph->links[l].from == nic && graph->links[l].to == network)
            return &graph->links[l];
    fail_msg("%s has no NIC link", name);
    return NULL;
}

static void rates_are_those_of_rails(void **state)
{
    static const struct {
        struct sites sites;
        uint32_t first, last; /* Mbit/s of the first and the last machine */
        bool assumed, known, known_last;
    } rows[] = {
        {{.count = 2, .ranks_each = 2, .mbit = {10000}}, 10000, 10000, false, true, true},
        {{.count = 2, .ranks_each = 2, .mbit = {10000, 2500}},
         12500,
         12500,
         false,
         true,
         true},
        {{.count = 2,
          .ranks_each = 2,
          .mbit = {10000, 2500},
          .own_rails = true,
          .in_turn = true},
         12500,
         12500,
         false,
         true,
         true},
        {{.count = 2,
          .ranks_each = 2,
          .mbit = {10000, 2500},
          .own_rails = true,
          .in_turn = true,
          .same_ips = true},
         12500,
         12500,
         false,
         true,
         true},
        {{.count = 3, .ranks_each = 2, .mbit = {10000}, .mbit_last = 1000},
         10000,
         1000,
         false,
         true,
         true},
        {{.count = 3, .ranks_each = 2, .mbit = {25000, 10000}, .unknown_last = true},
         35000,
         20000,
         false,
         true,
         false},
        {{.count = 2, .ranks_each = 2, .mbit = {7, 7}, .unknown = true},
         20000,
         20000,
         true,
         false,
         false},
        {{.count = 2, .ranks_each = 2}, 10000, 10000, true, false, false},
    };
    for (size_t k = 0; k < COUNT_OF(rows); k++) {
        struct made made = graph_of(&rows[k].sites);
        assert_non_null(made.graph);
        assert_int_equal(made.rates_assumed, rows[k].assumed);
        const struct graph_link *first = nic_link(made.graph, 0),
                                *last = nic_link(made.graph, rows[k].sites.count - 1);
        assert_true(first->bytes_per_s.value == rows[k].first * 125e3);
        assert_true(last->bytes_per_s.value == rows[k].last * 125e3);
        assert_int_equal(first->bytes_per_s.origin == ORIGIN_DETECTED, rows[k].known);
        assert_int_equal(last->bytes_per_s.origin == ORIGIN_DETECTED, rows[k].known_last);
        graph_close(made.graph);
    }
}

static void ranks_sit_on_their_machines(void **state)
{
    const struct sites sites = {
        .count = 3, .ranks_each = 2, .in_turn = true, .mbit = {10000}};
    struct made made = graph_of(&sites);
    assert_int_equal(made.graph->ranks_count, 6);
    for (int rank = 0; rank < 6; rank++) {
        uint32_t at = graph_machine(made.graph, made.graph->ranks[rank]);
        char name[32];
        snprintf(name, sizeof name, "machine%d", rank % 3);
        assert_string_equal(made.graph->nodes[at].name, name);
    }
    graph_close(made.graph);
}

static void no_memory(void **state)
{
    const struct sites sites = {.count = 2, .ranks_each = 2, .mbit = {10000}};
    struct roster roster;
    struct made made;
    tryst_status status = TRYST_E_NOMEM;
    sites_roster(&sites, &roster);
    for (uint64_t k = 1; status == TRYST_E_NOMEM; k++) {
        struct err err = ERR_INIT;
        alloc_fail_at(k);
        status = made_open(&roster, &err, &made);
        bool failed = alloc_fail_off();
        assert_int_equal(status, failed ? TRYST_E_NOMEM : TRYST_OK);
        assert_int_equal(err.text[0] != 0, failed);
    }
    graph_close(made.graph);
    roster_close(&roster);
}

/* ---- plans ------------------------------------------------------------------------- */

struct planned {
    struct made made;
    struct overlay *overlay;
    struct plan *plan;
    struct plan_sizes *sizes;
    double equal_s[PLAN_SIZES]; /* seconds of the plan for equal links */
};

/* Plan as planner.c does. */
static void planned_open(struct planned *planned, const struct sites *sites)
{
    static const struct compiled_params no_params;
    const struct plan_params params = {.op = PLAN_ALLREDUCE};
    struct compiled_plan *equal = NULL;
    struct err err = ERR_INIT;
    planned->made = graph_of(sites);
    if (overlay_open(planned->made.graph, NULL, 0, &err, &planned->overlay) ||
        plan_open(planned->overlay, &params, &err, &planned->plan) ||
        compiled_plan_equal((uint32_t)sites_ranks(sites), &no_params, &err, &equal) ||
        compiled_plan_times(equal, planned->overlay, 0, planned->equal_s) ||
        plan_sizes_open_within(planned->overlay, planned->plan, 0, planned->equal_s, &err,
                               &planned->sizes))
        fail_msg("%s", err.text);
    compiled_plan_close(equal);
}

static void planned_close(struct planned *planned)
{
    plan_sizes_close(planned->sizes);
    plan_close(planned->plan);
    overlay_close(planned->overlay);
    graph_close(planned->made.graph);
}

/* The plan is never slower by the planner's own prediction, at each of the planner's
 * sizes. */
static void never_slower_than_equal(void **state)
{
    static const struct sites rows[] = {
        {.count = 2, .ranks_each = 2, .mbit = {10000}},
        {.count = 2, .ranks_each = 4, .mbit = {100000}},
        {.count = 2, .ranks_each = 4, .mbit = {1000}, .in_turn = true},
        {.count = 3, .ranks_each = 1, .mbit = {10000}, .mbit_last = 1000},
        {.count = 4, .ranks_each = 4, .mbit = {25000}, .mbit_last = 10000},
        {.count = 3, .ranks_each = 3, .mbit = {10000}},
        {.count = 2, .ranks_each = 8, .unknown = true},
        {.count = 8, .ranks_each = 8, .mbit = {100000, 100000}},
    };
    for (size_t k = 0; k < COUNT_OF(rows); k++) {
        struct planned planned;
        uint64_t began_ns = clock_monotonic_ns();
        planned_open(&planned, &rows[k]);
        double took_ms = (double)(clock_monotonic_ns() - began_ns) / 1e6;
        print_message("%d x %d, planned in %.1f ms; parts of the equal plan's times:",
                      rows[k].count, rows[k].ranks_each, took_ms);
        for (uint32_t s = 0; s < planned.sizes->count; s++) {
            double part = planned.sizes->sizes[s].predicted_s / planned.equal_s[s];
            print_message(" %.3f", part);
            if (part > 1 + PLAN_LIMIT_SLACK)
                fail_msg("row %zu, size %u", k, s);
        }
        print_message("\n");
        planned_close(&planned);
    }
}

static void no_memory_for_times(void **state)
{
    static const struct compiled_params no_params;
    const struct sites sites = {.count = 2, .ranks_each = 2, .mbit = {10000}};
    struct planned planned;
    struct compiled_plan *equal;
    struct err err = ERR_INIT;
    tryst_status status = TRYST_E_NOMEM;
    planned_open(&planned, &sites);
    assert_int_equal(compiled_plan_equal(4, &no_params, &err, &equal), TRYST_OK);
    for (uint64_t k = 1; status == TRYST_E_NOMEM; k++) {
        alloc_fail_at(k);
        status = compiled_plan_times(equal, planned.overlay, 0, planned.equal_s);
        assert_int_equal(status, alloc_fail_off() ? TRYST_E_NOMEM : TRYST_OK);
    }
    compiled_plan_close(equal);
    planned_close(&planned);
}

/* An operation of bytes_max belongs to its class; one of a byte more does not. */
static void times_of_a_class_reach_its_end(void **state)
{
    static const struct compiled_params no_params;
    const struct sites sites = {.count = 2, .ranks_each = 8, .mbit = {10000}};
    struct planned planned;
    struct compiled_plan *equal;
    struct err err = ERR_INIT;
    double times_s[3][PLAN_SIZES];
    planned_open(&planned, &sites);
    assert_int_equal(compiled_plan_equal(16, &no_params, &err, &equal), TRYST_OK);
    for (int k = 0; k < 3; k++) {
        equal->ops[0].classes[0].bytes_max = plan_size_steps[1].bytes + 1 - (uint64_t)k;
        assert_int_equal(compiled_plan_times(equal, planned.overlay, 0, times_s[k]),
                         TRYST_OK);
    }
    assert_true(times_s[0][1] == times_s[1][1] && times_s[1][1] != times_s[2][1]);
    compiled_plan_close(equal);
    planned_close(&planned);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alike_has_no_graph),
        cmocka_unit_test(rates_are_those_of_rails),
        cmocka_unit_test(ranks_sit_on_their_machines),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(never_slower_than_equal),
        cmocka_unit_test(no_memory_for_times),
        cmocka_unit_test(times_of_a_class_reach_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
