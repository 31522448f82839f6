/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read graphs from files, in Tryst's and other formats.
 *
 * One idea: every format ends in the same struct graph, so a format is one file with one
 * function, listed in graph_read.c.
 * Invariants: a graph that was read is sealed. Text is untrusted: the result is a graph
 * or a message with name, line, column and reason ("box.xml:12:7: …"), never a crash.
 * Only hwloc, which reads its own files, trusts them. A number that the source lacks
 * stays unknown.
 * Ranks: a source without ranks (hwloc, NCCL without ranks) gets one rank at each GPU or,
 * without GPUs, one at each NUMA node, so that a plan can be made for the machine.
 * Threads: any; no state is shared.
 */
#ifndef TRYST_TOPOLOGY_FORMATS_GRAPH_READ_H
#define TRYST_TOPOLOGY_FORMATS_GRAPH_READ_H

#include <stddef.h>

#include "topology/base/graph.h"

enum graph_format {
    GRAPH_AUTO,      /**< reading only: JSON, XML or synthetic, by the text */
    GRAPH_JSON,      /**< Tryst's dump (graph_json.c) */
    GRAPH_CLUSTER,   /**< cluster JSON (reading only) */
    GRAPH_HWLOC_XML, /**< hwloc's, written by lstopo x.xml (reading only) */
    GRAPH_NCCL_XML,  /**< NCCL's, written to NCCL_TOPO_DUMP_FILE (reading only) */
    GRAPH_SYNTHETIC, /**< "node:4 gpu:8 nvlink:450GB nic:2x50GB" (reading only) */
    GRAPH_TEXT,      /**< a tree and a matrix for people (writing only, like DOT) */
    GRAPH_DOT,
    GRAPH_FORMATS
};

/** Return the format of a name that users write ("text", "json", "xml", "nccl-xml",
 *  "dot", "cluster", "synthetic", "auto"); GRAPH_FORMATS for any other name. */
enum graph_format graph_format_parse(const char *text);
/** Return the name of a format, as in graph_format_parse. */
const char *graph_format_name(enum graph_format format);

/** Read a graph from `text` (`bytes` long, no NUL needed); messages begin with `name`,
 *  usually a file's. TRYST_E_NOMEM; TRYST_E_INVALID with "name:line:column: reason";
 *  TRYST_E_UNSUPPORTED: this build cannot read the format. */
tryst_status graph_read(const char *text, size_t bytes, const char *name,
                        enum graph_format format, struct err *err,
                        struct graph **graph_p);

/** Read the file `path` in any format of graph_read; "-" is standard input. If no file is
 *  named `path` and `path` describes a synthetic machine ("node:4 gpu:8"), read the
 *  description. TRYST_E_IO: cannot open or read the file; TRYST_E_INVALID also for a file
 *  above 1 GiB; else as graph_read. */
tryst_status graph_load(const char *path, struct err *err, struct graph **graph_p);

#endif
