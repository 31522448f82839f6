/* SPDX-License-Identifier: Apache-2.0 */
/** @file perf_bound.h
 *  The least time of a collective on the links of TRYST_TOPOLOGY. */
#ifndef TRYST_TOOLS_PERF_PERF_BOUND_H
#define TRYST_TOOLS_PERF_PERF_BOUND_H

#include "perf_rank.h"

/** Return the least seconds for a byte of --sizes that a plan of trees on these links can
 *  take. 0: unknown, this rank is not rank 0, or the kind is an all-reduce
 *  (tryst_coll_estimate has its bound). Blocks while the planner runs. */
double perf_bound_s_per_byte(const struct perf_rank *rank);

#endif
