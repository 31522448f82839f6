/* SPDX-License-Identifier: Apache-2.0 */
/* Computes reference/attention.c on a GPU, by tiles (Dao, FlashAttention-2, 2023): scores
 * are in shared memory for one tile of queries and one tile of keys at a time. Forward
 * keeps a running maximum and sum for each row; backward computes the probabilities again
 * from lse.
 *
 * A block of 16×16 threads has one tile of one head. Tiles have WIDTH columns (a head's,
 * padded with zeros) and 4096 / WIDTH rows. Thread (x, y) computes rows y, y + 16, …, and
 * in them columns x, x + 16, … of scores and of results. Backward is two kernels, one
 * with a tile of queries (dq), one with a tile of keys (dk, dv), so that one thread sums
 * each result in a fixed order. */
#include "cuda_kernel.h"

enum { ATTENTION_SIDE = 16, ATTENTION_THREADS = ATTENTION_SIDE * ATTENTION_SIDE };

/* Sizes that follow from the width of a tile. */
template <int WIDTH> struct tile {
    static const int ROWS = 4096 / WIDTH;
    static const int ROWS_EACH = ROWS / ATTENTION_SIDE;     /* rows per thread */
    static const int COLUMNS_EACH = WIDTH / ATTENTION_SIDE; /* columns per thread */
    static const int PITCH = WIDTH + 1; /* odd: adjacent threads use different banks */
    static const int FLOATS = ROWS * PITCH;
    static const int SCORES_PITCH = ROWS + 1;
    static const int SCORES_FLOATS = ROWS * SCORES_PITCH;
};

/* One head of one window. */
template <typename T> struct head {
    int seq, width;
    float scale;
    size_t qkv_stride, out_stride;
    const T *q, *k, *v;
    const T *dout;
    T *dq, *dk, *dv;
    T *out;
    float *lse, *delta;
};

template <typename T> __device__ static inline head<T> head_at(const device_attention &a)
{
    const size_t hidden = (size_t)a.heads * a.width;
    const size_t row = (size_t)blockIdx.z * a.seq, column = (size_t)blockIdx.y * a.width;
    const size_t sums = ((size_t)blockIdx.z * a.heads + blockIdx.y) * a.seq;
    head<T> h;
    h.seq = a.seq;
    h.width = a.width;
    h.scale = 1 / sqrtf((float)a.width);
    h.qkv_stride = 3 * hidden;
    h.out_stride = hidden;
    h.q = (const T *)a.qkv + row * h.qkv_stride + column;
    h.k = h.q + hidden;
    h.v = h.k + hidden;
    h.dq = (T *)a.dqkv + row * h.qkv_stride + column;
    h.dk = h.dq + hidden;
    h.dv = h.dk + hidden;
    h.out = (T *)a.attended + row * hidden + column;
    h.dout = (const T *)a.dattended + row * hidden + column;
    h.lse = (float *)a.lse + sums;
    h.delta = (float *)a.delta + sums;
    return h;
}

/* Load rows [first, first + ROWS) of a matrix into shared memory, with zeros beyond the
 * matrix. */
template <typename T, int WIDTH>
__device__ static inline void tile_load(const T *from, size_t stride, int first, int rows,
                                        int width, float *to)
{
    for (int i = (int)threadIdx.x; i < tile<WIDTH>::ROWS * WIDTH;
         i += ATTENTION_THREADS) {
        const int row = i / WIDTH, column = i % WIDTH;
        const bool is_there = first + row < rows && column < width;
        to[row * tile<WIDTH>::PITCH + column] =
            is_there ? number(from[(size_t)(first + row) * stride + column]) : 0.0f;
    }
}

/* Return the dot product of row `i` of a and row `j` of b. */
template <int WIDTH>
__device__ static inline float tile_dot(const float *a, int i, const float *b, int j)
{
    float sum = 0;
#pragma unroll 8
    for (int d = 0; d < WIDTH; d++) {
        sum += a[i * tile<WIDTH>::PITCH + d] * b[j * tile<WIDTH>::PITCH + d];
    }
    return sum;
}

/* sum[r][c] += Σ_j scores[row r][j] · values[j][column c]; with DOWN, scores[j][row r]
 * instead of scores[row r][j]. */
template <int WIDTH, bool DOWN>
__device__ static inline void tile_product(
    const float *scores, const float *values,
    float sum[tile<WIDTH>::ROWS_EACH][tile<WIDTH>::COLUMNS_EACH])
{
    const int x = (int)threadIdx.x % ATTENTION_SIDE,
              y = (int)threadIdx.x / ATTENTION_SIDE;
#pragma unroll 2
    for (int j = 0; j < tile<WIDTH>::ROWS; j++) {
#pragma unroll
        for (int r = 0; r < tile<WIDTH>::ROWS_EACH; r++) {
            const int row = y + r * ATTENTION_SIDE;
            const float p = DOWN ? scores[j * tile<WIDTH>::SCORES_PITCH + row]
                                 : scores[row * tile<WIDTH>::SCORES_PITCH + j];
#pragma unroll
            for (int c = 0; c < tile<WIDTH>::COLUMNS_EACH; c++) {
                sum[r][c] += p * values[j * tile<WIDTH>::PITCH + x + c * ATTENTION_SIDE];
            }
        }
    }
}

/* Store this thread's part of a tile of results, each row times a factor. */
template <typename T, int WIDTH>
__device__ static inline void tile_store(
    const float sum[tile<WIDTH>::ROWS_EACH][tile<WIDTH>::COLUMNS_EACH],
    const float *factor, size_t stride, int first, int rows, int width, T *to)
{
    const int x = (int)threadIdx.x % ATTENTION_SIDE,
              y = (int)threadIdx.x / ATTENTION_SIDE;
#pragma unroll
    for (int r = 0; r < tile<WIDTH>::ROWS_EACH; r++) {
        const int row = first + y + r * ATTENTION_SIDE;
#pragma unroll
        for (int c = 0; c < tile<WIDTH>::COLUMNS_EACH; c++) {
            const int column = x + c * ATTENTION_SIDE;
            if (row < rows && column < width) {
                to[(size_t)row * stride + column] = rounded<T>(sum[r][c] * factor[r]);
            }
        }
    }
}

/* ---- forward ----------------------------------------------------------------------- */

/* Compute the scores of a tile of keys, and from them probabilities that are not yet
 * divided by `sum`. Scale the earlier `sum` and `out` to the new maximum. */
template <int WIDTH>
__device__ static inline void tile_softmax(
    const float *q, const float *k, float scale, int query, int key,
    float max[tile<WIDTH>::ROWS_EACH], float sum[tile<WIDTH>::ROWS_EACH],
    float out[tile<WIDTH>::ROWS_EACH][tile<WIDTH>::COLUMNS_EACH], float *scores)
{
    typedef tile<WIDTH> size;
    const int x = (int)threadIdx.x % ATTENTION_SIDE,
              y = (int)threadIdx.x / ATTENTION_SIDE;
#pragma unroll
    for (int r = 0; r < size::ROWS_EACH; r++) {
        const int row = y + r * ATTENTION_SIDE;
        float s[size::ROWS_EACH], largest = -INFINITY, total = 0;
#pragma unroll
        for (int c = 0; c < size::ROWS_EACH; c++) {
            const int column = x + c * ATTENTION_SIDE;
            s[c] = key + column <= query + row
                       ? scale * tile_dot<WIDTH>(q, row, k, column)
                       : -INFINITY;
            largest = fmaxf(largest, s[c]);
        }
        /* The 16 threads of a row are one half of a warp. The first tile of keys contains
         * key 0, which every query uses, so from there on the maximum is finite. */
        largest = fmaxf(max[r], warp_max(largest, ATTENTION_SIDE / 2));
#pragma unroll
        for (int c = 0; c < size::ROWS_EACH; c++) {
            const float p = expf(s[c] - largest);
            total += p;
            scores[row * size::SCORES_PITCH + x + c * ATTENTION_SIDE] = p;
        }
        const float before = expf(max[r] - largest);
        sum[r] = sum[r] * before + warp_sum(total, ATTENTION_SIDE / 2);
        max[r] = largest;
#pragma unroll
        for (int c = 0; c < size::COLUMNS_EACH; c++) {
            out[r][c] *= before;
        }
    }
}

template <typename T, int WIDTH>
__global__ static void __launch_bounds__(ATTENTION_THREADS)
    attention_forward_kernel(device_attention a)
{
    typedef tile<WIDTH> size;
    CUDA_SHARED(shared);
    float *q = shared, *kv = q + size::FLOATS, *scores = kv + size::FLOATS;
    const head<T> h = head_at<T>(a);
    const int query = (int)blockIdx.x * size::ROWS;
    float max[size::ROWS_EACH], sum[size::ROWS_EACH];
    float out[size::ROWS_EACH][size::COLUMNS_EACH];
#pragma unroll
    for (int r = 0; r < size::ROWS_EACH; r++) {
        max[r] = -INFINITY;
        sum[r] = 0;
#pragma unroll
        for (int c = 0; c < size::COLUMNS_EACH; c++) {
            out[r][c] = 0;
        }
    }
    tile_load<T, WIDTH>(h.q, h.qkv_stride, query, h.seq, h.width, q);
    for (int key = 0; key <= query; key += size::ROWS) {
        tile_load<T, WIDTH>(h.k, h.qkv_stride, key, h.seq, h.width, kv);
        __syncthreads();
        tile_softmax<WIDTH>(q, kv, h.scale, query, key, max, sum, out, scores);
        __syncthreads();
        tile_load<T, WIDTH>(h.v, h.qkv_stride, key, h.seq, h.width, kv);
        __syncthreads();
        tile_product<WIDTH, false>(scores, kv, out);
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < size::ROWS_EACH; r++) {
        const int row = query + (int)threadIdx.x / ATTENTION_SIDE + r * ATTENTION_SIDE;
        if (threadIdx.x % ATTENTION_SIDE == 0 && row < h.seq) {
            h.lse[row] = max[r] + logf(sum[r]);
        }
        sum[r] = 1 / sum[r];
    }
    tile_store<T, WIDTH>(out, sum, h.out_stride, query, h.seq, h.width, h.out);
}

/* ---- backward ---------------------------------------------------------------------- */

enum { DELTA_WARPS = 4 };

/* Compute delta: one warp has one row of one head. */
template <typename T> __global__ static void attention_delta_kernel(device_attention a)
{
    const head<T> h = head_at<T>(a);
    const int row = (int)(blockIdx.x * DELTA_WARPS + threadIdx.x / WARP);
    float sum = 0;
    if (row >= h.seq) {
        return; /* the whole warp returns */
    }
    for (int d = (int)(threadIdx.x % WARP); d < h.width; d += WARP) {
        const size_t at = (size_t)row * h.out_stride + d;
        sum += number(h.dout[at]) * number(h.out[at]);
    }
    sum = warp_sum(sum);
    if (threadIdx.x % WARP == 0) {
        h.delta[row] = sum;
    }
}

/* Store to shared memory, for one tile of queries and one tile of keys, the probabilities
 * and the gradients of the scores, times scale. Both are zero where the key is after the
 * query. */
template <typename T, int WIDTH>
__device__ static inline void tile_dscores(const head<T> &h, int query, int key,
                                           const float *q, const float *k, const float *v,
                                           const float *dout, float *scores,
                                           float *dscores)
{
    typedef tile<WIDTH> size;
    const int x = (int)threadIdx.x % ATTENTION_SIDE,
              y = (int)threadIdx.x / ATTENTION_SIDE;
#pragma unroll
    for (int r = 0; r < size::ROWS_EACH; r++) {
        const int row = y + r * ATTENTION_SIDE;
        const bool is_there = query + row < h.seq;
        const float lse = is_there ? h.lse[query + row] : 0;
        const float delta = is_there ? h.delta[query + row] : 0;
#pragma unroll
        for (int c = 0; c < size::ROWS_EACH; c++) {
            const int column = x + c * ATTENTION_SIDE;
            const int at = row * size::SCORES_PITCH + column;
            float p = 0, ds = 0;
            if (is_there && key + column <= query + row) {
                p = expf(h.scale * tile_dot<WIDTH>(q, row, k, column) - lse);
                ds = h.scale * p * (tile_dot<WIDTH>(dout, row, v, column) - delta);
            }
            scores[at] = p;
            dscores[at] = ds;
        }
    }
}

/* Shared memory of both backward kernels. */
template <int WIDTH> struct backward_tiles {
    float *q, *dout, *k, *v, *scores, *dscores;
    static const int FLOATS = 4 * tile<WIDTH>::FLOATS + 2 * tile<WIDTH>::SCORES_FLOATS;
};

template <int WIDTH>
__device__ static inline backward_tiles<WIDTH> backward_tiles_at(float *shared)
{
    backward_tiles<WIDTH> t;
    t.q = shared;
    t.dout = t.q + tile<WIDTH>::FLOATS;
    t.k = t.dout + tile<WIDTH>::FLOATS;
    t.v = t.k + tile<WIDTH>::FLOATS;
    t.scores = t.v + tile<WIDTH>::FLOATS;
    t.dscores = t.scores + tile<WIDTH>::SCORES_FLOATS;
    return t;
}

template <typename T, int WIDTH>
__global__ static void __launch_bounds__(ATTENTION_THREADS)
    attention_backward_query_kernel(device_attention a)
{
    typedef tile<WIDTH> size;
    CUDA_SHARED(shared);
    const backward_tiles<WIDTH> t = backward_tiles_at<WIDTH>(shared);
    const head<T> h = head_at<T>(a);
    const int query = (int)blockIdx.x * size::ROWS;
    float dq[size::ROWS_EACH][size::COLUMNS_EACH], one[size::ROWS_EACH];
#pragma unroll
    for (int r = 0; r < size::ROWS_EACH; r++) {
        one[r] = 1;
#pragma unroll
        for (int c = 0; c < size::COLUMNS_EACH; c++) {
            dq[r][c] = 0;
        }
    }
    tile_load<T, WIDTH>(h.q, h.qkv_stride, query, h.seq, h.width, t.q);
    tile_load<T, WIDTH>(h.dout, h.out_stride, query, h.seq, h.width, t.dout);
    for (int key = 0; key <= query; key += size::ROWS) {
        tile_load<T, WIDTH>(h.k, h.qkv_stride, key, h.seq, h.width, t.k);
        tile_load<T, WIDTH>(h.v, h.qkv_stride, key, h.seq, h.width, t.v);
        __syncthreads();
        tile_dscores<T, WIDTH>(h, query, key, t.q, t.k, t.v, t.dout, t.scores, t.dscores);
        __syncthreads();
        tile_product<WIDTH, false>(t.dscores, t.k, dq);
        __syncthreads();
    }
    tile_store<T, WIDTH>(dq, one, h.qkv_stride, query, h.seq, h.width, h.dq);
}

template <typename T, int WIDTH>
__global__ static void __launch_bounds__(ATTENTION_THREADS)
    attention_backward_key_kernel(device_attention a)
{
    typedef tile<WIDTH> size;
    CUDA_SHARED(shared);
    const backward_tiles<WIDTH> t = backward_tiles_at<WIDTH>(shared);
    const head<T> h = head_at<T>(a);
    const int key = (int)blockIdx.x * size::ROWS;
    float dk[size::ROWS_EACH][size::COLUMNS_EACH],
        dv[size::ROWS_EACH][size::COLUMNS_EACH];
    float one[size::ROWS_EACH];
#pragma unroll
    for (int r = 0; r < size::ROWS_EACH; r++) {
        one[r] = 1;
#pragma unroll
        for (int c = 0; c < size::COLUMNS_EACH; c++) {
            dk[r][c] = 0;
            dv[r][c] = 0;
        }
    }
    tile_load<T, WIDTH>(h.k, h.qkv_stride, key, h.seq, h.width, t.k);
    tile_load<T, WIDTH>(h.v, h.qkv_stride, key, h.seq, h.width, t.v);
    for (int query = key; query < h.seq; query += size::ROWS) {
        tile_load<T, WIDTH>(h.q, h.qkv_stride, query, h.seq, h.width, t.q);
        tile_load<T, WIDTH>(h.dout, h.out_stride, query, h.seq, h.width, t.dout);
        __syncthreads();
        tile_dscores<T, WIDTH>(h, query, key, t.q, t.k, t.v, t.dout, t.scores, t.dscores);
        __syncthreads();
        tile_product<WIDTH, true>(t.scores, t.dout, dv);
        tile_product<WIDTH, true>(t.dscores, t.q, dk);
        __syncthreads();
    }
    tile_store<T, WIDTH>(dk, one, h.qkv_stride, key, h.seq, h.width, h.dk);
    tile_store<T, WIDTH>(dv, one, h.qkv_stride, key, h.seq, h.width, h.dv);
}

/* ---- launching --------------------------------------------------------------------- */

static dim3 attention_grid(const device_attention *a, int32_t rows)
{
    return dim3(blocks_of(a->seq, rows), (unsigned)a->heads, (unsigned)a->batch);
}

template <typename T, int WIDTH>
static void attention_forward_tiles(const device_lane *lane, const device_attention *a)
{
    typedef tile<WIDTH> size;
    const size_t bytes = (2 * size::FLOATS + size::SCORES_FLOATS) * sizeof(float);
    CUDA_SHARED_BYTES((attention_forward_kernel<T, WIDTH>), bytes);
    CUDA_LAUNCH(lane, "attention_forward", (attention_forward_kernel<T, WIDTH>),
                attention_grid(a, size::ROWS), ATTENTION_THREADS, bytes, *a);
}

template <typename T, int WIDTH>
static void attention_backward_tiles(const device_lane *lane, const device_attention *a)
{
    typedef tile<WIDTH> size;
    const size_t bytes = backward_tiles<WIDTH>::FLOATS * sizeof(float);
    CUDA_SHARED_BYTES((attention_backward_query_kernel<T, WIDTH>), bytes);
    CUDA_SHARED_BYTES((attention_backward_key_kernel<T, WIDTH>), bytes);
    CUDA_LAUNCH(lane, "attention_backward", attention_delta_kernel<T>,
                attention_grid(a, DELTA_WARPS), DELTA_WARPS * WARP, 0, *a);
    CUDA_LAUNCH(lane, "attention_backward", (attention_backward_query_kernel<T, WIDTH>),
                attention_grid(a, size::ROWS), ATTENTION_THREADS, bytes, *a);
    CUDA_LAUNCH(lane, "attention_backward", (attention_backward_key_kernel<T, WIDTH>),
                attention_grid(a, size::ROWS), ATTENTION_THREADS, bytes, *a);
}

template <typename T>
static void attention_forward_launch(const device_lane *lane, const device_attention *a)
{
    if (a->width <= 64) {
        attention_forward_tiles<T, 64>(lane, a);
    } else if (a->width <= 128) {
        attention_forward_tiles<T, 128>(lane, a);
    } else {
        attention_forward_tiles<T, CUDA_HEAD_WIDTH_MAX>(lane, a);
    }
}

template <typename T>
static void attention_backward_launch(const device_lane *lane, const device_attention *a)
{
    if (a->width <= 64) {
        attention_backward_tiles<T, 64>(lane, a);
    } else if (a->width <= 128) {
        attention_backward_tiles<T, 128>(lane, a);
    } else {
        attention_backward_tiles<T, CUDA_HEAD_WIDTH_MAX>(lane, a);
    }
}

extern "C" void cuda_attention_forward(const device_lane *lane, const device_attention *a)
{
    CUDA_FOR_TYPE(lane, attention_forward_launch<T>(lane, a));
}

extern "C" void cuda_attention_backward(const device_lane *lane,
                                        const device_attention *a)
{
    CUDA_FOR_TYPE(lane, attention_backward_launch<T>(lane, a));
}
