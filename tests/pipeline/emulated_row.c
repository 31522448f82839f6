/* SPDX-License-Identifier: Apache-2.0 */
/* See emulated_row.h. */
#include "emulated_row.h"

#include "pipeline/device/cuda/cuda_row.h"

/* Do as cuda_product.c does where cuBLASLt has no epilogue: the product without it, then
 * a kernel. */
static void emulated_product(const struct device_lane *lane,
                             const struct device_product *product)
{
    uint64_t count = (uint64_t)product->m * (uint64_t)product->n;
    struct device_product plain = *product;
    plain.epilogue = DEVICE_EPILOGUE_NONE;
    if (product->epilogue == DEVICE_EPILOGUE_GELU) {
        plain.d = product->aux;
    }
    device_kernels_reference.product(lane, &plain);
    if (product->epilogue == DEVICE_EPILOGUE_GELU) {
        cuda_gelu_forward(lane, count, product->aux, product->d);
    } else if (product->epilogue == DEVICE_EPILOGUE_DGELU) {
        cuda_gelu_backward(lane, count, product->aux, product->d, product->d);
    }
}

const struct device_kernels *emulated_row(void)
{
    static struct device_kernels row;
    row = device_kernels_reference;
    row.name = "emulated";
    row.head_width_max = CUDA_HEAD_WIDTH_MAX;
    row.product = emulated_product;
    row.column_sum = cuda_column_sum;
    row.embedding_forward = cuda_embedding_forward;
    row.embedding_backward = cuda_embedding_backward;
    row.norm_forward = cuda_norm_forward;
    row.norm_backward_input = cuda_norm_backward_input;
    row.norm_backward_weight = cuda_norm_backward_weight;
    row.attention_forward = cuda_attention_forward;
    row.attention_backward = cuda_attention_backward;
    row.gelu_backward = cuda_gelu_backward;
    row.add = cuda_add;
    row.duplicate = cuda_duplicate;
    row.cross_entropy_forward = cuda_cross_entropy_forward;
    row.cross_entropy_backward = cuda_cross_entropy_backward;
    row.loss_mean = cuda_loss_mean;
    row.update = cuda_update;
    row.predict = cuda_predict;
    row.round = cuda_round;
    return &row;
}
