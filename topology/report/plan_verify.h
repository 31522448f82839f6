/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Check of a plan's document (plan_json.h) against its cluster, without a solver or a
 * solver's code.
 */
#ifndef TRYST_TOPOLOGY_REPORT_PLAN_VERIFY_H
#define TRYST_TOPOLOGY_REPORT_PLAN_VERIFY_H

#include <stddef.h>

#include "topology/base/graph.h"

/** Check that the document `json` is a correct plan for `graph`: recompute all but
 *  shares, trees, prices and the earlier steps of simplifying.
 *  Returns: TRYST_E_INVALID  a member is wrong; the text of `err` begins with `name`
 *           TRYST_E_NOMEM */
tryst_status plan_verify(const struct graph *graph, const char *json, size_t bytes,
                         const char *name, struct err *err);

#endif
