/* SPDX-License-Identifier: Apache-2.0 */
/* Implements the pattern of --check; see perf_pattern.h. */
#include "perf_pattern.h"

#include <string.h>
#include <tryst/tryst.h>

enum { PERIOD = PERF_PATTERN_PERIOD };

/* ---- terms: whole numbers from 0 --------------------------------------------------- */

/* Hash two numbers (by the finalizer of MurmurHash3). */
static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = a * 0x9e3779b97f4a7c15u + b + 1;
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 33;
}

/* Return a number up to which the dtype holds all whole numbers exactly. */
static uint64_t exact_max(tryst_dtype dtype)
{
    switch (dtype) {
    case TRYST_DTYPE_I8: return 127;
    case TRYST_DTYPE_U8: return 255;
    case TRYST_DTYPE_BF16: return 256;
    case TRYST_DTYPE_F16: return 2048;
    case TRYST_DTYPE_I16:
    case TRYST_DTYPE_U16: return 32767;
    default: return 1 << 24;
    }
}

/* Return the term of a sum. The sum over all ranks is at most `most`: where there are
 * more ranks than that, only some of them have a term. */
static uint64_t sum_term(uint64_t most, uint64_t ranks, uint64_t rank, uint64_t i)
{
    uint64_t every = ranks > most ? ranks / most + 1 : 1;
    uint64_t top = most / ranks ? most / ranks : 1;
    return rank % every == mix(i, 0) % every ? mix(i, rank) % (top + 1) : 0;
}

/* Return the term of an average. The sum is a multiple of the ranks: of each two
 * neighbours one is above the average and the other below, by the same amount. */
static uint64_t average_term(uint64_t most, uint64_t ranks, uint64_t rank, uint64_t i)
{
    uint64_t top = most / ranks;
    if (top < 2)
        return 0;
    uint64_t average = 1 + mix(i, 0) % (top - 1);
    uint64_t above = mix(i, rank / 2 + 1) & 1;
    if (rank == ranks - 1 && ranks % 2)
        return average;
    return rank % 2 == above ? average + 1 : average - 1;
}

/* Return the term of a product: two ranks have a factor, the others 1. */
static uint64_t product_term(uint64_t ranks, uint64_t rank, uint64_t i)
{
    uint64_t first = mix(i, 0) % ranks;
    return (rank == first ? 2 + i % 3 : 1) *
           (rank == (first + 1) % ranks ? 1 + i % 5 : 1);
}

static uint64_t term(const struct perf_pattern *pattern, int rank, uint64_t i)
{
    uint64_t ranks = (uint64_t)pattern->ranks, r = (uint64_t)rank;
    uint64_t most = exact_max(pattern->dtype);
    switch (pattern->reduce) {
    case TRYST_REDUCE_SUM: return sum_term(most, ranks, r, i);
    case TRYST_REDUCE_PREMULTIPLIED_SUM: return sum_term(most / 2, ranks, r, i);
    case TRYST_REDUCE_AVERAGE: return average_term(most, ranks, r, i);
    case TRYST_REDUCE_PRODUCT: return product_term(ranks, r, i);
    case TRYST_REDUCE_MIN:
    case TRYST_REDUCE_MAX: return mix(i, r) % (most + 1);
    case TRYST_REDUCE_AND: return mix(i, r) | mix(i, r + ranks) | mix(i, r + 2 * ranks);
    default: return mix(i, r);
    }
}

double perf_pattern_factor(int rank)
{
    return 1 + rank % 2;
}

static uint64_t both(tryst_reduce_op reduce, uint64_t a, uint64_t b)
{
    switch (reduce) {
    case TRYST_REDUCE_PRODUCT: return a * b;
    case TRYST_REDUCE_MIN: return a < b ? a : b;
    case TRYST_REDUCE_MAX: return a > b ? a : b;
    case TRYST_REDUCE_AND: return a & b;
    case TRYST_REDUCE_OR: return a | b;
    case TRYST_REDUCE_XOR: return a ^ b;
    default: return a + b;
    }
}

static uint64_t reduced(const struct perf_pattern *pattern, uint64_t i)
{
    bool scales = pattern->reduce == TRYST_REDUCE_PREMULTIPLIED_SUM;
    uint64_t result = 0;
    for (int rank = 0; rank < pattern->ranks; rank++) {
        uint64_t factor = scales ? (uint64_t)perf_pattern_factor(rank) : 1;
        uint64_t one = term(pattern, rank, i) * factor;
        result = rank ? both(pattern->reduce, result, one) : one;
    }
    return pattern->reduce == TRYST_REDUCE_AVERAGE ? result / (uint64_t)pattern->ranks
                                                   : result;
}

/* ---- as elements ------------------------------------------------------------------- */

/* Encode a whole number of at most 2048. */
static uint64_t f16_bits(uint64_t number)
{
    uint64_t exponent = 0;
    while (number >> (exponent + 1))
        exponent++;
    if (!number)
        return 0;
    uint64_t fraction =
        exponent > 10 ? number >> (exponent - 10) : number << (10 - exponent);
    return (exponent + 15) << 10 | (fraction & 0x3ff);
}

static uint64_t f32_bits(uint64_t number)
{
    float value = (float)number;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint64_t f64_bits(uint64_t number)
{
    double value = (double)number;
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint64_t bits_of(const struct perf_pattern *pattern, uint64_t number)
{
    if (pattern->reduce == TRYST_REDUCE_INVALID)
        return number; /* a copy keeps any bits */
    switch (pattern->dtype) {
    case TRYST_DTYPE_F16: return f16_bits(number);
    case TRYST_DTYPE_BF16: return f32_bits(number) >> 16;
    case TRYST_DTYPE_F32: return f32_bits(number);
    case TRYST_DTYPE_F64: return f64_bits(number);
    default: return number;
    }
}

/* Only little-endian hosts run the library, so the first bytes are the low ones. */
static void table_put(const struct perf_pattern *pattern, unsigned char *table,
                      uint64_t i, uint64_t number)
{
    size_t bytes = tryst_dtype_bytes(pattern->dtype);
    uint64_t bits = bits_of(pattern, number);
    memcpy(table + i * bytes, &bits, bytes);
}

static void term_table_fill(const struct perf_pattern *pattern, int rank,
                            unsigned char *table)
{
    for (uint64_t i = 0; i < PERIOD; i++)
        table_put(pattern, table, i, term(pattern, rank, i));
}

void perf_pattern_fill_tables(struct perf_pattern *pattern)
{
    bool reduces = pattern->result == PERF_RESULT_REDUCED ||
                   pattern->result == PERF_RESULT_REDUCED_BLOCK;
    term_table_fill(pattern, pattern->rank, pattern->own);
    for (uint64_t i = 0; i < PERIOD && reduces; i++)
        table_put(pattern, pattern->reduced, i, reduced(pattern, i));
}

/* ---- tensors ----------------------------------------------------------------------- */

/* Count the elements from `at` of the tensor until the table or the tensor ends. */
static uint64_t run_of(uint64_t at, uint64_t count, uint64_t *table_at_p, uint64_t shift)
{
    *table_at_p = (at + shift) % PERIOD;
    uint64_t run = PERIOD - *table_at_p;
    return run < count - at ? run : count - at;
}

void perf_pattern_write(const struct perf_pattern *pattern, uint64_t round, void *data,
                        uint64_t count)
{
    size_t bytes = tryst_dtype_bytes(pattern->dtype);
    uint64_t from;
    for (uint64_t at = 0, run; at < count; at += run) {
        run = run_of(at, count, &from, round);
        memcpy((char *)data + at * bytes, pattern->own + from * bytes, run * bytes);
    }
}

static void elements_compare(size_t bytes, const char *is, const unsigned char *should_be,
                             uint64_t at, uint64_t count, struct perf_wrong *wrong)
{
    for (uint64_t i = 0; i < count; i++) {
        if (memcmp(is + i * bytes, should_be + i * bytes, bytes) == 0)
            continue;
        if (wrong->count++ == 0) {
            wrong->first = at + i;
            memcpy(&wrong->is, is + i * bytes, bytes);
            memcpy(&wrong->should_be, should_be + i * bytes, bytes);
        }
    }
}

/* Compare `count` elements at `begin` of `data` with `table`, shifted by `shift`. */
static void block_compare(const struct perf_pattern *pattern, const unsigned char *table,
                          uint64_t shift, const void *data, uint64_t begin,
                          uint64_t count, struct perf_wrong *wrong)
{
    size_t bytes = tryst_dtype_bytes(pattern->dtype);
    uint64_t from;
    for (uint64_t at = 0, run; at < count; at += run) {
        const char *is = (const char *)data + (begin + at) * bytes;
        run = run_of(at, count, &from, shift);
        if (memcmp(is, table + from * bytes, run * bytes) != 0)
            elements_compare(bytes, is, table + from * bytes, begin + at, run, wrong);
    }
}

struct perf_wrong perf_pattern_own_check(const struct perf_pattern *pattern,
                                         uint64_t round, const void *data, uint64_t count)
{
    struct perf_wrong wrong = {0};
    block_compare(pattern, pattern->own, round, data, 0, count, &wrong);
    return wrong;
}

/* Compare each rank's block with that rank's term from `shift`. */
static void blocks_compare(const struct perf_pattern *pattern, uint64_t shift,
                           const void *data, uint64_t count, struct perf_wrong *wrong)
{
    static unsigned char table[PERIOD * PERF_PATTERN_BYTES_MAX];
    for (uint64_t begin = 0; begin < count; begin += pattern->block) {
        term_table_fill(pattern, (int)(begin / pattern->block), table);
        block_compare(pattern, table, shift, data, begin, pattern->block, wrong);
    }
}

struct perf_wrong perf_pattern_check(const struct perf_pattern *pattern, uint64_t round,
                                     const void *data, uint64_t count)
{
    static unsigned char table[PERIOD * PERF_PATTERN_BYTES_MAX];
    uint64_t own_block = (uint64_t)pattern->rank * pattern->block;
    struct perf_wrong wrong = {0};
    switch (pattern->result) {
    case PERF_RESULT_NONE: break;
    case PERF_RESULT_ROOTS:
        term_table_fill(pattern, pattern->root, table);
        block_compare(pattern, table, round, data, 0, count, &wrong);
        break;
    case PERF_RESULT_REDUCED:
        block_compare(pattern, pattern->reduced, round, data, 0, count, &wrong);
        break;
    case PERF_RESULT_REDUCED_BLOCK:
        block_compare(pattern, pattern->reduced, own_block + round, data, 0, count,
                      &wrong);
        break;
    case PERF_RESULT_GATHERED: blocks_compare(pattern, round, data, count, &wrong); break;
    case PERF_RESULT_EXCHANGED:
        blocks_compare(pattern, own_block + round, data, count, &wrong);
        break;
    }
    return wrong;
}
