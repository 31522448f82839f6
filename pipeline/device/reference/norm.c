/* SPDX-License-Identifier: Apache-2.0 */
/* Layer norm, forward and backward. With n = (x − mean) · rstd and g = dy · gain, row by row:
 *
 *     y  = n · gain + bias
 *     dx = rstd · (g − mean(g) − n · mean(g · n))        dgain = Σ dy · n,  dbias = Σ dy */
#include "norm.h"
#include "number.h"

#include <math.h>

/* Added to the variance, as in PyTorch's LayerNorm. */
#define NORM_EPSILON 1e-5

void reference_norm_forward(const device_lane *lane, int32_t rows, int32_t width,
                            const void *x, const void *gain, const void *bias, void *y,
                            void *mean, void *rstd)
{
    const tryst_dtype dtype = lane->session->dtype, wide = lane->session->wide;
    const size_t columns = (size_t)width;
    for (size_t i = 0; i < (size_t)rows; i++) {
        double sum = 0, square = 0;
        for (size_t j = 0; j < columns; j++) {
            sum += number_get(x, dtype, i * columns + j);
        }
        const double m = sum / width;
        for (size_t j = 0; j < columns; j++) {
            const double d = number_get(x, dtype, i * columns + j) - m;
            square += d * d;
        }
        const double r = 1 / sqrt(square / width + NORM_EPSILON);
        for (size_t j = 0; j < columns; j++) {
            const double n = (number_get(x, dtype, i * columns + j) - m) * r;
            number_put(y, dtype, i * columns + j,
                       n * number_get(gain, dtype, j) + number_get(bias, dtype, j));
        }
        number_put(mean, wide, i, m);
        number_put(rstd, wide, i, r);
    }
}

void reference_norm_backward_input(const device_lane *lane, int32_t rows, int32_t width,
                                   const void *x, const void *gain, const void *mean,
                                   const void *rstd, const void *dy, const void *residual,
                                   void *dx)
{
    const tryst_dtype dtype = lane->session->dtype, wide = lane->session->wide;
    const size_t columns = (size_t)width;
    for (size_t i = 0; i < (size_t)rows; i++) {
        const double m = number_get(mean, wide, i), r = number_get(rstd, wide, i);
        double g_sum = 0, gn_sum = 0;
        for (size_t j = 0, at = i * columns; j < columns; j++, at++) {
            const double g = number_get(dy, dtype, at) * number_get(gain, dtype, j);
            g_sum += g;
            gn_sum += g * (number_get(x, dtype, at) - m) * r;
        }
        for (size_t j = 0, at = i * columns; j < columns; j++, at++) {
            const double g = number_get(dy, dtype, at) * number_get(gain, dtype, j);
            const double n = (number_get(x, dtype, at) - m) * r;
            const double d = r * (g - g_sum / width - n * gn_sum / width);
            number_put(dx, dtype, at,
                       d + (residual ? number_get(residual, dtype, at) : 0));
        }
    }
}

void reference_norm_backward_weight(const device_lane *lane, int32_t rows, int32_t width,
                                    const void *x, const void *mean, const void *rstd,
                                    const void *dy, void *dgain, void *dbias)
{
    const tryst_dtype dtype = lane->session->dtype, wide = lane->session->wide;
    const size_t columns = (size_t)width;
    for (size_t j = 0; j < columns; j++) {
        double gain_sum = 0, bias_sum = 0;
        for (size_t i = 0; i < (size_t)rows; i++) {
            const double d = number_get(dy, dtype, i * columns + j);
            const double centred =
                number_get(x, dtype, i * columns + j) - number_get(mean, wide, i);
            gain_sum += d * centred * number_get(rstd, wide, i);
            bias_sum += d;
        }
        number_add(dgain, wide, j, gain_sum);
        number_add(dbias, wide, j, bias_sum);
    }
}
