/* SPDX-License-Identifier: Apache-2.0 */
/* real_exp: an exp that does not keep loops from being vectorised. */
#ifndef TRYST_PIPELINE_HOST_REAL_EXP_H
#define TRYST_PIPELINE_HOST_REAL_EXP_H

#include "real.h"

#include <string.h>

#ifdef PIPELINE_REAL_F64
static inline double real_exp(double x)
{
    return exp(x);
}
#else
static inline float float_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline uint32_t float_to_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/** Compute exp in fp32 without a branch or a call, so that loops over it vectorise:
 *  x = k·ln 2 + r with |r| ≤ ln 2 / 2; e^r by Taylor's polynomial of degree 7 (its
 *  remainder, r⁸/8!, is at most 5e-9); 2^k by its bits. Within 2 ulp of exp on [-60, 60]
 *  (test_kernels.c).
 *
 *  Beyond ±60 the result is that for ±60. Beside a 1 these values act as infinity and
 *  zero, so softmax and sigmoid do not change, and no product with them is denormal.
 *  (With ±88 GCC folds 1/(1 + e^88) into a denormal constant: measured 24 ns per element
 *  of gelu_forward instead of 3.5.) NaN stays NaN. */
static inline float real_exp(float x)
{
    float rounder = 12582912.0f; /* 1.5 · 2^23: adding it rounds to an integer */
    x = x < -60.0f ? -60.0f : x;
    x = x > 60.0f ? 60.0f : x;
    float shifted = x * 1.44269504f + rounder;
    float k = shifted - rounder;
    float r = (x - k * 0.693145752f) - k * 1.42860677e-6f; /* ln 2, high and low part */
    float p = 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    uint32_t exponent = float_to_bits(shifted) - float_to_bits(rounder) + 127u;
    return p * float_from_bits(exponent << 23);
}
#endif

#endif
