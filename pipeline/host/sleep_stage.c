/* SPDX-License-Identifier: Apache-2.0 */
/* Implements a stage that sleeps instead of computing: it shows a schedule's shape
 * without its arithmetic, and makes the measured bubble comparable with the simulator's.
 *
 * One idea: each call is a relative sleep, so late wake-ups add up as they would for real
 * work. Activations are zeros, and writing them is part of the call's time. The loss is
 * 0, and there are no parameters; weight versions and slots are counted and checked. With
 * sleep_gradient_bytes each layer is a part with a gradient of zeros, so that sums over
 * replicas take their time. */
#include "sleep_stage.h"
#include "pipeline/base/params.h"
#include "pipeline/base/refuse.h"
#include "pipeline/base/stage_calls.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tryst/sized.h>
#include <tryst/tryst.h>

struct sleep_stage {
    tryst_stage base;
    uint64_t forward_ns;
    uint64_t backward_ns;
    uint64_t input_grad_ns; /* of a split backward; the rest is the weights' part */
    uint64_t newest;
    bool *filled; /* [slots_count]: a prediction has written the slot */
    int32_t parts_count;
    uint64_t part_count; /* floats of one gradient */
    float *gradients;    /* [parts][part_count] */
    uint64_t *versions;  /* [parts]: newest weight version */
};

static void sleep_for(uint64_t duration_ns)
{
    struct timespec left = {.tv_sec = (time_t)(duration_ns / 1000000000u),
                            .tv_nsec = (long)(duration_ns % 1000000000u)};
    while (duration_ns && clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) {
    }
}

/* Write zeros, and return what is left of the call's time. */
static uint64_t write_zeros(void *data, size_t bytes, uint64_t duration_ns)
{
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    memset(data, 0, bytes);
    clock_gettime(CLOCK_MONOTONIC, &end);
    int64_t spent_ns =
        (end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec;
    return (int64_t)duration_ns > spent_ns ? duration_ns - (uint64_t)spent_ns : 0;
}

/* Sleep one part's share of a call. */
static void sleep_part(const struct sleep_stage *stage, int32_t part,
                       uint64_t duration_ns)
{
    uint64_t parts = (uint64_t)stage->parts_count, at = (uint64_t)part;
    sleep_for(duration_ns * (at + 1) / parts - duration_ns * at / parts);
}

/* Sleep for a forward, part by part. */
static tryst_status sleep_parts(const struct sleep_stage *stage,
                                const tryst_stage_work *work, uint64_t duration_ns)
{
    tryst_status status = TRYST_OK;
    if (stage->parts_count == 0) {
        sleep_for(duration_ns);
    }
    for (int32_t i = 0; i < stage->parts_count && status == TRYST_OK; i++) {
        status = work->part_needed ? work->part_needed(work->part_arg, i) : TRYST_OK;
        if (status == TRYST_OK) {
            assert(stage->versions[i] == stage->newest);
            sleep_part(stage, i, duration_ns);
        }
    }
    return status;
}

/* Sleep for a backward from the last part, and report each part if `adds`. */
static tryst_status sleep_parts_back(const struct sleep_stage *stage,
                                     const tryst_stage_work *work, uint64_t duration_ns,
                                     bool adds)
{
    tryst_status status = TRYST_OK;
    if (stage->parts_count == 0) {
        sleep_for(duration_ns);
    }
    for (int32_t i = stage->parts_count - 1; i >= 0 && status == TRYST_OK; i--) {
        sleep_part(stage, i, duration_ns);
        status =
            adds && work->part_added ? work->part_added(work->part_arg, i) : TRYST_OK;
    }
    return status;
}

static tryst_status weights_check(const struct sleep_stage *stage,
                                  const tryst_stage_work *work)
{
    return stage_weights_check(&stage->base.info, stage->filled, stage->newest, work);
}

static tryst_status sleep_stage_forward(tryst_stage *base, const tryst_stage_work *given)
{
    struct sleep_stage *stage = (struct sleep_stage *)base;
    tryst_stage_work room;
    const tryst_stage_work *work = tryst_sized_view(given, &room, sizeof(room));
    tryst_status status = work ? weights_check(stage, work) : refuse_work(given);
    if (status != TRYST_OK) {
        return status;
    }
    assert(work->output);
    size_t bytes =
        base->info.is_last ? sizeof(double) : base->info.output_count * sizeof(float);
    return sleep_parts(stage, work, write_zeros(work->output, bytes, stage->forward_ns));
}

/* Run any kind of backward: set the gradient of the input to zero, if there is one, and
 * sleep; `adds`: it adds weight gradients. */
static tryst_status sleep_stage_back(tryst_stage *base, const tryst_stage_work *given,
                                     uint64_t duration_ns, bool adds)
{
    tryst_stage_work room;
    const tryst_stage_work *work = tryst_sized_view(given, &room, sizeof(room));
    tryst_status status =
        work ? weights_check((struct sleep_stage *)base, work) : refuse_work(given);
    if (status != TRYST_OK) {
        return status;
    }
    if (work->grad_input) {
        duration_ns = write_zeros(work->grad_input,
                                  base->info.input_count * sizeof(float), duration_ns);
    }
    return sleep_parts_back((struct sleep_stage *)base, work, duration_ns, adds);
}

static tryst_status sleep_stage_backward(tryst_stage *base, const tryst_stage_work *work)
{
    return sleep_stage_back(base, work, ((struct sleep_stage *)base)->backward_ns, true);
}

static tryst_status sleep_stage_backward_input(tryst_stage *base,
                                               const tryst_stage_work *work)
{
    return sleep_stage_back(base, work, ((struct sleep_stage *)base)->input_grad_ns,
                            false);
}

static tryst_status sleep_stage_backward_weight(tryst_stage *base,
                                                const tryst_stage_work *work)
{
    const struct sleep_stage *stage = (struct sleep_stage *)base;
    return sleep_stage_back(base, work, stage->backward_ns - stage->input_grad_ns, true);
}

/* Check that all parts have the newest version, before the stage does `what`. */
static tryst_status parts_check(const struct sleep_stage *stage, const char *what)
{
    for (int32_t i = 0; i < stage->parts_count; i++) {
        if (stage->versions[i] != stage->newest) {
            return refuse_part_behind(what, i);
        }
    }
    return TRYST_OK;
}

static tryst_status sleep_stage_update_begin(tryst_stage *base,
                                             const tryst_stage_update *given)
{
    struct sleep_stage *stage = (struct sleep_stage *)base;
    tryst_stage_update update;
    tryst_status status = stage_update_read(given, &update);
    if (status == TRYST_OK) {
        status = parts_check(stage, "update the weights");
    }
    if (status == TRYST_OK) {
        stage->newest++;
    }
    return status;
}

static tryst_status sleep_stage_update(tryst_stage *base, const tryst_stage_update *given)
{
    struct sleep_stage *stage = (struct sleep_stage *)base;
    tryst_status status = sleep_stage_update_begin(base, given);
    for (int32_t i = 0; i < stage->parts_count && status == TRYST_OK; i++) {
        stage->versions[i] = stage->newest;
    }
    return status;
}

static int32_t sleep_stage_parts_count(const tryst_stage *base)
{
    return ((const struct sleep_stage *)base)->parts_count;
}

static tryst_status sleep_stage_part(const tryst_stage *base, int32_t part,
                                     tryst_stage_part *part_p)
{
    const struct sleep_stage *stage = (const struct sleep_stage *)base;
    tryst_status status = stage_part_check(part, stage->parts_count);
    if (status != TRYST_OK || !params_writable(part_p, "tryst_stage_part")) {
        return TRYST_E_INVALID;
    }
    const tryst_stage_part own = {.layer = base->info.layers.first + part,
                                  .dtype = TRYST_DTYPE_F32,
                                  .count = stage->part_count,
                                  .gradient = stage->gradients +
                                              (uint64_t)part * stage->part_count};
    (void)tryst_sized_write(part_p, &own, sizeof(own));
    return TRYST_OK;
}

static tryst_status sleep_stage_update_part(tryst_stage *base, int32_t part)
{
    struct sleep_stage *stage = (struct sleep_stage *)base;
    tryst_status status = stage_part_check(part, stage->parts_count);
    if (status == TRYST_OK && stage->versions[part] == stage->newest) {
        status = refuse_part_newest(part);
    }
    if (status == TRYST_OK) {
        stage->versions[part] = stage->newest;
    }
    return status;
}

static tryst_status sleep_stage_predict(tryst_stage *base,
                                        const tryst_stage_prediction *given)
{
    struct sleep_stage *stage = (struct sleep_stage *)base;
    tryst_stage_prediction prediction;
    tryst_status status = stage_prediction_read(&base->info, given, &prediction);
    if (status == TRYST_OK) {
        status = parts_check(stage, "predict weights");
    }
    if (status == TRYST_OK) {
        stage->filled[prediction.slot - 1] = true;
    }
    return status;
}

static void sleep_stage_versions(const tryst_stage *base, uint64_t *oldest_p,
                                 uint64_t *newest_p)
{
    stage_versions_set(&base->info, ((const struct sleep_stage *)base)->newest, oldest_p,
                       newest_p);
}

static int sleep_stage_parameter_visit(tryst_stage *base, tryst_parameter_fn fn,
                                       void *arg)
{
    (void)base;
    (void)fn;
    (void)arg;
    return 0;
}

static void sleep_stage_cost(const tryst_stage *base, tryst_stage_cost *cost_p)
{
    const struct sleep_stage *stage = (const struct sleep_stage *)base;
    const tryst_stage_cost cost = {
        .output_bytes =
            base->info.is_last ? sizeof(double) : base->info.output_count * sizeof(float),
        .activation_bytes = base->info.input_count * sizeof(float),
        .forward_ns = stage->forward_ns,
        .backward_ns = stage->backward_ns,
    };
    (void)tryst_sized_write(cost_p, &cost, sizeof(cost));
}

static void sleep_stage_close(tryst_stage *base)
{
    struct sleep_stage *stage = (struct sleep_stage *)base;
    free(stage->gradients);
    free(stage->versions);
    free(stage->filled);
    free(stage);
}

static const tryst_stage_ops sleep_stage_ops = {
    .struct_size = sizeof(tryst_stage_ops),
    .name = "sleep",
    .forward = sleep_stage_forward,
    .backward = sleep_stage_backward,
    .backward_input = sleep_stage_backward_input,
    .backward_weight = sleep_stage_backward_weight,
    .update = sleep_stage_update,
    .versions = sleep_stage_versions,
    .parameter_visit = sleep_stage_parameter_visit,
    .cost = sleep_stage_cost,
    .close = sleep_stage_close,
    .parts_count = sleep_stage_parts_count,
    .part = sleep_stage_part,
    .update_begin = sleep_stage_update_begin,
    .update_part = sleep_stage_update_part,
    .predict = sleep_stage_predict,
};

/* Make room for the marks of the slots. False if out of memory. */
static bool slots_open(struct sleep_stage *stage)
{
    size_t count = (size_t)stage->base.info.slots_count;
    if (count > 0) {
        stage->filled = calloc(count, sizeof(*stage->filled));
    }
    return count == 0 || stage->filled;
}

/* Make a part of each layer, if layers have gradients. False if out of memory. */
static bool parts_open(struct sleep_stage *stage, const tryst_model *model)
{
    const tryst_layers layers = stage->base.info.layers;
    if (model->sleep_gradient_bytes == 0) {
        return true;
    }
    stage->parts_count = layers.last - layers.first;
    stage->part_count = (model->sleep_gradient_bytes - 1) / sizeof(float) + 1;
    stage->versions = calloc((size_t)stage->parts_count, sizeof(*stage->versions));
    bool fits =
        stage->part_count <= SIZE_MAX / sizeof(float) / (size_t)stage->parts_count;
    if (fits) {
        stage->gradients = calloc((size_t)stage->parts_count * stage->part_count,
                                  sizeof(*stage->gradients));
    }
    return stage->versions && stage->gradients;
}

tryst_status sleep_stage_open(const tryst_model *model, tryst_layers layers,
                              const tryst_stage_params *params, tryst_stage **stage_p)
{
    struct sleep_stage *stage = calloc(1, sizeof(*stage));
    if (!stage) {
        return TRYST_E_NOMEM;
    }
    uint64_t count = (model->sleep_activation_bytes + sizeof(float) - 1) / sizeof(float);
    tryst_stage_info *info = &stage->base.info;
    stage->base.ops = &sleep_stage_ops;
    info->struct_size = sizeof(*info);
    info->layers = layers;
    info->is_first = layers.first == 0;
    info->is_last = layers.last == model->layers;
    info->input_dtype = info->is_first ? TRYST_DTYPE_U8 : TRYST_DTYPE_F32;
    info->output_dtype = info->is_last ? TRYST_DTYPE_F64 : TRYST_DTYPE_F32;
    info->input_count = info->is_first ? 0 : count;
    info->output_count = info->is_last ? 1 : count;
    info->versions_count = params->versions_count;
    info->slots_count = params->slots_count;
    info->keeps_delta = params->delta_decay > 0;
    info->split_backward = true;
    stage->forward_ns = model->sleep_forward_ns;
    stage->backward_ns = model->sleep_backward_ns;
    bool split = model->sleep_input_grad_ns > 0 || model->sleep_weight_grad_ns > 0;
    stage->input_grad_ns =
        split ? model->sleep_input_grad_ns : model->sleep_backward_ns / 2;
    if (!slots_open(stage) || !parts_open(stage, model)) {
        sleep_stage_close(&stage->base);
        return TRYST_E_NOMEM;
    }
    *stage_p = &stage->base;
    return TRYST_OK;
}
