/* SPDX-License-Identifier: Apache-2.0 */
/** @file perf_report.h
 *  The figures of collectives as a table and as JSON. Rank 0 prints; elsewhere the calls do nothing. */
#ifndef TRYST_TOOLS_PERF_REPORT_H
#define TRYST_TOOLS_PERF_REPORT_H

#include "perf_coll.h"

/** Print a line on stderr now and then, while a size takes long. */
void perf_progress(const struct perf_coll *all, const struct perf_coll_figure *figure,
                   uint64_t done);
/** Print a row of the table; before the first the setup. */
void perf_report_row(const struct perf_coll *all, const struct perf_coll_figure *figure);
/** Write the JSON; the exit status of this rank. */
int perf_report_end(const struct perf_coll *all);

#endif
