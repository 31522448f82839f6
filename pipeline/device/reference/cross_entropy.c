/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax and cross-entropy of a chunk of rows, and the mean of all rows' losses. */
#include "cross_entropy.h"
#include "number.h"

#include <math.h>

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

void reference_cross_entropy_forward(const device_lane *lane, int32_t rows,
                                     int32_t classes, const void *logits,
                                     const uint8_t *target, void *losses, void *lse)
{
    const tryst_dtype wide = lane->session->wide;
    for (size_t i = 0; i < (size_t)rows; i++) {
        const size_t at = i * (size_t)classes;
        const double sum = row_lse(logits, wide, at, (size_t)classes);
        number_put(lse, wide, i, sum);
        number_put(losses, wide, i, sum - number_get(logits, wide, at + target[i]));
    }
}

void reference_cross_entropy_backward(const device_lane *lane, int32_t rows,
                                      int32_t classes, double weight, const void *logits,
                                      const uint8_t *target, const void *lse,
                                      void *dlogits)
{
    const tryst_dtype wide = lane->session->wide;
    for (size_t i = 0; i < (size_t)rows; i++) {
        const double sum = number_get(lse, wide, i);
        for (size_t j = 0, at = i * (size_t)classes; j < (size_t)classes; j++, at++) {
            const double p = exp(number_get(logits, wide, at) - sum);
            number_put(dlogits, lane->session->dtype, at,
                       (p - (j == target[i] ? 1 : 0)) * weight);
        }
    }
}

void reference_loss_mean(const device_lane *lane, int32_t rows, const void *losses,
                         double *mean)
{
    double sum = 0;
    for (size_t i = 0; i < (size_t)rows; i++) {
        sum += number_get(losses, lane->session->wide, i);
    }
    *mean = sum / rows;
}
