/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers facts, spans, weights and traces at rank 0, by key. */
#ifndef TRYST_TOOLS_BENCH_BENCH_GATHER_H
#define TRYST_TOOLS_BENCH_BENCH_GATHER_H

#include "bench_rank.h"

/** Gather all results at rank 0. Every rank calls bench_gather; on other ranks *result_p
 *  stays as it is. Call bench_result_close also after a failure. */
tryst_status bench_gather(struct bench_run *run, struct bench_result *result_p);
void bench_result_close(struct bench_result *result);
/** Send (`sends`) or receive `bytes` bytes of `data` to or from `peer`, in the run's
 *  scope under the key of (edge, iter). *op_p receives the operation. A failure is
 *  reported by bench_transfer_fail. */
tryst_status bench_post(struct bench_run *run, bool sends, int peer, const char *edge,
                        uint64_t iter, void *data, uint64_t bytes, tryst_op **op_p);

#endif
