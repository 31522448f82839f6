/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers that make small graphs, and overlays of them; a failure ends the test. */
#ifndef TRYST_TESTS_TOPOLOGY_GRAPH_NEW_H
#define TRYST_TESTS_TOPOLOGY_GRAPH_NEW_H

#include "topology/routes/overlay.h"

/** Make `ranks` ranks h0…, then `inner` switches s0…; not sealed. */
struct graph *graph_new(uint32_t ranks, uint32_t inner);
uint32_t node_new(struct graph *graph, const char *name, enum graph_node_kind kind);
/** Add a link in one direction, or in both, with a latency of 10 ns. */
void link_new(struct graph *graph, uint32_t from, uint32_t to, double bytes_per_s);
void wire_new(struct graph *graph, uint32_t a, uint32_t b, double bytes_per_s);
void wire_late_new(struct graph *graph, uint32_t a, uint32_t b, double bytes_per_s,
                   double latency_ns);
/** Open the overlay of all ranks; seals the graph if it is not sealed. */
struct overlay *overlay_new(struct graph *graph);

#endif
