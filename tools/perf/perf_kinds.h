/* SPDX-License-Identifier: Apache-2.0 */
/** @file perf_kinds.h
 *  What tryst-perf measures, one row a subcommand.
 *
 *  A collective is a row and nothing else: its tensors, its bus factor, and the options that it has. */
#ifndef TRYST_TOOLS_PERF_KINDS_H
#define TRYST_TOOLS_PERF_KINDS_H

#include <stdbool.h>
#include <tryst/coll.h>

struct perf_kind {
    const char *name;           /**< the subcommand */
    const char *const *options; /**< long names of its options, NULL at the end */
    const char *sizes;          /**< where --sizes is absent; NULL: it has none */
    int ranks_least, ranks_most;
    tryst_coll_kind coll; /**< TRYST_COLL_INVALID: a measurement of two ranks */
    bool reduces, has_root;
    /** Bus bandwidth is algorithm bandwidth times this, as nccl-tests define it. */
    double (*bus_factor)(int ranks);
};

/** Names of all rows, for a message: "a, b and c". */
const char *perf_kinds_names(void);
/** NULL: no row has this name. */
const struct perf_kind *perf_kind_find(const char *name);

#endif
