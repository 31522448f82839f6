/* SPDX-License-Identifier: Apache-2.0 */
/* The replay against a still simpler one (chain.h: all forwards of a micro-batch, then
 * all its backwards), and the comparison of results, which must find every fault and name
 * its place. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <tryst/replay.h>
#include <tryst/weights.h>

#include "chain.h"

enum { STEPS = 3, STAGES_MAX = 4 };

static const tryst_model model = {.struct_size = sizeof(model),
                                  .kind = TRYST_MODEL_GPT,
                                  .layers = 5,
                                  .hidden = 12,
                                  .heads = 2,
                                  .seq = 9,
                                  .microbatch_size = 2};

/* The result of a run. */
struct outcome {
    double losses[STEPS];
    float *weights;
    uint64_t weights_count;
};

static void outcome_gather(struct outcome *o, tryst_stage *const *stages,
                           int stages_count)
{
    o->weights_count = tryst_model_weights_count(&model);
    o->weights = calloc(o->weights_count, sizeof(float));
    assert_non_null(o->weights);
    float *next = o->weights;
    for (int s = 0; s < stages_count; s++) {
        assert_int_equal(tryst_stage_weights_copy(stages[s], next), TRYST_OK);
        next += stages[s]->info.weights_count;
    }
}

static void outcome_free(struct outcome *o)
{
    free(o->weights);
    o->weights = NULL;
}

/* ---- the two runs ------------------------------------------------------------------ */

/* The windows that chain_feed makes for a step, returned one micro-batch at a time. */
struct feeder {
    struct chain *chain;
    uint64_t fed_step;
    int swapped; /* swap micro-batches 0 and 1 in the last step */
    tryst_status answer;
};

static tryst_status feed(void *arg, uint64_t step, int32_t microbatch, void *input,
                         uint8_t *target)
{
    struct feeder *f = arg;
    uint64_t bytes =
        (uint64_t)f->chain->model.microbatch_size * (uint64_t)f->chain->model.seq;
    if (f->swapped && step == STEPS - 1 && microbatch < 2 && input) {
        microbatch = 1 - microbatch;
    }
    if (step != f->fed_step) {
        chain_feed(f->chain, step);
        f->fed_step = step;
    }
    const uint8_t *windows = f->chain->tokens + (uint64_t)microbatch * 2 * bytes;
    if (input) {
        memcpy(input, windows, bytes);
    }
    if (target) {
        memcpy(target, windows + bytes, bytes);
    }
    return f->answer;
}

static void run_chain(int microbatches, struct outcome *o)
{
    struct chain c;
    chain_open(&model, 1, microbatches, NULL, 1, &c);
    for (int step = 0; step < STEPS; step++) {
        chain_feed(&c, (uint64_t)step);
        o->losses[step] = chain_step(&c, (uint64_t)step, CHAIN_WHOLE);
    }
    outcome_gather(o, c.stages, 1);
    chain_close(&c);
}

/* Replay STEPS steps; on failure `o` holds no weights. */
static tryst_status run_replay(const tryst_program *program, int versions,
                               struct feeder *f, struct outcome *o)
{
    int stages = tryst_program_stages(program);
    struct chain c; /* used for its stages and its windows */
    chain_open(&model, stages, tryst_program_microbatches(program), NULL, versions, &c);
    f->chain = &c;
    f->fed_step = UINT64_MAX;
    tryst_replay_params params = {.struct_size = sizeof(params),
                                  .program = program,
                                  .stages = c.stages,
                                  .feed = feed,
                                  .feed_arg = f,
                                  .steps_count = STEPS,
                                  .losses = o->losses};
    tryst_status status = tryst_replay(&params);
    o->weights = NULL;
    if (status == TRYST_OK) {
        outcome_gather(o, c.stages, stages);
    }
    chain_close(&c);
    return status;
}

static tryst_program *generate(const char *schedule, int ranks, int microbatches)
{
    const tryst_schedule_params params = {.struct_size = sizeof params,
                                          .ranks_count = ranks,
                                          .microbatches_count = microbatches};
    tryst_program *program = NULL;
    assert_int_equal(tryst_program_generate(schedule, &params, &program), TRYST_OK);
    return program;
}

static bool equal(const struct outcome *run, const struct outcome *replay, char *text,
                  size_t capacity)
{
    const tryst_replay_result a = {sizeof a, run->losses, run->weights};
    const tryst_replay_result b = {sizeof b, replay->losses, replay->weights};
    return tryst_replay_equal(&model, 0, STEPS, &a, &b, text, capacity);
}

/* ---- tests ------------------------------------------------------------------------- */

static void test_schedules(void **state)
{
    static const char *const schedules[] = {"naive", "gpipe", "1f1b"};
    char text[256];
    for (int microbatches = 1; microbatches <= 6; microbatches++) {
        struct outcome plain;
        run_chain(microbatches, &plain);
        for (int i = 0; i < 3; i++) {
            for (int ranks = 1; ranks <= STAGES_MAX; ranks++) {
                tryst_program *program = generate(schedules[i], ranks, microbatches);
                struct feeder f = {0};
                struct outcome replayed;
                assert_int_equal(run_replay(program, 1, &f, &replayed), TRYST_OK);
                if (!equal(&plain, &replayed, text, sizeof(text))) {
                    fail_msg("%s, %d ranks, %d micro-batches: %s", schedules[i], ranks,
                             microbatches, text);
                }
                assert_non_null(strstr(text, "bitwise equal"));
                outcome_free(&replayed);
                tryst_program_close(program);
            }
        }
        outcome_free(&plain);
    }
}

static void append(tryst_program *program, int rank, tryst_action_kind kind, int stage,
                   int microbatch, int version)
{
    const tryst_action action = {
        .kind = kind, .stage = stage, .microbatch = microbatch, .version = version};
    assert_int_equal(tryst_program_append(program, rank, &action), TRYST_OK);
}

/* Generate two stages on two ranks: forwards, then input gradients, then weight
 * gradients. */
static tryst_program *split_program(int reversed)
{
    tryst_program *program = NULL;
    assert_int_equal(tryst_program_open(2, 2, 3, &program), TRYST_OK);
    for (int stage = 0; stage < 2; stage++) {
        for (int m = 0; m < 3; m++) {
            append(program, stage, TRYST_ACTION_FORWARD, stage, m, 0);
        }
        for (int m = 0; m < 3; m++) {
            append(program, stage, TRYST_ACTION_INPUT_GRAD, stage, m, 0);
        }
        for (int m = 0; m < 3; m++) {
            append(program, stage, TRYST_ACTION_WEIGHT_GRAD, stage, reversed ? 2 - m : m,
                   0);
        }
        append(program, stage, TRYST_ACTION_UPDATE, stage, -1, 1);
    }
    return program;
}

static void test_split_backward(void **state)
{
    char text[256];
    struct outcome plain, replayed;
    run_chain(3, &plain);
    for (int reversed = 0; reversed < 2; reversed++) {
        tryst_program *program = split_program(reversed);
        struct feeder f = {0};
        assert_int_equal(run_replay(program, 1, &f, &replayed), TRYST_OK);
        /* Another order of accumulation gives other bits, and the comparison detects
         * it. */
        assert_int_equal(equal(&plain, &replayed, text, sizeof(text)), !reversed);
        outcome_free(&replayed);
        tryst_program_close(program);
    }
    outcome_free(&plain);
}

/* Update a stage with one micro-batch's gradient. */
static void update_one(tryst_stage *stage)
{
    const tryst_stage_update update = {.struct_size = sizeof update, .microbatches = 1};
    assert_int_equal(stage->ops->update(stage, &update), TRYST_OK);
}

/* Micro-batch 1 reads the version from before the update that micro-batch 0 made. */
static void test_versions(void **state)
{
    char text[256];
    tryst_program *program = NULL;
    struct outcome plain = {0}, replayed;
    assert_int_equal(tryst_program_open(1, 1, 2, &program), TRYST_OK);
    append(program, 0, TRYST_ACTION_FORWARD, 0, 0, 0);
    append(program, 0, TRYST_ACTION_BACKWARD, 0, 0, 0);
    append(program, 0, TRYST_ACTION_UPDATE, 0, -1, 1);
    append(program, 0, TRYST_ACTION_FORWARD, 0, 1, 0);
    append(program, 0, TRYST_ACTION_BACKWARD, 0, 1, 0);
    append(program, 0, TRYST_ACTION_UPDATE, 0, -1, 2);
    struct feeder f = {0};
    assert_int_equal(run_replay(program, 2, &f, &replayed), TRYST_OK);

    struct chain c;
    chain_open(&model, 1, 2, NULL, 2, &c);
    for (int step = 0; step < STEPS; step++) {
        chain_feed(&c, (uint64_t)step);
        for (int m = 0; m < 2; m++) {
            chain_forward(&c, m, (uint64_t)step * 2);
            chain_backward(&c, m, (uint64_t)step * 2, CHAIN_WHOLE);
            update_one(c.stages[0]);
        }
        plain.losses[step] = tryst_loss_mean(c.losses, 2);
    }
    outcome_gather(&plain, c.stages, 1);
    chain_close(&c);
    assert_true(equal(&plain, &replayed, text, sizeof(text)));
    outcome_free(&replayed);
    outcome_free(&plain);

    /* With one version the stale read is refused, and the error names it. */
    assert_int_equal(run_replay(program, 1, &f, &replayed), TRYST_E_INVALID);
    assert_non_null(strstr(tryst_last_error(), "step 0, rank 0: 0F1 failed"));
    tryst_program_close(program);
}

/* Generate two stages with an R for each micro-batch but the last; `again` 0 leaves the R
 * out. */
static tryst_program *recompute_program(int again)
{
    tryst_program *program = NULL;
    assert_int_equal(tryst_program_open(2, 2, 3, &program), TRYST_OK);
    for (int stage = 0; stage < 2; stage++) {
        for (int m = 0; m < 3; m++) {
            append(program, stage, TRYST_ACTION_FORWARD, stage, m, 0);
        }
        for (int m = 0; m < 3; m++) {
            if (again && m < 2) {
                append(program, stage, TRYST_ACTION_RECOMPUTE, stage, m, 0);
            }
            append(program, stage, TRYST_ACTION_BACKWARD, stage, m, 0);
        }
        append(program, stage, TRYST_ACTION_UPDATE, stage, -1, 1);
    }
    return program;
}

static void test_recompute(void **state)
{
    char text[256];
    struct outcome once, twice;
    struct feeder f = {0};
    tryst_program *program = recompute_program(0);
    assert_int_equal(run_replay(program, 1, &f, &once), TRYST_OK);
    tryst_program_close(program);
    program = recompute_program(1);
    assert_int_equal(run_replay(program, 1, &f, &twice), TRYST_OK);
    tryst_program_close(program);
    if (!equal(&once, &twice, text, sizeof text)) {
        fail_msg("%s", text);
    }
    outcome_free(&twice);
    outcome_free(&once);
}

static void count_steps(void *arg, uint64_t steps_done)
{
    uint64_t *counted = arg;
    assert_int_equal(steps_done, ++*counted);
}

/* Each step reads the weights from before the last update. In the first step that would
 * be a version from before it: the first step's is read. */
static void test_version_before_first(void **state)
{
    char text[256];
    struct outcome plain = {0}, replayed = {0};
    struct chain c, again;
    uint64_t counted = 0;
    tryst_program *program = NULL;
    assert_int_equal(tryst_program_open(1, 1, 1, &program), TRYST_OK);
    append(program, 0, TRYST_ACTION_FORWARD, 0, 0, -1);
    append(program, 0, TRYST_ACTION_BACKWARD, 0, 0, -1);
    append(program, 0, TRYST_ACTION_UPDATE, 0, -1, 1);

    chain_open(&model, 1, 1, NULL, 2, &c);
    chain_feed(&c, 17); /* the stages are at version 1 when the replay begins */
    chain_step(&c, 0, CHAIN_WHOLE);
    for (uint64_t step = 0; step < STEPS; step++) {
        uint64_t version = step > 0 ? step : 1;
        chain_feed(&c, step);
        plain.losses[step] = chain_forward(&c, 0, version);
        chain_backward(&c, 0, version, CHAIN_WHOLE);
        update_one(c.stages[0]);
    }
    outcome_gather(&plain, c.stages, 1);
    chain_close(&c);

    chain_open(&model, 1, 1, NULL, 2, &again);
    chain_feed(&again, 17);
    chain_step(&again, 0, CHAIN_WHOLE);
    struct feeder f = {.chain = &again, .fed_step = UINT64_MAX};
    const tryst_replay_params params = {.struct_size = sizeof params,
                                        .program = program,
                                        .stages = again.stages,
                                        .feed = feed,
                                        .feed_arg = &f,
                                        .steps_count = STEPS,
                                        .losses = replayed.losses,
                                        .progress = count_steps,
                                        .progress_arg = &counted};
    assert_int_equal(tryst_replay(&params), TRYST_OK);
    assert_int_equal(counted, STEPS);
    outcome_gather(&replayed, again.stages, 1);
    chain_close(&again);
    if (!equal(&plain, &replayed, text, sizeof text)) {
        fail_msg("%s", text);
    }
    outcome_free(&replayed);
    outcome_free(&plain);
    tryst_program_close(program);
}

static void test_stuck(void **state)
{
    tryst_program *program = NULL;
    struct outcome replayed;
    struct feeder f = {0};
    assert_int_equal(tryst_program_open(2, 2, 1, &program), TRYST_OK);
    append(program, 0, TRYST_ACTION_BACKWARD, 0, 0, 0);
    append(program, 0, TRYST_ACTION_FORWARD, 0, 0, 0);
    append(program, 1, TRYST_ACTION_FORWARD, 1, 0, 0);
    assert_int_equal(run_replay(program, 1, &f, &replayed), TRYST_E_PROGRAM);
    assert_non_null(strstr(tryst_last_error(), "rank 0 waits for the inputs of 0B0"));
    tryst_program_close(program);

    program = generate("1f1b", 2, 2);
    f.answer = TRYST_E_IO;
    assert_int_equal(run_replay(program, 1, &f, &replayed), TRYST_E_IO);
    tryst_program_close(program);
}

static void test_stages_in_place(void **state)
{
    double losses[1];
    struct chain c;
    chain_open(&model, 2, 1, NULL, 1, &c);
    tryst_program *program = generate("gpipe", 2, 1);
    tryst_stage *wrong[] = {c.stages[1], c.stages[0]};
    tryst_replay_params params = {.struct_size = sizeof(params),
                                  .program = program,
                                  .stages = wrong,
                                  .steps_count = 1,
                                  .losses = losses};
    assert_int_equal(tryst_replay(&params), TRYST_E_INVALID);
    assert_non_null(strstr(tryst_last_error(), "stage 0 of 2"));
    wrong[0] = c.stages[0];
    wrong[1] = NULL;
    assert_int_equal(tryst_replay(&params), TRYST_E_INVALID);
    tryst_program_close(program);
    chain_close(&c);
}

/* Calls for a few steps at a time continue where the previous call stopped. */
static void test_in_parts(void **state)
{
    struct outcome plain, parts;
    struct chain c;
    char text[256];
    run_chain(2, &plain);
    tryst_program *program = generate("1f1b", 2, 2);
    chain_open(&model, 2, 2, NULL, 1, &c);
    struct feeder f = {.chain = &c, .fed_step = UINT64_MAX};
    for (uint64_t step = 0; step < STEPS; step++) {
        tryst_replay_params params = {.struct_size = sizeof(params),
                                      .program = program,
                                      .stages = c.stages,
                                      .feed = feed,
                                      .feed_arg = &f,
                                      .first_step = step,
                                      .steps_count = 1,
                                      .losses = &parts.losses[step]};
        assert_int_equal(tryst_replay(&params), TRYST_OK);
    }
    outcome_gather(&parts, c.stages, 2);
    assert_true(equal(&plain, &parts, text, sizeof(text)));
    outcome_free(&parts);
    outcome_free(&plain);
    tryst_program_close(program);
    chain_close(&c);
}

/* Each difference is found, and the text names the first. */
static void test_comparison(void **state)
{
    char text[512];
    struct outcome plain, replayed;
    tryst_program *program = generate("gpipe", 2, 3);
    struct feeder f = {.swapped = 1};
    run_chain(3, &plain);
    assert_int_equal(run_replay(program, 1, &f, &replayed), TRYST_OK);
    assert_false(equal(&plain, &replayed, text, sizeof(text)));
    assert_non_null(strstr(text, "step 2 is the first with another loss"));
    outcome_free(&replayed);

    f.swapped = 0;
    assert_int_equal(run_replay(program, 1, &f, &replayed), TRYST_OK);
    assert_true(equal(&plain, &replayed, text, sizeof(text)));
    /* One bit of one weight: element 5 of the second tensor, positions [9, 12]. */
    uint64_t at = 256 * 12 + 5;
    replayed.weights[at] = nextafterf(replayed.weights[at], 1);
    assert_false(equal(&plain, &replayed, text, sizeof(text)));
    assert_non_null(strstr(text, "embedding.position.weight[5]"));
    assert_false(equal(&plain, &replayed, NULL, 0));
    replayed.weights[at] = plain.weights[at];
    replayed.weights[plain.weights_count - 1] = NAN;
    assert_false(equal(&plain, &replayed, text, sizeof(text)));
    assert_non_null(strstr(text, "head.weight[3071]"));
    plain.weights[plain.weights_count - 1] = replayed.weights[plain.weights_count - 1];
    assert_true(equal(&plain, &replayed, text, sizeof(text)));
    replayed.losses[1] = nextafter(replayed.losses[1], 0);
    assert_false(equal(&plain, &replayed, text, sizeof(text)));
    assert_non_null(strstr(text, "step 1 "));
    outcome_free(&replayed);
    outcome_free(&plain);
    tryst_program_close(program);
}

/* ---- memory ------------------------------------------------------------------------ */

static int allocations_left = -1;

/* Visible, because the linker also wraps the calls of the shared libraries. */
#define WRAPPED __attribute__((visibility("default")))
void *__real_calloc(size_t count, size_t bytes);
WRAPPED void *__wrap_calloc(size_t count, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
WRAPPED void *__wrap_aligned_alloc(size_t alignment, size_t bytes);

static int allocation_fails(void)
{
    if (allocations_left == 0) {
        return 1;
    }
    if (allocations_left > 0) { /* any number of threads may be here otherwise */
        allocations_left--;
    }
    return 0;
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return allocation_fails() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return allocation_fails() ? NULL : __real_aligned_alloc(alignment, bytes);
}

/* Let each allocation of a replay fail in turn. */
static void fail_each(tryst_program *program)
{
    double losses[1];
    for (int allowed = 0;; allowed++) {
        struct chain c;
        chain_open(&model, 2, 3, NULL, 1, &c);
        struct feeder f = {.chain = &c, .fed_step = UINT64_MAX};
        tryst_replay_params params = {.struct_size = sizeof(params),
                                      .program = program,
                                      .stages = c.stages,
                                      .feed = feed,
                                      .feed_arg = &f,
                                      .steps_count = 1,
                                      .losses = losses};
        allocations_left = allowed;
        tryst_status status = tryst_replay(&params);
        allocations_left = -1;
        chain_close(&c);
        if (status == TRYST_OK) {
            assert_true(allowed > 20);
            break;
        }
        assert_int_equal(status, TRYST_E_NOMEM);
        assert_non_null(strstr(tryst_last_error(), "replay"));
    }
    tryst_program_close(program);
}

static void test_memory(void **state)
{
    fail_each(split_program(0));
    fail_each(recompute_program(1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_split_backward),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_stuck),
        cmocka_unit_test(test_version_before_first),
        cmocka_unit_test(test_recompute),
        cmocka_unit_test(test_stages_in_place),
        cmocka_unit_test(test_in_parts),
        cmocka_unit_test(test_comparison),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
