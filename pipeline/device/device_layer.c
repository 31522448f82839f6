/* SPDX-License-Identifier: Apache-2.0 */
/* Orders the layers of a model, names their tensors, and builds their products. Weights
 * are [out, in]. Every model is
 *
 *     embedding (-1) · block 0 · … · block layers−1 · norm, head and loss (layers) */
#include "device_layer.h"

#include <stdio.h>
#include <string.h>

const struct layer_ops *layer_at(const tryst_model *model, int32_t index)
{
    if (index < 0) {
        return &layer_embedding;
    }
    if (index >= model->layers) {
        return &layer_head;
    }
    return model->kind == TRYST_MODEL_GPT ? &layer_gpt : &layer_mlp;
}

static void layer_tensor_name(const struct layer_ops *ops, int32_t index,
                              const char *tensor, char name[LAYER_NAME_MAX])
{
    const char *place = strchr(ops->prefix, '#');
    if (place) {
        snprintf(name, LAYER_NAME_MAX, "%.*s%d%s%s", (int)(place - ops->prefix),
                 ops->prefix, (int)index, place + 1, tensor);
    } else {
        snprintf(name, LAYER_NAME_MAX, "%s%s", ops->prefix, tensor);
    }
}

tryst_parameter layer_parameter(const struct layer_ops *ops, int32_t index,
                                const struct layer_tensor *tensor,
                                char name[LAYER_NAME_MAX])
{
    layer_tensor_name(ops, index, tensor->name, name);
    return (tryst_parameter){.struct_size = sizeof(tryst_parameter),
                             .name = name,
                             .layer = index,
                             .rank = tensor->rank,
                             .shape = {tensor->shape[0], tensor->shape[1]},
                             .dtype = TRYST_DTYPE_F32,
                             .count = layer_tensor_count(tensor)};
}

/* ---- products of layers ------------------------------------------------------------ */

void device_linear_forward(const struct device_pass *pass, int32_t in, int32_t out,
                           const void *x, const void *weight, const void *bias,
                           const void *add, void *before, void *y)
{
    const struct device_product product = {.m = layer_rows(pass->model),
                                           .n = out,
                                           .k = in,
                                           .b_transposed = true,
                                           .epilogue = before ? DEVICE_EPILOGUE_GELU
                                                              : DEVICE_EPILOGUE_NONE,
                                           .a = x,
                                           .b = weight,
                                           .bias = bias,
                                           .add = add,
                                           .aux = before,
                                           .d = y};
    pass->kernels->product(pass->lane, &product);
}

void device_linear_backward_input(const struct device_pass *pass, int32_t in, int32_t out,
                                  const void *dy, const void *weight, void *before,
                                  void *dx)
{
    const struct device_product product = {.m = layer_rows(pass->model),
                                           .n = in,
                                           .k = out,
                                           .epilogue = before ? DEVICE_EPILOGUE_DGELU
                                                              : DEVICE_EPILOGUE_NONE,
                                           .a = dy,
                                           .b = weight,
                                           .aux = before,
                                           .d = dx};
    pass->kernels->product(pass->lane, &product);
}

void device_linear_backward_weight(const struct device_pass *pass, int32_t in,
                                   int32_t out, const void *x, const void *dy,
                                   void *dweight, void *dbias)
{
    int32_t rows = layer_rows(pass->model);
    const struct device_product product = {.m = out,
                                           .n = in,
                                           .k = rows,
                                           .a_transposed = true,
                                           .d_wide = true,
                                           .a = dy,
                                           .b = x,
                                           .add = dweight,
                                           .d = dweight};
    pass->kernels->product(pass->lane, &product);
    if (dbias) {
        pass->kernels->column_sum(pass->lane, rows, out, dy, dbias);
    }
}
