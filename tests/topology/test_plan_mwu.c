/* SPDX-License-Identifier: Apache-2.0 */
/* Shares by multiplicative weights: the best shares of all calls are kept, so the time of
 * a plan never rises with the number of calls. */
#include "support/unit.h"

#include "plan_nets.h"
#include "topology/plan/plan_mwu.h"
#include "topology/routes/overlay.h"

#define NETWORKS  (2 * NET_FAMILIES)
#define CALLS_MAX 30

/* Return the time (scaled) after at most `calls` calls of the oracle. */
static double time_after(struct overlay *overlay, uint32_t calls)
{
    struct plan_params params = {.op = PLAN_ALLREDUCE};
    struct plan_work *work;
    assert_int_equal(plan_work_open(overlay, &params, false, NULL, &work), TRYST_OK);
    assert_int_equal(plan_mwu(work, 1e-6, calls), TRYST_OK);
    double time = plan_work_time(work, NULL);
    plan_work_close(work);
    return time;
}

static void more_calls_are_never_worse(void **state)
{
    for (uint32_t seed = 0; seed < NETWORKS; seed++) {
        struct random random;
        struct overlay *overlay;
        random_seed(&random, seed);
        struct graph *graph =
            net_open((enum net_family)(seed % NET_FAMILIES), 9, &random);
        assert_int_equal(overlay_open(graph, NULL, 0, NULL, &overlay), TRYST_OK);
        double before = time_after(overlay, 0);
        for (uint32_t calls = 1; calls <= CALLS_MAX; calls++) {
            double time = time_after(overlay, calls);
            if (time > before * (1 + 1e-9))
                fail_msg("%s, seed %u: %.12g after %u calls, %.12g after one more",
                         net_names[seed % NET_FAMILIES], seed, before, calls - 1, time);
            before = time;
        }
        overlay_close(overlay);
        graph_close(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_calls_are_never_worse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
