/* SPDX-License-Identifier: Apache-2.0 */
/* Shared parts of the kernels: loads and stores of either type, sums over a warp,
 * launches.
 *
 * Kernels compute in fp32 and sum in an order that depends on shapes alone (no atomics).
 * Their only optimisation is a tile in shared memory where data are read several times.
 * nvcc compiles them for devices; tests compile the same sources as C++, over an
 * emulation of the few parts of CUDA that they use (tests/support/emulated_cuda.h), so
 * that their logic is tested without a device. */
#ifndef TRYST_PIPELINE_DEVICE_CUDA_CUDA_KERNEL_H
#define TRYST_PIPELINE_DEVICE_CUDA_CUDA_KERNEL_H

extern "C" {
#include "cuda_row.h"
}

#ifdef __CUDACC__
#include <cuda_runtime.h>

/** Launch `kernel` on the lane's stream; `what` names it in the sentence of a failure. */
#define CUDA_LAUNCH(lane, what, kernel, grid, block, shared_bytes, ...)             \
    do {                                                                            \
        auto kernel_ = kernel;                                                      \
        kernel_<<<(grid), (block), (shared_bytes), (cudaStream_t)(lane)->stream>>>( \
            __VA_ARGS__);                                                           \
        cuda_launched((lane), (what));                                              \
    } while (0)

/** Let `kernel` use `bytes` of shared memory, which may exceed the default limit of 48
 *  KiB. */
#define CUDA_SHARED_BYTES(kernel, bytes)                                    \
    (void)cudaFuncSetAttribute((const void *)(kernel),                      \
                               cudaFuncAttributeMaxDynamicSharedMemorySize, \
                               (int)(bytes))

/** Declare `name`: the block's shared memory, with the size given at the launch. */
#define CUDA_SHARED(name)                                       \
    extern __shared__ __align__(16) float cuda_shared_memory[]; \
    float *name = cuda_shared_memory
#endif

#include "pipeline/device/bf16.h"

enum { WARP = 32 };

#define WARP_ALL 0xffffffffu

__device__ static inline float number(float x)
{
    return x;
}

__device__ static inline float number(bf16 x)
{
    return bf16_to_float(x);
}

template <typename T> __device__ static inline T rounded(float x);

template <> __device__ inline float rounded<float>(float x)
{
    return x;
}

template <> __device__ inline bf16 rounded<bf16>(float x)
{
    return bf16_from_float(x);
}

/** Return, in every lane, the sum over the lanes of a warp (`first` 16), or of each half
 *  of it (`first` 8). warp_max returns the maximum. */
__device__ static inline float warp_sum(float x, int first = WARP / 2)
{
    for (int step = first; step > 0; step /= 2) {
        x += __shfl_xor_sync(WARP_ALL, x, step);
    }
    return x;
}

__device__ static inline float warp_max(float x, int first = WARP / 2)
{
    for (int step = first; step > 0; step /= 2) {
        x = fmaxf(x, __shfl_xor_sync(WARP_ALL, x, step));
    }
    return x;
}

/** Return the first element of this thread; grid_stride returns the distance between its
 *  elements. */
__device__ static inline uint64_t grid_first(void)
{
    return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ static inline uint64_t grid_stride(void)
{
    return (uint64_t)gridDim.x * blockDim.x;
}

enum { ELEMENT_THREADS = 256, ELEMENT_BLOCKS_MAX = 4096 };

/** Return the number of blocks for a loop over `count` elements. */
static inline unsigned element_blocks(uint64_t count)
{
    uint64_t blocks = (count + ELEMENT_THREADS - 1) / ELEMENT_THREADS;
    blocks = blocks < ELEMENT_BLOCKS_MAX ? blocks : (uint64_t)ELEMENT_BLOCKS_MAX;
    return blocks > 0 ? (unsigned)blocks : 1;
}

static inline unsigned blocks_of(int32_t count, int32_t each)
{
    return (unsigned)((count + each - 1) / each);
}

/** Run the statements with T defined as the session's dtype: bf16 or float. */
#define CUDA_FOR_TYPE(lane, ...)                          \
    do {                                                  \
        if ((lane)->session->dtype == TRYST_DTYPE_BF16) { \
            typedef bf16 T;                               \
            __VA_ARGS__;                                  \
        } else {                                          \
            typedef float T;                              \
            __VA_ARGS__;                                  \
        }                                                 \
    } while (0)

#endif
