/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the report of a run as an HTML file. */
#ifndef TRYST_TOOLS_BENCH_BENCH_HTML_H
#define TRYST_TOOLS_BENCH_BENCH_HTML_H

#include "bench_report.h"

/** Write the file of --report, on rank 0. */
tryst_status bench_html_write(struct bench_run *run, const struct bench_result *result,
                              const struct bench_figures *figures);

#endif
