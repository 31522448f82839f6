/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products as layers use them, said as the one product of the kernels' table. Weights are
 * [out, in]. Called by the device layers. */
#include "device_layer.h"

void device_linear_forward(const device_pass *pass, int32_t in, int32_t out,
                           const void *x, const void *weight, const void *bias,
                           const void *add, void *y)
{
    const device_product product = {.m = layer_rows(pass->model),
                                    .n = out,
                                    .k = in,
                                    .b_transposed = true,
                                    .a = x,
                                    .b = weight,
                                    .bias = bias,
                                    .add = add,
                                    .d = y};
    pass->kernels->product(pass->lane, &product);
}

void device_linear_gelu_forward(const device_pass *pass, int32_t in, int32_t out,
                                const void *x, const void *weight, const void *bias,
                                void *before, void *y)
{
    const device_product product = {.m = layer_rows(pass->model),
                                    .n = out,
                                    .k = in,
                                    .b_transposed = true,
                                    .epilogue = DEVICE_EPILOGUE_GELU,
                                    .a = x,
                                    .b = weight,
                                    .bias = bias,
                                    .aux = before,
                                    .d = y};
    pass->kernels->product(pass->lane, &product);
}

void device_linear_backward_input(const device_pass *pass, int32_t in, int32_t out,
                                  const void *dy, const void *weight, void *dx)
{
    const device_product product = {
        .m = layer_rows(pass->model), .n = in, .k = out, .a = dy, .b = weight, .d = dx};
    pass->kernels->product(pass->lane, &product);
}

void device_linear_gelu_backward_input(const device_pass *pass, int32_t in, int32_t out,
                                       const void *dy, const void *weight, void *before,
                                       void *dbefore)
{
    const device_product product = {.m = layer_rows(pass->model),
                                    .n = in,
                                    .k = out,
                                    .epilogue = DEVICE_EPILOGUE_DGELU,
                                    .a = dy,
                                    .b = weight,
                                    .aux = before,
                                    .d = dbefore};
    pass->kernels->product(pass->lane, &product);
}

void device_linear_backward_weight(const device_pass *pass, int32_t in, int32_t out,
                                   const void *x, const void *dy, void *dweight,
                                   void *dbias)
{
    const int32_t rows = layer_rows(pass->model);
    const device_product product = {.m = out,
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
