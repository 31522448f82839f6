/* SPDX-License-Identifier: Apache-2.0 */
/* The planner's table, as rank 0 of a group calls it: plans as bytes in the caller's
 * memory, texts of refusals, and a failure of each allocation. */
#include "support/unit.h"

#include <string.h>

#include "collectives/plan/compiled_wire.h"
#include "core/memory/alloc.h"
#include "core/os/clock.h"
#include "topology/planner/planner.h"

static struct planner_machine machines[] = {
    {.bytes_per_s = 1250000000, .ranks = 2},
    {.bytes_per_s = 125000000, .ranks = 1},
};
static const uint32_t machine_of[] = {0, 1, 0};
static const struct planner_cluster cluster = {.machines = machines,
                                               .machine_of = machine_of,
                                               .machines_count = 2,
                                               .ranks_count = 3};

static tryst_status plan(bool within_equal, bool assumed, struct err *err,
                         struct compiled_plan **plan_p)
{
    struct planner_request request = {.budget_ns = 10 * NS_PER_S,
                                      .within_equal = within_equal,
                                      .rates_assumed = assumed,
                                      .alloc = mem_alloc};
    struct graph *graph;
    uint8_t *bytes;
    size_t count;
    machines[0].rate_known = machines[1].rate_known = !assumed;
    tryst_status status = planner_ops.graph_build(&cluster, err, &graph);
    if (status)
        return status;
    request.graph = graph;
    status = planner_ops.plan(&request, err, &bytes, &count);
    planner_ops.graph_close(graph);
    if (status)
        return status;
    status = compiled_plan_decode(bytes, count, err, plan_p);
    mem_free(bytes);
    return status;
}

static void a_cluster_is_planned(void **state)
{
    for (int assumed = 0; assumed < 2; assumed++) {
        struct err err = ERR_INIT;
        struct compiled_plan *compiled;
        if (plan(true, assumed, &err, &compiled) != TRYST_OK)
            fail_msg("%s", err.text);
        assert_int_equal(compiled->ranks_count, 3);
        assert_int_equal(compiled->flags, assumed ? COMPILED_RATES_ASSUMED : 0);
        assert_in_range(compiled->bound_bytes_per_s, 124900000, 125000000);
        compiled_plan_close(compiled);
    }
}

static tryst_status plan_once(void)
{
    struct err err = ERR_INIT;
    struct compiled_plan *compiled;
    tryst_status status = plan(true, false, &err, &compiled);
    if (status == TRYST_OK)
        compiled_plan_close(compiled);
    else
        assert_true(err.text[0]);
    return status;
}

/* Some failures have a fallback, so a plan may come in spite of one. */
static void memory_may_fail(void **state)
{
    int failures = 0;
    bool failed = true;
    uint64_t live = alloc_live_count();
    for (uint64_t k = 1; failed; k += 1 + k / 16) {
        alloc_fail_at(k);
        tryst_status status = plan_once();
        failed = alloc_fail_off();
        assert_true(status == TRYST_OK || (failed && status == TRYST_E_NOMEM));
        assert_int_equal(alloc_live_count(), live);
        failures += status != TRYST_OK;
    }
    assert_true(failures > 20);
}

static void files_are_read(void **state)
{
    static const char words[] = "node:2 gpu:2 nic:1x50GB",
                      apart[] = "{\"ranks\":[\"a\",\"b\"],\"nodes\":[\"s\"],\"links\":["
                                "{\"from\":\"a\",\"to\":\"s\",\"gbit_per_s\":1},"
                                "{\"from\":\"s\",\"to\":\"b\",\"gbit_per_s\":1}]}";
    struct err err = ERR_INIT;
    struct graph *graph;
    uint32_t ranks;
    assert_int_equal(
        planner_ops.graph_parse(words, strlen(words), "words", &err, &graph, &ranks),
        TRYST_OK);
    assert_int_equal(ranks, 4);
    assert_int_equal(planner_ops.routes_check(graph, &err), TRYST_OK);
    planner_ops.graph_close(graph);
    assert_int_equal(
        planner_ops.graph_parse(apart, strlen(apart), "apart", &err, &graph, &ranks),
        TRYST_OK);
    assert_int_equal(planner_ops.routes_check(graph, &err), TRYST_E_INVALID);
    assert_non_null(strstr(err.text, "no route"));
    planner_ops.graph_close(graph);
    assert_int_equal(planner_ops.graph_parse("{", 1, "x.json", &err, &graph, &ranks),
                     TRYST_E_INVALID);
    assert_non_null(strstr(err.text, "x.json:1"));
    planner_ops.graph_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cluster_is_planned),
        cmocka_unit_test(memory_may_fail),
        cmocka_unit_test(files_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
