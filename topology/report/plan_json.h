/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan as JSON.
 *
 * One idea: the document holds all that a check against its cluster needs: trees, shares,
 * loads and the prices that prove the bound.
 * Units in the document are Gbit and seconds per Gbit. A link's "price" is the weight of
 * its time in the bound (the plan's price × the link's capacity). The weights sum to 1,
 * so no plan is faster than the cheapest tree's sum of weight × load ÷ capacity.
 */
#ifndef TRYST_TOPOLOGY_REPORT_PLAN_JSON_H
#define TRYST_TOPOLOGY_REPORT_PLAN_JSON_H

#include "core/text/growing_text.h"
#include "plan_report.h"

/** Add the plan as a JSON document. */
void plan_json_write(const struct plan_report *report, struct text *text);

#endif
