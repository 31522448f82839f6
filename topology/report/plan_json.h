/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan as JSON.
 *
 * One idea: the document holds all that is needed to check it against the cluster it is for: trees, shares, loads and the
 * prices that prove the bound.
 * Units in the document are Gbit and seconds per Gbit. A link's price there is the weight of its time in the bound (the
 * plan's price × its capacity); the weights sum to 1, so no plan can be faster than the cheapest tree's
 * sum of weight × load ÷ capacity.
 * Callers: tryst/topo.h's implementation.
 */
#ifndef TRYST_TOPOLOGY_PLAN_JSON_H
#define TRYST_TOPOLOGY_PLAN_JSON_H

#include "plan_report.h"
#include "topology/base/text.h"

void plan_json_write(const struct plan_report *report, struct text *text);

#endif
