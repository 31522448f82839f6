/* SPDX-License-Identifier: Apache-2.0 */
/** @file bench_predict.h
 *  Predicts the steps of a program from the costs of its actions. */
#ifndef TRYST_TOOLS_BENCH_PREDICT_BENCH_PREDICT_H
#define TRYST_TOOLS_BENCH_PREDICT_BENCH_PREDICT_H

#include <tryst/pipeline.h>

/** A rank in one simulated step. */
struct bench_step_rank {
    double busy_s;   /**< time of its actions */
    double wait_s;   /**< time in which it waits */
    double bubble;   /**< idle part of the step's time */
    int32_t peak;    /**< most activations (micro-batch × stage) that it holds */
    int32_t padding; /**< 0 */
};

/** One simulated step. */
struct bench_step {
    double step_s;
    double bubble; /**< mean over the ranks */
    struct bench_step_rank *ranks;
};

/** A program's first step, run alone, and a step behind many others. */
struct bench_prediction {
    struct bench_step first;
    struct bench_step later;
};

/** Simulate a checked program, a loop or not, with `params`. The caller gives the
 *  prediction to bench_prediction_close, after a failure too.
 *  Returns: TRYST_OK, TRYST_E_NOMEM, or the status of tryst_program_simulate */
tryst_status bench_predict(const tryst_program *program, const tryst_sim_params *params,
                           struct bench_prediction *prediction_p);
void bench_prediction_close(struct bench_prediction *prediction);

#endif
