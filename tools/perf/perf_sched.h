/* SPDX-License-Identifier: Apache-2.0 */
/** @file perf_sched.h
 *  Measures tryst-perf sched: a profile over ranks under each policy. */
#ifndef TRYST_TOOLS_PERF_PERF_SCHED_H
#define TRYST_TOOLS_PERF_PERF_SCHED_H

#include "perf_rank.h"

/** Measure, print and write, and return the exit status. All ranks call perf_sched. */
int perf_sched(const struct perf_rank *rank);

#endif
