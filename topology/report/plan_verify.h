/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan's document (plan_json.h), checked against the cluster that it is for. It needs no solver, and shares no code
 * with one.
 * Callers: tryst/topo.h's implementation.
 */
#ifndef TRYST_TOPOLOGY_PLAN_VERIFY_H
#define TRYST_TOPOLOGY_PLAN_VERIFY_H

#include <stddef.h>

#include "topology/base/graph.h"

/** Whether the document `json` is a right plan for `graph`: everything in it is recomputed. TRYST_E_NOMEM;
 *  TRYST_E_INVALID with "name: what is wrong". */
tryst_status plan_verify(const struct graph *graph, const char *json, size_t bytes,
                         const char *name, struct err *err);

#endif
