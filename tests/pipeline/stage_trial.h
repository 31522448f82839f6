/* SPDX-License-Identifier: Apache-2.0 */
/* A small model as one device stage over any table of kernels, trained for a step or two;
 * tests of kernel tables compare the results. */
#ifndef TRYST_TESTS_PIPELINE_STAGE_TRIAL_H
#define TRYST_TESTS_PIPELINE_STAGE_TRIAL_H

#include "pipeline/device/device_kernels.h"

enum { STAGE_TRIAL_MICROBATCHES = 3, STAGE_TRIAL_STEPS = 2 };

/** Split: all input halves, then all weight halves. Mixed: the whole backward of an even
 *  micro-batch, between the halves of the next. All three add gradients in the same
 *  order. */
enum stage_trial_backward { STAGE_TRIAL_WHOLE, STAGE_TRIAL_SPLIT, STAGE_TRIAL_MIXED };

struct stage_trial {
    const struct device_kernels *kernels;
    tryst_precision precision;
    tryst_model model; /**< zero fields mean the defaults */
    bool recompute;
    enum stage_trial_backward backward;
    /** Read the weights of a slot, and predict into the slot again after each step's
     *  backward. */
    bool predicts;
};

struct stage_trial_result {
    double losses[STAGE_TRIAL_STEPS][STAGE_TRIAL_MICROBATCHES];
    uint64_t count;
    double *gradients; /**< of a last backward without update */
    double *weights;
};

/** Train with SGD, then compute the gradients of one more step. Any failure fails the
 *  test. */
struct stage_trial_result stage_trial_run(const struct stage_trial *trial);
void stage_trial_free(struct stage_trial_result *result);

/** Return |a − b| / |b| of two results' gradients. */
double stage_trial_distance(const struct stage_trial_result *a,
                            const struct stage_trial_result *b);
/** Check that all bits of both results are equal. */
void stage_trial_assert_equal(const struct stage_trial_result *a,
                              const struct stage_trial_result *b);

#endif
