/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A text that a reader turns into a graph, and how the reader rejects the text.
 *
 * One idea: all errors have one form, "name:line:column: reason", so editors and people
 * find the place.
 */
#ifndef TRYST_TOPOLOGY_FORMATS_SOURCE_H
#define TRYST_TOPOLOGY_FORMATS_SOURCE_H

#include "json_place.h"
#include "topology/base/graph.h"

struct source {
    const char *text;
    size_t bytes;
    const char *name;
    struct err *err; /**< where errors are written; may be NULL */
};

/** Write "name:line:column: reason" to source->err; a column of 0 is left out. Return
 *  TRYST_E_INVALID. */
tryst_status source_refuse(const struct source *source, struct text_place place,
                           const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/** Write an out-of-memory message to source->err. Return TRYST_E_NOMEM. */
tryst_status source_no_memory(const struct source *source);

/** Return the `status` of an addition to the graph, with its message `why` in
 *  source->err; a message of TRYST_E_INVALID is prefixed by `place`. */
tryst_status source_judge(const struct source *source, struct text_place place,
                          tryst_status status, const struct err *why);

/** Open a graph and call `fill` on it. On success set *graph_p; on failure close the
 *  graph and report the error of `fill` as source_judge does. */
tryst_status source_build(const struct source *source, struct text_place place,
                          tryst_status (*fill)(void *arg, struct graph *graph,
                                               struct err *why),
                          void *arg, struct graph **graph_p);

#endif
