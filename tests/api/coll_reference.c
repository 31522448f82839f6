/* SPDX-License-Identifier: Apache-2.0 */
/* See coll_reference.h. Sections: formats, drawing, operations, trees of additions,
 * judgement. */
#include "coll_reference.h"

#include <math.h>
#include <string.h>

/* ---- formats ----------------------------------------------------------------------- */

/* `digits`: bits of the significand, including the hidden one. `least`: the exponent of
 * the least normal number. */
struct format {
    int bits, digits, least;
    bool is_float, is_signed;
};

static const struct format formats[] = {
    [TRYST_DTYPE_U8] = {.bits = 8},
    [TRYST_DTYPE_I8] = {.bits = 8, .is_signed = true},
    [TRYST_DTYPE_U16] = {.bits = 16},
    [TRYST_DTYPE_I16] = {.bits = 16, .is_signed = true},
    [TRYST_DTYPE_U32] = {.bits = 32},
    [TRYST_DTYPE_I32] = {.bits = 32, .is_signed = true},
    [TRYST_DTYPE_U64] = {.bits = 64},
    [TRYST_DTYPE_I64] = {.bits = 64, .is_signed = true},
    [TRYST_DTYPE_F16] = {16, 11, -14, .is_float = true},
    [TRYST_DTYPE_BF16] = {16, 8, -126, .is_float = true},
    [TRYST_DTYPE_F32] = {32, 24, -126, .is_float = true},
    [TRYST_DTYPE_F64] = {64, 53, -1022, .is_float = true},
};

bool reference_is_float(tryst_dtype dtype)
{
    return formats[dtype].is_float;
}

bool reference_allows(tryst_dtype dtype, tryst_reduce_op reduce)
{
    if (reduce == TRYST_REDUCE_PREMULTIPLIED_SUM)
        return reference_is_float(dtype);
    if (reduce >= TRYST_REDUCE_AND)
        return !reference_is_float(dtype);
    return true;
}

static double least_subnormal(const struct format *format)
{
    return ldexp(1, format->least - format->digits + 1);
}

/* Round `x` to the nearest value of the format, ties to even. */
static double narrow(const struct format *format, double x)
{
    int exponent;
    if (x == 0 || !isfinite(x) || format->digits == 53)
        return x;
    frexp(x, &exponent);
    exponent = exponent - 1 < format->least ? format->least : exponent - 1;
    double unit = ldexp(1, exponent - format->digits + 1);
    double rounded = nearbyint(x / unit) * unit;
    if (fabs(rounded) >= ldexp(1, 2 - format->least))
        rounded = INFINITY;
    return copysign(rounded, x);
}

/* Return the bits of `x`, a value of the format. A NaN becomes the NaN of the manual. */
static uint64_t encode(const struct format *format, double x)
{
    int fraction = format->digits - 1, exponent;
    uint64_t all_ones = (UINT64_C(1) << (format->bits - format->digits)) - 1, bits;
    uint64_t sign = (uint64_t)(signbit(x) != 0) << (format->bits - 1);
    if (isnan(x))
        return all_ones << fraction | UINT64_C(1) << (fraction - 1);
    if (isinf(x))
        return sign | all_ones << fraction;
    if (x == 0)
        return sign;
    x = fabs(x);
    frexp(x, &exponent);
    exponent--;
    if (exponent < format->least)
        return sign | (uint64_t)(x / least_subnormal(format));
    bits = (uint64_t)ldexp(x, fraction - exponent) - (UINT64_C(1) << fraction);
    return sign | (uint64_t)(exponent - format->least + 1) << fraction | bits;
}

static double decode(const struct format *format, uint64_t bits)
{
    int fraction = format->digits - 1;
    uint64_t all_ones = (UINT64_C(1) << (format->bits - format->digits)) - 1;
    uint64_t exponent = bits >> fraction & all_ones;
    double low = (double)(bits & ((UINT64_C(1) << fraction) - 1));
    double sign = bits >> (format->bits - 1) & 1 ? -1 : 1;
    if (exponent == all_ones)
        return low != 0 ? (double)NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * low * least_subnormal(format);
    return sign * ldexp(1 + ldexp(low, -fraction), (int)exponent - 1 + format->least);
}

static uint64_t truncated(const struct format *format, uint64_t bits)
{
    return format->bits == 64 ? bits : bits & ((UINT64_C(1) << format->bits) - 1);
}

static int64_t extended(const struct format *format, uint64_t bits)
{
    int shift = 64 - format->bits;
    return (int64_t)(bits << shift) >> shift;
}

/* ---- drawing ----------------------------------------------------------------------- */

static uint64_t mixed(uint64_t x)
{
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ x >> 27) * 0x94D049BB133111EBull;
    return x ^ x >> 31;
}

/* Draw a magnitude of 2^-4 to 2^4; for products 2^-1 to 2, so that a product of eight
 * fits f16. */
static double moderate_draw(const struct reference *reference, uint64_t random)
{
    int spread = reference->reduce == TRYST_REDUCE_PRODUCT ? 1 : 4;
    double significand = 1 + (double)(random >> 12 & 0xFFFFFFFFFFFFF) * 0x1p-52;
    int exponent = (int)(random % (unsigned)(2 * spread)) - spread;
    double x = ldexp(significand, exponent) * 0.999;
    return random >> 8 & 1 ? -x : x;
}

static uint64_t special_draw(const struct format *format, uint64_t random)
{
    int fraction = format->digits - 1;
    uint64_t top = UINT64_C(1) << (format->bits - 1),
             infinity = top - (UINT64_C(1) << fraction);
    uint64_t sign = random >> 50 & 1 ? top : 0, any = random >> 8;
    switch (random % 16) {
    case 0: return sign;
    case 1: return sign | infinity;
    case 2:
        return sign | infinity | 1 | (any & ((UINT64_C(1) << fraction) - 1)); /* NaN */
    case 3: return sign | (infinity - 1 - any % 3);                           /* huge */
    case 4:
    case 5:
        return sign | (any & ((UINT64_C(1) << fraction) - 1)); /* subnormal */
    /* just above the least normal number */
    case 6: return sign | (UINT64_C(1) << fraction) | any % 8;
    default: return truncated(format, any * 0x9E3779B97F4A7C15ull);
    }
}

/* Draw an integer. For an average the integers are small enough for their sum not to
 * overflow. */
static uint64_t integer_draw(const struct reference *reference,
                             const struct format *format, uint64_t random)
{
    if (reference->values == REFERENCE_ANY_BITS ||
        reference->reduce != TRYST_REDUCE_AVERAGE)
        return truncated(format, random);
    if (!format->is_signed)
        return truncated(format, random) / (unsigned)reference->size;
    return truncated(format, (uint64_t)(extended(format, random) / reference->size));
}

uint64_t reference_draw(const struct reference *reference, int rank, uint64_t index)
{
    const struct format *format = &formats[reference->dtype];
    uint64_t random = mixed(reference->seed + (uint64_t)rank * 0xD1B54A32D192ED03ull +
                            index * 0x9E3779B97F4A7C15ull);
    if (!format->is_float)
        return integer_draw(reference, format, random);
    if (reference->values == REFERENCE_ANY_BITS)
        return special_draw(format, random);
    double x = moderate_draw(reference, random);
    return encode(format, format->bits == 32 ? (float)x : narrow(format, x));
}

/* ---- operations -------------------------------------------------------------------- */

/* Compute one operation in the width that the manual names. The volatile prevents the
 * fusion of a product and a sum. */
static double sum(const struct format *format, double a, double b)
{
    volatile double wide = a + b;
    volatile float single = (float)a + (float)b;
    return format->bits == 64 ? wide : narrow(format, (double)single);
}

static double product(const struct format *format, double a, double b)
{
    volatile double wide = a * b;
    volatile float single = (float)a * (float)b;
    return format->bits == 64 ? wide : narrow(format, (double)single);
}

static double quotient(const struct format *format, double a, double b)
{
    volatile double wide = a / b;
    volatile float single = (float)a / (float)b;
    return format->bits == 64 ? wide : narrow(format, (double)single);
}

static double lesser(double a, double b)
{
    if (isnan(a) || isnan(b))
        return (double)NAN;
    if (a == b)
        return signbit(a) ? a : b;
    return a < b ? a : b;
}

static double combined(const struct reference *reference, double a, double b)
{
    const struct format *format = &formats[reference->dtype];
    switch (reference->reduce) {
    case TRYST_REDUCE_PRODUCT: return product(format, a, b);
    case TRYST_REDUCE_MIN: return lesser(a, b);
    case TRYST_REDUCE_MAX: return -lesser(-a, -b);
    default: return sum(format, a, b);
    }
}

static double term(const struct reference *reference, int rank, uint64_t index)
{
    const struct format *format = &formats[reference->dtype];
    double x = decode(format, reference_draw(reference, rank, index));
    if (reference->reduce != TRYST_REDUCE_PREMULTIPLIED_SUM)
        return x;
    return product(format, reference->factors[rank], x);
}

static double finished(const struct reference *reference, double x)
{
    if (reference->reduce != TRYST_REDUCE_AVERAGE)
        return x;
    return quotient(&formats[reference->dtype], x, reference->size);
}

static uint64_t integer_combined(const struct reference *reference,
                                 const struct format *format, uint64_t a, uint64_t b)
{
    bool less = format->is_signed ? extended(format, a) < extended(format, b) : a < b;
    switch (reference->reduce) {
    case TRYST_REDUCE_PRODUCT: return truncated(format, a * b);
    case TRYST_REDUCE_MIN: return less ? a : b;
    case TRYST_REDUCE_MAX: return less ? b : a;
    case TRYST_REDUCE_AND: return a & b;
    case TRYST_REDUCE_OR: return a | b;
    case TRYST_REDUCE_XOR: return a ^ b;
    default: return truncated(format, a + b);
    }
}

static uint64_t integer_result(const struct reference *reference, uint64_t index)
{
    const struct format *format = &formats[reference->dtype];
    uint64_t result = reference_draw(reference, 0, index);
    for (int rank = 1; rank < reference->size; rank++)
        result = integer_combined(reference, format, result,
                                  reference_draw(reference, rank, index));
    if (reference->reduce != TRYST_REDUCE_AVERAGE)
        return result;
    if (!format->is_signed)
        return result / (unsigned)reference->size;
    return truncated(format, (uint64_t)(extended(format, result) / reference->size));
}

/* ---- trees of additions ------------------------------------------------------------ */

/* Return the result of one tree of three or four terms: ((a b) c) d for each order, and
 * (a b) (c d). */
static double tree_result(const struct reference *reference, const double *x, int tree)
{
    static const uint8_t orders[REFERENCE_TREES_MAX][4] = {
        {0, 1, 2, 3}, {0, 2, 1, 3}, {1, 2, 0, 3}, {0, 1, 3, 2}, {0, 2, 3, 1},
        {1, 2, 3, 0}, {0, 3, 1, 2}, {0, 3, 2, 1}, {1, 3, 0, 2}, {1, 3, 2, 0},
        {2, 3, 0, 1}, {2, 3, 1, 0}, {0, 1, 2, 3}, {0, 2, 1, 3}, {0, 3, 1, 2}};
    const uint8_t *at = orders[tree];
    double first = combined(reference, x[at[0]], x[at[1]]);
    if (reference->size == 2)
        return first;
    if (tree >= 12)
        return combined(reference, first, combined(reference, x[at[2]], x[at[3]]));
    first = combined(reference, first, x[at[2]]);
    return reference->size == 3 ? first : combined(reference, first, x[at[3]]);
}

static int trees_count(int size)
{
    return size <= 2 ? 1 : size == 3 ? 3 : REFERENCE_TREES_MAX;
}

/* Return the subset of `trees` whose result is `got`. */
static uint32_t trees_matching(const struct reference *reference, const double *x,
                               uint64_t got, uint32_t trees)
{
    for (int tree = 0; tree < trees_count(reference->size); tree++) {
        double result = reference->size == 1 ? x[0] : tree_result(reference, x, tree);
        if (encode(&formats[reference->dtype], finished(reference, result)) != got)
            trees &= ~(1u << tree);
    }
    return trees & ((1u << trees_count(reference->size)) - 1);
}

void reference_line_begin(struct reference_line *line)
{
    line->trees = UINT32_MAX;
}

/* ---- judgement --------------------------------------------------------------------- */

/* True if the operation copies its input because the group has one rank. */
static bool is_copy(const struct reference *reference)
{
    return reference->size == 1 && reference->reduce != TRYST_REDUCE_PREMULTIPLIED_SUM;
}

static bool is_ordered(const struct reference *reference)
{
    return reference->reduce == TRYST_REDUCE_MIN || reference->reduce == TRYST_REDUCE_MAX;
}

/* True if `got` is within the error bound: n - 1 sums or products and one division are
 * rounded, and the terms `x` are exact. The reference itself rounds to 64 digits (53
 * where a long double has no more). */
static bool is_within_bound(const struct reference *reference, const double *x,
                            double got)
{
    const struct format *format = &formats[reference->dtype];
    bool multiplies = reference->reduce == TRYST_REDUCE_PRODUCT;
    long double exact = multiplies, magnitude = multiplies;
    double unit = ldexp(1, -format->digits), n = reference->size;
    double gamma = n * unit / (1 - n * unit) + n * 0x1p-60;
    for (int rank = 0; rank < reference->size; rank++) {
        exact = multiplies ? exact * x[rank] : exact + x[rank];
        magnitude = multiplies ? fabsl(exact) : magnitude + fabs(x[rank]);
    }
    if (reference->reduce == TRYST_REDUCE_AVERAGE) {
        exact /= reference->size;
        magnitude /= reference->size;
    }
    return fabsl(got - exact) <= gamma * magnitude + n * least_subnormal(format);
}

static const char *float_fault(const struct reference *reference,
                               const double x[REFERENCE_RANKS_MAX], uint64_t got,
                               bool thorough, struct reference_line *line)
{
    const struct format *format = &formats[reference->dtype];
    bool has_nan = false;
    for (int rank = 0; rank < reference->size; rank++)
        has_nan |= isnan(x[rank]);
    if (has_nan && got != encode(format, (double)NAN))
        return "an input is NaN, but the result is not the manual's NaN";
    if (reference->size <= 4 && (thorough || reference->size <= 2)) {
        line->trees = trees_matching(reference, x, got, line->trees);
        if (!line->trees)
            return "no single order of operations explains the cache line";
    }
    if (reference->values == REFERENCE_MODERATE &&
        !is_within_bound(reference, x, decode(format, got)))
        return "the error is above the bound";
    return NULL;
}

const char *reference_fault(const struct reference *reference, uint64_t index,
                            uint64_t got, bool thorough, struct reference_line *line)
{
    const struct format *format = &formats[reference->dtype];
    double x[REFERENCE_RANKS_MAX] = {0};
    if (is_copy(reference))
        return got == reference_draw(reference, 0, index) ? NULL
                                                          : "not a copy of the input";
    if (!format->is_float)
        return got == integer_result(reference, index) ? NULL : "not the expected result";
    for (int rank = 0; rank < reference->size; rank++)
        x[rank] = term(reference, rank, index);
    if (!is_ordered(reference))
        return float_fault(reference, x, got, thorough, line);
    double result = x[0];
    for (int rank = 1; rank < reference->size; rank++)
        result = combined(reference, result, x[rank]);
    return got == encode(format, result) ? NULL : "not the expected result";
}
