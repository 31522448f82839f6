/* SPDX-License-Identifier: Apache-2.0 */
/* A whole small model as one device stage over any row of kernels, trained for a step or two: what the
 * tests of rows compare. */
#ifndef TESTS_PIPELINE_STAGE_TRIAL_H
#define TESTS_PIPELINE_STAGE_TRIAL_H

#include "pipeline/device/device_kernels.h"

enum { STAGE_TRIAL_MICROBATCHES = 3, STAGE_TRIAL_STEPS = 2 };

/* Split: all input halves, then all weight halves. Mixed: an even micro-batch whole, between the halves
 * of the next. Gradients are added in the same order by all three. */
typedef enum stage_trial_backward {
    STAGE_TRIAL_WHOLE,
    STAGE_TRIAL_SPLIT,
    STAGE_TRIAL_MIXED
} stage_trial_backward;

typedef struct stage_trial {
    const device_kernels *kernels;
    tryst_precision precision;
    tryst_model model; /* zero fields: the default */
    bool recompute;
    stage_trial_backward backward;
} stage_trial;

typedef struct stage_trial_result {
    double losses[STAGE_TRIAL_STEPS][STAGE_TRIAL_MICROBATCHES];
    uint64_t count;
    double *gradients; /* of a last backward, without update */
    double *weights;
} stage_trial_result;

/* Steps with SGD, then one more micro-batch's gradients. Any failure fails the test. */
stage_trial_result stage_trial_run(const stage_trial *trial);
void stage_trial_free(stage_trial_result *result);

/* |a − b| / |b| of two results' gradients. */
double stage_trial_distance(const stage_trial_result *a, const stage_trial_result *b);
/* Equal bits in all of both. */
void stage_trial_assert_equal(const stage_trial_result *a, const stage_trial_result *b);

#endif
