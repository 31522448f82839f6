/* SPDX-License-Identifier: Apache-2.0 */
/** @file perf_coll.h
 *  Measures a collective: how long one operation takes, and how far that is from the
 *  plan's bound. */
#ifndef TRYST_TOOLS_PERF_PERF_COLL_H
#define TRYST_TOOLS_PERF_PERF_COLL_H

#include "perf_rank.h"
#include "tools/perf/explain/perf_explain.h"

/** The figures of one size. A time is that of one operation, from its submission to its
 *  completion on one rank; of each iteration the time of the slowest rank counts. */
struct perf_coll_figure {
    uint64_t bytes, count, iters;
    /** median, 99th percentile, 99.9th, least, mean */
    double seconds, seconds_p99, seconds_p999, seconds_min, seconds_mean;
    double bound_s; /**< the least possible time; 0: unknown */
    uint64_t wrong; /**< wrong elements, summed over all ranks */
    tryst_coll_info info;
    struct perf_explain explain; /**< with --explain */
};

struct perf_coll {
    const struct perf_rank *rank;
    int size;                /**< ranks of the group */
    int done;                /**< sizes measured so far */
    double bound_s_per_byte; /**< from perf_bound_s_per_byte; 0: unknown */
    struct perf_coll_figure figures[PERF_SIZES_MAX];
};

/** Measure all sizes, print and write them, and return the exit status. All ranks call
 *  perf_coll. */
int perf_coll(const struct perf_rank *rank);

#endif
