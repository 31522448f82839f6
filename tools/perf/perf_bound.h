/* SPDX-License-Identifier: Apache-2.0 */
/** @file perf_bound.h
 *  The least time of a collective on the links of TRYST_TOPOLOGY. */
#ifndef TRYST_TOOLS_PERF_BOUND_H
#define TRYST_TOOLS_PERF_BOUND_H

#include "perf_rank.h"

/** Seconds for a byte of --sizes that no plan of trees on these links goes below; 0: unknown, or another rank than 0.
 *  An all-reduce's is tryst_coll_estimate's. Blocks while it plans. */
double perf_bound_s_per_byte(const struct perf_rank *rank);

#endif
