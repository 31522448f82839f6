/* SPDX-License-Identifier: Apache-2.0 */
/* Computes cross-entropy on a GPU: in forward each warp has one row. One block computes
 * the mean loss, in fp64. */
#include "cuda_kernel.h"

enum { LOSS_WARPS = 4, LOSS_THREADS = 256 };

__global__ static void cross_entropy_forward_kernel(int rows, int classes,
                                                    const float *logits,
                                                    const uint8_t *target, float *losses,
                                                    float *lse)
{
    const int row = (int)(blockIdx.x * LOSS_WARPS + threadIdx.x / WARP);
    const int lane = (int)(threadIdx.x % WARP);
    if (row >= rows) {
        return; /* the whole warp returns */
    }
    const float *x = logits + (size_t)row * classes;
    float max = -INFINITY, sum = 0;
    for (int j = lane; j < classes; j += WARP) {
        max = fmaxf(max, x[j]);
    }
    max = warp_max(max);
    for (int j = lane; j < classes; j += WARP) {
        sum += expf(x[j] - max);
    }
    sum = logf(warp_sum(sum));
    if (lane == 0) {
        lse[row] = max + sum;
        losses[row] = max - x[target[row]] + sum;
    }
}

template <typename T>
__global__ static void cross_entropy_backward_kernel(uint64_t count, int classes,
                                                     float weight, const float *logits,
                                                     const uint8_t *target,
                                                     const float *lse, T *dlogits)
{
    for (uint64_t at = grid_first(); at < count; at += grid_stride()) {
        const uint64_t row = at / classes, column = at % classes;
        const float p = expf(logits[at] - lse[row]);
        dlogits[at] = rounded<T>((p - (column == target[row] ? 1.0f : 0.0f)) * weight);
    }
}

/* Let each thread add every LOSS_THREADS-th loss, then add the threads' sums pairwise, in
 * a fixed order. */
__global__ static void loss_mean_kernel(int rows, const float *losses, double *mean)
{
    __shared__ double sums[LOSS_THREADS];
    const int thread = (int)threadIdx.x;
    double sum = 0;
    for (int i = thread; i < rows; i += LOSS_THREADS) {
        sum += losses[i];
    }
    sums[thread] = sum;
    for (int half = LOSS_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (thread < half) {
            sums[thread] += sums[thread + half];
        }
    }
    if (thread == 0) {
        *mean = sums[0] / rows;
    }
}

extern "C" void cuda_cross_entropy_forward(const device_lane *lane, int32_t rows,
                                           int32_t classes, const void *logits,
                                           const uint8_t *target, void *losses, void *lse)
{
    CUDA_LAUNCH(lane, "cross_entropy_forward", cross_entropy_forward_kernel,
                blocks_of(rows, LOSS_WARPS), LOSS_WARPS * WARP, 0, rows, classes,
                (const float *)logits, target, (float *)losses, (float *)lse);
}

extern "C" void cuda_cross_entropy_backward(const device_lane *lane, int32_t rows,
                                            int32_t classes, double weight,
                                            const void *logits, const uint8_t *target,
                                            const void *lse, void *dlogits)
{
    const uint64_t count = (uint64_t)rows * (uint64_t)classes;
    CUDA_FOR_TYPE(lane, CUDA_LAUNCH(lane, "cross_entropy_backward",
                                    cross_entropy_backward_kernel<T>,
                                    element_blocks(count), ELEMENT_THREADS, 0, count,
                                    classes, (float)weight, (const float *)logits, target,
                                    (const float *)lse, (T *)dlogits));
}

extern "C" void cuda_loss_mean(const device_lane *lane, int32_t rows, const void *losses,
                               double *mean)
{
    CUDA_LAUNCH(lane, "loss_mean", loss_mean_kernel, 1, LOSS_THREADS, 0, rows,
                (const float *)losses, mean);
}
