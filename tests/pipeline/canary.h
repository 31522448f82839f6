/* SPDX-License-Identifier: Apache-2.0 */
/* A stage that computes nothing but checks its input: each byte that it reads has a value
 * that follows from (what, stage, micro-batch, step). So a tensor that is swapped, late,
 * overwritten or freed too early is detected where it happens, and so is an action out of
 * order. */
#ifndef TRYST_TESTS_PIPELINE_CANARY_H
#define TRYST_TESTS_PIPELINE_CANARY_H

#include <tryst/pipeline.h>

struct canary {
    tryst_stage base;
    const tryst_program *program;
    int stage;
    size_t next;      /**< position in the rank's list */
    uint64_t step;    /**< set by the test before each step */
    uint64_t newest;  /**< weight version */
    uint64_t version; /**< `newest` when the step began */
    int added_count;
    uint64_t delay_max_ns; /**< maximum of a random delay of each action */
    uint64_t random;
    /** device_canary.h: the functions that run in the stream */
    const tryst_stage_ops *host_ops;
    void *stream;
    int errors_count;
    char error[256]; /**< the first error */
};

void canary_init(struct canary *self, const tryst_program *program, int stage,
                 uint64_t elements_count);
/** Begin a step. */
void canary_begin(struct canary *self, uint64_t step);
/** End a step: report an error if an action of this stage is missing. */
void canary_end(struct canary *self);
/** The feed of tryst_engine_params. */
tryst_status canary_feed(void *arg, uint64_t step, int32_t microbatch, void *input,
                         uint8_t *target);

#endif
