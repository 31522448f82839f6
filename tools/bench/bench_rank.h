/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a pp_bench run, from opening its context to the report on rank 0. */
#ifndef TRYST_TOOLS_BENCH_BENCH_RANK_H
#define TRYST_TOOLS_BENCH_BENCH_RANK_H

#include <stdio.h>

#include "bench_options.h"

/** Rank and size. Without allgather, they come from the environment. */
struct bench_place {
    int rank;
    int size;
    tryst_allgather_fn allgather; /**< not NULL: ranks are threads of this process */
    void *allgather_arg;
};

/** Results that a rank sends to rank 0 at the end. Plain numbers, since they are sent as
 *  bytes. */
struct bench_facts {
    tryst_engine_stats stats;
    uint64_t spans_count;
    uint64_t trace_bytes;
    int32_t cores_count; /**< cores that this rank may use */
    int32_t local_size;  /**< ranks on its host */
};

/** All results at rank 0 after the run. */
struct bench_result {
    int ranks_count;
    struct bench_facts *facts; /**< [ranks] */
    tryst_span **spans;        /**< [ranks] */
    char **traces;             /**< [ranks]: one document each */
    float *weights;            /**< all weights of the model, in layer order */
    uint64_t weights_count;
    double *losses;  /**< [steps] */
    double *seconds; /**< [steps] */
    char digest[33]; /**< digest of the weights */
    bool checked;    /**< --check passed */
};

/** The run of one rank. */
struct bench_run {
    const struct bench_options *options;
    struct bench_place place;
    int rank;
    int size;
    tryst_ctx *ctx;
    tryst_group *group;
    tryst_step *scope; /**< scope of all keys but the engine's; open for the whole run */
    tryst_data *data;
    int32_t ordinal; /**< device of this rank */
    /** Rest of --device-memory, for the next stage and the engine. */
    uint64_t memory_bytes_left;
    tryst_stage **stages; /**< [stages]; NULL on other ranks */
    tryst_engine *engine;
    double *losses; /**< [steps]: on rank 0 and on the rank of the last stage */
    /** [steps]: send or receive of each loss; NULL once it has ended */
    tryst_op **loss_ops;
    uint64_t losses_ended;
    double *seconds; /**< [steps] */
    uint64_t begin_ns;
    uint64_t last_progress_ns;
};

/** Run one rank and return its exit status. */
int bench_rank_run(const struct bench_options *options, const struct bench_place *place);

/** Report on stderr which rank failed and why, abort the scopes so that other ranks'
 *  waits end, and return `status`. */
TRYST_PRINTF(3, 4)
tryst_status bench_fail(struct bench_run *run, tryst_status status, const char *format,
                        ...);

/** Fail with a transfer's error. `op` is a transfer in the run's scope, or NULL if it
 *  could not be posted. */
tryst_status bench_transfer_fail(struct bench_run *run, tryst_status status,
                                 const tryst_op *op, const char *what);

/** Return the parameters of a stage, except `versions_count`. `ordinal` is the rank's
 *  device. */
tryst_stage_params bench_stage_params(const struct bench_options *options,
                                      int32_t ordinal);

#endif
