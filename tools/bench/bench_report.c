/* SPDX-License-Identifier: Apache-2.0 */
/* Writes pp_bench's results on rank 0: a table, and the files named by options.
 *
 * Bubble, measured: the fraction of time in which a rank ran no action, from the end of
 * the first step (which fills caches and opens connections) to the end of the last; a
 * single step is measured whole. Predicted: the simulator's bubble of a step that follows
 * others (bench_predict.c), of a single step that of the first, from the measured costs
 * of the actions and the cores that the ranks share, with free communication. The
 * difference is the cost of communication and other load of the machine.
 *
 * With replicas, the waits for sums of gradients are part of the waiting; the simulated
 * schedule has none, so they are exposed communication.
 *
 * Waiting: the time in which a rank had nothing to compute until data arrived. The
 * schedule itself contains waits. Exposed communication is the waiting minus the waits of
 * the simulated schedule. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/weights.h>

#include "bench_html.h"
#include "bench_progress.h"
#include "bench_report.h"
#include "bench_spans.h"
#include "bench_timeline.h"
#include "tools/figures.h"
#include "tools/json.h"

/* ---- figures ----------------------------------------------------------------------- */

/* Return the mean time of a stage's actions of one kind, over all replicas. */
static double mean_cost(const struct bench_run *run, const struct bench_result *result,
                        int stage, tryst_action_kind kind)
{
    uint64_t total_ns = 0, count = 0;
    for (int rank = 0; rank < run->size; rank++) {
        const tryst_engine_cost *cost =
            &result->costs[rank * tryst_program_stages(run->options->program) + stage];
        total_ns +=
            bench_computes(run->options) ? cost->cpu_ns[kind] : cost->wall_ns[kind];
        count += cost->counts[kind];
    }
    return count > 0 ? (double)total_ns / (double)count / 1e9 : 0;
}

const struct bench_step *bench_figures_step(const struct bench_figures *self)
{
    return self->first_alone ? &self->prediction.first : &self->prediction.later;
}

double bench_step_measured_s(const struct bench_result *result)
{
    const tryst_engine_stats *stats = &result->facts[0].stats;
    return (double)(stats->end_ns - stats->begin_ns) / 1e9 / (double)stats->steps_count;
}

static double waiting_s(const struct bench_result *result, int rank)
{
    return (double)result->facts[rank].stats.wait_ns / 1e9;
}

/* Return a rank's waits in as many simulated steps as were measured. */
static double waiting_predicted_s(const struct bench_result *result,
                                  const struct bench_figures *self, int rank)
{
    return (double)result->facts[rank].stats.steps_count *
           bench_figures_step(self)->ranks[rank].wait_s;
}

/* Return exposed communication: the waiting that the simulated schedule does not
 * contain. */
static double exposed_s(const struct bench_result *result,
                        const struct bench_figures *self, int rank)
{
    double exposed = waiting_s(result, rank) - waiting_predicted_s(result, self, rank);
    return exposed > 0 ? exposed : 0;
}

static tryst_action_costs stage_costs(const struct bench_run *run,
                                      const struct bench_result *result, int stage)
{
    return (tryst_action_costs){
        .forward_s = mean_cost(run, result, stage, TRYST_ACTION_FORWARD),
        .backward_s = mean_cost(run, result, stage, TRYST_ACTION_BACKWARD),
        .input_grad_s = mean_cost(run, result, stage, TRYST_ACTION_INPUT_GRAD),
        .weight_grad_s = mean_cost(run, result, stage, TRYST_ACTION_WEIGHT_GRAD),
        .update_s = mean_cost(run, result, stage, TRYST_ACTION_UPDATE),
        .predict_s = mean_cost(run, result, stage, TRYST_ACTION_PREDICT)};
}

static tryst_status predict(const struct bench_run *run,
                            const struct bench_result *result, struct bench_figures *self)
{
    const tryst_program *program = run->options->program;
    for (int i = 0; i < tryst_program_stages(program); i++) {
        self->costs[i] = stage_costs(run, result, i);
    }
    const tryst_sim_params params = {
        .struct_size = sizeof params,
        .costs = self->costs,
        .cores_count = bench_computes(run->options) ? self->cores_count : 0};
    return bench_predict(program, &params, &self->prediction);
}

static void measure(const struct bench_run *run, const struct bench_result *result,
                    struct bench_figures *self)
{
    double seconds = 0;
    for (int rank = 0; rank < run->size; rank++) {
        const tryst_engine_stats *stats = &result->facts[rank].stats;
        double span_ns = (double)(stats->end_ns - stats->begin_ns);
        self->measured[rank] = 1 - (double)stats->compute_wall_ns / span_ns;
        self->measured_mean += self->measured[rank] / run->size;
    }
    for (int step = 0; step < run->options->steps; step++) {
        seconds += result->seconds[step];
    }
    if (run->options->model.kind != TRYST_MODEL_SLEEP) {
        self->tokens_per_s = (double)run->options->steps * run->options->microbatches *
                             run->options->model.microbatch_size *
                             run->options->model.seq / seconds;
    }
    const struct bench_facts *facts = &result->facts[0];
    self->cores_count = facts->local_size == run->size ? facts->cores_count : 0;
}

static tryst_status figures_open(const struct bench_run *run,
                                 const struct bench_result *result,
                                 struct bench_figures *self)
{
    *self = (struct bench_figures){
        .first_alone = run->options->steps - run->options->sync_steps < 2,
        .measured = calloc((size_t)run->size, sizeof *self->measured),
        .costs = calloc((size_t)tryst_program_stages(run->options->program),
                        sizeof *self->costs)};
    if (!self->measured || !self->costs) {
        return TRYST_E_NOMEM;
    }
    measure(run, result, self);
    return predict(run, result, self);
}

static void figures_close(struct bench_figures *self)
{
    free(self->measured);
    free(self->costs);
    bench_prediction_close(&self->prediction);
}

/* ---- table ------------------------------------------------------------------------- */

static const char *bytes_text(uint64_t bytes, char words[16])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    while (value >= 1000 && unit < 4) {
        value /= 1024;
        unit++;
    }
    snprintf(words, 16, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return words;
}

static void table_row(FILE *out, const struct bench_result *result,
                      const struct bench_figures *self, int rank)
{
    const tryst_engine_stats *stats = &result->facts[rank].stats;
    char peak[16];
    char sent[16];
    char received[16];
    fprintf(
        out, "%4d %8.3f %8.3f %8.3f %8.3f %7.1f %% %7.1f %% %11s %10s %10s\n", rank,
        (double)stats->compute_wall_ns / 1e9, (double)stats->compute_cpu_ns / 1e9,
        waiting_s(result, rank), exposed_s(result, self, rank),
        100 * self->measured[rank], 100 * bench_figures_step(self)->ranks[rank].bubble,
        bytes_text(stats->peak_activation_bytes, peak),
        bytes_text(stats->bytes_sent, sent), bytes_text(stats->bytes_received, received));
}

/* Return the time in which a rank had nothing to compute until a sum of gradients was
 * there. */
static double reduce_wait_s(const struct bench_result *result, int rank)
{
    return (double)result->facts[rank].stats.reduce_wait_ns / 1e9;
}

/* Print what the sums of gradients cost: on the rank that waits longest, and in all. */
static void reduce_print(FILE *out, const struct bench_run *run,
                         const struct bench_result *result)
{
    double most = 0, sum = 0;
    char words[16];
    for (int rank = 0; rank < run->size; rank++) {
        double wait_s = reduce_wait_s(result, rank);
        most = wait_s > most ? wait_s : most;
        sum += wait_s;
    }
    fprintf(
        out,
        "gradients of %d replicas: rank 0 sums %s; exposed (waited for): %.3f s a rank, "
        "%.3f s on the rank that waits longest\n",
        run->options->replicas, bytes_text(result->facts[0].stats.bytes_reduced, words),
        sum / run->size, most);
}

/* Print which steps the table is about, and how long they take. */
static void steps_print(FILE *out, const struct bench_result *result,
                        const struct bench_figures *self)
{
    fprintf(out, "step: %.4f s measured, %.4f s predicted", bench_step_measured_s(result),
            bench_figures_step(self)->step_s);
    if (self->first_alone) {
        fputs("\n(Measured and predicted: the first step alone.)\n", out);
        return;
    }
    fprintf(out,
            "; the first step alone: %.4f s predicted\n"
            "(Measured: without the first step, which fills caches and opens "
            "connections.\n"
            "Predicted: a step that follows others, simulated from the costs of its "
            "actions.)\n",
            self->prediction.first.step_s);
}

void bench_table_print(FILE *out, const struct bench_run *run,
                       const struct bench_result *result,
                       const struct bench_figures *self)
{
    int steps = run->options->steps;
    fprintf(out,
            "\n      compute, s       waiting, s        bubble                peak\n"
            "rank     wall      CPU      all  exposed  measured predicted activations"
            "       sent   received\n");
    for (int rank = 0; rank < run->size; rank++) {
        table_row(out, result, self, rank);
    }
    if (run->options->replicas > 1) {
        reduce_print(out, run, result);
    }
    steps_print(out, result, self);
    if (self->cores_count > 0 && run->size > self->cores_count &&
        bench_computes(run->options)) {
        fprintf(out,
                "%d ranks share %d core%s: they take turns, and \"compute, wall\" "
                "includes time "
                "without a core.\n",
                run->size, self->cores_count, self->cores_count == 1 ? "" : "s");
    }
    if (bench_computes(run->options)) {
        fprintf(out, "loss %.4f -> %.4f   %.1f k tokens/s   weights %s\n",
                result->losses[0], result->losses[steps - 1], self->tokens_per_s / 1e3,
                result->digest);
    }
}

/* ---- JSON -------------------------------------------------------------------------- */

/* Write a member, with a comma before it and with all digits, so that a reader gets the
 * same double. */
static void real_write(FILE *file, const char *name, double value)
{
    if (isfinite(value)) {
        fprintf(file, ", \"%s\": %.17g", name, value);
    } else {
        fprintf(file, ", \"%s\": null", name);
    }
}

static void steps_write(FILE *file, const struct bench_options *options,
                        const struct bench_result *result)
{
    fprintf(file, ",\n \"steps\": [");
    for (int i = 0; i < options->steps; i++) {
        fprintf(file, "%s\n  {\"seconds\": %.17g", i ? "," : "", result->seconds[i]);
        real_write(file, "loss", bench_computes(options) ? result->losses[i] : NAN);
        fputc('}', file);
    }
    fputc(']', file);
}

static void ranks_write(FILE *file, const struct bench_result *result,
                        const struct bench_figures *self)
{
    fprintf(file, ",\n \"peak_activation_bytes\": [");
    for (int rank = 0; rank < result->ranks_count; rank++) {
        fprintf(file, "%s%" PRIu64, rank ? ", " : "",
                result->facts[rank].stats.peak_activation_bytes);
    }
    fprintf(file, "],\n \"per_rank\": [");
    for (int rank = 0; rank < result->ranks_count; rank++) {
        const tryst_engine_stats *stats = &result->facts[rank].stats;
        fprintf(file,
                "%s\n  {\"bytes_sent\": %" PRIu64 ", \"bytes_received\": %" PRIu64
                ", \"buffer_allocations\": %" PRIu64 ", \"bytes_reduced\": %" PRIu64,
                rank ? "," : "", stats->bytes_sent, stats->bytes_received,
                stats->buffer_allocations, stats->bytes_reduced);
        real_write(file, "compute_wall_s", (double)stats->compute_wall_ns / 1e9);
        real_write(file, "compute_cpu_s", (double)stats->compute_cpu_ns / 1e9);
        real_write(file, "waiting_s", waiting_s(result, rank));
        real_write(file, "waiting_predicted_s", waiting_predicted_s(result, self, rank));
        real_write(file, "exposed_communication_s", exposed_s(result, self, rank));
        real_write(file, "bubble_measured", self->measured[rank]);
        real_write(file, "bubble_predicted",
                   bench_figures_step(self)->ranks[rank].bubble);
        real_write(file, "reduce_wait_s", reduce_wait_s(result, rank));
        fputc('}', file);
    }
    fputc(']', file);
}

static void costs_write(FILE *file, const struct bench_run *run,
                        const struct bench_figures *self)
{
    fprintf(file, ",\n \"stage_costs\": [");
    for (int i = 0; i < tryst_program_stages(run->options->program); i++) {
        const tryst_action_costs *costs = &self->costs[i];
        fprintf(file, "%s\n  {\"stage\": %d", i ? "," : "", i);
        real_write(file, "forward_s", costs->forward_s);
        real_write(file, "backward_s", costs->backward_s);
        real_write(file, "input_grad_s", costs->input_grad_s);
        real_write(file, "weight_grad_s", costs->weight_grad_s);
        real_write(file, "update_s", costs->update_s);
        real_write(file, "predict_s", costs->predict_s);
        fputc('}', file);
    }
    fputc(']', file);
}

static void document_write(FILE *file, const struct bench_run *run,
                           const struct bench_result *result,
                           const struct bench_figures *self)
{
    const struct bench_options *options = run->options;
    char blas[128];
    fprintf(file,
            "{\"ranks\": %d, \"replicas\": %d, \"microbatches\": %d, "
            "\"microbatch_size\": %d, \"cores\": %d",
            run->size, options->replicas, options->microbatches,
            options->model.microbatch_size, self->cores_count);
    tool_json_member(file, "version", tryst_version_string());
    tool_json_member(file, "blas", tryst_blas_describe(blas, sizeof blas));
    tool_json_member(file, "model", tryst_model_kind_name(options->model.kind));
    tool_json_member(file, "schedule", options->schedule);
    steps_write(file, options, result);
    real_write(file, "tokens_per_s", self->tokens_per_s);
    real_write(file, "bubble_measured", self->measured_mean);
    real_write(file, "bubble_predicted", bench_figures_step(self)->bubble);
    real_write(file, "step_predicted_s", bench_figures_step(self)->step_s);
    real_write(file, "first_step_predicted_s", self->prediction.first.step_s);
    ranks_write(file, result, self);
    costs_write(file, run, self);
    tool_json_member(file, "weights_digest", result->digest);
    if (options->check) {
        tool_json_member(file, "check", result->checked ? "passed" : "failed");
    }
    fprintf(file, "}\n");
}

static tryst_status write_json(struct bench_run *run, const struct bench_result *result,
                               const struct bench_figures *self)
{
    const char *path = run->options->json;
    if (strcmp(path, "-") == 0) {
        document_write(stdout, run, result, self);
        return TRYST_OK; /* main reports errors of stdout (standard_output_end) */
    }
    FILE *file = fopen(path, "w");
    if (file) {
        document_write(file, run, result, self);
    }
    bool failed = !file || ferror(file);
    failed = (file && fclose(file) != 0) || failed;
    return failed ? bench_fail(run, TRYST_E_IO, "--json %s: cannot write: %s", path,
                               strerror(errno))
                  : TRYST_OK;
}

/* ---- timeline ---------------------------------------------------------------------- */

static const tryst_span *find_send(const struct bench_result *result, int from, int to,
                                   const tryst_span *receive)
{
    for (uint64_t i = 0; i < result->facts[from].spans_count; i++) {
        const tryst_span *span = &result->spans[from][i];
        if (span->kind == TRYST_SPAN_SEND && span->peer == to &&
            span->stage == receive->stage && span->microbatch == receive->microbatch &&
            span->gradient == receive->gradient && span->step == receive->step) {
            return span;
        }
    }
    return NULL;
}

/* Set the begin of each receive to that of its send, if later, and the end of each send
 * to that of its receive, if earlier: a receive is posted long before its bytes move, and
 * a rank sees the end of its send only when it polls. All ranks of a host have one clock.
 * A pair from two hosts stays as it is if the send would begin after the receive's
 * end. */
static void pair_transfers(const struct bench_result *result)
{
    for (int rank = 0; rank < result->ranks_count; rank++) {
        for (uint64_t i = 0; i < result->facts[rank].spans_count; i++) {
            tryst_span *receive = &result->spans[rank][i];
            if (receive->kind != TRYST_SPAN_RECEIVE ||
                receive->peer >= result->ranks_count) {
                continue;
            }
            tryst_span *send =
                (tryst_span *)find_send(result, receive->peer, rank, receive);
            if (!send || send->begin_ns >= receive->end_ns) {
                continue;
            }
            receive->begin_ns =
                send->begin_ns > receive->begin_ns ? send->begin_ns : receive->begin_ns;
            send->end_ns =
                send->end_ns < receive->end_ns ? send->end_ns : receive->end_ns;
        }
    }
}

static tryst_status write_timeline(struct bench_run *run,
                                   const struct bench_result *result,
                                   const struct bench_figures *self)
{
    const struct bench_options *options = run->options;
    struct bench_timeline_rank *ranks = calloc((size_t)run->size, sizeof *ranks);
    char title[160];
    char subtitle[200];
    char steps[48];
    if (!ranks) {
        return bench_fail(run, TRYST_E_NOMEM, "cannot draw the timeline: out of memory");
    }
    for (int rank = 0; rank < run->size; rank++) {
        ranks[rank] = (struct bench_timeline_rank){result->spans[rank],
                                                   result->facts[rank].spans_count};
    }
    char copies[48] = "";
    if (options->replicas > 1) {
        snprintf(copies, sizeof copies, " (%d replicas of %d stages)", options->replicas,
                 tryst_program_stages(options->program));
    }
    snprintf(title, sizeof title, "%s, %d rank%s%s, %d micro-batch%s: step %d of %d",
             options->schedule, run->size, tool_plural((uint64_t)run->size), copies,
             options->microbatches, options->microbatches == 1 ? "" : "es",
             (int)bench_step_drawn(options) + 1, options->steps);
    snprintf(steps, sizeof steps,
             options->steps < 3              ? ""
             : bench_loops(options->program) ? "steps 2 to %d, which drains: "
                                             : "steps 2 to %d: ",
             options->steps);
    snprintf(subtitle, sizeof subtitle,
             "%s with %d layers; %sbubble %.1f %% measured, %.1f %% predicted%s",
             tryst_model_kind_name(options->model.kind), options->model.layers, steps,
             100 * self->measured_mean, 100 * bench_figures_step(self)->bubble,
             self->cores_count > 0 && run->size > self->cores_count &&
                     bench_computes(run->options)
                 ? "; fewer cores than ranks"
                 : "");
    const struct bench_timeline timeline = {title, subtitle, ranks, run->size};
    FILE *out = fopen(options->timeline, "we");
    bool drawn = out && bench_timeline_draw(out, &timeline),
         written = out && !ferror(out);
    free(ranks);
    if (!out || fclose(out) != 0 || !written) {
        return bench_fail(run, TRYST_E_IO, "--timeline %s: %s", options->timeline,
                          strerror(errno));
    }
    return drawn ? TRYST_OK
                 : bench_fail(run, TRYST_E_INVALID, "--timeline %s: it has no spans",
                              options->timeline);
}

/* ---- trace ------------------------------------------------------------------------- */

/* Write one JSON document with the events of all ranks. The trace of each rank is a
 * document {…,"traceEvents":[…]}, and has no bracket before its events. */
static tryst_status write_trace(struct bench_run *run, const struct bench_result *result)
{
    const char *path = run->options->trace;
    FILE *out = fopen(path, "we");
    if (!out) {
        return bench_fail(run, TRYST_E_IO, "--trace %s: %s", path, strerror(errno));
    }
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", out);
    bool first = true;
    for (int rank = 0; rank < run->size; rank++) {
        const char *trace = result->traces[rank];
        const char *begin = trace ? strchr(trace, '[') : NULL;
        const char *end = trace ? strrchr(trace, ']') : NULL;
        if (begin && end > begin + 1) {
            fputs(first ? "" : ",\n", out);
            fwrite(begin + 1, 1, (size_t)(end - begin - 1), out);
            first = false;
        }
    }
    fputs("]}\n", out);
    bool failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed) {
        return bench_fail(run, TRYST_E_IO, "--trace %s: %s", path, strerror(errno));
    }
    return TRYST_OK;
}

static tryst_status save_weights(struct bench_run *run, const struct bench_result *result)
{
    tryst_status status =
        tryst_weights_save(&run->options->model, result->weights, result->weights_count,
                           run->options->save_weights);
    return status == TRYST_OK
               ? status
               : bench_fail(run, status, "--save-weights: %s", tryst_last_error());
}

static void written_files_print(const struct bench_options *options)
{
    const struct {
        const char *what;
        const char *path;
    } files[] = {
        {bench_loops(options->program) ? "timeline of a step in the middle"
                                       : "timeline of the last step",
         options->timeline},
        {"report (open it in a browser)", options->report},
        {"trace (open it in ui.perfetto.dev)", options->trace},
        {"profile of a step (tryst-perf sched --simulate --profile)", options->profile},
        {"weights", options->save_weights},
        {"figures",
         options->json && strcmp(options->json, "-") != 0 ? options->json : NULL}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (files[i].path) {
            fprintf(bench_human(options), "%s: %s\n", files[i].what, files[i].path);
        }
    }
}

tryst_status bench_report(struct bench_run *run, const struct bench_result *result)
{
    const struct bench_options *options = run->options;
    struct bench_figures self;
    tryst_status status = figures_open(run, result, &self);
    if (status != TRYST_OK) {
        figures_close(&self);
        return bench_fail(run, status, "cannot report: %s", tryst_status_str(status));
    }
    bench_table_print(bench_human(options), run, result, &self);
    if (options->timeline || options->report) {
        pair_transfers(result);
    }
    if (options->timeline) {
        status = write_timeline(run, result, &self);
    }
    if (status == TRYST_OK && options->report) {
        status = bench_html_write(run, result, &self);
    }
    if (status == TRYST_OK && options->trace) {
        status = write_trace(run, result);
    }
    if (status == TRYST_OK && options->save_weights) {
        status = save_weights(run, result);
    }
    if (status == TRYST_OK && options->json) {
        status = write_json(run, result, &self);
    }
    if (status == TRYST_OK) {
        written_files_print(options);
    }
    figures_close(&self);
    return status;
}
