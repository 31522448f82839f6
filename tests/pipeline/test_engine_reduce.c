/* SPDX-License-Identifier: Apache-2.0 */
/* The engine with replicated stages, over a fake of the library (fake_tryst.h): ranks are
 * threads, stages are probes that check which parts are summed and updated at every call.
 * Sums are held back, so an engine that waits for more than it needs does not end. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <tryst/pipeline.h>

#include "fake_tryst.h"

enum { PARTS = 4, COUNT = 5, STEPS = 5, RANKS_MAX = 8, EACH = 2, VALUES = 3 };

struct job;

/* A stage on one rank. Gradients of micro-batch m are m + 1, so every sum is known. */
struct probe {
    tryst_stage base;
    struct job *owner;
    int rank;
    float gradients[PARTS][COUNT];
    double weights[PARTS]; /* sum of all updates */
    uint64_t newest;
    uint64_t versions[PARTS];
    int32_t divisor; /* of the newest update */
    int reports;     /* in the step */
    char error[160];
};

struct job {
    struct fake_world *world;
    tryst_program *program;
    struct probe probes[RANKS_MAX];
    pthread_t threads[RANKS_MAX];
    tryst_status status[RANKS_MAX];
    char error[RANKS_MAX][1024];
    bool at_end; /* params.reduce_at_end */
    bool holds;  /* sums of the last part are held until a forward needs them */
    int killed;  /* rank that leaves before step 2; -1: none */
};

#define EXPECT(self, condition)                                                   \
    do {                                                                          \
        if (!(condition) && !*(self)->error) {                                    \
            snprintf((self)->error, sizeof(self)->error, "line %d: %s", __LINE__, \
                     #condition);                                                 \
        }                                                                         \
    } while (0)

static int microbatches_of(const struct job *owner)
{
    return tryst_program_microbatches(owner->program);
}

static void sum_name(const struct probe *self, int part, char name[32])
{
    snprintf(name, 32, "sum%d.%d", (int)self->base.info.layers.first, part);
}

/* ---- the probe --------------------------------------------------------------------- */

static tryst_status probe_forward(tryst_stage *base, const tryst_stage_work *work)
{
    struct probe *self = (struct probe *)base;
    EXPECT(self, work->version == self->newest);
    for (int i = 0; i < PARTS; i++) {
        if (i == PARTS - 1 && self->owner->holds) {
            fake_hold(self->owner->world, NULL); /* only now is the last part needed */
        }
        if (work->part_needed) {
            tryst_status status = work->part_needed(work->part_arg, i);
            if (status != TRYST_OK) {
                return status;
            }
        }
        EXPECT(self, self->versions[i] == self->newest);
    }
    if (base->info.is_last) {
        *(double *)work->output = *(const float *)work->input;
    } else {
        memcpy(work->output, work->input, VALUES * sizeof(float));
    }
    return TRYST_OK;
}

/* The input of every stage is the number of the micro-batch plus one. */
static float value_of(const tryst_stage_work *work)
{
    return *(const float *)work->input;
}

static tryst_status probe_backward(tryst_stage *base, const tryst_stage_work *work)
{
    struct probe *self = (struct probe *)base;
    if (work->part_added && self->owner->holds) {
        char name[32];
        sum_name(self, PARTS - 1, name);
        fake_hold(self->owner->world, name);
    }
    for (int i = PARTS - 1; i >= 0; i--) {
        EXPECT(self, self->versions[i] == self->newest);
        for (int k = 0; k < COUNT; k++) {
            self->gradients[i][k] += value_of(work);
        }
        if (work->part_added) {
            char name[32];
            tryst_status status = work->part_added(work->part_arg, i);
            sum_name(self, i, name);
            EXPECT(self, status == TRYST_OK);
            EXPECT(self, fake_under_way(self->owner->world, self->rank, name) ||
                             !self->owner->holds || i < PARTS - 1);
            self->reports++;
        }
    }
    if (work->grad_input) {
        memset(work->grad_input, 0, VALUES * sizeof(float));
    }
    return TRYST_OK;
}

static tryst_status probe_update_begin(tryst_stage *base,
                                       const tryst_stage_update *params)
{
    struct probe *self = (struct probe *)base;
    self->newest++;
    self->divisor = params->microbatches;
    EXPECT(self, params->microbatches == microbatches_of(self->owner));
    EXPECT(self, self->reports == (self->owner->at_end ? 0 : PARTS));
    self->reports = 0;
    return TRYST_OK;
}

static tryst_status probe_update_part(tryst_stage *base, int32_t part)
{
    struct probe *self = (struct probe *)base;
    int count = microbatches_of(self->owner);
    EXPECT(self, self->versions[part] + 1 == self->newest);
    for (int k = 0; k < COUNT; k++) {
        EXPECT(self, self->gradients[part][k] == (float)(count * (count + 1) / 2));
        self->gradients[part][k] = 0;
    }
    self->weights[part] += 1;
    self->versions[part]++;
    return TRYST_OK;
}

static tryst_status probe_update(tryst_stage *base, const tryst_stage_update *params)
{
    (void)params;
    EXPECT((struct probe *)base, !"update of the whole stage");
    return TRYST_OK;
}

static int32_t probe_parts_count(const tryst_stage *base)
{
    (void)base;
    return PARTS;
}

static tryst_status probe_part(const tryst_stage *base, int32_t part,
                               tryst_stage_part *part_p)
{
    *part_p = (tryst_stage_part){.struct_size = sizeof *part_p,
                                 .layer = part,
                                 .dtype = TRYST_DTYPE_F32,
                                 .count = COUNT,
                                 .gradient =
                                     ((struct probe *)(uintptr_t)base)->gradients[part]};
    return TRYST_OK;
}

static void probe_versions(const tryst_stage *base, uint64_t *oldest_p,
                           uint64_t *newest_p)
{
    *oldest_p = *newest_p = ((const struct probe *)base)->newest;
}

static const tryst_stage_ops probe_ops = {.struct_size = sizeof probe_ops,
                                          .name = "probe",
                                          .forward = probe_forward,
                                          .backward = probe_backward,
                                          .update = probe_update,
                                          .versions = probe_versions,
                                          .parts_count = probe_parts_count,
                                          .part = probe_part,
                                          .update_begin = probe_update_begin,
                                          .update_part = probe_update_part};

static void probe_init(struct probe *self, struct job *owner, int rank, int stage)
{
    bool is_last = stage + 1 == tryst_program_stages(owner->program);
    *self = (struct probe){.owner = owner, .rank = rank};
    self->base.ops = &probe_ops;
    self->base.info =
        (tryst_stage_info){.struct_size = sizeof self->base.info,
                           .layers = {stage, stage + 1},
                           .is_first = stage == 0,
                           .is_last = is_last,
                           .input_dtype = TRYST_DTYPE_F32,
                           .output_dtype = is_last ? TRYST_DTYPE_F64 : TRYST_DTYPE_F32,
                           .input_count = VALUES,
                           .output_count = is_last ? 1 : VALUES,
                           .versions_count = 1};
}

/* ---- ranks ------------------------------------------------------------------------- */

static tryst_status feed(void *arg, uint64_t step, int32_t microbatch, void *input,
                         uint8_t *target)
{
    (void)arg;
    (void)step;
    (void)target;
    for (int i = 0; i < VALUES; i++) {
        ((float *)input)[i] = (float)(microbatch + 1);
    }
    return TRYST_OK;
}

static int stage_of(const struct job *self, int rank)
{
    return rank % tryst_program_stages(self->program);
}

static tryst_status run_steps(struct probe *probe, tryst_engine *engine)
{
    struct job *owner = probe->owner;
    tryst_status status = TRYST_OK;
    for (uint64_t step = 0; step < STEPS && status == TRYST_OK; step++) {
        if (probe->rank == owner->killed && step == 2) {
            fake_kill(owner->world, probe->rank);
            return TRYST_OK;
        }
        status = tryst_engine_step(engine, step, NULL);
        for (int i = 0; i < PARTS && status == TRYST_OK && owner->at_end; i++) {
            EXPECT(probe, probe->versions[i] == step + 1);
        }
    }
    if (owner->holds) { /* the last sums are needed by the end alone */
        fake_hold(owner->world, NULL);
    }
    return status == TRYST_OK ? tryst_engine_finish(engine) : status;
}

static void *rank_main(void *arg)
{
    struct probe *probe = arg;
    struct job *owner = probe->owner;
    int rank = probe->rank;
    tryst_stage *stages[RANKS_MAX] = {0};
    tryst_engine *engine = NULL;
    stages[stage_of(owner, rank)] = &probe->base;
    const tryst_engine_params params = {.struct_size = sizeof params,
                                        .ctx = fake_ctx(owner->world, rank),
                                        .group = fake_group(owner->world, rank),
                                        .program = owner->program,
                                        .stages = stages,
                                        .feed = feed,
                                        .reduce_at_end = owner->at_end,
                                        .timeout_ns = 20ull * 1000000000};
    owner->status[rank] = tryst_engine_open(&params, &engine);
    if (owner->status[rank] == TRYST_OK) {
        owner->status[rank] = run_steps(probe, engine);
        snprintf(owner->error[rank], sizeof owner->error[rank], "%s",
                 tryst_engine_error(engine));
        tryst_engine_close(engine);
    } else {
        snprintf(owner->error[rank], sizeof owner->error[rank], "%s", tryst_last_error());
    }
    return NULL;
}

static void job_open(struct job *self, const char *schedule, int stages, int replicas,
                     uint64_t seed)
{
    tryst_program *one = NULL;
    *self = (struct job){.killed = -1};
    const tryst_schedule_params params = {
        .struct_size = sizeof params, .ranks_count = stages, .microbatches_count = EACH};
    assert_int_equal(tryst_program_generate(schedule, &params, &one), TRYST_OK);
    assert_int_equal(tryst_program_replicate(one, replicas, &self->program), TRYST_OK);
    assert_int_equal(tryst_program_check(self->program, NULL, NULL), TRYST_OK);
    tryst_program_close(one);
    self->world = fake_world_open(stages * replicas, seed, 300000);
    for (int rank = 0; rank < stages * replicas; rank++) {
        probe_init(&self->probes[rank], self, rank, stage_of(self, rank));
    }
}

static void job_run(struct job *self)
{
    int count = tryst_program_ranks(self->program);
    for (int rank = 0; rank < count; rank++) {
        assert_int_equal(
            pthread_create(&self->threads[rank], NULL, rank_main, &self->probes[rank]),
            0);
    }
    for (int rank = 0; rank < count; rank++) {
        assert_int_equal(pthread_join(self->threads[rank], NULL), 0);
    }
}

static void job_close(struct job *self, const char *name)
{
    for (int rank = 0; rank < tryst_program_ranks(self->program); rank++) {
        const struct probe *probe = &self->probes[rank];
        if (self->status[rank] != TRYST_OK || *probe->error) {
            fail_msg("%s, rank %d: %s %s", name, rank, probe->error, self->error[rank]);
        }
        for (int i = 0; i < PARTS; i++) {
            assert_true(probe->weights[i] == STEPS);
        }
    }
    assert_int_equal(fake_unordered(self->world), 0);
    assert_int_equal(fake_world_close(self->world), 0);
    tryst_program_close(self->program);
}

/* ---- tests ------------------------------------------------------------------------- */

/* Every part is updated once a step with the sum over all micro-batches, before it is
 * read, for random delays. */
static void test_sums(void **state)
{
    static const char *const schedules[] = {"naive", "gpipe", "1f1b"};
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct job job;
        int replicas = 2 + (int)seed % 3, stages = 1 + (int)seed % 2;
        job_open(&job, schedules[seed % 3], stages, replicas, seed);
        job.at_end = seed % 4 == 0;
        job_run(&job);
        job_close(&job, schedules[seed % 3]);
    }
}

/* The sum of the last part starts within the last backward, and does not end before the
 * next step's forward has read all other parts. */
static void test_waits_for_one(void **state)
{
    struct job job;
    job_open(&job, "1f1b", 1, 2, 7);
    job.holds = true;
    job_run(&job);
    job_close(&job, "held");
}

/* A replica dies: the others end, and the sentence names the sum and the rank. */
static void test_death(void **state)
{
    struct job job;
    job_open(&job, "gpipe", 1, 3, 3);
    job.killed = 1;
    job_run(&job);
    for (int rank = 0; rank < 3; rank += 2) {
        assert_int_not_equal(job.status[rank], TRYST_OK);
        if (!strstr(job.error[rank], "rank 1 died")) {
            fail_msg("rank %d: %s", rank, job.error[rank]);
        }
        assert_string_equal(job.probes[rank].error, "");
    }
    assert_non_null(strstr(strstr(job.error[0], "summing") ? job.error[0] : job.error[2],
                           "summing the gradient of layer"));
    fake_world_close(job.world);
    tryst_program_close(job.program);
}

static void test_refuses(void **state)
{
    static const struct {
        tryst_memory_kind memory;
        bool old_table, no_parts;
        const char *says;
    } rows[] = {
        {TRYST_MEMORY_HOST, true, false, "stage 0 is replicated, but its table"},
        {TRYST_MEMORY_HOST, false, true, "stage 0 is replicated, but its table"},
        {TRYST_MEMORY_CUDA, false, false, "0REDUCE_GRAD sums gradients in host memory"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct job job;
        tryst_stage_ops ops = probe_ops;
        job_open(&job, "gpipe", 1, 2, 1);
        if (rows[i].old_table) {
            ops.struct_size = offsetof(tryst_stage_ops, parts_count);
        }
        if (rows[i].no_parts) {
            ops.parts_count = NULL;
        }
        for (int rank = 0; rank < 2; rank++) {
            job.probes[rank].base.ops = &ops;
            job.probes[rank].base.info.memory = rows[i].memory;
        }
        job_run(&job);
        for (int rank = 0; rank < 2; rank++) {
            assert_int_equal(job.status[rank], TRYST_E_UNSUPPORTED);
            if (!strstr(job.error[rank], rows[i].says)) {
                fail_msg("\"%s\" is not in: %s", rows[i].says, job.error[rank]);
            }
        }
        assert_int_equal(fake_world_close(job.world), 0);
        tryst_program_close(job.program);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_waits_for_one),
        cmocka_unit_test(test_death),
        cmocka_unit_test(test_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
