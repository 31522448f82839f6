/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of the host stages, forward and backward, written by hand.
 *
 * One idea: loops that the compiler can vectorise without being allowed to reorder anything. A
 * sum that should run fast is written as LANES sums with a fixed order at the end, so its bits
 * are the same on every build and machine that rounds like IEEE 754.
 *
 * Invariant: no function reads or keeps state; equal arguments give equal bits. Called by the
 * layers (gpt.c, mlp.c, ends.c) alone. tests/pipeline/test_gradient.c compiles this file with
 * real = double and checks it against finite differences. */
#include "kernels.h"

#include "real_exp.h"

#include <string.h>

/* 16 floats are one AVX-512 register or four SSE ones; fixed for ever, because it decides the
 * order of sums. */
enum { LANES = 16 };

/* GELU(x) = x · sigmoid(2u), u = GELU_A · (x + GELU_B · x³) */
#define GELU_A ((real)0.79788456080286535588) /* sqrt(2 / pi) */
#define GELU_B ((real)0.044715)

/* Added to the variance, as in PyTorch's LayerNorm. */
#define NORM_EPSILON ((real)1e-5)

static inline real lanes_sum(const real *lanes)
{
    real half[LANES / 2];
    for (int j = 0; j < LANES / 2; j++) {
        half[j] = lanes[j] + lanes[j + LANES / 2];
    }
    real sum = 0;
    for (int j = 0; j < LANES / 2; j++) {
        sum += half[j];
    }
    return sum;
}

static real row_sum(int count, const real *x)
{
    real lanes[LANES] = {0};
    int i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (int j = 0; j < LANES; j++) {
            lanes[j] += x[i + j];
        }
    }
    for (int j = 0; i < count; i++, j++) {
        lanes[j] += x[i];
    }
    return lanes_sum(lanes);
}

static real row_dot(int count, const real *x, const real *y)
{
    real lanes[LANES] = {0};
    int i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (int j = 0; j < LANES; j++) {
            lanes[j] += x[i + j] * y[i + j];
        }
    }
    for (int j = 0; i < count; i++, j++) {
        lanes[j] += x[i] * y[i];
    }
    return lanes_sum(lanes);
}

/* Sum of (x − mean)². */
static real row_deviation(int count, const real *x, real mean)
{
    real lanes[LANES] = {0};
    int i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (int j = 0; j < LANES; j++) {
            real d = x[i + j] - mean;
            lanes[j] += d * d;
        }
    }
    for (int j = 0; i < count; i++, j++) {
        real d = x[i] - mean;
        lanes[j] += d * d;
    }
    return lanes_sum(lanes);
}

static real row_max(int count, const real *x)
{
    real lanes[LANES];
    for (int j = 0; j < LANES; j++) {
        lanes[j] = x[0];
    }
    int i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (int j = 0; j < LANES; j++) {
            lanes[j] = x[i + j] > lanes[j] ? x[i + j] : lanes[j];
        }
    }
    for (; i < count; i++) {
        lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
    }
    real max = lanes[0];
    for (int j = 1; j < LANES; j++) {
        max = lanes[j] > max ? lanes[j] : max;
    }
    return max;
}

/* x = exp(scale · x − shift), in place; returns the sum. */
static real row_exp(int count, real scale, real shift, real *x)
{
    for (int i = 0; i < count; i++) {
        x[i] = real_exp(scale * x[i] - shift);
    }
    return row_sum(count, x);
}

static void row_scale(int count, real factor, real *x)
{
    for (int i = 0; i < count; i++) {
        x[i] *= factor;
    }
}

/* ---- matrix products ----------------------------------------------------------------------- */

void linear_forward(int rows, int in, int out, const real *x, const real *weight,
                    const real *bias, real *y)
{
    if (bias) {
        for (int i = 0; i < rows; i++) {
            memcpy(y + (size_t)i * (size_t)out, bias, (size_t)out * sizeof(real));
        }
    }
    real_gemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, out, in, 1, x, in, weight,
              in, bias ? 1 : 0, y, out);
}

void linear_backward_input(int rows, int in, int out, const real *dy, const real *weight,
                           real *dx)
{
    real_gemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, in, out, 1, dy, out,
              weight, in, 0, dx, in);
}

void linear_backward_weight(int rows, int in, int out, const real *x, const real *dy,
                            real *dweight, real *dbias)
{
    real_gemm(CblasRowMajor, CblasTrans, CblasNoTrans, out, in, rows, 1, dy, out, x, in,
              1, dweight, in);
    for (int i = 0; dbias && i < rows; i++) {
        const real *row = dy + (size_t)i * (size_t)out;
        for (int j = 0; j < out; j++) {
            dbias[j] += row[j];
        }
    }
}

/* ---- layer norm ---------------------------------------------------------------------------- */

void norm_forward(int rows, int width, const real *x, const real *gain, const real *bias,
                  real *y, real *mean, real *rstd)
{
    for (int i = 0; i < rows; i++, x += width, y += width) {
        real m = row_sum(width, x) / (real)width;
        real variance = row_deviation(width, x, m) / (real)width;
        real r = 1 / real_sqrt(variance + NORM_EPSILON);
        for (int j = 0; j < width; j++) {
            y[j] = (x[j] - m) * r * gain[j] + bias[j];
        }
        mean[i] = m;
        rstd[i] = r;
    }
}

/* One row: with n = (x − mean)·rstd and g = dy·gain, dx = rstd·(g − mean(g) − n·mean(g·n)). */
static void norm_row_backward(int width, const real *x, const real *gain, real mean,
                              real rstd, const real *dy, const real *residual, real *dx)
{
    real sum[LANES] = {0};
    real dot[LANES] = {0};
    for (int i = 0; i < width; i += LANES) {
        int count = width - i < LANES ? width - i : LANES;
        for (int j = 0; j < count; j++) {
            real g = dy[i + j] * gain[i + j];
            sum[j] += g;
            dot[j] += g * (x[i + j] - mean);
        }
    }
    real g_mean = lanes_sum(sum) / (real)width;
    real gn_mean = lanes_sum(dot) * rstd / (real)width;
    for (int j = 0; j < width; j++) {
        real n = (x[j] - mean) * rstd;
        real d = rstd * (dy[j] * gain[j] - g_mean - n * gn_mean);
        dx[j] = residual ? residual[j] + d : d;
    }
}

void norm_backward_input(int rows, int width, const real *x, const real *gain,
                         const real *mean, const real *rstd, const real *dy,
                         const real *residual, real *dx)
{
    for (int i = 0; i < rows; i++) {
        size_t at = (size_t)i * (size_t)width;
        norm_row_backward(width, x + at, gain, mean[i], rstd[i], dy + at,
                          residual ? residual + at : NULL, dx + at);
    }
}

void norm_backward_weight(int rows, int width, const real *x, const real *mean,
                          const real *rstd, const real *dy, real *dgain, real *dbias)
{
    for (int i = 0; i < rows; i++, x += width, dy += width) {
        real m = mean[i], r = rstd[i];
        for (int j = 0; j < width; j++) {
            dgain[j] += dy[j] * ((x[j] - m) * r);
        }
        for (int j = 0; j < width; j++) {
            dbias[j] += dy[j];
        }
    }
}

/* ---- GELU ---------------------------------------------------------------------------------- */

static inline real gelu_sigmoid(real x)
{
    real u = GELU_A * (x + GELU_B * x * x * x);
    return 1 / (1 + real_exp(-2 * u));
}

void gelu_forward(uint64_t count, const real *restrict x, real *restrict y)
{
    for (uint64_t i = 0; i < count; i++) {
        y[i] = x[i] * gelu_sigmoid(x[i]);
    }
}

void gelu_backward(uint64_t count, const real *restrict x, const real *restrict dy,
                   real *restrict dx)
{
    for (uint64_t i = 0; i < count; i++) {
        real v = x[i];
        real s = gelu_sigmoid(v);
        real du = GELU_A * (1 + 3 * GELU_B * v * v);
        dx[i] = dy[i] * (s + 2 * v * s * (1 - s) * du);
    }
}

/* ---- softmax and loss ---------------------------------------------------------------------- */

void softmax_causal_forward(int seq, real scale, real *scores)
{
    for (int i = 0; i < seq; i++, scores += seq) {
        real max = row_max(i + 1, scores);
        real sum = row_exp(i + 1, scale, scale * max, scores);
        row_scale(i + 1, 1 / sum, scores);
        memset(scores + i + 1, 0, (size_t)(seq - i - 1) * sizeof(real));
    }
}

void softmax_causal_backward(int seq, real scale, const real *probabilities,
                             real *gradient)
{
    for (int i = 0; i < seq; i++, probabilities += seq, gradient += seq) {
        real dot = row_dot(i + 1, probabilities, gradient);
        for (int j = 0; j <= i; j++) {
            gradient[j] = scale * probabilities[j] * (gradient[j] - dot);
        }
        memset(gradient + i + 1, 0, (size_t)(seq - i - 1) * sizeof(real));
    }
}

double cross_entropy_forward(int rows, int classes, const uint8_t *target, real *logits)
{
    double loss = 0;
    for (int i = 0; i < rows; i++, logits += classes) {
        real max = row_max(classes, logits);
        real of_target = logits[target[i]] - max;
        real sum = row_exp(classes, 1, max, logits);
        loss += (double)(real_log(sum) - of_target);
        row_scale(classes, 1 / sum, logits);
    }
    return loss / rows;
}

void cross_entropy_backward(int rows, int classes, const uint8_t *target,
                            const real *probabilities, real *dlogits)
{
    const real weight = 1 / (real)rows;
    for (int i = 0; i < rows; i++, probabilities += classes, dlogits += classes) {
        for (int j = 0; j < classes; j++) {
            dlogits[j] = probabilities[j] * weight;
        }
        dlogits[target[i]] -= weight;
    }
}

void real_add(uint64_t count, const real *a, const real *b, real *y)
{
    for (uint64_t i = 0; i < count; i++) {
        y[i] = a[i] + b[i];
    }
}
