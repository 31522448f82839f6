/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the embedding on a GPU. Backward does not scatter: each thread has one element
 * of a table, and adds the elements of all rows of dy that belong to it, in the order of
 * rows. So sums need no atomics. */
#include "cuda_kernel.h"

enum { EMBEDDING_THREADS = 128 };

template <typename T>
__global__ static void embedding_forward_kernel(uint64_t count, int seq, int hidden,
                                                const uint8_t *bytes, const T *token,
                                                const T *position, T *y)
{
    for (uint64_t at = grid_first(); at < count; at += grid_stride()) {
        const uint64_t row = at / hidden, column = at % hidden;
        float value = number(token[(uint64_t)bytes[row] * hidden + column]);
        if (position) {
            value += number(position[row % seq * hidden + column]);
        }
        y[at] = rounded<T>(value);
    }
}

template <typename T>
__global__ static void embedding_token_kernel(int rows, int hidden, const uint8_t *bytes,
                                              const T *dy, float *dtoken)
{
    const int column = (int)(blockIdx.y * blockDim.x + threadIdx.x);
    if (column >= hidden) {
        return;
    }
    float sum = 0;
    for (int i = 0; i < rows; i++) {
        if (bytes[i] == blockIdx.x) {
            sum += number(dy[(size_t)i * hidden + column]);
        }
    }
    dtoken[(size_t)blockIdx.x * hidden + column] += sum;
}

template <typename T>
__global__ static void embedding_position_kernel(int rows, int seq, int hidden,
                                                 const T *dy, float *dposition)
{
    const int column = (int)(blockIdx.y * blockDim.x + threadIdx.x);
    if (column >= hidden) {
        return;
    }
    float sum = 0;
    for (int i = (int)blockIdx.x; i < rows; i += seq) {
        sum += number(dy[(size_t)i * hidden + column]);
    }
    dposition[(size_t)blockIdx.x * hidden + column] += sum;
}

extern "C" void cuda_embedding_forward(const device_lane *lane, int32_t rows, int32_t seq,
                                       int32_t hidden, const uint8_t *bytes,
                                       const void *token, const void *position, void *y)
{
    const uint64_t count = (uint64_t)rows * (uint64_t)hidden;
    CUDA_FOR_TYPE(lane, CUDA_LAUNCH(lane, "embedding_forward",
                                    embedding_forward_kernel<T>, element_blocks(count),
                                    ELEMENT_THREADS, 0, count, seq, hidden, bytes,
                                    (const T *)token, (const T *)position, (T *)y));
}

extern "C" void cuda_embedding_backward(const device_lane *lane, int32_t rows,
                                        int32_t seq, int32_t hidden, int32_t vocabulary,
                                        const uint8_t *bytes, const void *dy,
                                        void *dtoken, void *dposition)
{
    const unsigned columns = blocks_of(hidden, EMBEDDING_THREADS);
    CUDA_FOR_TYPE(lane,
                  CUDA_LAUNCH(lane, "embedding_backward", embedding_token_kernel<T>,
                              dim3((unsigned)vocabulary, columns), EMBEDDING_THREADS, 0,
                              rows, hidden, bytes, (const T *)dy, (float *)dtoken));
    if (dposition) {
        CUDA_FOR_TYPE(
            lane, CUDA_LAUNCH(lane, "embedding_backward", embedding_position_kernel<T>,
                              dim3((unsigned)seq, columns), EMBEDDING_THREADS, 0, rows,
                              seq, hidden, (const T *)dy, (float *)dposition));
    }
}
