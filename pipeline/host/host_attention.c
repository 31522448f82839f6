/* SPDX-License-Identifier: Apache-2.0 */
/* Computes causal attention on processors; reference/attention.c has the formulae.
 *
 * One idea: a head is a strided matrix that BLAS reads in place, block by block of rows.
 * A block uses only the columns up to its last row, so nearly half of all scores are
 * never computed, and only those of one block are in memory. */
#include "host_attention.h"
#include "real_row.h"

#include "pipeline/device/device_host.h"

/* One head of one window. */
struct head {
    int seq, width, hidden, stride; /* stride: distance of rows in qkv, 3·hidden */
    real scale;
    const real *q, *k, *v;
    real *out;              /* the head's columns of `attended`, rows of `hidden` */
    real *lse, *delta;      /* [seq] */
    const real *dout;       /* layout of `out` */
    real *dq, *dk, *dv;     /* layout of q, k, v */
    real *scores, *dscores; /* scores of one block, and their gradients */
};

/* Rows [first, end) of a head, which use the columns [0, end). */
struct block {
    int first, end, rows;
};

static struct head head_at(const struct device_lane *lane,
                           const struct device_attention *a, int window, int index)
{
    int width = a->width, hidden = width * a->heads;
    size_t row = (size_t)window * (size_t)a->seq;
    size_t out = row * (size_t)hidden + (size_t)index * (size_t)width;
    size_t qkv = out + row * 2 * (size_t)hidden;
    size_t sums = ((size_t)window * (size_t)a->heads + (size_t)index) * (size_t)a->seq;
    struct head h = {.seq = a->seq,
                     .width = width,
                     .hidden = hidden,
                     .stride = 3 * hidden,
                     .scale = 1 / real_sqrt((real)width),
                     .q = (const real *)a->qkv + qkv,
                     .out = (real *)a->attended + out,
                     .lse = (real *)a->lse + sums,
                     .scores = lane->workspace};
    h.k = h.q + hidden;
    h.v = h.k + hidden;
    h.dscores = h.scores + device_host_workspace_bytes(a->seq) / 2 / sizeof(double);
    return h;
}

/* Return the head with the arrays of backward. */
static struct head head_gradients_at(const struct device_lane *lane,
                                     const struct device_attention *a, int window,
                                     int index)
{
    struct head h = head_at(lane, a, window, index);
    h.dout = (const real *)a->dattended + (h.out - (real *)a->attended);
    h.delta = (real *)a->delta + (h.lse - (real *)a->lse);
    h.dq = (real *)a->dqkv + (h.q - (const real *)a->qkv);
    h.dk = h.dq + h.hidden;
    h.dv = h.dk + h.hidden;
    return h;
}

static bool block_next(const struct head *h, struct block *b)
{
    int left = h->seq - b->end;
    b->first = b->end;
    b->rows = left < DEVICE_HOST_SCORE_ROWS ? left : DEVICE_HOST_SCORE_ROWS;
    b->end += b->rows;
    return b->rows > 0;
}

/* Return the offset of the block's rows in a matrix with rows `stride` apart. */
static size_t block_at(const struct block *b, int stride)
{
    return (size_t)b->first * (size_t)stride;
}

/* Return row `i` of the block in `scores`, with its number of columns in *count_p. The
 * columns from there to the block's end, which belong to later keys, are set to zero. */
static real *score_row(const struct block *b, real *scores, int i, int *count_p)
{
    real *row = scores + (size_t)i * (size_t)b->end;
    *count_p = b->first + i + 1;
    memset(row + *count_p, 0, (size_t)(b->end - *count_p) * sizeof(real));
    return row;
}

/* to [block, columns used] = x · yᵀ */
static void block_products(const struct head *h, const struct block *b, const real *x,
                           int x_stride, const real *y, real *to)
{
    real_gemm(CblasRowMajor, CblasNoTrans, CblasTrans, b->rows, b->end, h->width, 1,
              x + block_at(b, x_stride), x_stride, y, h->stride, 0, to, b->end);
}

/* to [block, width] = scores · x */
static void block_sum(const struct head *h, const struct block *b, const real *scores,
                      const real *x, real *to, int to_stride)
{
    real_gemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, b->rows, h->width, b->end, 1,
              scores, b->end, x, h->stride, 0, to + block_at(b, to_stride), to_stride);
}

/* to [columns used, width] += scoresᵀ · x; the first block overwrites. */
static void block_scatter(const struct head *h, const struct block *b, const real *scores,
                          const real *x, int x_stride, real *to)
{
    real_gemm(CblasRowMajor, CblasTrans, CblasNoTrans, b->end, h->width, b->rows, 1,
              scores, b->end, x + block_at(b, x_stride), x_stride, b->first > 0, to,
              h->stride);
}

static void head_forward(const struct head *h)
{
    for (struct block b = {0}; block_next(h, &b);) {
        block_products(h, &b, h->q, h->stride, h->k, h->scores);
        for (int i = 0; i < b.rows; i++) {
            int count;
            real *row = score_row(&b, h->scores, i, &count);
            real max = h->scale * row_max(count, row);
            row_exp(count, h->scale, max, row);
            real sum = row_sum(count, row);
            row_scale(count, 1 / sum, row);
            h->lse[b.first + i] = max + real_log(sum);
        }
        block_sum(h, &b, h->scores, h->v, h->out, h->hidden);
    }
}

/* Compute delta; then, in place, the probabilities from the scores and lse, and the
 * gradients of the scores from those of the probabilities. */
static void block_backward(const struct head *h, const struct block *b)
{
    for (int i = 0; i < b->rows; i++) {
        int count;
        int at = b->first + i;
        size_t out = (size_t)at * (size_t)h->hidden;
        real delta = row_dot(h->width, h->dout + out, h->out + out);
        h->delta[at] = delta;
        real *p = score_row(b, h->scores, i, &count);
        real *ds = score_row(b, h->dscores, i, &count);
        row_exp(count, h->scale, h->lse[at], p);
        for (int j = 0; j < count; j++) {
            ds[j] = h->scale * p[j] * (ds[j] - delta);
        }
    }
}

static void head_backward(const struct head *h)
{
    /* Later blocks add to these rows; those of the first block are overwritten. */
    for (int i = DEVICE_HOST_SCORE_ROWS; i < h->seq; i++) {
        size_t row = (size_t)i * (size_t)h->stride;
        memset(h->dk + row, 0, (size_t)h->width * sizeof(real));
        memset(h->dv + row, 0, (size_t)h->width * sizeof(real));
    }
    for (struct block b = {0}; block_next(h, &b);) {
        block_products(h, &b, h->q, h->stride, h->k, h->scores);
        block_products(h, &b, h->dout, h->hidden, h->v, h->dscores);
        block_backward(h, &b);
        block_sum(h, &b, h->dscores, h->k, h->dq, h->stride);
        block_scatter(h, &b, h->dscores, h->q, h->stride, h->dk);
        block_scatter(h, &b, h->scores, h->dout, h->hidden, h->dv);
    }
}

void host_attention_forward(const struct device_lane *lane,
                            const struct device_attention *a)
{
    for (int32_t window = 0; window < a->batch; window++) {
        for (int32_t index = 0; index < a->heads; index++) {
            const struct head h = head_at(lane, a, window, index);
            head_forward(&h);
        }
    }
}

void host_attention_backward(const struct device_lane *lane,
                             const struct device_attention *a)
{
    for (int32_t window = 0; window < a->batch; window++) {
        for (int32_t index = 0; index < a->heads; index++) {
            const struct head h = head_gradients_at(lane, a, window, index);
            head_backward(&h);
        }
    }
}
