/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a pp_bench run, from opening its context to the report on rank 0. */
#ifndef TRYST_TOOLS_BENCH_BENCH_RANK_H
#define TRYST_TOOLS_BENCH_BENCH_RANK_H

#include <stdio.h>

#include "bench_options.h"

/** Rank and number of ranks. If allgather is NULL, the group takes both from the
 *  launcher's environment. */
struct bench_place {
    int rank;
    int size;
    tryst_allgather_fn allgather; /**< set if ranks are threads of this process */
    void *allgather_arg;
};

/** Figures of a rank, and the sizes of its other results; each rank sends them to rank 0
 *  at the end. Plain numbers, since they are sent as bytes. */
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
    /** [ranks × stages]: figures of the stages of each rank, zeros for the others */
    tryst_engine_cost *costs;
    tryst_span **spans; /**< [ranks]: spans of the last step */
    char **traces;      /**< [ranks]: a JSON document each; "": no trace */
    /** [ranks × ranks], with --report: payload bytes from the one to the other */
    uint64_t *links;
    float *weights; /**< all weights of the model, in layer order */
    /** [replicas of a stage - 1]: as weights, of the other replicas */
    float **copies;
    int copies_count;
    uint64_t weights_count;
    double *losses;  /**< [steps]; the run owns them */
    double *seconds; /**< [steps]: duration of each step; the run owns them */
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
    /** Scope of all keys but the engine's; open during the whole run. */
    tryst_step *scope;
    tryst_data *data;
    int32_t ordinal; /**< device of this rank */
    /** What is left of --device-memory for the next stage and the engine; 0: no limit. */
    uint64_t memory_bytes_left;
    tryst_stage **stages; /**< [stages]; NULL: the stage is on another rank */
    tryst_engine *engine;
    double
        *losses; /**< [steps]; filled in on rank 0 and on the ranks of the last stage */
    int makers_count; /**< replicas of the last stage; each makes losses */
    int32_t *makers;  /**< [makers]: their ranks */
    /** [steps × makers]: send or receive of each loss; NULL: none was posted, or it has
     *  ended */
    tryst_op **loss_ops;
    /** [steps × makers × micro-batches], only with several makers: the losses of each
     *  maker's micro-batches, NAN for the others */
    double *terms;
    tryst_span *spans; /**< [spans_count], kept of a loop for --timeline */
    size_t spans_count;
    uint64_t losses_ended;     /**< all transfers of losses before this step have ended */
    double *seconds;           /**< [steps]: duration of each step */
    uint64_t begin_ns;         /**< when the training began */
    uint64_t last_progress_ns; /**< when the last line of progress was printed; 0: none */
};

/** True if `rank` has a replica of `stage`. */
bool bench_rank_has(const tryst_program *program, int rank, int stage);

/** Run one rank and return its exit status: 0, or 1 after a failure. */
int bench_rank_run(const struct bench_options *options, const struct bench_place *place);

/** Report on stderr which rank failed and why, abort the scopes so that other ranks'
 *  waits end, and return `status`. */
TRYST_PRINTF(3, 4)
tryst_status bench_fail(struct bench_run *run, tryst_status status, const char *format,
                        ...);

/** Fail because the transfer `op` in the run's scope failed, with its error or that of
 *  the aborted scope. `op` is NULL if the transfer could not be posted. `what` names
 *  it. */
tryst_status bench_transfer_fail(struct bench_run *run, tryst_status status,
                                 const tryst_op *op, const char *what);

/** Return the parameters of a stage on device `ordinal` that holds what it needs, with
 *  all of --device-memory as its limit. */
tryst_stage_params bench_stage_params(const struct bench_options *options,
                                      int32_t ordinal, const tryst_stage_need *need);

#endif
