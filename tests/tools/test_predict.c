/* SPDX-License-Identifier: Apache-2.0 */
/* Predicted steps against closed forms, and against longer simulated runs. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <tryst/pipeline.h>

#include "tools/bench/predict/bench_predict.h"

#define STAGES_MAX 16

static void assert_close(const char *what, double value, double expected)
{
    if (fabs(value - expected) > 1e-9 * (1 + fabs(expected))) {
        fail_msg("%s: %.12f is not %.12f", what, value, expected);
    }
}

/* Return the makespan of so many steps. */
static double makespan(const tryst_program *program, int steps,
                       const tryst_sim_params *params)
{
    tryst_program *flat = NULL;
    tryst_sim *sim = NULL;
    assert_int_equal(tryst_program_unroll(program, steps, &flat), TRYST_OK);
    assert_int_equal(tryst_program_simulate(flat, params, &sim), TRYST_OK);
    double makespan_s = sim->makespan_s;
    tryst_sim_free(sim);
    tryst_program_close(flat);
    return makespan_s;
}

static void append(tryst_program *program, int rank, tryst_action_kind kind, int stage,
                   int microbatch)
{
    const tryst_action action = {.kind = kind,
                                 .stage = stage,
                                 .microbatch = microbatch,
                                 .version = kind == TRYST_ACTION_UPDATE};
    assert_int_equal(tryst_program_append(program, rank, &action), TRYST_OK);
}

/* ---- generated schedules ----------------------------------------------------------- */

static tryst_program *generate(const char *schedule, int ranks, int microbatches)
{
    const tryst_schedule_params params = {.struct_size = sizeof params,
                                          .ranks_count = ranks,
                                          .microbatches_count = microbatches};
    tryst_program *program = NULL;
    if (tryst_program_generate(schedule, &params, &program) != TRYST_OK) {
        fail_msg("%s: %s", schedule, tryst_last_error());
    }
    return program;
}

/* A step of m micro-batches over p ranks: later ones of a schedule that drains are as
 * long as the first, those of a loop have no bubble. */
static void test_closed_forms(void **state)
{
    static const struct {
        const char *schedule;
        bool loops;
    } rows[] = {
        {"1f1b", false}, {"gpipe", false}, {"pipedream", true}, {"pipedream-2bw", true}};
    tryst_action_costs costs[STAGES_MAX];
    const tryst_sim_params params = {.struct_size = sizeof params, .costs = costs};
    (void)state;
    for (int i = 0; i < STAGES_MAX; i++) {
        costs[i] = (tryst_action_costs){.forward_s = 1, .backward_s = 2};
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int p = 1; p <= 6; p++) {
            int m = 2 * p;
            double full_s = 3.0 * (m + p - 1), busy_s = 3.0 * m;
            double later_s = rows[i].loops ? busy_s : full_s;
            tryst_program *program = generate(rows[i].schedule, p, m);
            struct bench_prediction prediction;
            assert_int_equal(bench_predict(program, &params, &prediction), TRYST_OK);
            assert_close(rows[i].schedule, prediction.first.step_s, full_s);
            assert_close(rows[i].schedule, prediction.later.step_s, later_s);
            assert_close(rows[i].schedule, prediction.first.bubble, 1 - busy_s / full_s);
            assert_close(rows[i].schedule, prediction.later.bubble, 1 - busy_s / later_s);
            for (int rank = 0; rank < p; rank++) {
                const struct bench_step_rank *later = &prediction.later.ranks[rank];
                assert_close(rows[i].schedule, later->busy_s, busy_s);
                assert_close(rows[i].schedule, later->wait_s, later_s - busy_s);
                /* a single step ends for rank r with its last backward, r backwards
                 * before the makespan */
                assert_close(rows[i].schedule, prediction.first.ranks[rank].wait_s,
                             full_s - busy_s - 2.0 * rank);
            }
            bench_prediction_close(&prediction);
            tryst_program_close(program);
        }
    }
}

/* ---- steps that overlap ------------------------------------------------------------ */

/* Zero-bubble's ZB-H2 (Qi et al. 2023): 2 (p - r) - 1 forwards ahead on rank r, and the W
 * 2r micro-batches behind its I. */
static tryst_program *zero_bubble_open(int ranks, int microbatches)
{
    tryst_program *program = NULL;
    assert_int_equal(tryst_program_open(ranks, ranks, microbatches, &program), TRYST_OK);
    for (int rank = 0; rank < ranks; rank++) {
        int forwards = 0, weights = 0, ahead = 2 * (ranks - rank) - 1;
        while (forwards < ahead && forwards < microbatches) {
            append(program, rank, TRYST_ACTION_FORWARD, rank, forwards++);
        }
        for (int i = 0; i < microbatches; i++) {
            append(program, rank, TRYST_ACTION_INPUT_GRAD, rank, i);
            if (forwards < microbatches) {
                append(program, rank, TRYST_ACTION_FORWARD, rank, forwards++);
            }
            if (i >= 2 * rank) {
                append(program, rank, TRYST_ACTION_WEIGHT_GRAD, rank, weights++);
            }
        }
        while (weights < microbatches) {
            append(program, rank, TRYST_ACTION_WEIGHT_GRAD, rank, weights++);
        }
        append(program, rank, TRYST_ACTION_UPDATE, rank, -1);
    }
    assert_int_equal(tryst_program_check(program, NULL, NULL), TRYST_OK);
    return program;
}

/* A later step of ZB-H2 has the paper's bubble, the first one has more; and the later
 * step is that of a long run. */
static void test_zero_bubble(void **state)
{
    static const double sets[][3] = {{1, 1, 1}, {1, 1.5, .5}, {2, 1, 1}, {1, 1, 2}};
    (void)state;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        double f = sets[i][0], b = sets[i][1], w = sets[i][2];
        tryst_action_costs costs[STAGES_MAX];
        const tryst_sim_params params = {.struct_size = sizeof params, .costs = costs};
        for (int k = 0; k < STAGES_MAX; k++) {
            costs[k] = (tryst_action_costs){
                .forward_s = f, .input_grad_s = b, .weight_grad_s = w};
        }
        for (int p = 2; p <= 8; p += 3) {
            int m = 4 * p;
            tryst_program *program = zero_bubble_open(p, m);
            struct bench_prediction prediction;
            assert_int_equal(bench_predict(program, &params, &prediction), TRYST_OK);
            double later_s = prediction.later.step_s;
            double bubble_s = (p - 1) * fmax(0, f + b - 2 * fmin(f, w));
            assert_close("zb-h2", later_s, m * (f + b + w) + bubble_s);
            double filling_s = i == 0 ? (p - 1) * f : 0; /* equal times */
            assert_true(prediction.first.step_s > later_s + filling_s - 1e-9);
            double run_s =
                (makespan(program, 30, &params) - makespan(program, 10, &params)) / 20;
            assert_true(fabs(later_s - run_s) <= 0.01 * run_s);
            bench_prediction_close(&prediction);
            tryst_program_close(program);
        }
    }
}

/* Steps of 32 and of 35 s alternate, in a program without REDUCE_GRAD. */
static void test_alternating(void **state)
{
    static const struct {
        int stage, forward, microbatch;
    } lists[3][4] = {
        {{0, 1, 2}, {1, 1, 0}, {1, 0, 0}, {0, 0, 2}},
        {{1, 1, 1}, {1, 0, 1}, {0, 1, 0}, {0, 0, 0}},
        {{0, 1, 1}, {0, 0, 1}, {1, 1, 2}, {1, 0, 2}},
    };
    const tryst_action_costs costs[] = {{.forward_s = 13, .backward_s = 1},
                                        {.forward_s = 1, .backward_s = 8}};
    const tryst_sim_params params = {.struct_size = sizeof params, .costs = costs};
    struct bench_prediction prediction;
    tryst_program *program = NULL;
    (void)state;
    assert_int_equal(tryst_program_open(3, 2, 3, &program), TRYST_OK);
    for (int rank = 0; rank < 3; rank++) {
        for (int i = 0; i < 4; i++) {
            append(program, rank,
                   lists[rank][i].forward ? TRYST_ACTION_FORWARD : TRYST_ACTION_BACKWARD,
                   lists[rank][i].stage, lists[rank][i].microbatch);
        }
    }
    for (int n = 8; n < 16; n++) {
        assert_close("a step",
                     makespan(program, n + 1, &params) - makespan(program, n, &params),
                     n % 2 == 0 ? 35 : 32);
    }
    assert_int_equal(bench_predict(program, &params, &prediction), TRYST_OK);
    assert_close("first", prediction.first.step_s, 45);
    assert_close("later", prediction.later.step_s, 33.5);
    assert_close("busy", prediction.later.ranks[1].busy_s, 23);
    assert_close("wait", prediction.later.ranks[1].wait_s, 10.5);
    bench_prediction_close(&prediction);
    tryst_program_close(program);
}

/* A prediction that cannot be made. */
static void test_refuses(void **state)
{
    struct bench_prediction prediction;
    const tryst_sim_params params = {.struct_size = sizeof params};
    tryst_program *program = generate("1f1b", 2, 4);
    (void)state;
    assert_int_equal(bench_predict(program, &params, &prediction), TRYST_E_INVALID);
    bench_prediction_close(&prediction);
    tryst_program_close(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_closed_forms),
        cmocka_unit_test(test_zero_bubble),
        cmocka_unit_test(test_alternating),
        cmocka_unit_test(test_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
