/* SPDX-License-Identifier: Apache-2.0 */
/* The part of CUDA that Tryst's kernels use, for C++ on the host: a kernel's source
 * compiles over this where nvcc is missing, so its logic is tested without a device.
 *
 * One idea: each thread of a block is a fiber; fibers switch at __syncthreads and warp
 * shuffles. Blocks run one after the other, so shared memory is static. A run in which
 * some threads of a block wait at a barrier that others never reach, or lanes of a warp
 * miss a shuffle, ends with a message and abort(). Fibers run in the order that
 * emulated_order sets: if the order changes a kernel's result, the kernel has a race.
 *
 * Not covered: speed, memory coalescing, the rounding of a device's arithmetic, and the
 * memory model between barriers. */
#ifndef TRYST_TESTS_SUPPORT_EMULATED_CUDA_H
#define TRYST_TESTS_SUPPORT_EMULATED_CUDA_H

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};

extern dim3 threadIdx, blockIdx, blockDim, gridDim;

/** Forward, backward, or odd threads before even ones. */
enum emulated_order { EMULATED_FORWARD, EMULATED_BACKWARD, EMULATED_ODD_FIRST };

extern "C" {
void emulated_order_set(int order);
/** Threads run so far. */
uint64_t emulated_threads_count(void);
}

void emulated_launch(dim3 grid, dim3 block, size_t shared_bytes,
                     const std::function<void()> &thread);
void emulated_sync(void);
float emulated_shuffle_xor(float value, int step);
float *emulated_shared(void);

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(n)
#define __syncthreads() emulated_sync()

static inline float __shfl_xor_sync(unsigned lanes, float value, int step)
{
    (void)lanes;
    return emulated_shuffle_xor(value, step);
}

#define CUDA_LAUNCH(lane, what, kernel, grid, block, shared_bytes, ...) \
    do {                                                                \
        (void)(lane);                                                   \
        emulated_launch((grid), (block), (shared_bytes),                \
                        [=]() { kernel(__VA_ARGS__); });                \
    } while (0)

#define CUDA_SHARED_BYTES(kernel, bytes) (void)(bytes)
#define CUDA_SHARED(name)                float *name = emulated_shared()

#endif
