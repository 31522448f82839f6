/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRYST_TOPOLOGY_OVERLAID_H
#define TRYST_TOPOLOGY_OVERLAID_H

#include "topology/plan/plan.h"

/* A plan to draw over the graph: `members` are its rank numbers in order (NULL: all ranks). */
struct graph_overlaid {
    const struct plan *plan;
    const uint32_t *members;
};

#endif
