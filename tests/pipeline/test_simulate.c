/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator against closed forms from the papers, and against cases worked out by
 * hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <tryst/pipeline.h>

#include "actions.h"

#define RANKS_MAX 9

static tryst_sim *simulate(const char *schedule, int ranks, int microbatches,
                           const tryst_sim_params *params)
{
    tryst_program *program = NULL;
    tryst_sim *sim = NULL;
    assert_int_equal(
        tryst_program_generate(schedule, SCHEDULE(ranks, microbatches), &program),
        TRYST_OK);
    assert_int_equal(tryst_program_simulate(program, params, &sim), TRYST_OK);
    tryst_program_close(program);
    return sim;
}

static tryst_sim_params equal_stages(tryst_action_costs costs[RANKS_MAX],
                                     double forward_s, double backward_s)
{
    for (int i = 0; i < RANKS_MAX; i++) {
        costs[i] = (tryst_action_costs){.forward_s = forward_s, .backward_s = backward_s};
    }
    return (tryst_sim_params){.struct_size = sizeof(tryst_sim_params), .costs = costs};
}

static void assert_close(double value, double expected)
{
    if (fabs(value - expected) > 1e-9) {
        fail_msg("%.12f is not %.12f", value, expected);
    }
}

/* Equal stages, free communication: bubble (p−1)/(m+p−1), peaks min(p−r, m) and m; for m
 * below, at and above p, p = 1 and 2, and odd p. */
static void test_closed_forms(void **state)
{
    tryst_action_costs costs[RANKS_MAX];
    const tryst_sim_params params = equal_stages(costs, 1.0, 2.0);
    for (int p = 1; p <= RANKS_MAX; p++) {
        for (int m = 1; m <= 24; m++) {
            tryst_sim *gpipe = simulate("gpipe", p, m, &params);
            tryst_sim *one = simulate("1f1b", p, m, &params);
            tryst_sim *naive = simulate("naive", p, m, &params);
            double bubble = (double)(p - 1) / (m + p - 1);
            assert_close(gpipe->bubble_makespan, bubble);
            assert_close(one->bubble_makespan, bubble);
            assert_close(naive->bubble_makespan, (double)(p - 1) / p);
            assert_close(gpipe->makespan_s, 3.0 * (m + p - 1));
            assert_close(one->makespan_s, 3.0 * (m + p - 1));
            assert_close(naive->makespan_s, 3.0 * m * p);
            for (int r = 0; r < p; r++) {
                assert_close(one->ranks[r].busy_s, 3.0 * m);
                assert_close(one->ranks[r].bubble_makespan, bubble);
                assert_int_equal(gpipe->ranks[r].peak_activations, m);
                assert_int_equal(one->ranks[r].peak_activations, p - r < m ? p - r : m);
                assert_int_equal(naive->ranks[r].peak_activations, 1);
            }
            /* by span: the last rank of 1F1B never waits, rank 0 waits for the whole
             * bubble */
            assert_close(one->ranks[p - 1].bubble_span, 0);
            assert_close(one->ranks[0].bubble_span, bubble);
            tryst_sim_free(gpipe);
            tryst_sim_free(one);
            tryst_sim_free(naive);
        }
    }
}

/* Two ranks, one micro-batch of 10 bytes over 5 bytes/s and 0.5 s latency:
 * F0 0–1, wire 1–3, +0.5, F1 3.5–4.5, B1 4.5–6.5, wire 6.5–8.5, +0.5, B0 9–11. */
static void test_link(void **state)
{
    tryst_action_costs costs[RANKS_MAX];
    tryst_sim_params params = equal_stages(costs, 1.0, 2.0);
    const uint64_t bytes[] = {10, 0};
    params.boundary_bytes = bytes;
    params.link_bytes_per_s = 5;
    params.link_latency_s = 0.5;
    tryst_sim *sim = simulate("1f1b", 2, 1, &params);
    assert_close(sim->makespan_s, 11);
    assert_close(sim->ranks[1].first_s, 3.5);
    assert_close(sim->ranks[1].last_s, 6.5);
    assert_close(sim->ranks[1].bubble_span, 0);
    assert_close(sim->ranks[0].bubble_makespan, 8.0 / 11);
    assert_close(sim->events[0][1].begin_s, 9);
    tryst_sim_free(sim);
}

/* Two replicas, the second with twice the micro-batches: its REDUCE_GRAD is at 6 s, the
 * sum takes 4 s, and both UPDATEs begin at 10 s. */
static void test_reduce(void **state)
{
    static const tryst_action short_list[] = {ACTION(TRYST_ACTION_FORWARD, 0, 0, 0),
                                              ACTION(TRYST_ACTION_BACKWARD, 0, 0, 0),
                                              ACTION(TRYST_ACTION_REDUCE_GRAD, 0, -1, 0),
                                              ACTION(TRYST_ACTION_UPDATE, 0, -1, 1)};
    static const tryst_action long_list[] = {ACTION(TRYST_ACTION_FORWARD, 0, 1, 0),
                                             ACTION(TRYST_ACTION_BACKWARD, 0, 1, 0),
                                             ACTION(TRYST_ACTION_FORWARD, 0, 2, 0),
                                             ACTION(TRYST_ACTION_BACKWARD, 0, 2, 0),
                                             ACTION(TRYST_ACTION_REDUCE_GRAD, 0, -1, 0),
                                             ACTION(TRYST_ACTION_UPDATE, 0, -1, 1)};
    tryst_action_costs costs[RANKS_MAX];
    tryst_sim_params params = equal_stages(costs, 1.0, 2.0);
    const double reduce_s[] = {4}, wrong_s[] = {-1};
    costs[0].update_s = 0.5;
    params.reduce_grad_s = reduce_s;
    tryst_program *program = NULL;
    tryst_sim *sim = NULL;
    assert_int_equal(tryst_program_open(2, 1, 3, &program), TRYST_OK);
    for (size_t i = 0; i < sizeof short_list / sizeof *short_list; i++) {
        assert_int_equal(tryst_program_append(program, 0, &short_list[i]), TRYST_OK);
    }
    for (size_t i = 0; i < sizeof long_list / sizeof *long_list; i++) {
        assert_int_equal(tryst_program_append(program, 1, &long_list[i]), TRYST_OK);
    }
    assert_int_equal(tryst_program_check(program, NULL, NULL), TRYST_OK);
    assert_int_equal(tryst_program_simulate(program, &params, &sim), TRYST_OK);
    assert_close(sim->events[0][2].end_s, 3);
    assert_close(sim->events[1][4].end_s, 6);
    assert_close(sim->events[0][3].begin_s, 10);
    assert_close(sim->events[1][5].begin_s, 10);
    assert_close(sim->makespan_s, 10.5);
    assert_close(sim->ranks[0].busy_s, 3.5);
    tryst_sim_free(sim);
    params.reduce_grad_s = wrong_s;
    assert_int_equal(tryst_program_simulate(program, &params, &sim), TRYST_E_INVALID);
    tryst_program_close(program);
}

/* A link carries one transfer at a time: gpipe's outputs, one per second, queue behind
 * each other at two seconds each. The last of 4 arrives at 1 + 4·2. */
static void test_link_is_shared(void **state)
{
    tryst_action_costs costs[RANKS_MAX];
    tryst_sim_params params = equal_stages(costs, 1.0, 0);
    const uint64_t bytes[] = {2, 0};
    params.boundary_bytes = bytes;
    params.link_bytes_per_s = 1;
    tryst_sim *sim = simulate("gpipe", 2, 4, &params);
    assert_close(sim->events[1][3].begin_s, 9);
    tryst_sim_free(sim);
}

/* Four ranks on fewer cores: never faster than all work divided by the cores, nor than
 * with one core each; on one core exactly the sum of all work, because that core is never
 * idle. */
static void test_cores(void **state)
{
    tryst_action_costs costs[RANKS_MAX];
    tryst_sim_params params = equal_stages(costs, 1.0, 2.0);
    tryst_sim *alone = simulate("1f1b", 4, 8, &params);
    double before_s = 1e9;
    for (int cores = 1; cores <= 4; cores++) {
        params.cores_count = cores;
        tryst_sim *sim = simulate("1f1b", 4, 8, &params);
        assert_true(sim->makespan_s >= 4 * 8 * 3.0 / cores - 1e-9);
        assert_true(sim->makespan_s >= alone->makespan_s - 1e-9);
        assert_true(sim->makespan_s <= before_s + 1e-9);
        before_s = sim->makespan_s;
        if (cores == 1) {
            assert_close(sim->makespan_s, 4 * 8 * 3.0);
        }
        tryst_sim_free(sim);
    }
    assert_close(before_s, alone->makespan_s);
    tryst_sim_free(alone);
}

/* The same program and costs give the same numbers to the last bit. */
static void test_deterministic(void **state)
{
    tryst_action_costs costs[RANKS_MAX];
    tryst_sim_params params = equal_stages(costs, 0.1, 0.3);
    costs[2].forward_s = 0.17;
    params.cores_count = 2;
    tryst_sim *first = simulate("1f1b", 5, 11, &params);
    tryst_sim *second = simulate("1f1b", 5, 11, &params);
    assert_memory_equal(first->ranks, second->ranks, 5 * sizeof *first->ranks);
    assert_true(first->makespan_s == second->makespan_s);
    tryst_sim_free(first);
    tryst_sim_free(second);
}

static void test_refuses(void **state)
{
    tryst_action_costs costs[RANKS_MAX];
    tryst_sim_params params = equal_stages(costs, 1.0, 2.0);
    tryst_program *program = NULL;
    tryst_sim *sim = NULL;
    assert_int_equal(tryst_program_generate("1f1b", SCHEDULE(2, 2), &program), TRYST_OK);
    assert_int_equal(tryst_program_simulate(program, NULL, &sim), TRYST_E_INVALID);
    costs[1].backward_s = -1;
    assert_int_equal(tryst_program_simulate(program, &params, &sim), TRYST_E_INVALID);
    costs[1].backward_s = NAN;
    assert_int_equal(tryst_program_simulate(program, &params, &sim), TRYST_E_INVALID);
    costs[1].backward_s = 1;
    const tryst_action twice = ACTION(TRYST_ACTION_WEIGHT_GRAD, 1, 1, 0);
    tryst_program_close(program);
    assert_int_equal(tryst_program_open(2, 2, 2, &program), TRYST_OK);
    assert_int_equal(tryst_program_append(program, 1, &twice), TRYST_OK);
    assert_int_equal(tryst_program_simulate(program, &params, &sim), TRYST_E_PROGRAM);
    assert_null(sim);
    tryst_program_close(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_closed_forms), cmocka_unit_test(test_link),
        cmocka_unit_test(test_reduce),       cmocka_unit_test(test_link_is_shared),
        cmocka_unit_test(test_cores),        cmocka_unit_test(test_deterministic),
        cmocka_unit_test(test_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
