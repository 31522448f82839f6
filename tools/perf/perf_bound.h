/* SPDX-License-Identifier: Apache-2.0 */
/** @file perf_bound.h
 *  The least time of a collective on the links of TRYST_TOPOLOGY. */
#ifndef TRYST_TOOLS_PERF_PERF_BOUND_H
#define TRYST_TOOLS_PERF_PERF_BOUND_H

#include "perf_rank.h"

/** Return the seconds for a byte of --sizes below which no plan of trees on these links
 *  goes; 0: unknown, or this rank is not rank 0. The bound of an all-reduce is
 *  tryst_coll_estimate's. Blocks while the planner runs. */
double perf_bound_s_per_byte(const struct perf_rank *rank);

#endif
