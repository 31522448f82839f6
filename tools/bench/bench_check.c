/* SPDX-License-Identifier: Apache-2.0 */
/* Implements --check: replays the run in this process (tryst_replay). Every loss and
 * every weight must have the same bits as in the run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/replay.h>
#include <tryst/weights.h>
#include <unistd.h>

#include "bench_check.h"
#include "bench_progress.h"

/* The replay: all stages of the model, opened a second time in this process. */
struct second_run {
    const struct bench_options *options;
    const tryst_data *data;
    tryst_ctx *ctx;
    int32_t ordinal;
    tryst_group *group;
    int ranks_count;
    int stages_count;
    tryst_stage **stages; /* [ranks × stages]: one for each replica of a stage */
    double *losses;
    float *weights;
};

static tryst_status feed(void *arg, uint64_t step, int32_t microbatch, void *input,
                         uint8_t *target)
{
    const struct second_run *self = arg;
    return tryst_data_windows(self->data, step, (uint64_t)microbatch,
                              self->options->model.microbatch_size, input, target);
}

/* Find the order in which the run has added the gradients of `stage`. */
static tryst_status order(void *arg, int32_t stage, const tryst_coll_params *sum,
                          uint32_t tree, tryst_coll_order *order_p, int32_t *parents)
{
    const struct second_run *self = arg;
    int32_t *ranks = calloc((size_t)self->ranks_count, sizeof *ranks);
    if (!ranks) {
        return TRYST_E_NOMEM;
    }
    int count =
        tryst_program_replicas(self->options->program, stage, ranks, self->ranks_count);
    const tryst_subgroup_params members = {
        .struct_size = sizeof members, .count = (uint32_t)count, .members = ranks};
    tryst_status status =
        tryst_coll_order_get(self->group, sum, &members, tree, order_p, parents);
    free(ranks);
    return status;
}

/* Return the stage of a rank. */
static tryst_stage **stage_at(const struct second_run *self, int rank, int stage)
{
    return &self->stages[(size_t)rank * (size_t)self->stages_count + (size_t)stage];
}

/* Return the first replica of a stage. */
static tryst_stage *stage_first(const struct second_run *self, int stage)
{
    return *stage_at(self, tryst_program_rank_of(self->options->program, stage), stage);
}

static tryst_status open_stage(struct second_run *self, int rank, int stage)
{
    tryst_layers layers;
    tryst_stage_need need = {.struct_size = sizeof need};
    tryst_status status =
        tryst_model_split(&self->options->model, self->stages_count, stage, &layers);
    if (status == TRYST_OK) {
        status = tryst_program_stage_need(self->options->program, stage, &need);
    }
    if (status != TRYST_OK) {
        return status;
    }
    const tryst_stage_params params =
        bench_stage_params(self->options, self->ordinal, &need);
    return tryst_stage_open(&self->options->model, layers, &params,
                            stage_at(self, rank, stage));
}

static tryst_status open_all(struct second_run *self, uint64_t weights_count)
{
    self->stages = calloc((size_t)self->ranks_count * (size_t)self->stages_count,
                          sizeof(tryst_stage *));
    self->losses = calloc((size_t)self->options->steps, sizeof *self->losses);
    self->weights = calloc(weights_count + 1, sizeof *self->weights);
    if (!self->stages || !self->losses || !self->weights) {
        return tryst_last_error_set(TRYST_E_NOMEM, "cannot replay: out of memory");
    }
    tryst_status status = TRYST_OK;
    for (int rank = 0; rank < self->ranks_count && status == TRYST_OK; rank++) {
        for (int i = 0; i < self->stages_count && status == TRYST_OK; i++) {
            if (bench_rank_has(self->options->program, rank, i)) {
                status = open_stage(self, rank, i);
            }
        }
    }
    return status;
}

static void close_all(struct second_run *self)
{
    int count = self->ranks_count * self->stages_count;
    for (int i = 0; self->stages && i < count; i++) {
        tryst_stage_close(self->stages[i]);
    }
    free(self->stages);
    free(self->losses);
    free(self->weights);
}

static void progress_print(void *arg, uint64_t steps_done)
{
    const struct second_run *self = arg;
    uint64_t steps = (uint64_t)self->options->steps;
    if (steps_done % (steps / 20 + 1) == 0) {
        FILE *human = bench_human(self->options);
        fprintf(human, "\rchecking: replayed %llu of %llu steps\033[K",
                (unsigned long long)steps_done, (unsigned long long)steps);
        fflush(human);
    }
}

/* Replay `steps_count` steps of a program. */
static tryst_status replay_program(struct second_run *self, const tryst_program *program,
                                   uint64_t first_step, uint64_t steps_count,
                                   bool terminal)
{
    const tryst_replay_params params = {.struct_size = sizeof params,
                                        .program = program,
                                        .replicas = self->stages,
                                        .order = order,
                                        .order_arg = self,
                                        .ctx = self->ctx,
                                        .feed = self->data ? feed : NULL,
                                        .feed_arg = self,
                                        .first_step = first_step,
                                        .steps_count = steps_count,
                                        .losses = self->losses + first_step,
                                        .progress = terminal ? progress_print : NULL,
                                        .progress_arg = self};
    return tryst_replay(&params);
}

/* Replay all steps, with about twenty lines of progress on a terminal. */
static tryst_status replay(struct second_run *self)
{
    const struct bench_options *options = self->options;
    uint64_t sync = (uint64_t)options->sync_steps;
    FILE *human = bench_human(options);
    bool terminal = isatty(fileno(human));
    tryst_status status =
        sync > 0 ? replay_program(self, options->first_program, 0, sync, terminal)
                 : TRYST_OK;
    if (status == TRYST_OK) {
        status = replay_program(self, options->program, sync,
                                (uint64_t)options->steps - sync, terminal);
    }
    if (terminal) {
        fputs("\r\033[K", human);
    }
    return status;
}

static tryst_status copy_weights(struct second_run *self)
{
    float *next = self->weights;
    for (int i = 0; i < self->stages_count; i++) {
        tryst_stage *stage = stage_first(self, i);
        tryst_status status = tryst_stage_weights_copy(stage, next);
        if (status != TRYST_OK) {
            return status;
        }
        next += stage->info.weights_count;
    }
    return TRYST_OK;
}

/* Compare the weights of all replicas of each stage with those of the first. */
static bool replicas_equal(const struct second_run *self,
                           const struct bench_result *result, char *words,
                           size_t capacity)
{
    uint64_t at = 0;
    for (int stage = 0; stage < self->stages_count; stage++) {
        uint64_t count = stage_first(self, stage)->info.weights_count;
        int replicas = tryst_program_replicas(self->options->program, stage, NULL, 0);
        for (int i = 1; i < replicas; i++) {
            if (memcmp(result->weights + at, result->copies[i - 1] + at,
                       count * sizeof *result->weights) != 0) {
                snprintf(words, capacity,
                         "replicas 0 and %d of stage %d have different weights", i,
                         stage);
                return false;
            }
        }
        at += count;
    }
    return true;
}

/* Compare the run with the replay and print the result as a sentence. */
static tryst_status compare(const struct second_run *self, struct bench_result *result)
{
    char words[512];
    const tryst_replay_result ran = {
        .struct_size = sizeof ran, .losses = result->losses, .weights = result->weights};
    const tryst_replay_result replayed = {
        .struct_size = sizeof replayed, .losses = self->losses, .weights = self->weights};
    result->checked =
        tryst_replay_equal(&self->options->model, 1, (uint64_t)self->options->steps, &ran,
                           &replayed, words, sizeof words) &&
        replicas_equal(self, result, words, sizeof words);
    if (!result->checked) {
        fprintf(stderr, "%s: check failed: %s\n", bench_name(), words);
        return TRYST_E_MISMATCH;
    }
    fprintf(bench_human(self->options), "check: %s\n", words);
    return TRYST_OK;
}

tryst_status bench_check(const struct bench_run *run, struct bench_result *result)
{
    struct second_run self = {.options = run->options,
                              .data = run->data,
                              .ctx = run->ctx,
                              .ordinal = run->ordinal,
                              .group = run->group,
                              .ranks_count = run->size,
                              .stages_count =
                                  tryst_program_stages(run->options->program)};
    tryst_status status = open_all(&self, result->weights_count);
    if (status == TRYST_OK) {
        status = replay(&self);
    }
    if (status == TRYST_OK) {
        status = copy_weights(&self);
    }
    if (status != TRYST_OK) {
        fprintf(stderr, "%s: the replay failed: %s\n", bench_name(), tryst_last_error());
    } else {
        status = compare(&self, result);
    }
    close_all(&self);
    return status;
}
