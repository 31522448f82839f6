/* SPDX-License-Identifier: Apache-2.0 */
/** @file perf_rank.h
 *  A rank of tryst-perf, and what all its measurements share. Callers: tryst_perf.c, perf_preempt.c. */
#ifndef TRYST_TOOLS_PERF_RANK_H
#define TRYST_TOOLS_PERF_RANK_H

#include <stdio.h>
#include <tryst/tryst.h>

#include "perf_options.h"

struct perf_rank {
    const struct perf_options *options;
    tryst_ctx *ctx;
    tryst_group *group;
    int rank;
};

/** Says on stderr what failed; returns `status`. */
tryst_status perf_fail(const struct perf_rank *rank, const char *what,
                       tryst_status status, const char *text);

/** Wait for `op`, at most `timeout_ns`, say how it failed, and release it. */
tryst_status perf_op_end(const struct perf_rank *rank, tryst_op *op, const char *what,
                         uint64_t timeout_ns);

/** Prepare the key of `edge` from rank `src` to the other one. */
tryst_status perf_key(const struct perf_rank *rank, int src, const char *edge,
                      tryst_key **key_p);

/** Memory for tensors where --memory wants it, written once. */
tryst_status perf_memory(const struct perf_rank *rank, uint64_t bytes, void **data_p,
                         tryst_mem **mem_p);

/** tryst_now_ns, in seconds. */
double perf_now_s(const struct perf_rank *rank);

/** Sorts `samples`, smallest first. */
void perf_sort(double *samples, uint64_t count);

/** "4 KiB" */
void perf_bytes_text(uint64_t bytes, char *text, size_t capacity);

/** Let `print` write `what` into the file, or onto stdout where `path` is "-"; 1 if that failed, which is
 *  said. */
int perf_json_write(const char *path, void (*print)(FILE *file, const void *what),
                    const void *what);

#endif
