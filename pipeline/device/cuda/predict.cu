/* SPDX-License-Identifier: Apache-2.0 */
/* Predicts weights on a GPU: one pass over the arena, which stores them rounded to T. The
 * scalars are fp64, and are rounded to fp32 once. */
#include "cuda_kernel.h"

template <typename T> __global__ static void predict_kernel(device_prediction p)
{
    const float *from = (const float *)p.from, *first = (const float *)p.first;
    for (uint64_t i = grid_first(); i < p.count; i += grid_stride()) {
        ((T *)p.to)[i] = rounded<T>(from[i] + (float)p.scale * first[i]);
    }
}

template <typename T> __global__ static void predict_adam_kernel(device_prediction p)
{
    const float *from = (const float *)p.from;
    const float *first = (const float *)p.first, *second = (const float *)p.second;
    for (uint64_t i = grid_first(); i < p.count; i += grid_stride()) {
        const float size = sqrtf(second[i]) * (float)p.root + (float)p.epsilon;
        ((T *)p.to)[i] = rounded<T>(from[i] + (float)p.scale * first[i] / size);
    }
}

extern "C" void cuda_predict(const device_lane *lane, const device_prediction *prediction)
{
    const unsigned blocks = element_blocks(prediction->count);
    if (prediction->adam) {
        CUDA_FOR_TYPE(lane, CUDA_LAUNCH(lane, "predict_adam", predict_adam_kernel<T>,
                                        blocks, ELEMENT_THREADS, 0, *prediction));
    } else {
        CUDA_FOR_TYPE(lane, CUDA_LAUNCH(lane, "predict", predict_kernel<T>, blocks,
                                        ELEMENT_THREADS, 0, *prediction));
    }
}
