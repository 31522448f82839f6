/* SPDX-License-Identifier: Apache-2.0 */
/** @file perf_options.h
 *  What tryst-perf was asked to measure.
 *
 *  Callers: tryst_perf.c reads the command line once, before any rank starts. */
#ifndef TRYST_TOOLS_PERF_OPTIONS_H
#define TRYST_TOOLS_PERF_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <tryst/types.h>

#include "perf_kinds.h"

enum { PERF_SIZES_MAX = 64 };

struct perf_options {
    const struct perf_kind *kind;
    int ranks; /**< to start on this machine */
    uint64_t sizes[PERF_SIZES_MAX];
    int sizes_count;
    uint64_t iters;  /**< 0: as many as suit each size */
    uint64_t warmup; /**< UINT64_MAX: a tenth of iters */
    int window;      /**< bandwidth: transfers outstanding */
    uint64_t
        background_bytes; /**< preempt: of each tensor behind which the urgent ones wait */
    uint64_t every_ms;    /**< preempt: between two urgent ones */
    bool fifo;            /**< without the order of urgency */
    const char *transport;
    tryst_memory_kind memory[2]; /**< where rank 0's and rank 1's tensors lie */
    const char *json;            /**< a file, "-", or NULL */
    uint64_t factor;             /**< from one size of a range to the next */

    /* Collectives. */
    tryst_dtype dtype;
    tryst_reduce_op reduce;
    int root;
    bool mapped;  /**< tensors are in memory of tryst_mem_alloc, not of malloc */
    bool inplace; /**< the input is where the result will be */
    bool check;   /**< compare each result with the pattern's */
    tryst_op_params params; /**< what --priority gives */
    const char *sizes_text, *memory_text,
        *op_text; /**< as given: their meaning is the kind's */
};

/** 0: go on. 2: bad usage, said on stderr. -1: help was printed, all is done. */
int perf_options_read(int argc, char **argv, struct perf_options *options_p);

#endif
