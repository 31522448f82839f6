/* SPDX-License-Identifier: Apache-2.0 */
/* The check of pp_bench --check, without processes: the engine trains real stages on
 * threads over the fake libtryst (delayed and reordered by TRYST_TEST_SEED), and the
 * replay must agree bit by bit. With a fault in a stage the replay must disagree and name
 * the step. */
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

#include <tryst/data.h>
#include <tryst/replay.h>
#include <tryst/weights.h>

#include "fake_tryst.h"
#include "loops.h"
#include "support/faulty_stage.h"

enum { STEPS = 4, FAULT_STEP = 1, RANKS_MAX = 4 };

static const tryst_model model = {.struct_size = sizeof(model),
                                  .kind = TRYST_MODEL_GPT,
                                  .layers = 5,
                                  .hidden = 16,
                                  .heads = 2,
                                  .seq = 12,
                                  .microbatch_size = 2};

static uint64_t seed = 1;
static char data_path[600];

static int setup(void **state)
{
    const char *tmp = getenv("TMPDIR"), *text = getenv("TRYST_TEST_SEED");
    seed = text ? strtoull(text, NULL, 0) : seed;
    print_message("TRYST_TEST_SEED=%llu\n", (unsigned long long)seed);
    snprintf(data_path, sizeof(data_path), "%s/tryst_check_XXXXXX", tmp ? tmp : "/tmp");
    int fd = mkstemp(data_path);
    uint64_t random = seed;
    for (int i = 0; fd >= 0 && i < 3000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        dprintf(fd, "%c", 'a' + (int)(random >> 61));
    }
    return fd < 0 ? 1 : close(fd);
}

static int teardown(void **state)
{
    return unlink(data_path);
}

/* ---- one run ----------------------------------------------------------------------- */

struct run {
    const tryst_program *program;
    struct fake_world *world;
    tryst_data *data;
    tryst_stage *stages[RANKS_MAX]; /* one per rank */
    int each; /* micro-batches of a step where one run has all steps; 0: as the program */
    double losses[STEPS];
    float *weights;
};

struct run_rank {
    struct run *owner;
    int rank;
    pthread_t thread;
    tryst_status status;
    char error[256];
};

static tryst_status feed(void *arg, uint64_t step, int32_t microbatch, void *input,
                         uint8_t *target)
{
    struct run *r = arg;
    if (r->each > 0) {
        step += (uint64_t)(microbatch / r->each);
        microbatch %= r->each;
    }
    return tryst_data_windows(r->data, step, (uint64_t)microbatch, model.microbatch_size,
                              input, target);
}

static void *rank_main(void *arg)
{
    struct run_rank *self = arg;
    struct run *owner = self->owner;
    int last = tryst_program_ranks(owner->program) - 1;
    tryst_stage *mine[RANKS_MAX] = {0};
    mine[self->rank] = owner->stages[self->rank];
    const tryst_engine_params params = {.struct_size = sizeof(params),
                                        .ctx = fake_ctx(owner->world, self->rank),
                                        .group = fake_group(owner->world, self->rank),
                                        .program = owner->program,
                                        .stages = mine,
                                        .feed = feed,
                                        .feed_arg = owner,
                                        .timeout_ns = 20ull * 1000000000};
    tryst_engine *engine = NULL;
    self->status = tryst_engine_open(&params, &engine);
    for (uint64_t step = 0; step < STEPS && self->status == TRYST_OK; step++) {
        double loss;
        bool ends = step + 1 == STEPS && program_loops(owner->program);
        self->status = ends ? tryst_engine_step_last(engine, step, &loss)
                            : tryst_engine_step(engine, step, &loss);
        if (self->rank == last) {
            owner->losses[step] = loss;
        }
    }
    self->status = self->status == TRYST_OK ? tryst_engine_finish(engine) : self->status;
    if (self->status != TRYST_OK) {
        snprintf(self->error, sizeof(self->error), "%s", tryst_last_error());
    }
    tryst_engine_close(engine);
    return NULL;
}

/* Keep at least two versions, because a stale read needs one more than the schedule
 * does. */
static void run_open(struct run *r, const tryst_program *program)
{
    int stages = tryst_program_stages(program);
    tryst_stage_params params = {.struct_size = sizeof(params)};
    *r = (struct run){.program = program};
    assert_int_equal(tryst_data_open(data_path, model.seq, seed, &r->data), TRYST_OK);
    for (int s = 0; s < stages; s++) {
        tryst_layers layers;
        tryst_stage_need need = {.struct_size = sizeof need};
        assert_int_equal(tryst_program_stage_need(program, s, &need), TRYST_OK);
        params.versions_count = need.versions_count > 2 ? need.versions_count : 2;
        assert_int_equal(tryst_model_split(&model, stages, s, &layers), TRYST_OK);
        assert_int_equal(tryst_stage_open(&model, layers, &params, &r->stages[s]),
                         TRYST_OK);
    }
}

static void run_gather(struct run *r)
{
    float *next = r->weights = calloc(tryst_model_weights_count(&model), sizeof(float));
    assert_non_null(r->weights);
    for (int s = 0; s < tryst_program_stages(r->program); s++) {
        assert_int_equal(tryst_stage_weights_copy(r->stages[s], next), TRYST_OK);
        next += r->stages[s]->info.weights_count;
    }
}

static void run_close(struct run *r)
{
    free(r->weights);
    for (int s = 0; s < tryst_program_stages(r->program); s++) {
        tryst_stage_close(r->stages[s]);
    }
    tryst_data_close(r->data);
}

static void run_engine(struct run *r, uint64_t delay_max_ns)
{
    int count = tryst_program_ranks(r->program);
    struct run_rank ranks[RANKS_MAX];
    r->world = fake_world_open(count, seed, delay_max_ns);
    for (int rank = 0; rank < count; rank++) {
        ranks[rank] = (struct run_rank){.owner = r, .rank = rank};
        assert_int_equal(
            pthread_create(&ranks[rank].thread, NULL, rank_main, &ranks[rank]), 0);
    }
    for (int rank = 0; rank < count; rank++) {
        assert_int_equal(pthread_join(ranks[rank].thread, NULL), 0);
    }
    for (int rank = 0; rank < count; rank++) {
        if (ranks[rank].status != TRYST_OK) {
            fail_msg("rank %d: %s", rank, ranks[rank].error);
        }
    }
    assert_int_equal(fake_world_close(r->world), 0);
    run_gather(r);
}

static void run_replayed(struct run *r, uint64_t steps_count)
{
    const tryst_replay_params params = {.struct_size = sizeof(params),
                                        .program = r->program,
                                        .stages = r->stages,
                                        .feed = feed,
                                        .feed_arg = r,
                                        .steps_count = steps_count,
                                        .losses = r->losses};
    if (tryst_replay(&params) != TRYST_OK) {
        fail_msg("%s", tryst_last_error());
    }
    run_gather(r);
}

/* Train by engine and by replay. `digest` (may be NULL) gets the digest of the engine's
 * weights. */
static bool check(const tryst_program *program, enum stage_fault fault, char *text,
                  size_t capacity, char *digest)
{
    struct run trained, replayed;
    run_open(&trained, program);
    run_open(&replayed, program);
    if (fault != STAGE_FAULT_NONE) {
        int last = tryst_program_stages(program) - 1;
        int stage = fault == STAGE_FAULT_STALE ? last : fault == STAGE_FAULT_SWAP ? 1 : 0;
        faulty_stage_arm(trained.stages[stage], fault, FAULT_STEP, 0);
    }
    run_engine(&trained, 100000);
    run_replayed(&replayed, STEPS);
    const tryst_replay_result a = {sizeof a, trained.losses, trained.weights};
    const tryst_replay_result b = {sizeof b, replayed.losses, replayed.weights};
    bool equal = tryst_replay_equal(&model, 0, STEPS, &a, &b, text, capacity);
    if (digest) {
        tryst_weights_digest(trained.weights, tryst_model_weights_count(&model), digest);
    }
    run_close(&replayed);
    run_close(&trained);
    return equal;
}

/* ---- tests ------------------------------------------------------------------------- */

static tryst_program *generate(const char *schedule, int ranks, int microbatches)
{
    const tryst_schedule_params params = {.struct_size = sizeof params,
                                          .ranks_count = ranks,
                                          .microbatches_count = microbatches};
    tryst_program *program = NULL;
    assert_int_equal(tryst_program_generate(schedule, &params, &program), TRYST_OK);
    return program;
}

/* The schedules that add the gradients in the order of the micro-batches. */
static const char *const schedules[] = {"naive", "gpipe", "1f1b"};
enum { SCHEDULES = 3 };

/* For each number of micro-batches the digest is the same, whatever the schedule and the
 * ranks. */
static void test_equal(void **state)
{
    static const int microbatches[] = {2, 3, 6};
    for (int i = 0; i < 3; i++) {
        char expected[TRYST_DIGEST_TEXT_BYTES] = "", text[256];
        for (int s = 0; s < SCHEDULES; s++) {
            for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
                const char *schedule = schedules[s];
                char digest[TRYST_DIGEST_TEXT_BYTES];
                tryst_program *program = generate(schedule, ranks, microbatches[i]);
                if (!check(program, STAGE_FAULT_NONE, text, sizeof(text), digest)) {
                    fail_msg("%s, %d ranks, %d micro-batches: %s", schedule, ranks,
                             microbatches[i], text);
                }
                if (!expected[0]) {
                    memcpy(expected, digest, sizeof(digest));
                }
                assert_string_equal(digest, expected);
                tryst_program_close(program);
            }
        }
    }
}

/* Replay all steps of a loop as one step of a flat program; its weights must be those of
 * `replayed`. */
static void check_unrolled(const struct run *replayed, const char *name)
{
    tryst_program *flat = NULL;
    struct run all;
    assert_int_equal(tryst_program_unroll(replayed->program, STEPS, &flat), TRYST_OK);
    run_open(&all, flat);
    all.each = tryst_program_microbatches(replayed->program);
    run_replayed(&all, 1);
    uint64_t bytes = tryst_model_weights_count(&model) * sizeof(float);
    if (memcmp(all.weights, replayed->weights, bytes) != 0) {
        fail_msg("%s: the flat program's weights are others", name);
    }
    run_close(&all);
    tryst_program_close(flat);
}

/* A loop in the engine, in the replay, and unrolled. */
static void check_loop(const tryst_program *program, const char *name)
{
    char text[256];
    struct run trained, replayed;
    run_open(&trained, program);
    run_open(&replayed, program);
    run_engine(&trained, 100000);
    run_replayed(&replayed, STEPS);
    const tryst_replay_result a = {sizeof a, trained.losses, trained.weights};
    const tryst_replay_result b = {sizeof b, replayed.losses, replayed.weights};
    if (!tryst_replay_equal(&model, 0, STEPS, &a, &b, text, sizeof text)) {
        fail_msg("%s: %s", name, text);
    }
    check_unrolled(&replayed, name);
    run_close(&replayed);
    run_close(&trained);
}

static void test_loops(void **state)
{
    for (int ranks = 2; ranks <= RANKS_MAX; ranks++) {
        for (int m = 3; m <= 4; m++) {
            tryst_program *pipedream = loop_pipedream(ranks, m);
            tryst_program *twice = loop_2bw(ranks, m);
            check_loop(pipedream, "pipedream");
            check_loop(twice, "2bw");
            twice = program_recomputed(twice, 1);
            check_loop(twice, "2bw, forwards twice");
            tryst_program_close(twice);
            twice = program_recomputed_body(loop_pipedream(ranks, m));
            check_loop(twice, "pipedream, an R in the body alone");
            tryst_program_close(twice);
            tryst_program_close(pipedream);
        }
    }
}

/* Swapped activations and stale weights are detected in the same step, a dropped gradient
 * one step later. */
static void test_faults(void **state)
{
    static const struct {
        enum stage_fault fault;
        const char *words;
    } faults[] = {{STAGE_FAULT_SWAP, "step 1 is the first with another loss"},
                  {STAGE_FAULT_STALE, "step 1 is the first with another loss"},
                  {STAGE_FAULT_DROP, "step 2 is the first with another loss"}};
    for (int s = 0; s < SCHEDULES; s++) {
        for (int i = 0; i < 3; i++) {
            char text[256];
            tryst_program *program = generate(schedules[s], 3, 4);
            assert_false(check(program, faults[i].fault, text, sizeof(text), NULL));
            if (!strstr(text, faults[i].words)) {
                fail_msg("%s, fault %d: %s", schedules[s], (int)faults[i].fault, text);
            }
            tryst_program_close(program);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_loops),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
