/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the layout of a stage. All parameters are in one flat arena, and every weight
 * version, the gradients and each moment are arenas of the same layout. So an update is
 * one loop.
 *
 * Masters are wide weights. If T is wide, they are the weight versions themselves
 * (version v in arena v mod versions_count). Otherwise there is one arena of masters,
 * those of the newest version, and the weight versions are rounded copies. Predicted
 * weights (slots) are of type T, as the weights that products read. */
#include "device_layout.h"

#include "device_host.h"

#include <assert.h>
#include <stdlib.h>

/* Tensors begin at multiples of this many elements: 128 bytes or more in any type. */
enum { ARENA_ALIGN = 64 };

static uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void layout_describe(struct device_layout *layout, tryst_layers layers,
                            const tryst_stage_params *params)
{
    const tryst_model *model = &layout->model;
    tryst_dtype dtype = device_precision_dtype(layout->precision);
    uint64_t count = layer_activation_count(model);
    uint64_t bytes = (uint64_t)layer_rows(model);
    int32_t is_first = layers.first == 0, is_last = layers.last == model->layers;
    layout->info = (tryst_stage_info){.struct_size = sizeof(tryst_stage_info),
                                      .layers = layers,
                                      .is_first = is_first,
                                      .is_last = is_last,
                                      .input_dtype = is_first ? TRYST_DTYPE_U8 : dtype,
                                      .output_dtype = is_last ? TRYST_DTYPE_F64 : dtype,
                                      .input_count = is_first ? bytes : count,
                                      .output_count = is_last ? 1 : count,
                                      .target_count = is_last ? bytes : 0,
                                      .versions_count = params->versions_count,
                                      .split_backward = 1,
                                      .memory = params->memory,
                                      .device = params->device,
                                      .slots_count = params->slots_count,
                                      .keeps_delta = params->delta_decay > 0};
    layout->layers_count = layers.last - layers.first + is_first + is_last;
}

static void layout_tensors(struct device_layout *layout, struct device_layer *layer)
{
    layer->tensors_count = layer->ops->tensors(&layout->model, layer->tensors);
    layer->first = layout->arena_count;
    for (int32_t t = 0; t < layer->tensors_count; t++) {
        uint64_t count = layer_tensor_count(&layer->tensors[t]);
        layer->offsets[t] = layout->arena_count;
        layout->arena_count += (count + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
        layout->info.weights_count += count;
        layout->tensor_count_max = max_u64(layout->tensor_count_max, count);
    }
    layer->count = layout->arena_count - layer->first;
}

static void layout_arrays(const struct device_layout *layout, struct device_layer *layer)
{
    layer->arrays_count =
        layer->ops->arrays(&layout->model, layout->keeps_logits, layer->arrays);
    for (int32_t i = 0; i < layer->arrays_count; i++) {
        const struct layer_array *array = &layer->arrays[i];
        struct device_carver carver = device_carver_of(layout->precision);
        carver.used = layer->bytes[array->part];
        layer->places[i] = array->is_wide ? device_carve_wide(&carver, array->count)
                                          : device_carve_t(&carver, array->count);
        layer->bytes[array->part] = carver.used;
    }
}

/* Lay out layer `i` of the stage after the layers before it. */
static void layout_layer(struct device_layout *layout, int32_t i)
{
    const tryst_model *model = &layout->model;
    tryst_stage_info *info = &layout->info;
    struct device_layer *layer = &layout->layers[i];
    struct device_carver output = device_carver_of(layout->precision);
    layer->index = info->layers.first + i - (info->is_first ? 1 : 0);
    layer->ops = layer_at(model, layer->index);
    layout_tensors(layout, layer);
    layout_arrays(layout, layer);
    layer->saved = info->saved_bytes;
    if (!layout->recompute) {
        info->saved_bytes += layer->bytes[LAYER_SAVED];
    }
    layer->output = info->saved_bytes;
    if (i + 1 < layout->layers_count) {
        device_carve_t(&output, layer_activation_count(model));
        info->saved_bytes += output.used;
    }
    layer->kept = info->kept_bytes;
    info->kept_bytes += layer->bytes[LAYER_KEPT];
}

static void layout_parameters(struct device_layout *layout, struct device_carver *carver)
{
    struct device_places *places = &layout->places;
    uint64_t count = layout->arena_count;
    uint64_t versions = (uint64_t)layout->info.versions_count;
    places->masters = device_carve_wide(carver, count * (uint64_t)layout->masters_count);
    places->rounded = device_carve_t(carver, layout->rounds ? count * versions : 0);
    places->slots = device_carve_t(carver, count * (uint64_t)layout->info.slots_count);
    layout->memory.weights_bytes = carver->used;
    places->gradients = device_carve_wide(carver, count);
    layout->memory.gradients_bytes = carver->used - places->gradients;
    places->moments = device_carve_wide(carver, count * (uint64_t)layout->moments_count);
    places->delta = device_carve_wide(carver, layout->info.keeps_delta ? count : 0);
    layout->memory.moments_bytes = carver->used - places->moments;
}

/* Lay out the memory that calls share: `kept`, ping buffers, and for each lane scratch
 * and workspace. WEIGHT needs scratch only to compute `saved` again (recompute). */
static void layout_scratch(struct device_layout *layout, struct device_carver *carver)
{
    struct device_places *places = &layout->places;
    uint64_t start = carver->used;
    uint64_t scratch = 0, kept = 0, saved = 0;
    for (int32_t i = 0; i < layout->layers_count; i++) {
        const uint64_t *bytes = layout->layers[i].bytes;
        scratch = max_u64(scratch, bytes[LAYER_SCRATCH]);
        kept = max_u64(kept, bytes[LAYER_KEPT]);
        saved = max_u64(saved, bytes[LAYER_SAVED]);
    }
    places->kept = device_carve(carver, kept);
    for (int32_t i = 0; i < 2; i++) {
        places->ping[i] = device_carve_t(carver, layer_activation_count(&layout->model));
    }
    for (int32_t lane = 0; lane < DEVICE_LANES; lane++) {
        bool used = lane == DEVICE_COMPUTE || layout->recompute;
        places->scratch[lane] = device_carve(carver, used ? scratch : 0);
        places->recomputed[lane] = device_carve(carver, layout->recompute ? saved : 0);
        places->workspace[lane] = device_carve(carver, layout->workspace_bytes);
    }
    layout->memory.scratch_bytes = carver->used - start;
}

static void layout_fill(struct device_layout *layout)
{
    struct device_carver carver = device_carver_of(layout->precision);
    for (int32_t i = 0; i < layout->layers_count; i++) {
        layout_layer(layout, i);
    }
    layout_parameters(layout, &carver);
    layout_scratch(layout, &carver);
    layout->memory.struct_size = sizeof(layout->memory);
    layout->memory.total_bytes = carver.used;
    layout->memory.saved_bytes = layout->info.saved_bytes;
    layout->memory.kept_bytes = layout->info.kept_bytes;
}

/* True if the stage runs on the row `host`: neither on a device nor on the reference,
 * which acts as a device. */
static bool is_host(const tryst_stage_params *params)
{
    return params->memory == TRYST_MEMORY_HOST && !params->reference;
}

/* Return the bytes of a lane's workspace: for the products of a device, or the attention
 * of the row `host`; 0 for the reference. */
static uint64_t workspace_bytes(const tryst_model *model,
                                const tryst_stage_params *params)
{
    if (params->memory != TRYST_MEMORY_HOST) {
        return DEVICE_WORKSPACE_BYTES;
    }
    return is_host(params) ? device_host_workspace_bytes(model->seq) : 0;
}

tryst_status device_layout_open(const tryst_model *model, tryst_layers layers,
                                const tryst_stage_params *params,
                                const struct optimizer_state *optimizer,
                                struct device_layout *layout_p)
{
    struct device_layout layout = {.model = *model,
                                   .precision = params->precision,
                                   .recompute = params->recompute != 0,
                                   .keeps_logits = is_host(params),
                                   .moments_count = optimizer_moments_count(optimizer),
                                   .workspace_bytes = workspace_bytes(model, params)};
    layout.rounds = device_precision_dtype(layout.precision) !=
                    device_precision_wide(layout.precision);
    layout.masters_count = layout.rounds ? 1 : params->versions_count;
    layout_describe(&layout, layers, params);
    layout.layers = calloc((size_t)layout.layers_count, sizeof(*layout.layers));
    if (!layout.layers) {
        return TRYST_E_NOMEM;
    }
    layout_fill(&layout);
    *layout_p = layout;
    return TRYST_OK;
}

void device_layout_close(struct device_layout *layout)
{
    free(layout->layers);
    layout->layers = NULL;
}

int32_t device_layout_fitting(const struct device_layout *layout,
                              const tryst_stage_params *params,
                              const struct optimizer_state *optimizer, uint64_t bytes)
{
    tryst_layers layers = layout->info.layers;
    for (layers.last--; layers.last > layers.first; layers.last--) {
        struct device_layout fewer;
        if (device_layout_open(&layout->model, layers, params, optimizer, &fewer) !=
            TRYST_OK) {
            return 0;
        }
        uint64_t need = fewer.memory.total_bytes;
        device_layout_close(&fewer);
        if (need <= bytes) {
            break;
        }
    }
    return layers.last - layers.first;
}
