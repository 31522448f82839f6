/* SPDX-License-Identifier: Apache-2.0 */
/** @file perf_kinds.h
 *  Lists the subcommands of tryst-perf, one row each.
 *
 *  A collective is a row and nothing else: its tensors, its bus factor and its
 *  options. */
#ifndef TRYST_TOOLS_PERF_OPTIONS_PERF_KINDS_H
#define TRYST_TOOLS_PERF_OPTIONS_PERF_KINDS_H

#include <stdbool.h>
#include <tryst/coll.h>
#include <tryst/topo.h>

/** The contents of a result, for --check. */
enum perf_result {
    PERF_RESULT_NONE,
    PERF_RESULT_REDUCED,       /**< all ranks' elements, reduced */
    PERF_RESULT_ROOTS,         /**< the root's elements */
    PERF_RESULT_GATHERED,      /**< block r: the elements of rank r */
    PERF_RESULT_REDUCED_BLOCK, /**< this rank's block of PERF_RESULT_REDUCED */
    PERF_RESULT_EXCHANGED /**< block r: this rank's block of the elements of rank r */
};

struct perf_kind {
    const char *name;           /**< the subcommand */
    const char *const *options; /**< long names of the kind's options, NULL at the end */
    const char *sizes;          /**< default of --sizes; NULL: the kind has no --sizes */
    int ranks_least, ranks_most;

    tryst_coll_kind coll; /**< TRYST_COLL_INVALID: a measurement of two ranks */
    enum perf_result result;
    /** The operation planned for the bound; TRYST_PLAN_ALLREDUCE:
     *  tryst_coll_estimate gives the bound, if there is one. */
    tryst_plan_op plan;
    bool ranks_even; /**< rank i is paired with rank i + ranks / 2 */
    bool reduces;    /**< --op gives the reduction */
    bool has_in;     /**< an input apart from the result, unless --inplace */
    bool preempts;   /**< measures urgent operations among others */
    /** replays a profile: over ranks, or in virtual time, without ranks */
    bool replays, simulates;
    bool has_root; /**< has --root; only the root of a reduction has the result */
    /** the tensor has one block for each rank, and --sizes gives the bytes of all of
     *  them */
    bool in_blocks, out_blocks;
    /** Return the bus factor: bus bandwidth is algorithm bandwidth times this, as
     *  nccl-tests define it. */
    double (*bus_factor)(int ranks);
};

/** Return the names of all rows for a message: "a, b and c". */
const char *perf_kinds_names(void);
/** Return the name of row `i`; NULL: there is none. */
const char *perf_kind_name(int i);
/** True if that is the kind's name; '_' and '-' do not count. */
bool perf_kind_is(const struct perf_kind *kind, const char *name);
/** Return the row of this name, as perf_kind_is compares; NULL: there is none. */
const struct perf_kind *perf_kind_find(const char *name);

#endif
