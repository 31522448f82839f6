/* SPDX-License-Identifier: Apache-2.0 */
/** @file perf_preempt_coll.h
 *  Measures tryst-perf preempt --op allreduce: how long an urgent all-reduce takes under
 *  others of low priority. */
#ifndef TRYST_TOOLS_PERF_PERF_PREEMPT_COLL_H
#define TRYST_TOOLS_PERF_PERF_PREEMPT_COLL_H

#include "perf_rank.h"

/** Measure all sizes, print and write them, and return the exit status. All ranks call
 *  perf_preempt_coll. */
int perf_preempt_coll(const struct perf_rank *rank);

#endif
