/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one rank of pp_bench: opens everything, trains, gathers, reports, closes
 * everything.
 *
 * Steps are counted from 0 in the code and from 1 in printed text. The engine runs step k
 * in scope k + 1, so its messages count from 1, too. Scope 0 is pp_bench's own and stays
 * open: losses are sent to rank 0 in it during the training, and all other results after
 * the training. */
#include "bench_rank.h"
#include "bench_check.h"
#include "bench_gather.h"
#include "bench_place.h"
#include "bench_progress.h"
#include "bench_report.h"
#include "bench_spans.h"
#include "tools/job.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCOPE_ID       0
#define SCOPE_OF_STEP0 1
/* Limit of each wait for a loss: other ranks may not have ended the step yet. */
#define GATHER_TIMEOUT_NS (120ull * 1000 * 1000 * 1000)

static const char *memory_hint(const struct bench_run *run, tryst_status status)
{
    return status == TRYST_E_NOMEM && run->options->device.memory_bytes_max > 0
               ? " (--device-memory is the limit)"
               : "";
}

/* Print the engine's sentence, and abort scope 0 with the cause alone. */
static tryst_status engine_failed(struct bench_run *run, tryst_status status)
{
    fprintf(stderr, "%s: rank %d: %s%s\n", bench_name(), run->rank,
            tryst_engine_error(run->engine), memory_hint(run, status));
    if (run->scope) {
        tryst_step_abort(run->scope, status, tryst_engine_cause(run->engine));
    }
    return status;
}

tryst_status bench_fail(struct bench_run *run, tryst_status status, const char *format,
                        ...)
{
    char words[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    fprintf(stderr, "%s: rank %d: %s\n", bench_name(), run->rank, words);
    if (run->engine) {
        tryst_engine_abort(run->engine, status, words);
    }
    if (run->scope) {
        tryst_step_abort(run->scope, status, words);
    }
    return status;
}

/* The error of the scope, if there is one, explains more than the transfer's: a dead rank
 * aborts the scope on every rank. */
tryst_status bench_transfer_fail(struct bench_run *run, tryst_status status,
                                 const tryst_op *op, const char *what)
{
    tryst_error details = {.struct_size = sizeof details,
                           .text = tryst_status_str(status)};
    if (tryst_step_status(run->scope, &details) == TRYST_OK && op) {
        tryst_op_error(op, &details);
    }
    return bench_fail(run, status, "%s: %s", what, details.text);
}

/* ---- open and close ---------------------------------------------------------------- */

static tryst_status open_job(struct bench_run *run)
{
    const struct bench_options *options = run->options;
    const char *const settings[] = {
        "transport", options->transport, "trace", options->trace ? "1" : NULL,
        "profile",   options->profile,   NULL};
    const tryst_group_params params = {.struct_size = sizeof params,
                                       .allgather = run->place.allgather,
                                       .allgather_arg = run->place.allgather_arg,
                                       .rank = run->place.rank,
                                       .size = run->place.size};
    tryst_status status = job_open(settings, &params, &run->ctx, &run->group);
    if (status != TRYST_OK) {
        return bench_fail(run, status, "%s", tryst_last_error());
    }
    run->rank = tryst_group_rank(run->group);
    run->size = tryst_group_size(run->group);
    status = tryst_step_open(run->group, SCOPE_ID, &run->scope);
    return status == TRYST_OK
               ? status
               : bench_fail(run, status, "scope 0: %s", tryst_status_str(status));
}

/* The part of the mean change of the weights that is left after as many updates as a
 * gradient is late: D of PipeMare (Yang et al. 2021, section 3.2: about e^-2). */
#define DELTA_LEFT 0.135

/* Return the decay of the mean change for one update; 0: none is kept. */
static double delta_decay(const tryst_stage_need *need)
{
    return need->delta && need->delay > 0 ? pow(DELTA_LEFT, 1 / need->delay) : 0;
}

tryst_stage_params bench_stage_params(const struct bench_options *options,
                                      int32_t ordinal, const tryst_stage_need *need)
{
    const struct bench_device *device = &options->device;
    return (tryst_stage_params){.struct_size = sizeof(tryst_stage_params),
                                .versions_count = need->versions_count,
                                .slots_count = need->slots_count,
                                .delta_decay = delta_decay(need),
                                .optimizer = &options->optimizer,
                                .memory = device->memory,
                                .device = ordinal,
                                .reference = device->reference,
                                .precision = device->precision,
                                .recompute = device->recompute,
                                .memory_bytes_max = device->memory_bytes_max};
}

/* Subtract the memory of a stage from the limit for the next stage and the engine. */
static void note_memory(struct bench_run *run, tryst_layers layers,
                        const tryst_stage_params *params)
{
    tryst_stage_memory need = {.struct_size = sizeof need};
    if (run->memory_bytes_left > 0 &&
        tryst_stage_memory_need(&run->options->model, layers, params, &need) ==
            TRYST_OK) {
        run->memory_bytes_left = need.total_bytes < run->memory_bytes_left
                                     ? run->memory_bytes_left - need.total_bytes
                                     : 1;
    }
}

static tryst_status open_stage(struct bench_run *run, int stage)
{
    const struct bench_options *options = run->options;
    tryst_layers layers;
    tryst_stage_params params;
    tryst_stage_need need = {.struct_size = sizeof need};
    tryst_status status = tryst_model_split(
        &options->model, tryst_program_stages(options->program), stage, &layers);
    if (status == TRYST_OK) {
        status = tryst_program_stage_need(options->program, stage, &need);
    }
    if (status == TRYST_OK) {
        params = bench_stage_params(options, run->ordinal, &need);
        params.memory_bytes_max = run->memory_bytes_left;
        status = tryst_stage_open(&options->model, layers, &params, &run->stages[stage]);
    }
    if (status == TRYST_OK) {
        note_memory(run, layers, &params);
    }
    return status == TRYST_OK ? status
                              : bench_fail(run, status, "stage %d: %s%s", stage,
                                           tryst_last_error(), memory_hint(run, status));
}

bool bench_rank_has(const tryst_program *program, int rank, int stage)
{
    size_t count = 0;
    const tryst_action *actions = tryst_program_actions(program, rank, &count);
    for (size_t i = 0; i < count; i++) {
        if (actions[i].stage == stage) {
            return true;
        }
    }
    return false;
}

static tryst_status open_stages(struct bench_run *run)
{
    int stages = tryst_program_stages(run->options->program);
    run->memory_bytes_left = run->options->device.memory_bytes_max;
    run->stages = calloc((size_t)stages, sizeof *run->stages);
    if (!run->stages) {
        return bench_fail(run, TRYST_E_NOMEM, "cannot open %d stages: out of memory",
                          stages);
    }
    tryst_status status = TRYST_OK;
    for (int stage = 0; stage < stages && status == TRYST_OK; stage++) {
        if (bench_rank_has(run->options->program, run->rank, stage)) {
            status = open_stage(run, stage);
        }
    }
    return status;
}

static tryst_status open_data(struct bench_run *run)
{
    const struct bench_options *options = run->options;
    if (!options->data) {
        return TRYST_OK;
    }
    tryst_status status = tryst_data_open(options->data, options->model.seq,
                                          options->model.seed, &run->data);
    return status == TRYST_OK ? status
                              : bench_fail(run, status, "%s", tryst_last_error());
}

static tryst_status feed(void *arg, uint64_t scope, int32_t microbatch, void *input,
                         uint8_t *target)
{
    const struct bench_run *run = arg;
    return tryst_data_windows(run->data, scope - SCOPE_OF_STEP0, (uint64_t)microbatch,
                              run->options->model.microbatch_size, input, target);
}

/* Open the engine of step `step` and the following ones. */
static tryst_status open_engine_at(struct bench_run *run, uint64_t step)
{
    const struct bench_options *options = run->options;
    bool first = step < (uint64_t)options->sync_steps;
    const tryst_engine_params params = {.struct_size = sizeof params,
                                        .ctx = run->ctx,
                                        .group = run->group,
                                        .program = first ? options->first_program
                                                         : options->program,
                                        .stages = run->stages,
                                        .feed = run->data ? feed : NULL,
                                        .feed_arg = run,
                                        .reduce_at_end = options->no_overlap,
                                        .steps_follow = true,
                                        .memory_bytes_max = run->memory_bytes_left};
    tryst_status status = tryst_engine_open(&params, &run->engine);
    return status == TRYST_OK ? status
                              : bench_fail(run, status, "%s", tryst_last_error());
}

static tryst_status open_engine(struct bench_run *run)
{
    return open_engine_at(run, 0);
}

static tryst_status allocate(struct bench_run *run)
{
    const tryst_program *program = run->options->program;
    int last = tryst_program_stages(program) - 1;
    size_t steps = (size_t)run->options->steps;
    run->makers_count = tryst_program_replicas(program, last, NULL, 0);
    size_t terms = run->makers_count > 1
                       ? (size_t)run->makers_count * (size_t)run->options->microbatches
                       : 0;
    run->losses = calloc(steps, sizeof *run->losses);
    run->makers = calloc((size_t)run->makers_count, sizeof *run->makers);
    run->loss_ops = calloc(steps * (size_t)run->makers_count, sizeof(struct tryst_op *));
    run->terms = calloc(steps * terms + 1, sizeof *run->terms);
    run->seconds = calloc(steps, sizeof *run->seconds);
    if (run->makers) {
        tryst_program_replicas(program, last, run->makers, run->makers_count);
    }
    if (!run->losses || !run->makers || !run->loss_ops || !run->terms || !run->seconds) {
        return bench_fail(run, TRYST_E_NOMEM, "cannot train %zu steps: out of memory",
                          steps);
    }
    return TRYST_OK;
}

static void run_close(struct bench_run *run)
{
    tryst_engine_close(run->engine);
    if (run->scope) {
        tryst_step_close(run->scope, NULL);
    }
    size_t ops = (size_t)run->options->steps * (size_t)run->makers_count;
    for (size_t i = 0; run->loss_ops && i < ops; i++) {
        tryst_op_release(run->loss_ops[i]);
    }
    if (run->group) {
        tryst_group_close(run->group);
    }
    if (run->ctx) {
        tryst_close(run->ctx);
    }
    for (int i = 0; run->stages && i < tryst_program_stages(run->options->program); i++) {
        tryst_stage_close(run->stages[i]);
    }
    tryst_data_close(run->data);
    free(run->stages);
    free(run->losses);
    free(run->loss_ops);
    free(run->makers);
    free(run->terms);
    free(run->seconds);
    bench_spans_close(run);
}

/* ---- training ---------------------------------------------------------------------- */

/* Return the losses of a step that maker `i` has made. */
static double *terms_of(const struct bench_run *run, uint64_t step, int i)
{
    return &run->terms[(step * (uint64_t)run->makers_count + (uint64_t)i) *
                       (uint64_t)run->options->microbatches];
}

/* Return the loss of a step: the mean over all micro-batches, in their order. */
static double join_loss(const struct bench_run *run, uint64_t step)
{
    double *all = terms_of(run, step, 0);
    for (int m = 0; m < run->options->microbatches; m++) {
        for (int i = 1; i < run->makers_count; i++) {
            double other = terms_of(run, step, i)[m];
            all[m] = isnan(other) ? all[m] : other;
        }
    }
    return tryst_loss_mean(all, run->options->microbatches);
}

/* Release the transfer of one loss if it has ended, waiting for it with `wait`. */
static tryst_status note_loss(struct bench_run *run, uint64_t step, tryst_op **op,
                              bool wait)
{
    if (!*op) {
        return TRYST_OK;
    }
    tryst_status status = wait ? tryst_wait(*op, GATHER_TIMEOUT_NS) : tryst_op_test(*op);
    if (status == TRYST_IN_PROGRESS) {
        return status;
    }
    if (status != TRYST_OK) {
        char what[64];
        snprintf(what, sizeof what, "the loss of step %llu", (unsigned long long)step);
        return bench_transfer_fail(run, status, *op, what);
    }
    tryst_op_release(*op);
    *op = NULL;
    return TRYST_OK;
}

/* Release the transfers of the first `steps_count` losses, in order: all of them with
 * `wait`, else those before the first that has not ended. Rank 0 receives the losses, the
 * last stage's ranks send them. */
static tryst_status note_losses(struct bench_run *run, uint64_t steps_count, bool wait)
{
    while (run->losses_ended < steps_count) {
        uint64_t step = run->losses_ended;
        for (int i = 0; i < run->makers_count; i++) {
            tryst_op **op =
                &run->loss_ops[step * (uint64_t)run->makers_count + (uint64_t)i];
            tryst_status status = note_loss(run, step, op, wait);
            if (status != TRYST_OK) {
                return status == TRYST_IN_PROGRESS ? TRYST_OK : status;
            }
        }
        if (run->makers_count > 1 && run->rank == 0) {
            run->losses[step] = join_loss(run, step);
        }
        run->losses_ended++;
    }
    return TRYST_OK;
}

/* Post the transfer of a step's loss from maker `i` to rank 0: of the mean, or with
 * several makers of its micro-batches' losses. No effect on other ranks, and where rank 0
 * is the maker. */
static tryst_status share_loss(struct bench_run *run, uint64_t step, int i, double loss)
{
    int maker = run->makers[i];
    bool alone = run->makers_count == 1;
    double *own = alone ? &run->losses[step] : terms_of(run, step, i);
    size_t count = alone ? 1 : (size_t)run->options->microbatches;
    if (run->rank == maker) {
        memcpy(own, alone ? &loss : tryst_engine_losses(run->engine),
               count * sizeof *own);
    }
    if (maker == 0 || (run->rank != maker && run->rank != 0)) {
        return TRYST_OK;
    }
    return bench_post(run, run->rank == maker, run->rank == maker ? 0 : maker, "loss", 0,
                      own, count * sizeof *own,
                      &run->loss_ops[step * (uint64_t)run->makers_count + (uint64_t)i]);
}

static tryst_status train_step(struct bench_run *run, uint64_t step)
{
    double loss = 0;
    uint64_t begin_ns = tryst_now_ns(run->ctx);
    bool ends = step + 1 == (uint64_t)run->options->steps ||
                step + 1 == (uint64_t)run->options->sync_steps; /* of this engine */
    tryst_status status =
        ends ? tryst_engine_step_last(run->engine, SCOPE_OF_STEP0 + step, &loss)
             : tryst_engine_step(run->engine, SCOPE_OF_STEP0 + step, &loss);
    if (status != TRYST_OK) {
        return engine_failed(run, status);
    }
    run->seconds[step] = (double)(tryst_now_ns(run->ctx) - begin_ns) / 1e9;
    status = bench_spans_keep(run, step);
    for (int i = 0; i < run->makers_count && status == TRYST_OK; i++) {
        status = share_loss(run, step, i, loss);
    }
    if (status == TRYST_OK) {
        status = note_losses(run, step + 1, false);
    }
    if (step + 1 < (uint64_t)run->options->steps &&
        (step == 0 || step == (uint64_t)run->options->sync_steps)) {
        tryst_engine_stats_reset(
            run->engine); /* the first step fills caches and buffers */
    }
    return status;
}

/* After the first steps, go on with the engine of the schedule on the same stages. */
static tryst_status switch_engine(struct bench_run *run, uint64_t step)
{
    tryst_status status = tryst_engine_finish(run->engine);
    if (status != TRYST_OK) {
        return engine_failed(run, status);
    }
    tryst_engine_close(run->engine);
    run->engine = NULL;
    return open_engine_at(run, step);
}

static tryst_status train(struct bench_run *run)
{
    uint64_t steps = (uint64_t)run->options->steps;
    run->begin_ns = tryst_now_ns(run->ctx);
    for (uint64_t step = 0; step < steps; step++) {
        bool switches = step > 0 && step == (uint64_t)run->options->sync_steps;
        tryst_status status = switches ? switch_engine(run, step) : TRYST_OK;
        if (status == TRYST_OK) {
            status = train_step(run, step);
        }
        if (status == TRYST_OK && run->rank == 0 && bench_progress_due(run, step)) {
            /* rank 0 may be a part of a step ahead of the last stage: a wait for the
             * loss would delay its next step */
            status = note_losses(run, step + 1, step + 1 == steps);
            bench_progress_step(run, step);
        }
        if (status != TRYST_OK) {
            return status;
        }
    }
    tryst_status status = tryst_engine_finish(run->engine);
    if (status != TRYST_OK) {
        return engine_failed(run, status);
    }
    return note_losses(run, steps, true);
}

/* ---- the whole run ----------------------------------------------------------------- */

static tryst_status run_open(struct bench_run *run)
{
    static tryst_status (*const parts[])(struct bench_run *) = {
        allocate, open_job, bench_place_on_device, open_stages, open_data, open_engine};
    tryst_status status = TRYST_OK;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && status == TRYST_OK; i++) {
        status = parts[i](run);
    }
    return status;
}

static tryst_status finish(struct bench_run *run)
{
    struct bench_result result = {0};
    tryst_status status = bench_gather(run, &result);
    if (status == TRYST_OK && run->rank == 0) {
        tryst_status checked = TRYST_OK;
        if (run->options->check) {
            checked = bench_check(run, &result);
        }
        status = bench_report(run, &result);
        status = checked != TRYST_OK ? checked : status;
    }
    bench_result_close(&result);
    return status;
}

int bench_rank_run(const struct bench_options *options, const struct bench_place *place)
{
    struct bench_run run = {.options = options, .place = *place, .rank = place->rank};
    tryst_status status = run_open(&run);
    if (status == TRYST_OK && run.rank == 0) {
        bench_progress_begin(&run);
    }
    if (status == TRYST_OK) {
        status = train(&run);
    }
    if (run.rank == 0 && run.engine) {
        bench_progress_end(&run);
    }
    if (status == TRYST_OK) {
        status = finish(&run);
    }
    run_close(&run);
    return status == TRYST_OK ? 0 : 1;
}
