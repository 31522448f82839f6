/* SPDX-License-Identifier: Apache-2.0 */
/* Each allocation of programs, checker, simulator and engine fails in turn: every call
 * then returns TRYST_E_NOMEM, sets no output and leaks no memory (AddressSanitizer), and
 * a rank without memory for its engine aborts the others.
 *
 * The linker redirects the archive's allocations here (--wrap); they fail by a countdown
 * of the calling thread. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "canary.h"
#include "fake_tryst.h"
#include "loops.h"

/* More than the number of allocations of any call below. */
#define ALLOCATIONS_MAX 400

static _Thread_local int fail_after = -1; /* -1: never */

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *data, size_t bytes);
int __real_posix_memalign(void **data_p, size_t align, size_t bytes);
/* Visible, because the sanitizers' libraries refer to the wrapped functions. */
TRYST_API void *__wrap_malloc(size_t bytes);
TRYST_API void *__wrap_calloc(size_t count, size_t bytes);
TRYST_API void *__wrap_realloc(void *data, size_t bytes);
TRYST_API int __wrap_posix_memalign(void **data_p, size_t align, size_t bytes);

static bool fails_now(void)
{
    if (fail_after < 0) {
        return false;
    }
    return fail_after-- == 0;
}

void *__wrap_malloc(size_t bytes)
{
    return fails_now() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return fails_now() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *data, size_t bytes)
{
    return fails_now() ? NULL : __real_realloc(data, bytes);
}

int __wrap_posix_memalign(void **data_p, size_t align, size_t bytes)
{
    return fails_now() ? 12 : __real_posix_memalign(data_p, align, bytes);
}

/* Call `attempt` with the n-th allocation failing, n = 0, 1, …, until it succeeds; any
 * other failure than TRYST_E_NOMEM is an error. */
static void fail_each(tryst_status (*attempt)(void *arg), void *arg)
{
    for (int n = 0; n < ALLOCATIONS_MAX; n++) {
        fail_after = n;
        tryst_status status = attempt(arg);
        bool failed = fail_after == -1;
        fail_after = -1;
        if (status == TRYST_OK && !failed) {
            assert_true(n > 0);
            return;
        }
        assert_int_equal(status, TRYST_E_NOMEM);
    }
    fail_msg("still failing after %d allocations", ALLOCATIONS_MAX);
}

static tryst_status generate(const char *schedule, int ranks, int microbatches,
                             tryst_program **program_p)
{
    const tryst_schedule_params params = {.struct_size = sizeof params,
                                          .ranks_count = ranks,
                                          .microbatches_count = microbatches};
    return tryst_program_generate(schedule, &params, program_p);
}

static tryst_status attempt_generate(void *arg)
{
    tryst_program *program = NULL;
    tryst_status status = generate("1f1b", 3, 50, &program);
    assert_true((status == TRYST_OK) == (program != NULL));
    tryst_program_close(program);
    return status;
}

static tryst_status attempt_check(void *arg)
{
    return tryst_program_check(arg, NULL, NULL);
}

static tryst_status attempt_simulate(void *arg)
{
    const tryst_action_costs costs[3] = {
        {.forward_s = 1}, {.forward_s = 1}, {.forward_s = 1}};
    const tryst_sim_params params = {.struct_size = sizeof params, .costs = costs};
    tryst_sim *sim = NULL;
    tryst_status status = tryst_program_simulate(arg, &params, &sim);
    assert_true((status == TRYST_OK) == (sim != NULL));
    tryst_sim_free(sim);
    return status;
}

static tryst_status attempt_load(void *arg)
{
    tryst_program *program = NULL;
    tryst_status status = tryst_program_load_csv(arg, &program);
    assert_true((status == TRYST_OK) == (program != NULL));
    tryst_program_close(program);
    return status;
}

static tryst_status attempt_replicate(void *arg)
{
    tryst_program *program = NULL;
    tryst_status status = tryst_program_replicate(arg, 2, &program);
    assert_true((status == TRYST_OK) == (program != NULL));
    tryst_program_close(program);
    return status;
}

/* ---- a replicated stage: the engine prepares its sums when it opens ---------------- */

static float gradients[2][3];

static int32_t two_parts(const tryst_stage *stage)
{
    (void)stage;
    return 2;
}

static tryst_status part_of(const tryst_stage *stage, int32_t part,
                            tryst_stage_part *part_p)
{
    (void)stage;
    *part_p = (tryst_stage_part){.struct_size = sizeof *part_p,
                                 .dtype = TRYST_DTYPE_F32,
                                 .count = 3,
                                 .gradient = gradients[part]};
    return TRYST_OK;
}

static tryst_status no_update_begin(tryst_stage *stage, const tryst_stage_update *update)
{
    (void)stage;
    (void)update;
    return TRYST_OK;
}

static tryst_status no_update_part(tryst_stage *stage, int32_t number)
{
    (void)stage;
    (void)number;
    return TRYST_OK;
}

static tryst_status attempt_open_replicated(void *arg)
{
    const tryst_program *program = arg;
    struct fake_world *world = fake_world_open(tryst_program_ranks(program), 1, 0);
    struct canary stage;
    tryst_engine *engine = NULL;
    int countdown = fail_after;
    fail_after = -1;
    canary_init(&stage, program, 0, 37);
    fail_after = countdown;
    tryst_stage_ops ops = *stage.base.ops;
    ops.parts_count = two_parts;
    ops.part = part_of;
    ops.update_begin = no_update_begin;
    ops.update_part = no_update_part;
    stage.base.ops = &ops;
    tryst_stage *stages[3] = {&stage.base, NULL, NULL};
    const tryst_engine_params params = {.struct_size = sizeof params,
                                        .ctx = fake_ctx(world, 0),
                                        .group = fake_group(world, 0),
                                        .program = program,
                                        .stages = stages,
                                        .feed = canary_feed};
    tryst_status status = tryst_engine_open(&params, &engine);
    assert_true((status == TRYST_OK) == (engine != NULL));
    tryst_engine_close(engine);
    assert_int_equal(fake_world_close(world), 0);
    return status;
}

static void test_replicas(void **state)
{
    tryst_program *one = NULL, *program = NULL;
    assert_int_equal(generate("1f1b", 3, 20, &one), TRYST_OK);
    assert_int_equal(tryst_program_replicate(one, 2, &program), TRYST_OK);
    fail_each(attempt_replicate, one);
    fail_each(attempt_check, program);
    fail_each(attempt_simulate, program);
    fail_each(attempt_open_replicated, program);
    tryst_program_close(program);
    tryst_program_close(one);
}

static void test_programs(void **state)
{
    char path[256];
    const char *folder = getenv("TMPDIR");
    tryst_program *program = NULL;
    assert_int_equal(generate("1f1b", 3, 200, &program), TRYST_OK);
    fail_each(attempt_generate, NULL);
    fail_each(attempt_check, program);
    fail_each(attempt_simulate, program);
    snprintf(path, sizeof path, "%s/tryst-memory-XXXXXX", folder ? folder : "/tmp");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(tryst_program_save_csv(program, path), TRYST_OK);
    fail_each(attempt_load, path);
    unlink(path);
    tryst_program_close(program);
}

/* ---- engine: rank 0 runs out of memory, rank 1 gets the reason --------------------- */

struct half {
    struct fake_world *world;
    const tryst_program *program;
    int rank;
    tryst_status status;
    char error[1024];
};

static tryst_status run_half(struct half *self, int countdown)
{
    struct canary stage;
    tryst_stage *stages[2] = {NULL, NULL};
    tryst_engine *engine = NULL;
    canary_init(&stage, self->program, self->rank, 37);
    stages[self->rank] = &stage.base;
    const tryst_engine_params params = {.struct_size = sizeof params,
                                        .ctx = fake_ctx(self->world, self->rank),
                                        .group = fake_group(self->world, self->rank),
                                        .program = self->program,
                                        .stages = stages,
                                        .feed = canary_feed,
                                        .timeout_ns = 20ull * 1000000000};
    fail_after = countdown;
    self->status = tryst_engine_open(&params, &engine);
    for (uint64_t step = 0; step < 3 && self->status == TRYST_OK; step++) {
        stage.last = step == 2 && program_loops(self->program);
        canary_begin(&stage, step);
        self->status = stage.last ? tryst_engine_step_last(engine, step, NULL)
                                  : tryst_engine_step(engine, step, NULL);
    }
    if (self->status == TRYST_OK) {
        self->status = tryst_engine_finish(engine);
    }
    if (self->status != TRYST_OK) {
        snprintf(self->error, sizeof self->error, "%s", tryst_last_error());
    }
    tryst_engine_close(engine);
    return self->status;
}

static void *other_half(void *arg)
{
    run_half(arg, -1);
    return NULL;
}

/* Let each allocation of rank 0's engine fail in turn. */
static void engine_fails(tryst_program *program)
{
    bool opened = false;
    for (int n = 0; n < ALLOCATIONS_MAX; n++) {
        pthread_t thread;
        struct fake_world *world = fake_world_open(2, 1, 0);
        struct half here = {.world = world, .program = program, .rank = 0};
        struct half there = {.world = world, .program = program, .rank = 1};
        assert_int_equal(pthread_create(&thread, NULL, other_half, &there), 0);
        tryst_status status = run_half(&here, n);
        bool failed = fail_after == -1;
        fail_after = -1;
        if (strstr(here.error, "engine") && status != TRYST_OK) {
            fake_kill(world, 0); /* the engine never started; a real process would end */
        }
        opened = opened || strstr(here.error, "no memory on the host for ") != NULL;
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(fake_world_close(world), 0);
        if (!failed) {
            assert_int_equal(status, TRYST_OK);
            assert_int_equal(there.status, TRYST_OK);
            assert_true(opened);
            tryst_program_close(program);
            return;
        }
        assert_int_equal(status, TRYST_E_NOMEM);
        assert_true(there.status == TRYST_E_ABORTED || there.status == TRYST_E_PEER);
        if (there.status == TRYST_E_ABORTED) {
            assert_non_null(strstr(there.error, "no memory on the host for "));
        }
    }
    fail_msg("still failing after %d allocations", ALLOCATIONS_MAX);
}

static void test_engine(void **state)
{
    tryst_program *program = NULL;
    assert_int_equal(generate("gpipe", 2, 9, &program), TRYST_OK);
    engine_fails(program);
}

/* A loop, with forwards that run twice. */
static void test_loop(void **state)
{
    engine_fails(program_recomputed(loop_2bw(2, 5), 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_programs),
        cmocka_unit_test(test_replicas),
        cmocka_unit_test(test_engine),
        cmocka_unit_test(test_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
