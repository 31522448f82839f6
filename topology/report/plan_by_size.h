/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trees that a plan runs by size: as a table, as JSON, and the check of that JSON.
 *
 * One idea: the document has each distinct tree once, and shares that refer to trees by
 * number, so ranks could run from the document alone. The check recomputes predicted
 * times and the digest from these trees.
 */
#ifndef TRYST_TOPOLOGY_REPORT_PLAN_BY_SIZE_H
#define TRYST_TOPOLOGY_REPORT_PLAN_BY_SIZE_H

#include "core/source/json.h"
#include "core/text/growing_text.h"
#include "plan_report.h"

/** Add a table of sizes if the report has sizes. */
void plan_by_size_text(const struct plan_report *report, struct text *text);

/** Add the members "by_size", "size_trees", "digest" and, if the operation sums,
 *  "size_sum_gb_per_s"; nothing if the report has no sizes. */
void plan_by_size_json(const struct plan_report *report, struct text *text);

/** Check the members that plan_by_size_json writes against the overlay and the plan
 *  (operation, root, trees, bound). A document that has none of these members passes.
 *  Returns: TRYST_E_INVALID  a member is wrong; `err` names it
 *           TRYST_E_NOMEM */
tryst_status plan_by_size_verify(struct overlay *overlay, const struct plan *plan,
                                 uint32_t root, const struct json *document,
                                 struct err *err);

#endif
