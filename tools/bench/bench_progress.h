/* SPDX-License-Identifier: Apache-2.0 */
/* Prints progress while the training runs. */
#ifndef TRYST_TOOLS_BENCH_BENCH_PROGRESS_H
#define TRYST_TOOLS_BENCH_BENCH_PROGRESS_H

#include "bench_rank.h"

/** Print a line about the model and the run. */
void bench_progress_begin(const struct bench_run *run);
/** True if a line about `step` is due. */
bool bench_progress_due(const struct bench_run *run, uint64_t step);
/** Print a line about `step`, which has ended, with the newest known loss. */
void bench_progress_step(struct bench_run *run, uint64_t step);
/** End the line that is rewritten on a terminal. */
void bench_progress_end(const struct bench_run *run);
/** Return the stream for text that people read: stdout, or stderr if JSON goes to
 *  stdout. */
FILE *bench_human(const struct bench_options *options);

#endif
