/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRYST_TOPOLOGY_DRAW_OVERLAID_H
#define TRYST_TOPOLOGY_DRAW_OVERLAID_H

#include "topology/plan/plan.h"

/** A plan to draw over the graph. `members` are the rank numbers of its members in order;
 *  NULL: all ranks. */
struct graph_overlaid {
    const struct plan *plan;
    const uint32_t *members;
};

/** Return the rank number of the member at `position`. */
static inline uint32_t overlaid_rank(const struct graph_overlaid *overlaid,
                                     uint32_t position)
{
    return overlaid->members ? overlaid->members[position] : position;
}

#endif
