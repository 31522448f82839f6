/* SPDX-License-Identifier: Apache-2.0 */
/** @file perf_hops.h
 *  Computes how long an urgent slice waits at each hop of its trees behind bytes in
 *  flight. */
#ifndef TRYST_TOOLS_PERF_PERF_HOPS_H
#define TRYST_TOOLS_PERF_PERF_HOPS_H

#include "perf_rank.h"

struct perf_hops {
    /** [from * ranks + to]: seconds that a slice waits for bytes in flight before it */
    double *wait_s;
    int ranks;
    /** true: the hosts' rates are those that the background reached; false: those of
     *  TRYST_TOPOLOGY */
    bool is_measured;
};

/** Fill in this rank's row, which must be zero. `moved` has the bytes a second that the
 *  background moved to each rank; more than 0 only for neighbours of this rank. */
tryst_status perf_hops_fill(const struct perf_rank *rank, const double *moved,
                            struct perf_hops *hops);
/** Find the longest sum of waits on a path between root and leaf, over all trees of
 *  `params`. All rows of `hops` must be filled in. */
tryst_status perf_hops_longest(const struct perf_rank *rank,
                               const tryst_coll_params *params,
                               const struct perf_hops *hops, double *seconds_p);

#endif
