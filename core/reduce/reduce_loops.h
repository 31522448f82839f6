/* SPDX-License-Identifier: Apache-2.0 */
/** @file reduce_loops.h
 *  The kernels of one set of instructions: each loops_*.c defines REDUCE_TABLE, the name
 *  of its table, and includes this file. Compilers vectorise the loops, but do not use
 *  the processor's instructions that convert f16: for these a file can define HALF_LANES,
 *  half_vector, half_load, half_store and half_spread (below).
 *
 *  An element is combined in integer registers, or in one operation of IEEE 754 and one
 *  rounding, so the result does not depend on the number of elements in a vector.
 *  -ffp-contract=off keeps a product and a sum apart.
 */
#include "float_mode.h"
#include "reduce_element.h"
#include "reduce_variant.h"

/* Types of elements at any address, in memory that has another type for the caller. */
#define ANYWHERE __attribute__((aligned(1), may_alias))
typedef uint8_t any_u8 ANYWHERE;
typedef int8_t any_i8 ANYWHERE;
typedef uint16_t any_u16 ANYWHERE;
typedef int16_t any_i16 ANYWHERE;
typedef uint32_t any_u32 ANYWHERE;
typedef int32_t any_i32 ANYWHERE;
typedef uint64_t any_u64 ANYWHERE;
typedef int64_t any_i64 ANYWHERE;

/* No element depends on an earlier one: `dst` is a source, or apart from both. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/** Define reduce kernel `name`: `result` of the elements x and y. */
#define REDUCE(name, type, result)                                          \
    static void name(void *dst, const void *a, const void *b, size_t count) \
    {                                                                       \
        any_##type *to = dst;                                               \
        const any_##type *from_a = a, *from_b = b;                          \
        INDEPENDENT                                                         \
        for (size_t i = 0; i < count; i++) {                                \
            const any_##type x = from_a[i], y = from_b[i];                  \
            to[i] = (any_##type)(result);                                   \
        }                                                                   \
    }

/** Define scale kernel `name`: `result` of the element x and of n = factor_of(factor). */
#define SCALE(name, type, factor_type, factor_of, result)                     \
    static void name(void *dst, const void *src, size_t count, double factor) \
    {                                                                         \
        const factor_type n = factor_of(factor);                              \
        any_##type *to = dst;                                                 \
        const any_##type *from = src;                                         \
        INDEPENDENT                                                           \
        for (size_t i = 0; i < count; i++) {                                  \
            const any_##type x = from[i];                                     \
            to[i] = (any_##type)(result);                                     \
        }                                                                     \
    }

/* ---- floating-point mode: set around a loop that is not inlined, so that no operation
 *      moves out --------------------------------------------------------------------- */

#define REDUCE_IN_MODE(name)                                                \
    static void name(void *dst, const void *a, const void *b, size_t count) \
    {                                                                       \
        uint32_t mode = float_mode_enter();                                 \
        name##_loop(dst, a, b, count);                                      \
        float_mode_leave(mode);                                             \
    }

#define SCALE_IN_MODE(name)                                                   \
    static void name(void *dst, const void *src, size_t count, double factor) \
    {                                                                         \
        uint32_t mode = float_mode_enter();                                   \
        name##_loop(dst, src, count, factor);                                 \
        float_mode_leave(mode);                                               \
    }

#define OUTLINE __attribute__((noinline))

#define REDUCE_FLOAT(name, type, result) \
    OUTLINE REDUCE(name##_loop, type, result) REDUCE_IN_MODE(name)

#define SCALE_FLOAT(name, type, factor_type, result)                     \
    OUTLINE SCALE(name##_loop, type, factor_type, (factor_type), result) \
        SCALE_IN_MODE(name)

/* ---- integers ---------------------------------------------------------------------- */

/* Sums and products wrap around, so signed and unsigned ones are the same. 1u: the
 * product of two u16 would be an int, which overflows. */
#define INTEGER(type, signed_type, divisor, bits)                                \
    REDUCE(type##_sum, type, x + y)                                              \
    REDUCE(type##_product, type, 1u * x * y)                                     \
    REDUCE(type##_min, type, x < y ? x : y)                                      \
    REDUCE(type##_max, type, x > y ? x : y)                                      \
    REDUCE(signed_type##_min, signed_type, x < y ? x : y)                        \
    REDUCE(signed_type##_max, signed_type, x > y ? x : y)                        \
    REDUCE(type##_and, type, (x & y))                                            \
    REDUCE(type##_or, type, x | y)                                               \
    REDUCE(type##_xor, type, x ^ y)                                              \
    SCALE(type##_divide, type, struct divisor, divisor##_of, divide##bits(x, n)) \
    SCALE(signed_type##_divide, signed_type, struct divisor, divisor##_of,       \
          divide##bits##_signed(x, n))

INTEGER(u8, i8, divisor32, 32)
INTEGER(u16, i16, divisor32, 32)
INTEGER(u32, i32, divisor32, 32)
INTEGER(u64, i64, divisor64, 64)

/* ---- floating point ---------------------------------------------------------------- */

/* Compare floating-point numbers by their bits as signed integers. These are in order for
 * positive numbers and in reverse order for negative ones, so the bits of the latter are
 * inverted (except the sign). -0 is then below +0, and no conversion is needed. */
#define ORDER(name, bits, infinity, nan)                                        \
    static inline int##bits##_t name##_order(uint##bits##_t x)                  \
    {                                                                           \
        uint##bits##_t sign = (uint##bits##_t)((int##bits##_t)x >> (bits - 1)); \
        return (int##bits##_t)(x ^ (uint##bits##_t)(sign >> 1));                \
    }                                                                           \
    static inline bool name##_is_nan(uint##bits##_t x)                          \
    {                                                                           \
        return (uint##bits##_t)(x << 1) > (uint##bits##_t)(infinity << 1);      \
    }                                                                           \
    REDUCE(name##_min, u##bits,                                                 \
           name##_is_nan(x) || name##_is_nan(y) ? nan                           \
           : name##_order(x) < name##_order(y)  ? x                             \
                                                : y)                             \
    REDUCE(name##_max, u##bits,                                                 \
           name##_is_nan(x) || name##_is_nan(y) ? nan                           \
           : name##_order(x) > name##_order(y)  ? x                             \
                                                : y)

ORDER(f16, 16, F16_INFINITY, F16_NAN)
ORDER(bf16, 16, BF16_INFINITY, BF16_NAN)
ORDER(f32, 32, F32_INFINITY, F32_NAN)
ORDER(f64, 64, F64_INFINITY, F64_NAN)

#define ARITHMETIC(name, type, wide, pack, unpack)                  \
    REDUCE_FLOAT(name##_sum, type, pack(unpack(x) + unpack(y)))     \
    REDUCE_FLOAT(name##_product, type, pack(unpack(x) * unpack(y))) \
    SCALE_FLOAT(name##_divide, type, wide, pack(unpack(x) / n))     \
    SCALE_FLOAT(name##_multiply, type, wide, pack(unpack(x) * n))

ARITHMETIC(bf16, u16, float, bf16_pack, bf16_unpack)
ARITHMETIC(f32, u32, float, f32_pack, float_of)
ARITHMETIC(f64, u64, double, f64_pack, f64_unpack)

#ifndef HALF_LANES
ARITHMETIC(f16, u16, float, f16_pack, f16_unpack)
#else

/* half_vector: HALF_LANES floats. half_load and half_store convert, the latter with the
 * canonical NaN; half_spread gives all lanes one value. The elements after the last whole
 * vector go through arrays of HALF_LANES elements. */
#define HALF_REDUCE(name, operator)                                                   \
    OUTLINE static void name##_loop(void *dst, const void *a, const void *b,          \
                                    size_t count)                                     \
    {                                                                                 \
        any_u16 *to = dst;                                                            \
        const any_u16 *from_a = a, *from_b = b;                                       \
        size_t i = 0;                                                                 \
        for (; i + HALF_LANES <= count; i += HALF_LANES)                              \
            half_store(to + i, half_load(from_a + i) operator half_load(from_b + i)); \
        uint16_t x[HALF_LANES] = {0}, y[HALF_LANES] = {0};                            \
        memcpy(x, from_a + i, (count - i) * sizeof *x);                               \
        memcpy(y, from_b + i, (count - i) * sizeof *y);                               \
        half_store(x, half_load(x) operator half_load(y));                            \
        memcpy(to + i, x, (count - i) * sizeof *x);                                   \
    }                                                                                 \
    REDUCE_IN_MODE(name)

#define HALF_SCALE(name, operator)                                            \
    OUTLINE static void name##_loop(void *dst, const void *src, size_t count, \
                                    double factor)                            \
    {                                                                         \
        const half_vector n = half_spread((float)factor);                     \
        any_u16 *to = dst;                                                    \
        const any_u16 *from = src;                                            \
        size_t i = 0;                                                         \
        for (; i + HALF_LANES <= count; i += HALF_LANES)                      \
            half_store(to + i, half_load(from + i) operator n);               \
        uint16_t x[HALF_LANES] = {0};                                         \
        memcpy(x, from + i, (count - i) * sizeof *x);                         \
        half_store(x, half_load(x) operator n);                               \
        memcpy(to + i, x, (count - i) * sizeof *x);                           \
    }                                                                         \
    SCALE_IN_MODE(name)

HALF_REDUCE(f16_sum, +)
HALF_REDUCE(f16_product, *)
HALF_SCALE(f16_divide, /)
HALF_SCALE(f16_multiply, *)
#endif

/* ---- the table --------------------------------------------------------------------- */

#define COMMON_ROW(name, type)                                                        \
    [TRYST_REDUCE_SUM] = {name##_sum, NULL},                                          \
    [TRYST_REDUCE_PRODUCT] = {name##_product, NULL},                                  \
    [TRYST_REDUCE_MIN] = {type##_min, NULL}, [TRYST_REDUCE_MAX] = {type##_max, NULL}, \
    [TRYST_REDUCE_AVERAGE] = {name##_sum, type##_divide}

#define INTEGER_ROW(name, type)                                          \
    {                                                                    \
        COMMON_ROW(name, type), [TRYST_REDUCE_AND] = {name##_and, NULL}, \
                                [TRYST_REDUCE_OR] = {name##_or, NULL},   \
                                [TRYST_REDUCE_XOR] = {name##_xor, NULL}, \
    }

#define FLOAT_ROW(name)                                                       \
    {                                                                         \
        COMMON_ROW(name, name),                                               \
            [TRYST_REDUCE_PREMULTIPLIED_SUM] = {name##_sum, name##_multiply}, \
    }

const reduce_table REDUCE_TABLE = {
    [TRYST_DTYPE_U8] = INTEGER_ROW(u8, u8),    [TRYST_DTYPE_I8] = INTEGER_ROW(u8, i8),
    [TRYST_DTYPE_U16] = INTEGER_ROW(u16, u16), [TRYST_DTYPE_I16] = INTEGER_ROW(u16, i16),
    [TRYST_DTYPE_U32] = INTEGER_ROW(u32, u32), [TRYST_DTYPE_I32] = INTEGER_ROW(u32, i32),
    [TRYST_DTYPE_U64] = INTEGER_ROW(u64, u64), [TRYST_DTYPE_I64] = INTEGER_ROW(u64, i64),
    [TRYST_DTYPE_F16] = FLOAT_ROW(f16),        [TRYST_DTYPE_BF16] = FLOAT_ROW(bf16),
    [TRYST_DTYPE_F32] = FLOAT_ROW(f32),        [TRYST_DTYPE_F64] = FLOAT_ROW(f64),
};
