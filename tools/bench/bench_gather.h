/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers facts, spans, weights and traces at rank 0, by key. */
#ifndef TRYST_TOOLS_BENCH_BENCH_GATHER_H
#define TRYST_TOOLS_BENCH_BENCH_GATHER_H

#include "bench_rank.h"

/** Gather all results at rank 0. All ranks call bench_gather. */
tryst_status bench_gather(struct bench_run *run, struct bench_result *result_p);
void bench_result_close(struct bench_result *result);
/** Send or receive `bytes` under (edge, iter) in the run's scope, and return the
 *  operation. */
tryst_status bench_post(struct bench_run *run, bool sends, int peer, const char *edge,
                        uint64_t iter, void *data, uint64_t bytes, tryst_op **op_p);

#endif
