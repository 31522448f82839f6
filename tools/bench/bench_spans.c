/* SPDX-License-Identifier: Apache-2.0 */
/* The spans of the step that --timeline draws, and --report with its neighbours.
 *
 * Idea: the steps of a loop overlap, and its last one drains, so its picture shows a
 * bubble that no other step has. The step in the middle has none, but its first actions
 * run in the step before (as micro-batches of a next step), and beside those of other
 * steps. So the spans of the steps around it are kept, too.
 * Invariant: in kept spans a micro-batch is below the number of a step, and `step` counts
 * from the drawn one. */
#include "bench_spans.h"

#include <stdlib.h>

/* The spans of so many steps before and after the drawn one are kept. */
enum { NEIGHBOURS = 2 };

uint64_t bench_step_drawn(const struct bench_options *options)
{
    uint64_t steps = (uint64_t)options->steps, first = (uint64_t)options->sync_steps;
    if (!bench_loops(options->program) || first >= steps) {
        return steps - 1;
    }
    return first + (steps - first) / 2;
}

static void span_shift(tryst_span *span, int64_t step, int32_t microbatches)
{
    span->step += (int32_t)step;
    if (span->kind != TRYST_SPAN_REDUCE_GRAD && span->microbatch >= microbatches) {
        span->microbatch -= microbatches;
        span->step++;
    }
}

/* Keep the spans of the engine's last step, `from_drawn` steps from the drawn one. */
static tryst_status spans_add(struct bench_run *run, int64_t from_drawn)
{
    const struct bench_options *options = run->options;
    size_t count;
    const tryst_span *spans = tryst_engine_spans(run->engine, &count);
    tryst_span *all = realloc(run->spans, (run->spans_count + count + 1) * sizeof *all);
    if (!all) {
        return bench_fail(run, TRYST_E_NOMEM, "cannot keep a timeline: out of memory");
    }
    run->spans = all;
    for (size_t i = 0; i < count; i++) {
        tryst_span *span = &all[run->spans_count++];
        *span = spans[i];
        span_shift(span, from_drawn, tryst_program_microbatches(options->program));
    }
    return TRYST_OK;
}

tryst_status bench_spans_keep(struct bench_run *run, uint64_t step)
{
    const struct bench_options *options = run->options;
    int64_t from_drawn = (int64_t)step - (int64_t)bench_step_drawn(options);
    bool loops = bench_loops(options->program);
    bool kept = loops ? options->timeline || options->report
                      : options->report && from_drawn != 0; /* bench_spans adds its own */
    return kept && step >= (uint64_t)options->sync_steps &&
                   llabs(from_drawn) <= NEIGHBOURS
               ? spans_add(run, from_drawn)
               : TRYST_OK;
}

const tryst_span *bench_spans(struct bench_run *run, size_t *count_p)
{
    bool is_whole = !run->spans || bench_loops(run->options->program);
    if (!run->spans || (!is_whole && spans_add(run, 0) != TRYST_OK)) {
        return tryst_engine_spans(run->engine, count_p);
    }
    *count_p = run->spans_count;
    return run->spans;
}

void bench_spans_close(struct bench_run *run)
{
    free(run->spans);
}
