/* SPDX-License-Identifier: Apache-2.0 */
/* Implements the row `host` of device kernels, with which stages on processors compute.
 * BLAS multiplies matrices, the rest is written by hand.
 *
 * One idea: the loops can be vectorised without reordering any sum (real_row.h).
 *
 * Invariant: no function keeps state, and equal arguments give equal bits. T and wide are
 * both `real`. tests/pipeline/test_gradient.c compiles this file with real = double
 * and checks it against finite differences. */
#include "host.h"

#include "blas.h"
#include "host_attention.h"
#include "real_row.h"

#include "pipeline/device/device_host.h"

/* GELU(x) = x · sigmoid(2u), u = GELU_A · (x + GELU_B · x³) */
#define GELU_A ((real)0.79788456080286535588) /* sqrt(2 / pi) */
#define GELU_B ((real)0.044715)

/* Added to the variance, as in PyTorch's LayerNorm. */
#define NORM_EPSILON ((real)1e-5)

const tryst_precision host_precision = REAL_PRECISION;

static tryst_status host_open(int32_t device, tryst_precision precision,
                              struct device_session **session_p, char *error,
                              size_t error_capacity)
{
    blas_use_one_thread();
    return device_host_open(&device_kernels_host, device, precision, session_p, error,
                            error_capacity);
}

/* ---- whole arrays ------------------------------------------------------------------ */

/* y = a + b; y may be a or b. */
static void real_add(uint64_t count, const real *a, const real *b, real *y)
{
    for (uint64_t i = 0; i < count; i++) {
        y[i] = a[i] + b[i];
    }
}

static void host_add(const struct device_lane *lane, uint64_t count, const void *a,
                     const void *b, void *y)
{
    (void)lane;
    real_add(count, a, b, y);
}

static void host_duplicate(const struct device_lane *lane, uint64_t count, const void *x,
                           void *y)
{
    (void)lane;
    memcpy(y, x, count * sizeof(real));
}

static void host_column_sum(const struct device_lane *lane, int32_t rows, int32_t columns,
                            const void *dy, void *dbias)
{
    const real *row = dy;
    (void)lane;
    for (int32_t i = 0; i < rows; i++, row += columns) {
        real_add((uint64_t)columns, dbias, row, dbias);
    }
}

/* ---- GELU -------------------------------------------------------------------------- */

static inline real gelu_sigmoid(real x)
{
    real u = GELU_A * (x + GELU_B * x * x * x);
    return 1 / (1 + real_exp(-2 * u));
}

static void gelu_forward(uint64_t count, const real *restrict x, real *restrict y)
{
    for (uint64_t i = 0; i < count; i++) {
        y[i] = x[i] * gelu_sigmoid(x[i]);
    }
}

/* d = d · gelu'(x) */
static void gelu_slope_multiply(uint64_t count, const real *restrict x, real *restrict d)
{
    for (uint64_t i = 0; i < count; i++) {
        real v = x[i];
        real s = gelu_sigmoid(v);
        real du = GELU_A * (1 + 3 * GELU_B * v * v);
        d[i] *= s + 2 * v * s * (1 - s) * du;
    }
}

static void host_gelu_backward(const struct device_lane *lane, uint64_t count,
                               const void *x, const void *dy, void *dx)
{
    (void)lane;
    if (dx != dy) {
        memcpy(dx, dy, count * sizeof(real));
    }
    gelu_slope_multiply(count, x, dx);
}

/* ---- matrix products --------------------------------------------------------------- */

/* Set `d` to `add` + `bias`, to which the product is then added. False if the product has
 * neither; `d` is then left as it is. */
static bool product_begin(const struct device_product *p, real *d)
{
    size_t m = (size_t)p->m, n = (size_t)p->n;
    if (!p->bias) {
        if (p->add && p->add != d) {
            memcpy(d, p->add, m * n * sizeof(real));
        }
        return p->add != NULL;
    }
    for (size_t i = 0; i < m; i++) {
        if (p->add) {
            real_add(n, (const real *)p->add + i * n, p->bias, d + i * n);
        } else {
            memcpy(d + i * n, p->bias, n * sizeof(real));
        }
    }
    return true;
}

static void host_product(const struct device_lane *lane, const struct device_product *p)
{
    uint64_t count = (uint64_t)p->m * (uint64_t)p->n;
    real *d = p->epilogue == DEVICE_EPILOGUE_GELU ? p->aux : p->d;
    bool adds = product_begin(p, d);
    (void)lane;
    real_gemm(CblasRowMajor, p->a_transposed ? CblasTrans : CblasNoTrans,
              p->b_transposed ? CblasTrans : CblasNoTrans, p->m, p->n, p->k, 1, p->a,
              p->a_transposed ? p->m : p->k, p->b, p->b_transposed ? p->k : p->n,
              adds ? 1 : 0, d, p->n);
    if (p->epilogue == DEVICE_EPILOGUE_GELU) {
        gelu_forward(count, d, p->d);
    } else if (p->epilogue == DEVICE_EPILOGUE_DGELU) {
        gelu_slope_multiply(count, p->aux, d);
    }
}

/* ---- embedding --------------------------------------------------------------------- */

static void host_embedding_forward(const struct device_lane *lane, int32_t rows,
                                   int32_t seq, int32_t hidden, const uint8_t *bytes,
                                   const void *token, const void *position, void *y)
{
    size_t width = (size_t)hidden;
    (void)lane;
    for (size_t i = 0; i < (size_t)rows; i++) {
        const real *row = (const real *)token + bytes[i] * width;
        real *to = (real *)y + i * width;
        if (position) {
            real_add(width, row, (const real *)position + i % (size_t)seq * width, to);
        } else {
            memcpy(to, row, width * sizeof(real));
        }
    }
}

/* Add gradients in row order, so that the result is as reproducible as the matrix
 * products. */
static void host_embedding_backward(const struct device_lane *lane, int32_t rows,
                                    int32_t seq, int32_t hidden, int32_t vocabulary,
                                    const uint8_t *bytes, const void *dy, void *dtoken,
                                    void *dposition)
{
    size_t width = (size_t)hidden;
    (void)lane;
    (void)vocabulary;
    for (size_t i = 0; i < (size_t)rows; i++) {
        const real *gradient = (const real *)dy + i * width;
        real *token = (real *)dtoken + bytes[i] * width;
        real_add(width, token, gradient, token);
        if (dposition) {
            real *position = (real *)dposition + i % (size_t)seq * width;
            real_add(width, position, gradient, position);
        }
    }
}

/* ---- layer norm -------------------------------------------------------------------- */

static void norm_row_forward(int width, const real *x, const real *gain, const real *bias,
                             real *y, real *mean_p, real *rstd_p)
{
    real m = row_sum(width, x) / (real)width;
    real variance = row_deviation(width, x, m) / (real)width;
    real r = 1 / real_sqrt(variance + NORM_EPSILON);
    for (int j = 0; j < width; j++) {
        y[j] = (x[j] - m) * r * gain[j] + bias[j];
    }
    *mean_p = m;
    *rstd_p = r;
}

static void host_norm_forward(const struct device_lane *lane, int32_t rows, int32_t width,
                              const void *x, const void *gain, const void *bias, void *y,
                              void *mean, void *rstd)
{
    (void)lane;
    for (size_t i = 0, at = 0; i < (size_t)rows; i++, at += (size_t)width) {
        norm_row_forward(width, (const real *)x + at, gain, bias, (real *)y + at,
                         (real *)mean + i, (real *)rstd + i);
    }
}

/* Compute one row: with n = (x − mean)·rstd and g = dy·gain,
 * dx = residual + rstd·(g − mean(g) − n·mean(g·n)). */
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

static void host_norm_backward_input(const struct device_lane *lane, int32_t rows,
                                     int32_t width, const void *x, const void *gain,
                                     const void *mean, const void *rstd, const void *dy,
                                     const void *residual, void *dx)
{
    (void)lane;
    for (size_t i = 0, at = 0; i < (size_t)rows; i++, at += (size_t)width) {
        norm_row_backward(width, (const real *)x + at, gain, ((const real *)mean)[i],
                          ((const real *)rstd)[i], (const real *)dy + at,
                          residual ? (const real *)residual + at : NULL, (real *)dx + at);
    }
}

static void host_norm_backward_weight(const struct device_lane *lane, int32_t rows,
                                      int32_t width, const void *x, const void *mean,
                                      const void *rstd, const void *dy, void *dgain,
                                      void *dbias)
{
    const real *x_row = x, *dy_row = dy;
    real *gain = dgain;
    (void)lane;
    for (int32_t i = 0; i < rows; i++, x_row += width, dy_row += width) {
        real m = ((const real *)mean)[i], r = ((const real *)rstd)[i];
        for (int32_t j = 0; j < width; j++) {
            gain[j] += dy_row[j] * ((x_row[j] - m) * r);
        }
        real_add((uint64_t)width, dbias, dy_row, dbias);
    }
}

/* ---- loss -------------------------------------------------------------------------- */

static void host_cross_entropy_forward(const struct device_lane *lane, int32_t rows,
                                       int32_t classes, const void *logits,
                                       const uint8_t *target, void *losses, void *lse)
{
    const real *row = logits;
    (void)lane;
    for (int32_t i = 0; i < rows; i++, row += classes) {
        real max = row_max(classes, row);
        real sum = max + real_log(row_exp_sum(classes, max, row));
        ((real *)lse)[i] = sum;
        ((real *)losses)[i] = sum - row[target[i]];
    }
}

static void host_cross_entropy_backward(const struct device_lane *lane, int32_t rows,
                                        int32_t classes, double weight,
                                        const void *logits, const uint8_t *target,
                                        const void *lse, void *dlogits)
{
    const real *row = logits;
    real factor = (real)weight;
    real *to = dlogits;
    (void)lane;
    for (int32_t i = 0; i < rows; i++, row += classes, to += classes) {
        real sum = ((const real *)lse)[i];
        for (int32_t j = 0; j < classes; j++) {
            to[j] = real_exp(row[j] - sum) * factor;
        }
        to[target[i]] -= factor;
    }
}

static void host_loss_mean(const struct device_lane *lane, int32_t rows,
                           const void *losses, double *mean)
{
    double sum = 0;
    (void)lane;
    for (int32_t i = 0; i < rows; i++) {
        sum += (double)((const real *)losses)[i];
    }
    *mean = sum / rows;
}

/* ---- update ------------------------------------------------------------------------ */

/* `delta` may be NULL. */
static void update_sgd(const struct device_update *u, real *restrict weights,
                       real *restrict gradients, real *restrict velocity,
                       real *restrict delta)
{
    real lr = (real)u->lr, momentum = (real)u->momentum, scale = (real)u->scale;
    real decay = (real)u->decay, decay_rest = (real)u->decay_rest;
    for (uint64_t i = 0; i < u->count; i++) {
        real before = weights[i];
        real v = momentum * velocity[i] + scale * gradients[i];
        real after = before - lr * v;
        velocity[i] = v;
        weights[i] = after;
        gradients[i] = 0;
        if (delta) {
            delta[i] = decay * delta[i] + decay_rest * (after - before);
        }
    }
}

static void update_adam(const struct device_update *u, real *restrict weights,
                        real *restrict gradients, real *restrict first,
                        real *restrict second, real *restrict delta)
{
    real rate = (real)u->rate, root = (real)u->root, scale = (real)u->scale;
    real beta1 = (real)u->beta1, beta1_rest = (real)u->beta1_rest;
    real beta2 = (real)u->beta2, beta2_rest = (real)u->beta2_rest;
    real decay = (real)u->decay, decay_rest = (real)u->decay_rest;
    real epsilon = (real)u->epsilon;
    for (uint64_t i = 0; i < u->count; i++) {
        real before = weights[i];
        real g = scale * gradients[i];
        real m = beta1 * first[i] + beta1_rest * g;
        real v = beta2 * second[i] + beta2_rest * g * g;
        real after = before - rate * m / (real_sqrt(v) * root + epsilon);
        first[i] = m;
        second[i] = v;
        weights[i] = after;
        gradients[i] = 0;
        if (delta) {
            delta[i] = decay * delta[i] + decay_rest * (after - before);
        }
    }
}

static void host_update(const struct device_lane *lane, const struct device_update *u)
{
    (void)lane;
    if (u->to != u->from) {
        memcpy(u->to, u->from, u->count * sizeof(real));
    }
    if (u->adam) {
        update_adam(u, u->to, u->gradients, u->first, u->second, u->delta);
    } else {
        update_sgd(u, u->to, u->gradients, u->first, u->delta);
    }
    if (u->rounded) { /* a plain copy: T is wide */
        memcpy(u->rounded, u->to, u->count * sizeof(real));
    }
}

static void predict_along(const struct device_prediction *p, const real *restrict from,
                          const real *restrict direction, real *restrict to)
{
    real scale = (real)p->scale;
    for (uint64_t i = 0; i < p->count; i++) {
        to[i] = from[i] + scale * direction[i];
    }
}

static void predict_adam(const struct device_prediction *p, const real *restrict from,
                         const real *restrict first, const real *restrict second,
                         real *restrict to)
{
    real scale = (real)p->scale, root = (real)p->root, epsilon = (real)p->epsilon;
    for (uint64_t i = 0; i < p->count; i++) {
        to[i] = from[i] + scale * first[i] / (real_sqrt(second[i]) * root + epsilon);
    }
}

static void host_predict(const struct device_lane *lane,
                         const struct device_prediction *p)
{
    (void)lane;
    if (p->adam) {
        predict_adam(p, p->from, p->first, p->second, p->to);
    } else {
        predict_along(p, p->from, p->first, p->to);
    }
}

/* ---- the table --------------------------------------------------------------------- */

const struct device_kernels device_kernels_host = {
    .struct_size = sizeof(struct device_kernels),
    .name = "host",
    .memory = TRYST_MEMORY_HOST,
    .head_width_max = INT32_MAX,
    .open = host_open,
    .close = device_host_close,
    .enter = device_host_context,
    .leave = device_host_context,
    .status = device_host_status,
    .idle = device_host_idle,
    .memory_left = device_host_memory_left,
    .alloc = device_host_alloc,
    .free = device_host_free,
    .pinned_alloc = device_host_alloc,
    .pinned_free = device_host_free,
    .copy = device_host_copy,
    .event_open = device_host_event_open,
    .event_close = device_host_event_close,
    .event_record = device_host_event,
    .event_wait = device_host_event,
    .product = host_product,
    .column_sum = host_column_sum,
    .embedding_forward = host_embedding_forward,
    .embedding_backward = host_embedding_backward,
    .norm_forward = host_norm_forward,
    .norm_backward_input = host_norm_backward_input,
    .norm_backward_weight = host_norm_backward_weight,
    .attention_forward = host_attention_forward,
    .attention_backward = host_attention_backward,
    .gelu_backward = host_gelu_backward,
    .add = host_add,
    .duplicate = host_duplicate,
    .cross_entropy_forward = host_cross_entropy_forward,
    .cross_entropy_backward = host_cross_entropy_backward,
    .loss_mean = host_loss_mean,
    .update = host_update,
    .predict = host_predict,
    .round = host_duplicate, /* T is wide */
};
