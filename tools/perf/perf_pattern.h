/* SPDX-License-Identifier: Apache-2.0 */
/** @file perf_pattern.h
 *  What tensors hold under --check, and what a collective makes of it, to the last bit.
 *
 *  Idea: the terms of all ranks are small whole numbers that repeat every PERF_PATTERN_PERIOD elements. Sums of
 *  them are exact in every dtype, in any order; and a result is compared with one short table, so a check costs
 *  as much as a copy. The period is prime: a slice that lands where another one belongs differs. Each round
 *  shifts the pattern, so the result of the round before differs too.
 *  Callers: perf_coll.c. */
#ifndef TRYST_TOOLS_PERF_PATTERN_H
#define TRYST_TOOLS_PERF_PATTERN_H

#include "perf_kinds.h"

enum { PERF_PATTERN_PERIOD = 1021, PERF_PATTERN_BYTES_MAX = 8 };

struct perf_pattern {
    enum perf_result result;
    tryst_dtype dtype;
    tryst_reduce_op reduce;
    int ranks, rank, root;
    uint64_t block; /**< elements of a rank's block; of tensors without blocks, all */
    unsigned char own[PERF_PATTERN_PERIOD * PERF_PATTERN_BYTES_MAX];
    unsigned char reduced[PERF_PATTERN_PERIOD * PERF_PATTERN_BYTES_MAX];
};

struct perf_wrong {
    uint64_t count, first;  /**< elements; the index of the first one */
    uint64_t is, should_be; /**< its bits */
};

/** Compute the tables; the other members are set. */
void perf_pattern_fill_tables(struct perf_pattern *pattern);
/** The factor of TRYST_REDUCE_PREMULTIPLIED_SUM that `rank` gives. */
double perf_pattern_factor(int rank);
/** Write this rank's term of `round`. */
void perf_pattern_write(const struct perf_pattern *pattern, uint64_t round, void *data,
                        uint64_t count);
/** Compare `count` elements with this rank's term, which the collective only reads. */
struct perf_wrong perf_pattern_own_check(const struct perf_pattern *pattern,
                                         uint64_t round, const void *data,
                                         uint64_t count);
/** Compare the result of `round`, of `count` elements. */
struct perf_wrong perf_pattern_check(const struct perf_pattern *pattern, uint64_t round,
                                     const void *data, uint64_t count);

#endif
