/* SPDX-License-Identifier: Apache-2.0 */
/** @file perf_coll.h
 *  tryst-perf allreduce and its like: how long a collective takes, and how far from the plan's bound. */
#ifndef TRYST_TOOLS_PERF_COLL_H
#define TRYST_TOOLS_PERF_COLL_H

#include "perf_rank.h"

/** The figures of one size. Times are of one operation, from a rank's submission to its completion; of each
 *  iteration the rank counts that took longest. */
struct perf_coll_figure {
    uint64_t bytes, count, iters;
    double seconds, seconds_p99, seconds_min; /**< median, 99th percentile, least */
    uint64_t wrong;                           /**< elements of all ranks */
    tryst_coll_info info;
};

struct perf_coll {
    const struct perf_rank *rank;
    int size; /**< of the group */
    int done; /**< figures so far */
    struct perf_coll_figure figures[PERF_SIZES_MAX];
};

/** Measure all sizes, print and write them; the exit status. All ranks call it. */
int perf_coll(const struct perf_rank *rank);

#endif
