/* SPDX-License-Identifier: Apache-2.0 */
/* --check: runs the program once more in one process. */
#ifndef TRYST_TOOLS_BENCH_BENCH_CHECK_H
#define TRYST_TOOLS_BENCH_BENCH_CHECK_H

#include "bench_rank.h"

/** Replay the run, compare every loss and weight bit by bit, and print the result.
 *  Returns TRYST_OK and sets result->checked if all bits are equal; else
 *  TRYST_E_MISMATCH, or the failure of the replay. */
tryst_status bench_check(const struct bench_run *run, struct bench_result *result);

#endif
