/* SPDX-License-Identifier: Apache-2.0 */
/** @file perf_report.h
 *  Prints the figures of collectives as a table and as JSON. On ranks other than 0 the
 *  calls do nothing. */
#ifndef TRYST_TOOLS_PERF_PERF_REPORT_H
#define TRYST_TOOLS_PERF_PERF_REPORT_H

#include "perf_coll.h"

/** Print a line on stderr every 5 s while a size takes long. */
void perf_progress(const struct perf_coll *all, const struct perf_coll_figure *figure,
                   uint64_t done);
/** Print a row of the table; before the first row, the setup. */
void perf_report_row(const struct perf_coll *all, const struct perf_coll_figure *figure);
/** Write the JSON, and return the exit status of this rank. */
int perf_report_end(const struct perf_coll *all);

#endif
