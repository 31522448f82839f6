/* SPDX-License-Identifier: Apache-2.0 */
/** @file perf_options.h
 *  The command line of tryst-perf, read and checked before any rank starts. */
#ifndef TRYST_TOOLS_PERF_OPTIONS_PERF_OPTIONS_H
#define TRYST_TOOLS_PERF_OPTIONS_PERF_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <tryst/types.h>

#include "perf_kinds.h"
#include "tools/order/order.h"

enum { PERF_SIZES_MAX = 64, PERF_CORES_MAX = 1024 };
#define PERF_BYTES_MAX (1ull << 40) /**< largest size */

struct perf_options {
    const struct perf_kind *kind;
    int ranks; /**< ranks to start on this machine */
    uint64_t sizes[PERF_SIZES_MAX];
    int sizes_count;
    uint64_t begin_bytes, end_bytes; /**< --begin and --end as given; 0: not given */
    uint64_t iters; /**< operations measured for each size; 0: as many as suit the size */
    uint64_t time_ns; /**< time to measure each size; 0: iters count */
    /** UINT64_MAX: the default of the kind (pairs a tenth of iters, at least 10;
     *  collectives and preempt 5) */
    uint64_t warmup;
    int window;     /**< bandwidth: transfers in flight, in each direction */
    bool both_ways; /**< bandwidth: both ranks send */
    /** processors of this host's ranks in turn; count 0: not given */
    short cores[PERF_CORES_MAX];
    int cores_count;
    /** two hosts without a launcher: this side is the server; or it is the one that
     *  connects to `host`. `port` 0: the default. */
    bool remote, serves;
    const char *host;
    int port;
    /** preempt: bytes of each background tensor; of preempt --op allreduce, of both
     *  together */
    uint64_t background_bytes;
    uint64_t every_ms; /**< preempt: time between two urgent operations */
    bool fifo;         /**< first come, first served: no order of urgency */
    bool simulate;     /**< sched: in virtual time, without ranks */
    /** sched; its profile is there after perf_options_load */
    struct order_job order;
    const char *transport;
    tryst_memory_kind memory[2]; /**< memory of rank 0's and of rank 1's tensors */
    const char *json;            /**< a file name, "-" for stdout, or NULL */
    bool csv;                    /**< CSV to stdout instead of the table */
    uint64_t factor;             /**< ratio of one size of a range to the size before */

    /** The members below are for collectives, except the texts. */
    tryst_dtype dtype;
    tryst_reduce_op reduce;
    int root;
    bool mapped;  /**< tensors are in memory of tryst_mem_alloc, not of malloc */
    bool inplace; /**< the input and the result are the same memory */
    bool check;   /**< compare each result with that of the pattern (perf_pattern.h) */
    bool explain; /**< show where the time of each edge went (perf_explain.h) */
    tryst_op_params params; /**< flags and priority from --priority */
    /** values of --sizes, --memory and --op as given; the kind decides their meaning */
    const char *sizes_text, *memory_text, *op_text;
};

/** Return the name that --op takes: "sum", "prod". */
const char *perf_reduce_name(tryst_reduce_op reduce);

/** True if options.ranks fits the other options; otherwise the reason is on stderr. Call
 *  once options.ranks is final. */
bool perf_options_start_check(const struct perf_options *options);

/** Read the command line. Returns 0: go on; 2: bad usage, reported on stderr; -1: help
 *  was printed, end with 0. */
int perf_options_read(int argc, char **argv, struct perf_options *options_p);

/** Load the profile of a kind that replays one; the caller closes it
 *  (order_profile_close). False after a message on stderr. */
bool perf_options_load(struct perf_options *options);

#endif
