/* SPDX-License-Identifier: Apache-2.0 */
/* Computes layer norm on a GPU: each warp has one row. The gradients of the weights are
 * sums of columns, computed as in column_sum.cu. */
#include "cuda_kernel.h"

/* Added to the variance, as in PyTorch's LayerNorm. */
#define NORM_EPSILON 1e-5f

enum { NORM_WARPS = 4, NORM_TILE = 32 };

/* Return the row of this warp. In the last block it may be beyond the matrix. */
__device__ static inline int norm_row(void)
{
    return (int)(blockIdx.x * NORM_WARPS + threadIdx.x / WARP);
}

template <typename T>
__global__ static void norm_forward_kernel(int rows, int width, const T *x, const T *gain,
                                           const T *bias, T *y, float *mean, float *rstd)
{
    const int row = norm_row(), lane = (int)(threadIdx.x % WARP);
    if (row >= rows) {
        return; /* the whole warp returns */
    }
    const size_t at = (size_t)row * width;
    float sum = 0, square = 0;
    for (int j = lane; j < width; j += WARP) {
        sum += number(x[at + j]);
    }
    const float m = warp_sum(sum) / width;
    for (int j = lane; j < width; j += WARP) {
        const float d = number(x[at + j]) - m;
        square += d * d;
    }
    const float r = 1 / sqrtf(warp_sum(square) / width + NORM_EPSILON);
    for (int j = lane; j < width; j += WARP) {
        const float n = (number(x[at + j]) - m) * r;
        y[at + j] = rounded<T>(n * number(gain[j]) + number(bias[j]));
    }
    if (lane == 0) {
        mean[row] = m;
        rstd[row] = r;
    }
}

template <typename T>
__global__ static void norm_backward_input_kernel(int rows, int width, const T *x,
                                                  const T *gain, const float *mean,
                                                  const float *rstd, const T *dy,
                                                  const T *residual, T *dx)
{
    const int row = norm_row(), lane = (int)(threadIdx.x % WARP);
    if (row >= rows) {
        return;
    }
    const size_t at = (size_t)row * width;
    const float m = mean[row], r = rstd[row];
    float g_sum = 0, gn_sum = 0;
    for (int j = lane; j < width; j += WARP) {
        const float g = number(dy[at + j]) * number(gain[j]);
        g_sum += g;
        gn_sum += g * (number(x[at + j]) - m) * r;
    }
    const float g_mean = warp_sum(g_sum) / width, gn_mean = warp_sum(gn_sum) / width;
    for (int j = lane; j < width; j += WARP) {
        const float g = number(dy[at + j]) * number(gain[j]);
        const float n = (number(x[at + j]) - m) * r;
        const float d = r * (g - g_mean - n * gn_mean);
        dx[at + j] = rounded<T>(residual ? number(residual[at + j]) + d : d);
    }
}

template <typename T>
__global__ static void __launch_bounds__(NORM_TILE *NORM_TILE)
    norm_backward_weight_kernel(int rows, int width, const T *x, const float *mean,
                                const float *rstd, const T *dy, float *dgain,
                                float *dbias)
{
    __shared__ float gains[NORM_TILE][NORM_TILE + 1], biases[NORM_TILE][NORM_TILE + 1];
    const int column = (int)(blockIdx.x * NORM_TILE + threadIdx.x);
    float gain = 0, bias = 0;
    for (int i = (int)threadIdx.y; column < width && i < rows; i += NORM_TILE) {
        const size_t at = (size_t)i * width + column;
        const float d = number(dy[at]);
        gain += d * ((number(x[at]) - mean[i]) * rstd[i]);
        bias += d;
    }
    gains[threadIdx.y][threadIdx.x] = gain;
    biases[threadIdx.y][threadIdx.x] = bias;
    __syncthreads();
    if (threadIdx.y == 0 && column < width) {
        for (int j = 1; j < NORM_TILE; j++) {
            gain += gains[j][threadIdx.x];
            bias += biases[j][threadIdx.x];
        }
        dgain[column] += gain;
        dbias[column] += bias;
    }
}

extern "C" void cuda_norm_forward(const device_lane *lane, int32_t rows, int32_t width,
                                  const void *x, const void *gain, const void *bias,
                                  void *y, void *mean, void *rstd)
{
    CUDA_FOR_TYPE(lane,
                  CUDA_LAUNCH(lane, "norm_forward", norm_forward_kernel<T>,
                              blocks_of(rows, NORM_WARPS), NORM_WARPS * WARP, 0, rows,
                              width, (const T *)x, (const T *)gain, (const T *)bias,
                              (T *)y, (float *)mean, (float *)rstd));
}

extern "C" void cuda_norm_backward_input(const device_lane *lane, int32_t rows,
                                         int32_t width, const void *x, const void *gain,
                                         const void *mean, const void *rstd,
                                         const void *dy, const void *residual, void *dx)
{
    CUDA_FOR_TYPE(lane,
                  CUDA_LAUNCH(lane, "norm_backward_input", norm_backward_input_kernel<T>,
                              blocks_of(rows, NORM_WARPS), NORM_WARPS * WARP, 0, rows,
                              width, (const T *)x, (const T *)gain, (const float *)mean,
                              (const float *)rstd, (const T *)dy, (const T *)residual,
                              (T *)dx));
}

extern "C" void cuda_norm_backward_weight(const device_lane *lane, int32_t rows,
                                          int32_t width, const void *x, const void *mean,
                                          const void *rstd, const void *dy, void *dgain,
                                          void *dbias)
{
    CUDA_FOR_TYPE(lane,
                  CUDA_LAUNCH(lane, "norm_backward_weight",
                              norm_backward_weight_kernel<T>, blocks_of(width, NORM_TILE),
                              dim3(NORM_TILE, NORM_TILE), 0, rows, width, (const T *)x,
                              (const float *)mean, (const float *)rstd, (const T *)dy,
                              (float *)dgain, (float *)dbias));
}
