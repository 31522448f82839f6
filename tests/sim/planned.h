/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a graph, made as rank 0 of a group does (context/group_plan.c),
 * for ranks whose sums take no time. */
#ifndef TRYST_TESTS_SIM_PLANNED_H
#define TRYST_TESTS_SIM_PLANNED_H

#include "topology/plan_nets.h"
#include "topology/routes/overlay.h"
#include "topology/sized/compiled_make.h"

struct planned {
    struct graph *graph;
    struct overlay *overlay;
    struct plan *plan;
    struct plan_sizes *sizes;
    struct compiled_plan *compiled;
};

/** Plan for the graph, and take over its ownership. */
void planned_open(struct planned *planned, struct graph *graph);
void planned_close(struct planned *planned);

#endif
