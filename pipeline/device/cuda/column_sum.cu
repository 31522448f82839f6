/* SPDX-License-Identifier: Apache-2.0 */
/* Sums columns on a GPU. A block has 32 columns and 32 rows of threads: each row of
 * threads adds every 32nd row of the matrix, and the first one then adds the 32 sums in
 * order. */
#include "cuda_kernel.h"

enum { COLUMN_TILE = 32 };

template <typename T>
__global__ static void __launch_bounds__(COLUMN_TILE *COLUMN_TILE)
    column_sum_kernel(int rows, int columns, const T *dy, float *dbias)
{
    __shared__ float sums[COLUMN_TILE][COLUMN_TILE + 1];
    const int column = (int)(blockIdx.x * COLUMN_TILE + threadIdx.x);
    float sum = 0;
    for (int i = (int)threadIdx.y; column < columns && i < rows; i += COLUMN_TILE) {
        sum += number(dy[(size_t)i * columns + column]);
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && column < columns) {
        for (int j = 1; j < COLUMN_TILE; j++) {
            sum += sums[j][threadIdx.x];
        }
        dbias[column] += sum;
    }
}

extern "C" void cuda_column_sum(const device_lane *lane, int32_t rows, int32_t columns,
                                const void *dy, void *dbias)
{
    CUDA_FOR_TYPE(lane, CUDA_LAUNCH(lane, "column_sum", column_sum_kernel<T>,
                                    blocks_of(columns, COLUMN_TILE),
                                    dim3(COLUMN_TILE, COLUMN_TILE), 0, rows, columns,
                                    (const T *)dy, (float *)dbias));
}
