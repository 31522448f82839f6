/* SPDX-License-Identifier: Apache-2.0 */
/* The pattern of tryst-perf --check: a right result passes, for every dtype, reduction
 * and number of ranks; a result in another place, of another round, or with one bit
 * changed fails. */
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>
#include <tryst/tryst.h>

#include "tools/perf/perf_pattern.h"

enum { COUNT = 3 * PERF_PATTERN_PERIOD + 17, ROUND = 5 };

static struct perf_pattern pattern_of(enum perf_result result, tryst_dtype dtype,
                                      tryst_reduce_op reduce, int ranks, int rank)
{
    struct perf_pattern pattern = {.result = result,
                                   .dtype = dtype,
                                   .reduce = reduce,
                                   .ranks = ranks,
                                   .rank = rank,
                                   .root = ranks / 2,
                                   .block = COUNT};
    perf_pattern_fill_tables(&pattern);
    return pattern;
}

static bool is_float(tryst_dtype dtype)
{
    return dtype == TRYST_DTYPE_F16 || dtype == TRYST_DTYPE_BF16 ||
           dtype == TRYST_DTYPE_F32 || dtype == TRYST_DTYPE_F64;
}

static bool goes_with(tryst_dtype dtype, tryst_reduce_op reduce)
{
    if (reduce == TRYST_REDUCE_PREMULTIPLIED_SUM)
        return is_float(dtype);
    return reduce < TRYST_REDUCE_AND || !is_float(dtype);
}

/* Return the element at `at` as a number; elements are whole. */
static double value_of(tryst_dtype dtype, const unsigned char *at)
{
    uint64_t bits = 0;
    float f;
    double d;
    memcpy(&bits, at, tryst_dtype_bytes(dtype));
    if (dtype == TRYST_DTYPE_F64) {
        memcpy(&d, &bits, sizeof d);
        return d;
    }
    if (dtype == TRYST_DTYPE_F16) /* only normal numbers and 0 */
        return bits ? (double)((bits & 0x3ff) | 0x400) * (double)(1 << (bits >> 10)) /
                          (1 << 25)
                    : 0;
    if (dtype == TRYST_DTYPE_BF16)
        bits <<= 16;
    if (!is_float(dtype))
        return (double)bits;
    uint32_t word = (uint32_t)bits;
    memcpy(&f, &word, sizeof f);
    return f;
}

/* Reduce in doubles, which are exact here, one reduction after the other; bitwise
 * reductions on the bits. */
static void reduced_check(tryst_dtype dtype, tryst_reduce_op reduce, int ranks)
{
    static unsigned char term[COUNT * 8], result[COUNT * 8];
    struct perf_pattern pattern =
        pattern_of(PERF_RESULT_REDUCED, dtype, reduce, ranks, ranks - 1);
    size_t bytes = tryst_dtype_bytes(dtype);
    double *sums = calloc(COUNT, sizeof *sums);
    for (int rank = 0; rank < ranks; rank++) {
        struct perf_pattern of = pattern_of(PERF_RESULT_NONE, dtype, reduce, ranks, rank);
        perf_pattern_write(&of, ROUND, term, COUNT);
        assert_true(perf_pattern_own_check(&of, ROUND, term, COUNT).count == 0);
        for (uint64_t i = 0; i < COUNT; i++) {
            double x = value_of(dtype, term + i * bytes);
            double factor =
                reduce == TRYST_REDUCE_PREMULTIPLIED_SUM ? perf_pattern_factor(rank) : 1;
            if (reduce == TRYST_REDUCE_PRODUCT)
                sums[i] = rank ? sums[i] * x : x;
            else if (reduce == TRYST_REDUCE_MIN)
                sums[i] = !rank || x < sums[i] ? x : sums[i];
            else if (reduce == TRYST_REDUCE_MAX)
                sums[i] = !rank || x > sums[i] ? x : sums[i];
            else
                sums[i] += x * factor;
        }
    }
    perf_pattern_write(&pattern, ROUND, result, COUNT); /* arbitrary bytes */
    for (uint64_t i = 0; i < COUNT; i++) {
        double wanted = reduce == TRYST_REDUCE_AVERAGE ? sums[i] / ranks : sums[i];
        uint64_t at = (i + ROUND) % PERF_PATTERN_PERIOD * bytes;
        assert_true(value_of(dtype, pattern.reduced + at) == wanted);
        memcpy(result + i * bytes, pattern.reduced + at, bytes);
    }
    assert_true(perf_pattern_check(&pattern, ROUND, result, COUNT).count == 0);
    free(sums);
}

static void test_reductions(void **state)
{
    static const int ranks[] = {1, 2, 3, 8};
    (void)state;
    for (tryst_dtype dtype = TRYST_DTYPE_U8; dtype <= TRYST_DTYPE_U64; dtype++)
        for (tryst_reduce_op op = TRYST_REDUCE_SUM; op < TRYST_REDUCE_AND; op++)
            for (size_t n = 0; n < COUNT_OF(ranks) && goes_with(dtype, op); n++)
                reduced_check(dtype, op, ranks[n]);
}

/* More ranks than the dtype has whole numbers. */
static void test_many_ranks(void **state)
{
    (void)state;
    for (tryst_reduce_op op = TRYST_REDUCE_SUM; op < TRYST_REDUCE_AND; op++)
        reduced_check(TRYST_DTYPE_BF16, op, 300);
    reduced_check(TRYST_DTYPE_I8, TRYST_REDUCE_SUM, 130);
    reduced_check(TRYST_DTYPE_F16, TRYST_REDUCE_AVERAGE, 130);
}

/* Bitwise reductions of all ranks, one after the other. */
static void test_bits(void **state)
{
    static uint64_t term[COUNT], result[COUNT];
    (void)state;
    for (tryst_reduce_op op = TRYST_REDUCE_AND; op <= TRYST_REDUCE_XOR; op++) {
        struct perf_pattern pattern =
            pattern_of(PERF_RESULT_REDUCED, TRYST_DTYPE_U64, op, 3, 0);
        for (int rank = 0; rank < 3; rank++) {
            struct perf_pattern of =
                pattern_of(PERF_RESULT_REDUCED, TRYST_DTYPE_U64, op, 3, rank);
            perf_pattern_write(&of, ROUND, term, COUNT);
            for (int i = 0; i < COUNT; i++)
                result[i] = !rank                    ? term[i]
                            : op == TRYST_REDUCE_AND ? result[i] & term[i]
                            : op == TRYST_REDUCE_OR  ? result[i] | term[i]
                                                     : result[i] ^ term[i];
        }
        assert_true(perf_pattern_check(&pattern, ROUND, result, COUNT).count == 0);
        assert_true(result[1] != 0 && result[1] != UINT64_MAX);
    }
}

/* Results made of blocks: the blocks of all ranks, gathered and exchanged by hand. */
static void test_blocks(void **state)
{
    enum { RANKS = 4 };
    static uint32_t in[RANKS][RANKS * COUNT], out[RANKS * COUNT];
    (void)state;
    for (int rank = 0; rank < RANKS; rank++) {
        struct perf_pattern of = pattern_of(PERF_RESULT_GATHERED, TRYST_DTYPE_U32,
                                            TRYST_REDUCE_INVALID, RANKS, rank);
        perf_pattern_write(&of, ROUND, in[rank], RANKS * COUNT);
    }
    struct perf_pattern at =
        pattern_of(PERF_RESULT_GATHERED, TRYST_DTYPE_U32, TRYST_REDUCE_INVALID, RANKS, 1);
    for (int rank = 0; rank < RANKS; rank++)
        memcpy(out + rank * COUNT, in[rank], COUNT * sizeof *out);
    assert_true(perf_pattern_check(&at, ROUND, out, RANKS * COUNT).count == 0);
    at.result = PERF_RESULT_EXCHANGED;
    assert_true(perf_pattern_check(&at, ROUND, out, RANKS * COUNT).count > COUNT);
    for (int rank = 0; rank < RANKS; rank++)
        memcpy(out + rank * COUNT, in[rank] + 1 * COUNT, COUNT * sizeof *out);
    assert_true(perf_pattern_check(&at, ROUND, out, RANKS * COUNT).count == 0);
    at.result = PERF_RESULT_ROOTS;
    assert_true(perf_pattern_check(&at, ROUND, in[RANKS / 2], COUNT).count == 0);
    assert_true(perf_pattern_check(&at, ROUND, in[0], COUNT).count > COUNT / 2);
}

static void test_block_of_a_reduction(void **state)
{
    struct perf_pattern all =
        pattern_of(PERF_RESULT_REDUCED, TRYST_DTYPE_F32, TRYST_REDUCE_SUM, 3, 2);
    static float result[3 * COUNT];
    (void)state;
    for (uint64_t i = 0; i < 3 * COUNT; i++)
        memcpy(&result[i],
               all.reduced + (i + ROUND) % PERF_PATTERN_PERIOD * sizeof *result,
               sizeof *result);
    assert_true(perf_pattern_check(&all, ROUND, result, 3 * COUNT).count == 0);
    all.result = PERF_RESULT_REDUCED_BLOCK;
    assert_true(perf_pattern_check(&all, ROUND, result + 2 * COUNT, COUNT).count == 0);
    assert_true(perf_pattern_check(&all, ROUND, result + COUNT, COUNT).count > COUNT / 2);
}

/* One changed bit, the previous round, a slice in the place of another. */
static void test_faults(void **state)
{
    struct perf_pattern pattern =
        pattern_of(PERF_RESULT_ROOTS, TRYST_DTYPE_U16, TRYST_REDUCE_INVALID, 2, 1);
    static uint16_t data[COUNT];
    (void)state;
    assert_int_equal(pattern.root, pattern.rank);
    perf_pattern_write(&pattern, ROUND, data, COUNT);
    assert_true(perf_pattern_check(&pattern, ROUND, data, COUNT).count == 0);
    assert_true(perf_pattern_check(&pattern, ROUND + 1, data, COUNT).count > COUNT / 2);
    memmove(data + 1024, data, 1024 * sizeof *data);
    assert_true(perf_pattern_check(&pattern, ROUND, data, COUNT).count > 1000);
    perf_pattern_write(&pattern, ROUND, data, COUNT);
    data[2000] ^= 0x100;
    struct perf_wrong wrong = perf_pattern_check(&pattern, ROUND, data, COUNT);
    assert_true(wrong.count == 1 && wrong.first == 2000);
    assert_true((wrong.is ^ wrong.should_be) == 0x100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reductions),
                                       cmocka_unit_test(test_many_ranks),
                                       cmocka_unit_test(test_bits),
                                       cmocka_unit_test(test_blocks),
                                       cmocka_unit_test(test_block_of_a_reduction),
                                       cmocka_unit_test(test_faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
