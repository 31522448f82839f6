/* SPDX-License-Identifier: Apache-2.0 */
/* Implements the reference row of device kernels: plain C, in host memory
 * (device_host.h).
 *
 * Every operation is as short as its definition, in fp64 rounded once: the CUDA kernels
 * of the same names are compared with these, as in Karpathy's llm.c. */
#include "attention.h"
#include "number.h"

#include "pipeline/device/device_host.h"

#include <math.h>

/* Added to the variance, as in PyTorch's LayerNorm. */
#define NORM_EPSILON 1e-5

#define GELU_A 0.79788456080286535588 /* sqrt(2 / pi) */
#define GELU_B 0.044715

static tryst_status reference_open(int32_t device, tryst_precision precision,
                                   struct device_session **session_p, char *error,
                                   size_t error_capacity)
{
    return device_host_open(&device_kernels_reference, device, precision, session_p,
                            error, error_capacity);
}

/* ---- sums, copies and roundings of whole arrays ------------------------------------ */

static void reference_add(const struct device_lane *lane, uint64_t count, const void *a,
                          const void *b, void *y)
{
    tryst_dtype dtype = lane->session->dtype;
    for (size_t i = 0; i < count; i++) {
        number_put(y, dtype, i, number_get(a, dtype, i) + number_get(b, dtype, i));
    }
}

static void reference_duplicate(const struct device_lane *lane, uint64_t count,
                                const void *x, void *y)
{
    memcpy(y, x, count * device_dtype_bytes(lane->session->dtype));
}

static void reference_round(const struct device_lane *lane, uint64_t count,
                            const void *wide, void *y)
{
    for (size_t i = 0; i < count; i++) {
        number_put(y, lane->session->dtype, i, number_get(wide, lane->session->wide, i));
    }
}

/* ---- gradients of biases: sums down the columns ------------------------------------ */

static void reference_column_sum(const struct device_lane *lane, int32_t rows,
                                 int32_t columns, const void *dy, void *dbias)
{
    for (size_t j = 0; j < (size_t)columns; j++) {
        double sum = 0;
        for (size_t i = 0; i < (size_t)rows; i++) {
            sum += number_get(dy, lane->session->dtype, i * (size_t)columns + j);
        }
        number_add(dbias, lane->session->wide, j, sum);
    }
}

/* ---- the embedding: a row of each table for each byte, and the scatter-add back ---- */

static void reference_embedding_forward(const struct device_lane *lane, int32_t rows,
                                        int32_t seq, int32_t hidden, const uint8_t *bytes,
                                        const void *token, const void *position, void *y)
{
    tryst_dtype dtype = lane->session->dtype;
    size_t width = (size_t)hidden;
    for (size_t i = 0; i < (size_t)rows; i++) {
        size_t token_at = bytes[i] * width, position_at = i % (size_t)seq * width;
        for (size_t j = 0; j < width; j++) {
            double value = number_get(token, dtype, token_at + j);
            value += position ? number_get(position, dtype, position_at + j) : 0;
            number_put(y, dtype, i * width + j, value);
        }
    }
}

/* Return the sum of one column of dy over the rows with the input `byte`. */
static double embedding_token_sum(const struct device_lane *lane, int32_t rows,
                                  size_t width, const uint8_t *bytes, size_t byte,
                                  const void *dy, size_t column)
{
    double sum = 0;
    for (size_t i = 0; i < (size_t)rows; i++) {
        if (bytes[i] == byte) {
            sum += number_get(dy, lane->session->dtype, i * width + column);
        }
    }
    return sum;
}

static double embedding_position_sum(const struct device_lane *lane, int32_t rows,
                                     size_t width, size_t position, size_t seq,
                                     const void *dy, size_t column)
{
    double sum = 0;
    for (size_t i = position; i < (size_t)rows; i += seq) {
        sum += number_get(dy, lane->session->dtype, i * width + column);
    }
    return sum;
}

static void reference_embedding_backward(const struct device_lane *lane, int32_t rows,
                                         int32_t seq, int32_t hidden, int32_t vocabulary,
                                         const uint8_t *bytes, const void *dy,
                                         void *dtoken, void *dposition)
{
    tryst_dtype wide = lane->session->wide;
    size_t width = (size_t)hidden;
    for (size_t byte = 0; byte < (size_t)vocabulary; byte++) {
        for (size_t j = 0; j < width; j++) {
            number_add(dtoken, wide, byte * width + j,
                       embedding_token_sum(lane, rows, width, bytes, byte, dy, j));
        }
    }
    for (size_t position = 0; dposition && position < (size_t)seq; position++) {
        for (size_t j = 0; j < width; j++) {
            number_add(
                dposition, wide, position * width + j,
                embedding_position_sum(lane, rows, width, position, (size_t)seq, dy, j));
        }
    }
}

/* ---- layer norm -------------------------------------------------------------------- */

/* With n = (x − mean) · rstd and g = dy · gain, row by row:
 *
 *     y  = n · gain + bias
 *     dx = rstd · (g − mean(g) − n · mean(g · n))
 *     dgain = Σ dy · n,  dbias = Σ dy */
static void reference_norm_forward(const struct device_lane *lane, int32_t rows,
                                   int32_t width, const void *x, const void *gain,
                                   const void *bias, void *y, void *mean, void *rstd)
{
    tryst_dtype dtype = lane->session->dtype, wide = lane->session->wide;
    size_t columns = (size_t)width;
    for (size_t i = 0; i < (size_t)rows; i++) {
        double sum = 0, square = 0;
        for (size_t j = 0; j < columns; j++) {
            sum += number_get(x, dtype, i * columns + j);
        }
        double m = sum / width;
        for (size_t j = 0; j < columns; j++) {
            double d = number_get(x, dtype, i * columns + j) - m;
            square += d * d;
        }
        double r = 1 / sqrt(square / width + NORM_EPSILON);
        for (size_t j = 0; j < columns; j++) {
            double n = (number_get(x, dtype, i * columns + j) - m) * r;
            number_put(y, dtype, i * columns + j,
                       n * number_get(gain, dtype, j) + number_get(bias, dtype, j));
        }
        number_put(mean, wide, i, m);
        number_put(rstd, wide, i, r);
    }
}

static void reference_norm_backward_input(const struct device_lane *lane, int32_t rows,
                                          int32_t width, const void *x, const void *gain,
                                          const void *mean, const void *rstd,
                                          const void *dy, const void *residual, void *dx)
{
    tryst_dtype dtype = lane->session->dtype, wide = lane->session->wide;
    size_t columns = (size_t)width;
    for (size_t i = 0; i < (size_t)rows; i++) {
        double m = number_get(mean, wide, i), r = number_get(rstd, wide, i);
        double g_sum = 0, gn_sum = 0;
        for (size_t j = 0, at = i * columns; j < columns; j++, at++) {
            double g = number_get(dy, dtype, at) * number_get(gain, dtype, j);
            g_sum += g;
            gn_sum += g * (number_get(x, dtype, at) - m) * r;
        }
        for (size_t j = 0, at = i * columns; j < columns; j++, at++) {
            double g = number_get(dy, dtype, at) * number_get(gain, dtype, j);
            double n = (number_get(x, dtype, at) - m) * r;
            double d = r * (g - g_sum / width - n * gn_sum / width);
            number_put(dx, dtype, at,
                       d + (residual ? number_get(residual, dtype, at) : 0));
        }
    }
}

static void reference_norm_backward_weight(const struct device_lane *lane, int32_t rows,
                                           int32_t width, const void *x, const void *mean,
                                           const void *rstd, const void *dy, void *dgain,
                                           void *dbias)
{
    tryst_dtype dtype = lane->session->dtype, wide = lane->session->wide;
    size_t columns = (size_t)width;
    for (size_t j = 0; j < columns; j++) {
        double gain_sum = 0, bias_sum = 0;
        for (size_t i = 0; i < (size_t)rows; i++) {
            double d = number_get(dy, dtype, i * columns + j);
            double centred =
                number_get(x, dtype, i * columns + j) - number_get(mean, wide, i);
            gain_sum += d * centred * number_get(rstd, wide, i);
            bias_sum += d;
        }
        number_add(dgain, wide, j, gain_sum);
        number_add(dbias, wide, j, bias_sum);
    }
}

/* ---- GELU in its tanh form, its derivative ----------------------------------------- */

static double reference_gelu(double x)
{
    return 0.5 * x * (1 + tanh(GELU_A * (x + GELU_B * x * x * x)));
}

static double reference_gelu_slope(double x)
{
    double t = tanh(GELU_A * (x + GELU_B * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * GELU_A * (1 + 3 * GELU_B * x * x);
}

static void reference_gelu_backward(const struct device_lane *lane, uint64_t count,
                                    const void *x, const void *dy, void *dx)
{
    tryst_dtype dtype = lane->session->dtype;
    for (size_t i = 0; i < count; i++) {
        double slope = reference_gelu_slope(number_get(x, dtype, i));
        number_put(dx, dtype, i, number_get(dy, dtype, i) * slope);
    }
}

/* ---- matrix products, as defined --------------------------------------------------- */

static double product_element(const struct device_product *p, tryst_dtype dtype, size_t i,
                              size_t j)
{
    size_t m = (size_t)p->m, n = (size_t)p->n, k = (size_t)p->k;
    double sum = 0;
    for (size_t l = 0; l < k; l++) {
        double a = number_get(p->a, dtype, p->a_transposed ? l * m + i : i * k + l);
        double b = number_get(p->b, dtype, p->b_transposed ? j * k + l : l * n + j);
        sum += a * b;
    }
    return sum;
}

static void reference_product(const struct device_lane *lane,
                              const struct device_product *p)
{
    tryst_dtype dtype = lane->session->dtype;
    tryst_dtype d_dtype = p->d_wide ? lane->session->wide : dtype;
    for (size_t i = 0; i < (size_t)p->m; i++) {
        for (size_t j = 0; j < (size_t)p->n; j++) {
            size_t at = i * (size_t)p->n + j;
            double d = product_element(p, dtype, i, j);
            d += p->add ? number_get(p->add, d_dtype, at) : 0;
            d += p->bias ? number_get(p->bias, dtype, j) : 0;
            if (p->epilogue == DEVICE_EPILOGUE_GELU) {
                number_put(p->aux, dtype, at, d);
                d = reference_gelu(d);
            } else if (p->epilogue == DEVICE_EPILOGUE_DGELU) {
                d *= reference_gelu_slope(number_get(p->aux, dtype, at));
            }
            number_put(p->d, d_dtype, at, d);
        }
    }
}

/* ---- softmax and cross-entropy of a chunk of rows, and the mean of all rows' losses  */

static double row_lse(const void *logits, tryst_dtype dtype, size_t at, size_t classes)
{
    double max = -INFINITY, sum = 0;
    for (size_t j = 0; j < classes; j++) {
        max = fmax(max, number_get(logits, dtype, at + j));
    }
    for (size_t j = 0; j < classes; j++) {
        sum += exp(number_get(logits, dtype, at + j) - max);
    }
    return max + log(sum);
}

static void reference_cross_entropy_forward(const struct device_lane *lane, int32_t rows,
                                            int32_t classes, const void *logits,
                                            const uint8_t *target, void *losses,
                                            void *lse)
{
    tryst_dtype wide = lane->session->wide;
    for (size_t i = 0; i < (size_t)rows; i++) {
        size_t at = i * (size_t)classes;
        double sum = row_lse(logits, wide, at, (size_t)classes);
        number_put(lse, wide, i, sum);
        number_put(losses, wide, i, sum - number_get(logits, wide, at + target[i]));
    }
}

static void reference_cross_entropy_backward(const struct device_lane *lane, int32_t rows,
                                             int32_t classes, double weight,
                                             const void *logits, const uint8_t *target,
                                             const void *lse, void *dlogits)
{
    tryst_dtype wide = lane->session->wide;
    for (size_t i = 0; i < (size_t)rows; i++) {
        double sum = number_get(lse, wide, i);
        for (size_t j = 0, at = i * (size_t)classes; j < (size_t)classes; j++, at++) {
            double p = exp(number_get(logits, wide, at) - sum);
            number_put(dlogits, lane->session->dtype, at,
                       (p - (j == target[i] ? 1 : 0)) * weight);
        }
    }
}

static void reference_loss_mean(const struct device_lane *lane, int32_t rows,
                                const void *losses, double *mean)
{
    double sum = 0;
    for (size_t i = 0; i < (size_t)rows; i++) {
        sum += number_get(losses, lane->session->wide, i);
    }
    *mean = sum / rows;
}

/* ---- updates (optimizer.c has the formulae) and predictions over a whole arena ----- */

/* Update the moments of weight `i`, and return the amount to subtract from the weight. */
static double update_step(const struct device_update *u, tryst_dtype wide, size_t i)
{
    double g = u->scale * number_get(u->gradients, wide, i);
    double first = number_get(u->first, wide, i);
    if (!u->adam) {
        double velocity = u->momentum * first + g;
        number_put(u->first, wide, i, velocity);
        return u->lr * velocity;
    }
    double m = u->beta1 * first + u->beta1_rest * g;
    double v = u->beta2 * number_get(u->second, wide, i) + u->beta2_rest * g * g;
    number_put(u->first, wide, i, m);
    number_put(u->second, wide, i, v);
    return u->rate * m / (sqrt(v) * u->root + u->epsilon);
}

static void reference_update(const struct device_lane *lane,
                             const struct device_update *u)
{
    tryst_dtype wide = lane->session->wide;
    for (size_t i = 0; i < u->count; i++) {
        double step = update_step(u, wide, i);
        double before = number_get(u->from, wide, i);
        number_put(u->to, wide, i, before - step);
        double after = number_get(u->to, wide, i);
        if (u->rounded) {
            number_put(u->rounded, lane->session->dtype, i, after);
        }
        if (u->delta) {
            number_put(u->delta, wide, i,
                       u->decay * number_get(u->delta, wide, i) +
                           u->decay_rest * (after - before));
        }
        number_put(u->gradients, wide, i, 0);
    }
}

static void reference_predict(const struct device_lane *lane,
                              const struct device_prediction *p)
{
    tryst_dtype wide = lane->session->wide;
    for (size_t i = 0; i < p->count; i++) {
        double direction = number_get(p->first, wide, i);
        if (p->adam) {
            direction /= sqrt(number_get(p->second, wide, i)) * p->root + p->epsilon;
        }
        number_put(p->to, lane->session->dtype, i,
                   number_get(p->from, wide, i) + p->scale * direction);
    }
}

/* ---- the table --------------------------------------------------------------------- */

const struct device_kernels device_kernels_reference = {
    .struct_size = sizeof(struct device_kernels),
    .name = "reference",
    .memory = TRYST_MEMORY_HOST,
    .head_width_max = REFERENCE_HEAD_WIDTH_MAX,
    .open = reference_open,
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
    .product = reference_product,
    .column_sum = reference_column_sum,
    .embedding_forward = reference_embedding_forward,
    .embedding_backward = reference_embedding_backward,
    .norm_forward = reference_norm_forward,
    .norm_backward_input = reference_norm_backward_input,
    .norm_backward_weight = reference_norm_backward_weight,
    .attention_forward = reference_attention_forward,
    .attention_backward = reference_attention_backward,
    .gelu_backward = reference_gelu_backward,
    .add = reference_add,
    .duplicate = reference_duplicate,
    .cross_entropy_forward = reference_cross_entropy_forward,
    .cross_entropy_backward = reference_cross_entropy_backward,
    .loss_mean = reference_loss_mean,
    .update = reference_update,
    .predict = reference_predict,
    .round = reference_round,
};
