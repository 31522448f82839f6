/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a pp_bench run, from opening its context to the report on rank 0. */
#ifndef TRYST_TOOLS_BENCH_RANK_H
#define TRYST_TOOLS_BENCH_RANK_H

#include <stdio.h>

#include "bench_options.h"

/* Where a rank stands. Without allgather, the environment says it. */
typedef struct bench_place {
    int rank;
    int size;
    tryst_allgather_fn allgather; /* ranks are threads of this process */
    void *allgather_arg;
} bench_place;

/* What a rank tells rank 0 at the end. Plain numbers: it travels as bytes. */
typedef struct bench_facts {
    tryst_engine_stats stats;
    uint64_t spans_count;
    uint64_t trace_bytes;
    int32_t cores_count; /* that this rank may use */
    int32_t local_size;  /* ranks on its host */
} bench_facts;

/* All that rank 0 knows after the run. */
typedef struct bench_result {
    int ranks_count;
    bench_facts *facts; /* [ranks] */
    tryst_span **spans; /* [ranks] */
    char **traces;      /* [ranks]: each a document of its own */
    float *weights;     /* of the whole model, in layer order */
    uint64_t weights_count;
    double *losses;  /* [steps] */
    double *seconds; /* [steps] */
    char digest[33]; /* of the weights */
    bool checked;    /* --check passed */
} bench_result;

/* The run of one rank. */
typedef struct bench_run {
    const bench_options *options;
    bench_place place;
    int rank;
    int size;
    tryst_ctx *ctx;
    tryst_group *group;
    tryst_step *scope; /* of all keys that are not the engine's: open for the whole run */
    tryst_data *data;
    int32_t ordinal;            /* of this rank's device */
    uint64_t memory_bytes_left; /* of --device-memory, for what is opened next */
    tryst_stage **stages;       /* [stages]; NULL where another rank's */
    tryst_engine *engine;
    double *losses; /* [steps]: on rank 0 and on the rank of the last stage */
    tryst_op *
        *loss_ops; /* [steps]: the send or receive of each, NULL once it has ended */
    uint64_t losses_ended;
    double *seconds; /* [steps] */
    uint64_t begin_ns;
    uint64_t last_progress_ns;
} bench_run;

/* Run one rank. Returns an exit status. */
int bench_rank_run(const bench_options *options, const bench_place *place);

/* Say on stderr which rank failed and why, end everybody's waits, and return `status`. */
TRYST_PRINTF(3, 4)
tryst_status bench_fail(bench_run *run, tryst_status status, const char *format, ...);

/* The same for a transfer in the run's scope, `op` or, where none was made, NULL. */
tryst_status bench_transfer_fail(bench_run *run, tryst_status status, const tryst_op *op,
                                 const char *what);

/* How to open a stage of this run: all but `versions_count`. `ordinal` is the rank's
 * device. */
tryst_stage_params bench_stage_params(const bench_options *options, int32_t ordinal);

#endif
