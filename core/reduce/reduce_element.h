/* SPDX-License-Identifier: Apache-2.0 */
/** @file reduce_element.h
 *  Elements as the kernels use them: floating point as bits, conversions without branches
 *  so that compilers vectorise them, and division of integers by one divisor.
 *  tests/core/reduce_reference.c computes the same by other means, to compare the two.
 */
#ifndef TRYST_CORE_REDUCE_REDUCE_ELEMENT_H
#define TRYST_CORE_REDUCE_REDUCE_ELEMENT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* ---- floating point: NaN becomes the canonical one wherever a number becomes bits -- */

#define F16_INFINITY  UINT16_C(0x7c00)
#define F16_NAN       UINT16_C(0x7e00)
#define BF16_INFINITY UINT16_C(0x7f80)
#define BF16_NAN      UINT16_C(0x7fc0)
#define F32_INFINITY  UINT32_C(0x7f800000)
#define F32_NAN       UINT32_C(0x7fc00000)
#define F64_INFINITY  UINT64_C(0x7ff0000000000000)
#define F64_NAN       UINT64_C(0x7ff8000000000000)

static inline float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline uint32_t f32_pack(float value)
{
    return value == value ? bits_of(value) : F32_NAN;
}

static inline double f64_unpack(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint64_t f64_pack(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return value == value ? bits : F64_NAN;
}

static inline float bf16_unpack(uint16_t bits)
{
    return float_of((uint32_t)bits << 16);
}

/** Round to nearest, ties to even: add half of the last place, less one bit where the
 *  number is even. */
static inline uint16_t bf16_pack(float value)
{
    uint32_t bits = bits_of(value);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return value == value ? (uint16_t)rounded : BF16_NAN;
}

/** Return `yes` or `no`, without a branch into which a compiler could move an
 *  addition. */
static inline uint32_t choose(bool condition, uint32_t yes, uint32_t no)
{
    uint32_t mask = 0u - (uint32_t)condition;
    return (yes & mask) | (no & ~mask);
}

enum {
    F16_BIAS_SHIFT = (127 - 15) << 23,
    F32_IMPLICIT = 1 << 23,
    F32_2_TO_16 = (127 + 16) << 23
};

/** Convert to f32: the exponent moves to f32's bias. The fraction of a subnormal number
 *  is put behind a one, which is then subtracted. */
static inline float f16_unpack(uint16_t half)
{
    uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13;
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t normal = magnitude + F16_BIAS_SHIFT;
    uint32_t special = magnitude | F32_INFINITY;    /* infinity, NaN */
    uint32_t least = F16_BIAS_SHIFT + F32_IMPLICIT; /* 2^-14, f16's least normal number */
    uint32_t subnormal = bits_of(float_of(magnitude + least) - float_of(least));
    uint32_t bits = choose(magnitude < F32_IMPLICIT, subnormal, normal);
    bits = choose(magnitude >= (uint32_t)F16_INFINITY << 13, special, bits);
    return float_of(bits | sign);
}

/** Round as bf16_pack does, and move the exponent. For a subnormal result the addition of
 *  1/2 rounds: the last place of 1/2 in f32 is f16's least number. */
static inline uint16_t f16_pack(float value)
{
    uint32_t bits = bits_of(value);
    uint32_t sign = bits >> 16 & 0x8000;
    uint32_t magnitude = bits & 0x7fffffff;
    uint32_t normal = (magnitude - F16_BIAS_SHIFT + 0xfff + (magnitude >> 13 & 1)) >> 13;
    uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
    uint32_t half = choose(magnitude < F16_BIAS_SHIFT + F32_IMPLICIT, subnormal, normal);
    half = choose(magnitude >= F32_2_TO_16, F16_INFINITY, half) | sign;
    return (uint16_t)choose(magnitude > F32_INFINITY, F16_NAN, half);
}

/* ---- integers divided by one divisor --------------------------------------------------
 * Granlund and Montgomery, "Division by invariant integers using multiplication" (1994),
 * figure 4.1. */

__extension__ typedef unsigned __int128 reduce_u128;

struct divisor32 {
    uint32_t times, shift1, shift2;
};
struct divisor64 {
    uint64_t times;
    uint32_t shift1, shift2;
};

/** Return the least l with 2^l >= n. */
static inline uint32_t log2_up(uint32_t n)
{
    return n > 1 ? 32u - (uint32_t)__builtin_clz(n - 1) : 0;
}

static inline struct divisor32 divisor32_of(double factor)
{
    uint32_t n = (uint32_t)factor, l = log2_up(n);
    uint64_t rest = (UINT64_C(1) << l) - n;
    return (struct divisor32){(uint32_t)((rest << 32) / n + 1), l > 0, l > 0 ? l - 1 : 0};
}

static inline struct divisor64 divisor64_of(double factor)
{
    uint32_t n = (uint32_t)factor, l = log2_up(n);
    reduce_u128 rest = (UINT64_C(1) << l) - n;
    return (struct divisor64){(uint64_t)((rest << 64) / n + 1), l > 0, l > 0 ? l - 1 : 0};
}

static inline uint32_t divide32(uint32_t x, struct divisor32 n)
{
    uint32_t high = (uint32_t)((uint64_t)n.times * x >> 32);
    return (high + ((x - high) >> n.shift1)) >> n.shift2;
}

static inline uint64_t divide64(uint64_t x, struct divisor64 n)
{
    uint64_t high = (uint64_t)((reduce_u128)n.times * x >> 64);
    return (high + ((x - high) >> n.shift1)) >> n.shift2;
}

/** Divide and truncate towards zero, as C does. */
static inline uint32_t divide32_signed(int32_t x, struct divisor32 n)
{
    uint32_t sign = (uint32_t)(x >> 31);
    return (divide32(((uint32_t)x ^ sign) - sign, n) ^ sign) - sign;
}

static inline uint64_t divide64_signed(int64_t x, struct divisor64 n)
{
    uint64_t sign = (uint64_t)(x >> 63);
    return (divide64(((uint64_t)x ^ sign) - sign, n) ^ sign) - sign;
}

#endif
