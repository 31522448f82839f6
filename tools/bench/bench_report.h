/* SPDX-License-Identifier: Apache-2.0 */
/* Reports results on rank 0. */
#ifndef TRYST_TOOLS_BENCH_BENCH_REPORT_H
#define TRYST_TOOLS_BENCH_BENCH_REPORT_H

#include "bench_rank.h"

/** Print the table and write the files that the options name. */
tryst_status bench_report(struct bench_run *run, const struct bench_result *result);

#endif
