/* SPDX-License-Identifier: Apache-2.0 */
/* --check: runs the program once more in one process. */
#ifndef TRYST_TOOLS_BENCH_BENCH_CHECK_H
#define TRYST_TOOLS_BENCH_BENCH_CHECK_H

#include "bench_rank.h"

/** Replay the run and compare every loss and weight, bit by bit. */
tryst_status bench_check(const struct bench_run *run, struct bench_result *result);

#endif
