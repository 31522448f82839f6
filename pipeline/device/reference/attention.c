/* SPDX-License-Identifier: Apache-2.0 */
/* Computes causal attention, one row at a time. With s_ij = scale · q_i·k_j for j ≤ i
 * only:
 *
 *     lse_i = log Σ_j exp(s_ij),  p_ij = exp(s_ij − lse_i),  o_i = Σ_j p_ij v_j
 *     delta_i = do_i·o_i,  ds_ij = p_ij (do_i·v_j − delta_i)
 *     dq_i = scale Σ_j ds_ij k_j,  dk_j = scale Σ_i ds_ij q_i,  dv_j = Σ_i p_ij do_i
 *
 * Forward stores lse, and backward computes p again from it, so no [seq, seq] matrix
 * exists (Dao et al., FlashAttention, 2022). Backward loops over rows for dq and over
 * columns for dk and dv, so that each result is one sum in a fixed order. */
#include "attention.h"
#include "number.h"

#include <math.h>

/* One head of one window. */
struct head {
    const struct device_attention *a;
    tryst_dtype dtype, wide;
    size_t width, hidden, seq;
    /* offset of the head's q of row 0 in qkv; k is `hidden` further, v 2·hidden */
    size_t q;
    size_t out;  /* offset of the head's columns of row 0 in attended */
    size_t sums; /* offset of the head's row 0 in lse and delta */
    double scale;
};

static struct head head_at(const struct device_lane *lane,
                           const struct device_attention *a, size_t window, size_t index)
{
    size_t width = (size_t)a->width, hidden = width * (size_t)a->heads;
    size_t seq = (size_t)a->seq;
    return (struct head){.a = a,
                         .dtype = lane->session->dtype,
                         .wide = lane->session->wide,
                         .width = width,
                         .hidden = hidden,
                         .seq = seq,
                         .q = window * seq * 3 * hidden + index * width,
                         .out = window * seq * hidden + index * width,
                         .sums = (window * (size_t)a->heads + index) * seq,
                         .scale = 1 / sqrt((double)a->width)};
}

/* Return the offset in qkv of row `i` of q (part 0), k (1) or v (2). */
static size_t head_row(const struct head *h, size_t i, size_t part)
{
    return h->q + (i * 3 + part) * h->hidden;
}

static double head_score(const struct head *h, size_t i, size_t j)
{
    size_t q = head_row(h, i, 0), k = head_row(h, j, 1);
    double sum = 0;
    for (size_t d = 0; d < h->width; d++) {
        sum += number_get(h->a->qkv, h->dtype, q + d) *
               number_get(h->a->qkv, h->dtype, k + d);
    }
    return h->scale * sum;
}

static double head_probability(const struct head *h, size_t i, size_t j)
{
    return exp(head_score(h, i, j) - number_get(h->a->lse, h->wide, h->sums + i));
}

static double head_lse(const struct head *h, size_t i)
{
    double max = -INFINITY, sum = 0;
    for (size_t j = 0; j <= i; j++) {
        double score = head_score(h, i, j);
        double larger = score > max ? score : max;
        sum = sum * exp(max - larger) + exp(score - larger);
        max = larger;
    }
    return max + log(sum);
}

/* sum += factor · row */
static void row_add(const void *data, tryst_dtype dtype, size_t at, size_t width,
                    double factor, double *sum)
{
    for (size_t d = 0; d < width; d++) {
        sum[d] += factor * number_get(data, dtype, at + d);
    }
}

static void row_put(const double *sum, void *data, tryst_dtype dtype, size_t at,
                    size_t width)
{
    for (size_t d = 0; d < width; d++) {
        number_put(data, dtype, at + d, sum[d]);
    }
}

static void head_forward(const struct head *h)
{
    for (size_t i = 0; i < h->seq; i++) {
        double sum[REFERENCE_HEAD_WIDTH_MAX] = {0};
        number_put(h->a->lse, h->wide, h->sums + i, head_lse(h, i));
        for (size_t j = 0; j <= i; j++) {
            row_add(h->a->qkv, h->dtype, head_row(h, j, 2), h->width,
                    head_probability(h, i, j), sum);
        }
        row_put(sum, h->a->attended, h->dtype, h->out + i * h->hidden, h->width);
    }
}

/* Return do_i · r, where r is the row of `other` that begins at element `at`: v_j or
 * o_i. */
static double head_dot(const struct head *h, size_t i, const void *other, size_t at)
{
    double sum = 0;
    for (size_t d = 0; d < h->width; d++) {
        sum += number_get(h->a->dattended, h->dtype, h->out + i * h->hidden + d) *
               number_get(other, h->dtype, at + d);
    }
    return sum;
}

/* Return scale · ds_ij; *probability_p receives p_ij. */
static double head_dscore(const struct head *h, size_t i, size_t j, double *probability_p)
{
    double p = head_probability(h, i, j);
    double delta = number_get(h->a->delta, h->wide, h->sums + i);
    *probability_p = p;
    return h->scale * p * (head_dot(h, i, h->a->qkv, head_row(h, j, 2)) - delta);
}

static void head_backward_row(const struct head *h, size_t i)
{
    double dq[REFERENCE_HEAD_WIDTH_MAX] = {0}, p;
    for (size_t j = 0; j <= i; j++) {
        double ds = head_dscore(h, i, j, &p);
        row_add(h->a->qkv, h->dtype, head_row(h, j, 1), h->width, ds, dq);
    }
    row_put(dq, h->a->dqkv, h->dtype, head_row(h, i, 0), h->width);
}

static void head_backward_column(const struct head *h, size_t j)
{
    double dk[REFERENCE_HEAD_WIDTH_MAX] = {0}, dv[REFERENCE_HEAD_WIDTH_MAX] = {0}, p;
    for (size_t i = j; i < h->seq; i++) {
        double ds = head_dscore(h, i, j, &p);
        row_add(h->a->qkv, h->dtype, head_row(h, i, 0), h->width, ds, dk);
        row_add(h->a->dattended, h->dtype, h->out + i * h->hidden, h->width, p, dv);
    }
    row_put(dk, h->a->dqkv, h->dtype, head_row(h, j, 1), h->width);
    row_put(dv, h->a->dqkv, h->dtype, head_row(h, j, 2), h->width);
}

static void head_backward(const struct head *h)
{
    for (size_t i = 0; i < h->seq; i++) {
        number_put(h->a->delta, h->wide, h->sums + i,
                   head_dot(h, i, h->a->attended, h->out + i * h->hidden));
    }
    for (size_t i = 0; i < h->seq; i++) {
        head_backward_row(h, i);
        head_backward_column(h, i);
    }
}

void reference_attention_forward(const struct device_lane *lane,
                                 const struct device_attention *a)
{
    for (int32_t window = 0; window < a->batch; window++) {
        for (int32_t index = 0; index < a->heads; index++) {
            const struct head h = head_at(lane, a, (size_t)window, (size_t)index);
            head_forward(&h);
        }
    }
}

void reference_attention_backward(const struct device_lane *lane,
                                  const struct device_attention *a)
{
    for (int32_t window = 0; window < a->batch; window++) {
        for (int32_t index = 0; index < a->heads; index++) {
            const struct head h = head_at(lane, a, (size_t)window, (size_t)index);
            head_backward(&h);
        }
    }
}
