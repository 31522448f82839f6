/* SPDX-License-Identifier: Apache-2.0 */
/* Prints progress while pp_bench trains: a line about the model, then on a terminal one
 * line that is rewritten, elsewhere about ten lines. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench_progress.h"

#define TERMINAL_PERIOD_NS 100000000ull /* ten times a second */
#define LINES_ELSEWHERE    10

FILE *bench_human(const struct bench_options *options)
{
    return options->json && strcmp(options->json, "-") == 0 ? stderr : stdout;
}

static void model_print(FILE *out, const tryst_model *model)
{
    fprintf(out, "%s, %d layers", tryst_model_kind_name(model->kind), model->layers);
    if (model->kind == TRYST_MODEL_SLEEP) {
        fprintf(out, ", forward %g ms, backward %g ms",
                (double)model->sleep_forward_ns / 1e6,
                (double)model->sleep_backward_ns / 1e6);
        if (model->sleep_input_grad_ns > 0 || model->sleep_weight_grad_ns > 0) {
            fprintf(out, " (of the input %g ms, of the weights %g ms)",
                    (double)model->sleep_input_grad_ns / 1e6,
                    (double)model->sleep_weight_grad_ns / 1e6);
        }
        return;
    }
    fprintf(out, ", hidden %d", model->hidden);
    if (model->kind == TRYST_MODEL_GPT) {
        fprintf(out, ", %d heads", model->heads);
    }
    fprintf(out, ", windows of %d bytes", model->seq);
}

void bench_progress_begin(const struct bench_run *run)
{
    const struct bench_options *options = run->options;
    FILE *out = bench_human(options);
    model_print(out, &options->model);
    fprintf(out, "; %s on %d rank%s, ", options->schedule, run->size,
            run->size == 1 ? "" : "s");
    if (options->replicas > 1) {
        fprintf(out, "%d replicas of %d stage%s, ", options->replicas,
                tryst_program_stages(options->program),
                tryst_program_stages(options->program) == 1 ? "" : "s");
    }
    fprintf(out, "%d micro-batch%s of %d", options->microbatches,
            options->microbatches == 1 ? "" : "es", options->model.microbatch_size);
    if (options->data) {
        fprintf(out, "; %s, %llu bytes", options->data,
                (unsigned long long)tryst_data_bytes(run->data));
    }
    fputc('\n', out);
    fflush(out);
}

static double tokens_per_step(const struct bench_options *options)
{
    const tryst_model *model = &options->model;
    return model->kind == TRYST_MODEL_SLEEP
               ? 0
               : (double)options->microbatches * model->microbatch_size * model->seq;
}

static void step_print(const struct bench_run *run, uint64_t done, uint64_t now_ns)
{
    const struct bench_options *options = run->options;
    FILE *out = bench_human(options);
    double seconds = (double)(now_ns - run->begin_ns) / 1e9;
    double tokens = tokens_per_step(options);
    fprintf(out, "step %*llu/%d", (int)(options->steps > 999 ? 7 : 3),
            (unsigned long long)done, options->steps);
    if (run->losses_ended > 0 && bench_computes(options)) {
        fprintf(out, "  loss %.4f", run->losses[run->losses_ended - 1]);
        if (run->losses_ended < done) {
            fprintf(out, " (step %llu)", (unsigned long long)run->losses_ended);
        }
    }
    if (tokens > 0) {
        fprintf(out, "  %.1f k tokens/s", tokens * (double)done / seconds / 1e3);
    } else {
        fprintf(out, "  %.1f steps/s", (double)done / seconds);
    }
    fprintf(out, "  %.0f s left",
            seconds / (double)done * (double)((uint64_t)options->steps - done));
}

bool bench_progress_due(const struct bench_run *run, uint64_t step)
{
    uint64_t done = step + 1;
    uint64_t steps = (uint64_t)run->options->steps;
    if (done == 1 || done == steps) {
        return true;
    }
    if (isatty(fileno(bench_human(run->options)))) {
        return tryst_now_ns(run->ctx) - run->last_progress_ns >= TERMINAL_PERIOD_NS;
    }
    return done * LINES_ELSEWHERE / steps != (done - 1) * LINES_ELSEWHERE / steps;
}

void bench_progress_step(struct bench_run *run, uint64_t step)
{
    FILE *out = bench_human(run->options);
    bool terminal = isatty(fileno(out));
    run->last_progress_ns = tryst_now_ns(run->ctx);
    fputs(terminal ? "\r" : "", out);
    step_print(run, step + 1, run->last_progress_ns);
    fputs(terminal ? "\033[K" : "\n", out);
    fflush(out);
}

void bench_progress_end(const struct bench_run *run)
{
    FILE *out = bench_human(run->options);
    if (isatty(fileno(out)) && run->last_progress_ns > 0) {
        fputc('\n', out);
    }
}
