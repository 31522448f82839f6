/* SPDX-License-Identifier: Apache-2.0 */
/* A stage of byte-model layers on the host: it owns the weights, their versions, the gradients
 * and the optimiser's moments, and chains the layers' passes.
 *
 * One idea: all parameters of a stage are one flat, aligned array (the arena); a weight version,
 * the gradients and each moment are arrays of the same layout. So an update is one loop, and a
 * version is one copy. Version v lives in slot v mod versions_count.
 *
 * Invariant: between two calls the gradients are the sum, in call order, over the micro-batches
 * since the last update. All scratch belongs to the stage, so calls allocate nothing.
 * Called through tryst_stage_ops; opened by stage.c. */
#include "host_stage.h"

#include "layer.h"
#include "optimizer.h"
#include "pipeline/base/memory.h"
#include "pipeline/base/random.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* One layer of the stage and where its parts begin, in reals. */
typedef struct host_layer {
    const layer_ops *ops;
    int32_t index; /* in the model: -1 embedding, `layers` head */
    int32_t tensors_count;
    layer_tensor tensors[LAYER_TENSORS_MAX];
    uint64_t offsets[LAYER_TENSORS_MAX]; /* of the tensors in an arena */
    uint64_t saved;                      /* of the layer's part of `saved` */
    uint64_t output; /* of its output there; unused for the last layer */
    uint64_t kept;   /* of its part of `kept` */
} host_layer;

typedef struct host_stage {
    tryst_stage base;
    tryst_model model;
    optimizer_state optimizer;
    uint64_t newest;
    int32_t layers_count;
    host_layer *layers;
    uint64_t arena_count; /* reals, with the padding between tensors */
    real *arenas;         /* versions, then gradients, then moments, each arena_count */
    real *kept;           /* of one layer, for the whole backward */
    real *scratch;
    real *ping[2]; /* gradients between layers */
} host_stage;

static const tryst_stage_ops host_stage_ops;

/* ---- layout -------------------------------------------------------------------------------- */

static real *host_stage_arena(const host_stage *stage, int32_t index)
{
    return stage->arenas + (uint64_t)index * stage->arena_count;
}

static real *host_stage_weights(const host_stage *stage, uint64_t version)
{
    uint64_t slot = version % (uint64_t)stage->base.info.versions_count;
    return host_stage_arena(stage, (int32_t)slot);
}

static real *host_stage_gradients(const host_stage *stage)
{
    return host_stage_arena(stage, stage->base.info.versions_count);
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Lay out one layer behind what has been laid out so far. */
static void host_stage_layout_layer(host_stage *stage, host_layer *layer, int is_last,
                                    uint64_t *saved_used, uint64_t *kept_used)
{
    const tryst_model *model = &stage->model;
    layer->tensors_count = layer->ops->tensors(model, layer->tensors);
    assert(layer->tensors_count <= LAYER_TENSORS_MAX);
    for (int32_t i = 0; i < layer->tensors_count; i++) {
        layer->offsets[i] = stage->arena_count;
        stage->arena_count += real_aligned(layer_tensor_count(&layer->tensors[i]));
        stage->base.info.weights_count += layer_tensor_count(&layer->tensors[i]);
    }
    layer->saved = *saved_used;
    *saved_used += real_aligned(layer->ops->saved_count(model));
    layer->output = *saved_used;
    *saved_used += is_last ? 0 : real_aligned(layer_activation_count(model));
    layer->kept = *kept_used;
    *kept_used += real_aligned(layer->ops->kept_count(model));
}

static void host_stage_layout(host_stage *stage)
{
    uint64_t saved_used = 0, kept_used = 0;
    for (int32_t i = 0; i < stage->layers_count; i++) {
        host_layer *layer = &stage->layers[i];
        layer->index =
            stage->base.info.layers.first + i - (stage->base.info.is_first ? 1 : 0);
        layer->ops = layer_at(&stage->model, layer->index);
        host_stage_layout_layer(stage, layer, i + 1 == stage->layers_count, &saved_used,
                                &kept_used);
    }
    stage->base.info.saved_bytes = saved_used * sizeof(real);
    stage->base.info.kept_bytes = kept_used * sizeof(real);
}

static void host_stage_describe(host_stage *stage, tryst_layers layers,
                                int32_t versions_count)
{
    const tryst_model *model = &stage->model;
    tryst_stage_info *info = &stage->base.info;
    const uint64_t count = layer_activation_count(model);
    const uint64_t bytes = (uint64_t)layer_rows(model);
    info->struct_size = sizeof(*info);
    info->layers = layers;
    info->is_first = layers.first == 0;
    info->is_last = layers.last == model->layers;
    info->input_dtype = info->is_first ? TRYST_DTYPE_U8 : REAL_DTYPE;
    info->output_dtype = info->is_last ? TRYST_DTYPE_F64 : REAL_DTYPE;
    info->input_count = info->is_first ? bytes : count;
    info->output_count = info->is_last ? 1 : count;
    info->target_count = info->is_last ? bytes : 0;
    info->versions_count = versions_count;
    info->split_backward = 1;
    stage->layers_count = layers.last - layers.first + info->is_first + info->is_last;
}

/* ---- opening ------------------------------------------------------------------------------- */

static void host_layer_initialise(const host_layer *layer, uint64_t seed, real *arena)
{
    for (int32_t i = 0; i < layer->tensors_count; i++) {
        const layer_tensor *tensor = &layer->tensors[i];
        const uint64_t count = layer_tensor_count(tensor);
        const uint64_t stream =
            random_stream(seed, (uint64_t)layer->index + 1, (uint64_t)i);
        const float bound = (float)tensor->bound;
        real *value = arena + layer->offsets[i];
        for (uint64_t j = 0; j < count; j++) {
            value[j] = bound > 0
                           ? (real)(bound * random_signed_unit(random_at(stream, j)))
                           : (real)tensor->constant;
        }
    }
}

static tryst_status host_stage_allocate(host_stage *stage)
{
    const tryst_model *model = &stage->model;
    uint64_t scratch = 0, kept = 0;
    for (int32_t i = 0; i < stage->layers_count; i++) {
        scratch = max_u64(scratch, stage->layers[i].ops->scratch_count(model));
        kept = max_u64(kept, stage->layers[i].ops->kept_count(model));
    }
    const uint64_t activation_bytes = layer_activation_count(model) * sizeof(real);
    const uint64_t arenas = (uint64_t)stage->base.info.versions_count + 1 +
                            (uint64_t)optimizer_moments_count(&stage->optimizer);
    stage->arenas = memory_alloc_aligned(arenas * stage->arena_count * sizeof(real));
    stage->kept = memory_alloc_aligned(kept * sizeof(real));
    stage->scratch = memory_alloc_aligned(scratch * sizeof(real));
    stage->ping[0] = memory_alloc_aligned(activation_bytes);
    stage->ping[1] = memory_alloc_aligned(activation_bytes);
    int whole = stage->arenas && stage->kept && stage->scratch && stage->ping[0] &&
                stage->ping[1];
    return whole ? TRYST_OK : TRYST_E_NOMEM;
}

static void host_stage_close(tryst_stage *base)
{
    host_stage *stage = (host_stage *)base;
    free(stage->ping[1]);
    free(stage->ping[0]);
    free(stage->scratch);
    free(stage->kept);
    free(stage->arenas);
    free(stage->layers);
    free(stage);
}

tryst_status host_stage_open(const tryst_model *model, tryst_layers layers,
                             const tryst_stage_params *params, tryst_stage **stage_p)
{
    host_stage *stage = calloc(1, sizeof(*stage));
    if (!stage) {
        return TRYST_E_NOMEM;
    }
    stage->base.ops = &host_stage_ops;
    stage->model = *model;
    tryst_status status = optimizer_init(params->optimizer, params->error,
                                         params->error_capacity, &stage->optimizer);
    if (status != TRYST_OK) {
        goto close;
    }
    host_stage_describe(stage, layers, params->versions_count);
    stage->layers = calloc((size_t)stage->layers_count, sizeof(*stage->layers));
    if (!stage->layers) {
        status = TRYST_E_NOMEM;
        goto close;
    }
    host_stage_layout(stage);
    status = host_stage_allocate(stage);
    if (status != TRYST_OK) {
        goto close;
    }
    for (int32_t i = 0; i < stage->layers_count; i++) {
        host_layer_initialise(&stage->layers[i], model->seed,
                              host_stage_weights(stage, 0));
    }
    *stage_p = &stage->base;
    return TRYST_OK;

close:
    host_stage_close(&stage->base);
    return status;
}

/* ---- forward and backward ------------------------------------------------------------------ */

static int host_stage_holds(const host_stage *stage, uint64_t version)
{
    uint64_t held = (uint64_t)stage->base.info.versions_count;
    return version <= stage->newest && version + held > stage->newest;
}

/* A pass of layer `i`: everything but outputs and gradients between layers. */
static layer_pass host_stage_pass(const host_stage *stage, int32_t i,
                                  const tryst_stage_work *work)
{
    const host_layer *layer = &stage->layers[i];
    real *saved = work->saved;
    layer_pass pass = {
        .model = &stage->model, .target = work->target, .scratch = stage->scratch};
    pass.input = i == 0 ? work->input : saved + layer[-1].output;
    pass.saved = saved + layer->saved;
    for (int32_t t = 0; t < layer->tensors_count; t++) {
        pass.weights[t] = host_stage_weights(stage, work->version) + layer->offsets[t];
        pass.gradients[t] = host_stage_gradients(stage) + layer->offsets[t];
    }
    return pass;
}

static void work_check(const tryst_stage *base, const tryst_stage_work *work)
{
    assert(work->input && (work->saved || !base->info.saved_bytes));
    assert(!base->info.is_last || work->target);
    assert((uintptr_t)work->saved % MEMORY_ALIGN_BYTES == 0);
    (void)base;
    (void)work;
}

static tryst_status host_stage_forward(tryst_stage *base, const tryst_stage_work *work)
{
    host_stage *stage = (host_stage *)base;
    work_check(base, work);
    assert(work->output);
    if (!host_stage_holds(stage, work->version)) {
        return TRYST_E_INVALID;
    }
    for (int32_t i = 0; i < stage->layers_count; i++) {
        layer_pass pass = host_stage_pass(stage, i, work);
        int is_last = i + 1 == stage->layers_count;
        pass.output =
            is_last ? work->output : (real *)work->saved + stage->layers[i].output;
        stage->layers[i].ops->forward(&pass);
    }
    return TRYST_OK;
}

/* Where layer `i`'s input gradient goes: out of the stage, or to the other ping buffer. */
static real *host_stage_grad_input(const host_stage *stage, int32_t i,
                                   const tryst_stage_work *work)
{
    return i == 0 ? (real *)work->grad_input : stage->ping[i % 2];
}

/* Both backward forms: with `whole`, each layer's weight half follows at once and `kept` is the
 * stage's own, reused by every layer. */
static tryst_status host_stage_run_backward(host_stage *stage,
                                            const tryst_stage_work *work, int whole)
{
    work_check(&stage->base, work);
    assert(stage->base.info.is_last || work->grad_output);
    assert(stage->base.info.is_first || work->grad_input);
    if (!host_stage_holds(stage, work->version)) {
        return TRYST_E_INVALID;
    }
    const real *grad_output = work->grad_output;
    for (int32_t i = stage->layers_count - 1; i >= 0; i--) {
        const host_layer *layer = &stage->layers[i];
        layer_pass pass = host_stage_pass(stage, i, work);
        pass.kept = whole ? stage->kept : (real *)work->kept + layer->kept;
        pass.grad_output = grad_output;
        pass.grad_input = host_stage_grad_input(stage, i, work);
        layer->ops->backward_input(&pass);
        if (whole) {
            layer->ops->backward_weight(&pass);
        }
        grad_output = pass.grad_input;
    }
    return TRYST_OK;
}

static tryst_status host_stage_backward(tryst_stage *base, const tryst_stage_work *work)
{
    return host_stage_run_backward((host_stage *)base, work, 1);
}

static tryst_status host_stage_backward_input(tryst_stage *base,
                                              const tryst_stage_work *work)
{
    assert(work->kept);
    return host_stage_run_backward((host_stage *)base, work, 0);
}

static tryst_status host_stage_backward_weight(tryst_stage *base,
                                               const tryst_stage_work *work)
{
    host_stage *stage = (host_stage *)base;
    work_check(base, work);
    assert(work->kept);
    if (!host_stage_holds(stage, work->version)) {
        return TRYST_E_INVALID;
    }
    for (int32_t i = stage->layers_count - 1; i >= 0; i--) {
        layer_pass pass = host_stage_pass(stage, i, work);
        pass.kept = (real *)work->kept + stage->layers[i].kept;
        stage->layers[i].ops->backward_weight(&pass);
    }
    return TRYST_OK;
}

/* ---- update and the rest ------------------------------------------------------------------- */

static tryst_status host_stage_update(tryst_stage *base, int32_t microbatches, void *done)
{
    (void)done;
    host_stage *stage = (host_stage *)base;
    if (microbatches < 1) {
        return TRYST_E_INVALID;
    }
    real *from = host_stage_weights(stage, stage->newest);
    real *to = host_stage_weights(stage, stage->newest + 1);
    if (to != from) {
        memcpy(to, from, stage->arena_count * sizeof(real));
    }
    real *moments[OPTIMIZER_MOMENTS_MAX] = {0};
    for (int32_t i = 0; i < optimizer_moments_count(&stage->optimizer); i++) {
        moments[i] = host_stage_arena(stage, base->info.versions_count + 1 + i);
    }
    optimizer_update(&stage->optimizer, stage->arena_count, 1.0 / microbatches, to,
                     host_stage_gradients(stage), moments);
    stage->newest++;
    return TRYST_OK;
}

static void host_stage_versions(const tryst_stage *base, uint64_t *oldest_p,
                                uint64_t *newest_p)
{
    uint64_t newest = ((const host_stage *)base)->newest;
    uint64_t held = (uint64_t)base->info.versions_count;
    *oldest_p = newest + 1 > held ? newest + 1 - held : 0;
    *newest_p = newest;
}

static int host_stage_parameter_visit(tryst_stage *base, tryst_parameter_fn fn, void *arg)
{
    const host_stage *stage = (const host_stage *)base;
    for (int32_t i = 0; i < stage->layers_count; i++) {
        const host_layer *layer = &stage->layers[i];
        for (int32_t t = 0; t < layer->tensors_count; t++) {
            char name[LAYER_NAME_MAX];
            tryst_parameter parameter =
                layer_parameter(layer->ops, layer->index, &layer->tensors[t], name);
            parameter.value =
                host_stage_weights(stage, stage->newest) + layer->offsets[t];
            parameter.gradient = host_stage_gradients(stage) + layer->offsets[t];
            int stopped = fn(arg, &parameter);
            if (stopped) {
                return stopped;
            }
        }
    }
    return 0;
}

static void host_stage_cost(const tryst_stage *base, tryst_stage_cost *cost_p)
{
    const host_stage *stage = (const host_stage *)base;
    const tryst_stage_info *info = &base->info;
    tryst_stage_cost cost = {.struct_size = sizeof(cost)};
    for (int32_t i = 0; i < stage->layers_count; i++) {
        const layer_ops *ops = stage->layers[i].ops;
        cost.forward_flops += ops->forward_flops(&stage->model);
        cost.backward_input_flops += ops->backward_input_flops(&stage->model);
        cost.backward_weight_flops += ops->backward_weight_flops(&stage->model);
    }
    cost.update_flops = optimizer_flops(&stage->optimizer) * (double)info->weights_count;
    cost.weights_bytes = info->weights_count * sizeof(real);
    cost.output_bytes =
        info->is_last ? sizeof(double) : info->output_count * sizeof(real);
    cost.activation_bytes =
        info->saved_bytes + info->input_count * (info->is_first ? 1 : sizeof(real));
    *cost_p = cost;
}

static const tryst_stage_ops host_stage_ops = {
    .struct_size = sizeof(tryst_stage_ops),
    .name = "host",
    .forward = host_stage_forward,
    .backward = host_stage_backward,
    .backward_input = host_stage_backward_input,
    .backward_weight = host_stage_backward_weight,
    .update = host_stage_update,
    .versions = host_stage_versions,
    .parameter_visit = host_stage_parameter_visit,
    .cost = host_stage_cost,
    .close = host_stage_close,
};
