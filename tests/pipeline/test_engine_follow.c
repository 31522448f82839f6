/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of flat programs that follow one another (tryst_engine_params.steps_follow), over
 * a fake of the library and on canaries (engine_job.h): each receives for the next one.
 * Bytes, versions and errors are those of separate steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine_job.h"

static const char *const schedules[] = {"1f1b", "gpipe", "interleaved",
                                        "1f1b:recompute=except_last"};
enum { SCHEDULES = sizeof schedules / sizeof *schedules };

static struct job *job_new(const tryst_program *program, uint64_t steps)
{
    struct job *self = malloc(sizeof *self);
    job_init(self, program, 100000);
    self->steps_follow = true;
    self->steps_count = steps;
    return self;
}

/* ---- successful runs --------------------------------------------------------------- */

/* Two and four steps. The mean of the losses is that of the last step. */
static void test_steps(void **state)
{
    for (int i = 0; i < SCHEDULES; i++) {
        for (int ranks = 1; ranks <= 4; ranks++) {
            for (int m = 1; m <= 7; m += 3) {
                tryst_program *program = job_generate_if(schedules[i], ranks, m);
                for (uint64_t steps = 2; program && steps <= JOB_STEPS; steps += 2) {
                    struct job *self = job_new(program, steps);
                    job_run(self);
                    int last =
                        tryst_program_rank_of(program, tryst_program_stages(program) - 1);
                    assert_float_equal(self->ranks[last].loss,
                                       (m - 1) / 2.0 + (double)steps - 1, 1e-9);
                    job_expect_success(self, schedules[i]);
                    free(self);
                }
                tryst_program_close(program);
            }
        }
    }
}

/* Two stages on rank 0, one between them on rank 1, and I and W: the first W of a step
 * comes before receives of the next step are taken. */
static void test_split(void **state)
{
    static const struct job_listed list[] = {
        F(0, 0, 0, 0), F(1, 1, 0, 0), F(0, 0, 1, 0), F(1, 1, 1, 0), F(0, 2, 0, 0),
        I(0, 2, 0, 0), I(1, 1, 0, 0), F(0, 2, 1, 0), I(0, 2, 1, 0), I(1, 1, 1, 0),
        W(1, 1, 0, 0), W(0, 2, 0, 0), I(0, 0, 0, 0), W(0, 0, 0, 0), W(1, 1, 1, 0),
        W(0, 2, 1, 0), I(0, 0, 1, 0), W(0, 0, 1, 0), U(0, 0, 1),    U(0, 2, 1),
        U(1, 1, 1)};
    tryst_program *program = job_program(2, 3, 2, list, sizeof list / sizeof *list);
    assert_int_equal(tryst_program_check(program, NULL, NULL), TRYST_OK);
    for (uint64_t steps = 1; steps <= 12; steps++) {
        struct job *self = job_new(program, steps);
        job_run(self);
        job_expect_success(self, "split");
        free(self);
    }
    tryst_program_close(program);
}

/* After some steps no buffer is allocated any more. */
static void test_memory_is_flat(void **state)
{
    enum { RANKS = 4, EACH = 8, MANY = 200 };
    tryst_program *program = job_generate("1f1b", RANKS, EACH);
    struct job *self = job_new(program, MANY);
    job_run(self);
    for (int rank = 0; rank < RANKS; rank++) {
        assert_true(self->ranks[rank].stats.buffer_allocations <= 12);
        assert_int_equal(self->ranks[rank].stats.action_counts[TRYST_ACTION_FORWARD],
                         MANY * EACH);
    }
    job_expect_success(self, "1f1b");
    free(self);
    tryst_program_close(program);
}

/* When the first step ends, receives of the second are posted: as many as the window
 * takes. A step that is the last posts none. */
static void test_receives_ahead(void **state)
{
    enum { RANKS = 4, EACH = 7, WINDOW = 4 };
    tryst_program *program = job_generate("1f1b", RANKS, EACH);
    for (uint64_t steps = 1; steps <= 3; steps++) {
        struct job *self = job_new(program, steps);
        job_run(self);
        for (int rank = 0; rank < RANKS; rank++) {
            int own = ((rank > 0) + (rank < RANKS - 1)) * EACH;
            assert_int_equal(self->ranks[rank].posted_first,
                             own + (steps > 1 ? WINDOW : 0));
        }
        job_expect_success(self, "1f1b");
        free(self);
    }
    tryst_program_close(program);
}

enum { NO_DRAIN_STEPS = 12 };

/* Run a job of two ranks. Return true if on each rank some of its steps ended while the
 * device worked: never the first and the last, and none of separate steps. */
static bool ends_busy(tryst_program *program, bool follow)
{
    bool all = true;
    struct job *self = job_new(program, NO_DRAIN_STEPS);
    self->steps_follow = follow;
    for (int stage = 0; stage < 2; stage++) {
        self->stages[stage].delay_max_ns = 2000000;
    }
    job_run(self);
    for (int rank = 0; rank < 2; rank++) {
        uint64_t busy = self->ranks[rank].busy_ends;
        all = all && busy != 0;
        assert_true(follow || busy == 0);
        assert_int_equal(busy & (UINT64_C(1) | UINT64_C(1) << (NO_DRAIN_STEPS - 1)), 0);
    }
    job_expect_success(self, "1f1b");
    free(self);
    return all;
}

/* The host does not wait for the device between steps: B and UPDATE of the last
 * micro-batch are left when some of them end; on a busy machine perhaps in one of a few
 * runs. It does at the end of the first step and of the last, and with separate steps. */
static void test_no_drain(void **state)
{
    tryst_program *program = job_generate("1f1b", 2, 4);
    (void)ends_busy(program, false);
    int tries = 5;
    while (!ends_busy(program, true)) {
        assert_true(--tries > 0);
    }
    tryst_program_close(program);
}

/* ---- failures ---------------------------------------------------------------------- */

/* A rank dies before step 2: every other rank ends with an error that names it, and no
 * object is left. */
static void test_dead_rank(void **state)
{
    for (int dying = 0; dying < 4; dying++) {
        tryst_program *program = job_generate("1f1b", 4, 6);
        struct job *self = job_new(program, 10);
        self->dying_rank = dying;
        job_run(self);
        job_expect_death(self);
        free(self);
        tryst_program_close(program);
    }
}

/* The caller of a rank stops before step 2: it aborts the scopes that it has opened, and
 * the two after them. */
static void test_aborted(void **state)
{
    for (int quitting = 0; quitting < 4; quitting++) {
        tryst_program *program = job_generate("1f1b", 4, 6);
        struct job *self = job_new(program, 10);
        self->quitting_rank = quitting;
        job_run(self);
        for (int rank = 0; rank < 4; rank++) {
            assert_non_null(strstr(self->ranks[rank].error, "the disk is full"));
        }
        for (uint64_t step = 1; step < 5; step++) {
            assert_true(fake_aborted(self->world, quitting, step));
        }
        assert_int_equal(job_close(self), 0);
        free(self);
        tryst_program_close(program);
    }
}

/* Expect a refusal with these words. */
static void expect_refused(tryst_status status, const char *words)
{
    assert_int_equal(status, TRYST_E_INVALID);
    if (!strstr(tryst_last_error(), words)) {
        fail_msg("\"%s\" does not contain \"%s\"", tryst_last_error(), words);
    }
}

static tryst_engine *engine_alone(struct job *self)
{
    static tryst_stage *stages[1];
    stages[0] = &self->stages[0].base;
    const tryst_engine_params params = {.struct_size = sizeof params,
                                        .ctx = fake_ctx(self->world, 0),
                                        .group = fake_group(self->world, 0),
                                        .program = self->program,
                                        .stages = stages,
                                        .feed = canary_feed,
                                        .steps_follow = true};
    tryst_engine *engine = NULL;
    if (tryst_engine_open(&params, &engine) != TRYST_OK) {
        fail_msg("%s", tryst_last_error());
    }
    return engine;
}

static void step_alone(struct job *self, tryst_engine *engine, uint64_t step, bool last)
{
    canary_begin(&self->stages[0], step);
    tryst_status status = last ? tryst_engine_step_last(engine, step, NULL)
                               : tryst_engine_step(engine, step, NULL);
    if (status != TRYST_OK) {
        fail_msg("%s", tryst_last_error());
    }
    canary_end(&self->stages[0]);
}

/* What would break the promise is refused, and the steps go on. */
static void test_refused(void **state)
{
    tryst_program *program = job_generate("gpipe", 1, 2);
    struct job *self = job_new(program, 1);
    tryst_engine *engine = engine_alone(self);
    assert_int_equal(tryst_engine_finish(engine), TRYST_OK); /* nothing has begun */
    step_alone(self, engine, 7, false);
    expect_refused(tryst_engine_step(engine, 9, NULL),
                   "cannot run step 9 behind step 7, which has begun step 8");
    expect_refused(tryst_engine_step_last(engine, 7, NULL), "cannot run step 7");
    expect_refused(tryst_engine_finish(engine), "step 7 was not the last");
    step_alone(self, engine, 8, true);
    assert_int_equal(tryst_engine_finish(engine), TRYST_OK);
    expect_refused(tryst_engine_step(engine, 9, NULL), "step 8 was the last");
    tryst_engine_close(engine);
    assert_int_equal(self->stages[0].newest, 2);
    assert_int_equal(self->stages[0].errors_count, 0);
    assert_int_equal(job_close(self), 0);
    free(self);
    tryst_program_close(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_memory_is_flat),
        cmocka_unit_test(test_receives_ahead),
        cmocka_unit_test(test_dead_rank),
        cmocka_unit_test(test_aborted),
        cmocka_unit_test(test_refused),
        /* on the device from here on */
        JOB_ON_DEVICE(test_steps),
        JOB_ON_DEVICE(test_split),
        JOB_ON_DEVICE(test_memory_is_flat),
        JOB_ON_DEVICE(test_no_drain),
        JOB_ON_DEVICE(test_dead_rank),
        JOB_ON_DEVICE(test_aborted),
    };
    job_seed_set();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
