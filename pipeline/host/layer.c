/* SPDX-License-Identifier: Apache-2.0 */
/* Which layer stands where in a model, and what its tensors are called. Every model is
 *
 *     embedding (-1) · block 0 · … · block layers−1 · norm, head and loss (layers)
 *
 * Called by host_stage.c and weights.c. */
#include "layer.h"

#include <stdio.h>
#include <string.h>

const layer_ops *layer_at(const tryst_model *model, int32_t index)
{
    if (index < 0) {
        return &layer_embedding;
    }
    if (index >= model->layers) {
        return &layer_head;
    }
    return model->kind == TRYST_MODEL_GPT ? &layer_gpt : &layer_mlp;
}

static void layer_tensor_name(const layer_ops *ops, int32_t index, const char *tensor,
                              char name[LAYER_NAME_MAX])
{
    const char *place = strchr(ops->prefix, '#');
    if (place) {
        snprintf(name, LAYER_NAME_MAX, "%.*s%d%s%s", (int)(place - ops->prefix),
                 ops->prefix, (int)index, place + 1, tensor);
    } else {
        snprintf(name, LAYER_NAME_MAX, "%s%s", ops->prefix, tensor);
    }
}

tryst_parameter layer_parameter(const layer_ops *ops, int32_t index,
                                const layer_tensor *tensor, char name[LAYER_NAME_MAX])
{
    layer_tensor_name(ops, index, tensor->name, name);
    return (tryst_parameter){.name = name,
                             .layer = index,
                             .rank = tensor->rank,
                             .shape = {tensor->shape[0], tensor->shape[1]},
                             .dtype = REAL_DTYPE,
                             .count = layer_tensor_count(tensor)};
}
