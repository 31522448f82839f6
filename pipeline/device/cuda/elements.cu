/* SPDX-License-Identifier: Apache-2.0 */
/* Computes over whole arrays on a GPU. bias_add follows a product to which cuBLASLt does
 * not add the bias (cuda_product.c). */
#include "cuda_kernel.h"

template <typename T>
__global__ static void add_kernel(uint64_t count, const T *a, const T *b, T *y)
{
    for (uint64_t i = grid_first(); i < count; i += grid_stride()) {
        y[i] = rounded<T>(number(a[i]) + number(b[i]));
    }
}

template <typename T>
__global__ static void bias_add_kernel(uint64_t count, int columns, const T *bias, T *y)
{
    for (uint64_t i = grid_first(); i < count; i += grid_stride()) {
        y[i] = rounded<T>(number(y[i]) + number(bias[i % columns]));
    }
}

template <typename T>
__global__ static void duplicate_kernel(uint64_t count, const T *x, T *y)
{
    for (uint64_t i = grid_first(); i < count; i += grid_stride()) {
        y[i] = x[i];
    }
}

template <typename T>
__global__ static void round_kernel(uint64_t count, const float *wide, T *y)
{
    for (uint64_t i = grid_first(); i < count; i += grid_stride()) {
        y[i] = rounded<T>(wide[i]);
    }
}

extern "C" void cuda_add(const device_lane *lane, uint64_t count, const void *a,
                         const void *b, void *y)
{
    CUDA_FOR_TYPE(lane, CUDA_LAUNCH(lane, "add", add_kernel<T>, element_blocks(count),
                                    ELEMENT_THREADS, 0, count, (const T *)a, (const T *)b,
                                    (T *)y));
}

extern "C" void cuda_bias_add(const device_lane *lane, int32_t rows, int32_t columns,
                              const void *bias, void *y)
{
    const uint64_t count = (uint64_t)rows * (uint64_t)columns;
    CUDA_FOR_TYPE(lane, CUDA_LAUNCH(lane, "bias_add", bias_add_kernel<T>,
                                    element_blocks(count), ELEMENT_THREADS, 0, count,
                                    columns, (const T *)bias, (T *)y));
}

extern "C" void cuda_duplicate(const device_lane *lane, uint64_t count, const void *x,
                               void *y)
{
    CUDA_FOR_TYPE(lane, CUDA_LAUNCH(lane, "duplicate", duplicate_kernel<T>,
                                    element_blocks(count), ELEMENT_THREADS, 0, count,
                                    (const T *)x, (T *)y));
}

extern "C" void cuda_round(const device_lane *lane, uint64_t count, const void *wide,
                           void *y)
{
    CUDA_FOR_TYPE(lane,
                  CUDA_LAUNCH(lane, "round", round_kernel<T>, element_blocks(count),
                              ELEMENT_THREADS, 0, count, (const float *)wide, (T *)y));
}
