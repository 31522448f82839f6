/* SPDX-License-Identifier: Apache-2.0 */
/** @file perf_kinds.h
 *  What tryst-perf measures, one row a subcommand.
 *
 *  A collective is a row and nothing else: its tensors, its bus factor, and the options that it has. */
#ifndef TRYST_TOOLS_PERF_KINDS_H
#define TRYST_TOOLS_PERF_KINDS_H

#include <stdbool.h>
#include <tryst/coll.h>
#include <tryst/topo.h>

/** The contents of a result, for --check. */
enum perf_result {
    PERF_RESULT_NONE,
    PERF_RESULT_REDUCED,       /**< all ranks' elements, reduced */
    PERF_RESULT_ROOTS,         /**< the root's elements */
    PERF_RESULT_GATHERED,      /**< block r: the elements of rank r */
    PERF_RESULT_REDUCED_BLOCK, /**< this rank's block of what PERF_RESULT_REDUCED is */
    PERF_RESULT_EXCHANGED /**< block r: this rank's block of the elements of rank r */
};

struct perf_kind {
    const char *name;           /**< the subcommand */
    const char *const *options; /**< long names of its options, NULL at the end */
    const char *sizes;          /**< where --sizes is absent; NULL: it has none */
    int ranks_least, ranks_most;

    tryst_coll_kind coll; /**< TRYST_COLL_INVALID: a measurement of two ranks */
    enum perf_result result;
    /** Of the bound; TRYST_PLAN_ALLREDUCE: tryst_coll_estimate has it, if any. */
    tryst_plan_op plan;
    bool reduces;  /**< --op is its reduction */
    bool has_in;   /**< an input apart from the result, unless --inplace */
    bool preempts; /**< an urgent one among others */
    bool has_root; /**< of a reduction the root alone has the result */
    bool in_blocks,
        out_blocks; /**< the tensor is a block for each rank, and --sizes its size */
    /** Bus bandwidth is algorithm bandwidth times this, as nccl-tests define it. */
    double (*bus_factor)(int ranks);
};

/** Names of all rows, for a message: "a, b and c". */
const char *perf_kinds_names(void);
/** NULL: no row has this name. */
const struct perf_kind *perf_kind_find(const char *name);

#endif
