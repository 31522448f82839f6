/* SPDX-License-Identifier: Apache-2.0 */
/* Which weights the engine and the replay let each action read, on canaries that record
 * what they got. Each test runs on the host and over a fake device. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <tryst/replay.h>

#include "device_canary.h"
#include "engine_job.h"
#include "loops.h"

/* ---- a replay on canaries ---------------------------------------------------------- */

/* Let both stages have made so many versions. */
static void newest_set(struct job *self, uint64_t newest)
{
    for (int i = 0; i < 2; i++) {
        self->stages[i].newest = self->stages[i].updates_queued = newest;
    }
}

static void begin_all(struct job *self, uint64_t step)
{
    for (int i = 0; i < tryst_program_stages(self->program); i++) {
        if (job_on_device) {
            device_canary_finish(&self->stages[i]);
        }
        canary_begin(&self->stages[i], step);
    }
}

static void next_step(void *arg, uint64_t steps_done)
{
    begin_all(arg, steps_done);
}

/* Replay the steps of a job in one call. */
static void replay_well(struct job *self)
{
    double losses[JOB_STEPS];
    tryst_stage *stages[JOB_STAGES_MAX];
    for (int i = 0; i < tryst_program_stages(self->program); i++) {
        stages[i] = &self->stages[i].base;
    }
    begin_all(self, 0);
    const tryst_replay_params params = {.struct_size = sizeof params,
                                        .program = self->program,
                                        .stages = stages,
                                        .ctx = fake_ctx(self->world, 0),
                                        .feed = canary_feed,
                                        .steps_count = JOB_STEPS,
                                        .losses = losses,
                                        .progress = next_step,
                                        .progress_arg = self};
    if (tryst_replay(&params) != TRYST_OK) {
        fail_msg("%s", tryst_last_error());
    }
}

/* ---- versions ---------------------------------------------------------------------- */

/* Two stages that read the version before the newest, as PipeDream-2BW's do. */
static const struct job_listed one_behind[] = {F(0, 0, 0, -1), B(0, 0, 0, -1),
                                               U(0, 0, 1),     F(1, 1, 0, -1),
                                               B(1, 1, 0, -1), U(1, 1, 1)};

static tryst_program *one_behind_open(void)
{
    return job_program(2, 2, 1, one_behind, sizeof one_behind / sizeof *one_behind);
}

/* Expect that each stage has got versions `first`, `first`, `first` + 1, … */
static void expect_one_behind(const struct job *self, uint64_t first)
{
    for (int stage = 0; stage < 2; stage++) {
        const struct canary *canary = &self->stages[stage];
        assert_int_equal(canary->calls_count, 3 * JOB_STEPS);
        for (size_t i = 0; i < canary->calls_count; i++) {
            uint64_t step = i / 3;
            uint64_t expected = first + (step > 0 ? step - 1 : 0);
            bool is_update = canary->calls[i].kind == TRYST_ACTION_UPDATE;
            assert_int_equal(canary->calls[i].version,
                             is_update ? first + step : expected);
        }
    }
}

/* A version from before the engine's first step is that of its first step, also for a
 * second engine on the same stages. */
static void test_versions_before_first(void **state)
{
    tryst_program *program = one_behind_open();
    assert_int_equal(tryst_program_check(program, NULL, NULL), TRYST_OK);
    struct job *self = malloc(sizeof *self);
    job_init(self, program, 100000);
    newest_set(self, 5);
    job_run(self);
    expect_one_behind(self, 5);
    for (int stage = 0; stage < 2; stage++) {
        self->stages[stage].begun = false;
        self->stages[stage].calls_count = 0;
    }
    self->first_step = JOB_STEPS;
    job_run(self);
    expect_one_behind(self, 5 + JOB_STEPS);
    job_expect_success(self, "one behind");
    free(self);
    tryst_program_close(program);
}

static void test_replay_before_first(void **state)
{
    tryst_program *program = one_behind_open();
    struct job *self = malloc(sizeof *self);
    job_init(self, program, 0);
    newest_set(self, 5);
    replay_well(self);
    begin_all(self, JOB_STEPS); /* on a device, wait for the last update */
    expect_one_behind(self, 5);
    job_expect_success(self, "one behind, replayed");
    free(self);
    tryst_program_close(program);
}

/* Run a job that must be refused at open on rank 0, with these words. */
static void expect_refused(struct job *self, const char *words)
{
    self->absent_rank = 1;
    job_run(self);
    assert_int_equal(self->ranks[0].status, TRYST_E_INVALID);
    if (!strstr(self->ranks[0].error, words)) {
        fail_msg("\"%s\" does not contain \"%s\"", self->ranks[0].error, words);
    }
    assert_int_equal(job_close(self), 0);
}

/* A stage with fewer versions than the program reads is refused at open. */
static void test_too_few_versions(void **state)
{
    static const struct job_listed list[] = {
        F(0, 0, 0, 0), F(0, 0, 1, 0), F(0, 0, 2, 0), B(0, 0, 0, 0),
        U(0, 0, 1),    B(0, 0, 1, 0), U(0, 0, 2),    B(0, 0, 2, 0),
        U(0, 0, 3),    F(1, 1, 0, 0), B(1, 1, 0, 0), F(1, 1, 1, 0),
        B(1, 1, 1, 0), F(1, 1, 2, 0), B(1, 1, 2, 0), U(1, 1, 1)};
    static const struct {
        int held;
        const char *words;
    } rows[] = {{1, "stage 0 holds 1 weight version, but the program reads 3 at once: "
                    "open it with versions_count 3"},
                {2, "stage 0 holds 2 weight versions, but the program reads 3 at once"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tryst_program *program = job_program(2, 2, 3, list, sizeof list / sizeof *list);
        struct job *self = malloc(sizeof *self);
        job_init(self, program, 0);
        assert_int_equal(self->stages[0].base.info.versions_count, 3);
        self->stages[0].base.info.versions_count = rows[i].held;
        expect_refused(self, rows[i].words);
        job_run_well(program, 0, "three versions");
        free(self);
        tryst_program_close(program);
    }
}

/* tryst_program_append lets no such kind in, so the test writes it there. */
static void test_unknown_kind(void **state)
{
    tryst_program *program = one_behind_open();
    size_t count = 0;
    const tryst_action *actions = tryst_program_actions(program, 0, &count);
    struct job *self = malloc(sizeof *self);
    job_init(self, program, 0);
    ((tryst_action *)(uintptr_t)actions)[count - 1].kind = TRYST_ACTION_KINDS;
    expect_refused(self, "an action of the unknown kind 9");
    free(self);
    tryst_program_close(program);
}

/* ---- R ----------------------------------------------------------------------------- */

/* F, R and B in order, with and without a last micro-batch that has no R, and with a
 * split backward: B and W get what R saved, the loss is that of F. */
static void test_recompute(void **state)
{
    static const struct job_listed split[] = {
        F(0, 0, 0, 0), F(0, 0, 1, 0), R(0, 0, 0, 0), I(0, 0, 0, 0), F(0, 0, 2, 0),
        W(0, 0, 0, 0), I(0, 0, 1, 0), R(0, 0, 2, 0), W(0, 0, 1, 0), B(0, 0, 2, 0),
        U(0, 0, 1),    F(1, 1, 0, 0), R(1, 1, 0, 0), I(1, 1, 0, 0), F(1, 1, 1, 0),
        F(1, 1, 2, 0), W(1, 1, 0, 0), R(1, 1, 1, 0), B(1, 1, 1, 0), B(1, 1, 2, 0),
        U(1, 1, 1)};
    static const char *const schedules[] = {"naive", "gpipe", "1f1b"};
    for (int i = 0; i < 3; i++) {
        for (int left_out = 0; left_out < 2; left_out++) {
            for (int ranks = 1; ranks < 4; ranks++) {
                tryst_program *program =
                    program_recomputed(job_generate(schedules[i], ranks, 5), left_out);
                job_run_well(program, 0, schedules[i]);
                job_run_well(program, 300000, schedules[i]);
                tryst_program_close(program);
            }
        }
    }
    tryst_program *program = job_program(2, 2, 3, split, sizeof split / sizeof *split);
    job_run_well(program, 0, "split");
    job_run_well(program, 300000, "split");
    tryst_program_close(program);
}

/* R reads the version that it names, here another than F: PipeDream with backwards that
 * read the newest weights. R has figures and spans of a kind of its own. */
static void test_recompute_version(void **state)
{
    static const struct job_listed list[] = {F(0, 0, 0, 0), F(0, 0, 1, 0), R(0, 0, 0, 0),
                                             B(0, 0, 0, 0), U(0, 0, 1),    R(0, 0, 1, 1),
                                             B(0, 0, 1, 1), U(0, 0, 2),    F(0, 0, 2, 1),
                                             R(0, 0, 2, 2), B(0, 0, 2, 2), U(0, 0, 3)};
    static const uint64_t read[] = {0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2};
    tryst_program *program = job_program(1, 1, 3, list, sizeof list / sizeof *list);
    assert_int_equal(tryst_program_check(program, NULL, NULL), TRYST_OK);
    struct job *self = malloc(sizeof *self);
    job_init(self, program, 100000);
    job_run(self);
    for (size_t i = 0; i < 12; i++) {
        assert_int_equal(self->stages[0].calls[i].kind, list[i].action.kind);
        assert_int_equal(self->stages[0].calls[i].version, read[i]);
    }
    assert_int_equal(self->ranks[0].stats.action_counts[TRYST_ACTION_FORWARD],
                     3 * JOB_STEPS);
    assert_int_equal(self->ranks[0].stats.action_counts[TRYST_ACTION_RECOMPUTE],
                     3 * JOB_STEPS);
    assert_true(self->ranks[0].span_kinds >> TRYST_SPAN_RECOMPUTE & 1);
    job_expect_success(self, "versions of R");
    free(self);
    tryst_program_close(program);
}

/* Run GPipe on `ranks` ranks and write each rank's largest bytes of activations. */
static void peaks_of(int ranks, int microbatches, bool recomputed, uint64_t *peaks)
{
    tryst_program *program = job_generate("gpipe", ranks, microbatches);
    program = recomputed ? program_recomputed(program, 0) : program;
    struct job *self = malloc(sizeof *self);
    job_init(self, program, 0);
    job_run(self);
    for (int rank = 0; rank < ranks; rank++) {
        peaks[rank] = self->ranks[rank].stats.peak_activation_bytes;
    }
    job_expect_success(self, "peaks");
    free(self);
    tryst_program_close(program);
}

/* The peak of GPipe: with an R for each micro-batch all inputs and one `saved`, else all
 * of both. (Sizes of the canaries' buffers, rounded up to 64 bytes.) */
static void test_recompute_peak(void **state)
{
    enum { DATA = 64, SAVED = 1024, BOUNDARY = 192 };
    uint64_t peaks[3];
    for (int m = 1; m <= 16; m += 5) {
        uint64_t inputs = (uint64_t)m * 2 * DATA; /* an input and a target each */
        peaks_of(1, m, true, peaks);
        assert_int_equal(peaks[0], inputs + SAVED);
        peaks_of(1, m, false, peaks);
        assert_int_equal(peaks[0], inputs + (uint64_t)m * SAVED);
    }
    /* On several ranks as many outputs may be on their way as micro-batches, and a few
     * gradients that came ahead. */
    peaks_of(3, 16, true, peaks);
    for (int rank = 0; rank < 3; rank++) {
        assert_true(peaks[rank] <= (2 * 16 + 8) * BOUNDARY + SAVED);
    }
}

/* Four `saved` are held when R needs another: the pool has none, and may not grow. */
static void test_recompute_no_memory(void **state)
{
    static const struct job_listed list[] = {F(0, 0, 4, 0), F(0, 0, 0, 0), F(0, 0, 1, 0),
                                             F(0, 0, 2, 0), F(0, 0, 3, 0), R(0, 0, 4, 0),
                                             B(0, 0, 4, 0), B(0, 0, 0, 0), B(0, 0, 1, 0),
                                             B(0, 0, 2, 0), B(0, 0, 3, 0), U(0, 0, 1)};
    enum { FOUR_SAVED = 4 * 1024, ALL_DATA = 16 * 64 };
    tryst_program *program = job_program(1, 1, 5, list, sizeof list / sizeof *list);
    struct job *self = malloc(sizeof *self);
    job_init(self, program, 0);
    self->memory_bytes_max = FOUR_SAVED + ALL_DATA + 1023;
    job_run(self);
    assert_int_equal(self->ranks[0].status, TRYST_E_NOMEM);
    assert_non_null(strstr(self->ranks[0].error, "for what a forward saves, 0.98 KiB"));
    assert_int_equal(self->stages[0].calls_count, 5);
    assert_int_equal(job_close(self), 0);
    free(self);
    tryst_program_close(program);
}

static void test_replay_recompute(void **state)
{
    tryst_program *program = program_recomputed(job_generate("1f1b", 3, 5), 1);
    struct job *self = malloc(sizeof *self);
    job_init(self, program, 0);
    replay_well(self);
    begin_all(self, JOB_STEPS);
    assert_int_equal(self->stages[1].calls_count, JOB_STEPS * (5 + 4 + 5 + 1));
    job_expect_success(self, "R, replayed");
    free(self);
    tryst_program_close(program);
}

/* ---- slots and rates --------------------------------------------------------------- */

#define PREDICT(r, s, to, along, far)     \
    {                                     \
        .rank = (r), .action = {          \
            .kind = TRYST_ACTION_PREDICT, \
            .stage = (s),                 \
            .microbatch = -1,             \
            .slot = (to),                 \
            .direction = (along),         \
            .ahead = (far)                \
        }                                 \
    }
#define SLOT(r, k, m, from)           \
    {                                 \
        .rank = (r), .action = {      \
            .kind = TRYST_ACTION_##k, \
            .microbatch = (m),        \
            .slot = (from)            \
        }                             \
    }

/* A stage that predicts as XPipe's do, and once by the mean change. */
static const struct job_listed predicted[] = {
    PREDICT(0, 0, 1, TRYST_DIRECTION_STEP, 1.5),
    SLOT(0, FORWARD, 0, 1),
    SLOT(0, FORWARD, 1, 1),
    PREDICT(0, 0, 2, TRYST_DIRECTION_DELTA, -0.5),
    SLOT(0, RECOMPUTE, 0, 2),
    SLOT(0, BACKWARD, 0, 2),
    F(0, 0, 2, 0),
    SLOT(0, BACKWARD, 1, 2),
    B(0, 0, 2, 0),
    U(0, 0, 1)};
enum { PREDICTED = sizeof predicted / sizeof *predicted };

static tryst_program *predicted_open(void)
{
    return job_program(1, 1, 3, predicted, PREDICTED);
}

static void expect_predicted(const struct canary *canary)
{
    assert_int_equal(canary->calls_count, PREDICTED * JOB_STEPS);
    for (size_t i = 0; i < canary->calls_count; i++) {
        const tryst_action *action = &predicted[i % PREDICTED].action;
        const struct canary_call *call = &canary->calls[i];
        assert_int_equal(call->kind, action->kind);
        assert_int_equal(call->slot, action->slot);
        assert_int_equal(call->direction, action->direction);
        assert_true(call->ahead <= action->ahead && call->ahead >= action->ahead);
        assert_int_equal(call->version,
                         action->kind == TRYST_ACTION_PREDICT ? 0 : i / PREDICTED);
    }
}

static void test_predict(void **state)
{
    tryst_program *program = predicted_open();
    if (tryst_program_check(program, NULL, NULL) != TRYST_OK) {
        fail_msg("%s", tryst_last_error());
    }
    struct job *self = malloc(sizeof *self);
    job_init(self, program, 100000);
    job_run(self);
    expect_predicted(&self->stages[0]);
    assert_int_equal(self->ranks[0].stats.action_counts[TRYST_ACTION_PREDICT],
                     2 * JOB_STEPS);
    assert_true(self->ranks[0].span_kinds >> TRYST_SPAN_PREDICT & 1);
    job_expect_success(self, "predicted");
    free(self);
    tryst_program_close(program);
}

static void test_replay_predict(void **state)
{
    tryst_program *program = predicted_open();
    struct job *self = malloc(sizeof *self);
    job_init(self, program, 0);
    replay_well(self);
    begin_all(self, JOB_STEPS);
    expect_predicted(&self->stages[0]);
    job_expect_success(self, "predicted, replayed");
    free(self);
    tryst_program_close(program);
}

/* A stage without what the program predicts with is refused at open. */
static void test_too_few_slots(void **state)
{
    tryst_program *program = predicted_open();
    struct job *self = malloc(sizeof *self);
    tryst_stage_ops ops;
    job_init(self, program, 0);
    assert_int_equal(self->stages[0].base.info.slots_count, 2);
    self->stages[0].base.info.slots_count = 1;
    expect_refused(self,
                   "stage 0 has 1 slot for predicted weights, but the program fills "
                   "2: open it with slots_count 2");
    job_init(self, program, 0);
    self->stages[0].base.info.keeps_delta = false;
    expect_refused(self, "stage 0 keeps no mean change of its weights, but the program "
                         "predicts by it: open it with a delta_decay");
    job_init(self, program, 0);
    ops = *self->stages[0].base.ops;
    ops.predict = NULL;
    self->stages[0].base.ops = &ops;
    expect_refused(self, "stage 0 cannot predict weights: its table has no predict");
    free(self);
    tryst_program_close(program);
}

/* Three updates a step, of gradients that are two updates old: τ = 2. */
static const struct job_listed stale[] = {F(0, 0, 0, 0), F(0, 0, 1, 0), F(0, 0, 2, 0),
                                          B(0, 0, 0, 0), U(0, 0, 1),    B(0, 0, 1, 0),
                                          U(0, 0, 2),    B(0, 0, 2, 0), U(0, 0, 3)};

/* Expect 2^-(1 - min(t / 4, 1)) for update t = 0, 1, …; 0 where the program sets none. */
static void expect_rates(const struct canary *canary, bool rises)
{
    static const double rates[] = {0.5, 0.59460355750136053, 0.70710678118654752,
                                   0.84089641525371454};
    size_t t = 0;
    for (size_t i = 0; i < canary->calls_count; i++) {
        if (canary->calls[i].kind == TRYST_ACTION_UPDATE) {
            double expected = !rises ? 0 : t < 4 ? rates[t] : 1;
            assert_true(fabs(canary->calls[i].rate - expected) < 1e-15);
            t++;
        }
    }
    assert_int_equal(t, 3 * JOB_STEPS);
}

static void test_rate(void **state)
{
    for (int rises = 0; rises < 2; rises++) {
        tryst_program *program =
            job_program(1, 1, 3, stale, sizeof stale / sizeof *stale);
        tryst_program_rate_set(program, rises ? 4 : 0);
        struct job *self = malloc(sizeof *self);
        job_init(self, program, 100000);
        job_run(self);
        expect_rates(&self->stages[0], rises);
        job_expect_success(self, "rate");
        job_init(self, program, 0);
        replay_well(self);
        begin_all(self, JOB_STEPS);
        expect_rates(&self->stages[0], rises);
        job_expect_success(self, "rate, replayed");
        free(self);
        tryst_program_close(program);
    }
}

/* Gradients that are not stale have the full rate from the first update on. */
static void test_rate_of_fresh(void **state)
{
    tryst_program *program = job_generate("1f1b", 2, 4);
    tryst_program_rate_set(program, 10);
    struct job *self = malloc(sizeof *self);
    job_init(self, program, 0);
    job_run(self);
    for (size_t i = 0; i < self->stages[0].calls_count; i++) {
        double rate = self->stages[0].calls[i].rate;
        assert_true(self->stages[0].calls[i].kind != TRYST_ACTION_UPDATE ||
                    fabs(rate - 1) < 1e-15);
    }
    job_expect_success(self, "fresh");
    free(self);
    tryst_program_close(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions_before_first),
        cmocka_unit_test(test_replay_before_first),
        cmocka_unit_test(test_too_few_versions),
        cmocka_unit_test(test_unknown_kind),
        cmocka_unit_test(test_recompute),
        cmocka_unit_test(test_recompute_version),
        cmocka_unit_test(test_recompute_peak),
        cmocka_unit_test(test_recompute_no_memory),
        cmocka_unit_test(test_replay_recompute),
        cmocka_unit_test(test_predict),
        cmocka_unit_test(test_replay_predict),
        cmocka_unit_test(test_too_few_slots),
        cmocka_unit_test(test_rate),
        cmocka_unit_test(test_rate_of_fresh),
        /* on the device from here on */
        JOB_ON_DEVICE(test_versions_before_first),
        JOB_ON_DEVICE(test_replay_before_first),
        JOB_ON_DEVICE(test_too_few_versions),
        JOB_ON_DEVICE(test_recompute),
        JOB_ON_DEVICE(test_recompute_version),
        JOB_ON_DEVICE(test_recompute_peak),
        JOB_ON_DEVICE(test_replay_recompute),
        JOB_ON_DEVICE(test_predict),
        JOB_ON_DEVICE(test_replay_predict),
        JOB_ON_DEVICE(test_too_few_slots),
        JOB_ON_DEVICE(test_rate),
    };
    job_seed_set();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
