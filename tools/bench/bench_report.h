/* SPDX-License-Identifier: Apache-2.0 */
/* What people and programs get at the end. */
#ifndef TRYST_TOOLS_BENCH_REPORT_H
#define TRYST_TOOLS_BENCH_REPORT_H

#include "bench_rank.h"

/* The table and the files. */
tryst_status bench_report(bench_run *run, const bench_result *result);

#endif
