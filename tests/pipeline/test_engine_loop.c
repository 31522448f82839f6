/* SPDX-License-Identifier: Apache-2.0 */
/* Loops in the engine, over a fake of the library and on canaries (engine_job.h): each
 * byte that a stage gets must be that of its micro-batch and step, also where a step runs
 * micro-batches of the next one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine_job.h"
#include "loops.h"

/* ---- successful runs --------------------------------------------------------------- */

static const struct {
    const char *name;
    tryst_program *(*make)(int ranks, int microbatches);
} loops[] = {{"pipedream", loop_pipedream}, {"2bw", loop_2bw}};
enum { LOOPS = sizeof loops / sizeof *loops };

/* All of one to four steps, with and without delays, and with forwards that run twice. */
static void test_loops(void **state)
{
    for (int i = 0; i < LOOPS; i++) {
        for (int ranks = 1; ranks <= 4; ranks++) {
            for (int m = ranks > 1 ? ranks - 1 : 1; m <= 5; m += 2) {
                char name[64];
                snprintf(name, sizeof name, "%s p=%d m=%d", loops[i].name, ranks, m);
                tryst_program *program = loops[i].make(ranks, m);
                for (uint64_t steps = 1; steps <= JOB_STEPS; steps++) {
                    job_run_steps(program, steps, steps % 2 ? 300000 : 0, name);
                }
                program = program_recomputed(program, m > 1 ? 1 : 0);
                job_run_well(program, 300000, name);
                tryst_program_close(program);
            }
        }
    }
}

/* PipeDream: F and B of micro-batch n, counted over all steps, read max(0, n - w). */
static void test_versions(void **state)
{
    enum { RANKS = 3, EACH = 4 };
    tryst_program *program = loop_pipedream(RANKS, EACH);
    struct job *self = malloc(sizeof *self);
    job_init(self, program, 100000);
    job_run(self);
    for (int stage = 0; stage < RANKS; stage++) {
        const struct canary *canary = &self->stages[stage];
        int behind = RANKS - 1 - stage, forwards = 0, backwards = 0;
        assert_int_equal(canary->calls_count, 3 * EACH * JOB_STEPS);
        for (size_t i = 0; i < canary->calls_count; i++) {
            const struct canary_call *call = &canary->calls[i];
            int n = call->kind == TRYST_ACTION_FORWARD    ? forwards++
                    : call->kind == TRYST_ACTION_BACKWARD ? backwards++
                                                          : backwards - 1 + behind;
            assert_int_equal(call->version, n > behind ? n - behind : 0);
        }
        assert_int_equal(forwards, EACH * JOB_STEPS);
        assert_int_equal(backwards, EACH * JOB_STEPS);
    }
    job_expect_success(self, "versions");
    free(self);
    tryst_program_close(program);
}

/* Over many steps no buffer is allocated after the first ones (input, target, saved,
 * transferred, in at most three chunks each), and none stays in use: a rank has at most
 * four micro-batches in flight, and about as many transfers of each kind. */
static void test_memory_is_flat(void **state)
{
    enum { RANKS = 4, EACH = 8, MANY = 300, DATA = 64, SAVED = 1024, BOUNDARY = 192 };
    uint64_t most = RANKS * (SAVED + BOUNDARY + 2 * DATA) + 4 * RANKS * BOUNDARY;
    for (int i = 0; i < LOOPS; i++) {
        tryst_program *program = loops[i].make(RANKS, EACH);
        struct job *self = malloc(sizeof *self);
        job_init(self, program, 20000);
        self->steps_count = MANY;
        job_run(self);
        for (int rank = 0; rank < RANKS; rank++) {
            const tryst_engine_stats *stats = &self->ranks[rank].stats;
            assert_true(stats->buffer_allocations <= 12);
            assert_true(stats->peak_activation_bytes <= most);
            assert_int_equal(stats->action_counts[TRYST_ACTION_FORWARD], MANY * EACH);
            assert_int_equal(stats->action_counts[TRYST_ACTION_BACKWARD], MANY * EACH);
        }
        job_expect_success(self, loops[i].name);
        free(self);
        tryst_program_close(program);
    }
}

/* When the first step ends, the first four receives of the second are posted, for a body
 * and for an epilogue. The step itself received m outputs, those of the forwards ahead,
 * and m gradients. A loop of one step posts nothing for another. */
static void test_receives_ahead(void **state)
{
    enum { RANKS = 4, EACH = 7, WINDOW = 4 };
    for (int i = 0; i < LOOPS; i++) {
        for (uint64_t steps = 1; steps <= 3; steps++) {
            tryst_program *program = loops[i].make(RANKS, EACH);
            struct job *self = malloc(sizeof *self);
            job_init(self, program, 100000);
            self->steps_count = steps;
            job_run(self);
            for (int rank = 0; rank < RANKS; rank++) {
                int ahead = steps > 1 ? RANKS - 1 - rank : 0;
                int own = (rank > 0 ? EACH + ahead : 0) + (rank < RANKS - 1 ? EACH : 0);
                assert_int_equal(self->ranks[rank].posted_first,
                                 own + (steps > 1 ? WINDOW : 0));
            }
            job_expect_success(self, loops[i].name);
            free(self);
            tryst_program_close(program);
        }
    }
}

/* ---- failures ---------------------------------------------------------------------- */

/* A rank dies before step 2: every other rank ends with an error that names it, and no
 * object is left. */
static void test_dead_rank(void **state)
{
    for (int dying = 0; dying < 4; dying++) {
        tryst_program *program = loop_pipedream(4, 6);
        struct job *self = malloc(sizeof *self);
        job_init(self, program, 100000);
        self->steps_count = 10;
        self->dying_rank = dying;
        job_run(self);
        job_expect_death(self);
        free(self);
        tryst_program_close(program);
    }
}

/* The caller of a rank stops before step 2: it aborts scopes 0 to 2, which are open, and
 * the two after them, which other ranks may have opened. */
static void test_aborted(void **state)
{
    for (int quitting = 0; quitting < 4; quitting++) {
        tryst_program *program = loop_2bw(4, 6);
        struct job *self = malloc(sizeof *self);
        job_init(self, program, 100000);
        self->steps_count = 10;
        self->quitting_rank = quitting;
        job_run(self);
        for (int rank = 0; rank < 4; rank++) {
            if (!strstr(self->ranks[rank].error, "the disk is full")) {
                fail_msg("rank %d: the error does not contain the reason: %s", rank,
                         self->ranks[rank].error);
            }
        }
        for (uint64_t step = 0; step < 5; step++) {
            assert_true(fake_aborted(self->world, quitting, step));
        }
        assert_int_equal(job_close(self), 0);
        free(self);
        tryst_program_close(program);
    }
}

/* ---- one rank, by hand ------------------------------------------------------------- */

/* Two stages on one rank; micro-batch 0 of the next step is ahead at stage 0. */
static tryst_program *both_here(void)
{
    static const struct job_listed parts[3][10] = {
        {F(0, 0, 0, 0)},
        {F(0, 1, 0, 0), B(0, 1, 0, 0), B(0, 0, 0, 0), F(0, 0, 1, 0), F(0, 1, 1, 0),
         B(0, 1, 1, 0), B(0, 0, 1, 0), U(0, 1, 1), U(0, 0, 1), F(0, 0, 2, 1)},
        {F(0, 1, 0, 0), B(0, 1, 0, 0), B(0, 0, 0, 0), F(0, 0, 1, 0), F(0, 1, 1, 0),
         B(0, 1, 1, 0), B(0, 0, 1, 0), U(0, 1, 1), U(0, 0, 1)}};
    tryst_program *program = NULL;
    assert_int_equal(tryst_program_open(1, 2, 2, &program), TRYST_OK);
    for (int part = 0; part < 3; part++) {
        if (part > 0) {
            assert_int_equal(tryst_program_mark(program, 0, (tryst_program_part)part),
                             TRYST_OK);
        }
        for (int i = 0; i < 10 && parts[part][i].action.kind; i++) {
            assert_int_equal(tryst_program_append(program, 0, &parts[part][i].action),
                             TRYST_OK);
        }
    }
    assert_int_equal(tryst_program_check(program, NULL, NULL), TRYST_OK);
    return program;
}

/* An engine on one rank, and its canaries. */
struct single {
    struct job *job;
    tryst_engine *engine;
};

static void single_open(struct single *self, const tryst_program *program)
{
    static tryst_stage *stages[2];
    self->job = malloc(sizeof *self->job);
    job_init(self->job, program, 0);
    for (int i = 0; i < 2; i++) {
        stages[i] = &self->job->stages[i].base;
    }
    const tryst_engine_params params = {.struct_size = sizeof params,
                                        .ctx = fake_ctx(self->job->world, 0),
                                        .group = fake_group(self->job->world, 0),
                                        .program = program,
                                        .stages = stages,
                                        .feed = canary_feed};
    if (tryst_engine_open(&params, &self->engine) != TRYST_OK) {
        fail_msg("%s", tryst_last_error());
    }
}

/* Run a step that must succeed. */
static void single_step(struct single *self, uint64_t step, bool last)
{
    for (int i = 0; i < 2; i++) {
        self->job->stages[i].last = last;
        canary_begin(&self->job->stages[i], step);
    }
    tryst_status status = last ? tryst_engine_step_last(self->engine, step, NULL)
                               : tryst_engine_step(self->engine, step, NULL);
    if (status != TRYST_OK) {
        fail_msg("%s", tryst_last_error());
    }
    for (int i = 0; i < 2; i++) {
        canary_end(&self->job->stages[i]);
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

static void single_close(struct single *self)
{
    for (int i = 0; i < 2; i++) {
        if (self->job->stages[i].errors_count > 0) {
            fail_msg("%s", self->job->stages[i].error);
        }
    }
    assert_int_equal(job_close(self->job), 0);
    free(self->job);
}

/* What would break a loop is refused, and the loop goes on. */
static void test_refused(void **state)
{
    tryst_program *program = both_here();
    struct single self;
    single_open(&self, program);
    assert_int_equal(tryst_engine_finish(self.engine), TRYST_OK); /* nothing has begun */
    single_step(&self, 7, false);
    expect_refused(tryst_engine_step(self.engine, 9, NULL),
                   "cannot run step 9 behind step 7, which has begun step 8");
    expect_refused(tryst_engine_step_last(self.engine, 7, NULL), "cannot run step 7");
    single_step(&self, 8, false);
    expect_refused(tryst_engine_finish(self.engine),
                   "cannot finish the steps: step 8 was not the last, and has begun the "
                   "next one; end steps that follow one another by "
                   "tryst_engine_step_last");
    single_step(&self, 9, true);
    assert_int_equal(tryst_engine_finish(self.engine), TRYST_OK);
    expect_refused(tryst_engine_step(self.engine, 10, NULL),
                   "cannot run step 10: step 9 was the last");
    tryst_engine_close(self.engine);
    single_close(&self);
    tryst_program_close(program);
}

/* Closing an engine inside a loop aborts its scopes with a sentence. */
static void test_closed_early(void **state)
{
    tryst_program *program = both_here();
    struct single self;
    single_open(&self, program);
    single_step(&self, 0, false);
    tryst_engine_close(self.engine);
    assert_non_null(
        strstr(tryst_last_error(), "cannot close the engine: step 0 was not the last"));
    for (uint64_t step = 0; step < 4; step++) {
        assert_true(fake_aborted(self.job->world, 0, step));
    }
    single_close(&self);

    single_open(&self, program); /* an engine that has not begun is closed in peace */
    tryst_engine_close(self.engine);
    assert_false(fake_aborted(self.job->world, 0, 0));
    single_close(&self);
    tryst_program_close(program);
}

/* A flat program has a last step, too. */
static void test_flat_last(void **state)
{
    static const struct job_listed list[] = {F(0, 0, 0, 0), F(0, 1, 0, 0), B(0, 1, 0, 0),
                                             B(0, 0, 0, 0), U(0, 0, 1),    U(0, 1, 1)};
    tryst_program *program = job_program(1, 2, 1, list, sizeof list / sizeof *list);
    struct single self;
    single_open(&self, program);
    single_step(&self, 0, false);
    single_step(&self, 5, true);
    expect_refused(tryst_engine_step(self.engine, 6, NULL),
                   "cannot run step 6: step 5 was the last");
    tryst_engine_close(self.engine);
    assert_int_equal(self.job->stages[0].newest, 2);
    single_close(&self);
    tryst_program_close(program);
}

/* Programs that the engine cannot run as loops are refused at open. */
static void test_open_refuses(void **state)
{
    tryst_program *program = NULL;
    assert_int_equal(tryst_program_open(1, 1, 1, &program), TRYST_OK);
    const tryst_action ahead = {.kind = TRYST_ACTION_FORWARD, .microbatch = 1};
    assert_int_equal(tryst_program_mark(program, 0, TRYST_PROGRAM_BODY), TRYST_OK);
    assert_int_equal(tryst_program_append(program, 0, &ahead), TRYST_OK);
    assert_int_equal(tryst_program_mark(program, 0, TRYST_PROGRAM_EPILOGUE), TRYST_OK);
    struct job *self = malloc(sizeof *self);
    job_init(self, program, 0);
    job_run(self);
    assert_int_equal(self->ranks[0].status, TRYST_E_PROGRAM);
    assert_non_null(strstr(self->ranks[0].error,
                           "0F1: the last stage cannot take a micro-batch of the next"));
    assert_int_equal(job_close(self), 0);
    free(self);
    tryst_program_close(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loops),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_memory_is_flat),
        cmocka_unit_test(test_receives_ahead),
        cmocka_unit_test(test_dead_rank),
        cmocka_unit_test(test_aborted),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_closed_early),
        cmocka_unit_test(test_flat_last),
        cmocka_unit_test(test_open_refuses),
        /* on the device from here on */
        JOB_ON_DEVICE(test_loops),
        JOB_ON_DEVICE(test_versions),
        JOB_ON_DEVICE(test_memory_is_flat),
        JOB_ON_DEVICE(test_dead_rank),
        JOB_ON_DEVICE(test_aborted),
    };
    job_seed_set();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
