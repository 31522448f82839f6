/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans and routes as text.
 */
#ifndef TRYST_TOPOLOGY_REPORT_PLAN_EXPLAIN_H
#define TRYST_TOPOLOGY_REPORT_PLAN_EXPLAIN_H

#include "core/text/growing_text.h"
#include "plan_report.h"

/** Add a plan: times, trees, steps of simplifying, busiest links, sizes. */
void plan_text_write(const struct plan_report *report, struct text *text);

/** Add the route from member 0 of a pair's overlay to member 1: links, shares,
 *  bottleneck, and the predicted time for `bytes`. */
void route_text_write(const struct graph *graph, struct overlay *overlay, uint64_t bytes,
                      struct text *text);

#endif
