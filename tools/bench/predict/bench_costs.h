/* SPDX-License-Identifier: Apache-2.0 */
/** @file bench_costs.h
 *  pp_bench schedules --costs: what each schedule takes by the simulator. */
#ifndef TRYST_TOOLS_BENCH_PREDICT_BENCH_COSTS_H
#define TRYST_TOOLS_BENCH_PREDICT_BENCH_COSTS_H

#include <stdbool.h>

/** Print a line for each schedule, over so many ranks and micro-batches. `costs` is
 *  "F,I,W", in ms of a rank, or a file with a line of such numbers for each part of the
 *  model. False if it cannot, after a message of `tool` on stderr. */
bool bench_costs_print(const char *tool, const char *costs, int ranks, int microbatches);

#endif
