/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A text of others that is being read into a graph: what each importer gets, and how it refuses.
 *
 * One idea: all refusals have one form, "name:line:column: reason", so editors and people find the place.
 * Callers: the readers behind graph_read.
 */
#ifndef TRYST_TOPOLOGY_SOURCE_H
#define TRYST_TOPOLOGY_SOURCE_H

#include "json_place.h"
#include "topology/base/graph.h"

struct source {
    const char *text;
    size_t bytes;
    const char *name;
    struct err *err; /* NULL: nobody asks why */
};

/** "name:line:column: reason" into source->err; a column of 0 is left out. Returns TRYST_E_INVALID. */
tryst_status source_refuse(const struct source *source, struct text_place place,
                           const char *fmt, ...) __attribute__((format(printf, 3, 4)));
tryst_status source_no_memory(const struct source *source);

/** What the graph said of what was added there: TRYST_E_INVALID gets the place, all else passes. */
tryst_status source_judge(const struct source *source, struct text_place place,
                          tryst_status status, const struct err *why);

/** Opens a graph, has `fill` fill it, and says at `place` what the graph did not take. *graph_p is set when all is well. */
tryst_status source_build(const struct source *source, struct text_place place,
                          tryst_status (*fill)(void *arg, struct graph *graph,
                                               struct err *why),
                          void *arg, struct graph **graph_p);

#endif
