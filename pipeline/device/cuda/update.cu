/* SPDX-License-Identifier: Apache-2.0 */
/* Updates weights on a GPU: one pass over the arena reads and writes each array once. The
 * scalars of an update are fp64, and are rounded to fp32 once. */
#include "cuda_kernel.h"

/* Store weight `i` and its mean change, and clear its gradient. `from` may be `to`. */
template <typename T>
__device__ static inline void update_finish(const device_update &u, uint64_t i,
                                            float step)
{
    const float before = ((const float *)u.from)[i];
    const float weight = before - step;
    ((float *)u.to)[i] = weight;
    if (u.rounded) {
        ((T *)u.rounded)[i] = rounded<T>(weight);
    }
    if (u.delta) {
        float *delta = (float *)u.delta;
        delta[i] = (float)u.decay * delta[i] + (float)u.decay_rest * (weight - before);
    }
    ((float *)u.gradients)[i] = 0;
}

template <typename T> __global__ static void update_sgd_kernel(device_update u)
{
    const float *gradients = (const float *)u.gradients;
    float *first = (float *)u.first;
    for (uint64_t i = grid_first(); i < u.count; i += grid_stride()) {
        const float velocity =
            (float)u.momentum * first[i] + (float)u.scale * gradients[i];
        first[i] = velocity;
        update_finish<T>(u, i, (float)u.lr * velocity);
    }
}

template <typename T> __global__ static void update_adam_kernel(device_update u)
{
    const float beta1 = (float)u.beta1, beta2 = (float)u.beta2;
    const float beta1_rest = (float)u.beta1_rest, beta2_rest = (float)u.beta2_rest;
    const float *gradients = (const float *)u.gradients;
    float *first = (float *)u.first, *second = (float *)u.second;
    for (uint64_t i = grid_first(); i < u.count; i += grid_stride()) {
        const float g = (float)u.scale * gradients[i];
        const float m = beta1 * first[i] + beta1_rest * g;
        const float v = beta2 * second[i] + beta2_rest * g * g;
        first[i] = m;
        second[i] = v;
        update_finish<T>(
            u, i, (float)u.rate * m / (sqrtf(v) * (float)u.root + (float)u.epsilon));
    }
}

extern "C" void cuda_update(const device_lane *lane, const device_update *update)
{
    const unsigned blocks = element_blocks(update->count);
    if (update->adam) {
        CUDA_FOR_TYPE(lane, CUDA_LAUNCH(lane, "update_adam", update_adam_kernel<T>,
                                        blocks, ELEMENT_THREADS, 0, *update));
    } else {
        CUDA_FOR_TYPE(lane, CUDA_LAUNCH(lane, "update_sgd", update_sgd_kernel<T>, blocks,
                                        ELEMENT_THREADS, 0, *update));
    }
}
