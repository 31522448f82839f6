/* SPDX-License-Identifier: Apache-2.0 */
/* What people see while it runs. */
#ifndef TRYST_TOOLS_BENCH_PROGRESS_H
#define TRYST_TOOLS_BENCH_PROGRESS_H

#include "bench_rank.h"

void bench_progress_begin(const bench_run *run);
/* Is it time to say something about `step`? */
bool bench_progress_due(const bench_run *run, uint64_t step);
/* `step` has ended, and its loss is known. */
void bench_progress_step(bench_run *run, uint64_t step);
void bench_progress_end(const bench_run *run);
/* Where people read: stdout, or stderr where stdout is JSON's. */
FILE *bench_human(const bench_options *options);

#endif
