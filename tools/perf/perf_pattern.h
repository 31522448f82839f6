/* SPDX-License-Identifier: Apache-2.0 */
/** @file perf_pattern.h
 *  Defines the contents of tensors under --check, and the exact result of a collective
 *  over them.
 *
 *  Idea: the terms of all ranks are small whole numbers that repeat every
 *  PERF_PATTERN_PERIOD elements. Their sums are exact in every dtype and any order, and a
 *  result is compared with one short table, so a check costs as much as a copy. The
 *  period is prime: a slice that lands at the place of another slice differs. Each round
 *  shifts the pattern, so the result of the round before differs too. */
#ifndef TRYST_TOOLS_PERF_PERF_PATTERN_H
#define TRYST_TOOLS_PERF_PERF_PATTERN_H

#include "tools/perf/options/perf_kinds.h"

enum { PERF_PATTERN_PERIOD = 1021, PERF_PATTERN_BYTES_MAX = 8 };

struct perf_pattern {
    enum perf_result result;
    tryst_dtype dtype;
    tryst_reduce_op reduce;
    int ranks, rank, root;
    /** Elements of a rank's block; of a tensor without blocks, all elements. */
    uint64_t block;
    unsigned char own[PERF_PATTERN_PERIOD * PERF_PATTERN_BYTES_MAX];
    unsigned char reduced[PERF_PATTERN_PERIOD * PERF_PATTERN_BYTES_MAX];
};

struct perf_wrong {
    uint64_t count, first;  /**< wrong elements; the index of the first one */
    uint64_t is, should_be; /**< bits of the first wrong element */
};

/** Compute the tables `own` and `reduced` from the other members. */
void perf_pattern_fill_tables(struct perf_pattern *pattern);
/** Return the factor of TRYST_REDUCE_PREMULTIPLIED_SUM that `rank` gives. */
double perf_pattern_factor(int rank);
/** Write this rank's term of `round`. */
void perf_pattern_write(const struct perf_pattern *pattern, uint64_t round, void *data,
                        uint64_t count);
/** Compare `count` elements with this rank's term: the collective must not write its
 *  input. */
struct perf_wrong perf_pattern_own_check(const struct perf_pattern *pattern,
                                         uint64_t round, const void *data,
                                         uint64_t count);
/** Compare the `count` elements of the result of `round`. */
struct perf_wrong perf_pattern_check(const struct perf_pattern *pattern, uint64_t round,
                                     const void *data, uint64_t count);

#endif
