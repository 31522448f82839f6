/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describe a graph's parts for people: "PCIe Gen5 x16", "450", "NUMA node".
 */
#ifndef TRYST_TOPOLOGY_BASE_GRAPH_DESCRIBE_H
#define TRYST_TOPOLOGY_BASE_GRAPH_DESCRIBE_H

#include "core/text/growing_text.h"
#include "graph.h"

/** Append a bandwidth in GB/s: "63.0", "450", "0.0125"; "?" if unknown, "unlimited" if
 *  GRAPH_UNLIMITED. */
void describe_rate(struct text *text, double bytes_per_s);
/** Append "PCIe Gen5 x16 63.0 GB/s (table), 500 ns (table)"; `back` is the other
 *  direction, NULL for a one-way link. */
void describe_link(struct text *text, const struct graph_link *link,
                   const struct graph_link *back);
/** Return the node's name without its machine's prefix: "gpu0" for "node3/gpu0". */
const char *node_short_name(const struct graph *graph, uint32_t node);
/** Return the name of a kind of node: "NUMA node", "network switch". */
const char *node_kind_title(enum graph_node_kind kind);
/** Append "2 machines, 16 GPUs": the number of nodes of each of `kinds` (1u <<
 *  NODE_…). */
void describe_counts(struct text *text, const struct graph *graph, uint32_t kinds);
/** Append a paragraph that lists the first `most` skips and counts the others; nothing
 *  where the graph has none. */
void describe_skips(struct text *text, const struct graph *graph, uint32_t most);

#endif
