/* SPDX-License-Identifier: Apache-2.0 */
/* All stages of a model in one process, run one after the other: what the tests of stages train
 * with. Buffers are filled with a pattern first, so that a stage that counts on zeros is seen. */
#ifndef TESTS_PIPELINE_CHAIN_H
#define TESTS_PIPELINE_CHAIN_H

#include <tryst/stage.h>

enum { CHAIN_STAGES_MAX = 8 };

typedef struct chain {
    tryst_model model; /* resolved */
    int stages_count;
    int microbatches_count;
    tryst_stage *stages[CHAIN_STAGES_MAX];
    tryst_stage_work *works; /* [microbatches_count][stages_count] */
    uint8_t *tokens;         /* [microbatches_count][microbatch_size · (seq + 1)] */
    double *losses;          /* [microbatches_count] */
} chain;

typedef enum chain_backward_kind { CHAIN_WHOLE, CHAIN_SPLIT } chain_backward_kind;

/* Any failure fails the test. `optimizer` may be NULL. */
void chain_open(const tryst_model *model, int stages_count, int microbatches_count,
                const tryst_optimizer *optimizer, int versions_count, chain *chain_p);
/* The same with all of a stage's parameters; `params->error` need not be set. */
void chain_open_params(const tryst_model *model, int stages_count, int microbatches_count,
                       const tryst_stage_params *params, chain *chain_p);
void chain_close(chain *c);

/* Fill the windows of all micro-batches from a seeded text of few different bytes. */
void chain_feed(chain *c, uint64_t seed);

/* One micro-batch through all stages, reading `version`; returns the loss. */
double chain_forward(chain *c, int microbatch, uint64_t version);
void chain_backward(chain *c, int microbatch, uint64_t version, chain_backward_kind kind);
void chain_update(chain *c);

/* Forward and backward of all micro-batches in order, then update. Returns the mean loss. */
double chain_step(chain *c, uint64_t version, chain_backward_kind kind);

/* 64-byte aligned, filled with a pattern; fails the test when there is no memory. */
void *chain_alloc(uint64_t bytes);

#endif
