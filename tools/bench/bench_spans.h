/* SPDX-License-Identifier: Apache-2.0 */
/** @file bench_spans.h
 *  The spans of the step that --timeline draws, and --report with its neighbours. */
#ifndef TRYST_TOOLS_BENCH_BENCH_SPANS_H
#define TRYST_TOOLS_BENCH_BENCH_SPANS_H

#include "bench_rank.h"

/** Return the index of the step that is drawn: the last one, or the one in the middle of
 *  a loop, since the first and last steps of a loop fill and drain it. */
uint64_t bench_step_drawn(const struct bench_options *options);

/** Keep the engine's spans of `step`, which has ended, if it is near the drawn one, and
 *  of a loop or wanted by --report. */
tryst_status bench_spans_keep(struct bench_run *run, uint64_t step);

/** Return the spans to draw: those that were kept, and those of the last step unless the
 *  program is a loop. Called once. Valid until the next call of the engine. */
const tryst_span *bench_spans(struct bench_run *run, size_t *count_p);

void bench_spans_close(struct bench_run *run);

#endif
