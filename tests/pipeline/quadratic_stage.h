/* SPDX-License-Identifier: Apache-2.0 */
/* A stage with one weight w and the loss L·w²/2, for tests with an answer from theory.
 * Activations and gradients pass through it unused, so each stage of a pipeline
 * is a problem of its own, with the delay that the schedule gives to its place.
 *
 * The gradient is (L + D)·f - D·b, where f is the weight that the forward read and b the
 * one that the backward reads (PipeMare's model of a delay and a discrepancy, Yang et al.
 * 2021). It is L·w where both are equal, for any D. The optimiser is SGD without
 * momentum; all arithmetic is in fp64. */
#ifndef TRYST_TESTS_PIPELINE_QUADRATIC_STAGE_H
#define TRYST_TESTS_PIPELINE_QUADRATIC_STAGE_H

#include <tryst/stage.h>

struct quadratic_params {
    int stage, stages_count; /**< place in the pipeline */
    double curvature;        /**< L */
    double discrepancy;      /**< D */
    double lr;
    double weight; /**< initial weight */
    int versions_count;
    int slots_count;
    double delta_decay; /**< as tryst_stage_params.delta_decay */
};

/** Open a stage; fail the test without memory. Give it to tryst_stage_close. */
tryst_stage *quadratic_stage_open(const struct quadratic_params *params);

/** Return a weight version that the stage holds. */
double quadratic_stage_weight(const tryst_stage *stage, uint64_t version);

#endif
