/* SPDX-License-Identifier: Apache-2.0 */
/* See stage_trial.h. Buffers come from another session of the same table. */
#include "stage_trial.h"

#include <math.h>
#include <string.h>
#include <tryst/tryst.h>

#include "pipeline/device/device_finish.h"
#include "pipeline/device/device_stage.h"
#include "pipeline/device/reference/number.h"
#include "stage_update.h"
#include "support/unit.h"

/* The buffers of one micro-batch. */
struct trial_buffers {
    tryst_stage_work work;
    void *tokens, *loss;
};

struct trial {
    const struct stage_trial *with;
    tryst_model model;
    tryst_stage *stage;
    struct device_session *memory;
    struct trial_buffers of[STAGE_TRIAL_MICROBATCHES];
};

static void *trial_alloc(struct trial *t, uint64_t bytes)
{
    void *data = NULL;
    assert_int_equal(t->with->kernels->alloc(t->memory, bytes + 64, &data), TRYST_OK);
    return data;
}

static void trial_copy(struct trial *t, void *to, const void *from, uint64_t bytes)
{
    t->with->kernels->enter(t->memory);
    t->with->kernels->copy(t->memory, to, from, bytes);
    assert_int_equal(device_session_finish(t->memory, "a copy"), TRYST_OK);
    t->with->kernels->leave(t->memory);
}

static void trial_open_buffers(struct trial *t)
{
    const tryst_stage_info *info = &t->stage->info;
    t->with->kernels->enter(t->memory);
    for (int m = 0; m < STAGE_TRIAL_MICROBATCHES; m++) {
        struct trial_buffers *b = &t->of[m];
        b->tokens = trial_alloc(t, info->input_count + 1);
        b->loss = trial_alloc(t, sizeof(double));
        b->work = (tryst_stage_work){.struct_size = sizeof(b->work),
                                     .input = b->tokens,
                                     .target = (const uint8_t *)b->tokens + 1,
                                     .output = b->loss,
                                     .saved = trial_alloc(t, info->saved_bytes),
                                     .kept = trial_alloc(t, info->kept_bytes)};
    }
    t->with->kernels->leave(t->memory);
}

static void trial_close_buffers(struct trial *t)
{
    t->with->kernels->enter(t->memory);
    for (int m = 0; m < STAGE_TRIAL_MICROBATCHES; m++) {
        t->with->kernels->free(t->memory, t->of[m].tokens);
        t->with->kernels->free(t->memory, t->of[m].loss);
        t->with->kernels->free(t->memory, t->of[m].work.saved);
        t->with->kernels->free(t->memory, t->of[m].work.kept);
    }
    t->with->kernels->leave(t->memory);
}

static void trial_feed(struct trial *t, int step)
{
    uint64_t count = t->stage->info.input_count + 1;
    uint8_t *tokens = calloc(count, 1);
    assert_non_null(tokens);
    for (int m = 0; m < STAGE_TRIAL_MICROBATCHES; m++) {
        for (uint64_t i = 0; i < count; i++) {
            tokens[i] = (uint8_t)((i * 37 + (uint64_t)(m * 11 + step * 5)) % 101);
        }
        trial_copy(t, t->of[m].tokens, tokens, count);
        t->of[m].work.version = (uint64_t)step;
        t->of[m].work.slot = t->with->predicts ? 1 : 0;
    }
    free(tokens);
}

static void trial_backward_split(struct trial *t)
{
    const tryst_stage_ops *ops = t->stage->ops;
    for (int m = 0; m < STAGE_TRIAL_MICROBATCHES; m++) {
        assert_int_equal(ops->backward_input(t->stage, &t->of[m].work), TRYST_OK);
    }
    for (int m = 0; m < STAGE_TRIAL_MICROBATCHES; m++) {
        assert_int_equal(ops->backward_weight(t->stage, &t->of[m].work), TRYST_OK);
    }
}

/* Run the whole backward of an even micro-batch between the halves of the next: its
 * gradients are still added first. */
static void trial_backward_mixed(struct trial *t)
{
    const tryst_stage_ops *ops = t->stage->ops;
    for (int m = 0; m < STAGE_TRIAL_MICROBATCHES; m += 2) {
        bool has_next = m + 1 < STAGE_TRIAL_MICROBATCHES;
        const tryst_stage_work *next = has_next ? &t->of[m + 1].work : NULL;
        if (next) {
            assert_int_equal(ops->backward_input(t->stage, next), TRYST_OK);
        }
        assert_int_equal(ops->backward(t->stage, &t->of[m].work), TRYST_OK);
        if (next) {
            assert_int_equal(ops->backward_weight(t->stage, next), TRYST_OK);
        }
    }
}

static void trial_backward(struct trial *t)
{
    switch (t->with->backward) {
    case STAGE_TRIAL_SPLIT: trial_backward_split(t); break;
    case STAGE_TRIAL_MIXED: trial_backward_mixed(t); break;
    case STAGE_TRIAL_WHOLE:
        for (int m = 0; m < STAGE_TRIAL_MICROBATCHES; m++) {
            assert_int_equal(t->stage->ops->backward(t->stage, &t->of[m].work), TRYST_OK);
        }
    }
}

static int trial_gather(void *arg, const tryst_parameter *p)
{
    struct stage_trial_result *r = arg;
    uint64_t bytes = (r->count + p->count) * sizeof(double);
    r->weights = realloc(r->weights, bytes);
    r->gradients = realloc(r->gradients, bytes);
    assert_true(r->weights && r->gradients);
    for (uint64_t i = 0; i < p->count; i++, r->count++) {
        r->weights[r->count] = number_get(p->value, p->dtype, i);
        r->gradients[r->count] = number_get(p->gradient, p->dtype, i);
    }
    return 0;
}

/* Return at once: the visit itself waits for the stage's work. */
static int trial_wait(void *arg, const tryst_parameter *p)
{
    (void)arg;
    (void)p;
    return 1;
}

/* Predict into the slot that the works read. */
static void trial_predict(struct trial *t, double ahead)
{
    if (t->with->predicts) {
        assert_int_equal(
            t->stage->ops->predict(t->stage, PREDICTION(.slot = 1, .ahead = ahead)),
            TRYST_OK);
    }
}

/* Run forward and backward of all micro-batches; then update, except in the last step. */
static void trial_step(struct trial *t, int step, struct stage_trial_result *result)
{
    bool is_last = step == STAGE_TRIAL_STEPS - 1;
    trial_feed(t, step);
    trial_predict(t, 1.5);
    for (int m = 0; m < STAGE_TRIAL_MICROBATCHES; m++) {
        assert_int_equal(t->stage->ops->forward(t->stage, &t->of[m].work), TRYST_OK);
    }
    trial_backward(t);
    trial_predict(t, -40); /* the backward above reads the old weights of the slot */
    if (is_last) {
        assert_int_equal(t->stage->ops->parameter_visit(t->stage, trial_gather, result),
                         0);
    } else {
        assert_int_equal(t->stage->ops->update(
                             t->stage, UPDATE(.microbatches = STAGE_TRIAL_MICROBATCHES)),
                         TRYST_OK);
        assert_int_equal(t->stage->ops->parameter_visit(t->stage, trial_wait, NULL), 1);
    }
    for (int m = 0; m < STAGE_TRIAL_MICROBATCHES; m++) {
        trial_copy(t, &result->losses[step][m], t->of[m].loss, sizeof(double));
    }
}

struct stage_trial_result stage_trial_run(const struct stage_trial *with)
{
    static const tryst_optimizer optimizer = {.struct_size = sizeof(optimizer),
                                              .kind = TRYST_OPTIMIZER_SGD};
    struct trial t = {.with = with};
    struct stage_trial_result result = {0};
    char error[512] = "";
    const tryst_stage_params params = {.struct_size = sizeof(params),
                                       .versions_count = 1,
                                       .optimizer = &optimizer,
                                       .memory = with->kernels->memory,
                                       .precision = with->precision,
                                       .recompute = with->recompute,
                                       .slots_count = 1};
    t.model.struct_size = sizeof(t.model);
    assert_int_equal(tryst_model_resolve(&with->model, &t.model), TRYST_OK);
    const tryst_layers all = {0, t.model.layers};
    if (device_stage_open(&t.model, all, &params, with->kernels, &t.stage) != TRYST_OK) {
        fail_msg("%s", tryst_last_error());
    }
    assert_int_equal(
        with->kernels->open(0, with->precision, &t.memory, error, sizeof(error)),
        TRYST_OK);
    trial_open_buffers(&t);
    for (int step = 0; step < STAGE_TRIAL_STEPS; step++) {
        trial_step(&t, step, &result);
    }
    trial_close_buffers(&t);
    with->kernels->close(t.memory);
    tryst_stage_close(t.stage);
    return result;
}

void stage_trial_free(struct stage_trial_result *result)
{
    free(result->gradients);
    free(result->weights);
}

double stage_trial_distance(const struct stage_trial_result *a,
                            const struct stage_trial_result *b)
{
    double error = 0, size = 0;
    assert_int_equal(a->count, b->count);
    for (uint64_t i = 0; i < a->count; i++) {
        double d = a->gradients[i] - b->gradients[i];
        error += d * d;
        size += b->gradients[i] * b->gradients[i];
    }
    assert_true(size > 0);
    return sqrt(error / size);
}

void stage_trial_assert_equal(const struct stage_trial_result *a,
                              const struct stage_trial_result *b)
{
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->losses, b->losses, sizeof(a->losses));
    assert_memory_equal(a->weights, b->weights, a->count * sizeof(double));
    assert_memory_equal(a->gradients, b->gradients, a->count * sizeof(double));
}
