/* SPDX-License-Identifier: Apache-2.0 */
/* See recurrence.h. */
#include "recurrence.h"
#include "chain.h"
#include "recurrence_own.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <tryst/weights.h>

struct trainer {
    const struct recurrence_params *params;
    struct chain chain; /* one micro-batch */
    struct own *owns[CHAIN_STAGES_MAX];
    bool is_own;
};

static void trainer_open(const struct recurrence_params *params, struct trainer *t)
{
    int64_t updates = params->microbatches_count / params->pipe.every;
    *t = (struct trainer){.params = params,
                          .is_own = params->is_own || params->rule->predicts};
    assert_int_equal(params->microbatches_count % params->pipe.every, 0);
    const tryst_stage_params stages = {.struct_size = sizeof stages,
                                       .optimizer = params->optimizer,
                                       .versions_count = t->is_own ? 1 : (int)updates + 1,
                                       .reference = params->reference,
                                       .precision = TRYST_PRECISION_F32};
    chain_open_params(params->model, params->pipe.stages_count, 1, &stages, &t->chain);
    for (int s = 0; s < params->pipe.stages_count && t->is_own; s++) {
        t->owns[s] =
            own_open(t->chain.stages[s], params->optimizer, params->delta_decay, updates);
    }
}

static void trainer_close(struct trainer *t)
{
    for (int s = 0; s < t->params->pipe.stages_count; s++) {
        own_close(t->owns[s]);
    }
    chain_close(&t->chain);
}

/* Write the windows of micro-batch n. */
static void trainer_feed(struct trainer *t, int64_t n)
{
    const struct recurrence_params *p = t->params;
    const tryst_model *model = &t->chain.model;
    uint64_t bytes = (uint64_t)model->microbatch_size * (uint64_t)model->seq;
    assert_int_equal(p->feed(p->feed_arg,
                             p->first_step + (uint64_t)(n / p->step_microbatches),
                             (int32_t)(n % p->step_microbatches), t->chain.tokens,
                             t->chain.tokens + bytes),
                     TRYST_OK);
}

/* Let the next computation of a stage read the weights of `read`. */
static void trainer_read(struct trainer *t, int stage, const struct recurrence_read *read)
{
    if (t->is_own) {
        own_write(t->owns[stage], read);
        t->chain.works[stage].version = 0;
    } else {
        assert_int_equal(read->slot, 0);
        t->chain.works[stage].version = (uint64_t)read->version;
    }
}

static double trainer_forward(struct trainer *t, int64_t n)
{
    const struct recurrence_params *p = t->params;
    double loss = NAN;
    for (int s = 0; s < p->pipe.stages_count; s++) {
        const struct recurrence_read read = p->rule->forward(&p->pipe, s, n);
        tryst_stage *stage = t->chain.stages[s];
        trainer_read(t, s, &read);
        assert_int_equal(stage->ops->forward(stage, &t->chain.works[s]), TRYST_OK);
    }
    memcpy(&loss, t->chain.works[p->pipe.stages_count - 1].output, sizeof loss);
    return loss;
}

static void trainer_backward(struct trainer *t, int64_t n)
{
    const struct recurrence_params *p = t->params;
    for (int s = p->pipe.stages_count - 1; s >= 0; s--) {
        const struct recurrence_read read = p->rule->backward(&p->pipe, s, n);
        tryst_stage *stage = t->chain.stages[s];
        trainer_read(t, s, &read);
        if (p->recomputes) { /* the output is the input of a backward that has run */
            assert_int_equal(stage->ops->forward(stage, &t->chain.works[s]), TRYST_OK);
        }
        assert_int_equal(stage->ops->backward(stage, &t->chain.works[s]), TRYST_OK);
    }
}

/* Make version `t_update` + 1 of every stage. */
static void trainer_update(struct trainer *t, int64_t t_update)
{
    const struct recurrence_params *p = t->params;
    for (int s = 0; s < p->pipe.stages_count; s++) {
        double delay = recurrence_delay(p->rule, &p->pipe, s, p->microbatches_count);
        const tryst_stage_update update = {.struct_size = sizeof update,
                                           .microbatches = p->pipe.every,
                                           .rate =
                                               recurrence_rate(delay, t_update, p->rate)};
        tryst_stage *stage = t->chain.stages[s];
        if (t->is_own) {
            own_update(t->owns[s], p->pipe.every, update.rate);
        } else {
            assert_int_equal(stage->ops->update(stage, &update), TRYST_OK);
        }
    }
}

static void gather(struct trainer *t, struct recurrence_result *result)
{
    float *next = result->weights;
    for (int s = 0; s < t->params->pipe.stages_count; s++) {
        if (t->is_own) {
            own_write_newest(t->owns[s]);
        }
        assert_int_equal(tryst_stage_weights_copy(t->chain.stages[s], next), TRYST_OK);
        next += t->chain.stages[s]->info.weights_count;
    }
    assert_true(next == result->weights + result->weights_count);
}

void recurrence_train(const struct recurrence_params *params,
                      struct recurrence_result *result_p)
{
    int64_t total = params->microbatches_count;
    int every = params->pipe.every;
    struct trainer t;
    struct recurrence_result r = {.weights_count =
                                      tryst_model_weights_count(params->model)};
    r.weights = calloc(r.weights_count, sizeof *r.weights);
    r.losses = calloc((size_t)total, sizeof *r.losses);
    assert_true(r.weights && r.losses);
    trainer_open(params, &t);
    for (int64_t i = 0; i < total; i++) {
        int64_t n =
            params->rule->is_reversed ? i / every * every + every - 1 - i % every : i;
        trainer_feed(&t, n);
        r.losses[n] = trainer_forward(&t, n);
        trainer_backward(&t, n);
        if ((i + 1) % every == 0) {
            trainer_update(&t, i / every);
        }
    }
    gather(&t, &r);
    trainer_close(&t);
    *result_p = r;
}

void recurrence_result_free(struct recurrence_result *result)
{
    free(result->weights);
    free(result->losses);
}

double recurrence_step_loss(const struct recurrence_result *result,
                            const struct recurrence_params *params, int64_t step)
{
    return tryst_loss_mean(result->losses + step * params->step_microbatches,
                           params->step_microbatches);
}

double recurrence_distance(const float *a, const float *b, uint64_t count)
{
    double difference = 0, norm = 0;
    for (uint64_t i = 0; i < count; i++) {
        double d = (double)a[i] - (double)b[i];
        difference += d * d;
        norm += (double)b[i] * (double)b[i];
    }
    return sqrt(difference / norm);
}
