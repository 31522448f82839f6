/* SPDX-License-Identifier: Apache-2.0 */
/* The recurrence trainer: trains a model, cut into stages, by a rule of
 * recurrence_rules.h. There is no program, no rank and no engine: a loop over
 * micro-batches, each one forward through all stages and backward through all, with every
 * weight version kept. So a system's own equation, and nothing else, decides what is
 * computed, and an engine or a replay that follows another equation has other weights.
 *
 * A rule that picks versions trains on the stages' own optimisers, and the weights are
 * comparable bit by bit. A rule that predicts trains on an optimiser of the trainer's own
 * (recurrence_own.h) in fp64, and the weights are comparable within rounding. */
#ifndef TRYST_TESTS_PIPELINE_RECURRENCE_H
#define TRYST_TESTS_PIPELINE_RECURRENCE_H

#include "recurrence_rules.h"

#include <tryst/pipeline.h>

struct recurrence_params {
    const tryst_model *model;
    const tryst_optimizer *optimizer; /**< may be NULL */
    struct recurrence_pipe pipe;
    const struct recurrence_rule *rule;
    int64_t microbatches_count; /**< of the whole run, a multiple of pipe.every */
    /** Micro-batches of a step: micro-batch n is micro-batch n mod step of step n /
     *  step. */
    int step_microbatches;
    tryst_feed_fn feed;
    void *feed_arg;
    uint64_t first_step; /**< number of the first step for `feed` */
    int rate;            /**< as tryst_program_rate_set */
    double delta_decay;  /**< as tryst_stage_params.delta_decay */
    /** Each backward computes the saved activations again, with the weights that it
     *  reads itself. */
    bool recomputes;
    bool reference; /**< the stages are those of the plain C kernels */
    /** Train on the trainer's own optimiser even where the rule picks versions. */
    bool is_own;
};

struct recurrence_result {
    float *weights; /**< of the whole model, in layer order */
    uint64_t weights_count;
    double *losses; /**< [microbatches_count] */
};

/** Train; any failure fails the test. The caller gives the result to
 *  recurrence_result_free. */
void recurrence_train(const struct recurrence_params *params,
                      struct recurrence_result *result_p);
void recurrence_result_free(struct recurrence_result *result);

/** Return the mean loss of a step, as an engine and a replay compute it. */
double recurrence_step_loss(const struct recurrence_result *result,
                            const struct recurrence_params *params, int64_t step);

/** Return |a - b| / |b|, with the Euclidean norm. */
double recurrence_distance(const float *a, const float *b, uint64_t count);

#endif
