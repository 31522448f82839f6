/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of every variant that this processor can run, against the plain reference:
 * all dtypes and operations, short lengths, offsets, places of the result, and special
 * values. Results and the memory around them are compared as bytes. Cases that the manual
 * defines have their own tables, since the reference could be wrong too. */
#include "reduce_reference.h"
#include "support/unit.h"

#include <fenv.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/os/random.h"
#include "core/reduce/float_mode.h"
#include "core/reduce/reduce.h"
#include "core/reduce/reduce_variant.h"

enum { LENGTH_MAX = 130, OFFSETS = 64, LARGE = 300007, GUARD = 96, WIDTH_MAX = 8 };
enum { SHORT_BYTES = OFFSETS + LENGTH_MAX * WIDTH_MAX + GUARD };

static struct random dice;

static size_t width_of(tryst_dtype dtype)
{
    static const size_t widths[REDUCE_DTYPES] = {0, 1, 1, 4, 8, 2, 2, 4, 8, 2, 2, 4, 8};
    return widths[dtype];
}

/* ---- values ------------------------------------------------------------------------ */

static const uint64_t special_integers[] = {0,          1,
                                            2,          3,
                                            0x7f,       0x80,
                                            0x81,       0xff,
                                            0x7fff,     0x8000,
                                            0x8001,     0xffff,
                                            0x7fffffff, 0x80000000,
                                            0x80000001, 0xffffffff,
                                            INT64_MAX,  (uint64_t)INT64_MIN,
                                            UINT64_MAX, UINT64_MAX - 1};
static const uint64_t special_f16[] = {0,      0x8000, 1,      0x8001, 0x03ff, 0x0400,
                                       0x8400, 0x3c00, 0xbc00, 0x7bff, 0xfbff, 0x7c00,
                                       0xfc00, 0x7c01, 0x7e00, 0xfe00, 0xffff, 0x7dff,
                                       0x3c01, 0x0fff, 0x6800};
static const uint64_t special_bf16[] = {0,      0x8000, 1,      0x8001, 0x007f, 0x0080,
                                        0x8080, 0x3f80, 0xbf80, 0x7f7f, 0xff7f, 0x7f80,
                                        0xff80, 0x7f81, 0x7fc0, 0xffc0, 0xffff, 0x7fbf,
                                        0x3f81, 0x4380, 0x0100};
static const uint64_t special_f32[] = {
    0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x00800000, 0x80800000,
    0x3f800000, 0xbf800000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7f800001,
    0x7fc00000, 0xffc00000, 0xffffffff, 0x7fbfffff, 0x3f800001, 0x33800000, 0x34000000};
static const uint64_t special_f64[] = {0,
                                       0x8000000000000000,
                                       1,
                                       0x8000000000000001,
                                       0x000fffffffffffff,
                                       0x0010000000000000,
                                       0x8010000000000000,
                                       0x3ff0000000000000,
                                       0xbff0000000000000,
                                       0x7fefffffffffffff,
                                       0xffefffffffffffff,
                                       0x7ff0000000000000,
                                       0xfff0000000000000,
                                       0x7ff0000000000001,
                                       0x7ff8000000000000,
                                       0xfff8000000000000,
                                       UINT64_MAX,
                                       0x7ff7ffffffffffff,
                                       0x3ff0000000000001,
                                       0x3ca0000000000000};

static uint64_t special_of(tryst_dtype dtype)
{
    switch (dtype) {
    case TRYST_DTYPE_F16: return special_f16[random_range(&dice, COUNT_OF(special_f16))];
    case TRYST_DTYPE_BF16:
        return special_bf16[random_range(&dice, COUNT_OF(special_bf16))];
    case TRYST_DTYPE_F32: return special_f32[random_range(&dice, COUNT_OF(special_f32))];
    case TRYST_DTYPE_F64: return special_f64[random_range(&dice, COUNT_OF(special_f64))];
    default: return special_integers[random_range(&dice, COUNT_OF(special_integers))];
    }
}

/* Draw any bits, or a special value (little-endian as x86 and aarch64 are), or a small
 * value of about 1. */
static void values_draw(tryst_dtype dtype, uint8_t *at, size_t count)
{
    size_t width = width_of(dtype);
    for (size_t i = 0; i < count; i++, at += width) {
        uint64_t bits = random_u64(&dice), kind = bits >> 61;
        if (kind < 2)
            bits = special_of(dtype);
        else if (kind < 4 && dtype == TRYST_DTYPE_F32)
            bits = 0x3f000000 + (bits & 0x01ffffff);
        else if (kind < 4 && dtype == TRYST_DTYPE_F64)
            bits = 0x3fe0000000000000 + (bits & 0x003fffffffffffff);
        memcpy(at, &bits, width);
    }
}

static double factor_draw(tryst_reduce_op op)
{
    static const double factors[] = {1,   2,   3,    5,     7,     8,      127,
                                     128, 255, 1000, 65535, 65537, 1 << 20};
    static const double others[] = {0.5,  -1.0,    0.0, -0.0,     1e-45, 1.0 / 3,
                                    1e30, DBL_MIN, NAN, INFINITY, 1e300, 65504.5};
    if (op == TRYST_REDUCE_AVERAGE)
        return random_range(&dice, 2) ? factors[random_range(&dice, COUNT_OF(factors))]
                                      : (double)(1 + random_range(&dice, 1 << 20));
    return others[random_range(&dice, COUNT_OF(others))];
}

/* ---- one call, of a kernel and of the reference ------------------------------------ */

enum form { APART, ON_A, ON_B, FORMS };

struct arrays {
    size_t bytes;
    uint8_t *start[3]; /* a, b, and the result where it is separate */
    uint8_t *expected, *kept;
};

static struct arrays arrays_open(size_t bytes)
{
    struct arrays arrays = {.bytes = bytes};
    for (int i = 0; i < 3; i++)
        assert_non_null(arrays.start[i] = malloc(bytes));
    assert_non_null(arrays.expected = malloc(bytes));
    assert_non_null(arrays.kept = malloc(bytes));
    return arrays;
}

static void arrays_close(struct arrays *arrays)
{
    for (int i = 0; i < 3; i++)
        free(arrays->start[i]);
    free(arrays->expected);
    free(arrays->kept);
}

static const struct reduce_kernel *kernel_of(const struct reduce_variant *variant,
                                             tryst_dtype dtype, tryst_reduce_op op)
{
    return &(*variant->table)[dtype][op];
}

struct call {
    tryst_dtype dtype;
    tryst_reduce_op op;
    size_t count, offset[3];
    enum form form;
    double factor; /* the factor of scale */
    bool scale;
};

static void call_failed(const struct reduce_variant *variant, const struct call *call)
{
    fail_msg("%s: dtype %d %s%s, count %zu, offsets %zu %zu %zu, form %d, factor %g",
             variant->name, (int)call->dtype, reduce_op_name(call->op),
             call->scale ? " (scale)" : "", call->count, call->offset[0], call->offset[1],
             call->offset[2], (int)call->form, call->factor);
}

/* Compute the reference's result in arrays->expected, with all bytes around it. */
static void expect(const struct arrays *arrays, const struct call *call, int to)
{
    const uint8_t *a = arrays->start[0] + call->offset[0];
    const uint8_t *b = arrays->start[1] + call->offset[1];
    uint8_t *dst = arrays->expected + call->offset[to];
    memcpy(arrays->expected, arrays->start[to], arrays->bytes);
    if (call->scale)
        reference_scale(call->dtype, call->op, dst, a, call->count, call->factor);
    else
        reference_reduce(call->dtype, call->op, dst, a, b, call->count);
}

static void call_kernel(const struct reduce_kernel *kernel, const struct arrays *arrays,
                        const struct call *call, int to)
{
    const uint8_t *a = arrays->start[0] + call->offset[0];
    const uint8_t *b = arrays->start[1] + call->offset[1];
    uint8_t *dst = arrays->start[to] + call->offset[to];
    if (call->scale)
        kernel->scale(dst, a, call->count, call->factor);
    else
        kernel->reduce(dst, a, b, call->count);
}

static void compare(const struct arrays *arrays, const struct call *call)
{
    int to = call->form == ON_A ? 0 : call->form == ON_B ? 1 : 2;
    expect(arrays, call, to);
    memcpy(arrays->kept, arrays->start[to], arrays->bytes);
    for (int i = 0; i < REDUCE_VARIANTS; i++) {
        if (!reduce_variants[i].usable())
            continue;
        call_kernel(kernel_of(&reduce_variants[i], call->dtype, call->op), arrays, call,
                    to);
        if (memcmp(arrays->start[to], arrays->expected, arrays->bytes) != 0)
            call_failed(&reduce_variants[i], call);
        memcpy(arrays->start[to], arrays->kept, arrays->bytes);
    }
}

/* Compare reduce and, where the variant has one, scale. */
static void compare_both(const struct arrays *arrays, struct call call)
{
    call.scale = false;
    compare(arrays, &call);
    if (!reference_scales(call.op) || call.form == ON_B)
        return;
    call.scale = true;
    call.factor = factor_draw(call.op);
    compare(arrays, &call);
}

static void each_allowed(void (*fn)(tryst_dtype dtype, tryst_reduce_op op))
{
    for (int dtype = 1; dtype < REDUCE_DTYPES; dtype++)
        for (int op = 1; op < REDUCE_OPS; op++)
            if (reference_allows((tryst_dtype)dtype, (tryst_reduce_op)op))
                fn((tryst_dtype)dtype, (tryst_reduce_op)op);
}

/* ---- tests ------------------------------------------------------------------------- */

static void variants_that_cannot_run_are_named(void **state)
{
    const struct reduce_variant *first = NULL;
    for (int i = 0; i < REDUCE_VARIANTS; i++) {
        bool usable = reduce_variants[i].usable();
        if (!first && usable)
            first = &reduce_variants[i];
        print_message("%s: %s\n", reduce_variants[i].name,
                      usable ? "runs" : "skipped: this processor lacks the instructions");
    }
    assert_true(reduce_variants[REDUCE_VARIANTS - 1].usable());
    assert_ptr_equal(reduce_kernel_get(TRYST_DTYPE_F32, TRYST_REDUCE_SUM),
                     kernel_of(first, TRYST_DTYPE_F32, TRYST_REDUCE_SUM));
}

static void kernels_exist_where_the_manual_allows_them(void **state)
{
    for (int dtype = -1; dtype <= REDUCE_DTYPES; dtype++) {
        for (int op = -1; op <= REDUCE_OPS; op++) {
            const struct reduce_kernel *kernel =
                reduce_kernel_get((tryst_dtype)dtype, (tryst_reduce_op)op);
            bool allowed = reference_allows((tryst_dtype)dtype, (tryst_reduce_op)op);
            assert_int_equal(kernel != NULL, allowed);
            if (kernel)
                assert_int_equal(kernel->scale != NULL,
                                 reference_scales((tryst_reduce_op)op));
        }
    }
    assert_string_equal(reduce_op_name(TRYST_REDUCE_PREMULTIPLIED_SUM),
                        "premultiplied sum");
    assert_string_equal(reduce_op_name(TRYST_REDUCE_XOR), "xor");
    assert_string_equal(reduce_op_name((tryst_reduce_op)-1), "invalid");
    assert_string_equal(reduce_op_name((tryst_reduce_op)REDUCE_OPS), "invalid");
}

static struct arrays short_arrays;

static void lengths_of(tryst_dtype dtype, tryst_reduce_op op)
{
    for (size_t count = 0; count <= LENGTH_MAX; count++) {
        for (int form = 0; form < FORMS; form++) {
            struct call call = {
                .dtype = dtype, .op = op, .count = count, .form = (enum form)form};
            for (int i = 0; i < 3; i++) {
                call.offset[i] = random_range(&dice, OFFSETS);
                values_draw(dtype, short_arrays.start[i], SHORT_BYTES / width_of(dtype));
            }
            compare_both(&short_arrays, call);
        }
    }
}

static void all_short_lengths(void **state)
{
    each_allowed(lengths_of);
}

static void offsets_of(tryst_dtype dtype, tryst_reduce_op op)
{
    for (int moved = 0; moved < 3; moved++) {
        for (size_t offset = 0; offset < OFFSETS; offset++) {
            struct call call = {.dtype = dtype, .op = op, .count = 71, .form = APART};
            values_draw(dtype, short_arrays.start[moved], SHORT_BYTES / width_of(dtype));
            call.offset[moved] = offset;
            compare_both(&short_arrays, call);
        }
    }
}

static void all_offsets_within_a_cache_line(void **state)
{
    each_allowed(offsets_of);
}

static struct arrays large_arrays;

static void large_of(tryst_dtype dtype, tryst_reduce_op op)
{
    struct call call = {.dtype = dtype, .op = op, .count = LARGE, .offset = {1, 0, 5}};
    call.form = (enum form)random_range(&dice, FORMS);
    for (int i = 0; i < 3; i++)
        values_draw(dtype, large_arrays.start[i], large_arrays.bytes / width_of(dtype));
    compare_both(&large_arrays, call);
}

static void large_counts(void **state)
{
    large_arrays = arrays_open(LARGE * WIDTH_MAX + GUARD);
    each_allowed(large_of);
    arrays_close(&large_arrays);
}

#ifdef __SANITIZE_THREAD__
enum { PARTNERS = 2 }; /* a single thread: no races to find, and slow */
#else
enum { PARTNERS = 12 };
#endif

/* Combine each of the 2^16 numbers with random and with special ones; TRYST_TEST_COUNT
 * sets how many. */
static void pairs_of(tryst_dtype dtype, tryst_reduce_op op)
{
    const char *given = getenv("TRYST_TEST_COUNT");
    unsigned long partners = given ? strtoul(given, NULL, 0) : PARTNERS;
    struct call call = {.dtype = dtype, .op = op, .count = 1 << 16, .form = APART};
    if (dtype != TRYST_DTYPE_F16 && dtype != TRYST_DTYPE_BF16)
        return;
    for (uint32_t i = 0; i < 1 << 16; i++)
        ((uint16_t *)(void *)large_arrays.start[0])[i] = (uint16_t)i;
    for (unsigned long k = 0; k < partners; k++) {
        uint16_t partner;
        values_draw(dtype, (uint8_t *)&partner, 1);
        for (uint32_t i = 0; i < 1 << 16; i++)
            ((uint16_t *)(void *)large_arrays.start[1])[i] = partner;
        compare_both(&large_arrays, call);
    }
}

static void all_numbers_of_16_bits(void **state)
{
    large_arrays = arrays_open(2 << 16);
    memset(large_arrays.start[2], 0, large_arrays.bytes);
    each_allowed(pairs_of);
    arrays_close(&large_arrays);
}

/* Check the reference's rounding against the compiler's own f16 and against the
 * definition: no neighbour is nearer, and at equal distance the result is even. */
static void rounded_is_nearest(tryst_dtype dtype, float value)
{
    uint16_t bits = reference_round(dtype, value), magnitude = bits & 0x7fff;
    uint16_t largest = dtype == TRYST_DTYPE_F16 ? 0x7bff : 0x7f7f;
    double own = fabs((double)value);
    /* infinity: from half a unit above the largest number on */
    if (magnitude > largest) {
        double unit = reference_value(dtype, largest) -
                      reference_value(dtype, (uint16_t)(largest - 1));
        assert_true(own >= reference_value(dtype, largest) + unit / 2);
        return;
    }
    double off = fabs(own - reference_value(dtype, magnitude));
    for (int step = -1; step <= 1; step += 2) {
        int other = magnitude + step;
        if (other < 0 || other > largest)
            continue;
        double away = fabs(own - reference_value(dtype, (uint16_t)other));
        assert_true(off < away || (off == away && magnitude % 2 == 0));
    }
}

static void the_reference_rounds_to_nearest(void **state)
{
    for (int i = 0; i < 200000; i++) {
        uint32_t bits = (uint32_t)random_u64(&dice);
        if (i % 2) /* about f16's range */
            bits = (bits & 0x807fffff) | (uint32_t)(96 + random_range(&dice, 50)) << 23;
        if (i % 4 == 3) /* ties */
            bits = (bits & 0xffffe000) | 0x1000;
        float value;
        memcpy(&value, &bits, sizeof value);
        if (isnan(value) || isinf(value))
            continue;
        rounded_is_nearest(TRYST_DTYPE_F16, value);
        rounded_is_nearest(TRYST_DTYPE_BF16, value);
#ifdef __FLT16_MAX__
        __extension__ _Float16 half = (_Float16)value;
        uint16_t compiled;
        memcpy(&compiled, &half, sizeof compiled);
        assert_int_equal(reference_round(TRYST_DTYPE_F16, value), compiled);
#endif
    }
}

static const struct decided {
    tryst_dtype dtype;
    tryst_reduce_op op;
    uint64_t a, b, result; /* with `factor`: a is scaled, b unused */
    double factor;
} decisions[] = {
    /* overflow wraps around */
    {TRYST_DTYPE_I8, TRYST_REDUCE_SUM, 127, 1, 0x80, 0},
    {TRYST_DTYPE_U16, TRYST_REDUCE_PRODUCT, 0xffff, 0xffff, 1, 0},
    {TRYST_DTYPE_I32, TRYST_REDUCE_SUM, 0x7fffffff, 1, 0x80000000, 0},
    {TRYST_DTYPE_I64, TRYST_REDUCE_PRODUCT, (uint64_t)INT64_MIN, UINT64_MAX,
     (uint64_t)INT64_MIN, 0},
    /* signed and unsigned order */
    {TRYST_DTYPE_I8, TRYST_REDUCE_MIN, 0xff, 1, 0xff, 0},
    {TRYST_DTYPE_U8, TRYST_REDUCE_MIN, 0xff, 1, 1, 0},
    {TRYST_DTYPE_U64, TRYST_REDUCE_MAX, UINT64_MAX, 1, UINT64_MAX, 0},
    {TRYST_DTYPE_I64, TRYST_REDUCE_MAX, UINT64_MAX, 1, 1, 0},
    /* averages drop the fraction */
    {TRYST_DTYPE_I32, TRYST_REDUCE_AVERAGE, (uint32_t)-7, 0, (uint32_t)-3, 2},
    {TRYST_DTYPE_U32, TRYST_REDUCE_AVERAGE, (uint32_t)-7, 0, 0x7ffffffc, 2},
    {TRYST_DTYPE_I8, TRYST_REDUCE_AVERAGE, 0x80, 0, 0xd6, 3},
    {TRYST_DTYPE_I8, TRYST_REDUCE_AVERAGE, 0x80, 0, 0, 300},
    {TRYST_DTYPE_I64, TRYST_REDUCE_AVERAGE, (uint64_t)INT64_MIN, 0, (uint64_t)INT64_MIN,
     1},
    /* NaN in MIN and MAX, and the order of zeros */
    {TRYST_DTYPE_F32, TRYST_REDUCE_MIN, 0xffc12345, 0x3f800000, 0x7fc00000, 0},
    {TRYST_DTYPE_F32, TRYST_REDUCE_MAX, 0x3f800000, 0x7f800001, 0x7fc00000, 0},
    {TRYST_DTYPE_F32, TRYST_REDUCE_MIN, 0, 0x80000000, 0x80000000, 0},
    {TRYST_DTYPE_F64, TRYST_REDUCE_MAX, 0x8000000000000000, 0, 0, 0},
    {TRYST_DTYPE_F16, TRYST_REDUCE_MIN, 0xfc00, 0x7c01, 0x7e00, 0},
    {TRYST_DTYPE_BF16, TRYST_REDUCE_MAX, 0x8000, 0, 0, 0},
    {TRYST_DTYPE_BF16, TRYST_REDUCE_MIN, 0xbf80, 0xc000, 0xc000, 0},
    /* one NaN */
    {TRYST_DTYPE_F32, TRYST_REDUCE_SUM, 0x7f800000, 0xff800000, 0x7fc00000, 0},
    {TRYST_DTYPE_F32, TRYST_REDUCE_SUM, 0xffffffff, 0, 0x7fc00000, 0},
    {TRYST_DTYPE_F64, TRYST_REDUCE_PRODUCT, 0, 0xfff0000000000000, 0x7ff8000000000000, 0},
    {TRYST_DTYPE_F16, TRYST_REDUCE_SUM, 0x7c00, 0xfc00, 0x7e00, 0},
    {TRYST_DTYPE_BF16, TRYST_REDUCE_AVERAGE, 0xff81, 0, 0x7fc0, 2},
    /* subnormal numbers are kept */
    {TRYST_DTYPE_F32, TRYST_REDUCE_SUM, 1, 1, 2, 0},
    {TRYST_DTYPE_F16, TRYST_REDUCE_SUM, 0x03ff, 1, 0x0400, 0},
    {TRYST_DTYPE_BF16, TRYST_REDUCE_SUM, 0x007f, 0x8001, 0x007e, 0},
    {TRYST_DTYPE_F64, TRYST_REDUCE_AVERAGE, 3, 0, 2, 2}, /* 1.5: to even */
    /* rounded to even: 256 + 1 in bf16, 2048 + 1 and + 3 in f16; beyond the largest is
     * infinity */
    {TRYST_DTYPE_BF16, TRYST_REDUCE_SUM, 0x4380, 0x3f80, 0x4380, 0},
    {TRYST_DTYPE_F16, TRYST_REDUCE_SUM, 0x6800, 0x3c00, 0x6800, 0},
    {TRYST_DTYPE_F16, TRYST_REDUCE_SUM, 0x6800, 0x4200, 0x6802, 0},
    {TRYST_DTYPE_F16, TRYST_REDUCE_SUM, 0x7bff, 0x4c00, 0x7c00,
     0}, /* 65504 + 16: the tie */
    /* the factor of an f32 is rounded to f32, the product to the dtype: 3 * 0.1 */
    {TRYST_DTYPE_F32, TRYST_REDUCE_PREMULTIPLIED_SUM, 0x40400000, 0, 0x3e99999a, 0.1},
    {TRYST_DTYPE_F16, TRYST_REDUCE_PREMULTIPLIED_SUM, 0x4200, 0, 0x34cd, 0.1},
};

static void the_manual_decides(void **state)
{
    for (size_t row = 0; row < COUNT_OF(decisions); row++) {
        const struct decided *d = &decisions[row];
        for (int i = 0; i < REDUCE_VARIANTS; i++) {
            const struct reduce_kernel *kernel =
                kernel_of(&reduce_variants[i], d->dtype, d->op);
            uint64_t result = 0;
            if (!reduce_variants[i].usable())
                continue;
            if (d->factor != 0)
                kernel->scale(&result, &d->a, 1, d->factor);
            else
                kernel->reduce(&result, &d->a, &d->b, 1);
            if (result != d->result)
                fail_msg("row %zu, %s: %#llx", row, reduce_variants[i].name,
                         (unsigned long long)result);
        }
    }
}

/* ---- the thread's mode ------------------------------------------------------------- */

static uint32_t foreign_mode(void)
{
#if defined(__x86_64__)
    return 0x1f80 | 0x8040 | 0x4000; /* flush to zero, subnormal is zero, round up */
#elif defined(__aarch64__)
    return 1u << 24 | 1u << 25 | 1u << 22;
#else
    return FLOAT_MODE_DEFAULT;
#endif
}

static void mode_of(tryst_dtype dtype, tryst_reduce_op op)
{
    struct call call = {.dtype = dtype, .op = op, .count = 100, .factor = 3};
    for (int i = 0; i < 2; i++)
        values_draw(dtype, short_arrays.start[i], SHORT_BYTES / width_of(dtype));
    for (int pass = 0; pass < (reference_scales(op) ? 2 : 1); pass++) {
        call.scale = pass > 0;
        expect(&short_arrays, &call, 2);
        for (int i = 0; i < REDUCE_VARIANTS; i++) {
            if (!reduce_variants[i].usable())
                continue;
            uint32_t before = float_mode_read(), mode = foreign_mode();
            float_mode_write(mode);
            call_kernel(kernel_of(&reduce_variants[i], dtype, op), &short_arrays, &call,
                        2);
            uint32_t after = float_mode_read();
            float_mode_write(before);
            assert_int_equal(after, mode);
            if (memcmp(short_arrays.start[2], short_arrays.expected, SHORT_BYTES) != 0)
                call_failed(&reduce_variants[i], &call);
        }
    }
}

static void the_mode_of_the_thread_changes_nothing(void **state)
{
    for (int round = 0; round < 20; round++)
        each_allowed(mode_of);
}

static int short_open(void **state)
{
    random_seed(&dice, unit_seed());
    short_arrays = arrays_open(SHORT_BYTES);
    for (int i = 0; i < 3; i++)
        memset(short_arrays.start[i], 0xa5, SHORT_BYTES);
    return 0;
}

static int short_close(void **state)
{
    arrays_close(&short_arrays);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variants_that_cannot_run_are_named),
        cmocka_unit_test(kernels_exist_where_the_manual_allows_them),
        cmocka_unit_test(the_reference_rounds_to_nearest),
        cmocka_unit_test(the_manual_decides),
        cmocka_unit_test(all_short_lengths),
        cmocka_unit_test(all_offsets_within_a_cache_line),
        cmocka_unit_test(large_counts),
        cmocka_unit_test(all_numbers_of_16_bits),
        cmocka_unit_test(the_mode_of_the_thread_changes_nothing),
    };
    return cmocka_run_group_tests(tests, short_open, short_close);
}
