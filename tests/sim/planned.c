/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of graphs; see planned.h. */
#include "planned.h"

#include <math.h>

#include "support/unit.h"

void planned_open(struct planned *planned, struct graph *graph)
{
    static const struct compiled_params compiled_params;
    const struct plan_params params = {.op = PLAN_ALLREDUCE};
    struct err err = ERR_INIT;
    planned->graph = graph;
    if (overlay_open(planned->graph, NULL, 0, &err, &planned->overlay) ||
        plan_open(planned->overlay, &params, &err, &planned->plan) ||
        plan_sizes_open(planned->overlay, planned->plan, INFINITY, &err, &planned->sizes))
        fail_msg("%s", err.text);
    const struct plan_sizes *all[] = {planned->sizes};
    if (compiled_plan_make(planned->overlay, all, 1, &compiled_params, &err,
                           &planned->compiled))
        fail_msg("%s", err.text);
}

void planned_close(struct planned *planned)
{
    compiled_plan_close(planned->compiled);
    plan_sizes_close(planned->sizes);
    plan_close(planned->plan);
    overlay_close(planned->overlay);
    graph_close(planned->graph);
}
