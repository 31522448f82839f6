/* SPDX-License-Identifier: Apache-2.0 */
/* Members of a plan's JSON objects. */
#ifndef TRYST_TOPOLOGY_REPORT_PLAN_JSON_MEMBER_H
#define TRYST_TOPOLOGY_REPORT_PLAN_JSON_MEMBER_H

#include <math.h>

#include "core/text/growing_text.h"
#include "topology/base/graph.h"

/** Add a number as a further member (not the first) of an object; null if it is not
 *  finite. */
static inline void plan_json_number(struct text *text, const char *name, double value)
{
    text_addf(text, ", \"%s\": ", name);
    if (isfinite(value))
        text_add_number(text, value);
    else
        text_add(text, "null");
}

/** Add a list of parents, -1 at the root, unless `parents` is NULL. */
static inline void plan_json_parents(struct text *text, const char *name,
                                     const uint32_t *parents, uint32_t count)
{
    if (!parents)
        return;
    text_addf(text, ", \"%s\": [", name);
    for (uint32_t i = 0; i < count; i++)
        text_addf(text, "%s%d", i ? ", " : "",
                  parents[i] == GRAPH_NONE ? -1 : (int)parents[i]);
    text_add(text, "]");
}

#endif
