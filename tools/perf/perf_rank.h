/* SPDX-License-Identifier: Apache-2.0 */
/** @file perf_rank.h
 *  A rank of tryst-perf, and the helpers that all its measurements share. */
#ifndef TRYST_TOOLS_PERF_PERF_RANK_H
#define TRYST_TOOLS_PERF_PERF_RANK_H

#include <stdio.h>
#include <tryst/tryst.h>

#include "tools/perf/options/perf_options.h"

/** An operation that takes longer fails the measurement. */
#define PERF_WAIT_NS 600000000000ull
/** The step of the first size; the step before it is that of perf_server.h. */
#define PERF_STEP_FIRST 2
/** Iterations under --time, at most: the samples of a size take 8 bytes each. */
#define PERF_TIMED_MOST 50000000

struct perf_rank {
    const struct perf_options *options;
    tryst_ctx *ctx;
    tryst_group *group;
    int rank;
    int peer; /**< the other rank of the pair */
};

/** Report on stderr that the rank cannot do `what` ("send"), and why; return `status`. */
tryst_status perf_fail(const struct perf_rank *rank, const char *what,
                       tryst_status status, const char *text);

/** Wait for `op`, at most `timeout_ns`, report a failure on stderr, and release `op`. */
tryst_status perf_op_end(const struct perf_rank *rank, tryst_op *op, const char *what,
                         uint64_t timeout_ns);

/** Prepare the key of `edge` from one rank to another. */
tryst_status perf_key(const struct perf_rank *rank, int from, int to, const char *edge,
                      tryst_key **key_p);

/** Allocate memory for tensors where --memory places them, and write host memory once. */
tryst_status perf_memory(const struct perf_rank *rank, uint64_t bytes, void **data_p,
                         tryst_mem **mem_p);

/** Move bytes from rank `from` to rank `to` in a step; this rank is one of the two. */
tryst_status perf_numbers_move(const struct perf_rank *rank, tryst_step *step, int from,
                               int to, void *numbers, size_t bytes);

/** Return the iterations of the next run of --time after one of `ran` iterations that
 *  took `elapsed_s`. If that is at least half of `wanted_s` it was the last run: returns
 *  `ran`. Otherwise at most ten times as many: the run that counts has taken its time,
 *  however busy the machine was in those before, and they add a fraction of it. */
uint64_t perf_iters_more(uint64_t ran, double elapsed_s, double wanted_s);

/** Return tryst_now_ns in seconds. */
double perf_now_s(const struct perf_rank *rank);

/** Report a `status` other than TRYST_OK, with tryst_last_error; return it. */
tryst_status perf_judge(const struct perf_rank *rank, const char *what,
                        tryst_status status);

/** All-reduce numbers, in a step, under a name. */
tryst_status perf_numbers_reduce(const struct perf_rank *rank, tryst_step *step,
                                 const char *name, void *numbers, uint64_t count,
                                 tryst_dtype dtype, tryst_reduce_op reduce);

/** Allocate host memory and write it once, so that its pages exist before the clock runs:
 *  mapped by the library (`*mem_p` is set), or the process's own (`*memory_p`). */
tryst_status perf_tensor_memory(const struct perf_rank *rank, uint64_t bytes,
                                tryst_mem **mem_p, void **memory_p, void **data_p);

/** True if this rank prints a table: rank 0, and the other side of a server, unless JSON
 *  or CSV goes to stdout. */
bool perf_has_table(const struct perf_rank *rank);
/** True if this rank prints CSV. */
bool perf_has_csv(const struct perf_rank *rank);
/** Write the JSON of --json at those ranks, if it was wanted. Returns 1 if that
 *  failed. */
int perf_json_write(const struct perf_rank *rank,
                    void (*print)(FILE *file, const void *what), const void *what);

/** Return the warm-up rounds of the command line, or `standard`. */
uint64_t perf_warmup(const struct perf_options *options, uint64_t standard);

/** Format a size: "4 KiB". Returns `text`. */
const char *perf_bytes_text(uint64_t bytes, char text[32]);

#endif
