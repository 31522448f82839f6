/* SPDX-License-Identifier: Apache-2.0 */
/** @file perf_preempt.h
 *  Measures tryst-perf preempt: how long an urgent tensor takes behind a large background
 *  tensor. */
#ifndef TRYST_TOOLS_PERF_PERF_PREEMPT_H
#define TRYST_TOOLS_PERF_PERF_PREEMPT_H

#include "perf_rank.h"

/** Measure all sizes, print and write them, and return the exit status. Both ranks call
 *  perf_preempt. */
int perf_preempt(const struct perf_rank *rank);

#endif
