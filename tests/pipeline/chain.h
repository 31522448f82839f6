/* SPDX-License-Identifier: Apache-2.0 */
/* All stages of a model in one process, run one after the other, for tests that train
 * stages. Buffers are filled with a pattern first, so that a stage that relies on zeros
 * is detected. */
#ifndef TRYST_TESTS_PIPELINE_CHAIN_H
#define TRYST_TESTS_PIPELINE_CHAIN_H

#include "stage_update.h"

enum { CHAIN_STAGES_MAX = 8 };

struct chain {
    tryst_model model; /**< resolved */
    int stages_count;
    int microbatches_count;
    tryst_stage *stages[CHAIN_STAGES_MAX];
    tryst_stage_work *works; /**< [microbatches_count][stages_count] */
    uint8_t *tokens;         /**< [microbatches_count][microbatch_size · (seq + 1)] */
    double *losses;          /**< [microbatches_count] */
    double rate;             /**< of chain_update [0: 1] */
};

enum chain_backward_kind { CHAIN_WHOLE, CHAIN_SPLIT };

/** Open a chain; any failure fails the test. `optimizer` may be NULL. */
void chain_open(const tryst_model *model, int stages_count, int microbatches_count,
                const tryst_optimizer *optimizer, int versions_count,
                struct chain *chain_p);
/** Open a chain with all parameters of a stage; `params->error` need not be set. */
void chain_open_params(const tryst_model *model, int stages_count, int microbatches_count,
                       const tryst_stage_params *params, struct chain *chain_p);
void chain_close(struct chain *c);

/** Fill the windows of all micro-batches from a seeded text of few different bytes. */
void chain_feed(struct chain *c, uint64_t seed);

/** Run one micro-batch through all stages with weights of `version`; return the loss. */
double chain_forward(struct chain *c, int microbatch, uint64_t version);
void chain_backward(struct chain *c, int microbatch, uint64_t version,
                    enum chain_backward_kind kind);
void chain_update(struct chain *c);

/** Run forward and backward of all micro-batches in order, then the update. Return the
 *  mean loss. */
double chain_step(struct chain *c, uint64_t version, enum chain_backward_kind kind);

/** Allocate 64-byte aligned memory, filled with a pattern; fail the test without
 *  memory. */
void *chain_alloc(uint64_t bytes);

#endif
