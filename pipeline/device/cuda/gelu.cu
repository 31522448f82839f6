/* SPDX-License-Identifier: Apache-2.0 */
/* Computes GELU on a GPU. gelu_forward follows a product to which cuBLASLt does not apply
 * the GELU (cuda_product.c). */
#include "cuda_kernel.h"

#define GELU_A 0.79788456080286535588f /* sqrt(2 / pi) */
#define GELU_B 0.044715f

/* GELU(x) = x · sigmoid(2u), u = GELU_A · (x + GELU_B · x³): the tanh form without
 * its sum 1 + tanh(u), which loses digits for x far below zero. */
__device__ static inline float gelu_sigmoid(float x)
{
    return 1 / (1 + expf(-2 * GELU_A * (x + GELU_B * x * x * x)));
}

template <typename T>
__global__ static void gelu_forward_kernel(uint64_t count, const T *x, T *y)
{
    for (uint64_t i = grid_first(); i < count; i += grid_stride()) {
        const float v = number(x[i]);
        y[i] = rounded<T>(v * gelu_sigmoid(v));
    }
}

template <typename T>
__global__ static void gelu_backward_kernel(uint64_t count, const T *x, const T *dy,
                                            T *dx)
{
    for (uint64_t i = grid_first(); i < count; i += grid_stride()) {
        const float v = number(x[i]), s = gelu_sigmoid(v);
        const float du = GELU_A * (1 + 3 * GELU_B * v * v);
        dx[i] = rounded<T>(number(dy[i]) * (s + 2 * v * s * (1 - s) * du));
    }
}

extern "C" void cuda_gelu_forward(const device_lane *lane, uint64_t count, const void *x,
                                  void *y)
{
    CUDA_FOR_TYPE(lane, CUDA_LAUNCH(lane, "gelu_forward", gelu_forward_kernel<T>,
                                    element_blocks(count), ELEMENT_THREADS, 0, count,
                                    (const T *)x, (T *)y));
}

extern "C" void cuda_gelu_backward(const device_lane *lane, uint64_t count, const void *x,
                                   const void *dy, void *dx)
{
    CUDA_FOR_TYPE(lane, CUDA_LAUNCH(lane, "gelu_backward", gelu_backward_kernel<T>,
                                    element_blocks(count), ELEMENT_THREADS, 0, count,
                                    (const T *)x, (const T *)dy, (T *)dx));
}
