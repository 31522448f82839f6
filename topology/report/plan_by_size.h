/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trees that a plan runs by size: for people, as JSON, and the check of that JSON.
 *
 * One idea: the document has each distinct tree once and shares by number, so it is enough to run from; predicted times are
 * recomputed from these trees, and a digest covers them.
 * Callers: plan_explain.c, plan_json.c, plan_told.c.
 */
#ifndef TRYST_TOPOLOGY_PLAN_BY_SIZE_H
#define TRYST_TOPOLOGY_PLAN_BY_SIZE_H

#include <jansson.h>

#include "plan_report.h"
#include "topology/base/text.h"

/** Add a table; nothing where the report has no sizes. */
void plan_by_size_text(const struct plan_report *report, struct text *text);

/** Add the members "by_size", "size_trees", "size_sum_gb_per_s" and "digest"; the same. */
void plan_by_size_json(const struct plan_report *report, struct text *text);

/** Check these members against the overlay and the plan (operation, root, trees, bound); all may be missing.
 *  TRYST_E_NOMEM; TRYST_E_INVALID with what is wrong. */
tryst_status plan_by_size_verify(struct overlay *overlay, const struct plan *plan,
                                 uint32_t root, const json_t *document, struct err *err);

#endif
