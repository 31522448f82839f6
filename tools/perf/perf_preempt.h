/* SPDX-License-Identifier: Apache-2.0 */
/** @file perf_preempt.h
 *  tryst-perf preempt: how long an urgent tensor takes behind a large one of the background. */
#ifndef TRYST_TOOLS_PERF_PREEMPT_H
#define TRYST_TOOLS_PERF_PREEMPT_H

#include "perf_rank.h"

/** Measure all sizes, print and write them; the exit status. Both ranks call it. */
int perf_preempt(const struct perf_rank *rank);

#endif
