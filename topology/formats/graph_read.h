/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs from files: ours and those of others.
 *
 * One idea: every source ends in the same struct graph, so a format is one file with one function, listed in
 * graph_read.c.
 * Invariants: what is read is sealed; text of others is hostile: it gives a graph or a sentence with name, line,
 * column and reason ("box.xml:12:7: …"), never a crash; a number that the source does not have stays unknown.
 * Ranks: a source that names none (hwloc, NCCL without ranks) gets one rank at each GPU, where there
 * are no GPUs one at each NUMA node, so that a machine can be planned on as it is.
 * Threads: none of its own. Callers: tryst/topo.h's implementation, tests.
 */
#ifndef TRYST_TOPOLOGY_GRAPH_READ_H
#define TRYST_TOPOLOGY_GRAPH_READ_H

#include <stddef.h>

#include "topology/base/graph.h"

enum graph_format {
    GRAPH_AUTO,      /* reading: JSON by '{', XML by '<' and its root, else synthetic */
    GRAPH_JSON,      /* our own dump (graph_json.c) */
    GRAPH_CLUSTER,   /* cluster JSON (reading only) */
    GRAPH_HWLOC_XML, /* lstopo x.xml */
    GRAPH_NCCL_XML,  /* NCCL_TOPO_DUMP_FILE */
    GRAPH_SYNTHETIC, /* "node:4 gpu:8 nvlink:450GB nic:2x50GB" (reading only) */
    GRAPH_TEXT, /* a tree and a matrix for people (writing only, like the next two) */
    GRAPH_DOT,
    GRAPH_SVG,
    GRAPH_FORMATS
};

/** The format of a name as a user writes it ("text", "json", "xml", "nccl-xml", "dot", "svg", "cluster",
 *  "synthetic"); GRAPH_FORMATS when there is none of that name. */
enum graph_format graph_format_parse(const char *text);
/** The other way round. */
const char *graph_format_name(enum graph_format format);

/** A graph from `text` (need not be terminated); `name` is for sentences (a file's). TRYST_E_NOMEM;
 *  TRYST_E_INVALID with "name:line:column: reason"; TRYST_E_UNSUPPORTED: a format that this build cannot read. */
tryst_status graph_read(const char *text, size_t bytes, const char *name,
                        enum graph_format format, struct err *err,
                        struct graph **graph_p);

/** Read the file `path`, in any format of graph_read; "-" is standard input. Words of a synthetic machine
 *  ("node:4 gpu:8") are read where no file has this name. TRYST_E_IO: the file cannot be read; else as
 *  graph_read. */
tryst_status graph_load(const char *path, struct err *err, struct graph **graph_p);

#endif
