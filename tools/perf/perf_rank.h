/* SPDX-License-Identifier: Apache-2.0 */
/** @file perf_rank.h
 *  A rank of tryst-perf, and the helpers that all its measurements share. */
#ifndef TRYST_TOOLS_PERF_PERF_RANK_H
#define TRYST_TOOLS_PERF_PERF_RANK_H

#include <stdio.h>
#include <tryst/tryst.h>

#include "perf_options.h"

struct perf_rank {
    const struct perf_options *options;
    tryst_ctx *ctx;
    tryst_group *group;
    int rank;
};

/** Report on stderr that the rank cannot do `what` ("send"), and why; return `status`. */
tryst_status perf_fail(const struct perf_rank *rank, const char *what,
                       tryst_status status, const char *text);

/** Wait for `op`, at most `timeout_ns`, report a failure on stderr, and release `op`. */
tryst_status perf_op_end(const struct perf_rank *rank, tryst_op *op, const char *what,
                         uint64_t timeout_ns);

/** Prepare the key of `edge` from rank `src` to the other rank. */
tryst_status perf_key(const struct perf_rank *rank, int src, const char *edge,
                      tryst_key **key_p);

/** Allocate memory for tensors where --memory places them, and write host memory once. */
tryst_status perf_memory(const struct perf_rank *rank, uint64_t bytes, void **data_p,
                         tryst_mem **mem_p);

/** Return tryst_now_ns in seconds. */
double perf_now_s(const struct perf_rank *rank);

/** Format a size: "4 KiB". */
void perf_bytes_text(uint64_t bytes, char *text, size_t capacity);

#endif
