/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over a row that vectorise without reordering: LANES partial sums, added in a fixed
 * order at the end, so the bits are the same with every compiler and on every machine
 * that rounds as IEEE 754 requires. */
#ifndef TRYST_PIPELINE_HOST_REAL_ROW_H
#define TRYST_PIPELINE_HOST_REAL_ROW_H

#include "real_exp.h"

/** Number of partial sums: 16 floats are one AVX-512 register or four SSE ones. Never
 *  change it: it decides the order of sums. */
enum { LANES = 16 };

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

static inline real row_sum(int count, const real *x)
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

static inline real row_dot(int count, const real *x, const real *y)
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

/** Return the sum of (x − mean)². */
static inline real row_deviation(int count, const real *x, real mean)
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

static inline real row_max(int count, const real *x)
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

/** Return the sum of exp(x − shift). */
static inline real row_exp_sum(int count, real shift, const real *x)
{
    real lanes[LANES] = {0};
    int i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (int j = 0; j < LANES; j++) {
            lanes[j] += real_exp(x[i + j] - shift);
        }
    }
    for (int j = 0; i < count; i++, j++) {
        lanes[j] += real_exp(x[i] - shift);
    }
    return lanes_sum(lanes);
}

/** x = exp(scale · x − shift), in place. */
static inline void row_exp(int count, real scale, real shift, real *x)
{
    for (int i = 0; i < count; i++) {
        x[i] = real_exp(scale * x[i] - shift);
    }
}

static inline void row_scale(int count, real factor, real *x)
{
    for (int i = 0; i < count; i++) {
        x[i] *= factor;
    }
}

#endif
