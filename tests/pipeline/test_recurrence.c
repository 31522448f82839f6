/* SPDX-License-Identifier: Apache-2.0 */
/* Programs against the recurrences that they are meant to be: the replay of a program has
 * the weights and losses of the recurrence trainer, which has no program, and the replay
 * of a program with a small fault does not. And known answers: on a quadratic loss the
 * delay that a pipeline gives to each stage decides which rates converge. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <tryst/replay.h>
#include <tryst/tryst.h>
#include <tryst/weights.h>

#include "chain.h"
#include "handmade.h"
#include "plain_model.h"
#include "quadratic_run.h"
#include "recurrence.h"
#include "windows.h"

/* ---- a model, data and two optimisers ---------------------------------------------- */

static const tryst_model model = {.struct_size = sizeof model,
                                  .kind = TRYST_MODEL_MLP,
                                  .layers = 4,
                                  .hidden = 8,
                                  .seq = 6,
                                  .microbatch_size = 2};

static const tryst_optimizer sgd = {
    .struct_size = sizeof sgd, .kind = TRYST_OPTIMIZER_SGD, .lr = 0.05, .momentum = 0.8};
static const tryst_optimizer adam = {
    .struct_size = sizeof adam, .kind = TRYST_OPTIMIZER_ADAM, .lr = 0.01};

/* ---- the two runs ------------------------------------------------------------------ */

struct outcome {
    float *weights;
    double *losses; /* [steps] */
};

static void outcome_free(struct outcome *o)
{
    free(o->weights);
    free(o->losses);
}

/* Find what the stages of a program must hold. */
static tryst_stage_params stage_params_of(const tryst_program *program,
                                          const tryst_optimizer *optimizer,
                                          double delta_decay)
{
    tryst_stage_params params = {.struct_size = sizeof params, .optimizer = optimizer};
    for (int s = 0; s < tryst_program_stages(program); s++) {
        tryst_stage_need need = {.struct_size = sizeof need};
        assert_int_equal(tryst_program_stage_need(program, s, &need), TRYST_OK);
        if (need.versions_count > params.versions_count) {
            params.versions_count = need.versions_count;
        }
        if (need.slots_count > params.slots_count) {
            params.slots_count = need.slots_count;
        }
        params.delta_decay = need.delta ? delta_decay : params.delta_decay;
    }
    return params;
}

/* Replay `steps` steps of a checked program. */
static struct outcome replay(const tryst_program *program,
                             const tryst_optimizer *optimizer, double delta_decay,
                             int steps)
{
    int stages_count = tryst_program_stages(program);
    struct windows windows = {&model, tryst_program_microbatches(program)};
    struct outcome o = {calloc(tryst_model_weights_count(&model), sizeof(float)),
                        calloc((size_t)steps, sizeof(double))};
    struct chain c; /* for its stages */
    assert_true(o.weights && o.losses);
    if (tryst_program_check(program, NULL, NULL) != TRYST_OK) {
        fail_msg("%s", tryst_last_error());
    }
    const tryst_stage_params stages = stage_params_of(program, optimizer, delta_decay);
    chain_open_params(&model, stages_count, 1, &stages, &c);
    const tryst_replay_params params = {.struct_size = sizeof params,
                                        .program = program,
                                        .stages = c.stages,
                                        .feed = windows_feed,
                                        .feed_arg = &windows,
                                        .steps_count = (uint64_t)steps,
                                        .losses = o.losses};
    if (tryst_replay(&params) != TRYST_OK) {
        fail_msg("%s", tryst_last_error());
    }
    float *next = o.weights;
    for (int s = 0; s < stages_count; s++) {
        assert_int_equal(tryst_stage_weights_copy(c.stages[s], next), TRYST_OK);
        next += c.stages[s]->info.weights_count;
    }
    chain_close(&c);
    return o;
}

/* Train `steps` steps of a rule. */
static struct outcome train(struct recurrence_params params, int steps)
{
    struct recurrence_result result;
    struct windows windows = {&model, params.step_microbatches};
    struct outcome o = {.losses = calloc((size_t)steps, sizeof(double))};
    assert_non_null(o.losses);
    params.model = &model;
    params.microbatches_count = (int64_t)steps * params.step_microbatches;
    params.feed = windows_feed;
    params.feed_arg = &windows;
    recurrence_train(&params, &result);
    for (int step = 0; step < steps; step++) {
        o.losses[step] = recurrence_step_loss(&result, &params, step);
    }
    o.weights = result.weights;
    free(result.losses);
    return o;
}

static bool is_equal(const struct outcome *a, const struct outcome *b, int steps,
                     char *text, size_t capacity)
{
    const tryst_replay_result x = {sizeof x, a->losses, a->weights};
    const tryst_replay_result y = {sizeof y, b->losses, b->weights};
    return tryst_replay_equal(&model, 0, (uint64_t)steps, &x, &y, text, capacity);
}

static double distance(const struct outcome *a, const struct outcome *b)
{
    return recurrence_distance(a->weights, b->weights, tryst_model_weights_count(&model));
}

/* ---- rules that pick versions ------------------------------------------------------ */

static const struct {
    const char *rule;
    int stages, every, inflight, microbatches;
} rows[] = {
    {"pipedream", 3, 1, 0, 6},       {"pipedream", 4, 2, 0, 8},
    {"pipedream", 1, 1, 0, 4},       {"pipedream-vsync", 3, 1, 3, 6},
    {"pipedream-vsync", 4, 2, 2, 8}, {"pipedream-2bw", 3, 3, 0, 9},
    {"pipedream-2bw", 4, 3, 0, 6},
};

static void test_versions(void **state)
{
    char text[256];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int adaptive = 0; adaptive < 2; adaptive++) {
            const tryst_optimizer *optimizer = adaptive ? &adam : &sgd;
            const struct recurrence_params params = {
                .optimizer = optimizer,
                .pipe = {rows[i].stages, rows[i].every, rows[i].inflight},
                .rule = recurrence_rule_find(rows[i].rule),
                .step_microbatches = rows[i].microbatches};
            const struct handmade hand = {.rule = params.rule,
                                          .pipe = params.pipe,
                                          .microbatches_count = rows[i].microbatches,
                                          .is_split = adaptive};
            tryst_program *program = handmade_pipeline(&hand);
            struct outcome trained = train(params, 1);
            struct outcome replayed = replay(program, optimizer, 0, 1);
            if (!is_equal(&replayed, &trained, 1, text, sizeof text)) {
                fail_msg("%s, %d stages: %s", rows[i].rule, rows[i].stages, text);
            }
            outcome_free(&trained);
            outcome_free(&replayed);
            tryst_program_close(program);
        }
    }
}

/* Some steps of a loop are the recurrence too. */
static void test_loops(void **state)
{
    enum { STEPS = 4 };
    char text[256];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct recurrence_params params = {
            .optimizer = &sgd,
            .pipe = {rows[i].stages, rows[i].every, rows[i].inflight},
            .rule = recurrence_rule_find(rows[i].rule),
            .step_microbatches =
                2 * rows[i].every > rows[i].stages ? 2 * rows[i].every : rows[i].stages};
        const struct handmade hand = {.rule = params.rule,
                                      .pipe = params.pipe,
                                      .microbatches_count = params.step_microbatches,
                                      .is_loop = true};
        if (params.step_microbatches % rows[i].every != 0) {
            continue;
        }
        tryst_program *loop = handmade_pipeline(&hand);
        tryst_program *flat = plain_model_unroll(loop, STEPS);
        struct recurrence_params whole = params;
        whole.step_microbatches *= STEPS;
        struct outcome trained = train(whole, 1);
        struct outcome replayed = replay(flat, &sgd, 0, 1);
        if (!is_equal(&replayed, &trained, 1, text, sizeof text)) {
            fail_msg("%s, %d stages, written out: %s", rows[i].rule, rows[i].stages,
                     text);
        }
        outcome_free(&trained);
        outcome_free(&replayed);
        tryst_program_close(flat);
        tryst_program_close(loop);
    }
}

/* A synchronous program is the recurrence of its order of summing. */
static void test_synchronous(void **state)
{
    static const struct {
        const char *schedule, *rule;
    } pairs[] = {{"gpipe", "sync"}, {"1f1b", "sync"}, {"naive", "sync"}};
    enum { STEPS = 3, MICROBATCHES = 4 };
    char text[256];
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const struct recurrence_params params = {
            .optimizer = &adam,
            .pipe = {.stages_count = 3, .every = MICROBATCHES},
            .rule = recurrence_rule_find(pairs[i].rule),
            .step_microbatches = MICROBATCHES};
        const tryst_schedule_params schedule = {.struct_size = sizeof schedule,
                                                .ranks_count = 3,
                                                .microbatches_count = MICROBATCHES};
        tryst_program *program = NULL;
        assert_int_equal(tryst_program_generate(pairs[i].schedule, &schedule, &program),
                         TRYST_OK);
        struct outcome trained = train(params, STEPS);
        struct outcome replayed = replay(program, &adam, 0, STEPS);
        if (!is_equal(&replayed, &trained, STEPS, text, sizeof text)) {
            fail_msg("%s: %s", pairs[i].schedule, text);
        }
        outcome_free(&trained);
        outcome_free(&replayed);
        tryst_program_close(program);
    }
}

/* ---- programs with a fault --------------------------------------------------------- */

static struct recurrence_read read_late(const struct recurrence_pipe *pipe, int stage,
                                        int64_t n)
{
    struct recurrence_read read =
        recurrence_rule_find("pipedream")->forward(pipe, stage, n);
    read.version -= read.version > 0;
    return read;
}

static struct recurrence_read read_live(const struct recurrence_pipe *pipe, int stage,
                                        int64_t n)
{
    return recurrence_rule_find("sync")->backward(pipe, stage, n);
}

static struct recurrence_read read_pipedream(const struct recurrence_pipe *pipe,
                                             int stage, int64_t n)
{
    return recurrence_rule_find("pipedream")->forward(pipe, stage, n);
}

static struct recurrence_read read_xpipe_off(const struct recurrence_pipe *pipe,
                                             int stage, int64_t n)
{
    struct recurrence_read read = recurrence_rule_find("xpipe")->forward(pipe, stage, n);
    read.ahead += 1;
    return read;
}

static struct recurrence_read read_xpipe_backward(const struct recurrence_pipe *pipe,
                                                  int stage, int64_t n)
{
    return recurrence_rule_find("xpipe")->backward(pipe, stage, n);
}

/* The checker passes each of these programs, and so does a replay: only the recurrence
 * finds that it is another system. */
static void test_faults(void **state)
{
    static const struct recurrence_rule faults[] = {
        {"B reads live weights", read_pipedream, read_live, false, false},
        {"F and B read a version late", read_late, read_late, false, false},
        {"F reads a version late", read_late, read_pipedream, false, false},
    };
    char text[256];
    const struct recurrence_params params = {.optimizer = &sgd,
                                             .pipe = {.stages_count = 3, .every = 1},
                                             .rule = recurrence_rule_find("pipedream"),
                                             .step_microbatches = 6};
    struct outcome trained = train(params, 1);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const struct handmade hand = {
            .rule = &faults[i], .pipe = params.pipe, .microbatches_count = 6};
        tryst_program *program = handmade_pipeline(&hand);
        struct outcome replayed = replay(program, &sgd, 0, 1);
        if (is_equal(&replayed, &trained, 1, text, sizeof text)) {
            fail_msg("%s: %s", faults[i].name, text);
        }
        assert_true(distance(&replayed, &trained) > 1e-4);
        outcome_free(&replayed);
        tryst_program_close(program);
    }
    outcome_free(&trained);
}

/* ---- rules that predict ------------------------------------------------------------ */

/* The trainer's own optimiser follows the stages' within rounding. */
static void test_own_optimizer(void **state)
{
    for (int adaptive = 0; adaptive < 2; adaptive++) {
        struct recurrence_params params = {.optimizer = adaptive ? &adam : &sgd,
                                           .pipe = {.stages_count = 3, .every = 1},
                                           .rule = recurrence_rule_find("pipedream"),
                                           .step_microbatches = 16,
                                           .rate = 10};
        struct outcome stages = train(params, 1);
        params.is_own = true;
        struct outcome own = train(params, 1);
        params.rate = 0;
        struct outcome full = train(params, 1);
        assert_true(distance(&own, &stages) < 1e-5);
        assert_true(distance(&full, &stages) > 1e-4);
        outcome_free(&stages);
        outcome_free(&own);
        outcome_free(&full);
    }
}

static const struct {
    const char *rule;
    int every;
    const tryst_optimizer *optimizer;
    double delta_decay;
    int rate;
} predictions[] = {
    {"pipemare", 1, &sgd, 0.6, 0},  {"pipemare", 1, &sgd, 0.6, 8},
    {"pipemare", 2, &adam, 0.6, 0}, {"xpipe", 2, &adam, 0, 0},
    {"xpipe", 4, &sgd, 0, 0},       {"spectrain", 1, &sgd, 0, 0},
};

static struct outcome replay_pipeline(const struct recurrence_rule *rule,
                                      const struct recurrence_params *params)
{
    const struct handmade hand = {.rule = rule,
                                  .pipe = params->pipe,
                                  .microbatches_count = params->step_microbatches,
                                  .recomputes = params->recomputes};
    tryst_program *program = handmade_pipeline(&hand);
    tryst_program_rate_set(program, params->rate);
    struct outcome replayed = replay(program, params->optimizer, params->delta_decay, 1);
    tryst_program_close(program);
    return replayed;
}

static void test_predictions(void **state)
{
    for (size_t i = 0; i < sizeof predictions / sizeof *predictions; i++) {
        const struct recurrence_params params = {
            .optimizer = predictions[i].optimizer,
            .pipe = {.stages_count = 4, .every = predictions[i].every},
            .rule = recurrence_rule_find(predictions[i].rule),
            .step_microbatches = 16,
            .rate = predictions[i].rate,
            .delta_decay = predictions[i].delta_decay};
        struct outcome trained = train(params, 1);
        struct outcome replayed = replay_pipeline(params.rule, &params);
        double error = distance(&replayed, &trained);
        if (!(error < 1e-5)) {
            fail_msg("%s, u = %d: the weights differ by %g", predictions[i].rule,
                     predictions[i].every, error);
        }
        assert_true(fabs(replayed.losses[0] / trained.losses[0] - 1) < 1e-5);
        outcome_free(&trained);
        outcome_free(&replayed);
    }
}

/* R reads the weights of B, so where F reads others, a recomputed backward is another
 * system. */
static void test_recompute(void **state)
{
    struct recurrence_params params = {.optimizer = &sgd,
                                       .pipe = {.stages_count = 4, .every = 1},
                                       .rule = recurrence_rule_find("pipemare"),
                                       .step_microbatches = 16,
                                       .delta_decay = 0.6};
    struct outcome plain = train(params, 1);
    params.recomputes = true;
    struct outcome again = train(params, 1);
    struct outcome replayed = replay_pipeline(params.rule, &params);
    assert_true(distance(&replayed, &again) < 1e-5);
    assert_true(distance(&replayed, &plain) > 1e-4);
    outcome_free(&plain);
    outcome_free(&again);
    outcome_free(&replayed);
}

/* A slot one step off, and no slot at all, are found. */
static void test_prediction_faults(void **state)
{
    static const struct recurrence_rule off = {"off", read_xpipe_off, read_xpipe_backward,
                                               false, true};
    const struct recurrence_params params = {.optimizer = &adam,
                                             .pipe = {.stages_count = 4, .every = 2},
                                             .rule = recurrence_rule_find("xpipe"),
                                             .step_microbatches = 16};
    struct outcome trained = train(params, 1);
    struct outcome moved = replay_pipeline(&off, &params);
    assert_true(distance(&moved, &trained) > 1e-4);
    outcome_free(&moved);
    moved = replay_pipeline(recurrence_rule_find("pipedream"), &params);
    assert_true(distance(&moved, &trained) > 1e-4);
    outcome_free(&moved);
    outcome_free(&trained);
}

/* ---- known answers ----------------------------------------------------------------- */

enum { DELAYS = QUADRATIC_DELAYS, UPDATES = QUADRATIC_UPDATES };

/* Run PipeDream on stages of one weight each, with `factor` times their limits. The
 * caller closes the stages. */
static void run_quadratic(double factor, int rate_updates, tryst_stage *stages[DELAYS])
{
    const struct handmade hand = {.rule = recurrence_rule_find("pipedream"),
                                  .pipe = {.stages_count = DELAYS, .every = 1},
                                  .microbatches_count = UPDATES};
    tryst_program *program = handmade_pipeline(&hand);
    double loss;
    quadratic_stages_open(factor, stages);
    tryst_program_rate_set(program, rate_updates);
    const tryst_replay_params params = {.struct_size = sizeof params,
                                        .program = program,
                                        .stages = stages,
                                        .steps_count = 1,
                                        .losses = &loss};
    if (tryst_replay(&params) != TRYST_OK) {
        fail_msg("%s", tryst_last_error());
    }
    tryst_program_close(program);
}

static void test_stability(void **state)
{
    static const double factors[] = {0.98, 1.02};
    for (int i = 0; i < 2; i++) {
        tryst_stage *stages[DELAYS];
        run_quadratic(factors[i], 0, stages);
        for (int s = 0; s < DELAYS; s++) {
            double growth = quadratic_growth(stages[s]);
            print_message("delay %d, %.2f times the limit: %g\n", DELAYS - 1 - s,
                          factors[i], growth);
            assert_true(factors[i] < 1 ? growth < 0.01 : growth > 100);
            tryst_stage_close(stages[s]);
        }
    }
}

/* Every weight is that of the recurrence, to the last bit: L and D are powers of two. */
static void test_quadratic_history(void **state)
{
    tryst_stage *stages[DELAYS];
    run_quadratic(0.98, 0, stages);
    for (int s = 0; s < DELAYS; s++) {
        int delay = DELAYS - 1 - s;
        double step = 0.98 * quadratic_limit(delay);
        for (int t = 0; t < UPDATES; t++) {
            const tryst_stage *stage = stages[s];
            double old = quadratic_stage_weight(stage, (uint64_t)t);
            double read =
                quadratic_stage_weight(stage, (uint64_t)(t > delay ? t - delay : 0));
            double new = quadratic_stage_weight(stage, (uint64_t)t + 1);
            assert_true(new == old - step *read);
        }
        tryst_stage_close(stages[s]);
    }
}

/* Lower rates at the beginning (PipeMare's T1) save a run that diverges without them,
 * where the delay is above one. */
static void test_rate(void **state)
{
    tryst_stage *plain[DELAYS], *rated[DELAYS];
    run_quadratic(1.1, 0, plain);
    run_quadratic(1.1, 10 * UPDATES, rated);
    for (int s = 0; s < DELAYS; s++) {
        if (DELAYS - 1 - s > 1) {
            assert_true(quadratic_growth(plain[s]) > 100);
            assert_true(quadratic_growth(rated[s]) < 0.01);
        }
        tryst_stage_close(plain[s]);
        tryst_stage_close(rated[s]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_loops),
        cmocka_unit_test(test_synchronous),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_own_optimizer),
        cmocka_unit_test(test_predictions),
        cmocka_unit_test(test_prediction_faults),
        cmocka_unit_test(test_recompute),
        cmocka_unit_test(test_stability),
        cmocka_unit_test(test_quadratic_history),
        cmocka_unit_test(test_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
