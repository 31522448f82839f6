/* SPDX-License-Identifier: Apache-2.0 */
/* The engine over a fake of the library (fake_tryst.h): ranks are threads, transfers come
 * late and out of order by a seed (TRYST_TEST_SEED replays one), stages are canaries that
 * check every byte that they get. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <tryst/replay.h>

#include "device_canary.h"
#include "engine_job.h"
#include "fake_device.h"

/* ---- successful runs --------------------------------------------------------------- */

static void test_schedules(void **state)
{
    static const int rows[][2] = {{1, 1}, {1, 5}, {2, 1}, {2, 2}, {2, 7},
                                  {3, 2}, {3, 8}, {4, 3}, {4, 4}, {5, 6}};
    int runs_count = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int s = 0; tryst_program_schedule(s); s++) {
            char name[64];
            snprintf(name, sizeof name, "%s p=%d m=%d", tryst_program_schedule(s)->name,
                     rows[i][0], rows[i][1]);
            tryst_program *program =
                job_generate_if(tryst_program_schedule(s)->name, rows[i][0], rows[i][1]);
            /* a canary has no parts: pipeline_engine_reduce has replicas */
            if (!program || tryst_program_replicas(program, 0, NULL, 0) > 1) {
                tryst_program_close(program);
                continue;
            }
            job_run_well(program, 0, name);
            job_run_well(program, 300000, name);
            tryst_program_close(program);
            runs_count++;
        }
    }
    /* naive, gpipe and 1f1b are defined for all counts */
    assert_true(runs_count >= 3 * (int)(sizeof rows / sizeof *rows));
}

/* Shapes of other schedules: several stages on a rank (round-robin, and as a V where the
 * middle pair is on one rank), split backwards, and weight versions inside a program. */
static void test_other_shapes(void **state)
{
    static const struct job_listed round[] = {
        F(0, 0, 0, 0), F(0, 0, 1, 0), F(0, 2, 0, 0), F(0, 2, 1, 0), B(0, 2, 0, 0),
        B(0, 2, 1, 0), B(0, 0, 0, 0), B(0, 0, 1, 0), U(0, 0, 1),    U(0, 2, 1),
        F(1, 1, 0, 0), F(1, 1, 1, 0), F(1, 3, 0, 0), B(1, 3, 0, 0), F(1, 3, 1, 0),
        B(1, 3, 1, 0), B(1, 1, 0, 0), B(1, 1, 1, 0), U(1, 1, 1),    U(1, 3, 1)};
    static const struct job_listed vee[] = {
        F(0, 0, 0, 0), F(0, 0, 1, 0), F(0, 3, 0, 0), I(0, 3, 0, 0), F(0, 3, 1, 0),
        I(0, 3, 1, 0), W(0, 3, 0, 0), I(0, 0, 0, 0), W(0, 3, 1, 0), W(0, 0, 0, 0),
        B(0, 0, 1, 0), U(0, 0, 1),    U(0, 3, 1),    F(1, 1, 0, 0), F(1, 2, 0, 0),
        F(1, 1, 1, 0), F(1, 2, 1, 0), I(1, 2, 0, 0), I(1, 1, 0, 0), I(1, 2, 1, 0),
        W(1, 2, 0, 0), I(1, 1, 1, 0), W(1, 1, 0, 0), W(1, 1, 1, 0), W(1, 2, 1, 0),
        U(1, 1, 1),    U(1, 2, 1)};
    static const struct job_listed pipedream[] = {
        F(0, 0, 0, 0), F(0, 0, 1, 0), B(0, 0, 0, 0), U(0, 0, 1),    F(0, 0, 2, 1),
        B(0, 0, 1, 0), U(0, 0, 2),    B(0, 0, 2, 1), U(0, 0, 3),    F(1, 1, 0, 0),
        B(1, 1, 0, 0), U(1, 1, 1),    F(1, 1, 1, 1), B(1, 1, 1, 1), U(1, 1, 2),
        F(1, 1, 2, 2), B(1, 1, 2, 2), U(1, 1, 3)};
    static const struct {
        const char *name;
        int stages, microbatches;
        const struct job_listed *list;
        size_t count;
    } rows[] = {{"round", 4, 2, round, sizeof round / sizeof *round},
                {"vee", 4, 2, vee, sizeof vee / sizeof *vee},
                {"pipedream", 2, 3, pipedream, sizeof pipedream / sizeof *pipedream}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tryst_program *program = job_program(2, rows[i].stages, rows[i].microbatches,
                                             rows[i].list, rows[i].count);
        job_run_well(program, 0, rows[i].name);
        job_run_well(program, 500000, rows[i].name);
        tryst_program_close(program);
    }
}

/* Buffers are allocated in a few chunks of each kind until there are enough, and then no
 * more. */
static void test_buffers_stop_growing(void **state)
{
    tryst_program *program = job_generate("gpipe", 3, 8);
    struct job *self = malloc(sizeof *self);
    job_init(self, program, 100000);
    self->steps_count = 60;
    job_run(self);
    for (int rank = 0; rank < 3; rank++) {
        /* input, target, saved, transferred: 4 + 4 + 8 buffers of each kind exceed the
         * need of M = 8 (8 live, 4 ahead), so there are at most three chunks of four
         * kinds */
        assert_true(self->ranks[rank].stats.buffer_allocations <= 12);
        assert_true(self->ranks[rank].stats.peak_activation_bytes >= 8 * 1000);
        assert_int_equal(self->ranks[rank].stats.steps_count, 60);
        assert_int_equal(self->ranks[rank].stats.action_counts[TRYST_ACTION_FORWARD],
                         60 * 8);
        assert_true(self->ranks[rank].spans_count >= 17);
    }
    job_expect_success(self, "gpipe");
    free(self);
    tryst_program_close(program);
}

/* Check that the figures of a rank's stages add up to the rank's. */
static void check_sums(const struct rank_job *self, int stages)
{
    for (int kind = 0; kind < TRYST_ACTION_KINDS; kind++) {
        uint64_t counts = 0, wall_ns = 0, cpu_ns = 0;
        for (int stage = 0; stage < stages; stage++) {
            counts += self->costs[stage].counts[kind];
            wall_ns += self->costs[stage].wall_ns[kind];
            cpu_ns += self->costs[stage].cpu_ns[kind];
        }
        assert_true(counts == self->stats.action_counts[kind]);
        assert_true(wall_ns == self->stats.action_wall_ns[kind]);
        assert_true(cpu_ns == self->stats.action_cpu_ns[kind]);
    }
}

/* Two stages on a rank, one with slow actions: each has figures of its own. */
static void test_costs_of_stages(void **state)
{
    static const struct job_listed list[] = {
        F(0, 0, 0, 0), F(0, 2, 0, 0), I(0, 2, 0, 0), W(0, 2, 0, 0), B(0, 0, 0, 0),
        F(0, 0, 1, 0), F(0, 2, 1, 0), I(0, 2, 1, 0), W(0, 2, 1, 0), B(0, 0, 1, 0),
        U(0, 0, 1),    U(0, 2, 1),    F(1, 1, 0, 0), B(1, 1, 0, 0), F(1, 1, 1, 0),
        B(1, 1, 1, 0), U(1, 1, 1)};
    tryst_program *program = job_program(2, 3, 2, list, sizeof list / sizeof *list);
    struct job *self = malloc(sizeof *self);
    job_init(self, program, 0);
    self->stages[2].delay_max_ns = 20000000;
    job_run(self);
    for (int rank = 0; rank < 2; rank++) {
        check_sums(&self->ranks[rank], 3);
    }
    const tryst_engine_cost *costs = self->ranks[0].costs;
    assert_true(costs[0].counts[TRYST_ACTION_BACKWARD] == JOB_STEPS * 2);
    assert_true(costs[0].counts[TRYST_ACTION_INPUT_GRAD] == 0);
    assert_true(costs[2].counts[TRYST_ACTION_BACKWARD] == 0);
    assert_true(costs[2].counts[TRYST_ACTION_INPUT_GRAD] == JOB_STEPS * 2);
    assert_true(costs[2].counts[TRYST_ACTION_UPDATE] == JOB_STEPS);
    assert_true(costs[2].wall_ns[TRYST_ACTION_FORWARD] >
                costs[0].wall_ns[TRYST_ACTION_FORWARD]);
    assert_true(costs[1].counts[TRYST_ACTION_FORWARD] == 0); /* of another rank */
    assert_true(self->ranks[1].costs[1].counts[TRYST_ACTION_FORWARD] == JOB_STEPS * 2);
    job_expect_success(self, "costs of stages");
    free(self);
    tryst_program_close(program);
}

/* ---- failures ---------------------------------------------------------------------- */

/* A rank dies between two steps: every other rank ends with an error that names it, and
 * no object is left. */
static void test_dead_rank(void **state)
{
    for (int dying = 0; dying < 4; dying++) {
        tryst_program *program = job_generate("1f1b", 4, 6);
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

/* The caller of a rank stops between two steps: every other rank ends with that reason,
 * and so does the rank's own engine. It aborts its own open steps, and the two after
 * them, which other ranks may have opened. */
static void test_aborted(void **state)
{
    for (int quitting = 0; quitting < 4; quitting++) {
        tryst_program *program = job_generate("1f1b", 4, 6);
        struct job *self = malloc(sizeof *self);
        job_init(self, program, 100000);
        self->steps_count = 10;
        self->quitting_rank = quitting;
        job_run(self);
        for (int rank = 0; rank < 4; rank++) {
            assert_int_equal(self->ranks[rank].status,
                             rank == quitting ? TRYST_E_INVALID : TRYST_E_ABORTED);
            assert_true(self->ranks[rank].last_error_set || rank == quitting);
            if (!strstr(self->ranks[rank].error, "the disk is full")) {
                fail_msg("rank %d: the error does not contain the reason: %s", rank,
                         self->ranks[rank].error);
            }
        }
        for (uint64_t step = 0; step < 4; step++) {
            assert_true(fake_aborted(self->world, quitting, step));
        }
        assert_int_equal(job_close(self), 0);
        free(self);
        tryst_program_close(program);
    }
}

/* A rank that never starts is given up after the engine's time limit; the error names
 * it. */
static void test_silence_ends(void **state)
{
    tryst_program *program = job_generate("1f1b", 2, 2);
    struct job *self = malloc(sizeof *self);
    job_init(self, program, 0);
    self->absent_rank = 1;
    self->timeout_ns = 100000000;
    job_run(self);
    assert_int_equal(self->ranks[0].status, TRYST_E_DEADLINE);
    assert_non_null(
        strstr(self->ranks[0].error,
               "rank 0, agreeing with rank 1 on how items move: nothing for 0 s"));
    assert_int_equal(job_close(self), 0);
    free(self);
    tryst_program_close(program);
}

static void test_open_refuses(void **state)
{
    tryst_program *program = job_generate("1f1b", 2, 2);
    struct fake_world *world = fake_world_open(3, 1, 0);
    struct fake_world *fitting = fake_world_open(2, 1, 0);
    struct canary own;
    tryst_engine *engine = NULL;
    tryst_stage *stages[2] = {NULL, NULL};
    tryst_engine_params params = {.struct_size = sizeof params,
                                  .ctx = fake_ctx(world, 0),
                                  .group = fake_group(world, 0),
                                  .program = program,
                                  .stages = stages,
                                  .feed = canary_feed};
    assert_int_equal(tryst_engine_open(&params, &engine), TRYST_E_INVALID);
    assert_non_null(
        strstr(tryst_last_error(), "the program is for 2 ranks, but the group has 3"));
    params.ctx = fake_ctx(fitting, 0);
    params.group = fake_group(fitting, 0);
    assert_int_equal(tryst_engine_open(&params, &engine), TRYST_E_INVALID);
    assert_non_null(strstr(tryst_last_error(), "rank 0 runs 0F0, but has no stage 0"));
    canary_init(&own, program, 1, 37);
    stages[0] = &own.base;
    assert_int_equal(tryst_engine_open(&params, &engine), TRYST_E_INVALID);
    assert_non_null(strstr(tryst_last_error(), "not the first one"));
    canary_init(&own, program, 0, 37);
    params.feed = NULL;
    assert_int_equal(tryst_engine_open(&params, &engine), TRYST_E_INVALID);
    assert_non_null(strstr(tryst_last_error(), "params.feed is NULL"));
    assert_null(engine);
    assert_int_equal(fake_world_close(world), 0);
    assert_int_equal(fake_world_close(fitting), 0);
    tryst_program_close(program);
}

/* Run GPipe on one rank, whose device has `has` bytes, of which the engine may use `may`
 * (0: all). */
static void run_in_memory(uint64_t has, uint64_t may, const char *says)
{
    tryst_program *program = job_generate("gpipe", 1, 5);
    struct job *self = malloc(sizeof *self);
    job_init(self, program, 0);
    self->memory_bytes_max = may;
    fake_memory(self->world, has);
    job_run(self);
    if (!says) {
        job_expect_success(self, "little memory");
    } else {
        assert_int_equal(self->ranks[0].status, TRYST_E_NOMEM);
        if (!strstr(self->ranks[0].error, says)) {
            fail_msg("\"%s\" does not contain \"%s\"", self->ranks[0].error, says);
        }
        assert_int_equal(job_close(self), 0);
    }
    free(self);
    tryst_program_close(program);
}

/* Five micro-batches in flight: each saves 1024 bytes and has two buffers of 64. Chunks
 * of four double while there is room; then only what fits is allocated, and in the end
 * the error reports the size that was needed. */
static void test_little_memory(void **state)
{
    enum { FIVE = 4 * (2 * 64 + 1024) + 4 * 2 * 64 + 1024 };
    run_in_memory(FIVE, 0, NULL);
    run_in_memory(UINT64_MAX, FIVE, NULL);
    run_in_memory(
        FIVE - 1, 0,
        "step 0, rank 0: no memory on device 0 for what a forward saves, 0.98 KiB: "
        "buffers there take 5.00 KiB already, with 4 micro-batches in flight; fewer");
    run_in_memory(UINT64_MAX, FIVE - 1, "take 5.00 KiB of at most 6.00 KiB already");
    run_in_memory(1000, 0, "buffers there take 0.25 KiB already, with 0 micro-batches");
}

/* While the device has not begun the first action, the inputs of all forwards that the
 * host can queue, and of the next one, are copied to the device: no copy waits for an
 * earlier action. */
static atomic_bool begins;

static bool device_begins(void *arg)
{
    (void)arg;
    return atomic_load(&begins);
}

static void test_data_come_ahead(void **state)
{
    enum {
        COPIES = 6
    }; /* 1F1B on one rank: an input and a target for each of F0, F1, F2 */
    const struct timespec pause = {.tv_nsec = 1000000};
    tryst_program *program = job_generate("1f1b", 1, 4);
    struct job *self = malloc(sizeof *self);
    job_init(self, program, 0);
    self->steps_count = 1;
    atomic_store(&begins, false);
    fake_device_until(self->stages[0].stream, device_begins, NULL);
    self->ranks[0] = (struct rank_job){.owner = self};
    assert_int_equal(
        pthread_create(&self->ranks[0].thread, NULL, job_rank_main, &self->ranks[0]), 0);
    for (int i = 0; i < 10000 && fake_device_copied() < COPIES; i++) {
        nanosleep(&pause, NULL);
    }
    int copied = fake_device_copied();
    atomic_store(&begins, true);
    assert_int_equal(pthread_join(self->ranks[0].thread, NULL), 0);
    assert_int_equal(copied, COPIES);
    job_expect_success(self, "data ahead");
    free(self);
    tryst_program_close(program);
}

/* Replay a program with its stages on a device. */
static void test_replay(void **state)
{
    tryst_program *program = job_generate("1f1b", 3, 4);
    double losses[1];
    struct job *self = malloc(sizeof *self);
    job_init(self, program, 100000);
    tryst_stage *stages[3];
    for (int i = 0; i < 3; i++) {
        stages[i] = &self->stages[i].base;
    }
    for (uint64_t step = 0; step < 3; step++) {
        for (int i = 0; i < 3; i++) {
            if (job_on_device) {
                device_canary_finish(&self->stages[i]);
            }
            canary_begin(&self->stages[i], step);
        }
        const tryst_replay_params params = {.struct_size = sizeof params,
                                            .program = program,
                                            .stages = stages,
                                            .ctx = fake_ctx(self->world, 0),
                                            .feed = canary_feed,
                                            .first_step = step,
                                            .steps_count = 1,
                                            .losses = losses};
        if (tryst_replay(&params) != TRYST_OK) {
            fail_msg("%s", tryst_last_error());
        }
        assert_true(fabs(losses[0] - (1.5 + (double)step)) < 1e-9);
    }
    job_expect_success(self, "replay");
    free(self);
    tryst_program_close(program);
}

/* All stages of a rank must be in one place. */
static void test_one_place(void **state)
{
    static const struct job_listed list[] = {F(0, 0, 0, 0), F(0, 1, 0, 0), B(0, 1, 0, 0),
                                             B(0, 0, 0, 0), U(0, 0, 1),    U(0, 1, 1)};
    tryst_program *program = job_program(1, 2, 1, list, sizeof list / sizeof *list);
    struct job *self = malloc(sizeof *self);
    job_init(self, program, 0);
    self->stages[1].base.info.device = 1;
    job_run(self);
    assert_int_equal(self->ranks[0].status, TRYST_E_INVALID);
    assert_non_null(strstr(self->ranks[0].error, "stage 1 is not in the memory"));
    assert_int_equal(job_close(self), 0);
    free(self);
    tryst_program_close(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_other_shapes),
        cmocka_unit_test(test_buffers_stop_growing),
        cmocka_unit_test(test_costs_of_stages),
        cmocka_unit_test(test_dead_rank),
        cmocka_unit_test(test_aborted),
        cmocka_unit_test(test_silence_ends),
        cmocka_unit_test(test_open_refuses),
        cmocka_unit_test(test_replay),
        /* on the device from here on */
        JOB_ON_DEVICE(test_schedules),
        JOB_ON_DEVICE(test_other_shapes),
        JOB_ON_DEVICE(test_buffers_stop_growing),
        JOB_ON_DEVICE(test_costs_of_stages),
        JOB_ON_DEVICE(test_dead_rank),
        JOB_ON_DEVICE(test_aborted),
        JOB_ON_DEVICE(test_silence_ends),
        JOB_ON_DEVICE(test_data_come_ahead),
        JOB_ON_DEVICE(test_little_memory),
        JOB_ON_DEVICE(test_replay),
        JOB_ON_DEVICE(test_one_place),
    };
    job_seed_set();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
