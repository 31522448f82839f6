/* SPDX-License-Identifier: Apache-2.0 */
/* Implements engine_job.h. */
#include "engine_job.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "device_canary.h"
#include "fake_device.h"
#include "loops.h"

uint64_t job_seed = 1;
bool job_on_device;

void job_seed_set(void)
{
    const char *given = getenv("TRYST_TEST_SEED");
    job_seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    printf("seed %llu (TRYST_TEST_SEED replays it)\n", (unsigned long long)job_seed);
}

int job_use_device(void **state)
{
    (void)state;
    job_on_device = true;
    return 0;
}

enum edge { BEGIN, BEGIN_LAST, END, FINISH };

static void stage_edge(struct canary *stage, uint64_t step, enum edge edge)
{
    if (edge == FINISH) {
        if (job_on_device) {
            device_canary_finish(stage);
        }
    } else if (edge == END) {
        (job_on_device ? device_canary_end : canary_end)(stage);
    } else if (job_on_device) {
        device_canary_begin(stage, step, edge == BEGIN_LAST);
    } else {
        stage->last = edge == BEGIN_LAST;
        canary_begin(stage, step);
    }
}

/* Begin or end a step of all canaries of a rank. */
static void each_stage(const struct rank_job *self, uint64_t step, enum edge edge)
{
    struct job *owner = self->owner;
    for (int stage = 0; stage < tryst_program_stages(owner->program); stage++) {
        if (tryst_program_rank_of(owner->program, stage) == self->rank) {
            stage_edge(&owner->stages[stage], step, edge);
        }
    }
}

/* True if a stage of the rank has work left on the device. */
static bool is_busy(const struct rank_job *self)
{
    bool busy = false;
    for (int i = 0; job_on_device && i < tryst_program_stages(self->owner->program);
         i++) {
        busy = busy || (tryst_program_rank_of(self->owner->program, i) == self->rank &&
                        !fake_device_idle(self->owner->stages[i].stream));
    }
    return busy;
}

static tryst_status run_steps(struct rank_job *self, tryst_engine *engine)
{
    struct job *owner = self->owner;
    bool follow = owner->steps_follow || program_loops(owner->program);
    tryst_status status = TRYST_OK;
    for (uint64_t i = 0; i < owner->steps_count && status == TRYST_OK; i++) {
        uint64_t step = owner->first_step + i;
        bool last = follow && i + 1 == owner->steps_count;
        if (self->rank == owner->dying_rank && step == 2) {
            fake_kill(owner->world, self->rank);
            return TRYST_OK;
        }
        if (self->rank == owner->quitting_rank && step == 2) {
            tryst_engine_abort(engine, TRYST_E_INVALID, "the disk is full");
            return TRYST_E_INVALID;
        }
        each_stage(self, step, last ? BEGIN_LAST : BEGIN);
        status = last ? tryst_engine_step_last(engine, step, &self->loss)
                      : tryst_engine_step(engine, step, &self->loss);
        double mean =
            (tryst_program_microbatches(owner->program) - 1) / 2.0 + (double)step;
        self->losses_wrong +=
            status == TRYST_OK && !isnan(self->loss) && fabs(self->loss - mean) > 1e-9;
        self->busy_ends |= i < 64 && is_busy(self) ? UINT64_C(1) << i : 0;
        if (status == TRYST_OK) {
            each_stage(self, step, END);
        }
        if (i == 0) {
            self->posted_first = fake_posted(owner->world, self->rank);
        }
    }
    const tryst_span *spans = tryst_engine_spans(engine, &self->spans_count);
    for (size_t i = 0; i < self->spans_count; i++) {
        self->span_kinds |= 1u << spans[i].kind;
    }
    status = status == TRYST_OK ? tryst_engine_finish(engine) : status;
    if (status == TRYST_OK) {
        each_stage(self, 0, FINISH);
    }
    return status;
}

void *job_rank_main(void *arg)
{
    struct rank_job *self = arg;
    struct job *owner = self->owner;
    tryst_stage *stages[JOB_STAGES_MAX] = {0};
    for (int stage = 0; stage < tryst_program_stages(owner->program); stage++) {
        if (tryst_program_rank_of(owner->program, stage) == self->rank) {
            stages[stage] = &owner->stages[stage].base;
        }
    }
    const tryst_engine_params params = {.struct_size = sizeof params,
                                        .ctx = fake_ctx(owner->world, self->rank),
                                        .group = fake_group(owner->world, self->rank),
                                        .program = owner->program,
                                        .stages = stages,
                                        .feed = canary_feed,
                                        .steps_follow = owner->steps_follow,
                                        .timeout_ns = owner->timeout_ns,
                                        .memory_bytes_max = owner->memory_bytes_max};
    tryst_engine *engine = NULL;
    self->status = tryst_engine_open(&params, &engine);
    if (self->status != TRYST_OK) {
        snprintf(self->error, sizeof self->error, "%s", tryst_last_error());
    } else {
        self->status = run_steps(self, engine);
        snprintf(self->error, sizeof self->error, "%s", tryst_engine_error(engine));
        self->last_error_set = strcmp(tryst_last_error(), self->error) == 0;
        self->stats.struct_size = sizeof self->stats;
        assert_int_equal(tryst_engine_stats_get(engine, &self->stats), TRYST_OK);
        for (int stage = 0; stage < tryst_program_stages(owner->program); stage++) {
            self->costs[stage].struct_size = sizeof self->costs[stage];
            (void)tryst_engine_cost_get(engine, stage, &self->costs[stage]);
        }
        tryst_engine_close(engine);
    }
    return NULL;
}

void job_init(struct job *self, const tryst_program *program, uint64_t delay_max_ns)
{
    *self = (struct job){.program = program,
                         .steps_count = JOB_STEPS,
                         .timeout_ns = 20ull * 1000000000,
                         .absent_rank = -1,
                         .dying_rank = -1,
                         .quitting_rank = -1};
    self->world = fake_world_open(tryst_program_ranks(program), job_seed, delay_max_ns);
    for (int stage = 0; stage < tryst_program_stages(program); stage++) {
        canary_init(&self->stages[stage], program, stage, 37);
        self->stages[stage].delay_max_ns = delay_max_ns / 4;
        self->stages[stage].random += job_seed;
    }
    if (job_on_device) {
        fake_device_begin(job_seed, delay_max_ns / 4);
    }
    for (int stage = 0; job_on_device && stage < tryst_program_stages(program); stage++) {
        device_canary_init(&self->stages[stage]);
    }
}

int job_close(struct job *self)
{
    for (int i = 0; job_on_device && i < tryst_program_stages(self->program); i++) {
        device_canary_close(&self->stages[i]);
    }
    return fake_world_close(self->world) + (job_on_device ? fake_device_left() : 0);
}

void job_run(struct job *self)
{
    int count = tryst_program_ranks(self->program);
    for (int rank = 0; rank < count; rank++) {
        self->ranks[rank] = (struct rank_job){.owner = self, .rank = rank};
        if (rank != self->absent_rank) {
            assert_int_equal(pthread_create(&self->ranks[rank].thread, NULL,
                                            job_rank_main, &self->ranks[rank]),
                             0);
        }
    }
    for (int rank = 0; rank < count; rank++) {
        if (rank != self->absent_rank) {
            assert_int_equal(pthread_join(self->ranks[rank].thread, NULL), 0);
        }
    }
}

void job_expect_success(struct job *self, const char *name)
{
    for (int rank = 0; rank < tryst_program_ranks(self->program); rank++) {
        if (self->ranks[rank].status != TRYST_OK) {
            fail_msg("%s, rank %d: %s (seed %llu)", name, rank, self->ranks[rank].error,
                     (unsigned long long)job_seed);
        }
        assert_int_equal(self->ranks[rank].losses_wrong, 0);
    }
    for (int stage = 0; stage < tryst_program_stages(self->program); stage++) {
        if (self->stages[stage].errors_count > 0) {
            fail_msg("%s: %s (seed %llu)", name, self->stages[stage].error,
                     (unsigned long long)job_seed);
        }
    }
    assert_int_equal(fake_unordered(self->world), 0);
    assert_int_equal(job_close(self), 0);
}

void job_expect_death(struct job *self)
{
    char name[32];
    snprintf(name, sizeof name, "rank %d died", self->dying_rank);
    for (int rank = 0; rank < tryst_program_ranks(self->program); rank++) {
        if (rank == self->dying_rank) {
            continue;
        }
        assert_true(self->ranks[rank].status == TRYST_E_PEER ||
                    self->ranks[rank].status == TRYST_E_ABORTED);
        if (!strstr(self->ranks[rank].error, name)) {
            fail_msg("rank %d: the error does not contain \"%s\": %s", rank, name,
                     self->ranks[rank].error);
        }
    }
    assert_int_equal(job_close(self), 0);
}

void job_run_well(const tryst_program *program, uint64_t delay_max_ns, const char *name)
{
    job_run_steps(program, JOB_STEPS, delay_max_ns, name);
}

void job_run_steps(const tryst_program *program, uint64_t steps_count,
                   uint64_t delay_max_ns, const char *name)
{
    if (tryst_program_check(program, NULL, NULL) != TRYST_OK) {
        fail_msg("%s: %s", name, tryst_last_error());
    }
    struct job *self = malloc(sizeof *self);
    job_init(self, program, delay_max_ns);
    self->steps_count = steps_count;
    job_run(self);
    int last_rank = tryst_program_rank_of(program, tryst_program_stages(program) - 1);
    double mean =
        (tryst_program_microbatches(program) - 1) / 2.0 + (double)steps_count - 1;
    assert_true(fabs(self->ranks[last_rank].loss - mean) < 1e-9);
    for (int rank = 0; rank < tryst_program_ranks(program); rank++) {
        assert_true(rank == last_rank || isnan(self->ranks[rank].loss));
    }
    job_expect_success(self, name);
    free(self);
}

/* ---- programs ---------------------------------------------------------------------- */

tryst_program *job_generate_if(const char *schedule, int ranks, int microbatches)
{
    const tryst_schedule_params params = {.struct_size = sizeof params,
                                          .ranks_count = ranks,
                                          .microbatches_count = microbatches};
    tryst_program *program = NULL;
    tryst_status status = tryst_program_generate(schedule, &params, &program);
    if (status != TRYST_OK && status != TRYST_E_PROGRAM) {
        fail_msg("%s", tryst_last_error());
    }
    return program;
}

tryst_program *job_generate(const char *schedule, int ranks, int microbatches)
{
    tryst_program *program = job_generate_if(schedule, ranks, microbatches);
    assert_non_null(program);
    return program;
}

tryst_program *job_program(int ranks, int stages, int microbatches,
                           const struct job_listed *list, size_t count)
{
    tryst_program *program = NULL;
    assert_int_equal(tryst_program_open(ranks, stages, microbatches, &program), TRYST_OK);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(tryst_program_append(program, list[i].rank, &list[i].action),
                         TRYST_OK);
    }
    return program;
}
