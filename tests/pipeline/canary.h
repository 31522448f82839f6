/* SPDX-License-Identifier: Apache-2.0 */
/* A stage that computes nothing but checks its input: each byte that it reads has a value
 * that follows from (what, stage, micro-batch, step). So a tensor that is swapped, late,
 * overwritten or freed too early is detected where it happens, and so is an action out of
 * order. */
#ifndef TRYST_TESTS_PIPELINE_CANARY_H
#define TRYST_TESTS_PIPELINE_CANARY_H

#include <tryst/pipeline.h>

enum { CANARY_CALLS_MAX = 256 };

/** What one call of a canary got. */
struct canary_call {
    tryst_action_kind kind;
    int microbatch;
    uint64_t version; /**< UPDATE: the newest before it; PREDICT: 0 */
    int32_t slot;
    int32_t direction; /**< of a PREDICT, as `ahead` */
    double ahead;
    double rate; /**< of an UPDATE */
};

struct canary {
    tryst_stage base;
    const tryst_program *program;
    int stage;
    size_t next;      /**< position in the rank's list */
    bool last;        /**< set by the test before the last step of a loop */
    uint64_t step;    /**< set by the test before each step */
    uint64_t newest;  /**< weight version */
    uint64_t version; /**< `newest` when the step began */
    uint64_t first;   /**< `newest` when the first step began */
    bool begun;       /**< canary_begin was called; clear it for another engine */
    struct canary_call calls[CANARY_CALLS_MAX]; /**< the first calls, in order */
    size_t calls_count;
    int added_count;
    uint64_t delay_max_ns; /**< maximum of a random delay of each action */
    uint64_t random;
    /** device_canary.h: the functions that run in the stream */
    const tryst_stage_ops *host_ops;
    void *stream;
    uint64_t updates_queued; /**< device_canary.h: `newest` when all queued calls ran */
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
