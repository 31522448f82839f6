/* SPDX-License-Identifier: Apache-2.0 */
/* See quadratic_stage.h. */
#include "quadratic_stage.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <tryst/sized.h>

struct quadratic {
    tryst_stage base;
    struct quadratic_params params;
    uint64_t newest;
    double *versions; /* [versions_count], version v at v mod versions_count */
    double *slots;    /* [slots_count + 1], from 1 */
    double gradient;  /* sum since the last update */
    double velocity;  /* mean gradient of the last update */
    double delta;     /* mean change of the weight by one update */
};

static double *version_at(const struct quadratic *q, uint64_t version)
{
    return &q->versions[version % (uint64_t)q->params.versions_count];
}

double quadratic_stage_weight(const tryst_stage *stage, uint64_t version)
{
    return *version_at((const struct quadratic *)stage, version);
}

/* Find the weight that `work` reads. */
static tryst_status weight_of(const struct quadratic *q, const tryst_stage_work *work,
                              double *weight_p)
{
    if (work->slot > 0) {
        if (work->slot > q->params.slots_count) {
            return TRYST_E_INVALID;
        }
        *weight_p = q->slots[work->slot];
        return TRYST_OK;
    }
    if (work->version > q->newest ||
        work->version + (uint64_t)q->params.versions_count <= q->newest) {
        return TRYST_E_INVALID;
    }
    *weight_p = *version_at(q, work->version);
    return TRYST_OK;
}

static tryst_status quadratic_forward(tryst_stage *base, const tryst_stage_work *work)
{
    struct quadratic *q = (struct quadratic *)base;
    double weight;
    tryst_status status = weight_of(q, work, &weight);
    if (status != TRYST_OK) {
        return status;
    }
    memcpy(work->saved, &weight, sizeof weight);
    if (base->info.is_last) {
        double loss = q->params.curvature * weight * weight / 2;
        memcpy(work->output, &loss, sizeof loss);
    } else if (base->info.is_first) {
        *(float *)work->output = 1;
    } else {
        memcpy(work->output, work->input, sizeof(float));
    }
    return TRYST_OK;
}

static tryst_status quadratic_backward_input(tryst_stage *base,
                                             const tryst_stage_work *work)
{
    double weight;
    tryst_status status = weight_of((struct quadratic *)base, work, &weight);
    if (status != TRYST_OK || base->info.is_first) {
        return status;
    }
    if (base->info.is_last) {
        *(float *)work->grad_input = 1;
    } else {
        memcpy(work->grad_input, work->grad_output, sizeof(float));
    }
    return TRYST_OK;
}

static tryst_status quadratic_backward_weight(tryst_stage *base,
                                              const tryst_stage_work *work)
{
    struct quadratic *q = (struct quadratic *)base;
    double weight, forward_weight;
    tryst_status status = weight_of(q, work, &weight);
    if (status == TRYST_OK) {
        memcpy(&forward_weight, work->saved, sizeof forward_weight);
        q->gradient += (q->params.curvature + q->params.discrepancy) * forward_weight -
                       q->params.discrepancy * weight;
    }
    return status;
}

static tryst_status quadratic_backward(tryst_stage *base, const tryst_stage_work *work)
{
    tryst_status status = quadratic_backward_input(base, work);
    return status == TRYST_OK ? quadratic_backward_weight(base, work) : status;
}

static tryst_status quadratic_update(tryst_stage *base, const tryst_stage_update *update)
{
    struct quadratic *q = (struct quadratic *)base;
    double rate = update->rate == 0 ? 1 : update->rate, decay = q->params.delta_decay;
    if (update->microbatches < 1 || !isfinite(rate) || rate < 0) {
        return TRYST_E_INVALID;
    }
    double old = *version_at(q, q->newest);
    q->velocity = q->gradient / update->microbatches;
    double new = old - q->params.lr *rate * q->velocity;
    q->delta = decay * q->delta + (1 - decay) * (new - old);
    q->gradient = 0;
    q->newest++;
    *version_at(q, q->newest) = new;
    return TRYST_OK;
}

static tryst_status quadratic_predict(tryst_stage *base,
                                      const tryst_stage_prediction *prediction)
{
    struct quadratic *q = (struct quadratic *)base;
    bool is_delta = prediction->direction == TRYST_DIRECTION_DELTA;
    if (prediction->slot < 1 || prediction->slot > q->params.slots_count ||
        !isfinite(prediction->ahead) || (is_delta && !base->info.keeps_delta) ||
        (!is_delta && prediction->direction != TRYST_DIRECTION_STEP)) {
        return TRYST_E_INVALID;
    }
    q->slots[prediction->slot] =
        *version_at(q, q->newest) +
        prediction->ahead * (is_delta ? q->delta : -q->params.lr * q->velocity);
    return TRYST_OK;
}

static void quadratic_versions(const tryst_stage *base, uint64_t *oldest_p,
                               uint64_t *newest_p)
{
    const struct quadratic *q = (const struct quadratic *)base;
    uint64_t held = (uint64_t)q->params.versions_count;
    *oldest_p = q->newest + 1 > held ? q->newest + 1 - held : 0;
    *newest_p = q->newest;
}

static int quadratic_parameter_visit(tryst_stage *base, tryst_parameter_fn fn, void *arg)
{
    struct quadratic *q = (struct quadratic *)base;
    const tryst_parameter parameter = {.struct_size = sizeof parameter,
                                       .name = "quadratic.weight",
                                       .layer = q->params.stage,
                                       .rank = 1,
                                       .shape = {1, 0},
                                       .dtype = TRYST_DTYPE_F64,
                                       .count = 1,
                                       .value = version_at(q, q->newest),
                                       .gradient = &q->gradient};
    return fn(arg, &parameter);
}

static void quadratic_cost(const tryst_stage *base, tryst_stage_cost *cost_p)
{
    const tryst_stage_cost cost = {.struct_size = sizeof cost,
                                   .weights_bytes = sizeof(double),
                                   .output_bytes = base->info.is_last ? sizeof(double)
                                                                      : sizeof(float),
                                   .activation_bytes = sizeof(double)};
    (void)tryst_sized_write(cost_p, &cost, sizeof cost);
}

static void quadratic_close(tryst_stage *base)
{
    struct quadratic *q = (struct quadratic *)base;
    free(q->versions);
    free(q->slots);
    free(q);
}

static const tryst_stage_ops quadratic_ops = {
    .struct_size = sizeof(tryst_stage_ops),
    .name = "quadratic",
    .forward = quadratic_forward,
    .backward = quadratic_backward,
    .backward_input = quadratic_backward_input,
    .backward_weight = quadratic_backward_weight,
    .update = quadratic_update,
    .versions = quadratic_versions,
    .parameter_visit = quadratic_parameter_visit,
    .cost = quadratic_cost,
    .close = quadratic_close,
    .predict = quadratic_predict,
};

static tryst_stage_info info_of(const struct quadratic_params *p)
{
    bool is_first = p->stage == 0, is_last = p->stage == p->stages_count - 1;
    return (tryst_stage_info){.struct_size = sizeof(tryst_stage_info),
                              .layers = {p->stage, p->stage + 1},
                              .is_first = is_first,
                              .is_last = is_last,
                              .input_dtype = is_first ? TRYST_DTYPE_U8 : TRYST_DTYPE_F32,
                              .output_dtype = is_last ? TRYST_DTYPE_F64 : TRYST_DTYPE_F32,
                              .input_count = !is_first,
                              .output_count = 1,
                              .saved_bytes = sizeof(double),
                              .weights_count = 1,
                              .versions_count = p->versions_count,
                              .split_backward = true,
                              .slots_count = p->slots_count,
                              .keeps_delta = p->delta_decay > 0};
}

tryst_stage *quadratic_stage_open(const struct quadratic_params *params)
{
    struct quadratic *q = calloc(1, sizeof *q);
    assert_non_null(q);
    q->base.ops = &quadratic_ops;
    q->base.info = info_of(params);
    q->params = *params;
    q->versions = calloc((size_t)params->versions_count, sizeof *q->versions);
    q->slots = calloc((size_t)params->slots_count + 1, sizeof *q->slots);
    assert_true(q->versions && q->slots);
    *version_at(q, 0) = params->weight;
    return &q->base;
}
