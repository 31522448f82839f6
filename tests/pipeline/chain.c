/* SPDX-License-Identifier: Apache-2.0 */
/* See chain.h. */
#include "chain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void *chain_alloc(uint64_t bytes)
{
    uint64_t rounded = (bytes + 64) / 64 * 64;
    void *memory = aligned_alloc(64, rounded);
    assert_non_null(memory);
    memset(memory, 0xa5, rounded);
    return memory;
}

/* Return the size of a dtype: stages use these four. */
static uint64_t dtype_bytes(tryst_dtype dtype)
{
    switch (dtype) {
    case TRYST_DTYPE_F64: return 8;
    case TRYST_DTYPE_F32: return 4;
    case TRYST_DTYPE_BF16: return 2;
    default: return 1;
    }
}

static uint64_t windows_bytes(const struct chain *c)
{
    return (uint64_t)c->model.microbatch_size * (uint64_t)c->model.seq;
}

static tryst_stage_work *work_at(const struct chain *c, int microbatch, int stage)
{
    return &c->works[microbatch * c->stages_count + stage];
}

/* Connect the buffers of one micro-batch: the output of a stage is the input of the
 * next. */
static void chain_wire(struct chain *c, int microbatch)
{
    uint8_t *tokens = c->tokens + (uint64_t)microbatch * 2 * windows_bytes(c);
    for (int s = 0; s < c->stages_count; s++) {
        const tryst_stage_info *info = &c->stages[s]->info;
        tryst_stage_work *work = work_at(c, microbatch, s);
        work->struct_size = sizeof(*work);
        work->saved = chain_alloc(info->saved_bytes);
        work->kept = chain_alloc(info->kept_bytes);
        work->output = chain_alloc(info->output_count * dtype_bytes(info->output_dtype));
        work->input =
            s == 0 ? (const void *)tokens : work_at(c, microbatch, s - 1)->output;
        if (info->is_last) {
            work->target = tokens + windows_bytes(c);
        }
        if (s > 0) {
            work->grad_input =
                chain_alloc(info->input_count * dtype_bytes(info->input_dtype));
            work_at(c, microbatch, s - 1)->grad_output = work->grad_input;
        }
    }
}

void chain_open(const tryst_model *model, int stages_count, int microbatches_count,
                const tryst_optimizer *optimizer, int versions_count,
                struct chain *chain_p)
{
    const tryst_stage_params params = {.struct_size = sizeof(params),
                                       .optimizer = optimizer,
                                       .versions_count = versions_count};
    chain_open_params(model, stages_count, microbatches_count, &params, chain_p);
}

void chain_open_params(const tryst_model *model, int stages_count, int microbatches_count,
                       const tryst_stage_params *with, struct chain *chain_p)
{
    struct chain c = {.model.struct_size = sizeof(tryst_model),
                      .stages_count = stages_count,
                      .microbatches_count = microbatches_count};
    tryst_stage_params params = *with;
    assert_int_equal(tryst_model_resolve(model, &c.model), TRYST_OK);
    for (int s = 0; s < stages_count; s++) {
        tryst_layers layers;
        assert_int_equal(tryst_model_split(&c.model, stages_count, s, &layers), TRYST_OK);
        assert_int_equal(tryst_stage_open(&c.model, layers, &params, &c.stages[s]),
                         TRYST_OK);
    }
    c.works = calloc((size_t)microbatches_count * (size_t)stages_count, sizeof(*c.works));
    c.losses = calloc((size_t)microbatches_count, sizeof(*c.losses));
    c.tokens = chain_alloc((uint64_t)microbatches_count * 2 * windows_bytes(&c));
    for (int m = 0; m < microbatches_count; m++) {
        chain_wire(&c, m);
    }
    *chain_p = c;
}

void chain_close(struct chain *c)
{
    for (int i = 0; i < c->microbatches_count * c->stages_count; i++) {
        free(c->works[i].saved);
        free(c->works[i].kept);
        free(c->works[i].output);
        free(c->works[i].grad_input);
    }
    free(c->works);
    free(c->losses);
    free(c->tokens);
    for (int s = 0; s < c->stages_count; s++) {
        tryst_stage_close(c->stages[s]);
    }
}

void chain_feed(struct chain *c, uint64_t seed)
{
    static const char text[] =
        "the rank meets the rank and only then does anything move; ";
    uint64_t seq = (uint64_t)c->model.seq;
    uint64_t state = seed * 2 + 1;
    for (int m = 0; m < c->microbatches_count; m++) {
        uint8_t *input = c->tokens + (uint64_t)m * 2 * windows_bytes(c);
        uint8_t *target = input + windows_bytes(c);
        for (uint64_t row = 0; row < (uint64_t)c->model.microbatch_size; row++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            uint64_t offset = state >> 33;
            for (uint64_t i = 0; i < seq; i++) {
                input[row * seq + i] = (uint8_t)text[(offset + i) % (sizeof(text) - 1)];
                target[row * seq + i] =
                    (uint8_t)text[(offset + i + 1) % (sizeof(text) - 1)];
            }
        }
    }
}

double chain_forward(struct chain *c, int microbatch, uint64_t version)
{
    for (int s = 0; s < c->stages_count; s++) {
        tryst_stage_work *work = work_at(c, microbatch, s);
        work->version = version;
        assert_int_equal(c->stages[s]->ops->forward(c->stages[s], work), TRYST_OK);
    }
    const tryst_stage_work *last = work_at(c, microbatch, c->stages_count - 1);
    memcpy(&c->losses[microbatch], last->output, sizeof(double));
    return c->losses[microbatch];
}

void chain_backward(struct chain *c, int microbatch, uint64_t version,
                    enum chain_backward_kind kind)
{
    for (int s = c->stages_count - 1; s >= 0; s--) {
        const tryst_stage_ops *ops = c->stages[s]->ops;
        tryst_stage_work *work = work_at(c, microbatch, s);
        work->version = version;
        if (kind == CHAIN_WHOLE) {
            assert_int_equal(ops->backward(c->stages[s], work), TRYST_OK);
        } else {
            assert_int_equal(ops->backward_input(c->stages[s], work), TRYST_OK);
        }
    }
    for (int s = 0; kind == CHAIN_SPLIT && s < c->stages_count; s++) {
        const tryst_stage_ops *ops = c->stages[s]->ops;
        assert_int_equal(ops->backward_weight(c->stages[s], work_at(c, microbatch, s)),
                         TRYST_OK);
    }
}

void chain_update(struct chain *c)
{
    for (int s = 0; s < c->stages_count; s++) {
        assert_int_equal(c->stages[s]->ops->update(
                             c->stages[s], UPDATE(.microbatches = c->microbatches_count,
                                                  .rate = c->rate)),
                         TRYST_OK);
    }
}

double chain_step(struct chain *c, uint64_t version, enum chain_backward_kind kind)
{
    for (int m = 0; m < c->microbatches_count; m++) {
        chain_forward(c, m, version);
    }
    for (int m = 0; m < c->microbatches_count; m++) {
        chain_backward(c, m, version, kind);
    }
    chain_update(c);
    return tryst_loss_mean(c->losses, c->microbatches_count);
}
