/* SPDX-License-Identifier: Apache-2.0 */
/* Writes --report: the table that was printed, and those of which the page draws the
 * loss, the timeline and the bytes of each link. */
#include <inttypes.h>
#include <stdio.h>

#include "bench_html.h"
#include "bench_spans.h"
#include "bench_timeline.h"
#include "tools/html.h"
#include "tools/json.h"

/* Of more steps the table of losses has so many, evenly spaced, and the last one. */
#define STEPS_SHOWN 2000

struct page {
    FILE *out;
    const struct bench_run *run;
    const struct bench_result *result;
    const struct bench_figures *figures;
};

/* ---- the run ----------------------------------------------------------------------- */

static void run_print(const struct page *page)
{
    const struct bench_options *options = page->run->options;
    const tryst_model *model = &options->model;
    char blas[128];
    if (bench_computes(options)) {
        tool_html_fact(page->out, "BLAS", "%s", tryst_blas_describe(blas, sizeof blas));
        tool_html_fact(page->out, "data", "%s", options->data);
    }
    tool_html_fact(page->out, "model", "%s, %d layers%s",
                   tryst_model_kind_name(model->kind), model->layers,
                   bench_computes(options) ? "" : "; no computation");
    tool_html_fact(page->out, "schedule",
                   "%s: %d stages on %d ranks, replicas: %d; %d micro-batches of %d",
                   options->schedule, tryst_program_stages(options->program),
                   page->run->size, options->replicas, options->microbatches,
                   model->microbatch_size);
}

/* ---- figures ----------------------------------------------------------------------- */

/* Write what was measured beside what the schedule alone would take. */
static void bound_print(const struct page *page)
{
    const struct bench_step *bound = bench_figures_step(page->figures);
    tool_html_section(page->out, "Schedule: measured beside its bound");
    tool_html_note(page->out,
                   "The bound is the simulated schedule with the measured costs of its "
                   "actions and free communication, on the cores that the ranks share.");
    tool_html_table_begin(page->out, TOOL_HTML_OPEN, "measured beside the bound",
                          "mean\tmeasured\tbound");
    tool_html_row(page->out, "step, ms", "%.3f\t%.3f",
                  bench_step_measured_s(page->result) * 1e3, bound->step_s * 1e3);
    tool_html_row(page->out, "bubble, %", "%.1f\t%.1f",
                  100 * page->figures->measured_mean, 100 * bound->bubble);
    tool_html_table_end(page->out);
}

static void table_print(FILE *out, const void *what)
{
    const struct page *page = what;
    bench_table_print(out, page->run, page->result, page->figures);
}

static void losses_print(const struct page *page)
{
    int steps = page->run->options->steps, every = 1 + (steps - 1) / STEPS_SHOWN;
    char name[16], loss[32] = "-";
    const char *heading =
        bench_computes(page->run->options) ? "Loss by step" : "Time of each step";
    tool_html_section(page->out, heading);
    tool_html_table_begin(page->out, TOOL_HTML_LINE, heading, "step\tloss\ttime, ms");
    for (int step = 0; step < steps; step++) {
        if (step % every == 0 || step + 1 == steps) {
            if (bench_computes(page->run->options)) {
                snprintf(loss, sizeof loss, "%.4f", page->result->losses[step]);
            }
            snprintf(name, sizeof name, "%d", step + 1);
            tool_html_row(page->out, name, "%s\t%.3f", loss,
                          page->result->seconds[step] * 1e3);
        }
    }
    tool_html_table_end(page->out);
}

/* ---- timeline ---------------------------------------------------------------------- */

/* Return when the step begins: its first action on any rank; 0: it has none. */
static uint64_t step_begin_ns(const struct bench_result *result)
{
    uint64_t begin_ns = UINT64_MAX;
    for (int rank = 0; rank < result->ranks_count; rank++) {
        for (uint64_t i = 0; i < result->facts[rank].spans_count; i++) {
            const tryst_span *span = &result->spans[rank][i];
            if (span->step == 0 && bench_span_is_action(span->kind) &&
                span->begin_ns < begin_ns) {
                begin_ns = span->begin_ns;
            }
        }
    }
    return begin_ns == UINT64_MAX ? 0 : begin_ns;
}

static void span_print(const struct page *page, int rank, const tryst_span *span,
                       uint64_t zero_ns)
{
    const char *kind = bench_span_kind_name(span->kind);
    bool is_action = bench_span_is_action(span->kind);
    char words[96], label[16] = "";
    if (is_action && span->microbatch >= 0) {
        snprintf(label, sizeof label, "%d", span->microbatch);
    }
    tool_html_row(page->out, bench_span_text(span, words),
                  "rank %d\t%s\t%s\t%s\t%d\t%.4f\t%.4f", rank,
                  is_action || span->kind == TRYST_SPAN_WAIT ? "compute" : kind, label,
                  kind, span->step, (double)(int64_t)(span->begin_ns - zero_ns) / 1e6,
                  (double)(span->end_ns - span->begin_ns) / 1e6);
}

static void timeline_print(const struct page *page)
{
    const struct bench_options *options = page->run->options;
    const struct bench_result *result = page->result;
    uint64_t zero_ns = step_begin_ns(result);
    tool_html_section(page->out, "Timeline");
    tool_html_note(page->out,
                   "Step %d of %d, and pale its neighbours. Numbers are micro-batches. "
                   "Time zero is the begin of the step's first action.%s",
                   (int)bench_step_drawn(options) + 1, options->steps,
                   result->facts[0].local_size < page->run->size
                       ? " Ranks of several hosts have several clocks."
                       : "");
    tool_html_table_begin(page->out, TOOL_HTML_TIMELINE, "spans of the timeline",
                          "span\trank\tlane\tmicro-batch\tkind\tstep\tbegin, ms\t"
                          "length, ms");
    for (int rank = 0; rank < page->run->size; rank++) {
        for (uint64_t i = 0; i < result->facts[rank].spans_count; i++) {
            span_print(page, rank, &result->spans[rank][i], zero_ns);
        }
    }
    tool_html_table_end(page->out);
}

static void links_print(const struct page *page)
{
    int size = page->run->size;
    char name[32];
    tool_html_section(page->out, "Bytes per link");
    tool_html_note(page->out, "Payload from rank to rank in all steps, the first one and "
                              "losses included.");
    tool_html_table_begin(page->out, TOOL_HTML_BARS, "bytes per link", "link\tbytes");
    for (int i = 0; i < size * size; i++) {
        if (page->result->links[i] > 0) {
            snprintf(name, sizeof name, "%d to %d", i / size, i % size);
            tool_html_row(page->out, name, "%" PRIu64, page->result->links[i]);
        }
    }
    tool_html_table_end(page->out);
}

static void page_print(FILE *out, const void *what)
{
    struct page page = *(const struct page *)what;
    page.out = out;
    tool_html_begin(out, bench_name(), page.run->group);
    run_print(&page);
    bound_print(&page);
    tool_html_section(out, "Ranks");
    tool_html_output(out, table_print, &page);
    losses_print(&page);
    timeline_print(&page);
    links_print(&page);
    tool_html_end(out);
}

tryst_status bench_html_write(struct bench_run *run, const struct bench_result *result,
                              const struct bench_figures *figures)
{
    const struct page page = {NULL, run, result, figures};
    const char *path = run->options->report;
    return tool_file_write(path, page_print, &page) == 0
               ? TRYST_OK
               : bench_fail(run, TRYST_E_IO, "--report %s: cannot write", path);
}
