/* SPDX-License-Identifier: Apache-2.0 */
/* Implements a stage that sleeps instead of computing: it shows a schedule's shape
 * without its arithmetic, and makes the measured bubble comparable with the simulator's.
 *
 * One idea: each call is a relative sleep, so late wake-ups add up as they would for real
 * work. Activations are zeros, the loss is 0, and there are no parameters; weight
 * versions are still counted and checked. */
#include "sleep_stage.h"
#include "pipeline/base/refuse.h"

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
    uint64_t newest;
};

static void sleep_for(uint64_t duration_ns)
{
    struct timespec left = {.tv_sec = (time_t)(duration_ns / 1000000000u),
                            .tv_nsec = (long)(duration_ns % 1000000000u)};
    while (duration_ns && clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) {
    }
}

static tryst_status sleep_stage_check(const struct sleep_stage *stage, uint64_t version)
{
    uint64_t held = (uint64_t)stage->base.info.versions_count;
    if (version <= stage->newest && version + held > stage->newest) {
        return TRYST_OK;
    }
    return refuse(TRYST_E_INVALID,
                  "cannot compute with weight version %llu: the stage "
                  "holds %llu, the newest is %llu",
                  (unsigned long long)version, (unsigned long long)held,
                  (unsigned long long)stage->newest);
}

static tryst_status refuse_work(const tryst_stage_work *given)
{
    return refuse(TRYST_E_INVALID, "cannot read tryst_stage_work: %s",
                  tryst_sized_reason(given));
}

static tryst_status sleep_stage_forward(tryst_stage *base, const tryst_stage_work *given)
{
    struct sleep_stage *stage = (struct sleep_stage *)base;
    tryst_stage_work room;
    const tryst_stage_work *work = tryst_sized_view(given, &room, sizeof(room));
    tryst_status status =
        work ? sleep_stage_check(stage, work->version) : refuse_work(given);
    if (status != TRYST_OK) {
        return status;
    }
    assert(work->output);
    memset(work->output, 0,
           base->info.is_last ? sizeof(double) : base->info.output_count * sizeof(float));
    sleep_for(stage->forward_ns);
    return TRYST_OK;
}

/* Run any kind of backward: set the gradient of the input to zero, if there is one, and
 * sleep. */
static tryst_status sleep_stage_back(tryst_stage *base, const tryst_stage_work *given,
                                     uint64_t duration_ns)
{
    tryst_stage_work room;
    const tryst_stage_work *work = tryst_sized_view(given, &room, sizeof(room));
    tryst_status status =
        work ? sleep_stage_check((struct sleep_stage *)base, work->version)
             : refuse_work(given);
    if (status != TRYST_OK) {
        return status;
    }
    if (work->grad_input) {
        memset(work->grad_input, 0, base->info.input_count * sizeof(float));
    }
    sleep_for(duration_ns);
    return TRYST_OK;
}

static tryst_status sleep_stage_backward(tryst_stage *base, const tryst_stage_work *work)
{
    return sleep_stage_back(base, work, ((struct sleep_stage *)base)->backward_ns);
}

static tryst_status sleep_stage_backward_input(tryst_stage *base,
                                               const tryst_stage_work *work)
{
    return sleep_stage_back(base, work, ((struct sleep_stage *)base)->backward_ns / 2);
}

static tryst_status sleep_stage_backward_weight(tryst_stage *base,
                                                const tryst_stage_work *work)
{
    uint64_t whole_ns = ((struct sleep_stage *)base)->backward_ns;
    return sleep_stage_back(base, work, whole_ns - whole_ns / 2);
}

static tryst_status sleep_stage_update_begin(tryst_stage *base, int32_t microbatches)
{
    if (microbatches < 1) {
        return refuse(
            TRYST_E_INVALID,
            "cannot update the weights: the step has %d micro-batches (1 or more)",
            microbatches);
    }
    ((struct sleep_stage *)base)->newest++;
    return TRYST_OK;
}

static tryst_status sleep_stage_update(tryst_stage *base, int32_t microbatches,
                                       void *done)
{
    (void)done;
    return sleep_stage_update_begin(base, microbatches);
}

static int32_t sleep_stage_parts_count(const tryst_stage *base)
{
    (void)base;
    return 0;
}

static tryst_status sleep_stage_part(const tryst_stage *base, int32_t part,
                                     tryst_stage_part *part_p)
{
    (void)base;
    (void)part_p;
    return refuse(TRYST_E_INVALID,
                  "cannot use part %d of the stage: it only sleeps, and has no parts",
                  (int)part);
}

static tryst_status sleep_stage_update_part(tryst_stage *base, int32_t part)
{
    return sleep_stage_part(base, part, NULL);
}

static void sleep_stage_versions(const tryst_stage *base, uint64_t *oldest_p,
                                 uint64_t *newest_p)
{
    uint64_t newest = ((const struct sleep_stage *)base)->newest;
    uint64_t held = (uint64_t)base->info.versions_count;
    *oldest_p = newest + 1 > held ? newest + 1 - held : 0;
    *newest_p = newest;
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
    free(base);
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
};

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
    info->split_backward = true;
    stage->forward_ns = model->sleep_forward_ns;
    stage->backward_ns = model->sleep_backward_ns;
    *stage_p = &stage->base;
    return TRYST_OK;
}
