/* SPDX-License-Identifier: Apache-2.0 */
/* A stage that computes nothing but knows what it must be given: every byte that it reads
 * has a value that follows from (what, stage, micro-batch, step), so a tensor that is
 * swapped, late, overwritten or freed too early is seen where it happens, and so is an
 * action out of order. */
#ifndef TRYST_TESTS_CANARY_H
#define TRYST_TESTS_CANARY_H

#include <tryst/pipeline.h>

typedef struct canary {
    tryst_stage base;
    const tryst_program *program;
    int stage;
    size_t next;      /* position in the rank's list */
    uint64_t step;    /* set by the test before each step */
    uint64_t newest;  /* weight version */
    uint64_t version; /* newest when the step began */
    int added_count;
    uint64_t delay_max_ns; /* each action takes up to this long */
    uint64_t random;
    const tryst_stage_ops *host_ops; /* device_canary.h: what runs in its stream */
    void *stream;
    int errors_count;
    char error[256]; /* the first one */
} canary;

void canary_init(canary *self, const tryst_program *program, int stage,
                 uint64_t elements_count);
/* A step is about to begin. */
void canary_begin(canary *self, uint64_t step);
/* A step has ended: complains where an action of this stage has not. */
void canary_end(canary *self);
/* Feed for tryst_engine_params. */
tryst_status canary_feed(void *arg, uint64_t step, int32_t microbatch, void *input,
                         uint8_t *target);

#endif
