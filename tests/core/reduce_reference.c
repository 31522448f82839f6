/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions in plain C, which tests compare with the kernels; see reduce_reference.h.
 *
 * One element at a time, and on values where the kernels use bits: f16 and bf16 by frexp
 * and nearbyint, least and greatest by comparisons, quotients by division.
 */
#include "reduce_reference.h"

#include <math.h>
#include <string.h>

/* A floating-point type of 16 bits. */
struct format {
    int digits; /* digits of the significand, the first one included */
    int exponent_min, exponent_max;
};

static struct format format_of(tryst_dtype dtype)
{
    return dtype == TRYST_DTYPE_F16 ? (struct format){11, -14, 15}
                                    : (struct format){8, -126, 127};
}

static bool is_float(tryst_dtype dtype)
{
    return dtype >= TRYST_DTYPE_F16 && dtype <= TRYST_DTYPE_F64;
}

static bool is_signed(tryst_dtype dtype)
{
    return dtype == TRYST_DTYPE_I8 || dtype == TRYST_DTYPE_I16 ||
           dtype == TRYST_DTYPE_I32 || dtype == TRYST_DTYPE_I64;
}

static size_t width_of(tryst_dtype dtype)
{
    switch (dtype) {
    case TRYST_DTYPE_U8:
    case TRYST_DTYPE_I8: return 1;
    case TRYST_DTYPE_U16:
    case TRYST_DTYPE_I16:
    case TRYST_DTYPE_F16:
    case TRYST_DTYPE_BF16: return 2;
    case TRYST_DTYPE_U32:
    case TRYST_DTYPE_I32:
    case TRYST_DTYPE_F32: return 4;
    default: return 8;
    }
}

bool reference_allows(tryst_dtype dtype, tryst_reduce_op op)
{
    if (dtype < TRYST_DTYPE_U8 || dtype > TRYST_DTYPE_U64)
        return false;
    switch (op) {
    case TRYST_REDUCE_SUM:
    case TRYST_REDUCE_PRODUCT:
    case TRYST_REDUCE_MIN:
    case TRYST_REDUCE_MAX:
    case TRYST_REDUCE_AVERAGE: return true;
    case TRYST_REDUCE_PREMULTIPLIED_SUM: return is_float(dtype);
    case TRYST_REDUCE_AND:
    case TRYST_REDUCE_OR:
    case TRYST_REDUCE_XOR: return !is_float(dtype);
    default: return false;
    }
}

bool reference_scales(tryst_reduce_op op)
{
    return op == TRYST_REDUCE_AVERAGE || op == TRYST_REDUCE_PREMULTIPLIED_SUM;
}

/* ---- f16 and bf16 ------------------------------------------------------------------ */

double reference_value(tryst_dtype dtype, uint16_t bits)
{
    struct format format = format_of(dtype);
    int fraction_bits = format.digits - 1;
    int fraction = bits & ((1 << fraction_bits) - 1);
    int exponent = (bits & 0x7fff) >> fraction_bits;
    double value;
    if (exponent == format.exponent_max - format.exponent_min + 2)
        value = fraction ? NAN : INFINITY;
    else if (exponent == 0)
        value = ldexp(fraction, format.exponent_min - fraction_bits);
    else
        value = ldexp(fraction + (1 << fraction_bits),
                      exponent - 1 + format.exponent_min - fraction_bits);
    return bits & 0x8000 ? -value : value;
}

uint16_t reference_round(tryst_dtype dtype, float value)
{
    struct format format = format_of(dtype);
    int fraction_bits = format.digits - 1, exponent;
    int infinite = (format.exponent_max - format.exponent_min + 2) << fraction_bits;
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    if (isnan(value))
        return (uint16_t)(infinite | 1 << (fraction_bits - 1));
    if (isinf(value))
        return (uint16_t)(infinite | sign);
    (void)frexp(value, &exponent); /* |value| in [2^(exponent - 1), 2^exponent) */
    exponent = value == 0 || exponent - 1 < format.exponent_min ? format.exponent_min
                                                                : exponent - 1;
    int units = (int)nearbyint(ldexp(fabs((double)value), fraction_bits - exponent));
    /* A carry into the exponent gives the right bits; so does a first digit 0 of a
     * subnormal number. */
    int bits = ((exponent - format.exponent_min) << fraction_bits) + units;
    return (uint16_t)((bits < infinite ? bits : infinite) | sign);
}

/* ---- one element ------------------------------------------------------------------- */

/* Return a number of any floating-point type; all types but f64 use float's
 * arithmetic. */
static double float_get(tryst_dtype dtype, const void *at)
{
    uint16_t bits;
    float single;
    double wide;
    switch (dtype) {
    case TRYST_DTYPE_F32: memcpy(&single, at, sizeof single); return (double)single;
    case TRYST_DTYPE_F64: memcpy(&wide, at, sizeof wide); return wide;
    default: memcpy(&bits, at, sizeof bits); return reference_value(dtype, bits);
    }
}

static void float_put(tryst_dtype dtype, void *at, double value)
{
    static const uint32_t nan_single = 0x7fc00000;
    static const uint64_t nan_wide = 0x7ff8000000000000;
    float single = (float)value;
    if (dtype == TRYST_DTYPE_F64) {
        memcpy(at, isnan(value) ? (const void *)&nan_wide : &value, sizeof value);
    } else if (dtype == TRYST_DTYPE_F32) {
        memcpy(at, isnan(value) ? (const void *)&nan_single : &single, sizeof single);
    } else {
        uint16_t bits = reference_round(dtype, single);
        memcpy(at, &bits, sizeof bits);
    }
}

static double add(tryst_dtype dtype, double x, double y)
{
    return dtype == TRYST_DTYPE_F64 ? x + y : (double)((float)x + (float)y);
}

static double multiply(tryst_dtype dtype, double x, double y)
{
    return dtype == TRYST_DTYPE_F64 ? x * y : (double)((float)x * (float)y);
}

static double divide(tryst_dtype dtype, double x, double y)
{
    return dtype == TRYST_DTYPE_F64 ? x / y : (double)((float)x / (float)y);
}

static double least(double x, double y)
{
    if (isnan(x) || isnan(y))
        return NAN;
    if (x == y)
        return signbit(x) ? x : y;
    return x < y ? x : y;
}

static double float_combine(tryst_dtype dtype, tryst_reduce_op op, double x, double y)
{
    switch (op) {
    case TRYST_REDUCE_PRODUCT: return multiply(dtype, x, y);
    case TRYST_REDUCE_MIN: return least(x, y);
    case TRYST_REDUCE_MAX: return -least(-x, -y);
    default: return add(dtype, x, y);
    }
}

/* Return an integer of any type as 64 bits; a signed one is sign-extended. */
static uint64_t integer_get(tryst_dtype dtype, const void *at)
{
    uint64_t value = 0;
    size_t width = width_of(dtype);
    for (size_t i = 0; i < width; i++) {
        size_t byte = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? width - 1 - i : i;
        value = value << 8 | ((const uint8_t *)at)[byte];
    }
    if (is_signed(dtype) && width < 8 && value >> (8 * width - 1))
        value |= UINT64_MAX << (8 * width);
    return value;
}

static void integer_put(tryst_dtype dtype, void *at, uint64_t value)
{
    size_t width = width_of(dtype);
    for (size_t i = 0; i < width; i++, value >>= 8) {
        size_t byte = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? i : width - 1 - i;
        ((uint8_t *)at)[byte] = (uint8_t)value;
    }
}

static uint64_t integer_combine(tryst_dtype dtype, tryst_reduce_op op, uint64_t x,
                                uint64_t y)
{
    bool less = is_signed(dtype) ? (int64_t)x < (int64_t)y : x < y;
    switch (op) {
    case TRYST_REDUCE_PRODUCT: return x * y;
    case TRYST_REDUCE_MIN: return less ? x : y;
    case TRYST_REDUCE_MAX: return less ? y : x;
    case TRYST_REDUCE_AND: return x & y;
    case TRYST_REDUCE_OR: return x | y;
    case TRYST_REDUCE_XOR: return x ^ y;
    default: return x + y;
    }
}

/* ---- arrays ------------------------------------------------------------------------ */

void reference_reduce(tryst_dtype dtype, tryst_reduce_op op, void *dst, const void *a,
                      const void *b, size_t count)
{
    size_t width = width_of(dtype);
    for (size_t at = 0; at < count * width; at += width) {
        const uint8_t *x = (const uint8_t *)a + at, *y = (const uint8_t *)b + at;
        if (is_float(dtype))
            float_put(dtype, (uint8_t *)dst + at,
                      float_combine(dtype, op, float_get(dtype, x), float_get(dtype, y)));
        else
            integer_put(
                dtype, (uint8_t *)dst + at,
                integer_combine(dtype, op, integer_get(dtype, x), integer_get(dtype, y)));
    }
}

static void scale_one(tryst_dtype dtype, tryst_reduce_op op, void *dst, const void *src,
                      double factor)
{
    if (!is_float(dtype)) {
        uint64_t x = integer_get(dtype, src), n = (uint64_t)factor;
        integer_put(dtype, dst,
                    is_signed(dtype) ? (uint64_t)((int64_t)x / (int64_t)n) : x / n);
        return;
    }
    double x = float_get(dtype, src);
    float_put(dtype, dst,
              op == TRYST_REDUCE_AVERAGE ? divide(dtype, x, factor)
                                         : multiply(dtype, x, factor));
}

void reference_scale(tryst_dtype dtype, tryst_reduce_op op, void *dst, const void *src,
                     size_t count, double factor)
{
    size_t width = width_of(dtype);
    for (size_t at = 0; at < count * width; at += width)
        scale_one(dtype, op, (uint8_t *)dst + at, (const uint8_t *)src + at, factor);
}
