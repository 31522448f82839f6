/* SPDX-License-Identifier: Apache-2.0 */
/** @file perf_hops.h
 *  How long an urgent slice waits at each hop of its trees behind what is in flight. */
#ifndef TRYST_TOOLS_PERF_HOPS_H
#define TRYST_TOOLS_PERF_HOPS_H

#include "perf_rank.h"

struct perf_hops {
    double *
        wait_s; /**< [from * ranks + to]: bytes in flight before a slice, divided by the rate of the host */
    int ranks;
    bool
        is_measured; /**< the hosts' rates are those of the background; false: those of TRYST_TOPOLOGY */
};

/** Fill in this rank's row of `hops`, whose memory is zero: of each neighbour with `moved` bytes a second. */
tryst_status perf_hops_fill(const struct perf_rank *rank, const double *moved,
                            struct perf_hops *hops);
/** The longest sum of waits on a path between the root and a leaf, of all trees of `params`, once all rows are
 *  there. */
tryst_status perf_hops_longest(const struct perf_rank *rank,
                               const tryst_coll_params *params,
                               const struct perf_hops *hops, double *seconds_p);

#endif
