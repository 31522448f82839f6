/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner of a group; see collectives/plan/planner.h.
 *
 * One idea: overlay, plan, sizes, compiled plan, bytes: each step is one call of a lower
 * folder.
 */
#include "planner.h"

#include <string.h>

#include "cluster_graph.h"
#include "collectives/plan/compiled_equal.h"
#include "collectives/plan/compiled_wire.h"
#include "topology/formats/graph_read.h"
#include "topology/sized/compiled_make.h"
#include "topology/sized/compiled_time.h"

/* Groups of more than RANKS_EXACT ranks get a plan within GAP_LARGE of the optimum:
 * the last per cent would take most of the time. */
#define RANKS_EXACT 64
#define GAP_LARGE   0.01

static const struct compiled_params no_params;

static tryst_status no_memory(const struct planner_request *request, struct err *err)
{
    return err_set(err, TRYST_E_NOMEM,
                   "cannot plan collectives for %u ranks: out of memory",
                   request->graph->ranks_count);
}

/* Compute the longest time allowed for each size: the time of the plan for equal
 * links. */
static tryst_status limits_find(const struct planner_request *request,
                                struct overlay *overlay, struct err *err,
                                double limits_s[PLAN_SIZES])
{
    struct compiled_plan *equal;
    tryst_status status =
        compiled_plan_equal(request->graph->ranks_count, &no_params, err, &equal);
    if (status)
        return status;
    status = compiled_plan_times(equal, overlay, 0, limits_s);
    compiled_plan_close(equal);
    return status ? no_memory(request, err) : TRYST_OK;
}

static tryst_status sizes_choose(const struct planner_request *request,
                                 struct overlay *overlay, const struct plan *plan,
                                 struct err *err, struct plan_sizes **sizes_p)
{
    double limits_s[PLAN_SIZES];
    if (!request->within_equal)
        return plan_sizes_open(overlay, plan, 0, err, sizes_p);
    tryst_status status = limits_find(request, overlay, err, limits_s);
    return status ? status
                  : plan_sizes_open_within(overlay, plan, 0, limits_s, err, sizes_p);
}

/* Encode the plan into memory of the caller. */
static tryst_status plan_encode(const struct planner_request *request,
                                const struct compiled_plan *compiled, struct err *err,
                                uint8_t **bytes_p, size_t *count_p)
{
    uint8_t *own, *bytes;
    size_t count;
    tryst_status status = compiled_plan_encode(compiled, err, &own, &count);
    if (status)
        return status;
    bytes = request->alloc(count);
    if (bytes) {
        *bytes_p = memcpy(bytes, own, count);
        *count_p = count;
    }
    mem_free(own);
    return bytes ? TRYST_OK : no_memory(request, err);
}

static tryst_status sizes_compile(const struct planner_request *request,
                                  struct overlay *overlay, const struct plan *plan,
                                  struct err *err, uint8_t **bytes_p, size_t *count_p)
{
    struct plan_sizes *sizes;
    struct compiled_plan *compiled;
    tryst_status status = sizes_choose(request, overlay, plan, err, &sizes);
    if (status)
        return status;
    const struct plan_sizes *all[] = {sizes};
    status = compiled_plan_make(overlay, all, 1, &no_params, err, &compiled);
    plan_sizes_close(sizes);
    if (status)
        return status;
    if (request->rates_assumed)
        compiled->flags |= COMPILED_RATES_ASSUMED;
    status = plan_encode(request, compiled, err, bytes_p, count_p);
    compiled_plan_close(compiled);
    return status;
}

static tryst_status graph_plan(const struct planner_request *request, struct err *err,
                               uint8_t **bytes_p, size_t *count_p)
{
    bool large = request->graph->ranks_count > RANKS_EXACT;
    const struct plan_params params = {.op = PLAN_ALLREDUCE,
                                       .gap_max = large ? GAP_LARGE : 0,
                                       .budget_ns = request->budget_ns};
    struct overlay *overlay;
    struct plan *plan;
    tryst_status status = overlay_open(request->graph, NULL, 0, err, &overlay);
    if (status)
        return status;
    status = plan_open(overlay, &params, err, &plan);
    if (status == TRYST_OK) {
        status = sizes_compile(request, overlay, plan, err, bytes_p, count_p);
        plan_close(plan);
    }
    overlay_close(overlay);
    return status;
}

static tryst_status routes_check(const struct graph *graph, struct err *err)
{
    struct overlay *overlay = NULL;
    tryst_status status = overlay_open(graph, NULL, 0, err, &overlay);
    overlay_close(overlay);
    return status;
}

static tryst_status graph_parse(const char *text, size_t bytes, const char *name,
                                struct err *err, struct graph **graph_p,
                                uint32_t *ranks_count_p)
{
    tryst_status status = graph_read(text, bytes, name, GRAPH_AUTO, err, graph_p);
    if (status == TRYST_OK)
        *ranks_count_p = (*graph_p)->ranks_count;
    return status;
}

const struct planner_ops planner_ops = {.graph_parse = graph_parse,
                                        .graph_build = cluster_graph_build,
                                        .graph_close = graph_close,
                                        .routes_check = routes_check,
                                        .plan = graph_plan};
