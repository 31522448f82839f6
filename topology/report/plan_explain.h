/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans and routes for people.
 *
 * Callers: tryst/topo.h's implementation.
 */
#ifndef TRYST_TOPOLOGY_PLAN_EXPLAIN_H
#define TRYST_TOPOLOGY_PLAN_EXPLAIN_H

#include "plan_report.h"
#include "topology/base/text.h"

/** Times, trees, and the links that are busiest. */
void plan_text_write(const struct plan_report *report, struct text *text);

/** The route from member 0 of a pair's overlay to member 1: links, shares, bottleneck, and what `bytes` take. */
void route_text_write(const struct graph *graph, struct overlay *overlay, uint64_t bytes,
                      struct text *text);

#endif
