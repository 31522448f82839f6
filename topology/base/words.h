/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a graph's parts are called for people: "PCIe Gen5 x16", "450 GB/s", "NUMA node".
 * Callers: the writers for people (tree, DOT, SVG).
 */
#ifndef TRYST_TOPOLOGY_WORDS_H
#define TRYST_TOPOLOGY_WORDS_H

#include "graph.h"
#include "text.h"

/* "63.0", "450", "0.0125" (GB/s); "?" when unknown; "unlimited". */
void words_rate(struct text *text, double bytes_per_s);
/* "PCIe Gen5 x16 63.0 GB/s 500 ns"; `back` (NULL: one way only) is the other direction. */
void words_link(struct text *text, const struct graph_link *link,
                const struct graph_link *back);
/* A node's name without the name of the machine that it is in ("node3/gpu0": "gpu0"). */
const char *words_short(const struct graph *graph, uint32_t node);
/* "NUMA node", "network switch". */
const char *words_node_kind(enum graph_node_kind kind);
/* "2 machines, 16 GPUs": how many there are of these kinds (1u << NODE_…). */
void words_counts(struct text *text, const struct graph *graph, uint32_t kinds);
/* A paragraph about what the graph leaves out; nothing where it leaves out nothing. Of more than `most`, their number. */
void words_skips(struct text *text, const struct graph *graph, uint32_t most);
/* "PCIe"; "" for an attachment. */
const char *words_link_kind(enum graph_link_kind kind);

#endif
