/* SPDX-License-Identifier: Apache-2.0 */
/** @file perf_pairs.h
 *  Measures latency and bandwidth between the two ranks of a pair, or of several pairs at
 *  once. */
#ifndef TRYST_TOOLS_PERF_PERF_PAIRS_H
#define TRYST_TOOLS_PERF_PERF_PAIRS_H

#include "perf_rank.h"

/** Measure all sizes, print and write them, and return the exit status. All ranks call
 *  perf_pairs; their number is even. */
int perf_pairs(const struct perf_rank *rank);

#endif
