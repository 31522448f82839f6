/* SPDX-License-Identifier: Apache-2.0 */
/* Updates on a GPU: one pass over the arena reads and writes everything once. */
#include "cuda_kernel.h"

/* The scalars in fp32, and the arrays with their types. */
template <typename T> struct update_arguments {
    uint64_t count;
    float scale, lr, momentum, rate, root, beta1, beta1_rest, beta2, beta2_rest, epsilon;
    const float *from;
    float *to, *gradients, *first, *second;
    T *rounded_to; /* may be NULL */
};

template <typename T>
__device__ static inline void update_finish(const update_arguments<T> &u, uint64_t i,
                                            float step)
{
    const float weight = u.from[i] - step;
    u.to[i] = weight;
    if (u.rounded_to) {
        u.rounded_to[i] = rounded<T>(weight);
    }
    u.gradients[i] = 0;
}

template <typename T> __global__ static void update_sgd_kernel(update_arguments<T> u)
{
    for (uint64_t i = grid_first(); i < u.count; i += grid_stride()) {
        const float velocity = u.momentum * u.first[i] + u.scale * u.gradients[i];
        u.first[i] = velocity;
        update_finish(u, i, u.lr * velocity);
    }
}

template <typename T> __global__ static void update_adam_kernel(update_arguments<T> u)
{
    for (uint64_t i = grid_first(); i < u.count; i += grid_stride()) {
        const float g = u.scale * u.gradients[i];
        const float m = u.beta1 * u.first[i] + u.beta1_rest * g;
        const float v = u.beta2 * u.second[i] + u.beta2_rest * g * g;
        u.first[i] = m;
        u.second[i] = v;
        update_finish(u, i, u.rate * m / (sqrtf(v) * u.root + u.epsilon));
    }
}

template <typename T>
static void update_launch(const device_lane *lane, const device_update *update)
{
    update_arguments<T> u;
    u.count = update->count;
    u.scale = (float)update->scale;
    u.lr = (float)update->lr;
    u.momentum = (float)update->momentum;
    u.rate = (float)update->rate;
    u.root = (float)update->root;
    u.beta1 = (float)update->beta1;
    u.beta1_rest = (float)update->beta1_rest;
    u.beta2 = (float)update->beta2;
    u.beta2_rest = (float)update->beta2_rest;
    u.epsilon = (float)update->epsilon;
    u.from = (const float *)update->from;
    u.to = (float *)update->to;
    u.gradients = (float *)update->gradients;
    u.first = (float *)update->first;
    u.second = (float *)update->second;
    u.rounded_to = (T *)update->rounded;
    if (update->adam) {
        CUDA_LAUNCH(lane, "update_adam", update_adam_kernel<T>, element_blocks(u.count),
                    ELEMENT_THREADS, 0, u);
    } else {
        CUDA_LAUNCH(lane, "update_sgd", update_sgd_kernel<T>, element_blocks(u.count),
                    ELEMENT_THREADS, 0, u);
    }
}

extern "C" void cuda_update(const device_lane *lane, const device_update *update)
{
    CUDA_FOR_TYPE(lane, update_launch<T>(lane, update));
}
