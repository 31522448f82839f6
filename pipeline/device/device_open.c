/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a device stage. The memory that the stage needs is computed first and allocated
 * in one piece. So a stage that does not fit fails before it takes any, with a sentence
 * about what would fit.
 *
 * Initial weights are pure functions of their position in the model (random.h), computed
 * on the host. */
#include "device_finish.h"
#include "device_stage.h"

#include "pipeline/base/amount.h"
#include "pipeline/base/random.h"
#include "pipeline/base/refuse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/tryst.h>

/* ---- memory ------------------------------------------------------------------------ */

/* A limit of the memory for a stage, and the text that explains it. */
struct stage_room {
    uint64_t bytes;
    char whose[96];
};

/* Fail because `room` is too small; the sentence has the number of layers that would
 * fit. */
static tryst_status fail_room(const struct device_stage *stage,
                              const tryst_stage_params *params,
                              const struct stage_room *room)
{
    const tryst_stage_memory *need = &stage->layout.memory;
    const tryst_layers layers = stage->layout.info.layers;
    int32_t fitting =
        device_layout_fitting(&stage->layout, params, &stage->optimizer, room->bytes);
    char fits[96];
    if (fitting > 0) {
        snprintf(fits, sizeof(fits), "its first %d of %d layers would fit", (int)fitting,
                 (int)(layers.last - layers.first));
    } else {
        snprintf(fits, sizeof(fits), "not one of its layers would fit");
    }
    return refuse(
        TRYST_E_NOMEM,
        "cannot open a stage: out of memory for a stage of layers %d to %d on %s %d: it "
        "needs %s (weights %s, "
        "gradients %s, moments %s, scratch %s), and then %s for each micro-batch in "
        "flight, but %s; %s",
        (int)layers.first, (int)layers.last - 1, stage->kernels->name,
        (int)params->device, amount_of(need->total_bytes).text,
        amount_of(need->weights_bytes).text, amount_of(need->gradients_bytes).text,
        amount_of(need->moments_bytes).text, amount_of(need->scratch_bytes).text,
        amount_of(need->saved_bytes).text, room->whose, fits);
}

static struct stage_room room_given(const tryst_stage_params *params)
{
    struct stage_room room = {.bytes = params->memory_bytes_max};
    snprintf(room.whose, sizeof(room.whose), "its limit (memory_bytes_max) is %s",
             amount_of(room.bytes).text);
    return room;
}

/* Return the free memory of the device; UINT64_MAX without a text if that is unknown. */
static struct stage_room room_left(const struct device_stage *stage)
{
    struct stage_room room = {.bytes = UINT64_MAX};
    uint64_t left = 0, total = 0;
    stage->kernels->memory_left(stage->session, &left, &total);
    if (total > 0) {
        room.bytes = left;
        snprintf(room.whose, sizeof(room.whose), "%s of the device's %s are free",
                 amount_of(left).text, amount_of(total).text);
    }
    return room;
}

/* Fail because the allocation failed although the free memory was enough before: another
 * process took it meanwhile, or it is fragmented. */
static tryst_status fail_refused(const struct device_stage *stage,
                                 const tryst_stage_params *params)
{
    const struct stage_room room = room_left(stage);
    if (room.bytes < stage->layout.memory.total_bytes) {
        return fail_room(stage, params, &room);
    }
    return refuse(TRYST_E_NOMEM,
                  "cannot open a stage: out of memory for a stage of layers %d "
                  "to %d on %s %d: %s in one piece "
                  "were refused%s%s",
                  (int)stage->layout.info.layers.first,
                  (int)stage->layout.info.layers.last - 1, stage->kernels->name,
                  (int)params->device, amount_of(stage->layout.memory.total_bytes).text,
                  *room.whose ? ", though " : "", room.whose);
}

static tryst_status stage_allocate(struct device_stage *stage,
                                   const tryst_stage_params *params)
{
    uint64_t need = stage->layout.memory.total_bytes;
    const struct stage_room given = room_given(params), left = room_left(stage);
    if (given.bytes > 0 && need > given.bytes) {
        return fail_room(stage, params, &given);
    }
    if (need > left.bytes) {
        return fail_room(stage, params, &left);
    }
    void *memory = NULL;
    if (stage->kernels->alloc(stage->session, need, &memory) != TRYST_OK) {
        return fail_refused(stage, params);
    }
    stage->memory = memory;
    for (int32_t i = 0; i < DEVICE_LANES; i++) {
        stage->session->lanes[i].workspace =
            stage->layout.workspace_bytes > 0
                ? stage->memory + stage->layout.places.workspace[i]
                : NULL;
    }
    return TRYST_OK;
}

/* Allocate host copies of the largest tensor and its gradient, if the host cannot read
 * the device's memory. */
static tryst_status stage_mirror(struct device_stage *stage,
                                 const tryst_stage_params *params)
{
    uint64_t count = stage->layout.tensor_count_max;
    if (params->memory == TRYST_MEMORY_HOST) {
        return TRYST_OK;
    }
    tryst_status status = stage->kernels->pinned_alloc(
        stage->session, 2 * count * device_dtype_bytes(stage->session->wide),
        &stage->mirror);
    return status == TRYST_OK
               ? TRYST_OK
               : refuse(status,
                        "cannot open a stage: no pinned memory on the host "
                        "for a copy of a tensor of %llu "
                        "weights and its gradient (ulimit -l, free memory)",
                        (unsigned long long)count);
}

static tryst_status stage_events(struct device_stage *stage,
                                 const tryst_stage_params *params)
{
    const struct device_kernels *kernels = stage->kernels;
    tryst_status status = kernels->event_open(stage->session, &stage->accumulated);
    for (int32_t i = 0; status == TRYST_OK && i < DEVICE_MARKS_MAX; i++) {
        status = kernels->event_open(stage->session, &stage->marks[i].event);
    }
    return status == TRYST_OK
               ? TRYST_OK
               : refuse(status, "cannot open a stage: cannot create events on %s %d: %s",
                        kernels->name, (int)params->device, stage->session->text);
}

/* ---- initial weights --------------------------------------------------------------- */

static void tensor_fill(const struct device_stage *stage,
                        const struct device_layer *layer, int32_t t, void *values)
{
    const struct layer_tensor *tensor = &layer->tensors[t];
    uint64_t stream =
        random_stream(stage->layout.model.seed, (uint64_t)layer->index + 1, (uint64_t)t);
    uint64_t count = layer_tensor_count(tensor);
    float bound = (float)tensor->bound;
    for (uint64_t i = 0; i < count; i++) {
        float value = bound > 0 ? bound * random_signed_unit(random_at(stream, i))
                                : (float)tensor->constant;
        if (stage->session->wide == TRYST_DTYPE_F64) {
            ((double *)values)[i] = (double)value;
        } else {
            ((float *)values)[i] = value;
        }
    }
}

static tryst_status stage_initialise(struct device_stage *stage,
                                     const tryst_stage_params *params)
{
    const struct device_layout *layout = &stage->layout;
    uint64_t wide = device_dtype_bytes(stage->session->wide);
    char *masters = device_stage_masters(stage, 0);
    tryst_status status = TRYST_OK;
    for (int32_t i = 0; i < layout->layers_count; i++) {
        const struct device_layer *layer = &layout->layers[i];
        for (int32_t t = 0; status == TRYST_OK && t < layer->tensors_count; t++) {
            char *to = masters + layer->offsets[t] * wide;
            void *values = stage->mirror ? stage->mirror : to;
            tensor_fill(stage, layer, t, values);
            if (stage->mirror) {
                stage->kernels->copy(stage->session, to, values,
                                     layer_tensor_count(&layer->tensors[t]) * wide);
                status = device_session_finish(stage->session, "initial weights");
            }
        }
    }
    if (layout->rounds) {
        stage->kernels->round(&stage->session->lanes[DEVICE_COMPUTE], layout->arena_count,
                              masters, device_stage_rounded(stage, 0));
    }
    status = status == TRYST_OK ? device_session_finish(stage->session, "initial weights")
                                : status;
    return status == TRYST_OK
               ? TRYST_OK
               : refuse(
                     status,
                     "cannot open a stage: cannot copy the initial weights to %s %d: %s",
                     stage->kernels->name, (int)params->device, stage->session->text);
}

/* ---- open and close ---------------------------------------------------------------- */

static tryst_status stage_check(const tryst_model *model,
                                const struct device_kernels *kernels)
{
    int32_t width = model->hidden / model->heads;
    if (model->kind == TRYST_MODEL_GPT && width > kernels->head_width_max) {
        return refuse(TRYST_E_UNSUPPORTED,
                      "cannot open a stage: heads of %d columns are wider "
                      "than the %s kernels' %d; use more heads",
                      (int)width, kernels->name, (int)kernels->head_width_max);
    }
    return TRYST_OK;
}

/* Free the session and what it owns once its work has ended. If the work does not end in
 * time, free nothing: the device may still use it. */
static void stage_close_session(struct device_stage *stage)
{
    const struct device_kernels *kernels = stage->kernels;
    kernels->enter(stage->session);
    bool quiet = device_session_quiet(stage->session, "closing the stage");
    if (quiet) {
        for (int32_t i = 0; i < DEVICE_MARKS_MAX; i++) {
            kernels->event_close(stage->session, stage->marks[i].event);
        }
        kernels->event_close(stage->session, stage->accumulated);
        kernels->free(stage->session, stage->memory);
        kernels->pinned_free(stage->session, stage->mirror);
    }
    kernels->leave(stage->session);
    if (quiet) {
        kernels->close(stage->session);
    }
}

void device_stage_close(tryst_stage *base)
{
    struct device_stage *stage = (struct device_stage *)base;
    if (stage->session) {
        stage_close_session(stage);
    }
    device_layout_close(&stage->layout);
    free(stage->filled);
    free(stage);
}

/* Allocate and initialise the stage in its open session. */
static tryst_status stage_fill(struct device_stage *stage,
                               const tryst_stage_params *params)
{
    stage->session->timeout_ns = params->timeout_ns;
    stage->kernels->enter(stage->session);
    tryst_status status = stage_allocate(stage, params);
    if (status == TRYST_OK) {
        status = stage_mirror(stage, params);
    }
    if (status == TRYST_OK) {
        status = stage_events(stage, params);
    }
    if (status == TRYST_OK) {
        status = stage_initialise(stage, params);
    }
    stage->kernels->leave(stage->session);
    return status;
}

/* Make room for the marks of the slots. False if out of memory. */
static bool stage_slots_open(struct device_stage *stage)
{
    size_t count = (size_t)stage->base.info.slots_count;
    if (count > 0) {
        stage->filled = calloc(count, sizeof(*stage->filled));
    }
    return count == 0 || stage->filled;
}

/* Check the model, resolve the optimiser and compute the layout: all that needs no
 * session. */
static tryst_status stage_plan(struct device_stage *stage, const tryst_model *model,
                               tryst_layers layers, const tryst_stage_params *params)
{
    tryst_status status = stage_check(model, stage->kernels);
    if (status == TRYST_OK) {
        status = optimizer_init(params->optimizer, &stage->optimizer);
    }
    if (status != TRYST_OK) {
        return status;
    }
    status = device_layout_open(model, layers, params, &stage->optimizer, &stage->layout);
    stage->base.info = stage->layout.info;
    stage->delta_decay = params->delta_decay;
    if (status == TRYST_OK && !stage_slots_open(stage)) {
        status = TRYST_E_NOMEM;
    }
    return status == TRYST_OK
               ? TRYST_OK
               : refuse(status, "cannot open a stage: out of memory on the host");
}

/* Open the session. The row of kernels may be in a module that does not link libtryst, so
 * it gets a buffer for its sentence. */
static tryst_status stage_session_open(struct device_stage *stage,
                                       const tryst_stage_params *params)
{
    char error[512] = "";
    tryst_status status = stage->kernels->open(params->device, params->precision,
                                               &stage->session, error, sizeof(error));
    return status == TRYST_OK ? TRYST_OK
                              : refuse(status, "cannot open a stage: %s",
                                       *error ? error : tryst_status_str(status));
}

tryst_status device_stage_open(const tryst_model *model, tryst_layers layers,
                               const tryst_stage_params *params,
                               const struct device_kernels *kernels,
                               tryst_stage **stage_p)
{
    struct device_stage *stage = calloc(1, sizeof(*stage));
    if (!stage) {
        return refuse(TRYST_E_NOMEM, "cannot open a stage: out of memory on the host");
    }
    stage->base.ops = &device_stage_ops;
    stage->kernels = kernels;
    tryst_status status = stage_plan(stage, model, layers, params);
    if (status == TRYST_OK) {
        status = stage_session_open(stage, params);
    }
    if (status == TRYST_OK) {
        status = stage_fill(stage, params);
    }
    if (status != TRYST_OK) {
        device_stage_close(&stage->base);
        return status;
    }
    *stage_p = &stage->base;
    return TRYST_OK;
}
