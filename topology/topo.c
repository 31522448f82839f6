/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public functions for topologies and plans (tryst/topo.h).
 *
 * One idea: arguments are checked here and nowhere below; every other step is one call of
 * a lower folder.
 */
#include "tryst/topo.h"

#include <math.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/text/params.h"
#include "core/text/refuse.h"
#include "topo_own.h"
#include "topology/draw/graph_write.h"
#include "topology/formats/graph_read.h"
#include "topology/machine/detect.h"
#include "topology/report/plan_explain.h"
#include "topology/report/plan_json.h"
#include "topology/report/plan_report.h"
#include "topology/report/plan_verify.h"
#include "topology/routes/overlay.h"
#include "topology/routes/overlay_price.h"

struct tryst_topo {
    struct graph *graph;
};

struct tryst_plan {
    struct plan_report report;
    struct overlay *overlay;
    struct plan *plan;
    struct plan_sizes *sizes;
    uint32_t *members; /* the group's rank numbers; NULL: all ranks */
};

tryst_status topo_result(tryst_status status, const struct err *err)
{
    return status == TRYST_OK ? status : refuse_err(err, status);
}

/* ---- topologies -------------------------------------------------------------------- */

tryst_status topo_wrap(struct graph *graph, struct err *err, tryst_topo **topo_p)
{
    tryst_topo *topo = mem_zalloc(sizeof *topo);
    if (!topo) {
        graph_close(graph);
        return err_set(err, TRYST_E_NOMEM, "cannot create a topology: out of memory");
    }
    topo->graph = graph;
    *topo_p = topo;
    return TRYST_OK;
}

const struct graph *topo_graph(const tryst_topo *topo)
{
    return topo->graph;
}

tryst_status tryst_topo_detect(tryst_topo **topo_p)
{
    struct err err = ERR_INIT;
    struct graph *graph;
    if (!topo_p)
        return refuse_null("detect this machine", "topo_p");
    tryst_status status = graph_detect(&err, &graph);
    if (status == TRYST_OK)
        status = topo_wrap(graph, &err, topo_p);
    return topo_result(status, &err);
}

static tryst_status text_parse(const char *text, size_t bytes, const char *name,
                               struct err *err, tryst_topo **topo_p)
{
    struct graph *graph;
    tryst_status status = graph_read(text, bytes, name, GRAPH_AUTO, err, &graph);
    return status == TRYST_OK ? topo_wrap(graph, err, topo_p) : status;
}

tryst_status tryst_topo_parse(const char *text, size_t bytes, const char *name,
                              tryst_topo **topo_p)
{
    struct err err = ERR_INIT;
    if (!text || !name || !topo_p)
        return refuse_null("parse a topology", !text   ? "text"
                                               : !name ? "name"
                                                       : "topo_p");
    tryst_status status = text_parse(text, bytes, name, &err, topo_p);
    return topo_result(status, &err);
}

tryst_status tryst_topo_load(const char *path, tryst_topo **topo_p)
{
    struct err err = ERR_INIT;
    struct graph *graph;
    if (!path || !topo_p)
        return refuse_null("load a topology", !path ? "path" : "topo_p");
    tryst_status status = graph_load(path, &err, &graph);
    if (status == TRYST_OK)
        status = topo_wrap(graph, &err, topo_p);
    return topo_result(status, &err);
}

void tryst_topo_close(tryst_topo *topo)
{
    if (!topo)
        return;
    graph_close(topo->graph);
    mem_free(topo);
}

tryst_status tryst_topo_write(const tryst_topo *topo, const char *format,
                              const tryst_plan *plan, char **text_p)
{
    struct err err = ERR_INIT;
    if (!topo || !format || !text_p)
        return refuse_null("write a topology", !topo     ? "topo"
                                               : !format ? "format"
                                                         : "text_p");
    struct graph_overlaid overlaid = {plan ? plan->plan : NULL,
                                      plan ? plan->members : NULL};
    enum graph_format kind = graph_format_parse(format);
    tryst_status status;
    if (kind == GRAPH_FORMATS || kind == GRAPH_AUTO)
        status = err_set(&err, TRYST_E_UNSUPPORTED,
                         "unknown format \"%.60s\": use json, text or dot (tryst-topo "
                         "--format svg draws SVG)",
                         format);
    else
        status = graph_write(topo->graph, kind, plan ? &overlaid : NULL, &err, text_p);
    return topo_result(status, &err);
}

void tryst_text_free(char *text)
{
    mem_free(text);
}

int tryst_topo_ranks(const tryst_topo *topo)
{
    return topo ? (int)topo->graph->ranks_count : 0;
}

static bool rank_exists(const tryst_topo *topo, int rank)
{
    return rank >= 0 && (uint32_t)rank < topo->graph->ranks_count;
}

const char *tryst_topo_rank_name(const tryst_topo *topo, int rank)
{
    if (!topo || !rank_exists(topo, rank))
        return NULL;
    return topo->graph->nodes[topo->graph->ranks[rank]].name;
}

int tryst_topo_rank_find(const tryst_topo *topo, const char *name)
{
    uint32_t node = topo && name ? graph_find(topo->graph, name) : GRAPH_NONE;
    uint32_t rank = node == GRAPH_NONE ? GRAPH_NONE : graph_rank_of(topo->graph, node);
    return rank == GRAPH_NONE ? -1 : (int)rank;
}

/* ---- plans ------------------------------------------------------------------------- */

const char *tryst_plan_op_name(tryst_plan_op op)
{
    bool known = (int)op >= 0 && (int)op < PLAN_OPS;
    return known ? plan_op_name((enum plan_op)op) : NULL;
}

static tryst_status params_check(const tryst_topo *topo, const tryst_plan_params *params,
                                 struct err *err)
{
    bool rooted = params->op == TRYST_PLAN_BROADCAST || params->op == TRYST_PLAN_REDUCE;
    int64_t count =
        params->ranks ? params->ranks_count : (int64_t)topo->graph->ranks_count;
    if ((int)params->op < 0 || (int)params->op >= PLAN_OPS)
        return err_set(err, TRYST_E_INVALID,
                       "cannot plan: op %d is not one of tryst_plan_op", (int)params->op);
    if (count < 1)
        return err_set(err, TRYST_E_INVALID, "cannot plan: the group has no rank");
    if (rooted && (params->root < 0 || params->root >= count))
        return err_set(err, TRYST_E_INVALID,
                       "cannot plan: root %d is not a rank of the group (0 to %lld)",
                       (int)params->root, (long long)count - 1);
    if (params->trees_max < 0 || !(params->gap_max >= 0) ||
        !(params->sum_bytes_per_s >= 0))
        return err_set(err, TRYST_E_INVALID,
                       "cannot plan: trees_max, gap_max or sum_bytes_per_s is negative");
    for (int32_t i = 0; params->ranks && i < params->ranks_count; i++)
        if (!rank_exists(topo, params->ranks[i]))
            return err_set(err, TRYST_E_INVALID,
                           "not a rank of the topology: %d (it has %u, from 0)",
                           (int)params->ranks[i], topo->graph->ranks_count);
    return TRYST_OK;
}

static tryst_status plan_fill(tryst_plan *plan, const tryst_topo *topo,
                              const tryst_plan_params *params, struct err *err)
{
    struct plan_params wanted = {.op = (enum plan_op)params->op,
                                 .root = (uint32_t)params->root,
                                 .trees_max = (uint32_t)params->trees_max,
                                 /* params->gap_max is relative to the bound, the solver's
                                  * gap to the time */
                                 .gap_max = params->gap_max / (1 + params->gap_max)};
    bool rooted = params->op == TRYST_PLAN_BROADCAST || params->op == TRYST_PLAN_REDUCE;
    uint32_t count = params->ranks ? (uint32_t)params->ranks_count : 0;
    if (!rooted)
        wanted.root = 0;
    if (params->ranks) {
        plan->members = mem_alloc(count * sizeof *plan->members);
        if (!plan->members)
            return err_set(err, TRYST_E_NOMEM, "cannot plan for %u ranks: out of memory",
                           count);
        for (uint32_t i = 0; i < count; i++)
            plan->members[i] = (uint32_t)params->ranks[i];
    }
    tryst_status status =
        overlay_open(topo->graph, plan->members, count, err, &plan->overlay);
    if (status == TRYST_OK)
        status = plan_open(plan->overlay, &wanted, err, &plan->plan);
    if (status == TRYST_OK)
        status = plan_sizes_open(plan->overlay, plan->plan, params->sum_bytes_per_s, err,
                                 &plan->sizes);
    plan->report = (struct plan_report){.graph = topo->graph,
                                        .overlay = plan->overlay,
                                        .plan = plan->plan,
                                        .members = plan->members,
                                        .root = wanted.root,
                                        .sizes = plan->sizes,
                                        .sizes_sum_bytes_per_s = params->sum_bytes_per_s};
    return status;
}

tryst_status tryst_plan_open(const tryst_topo *topo, const tryst_plan_params *params,
                             tryst_plan **plan_p)
{
    struct err err = ERR_INIT;
    tryst_plan_params own;
    if (!topo || !plan_p)
        return refuse_null("plan", !topo ? "topo" : "plan_p");
    tryst_status status =
        params_read(&own, sizeof own, params, "tryst_plan_params", &err);
    if (status == TRYST_OK)
        status = params_check(topo, &own, &err);
    if (status != TRYST_OK)
        return topo_result(status, &err);
    tryst_plan *plan = mem_zalloc(sizeof *plan);
    if (!plan)
        return topo_result(TRYST_E_NOMEM, &err);
    status = plan_fill(plan, topo, &own, &err);
    if (status != TRYST_OK) {
        tryst_plan_close(plan);
        return topo_result(status, &err);
    }
    *plan_p = plan;
    return TRYST_OK;
}

void tryst_plan_close(tryst_plan *plan)
{
    if (!plan)
        return;
    plan_sizes_close(plan->sizes);
    plan_close(plan->plan);
    overlay_close(plan->overlay);
    mem_free(plan->members);
    mem_free(plan);
}

tryst_status tryst_plan_info_get(const tryst_plan *plan, tryst_plan_info *info_p)
{
    if (!plan || !info_p)
        return refuse_null("describe a plan", plan ? "info_p" : "plan");
    if (!tryst_sized_is_set(info_p))
        return refuse_unsized("describe a plan", "info_p");
    const struct plan *p = plan->plan;
    tryst_plan_info info = {.op = (tryst_plan_op)p->op,
                            .ranks_count = (int32_t)p->ranks_count,
                            .trees_count = (int32_t)p->trees_count,
                            .s_per_byte = p->s_per_byte,
                            .bound_s_per_byte = p->bound_s_per_byte,
                            .gap = plan_gap(p->s_per_byte, p->bound_s_per_byte),
                            .digest = plan->sizes->digest};
    for (uint32_t t = 0; t < p->trees_count; t++)
        if ((int32_t)p->trees[t].depth > info.depth_max)
            info.depth_max = (int32_t)p->trees[t].depth;
    (void)tryst_sized_write(info_p, &info, sizeof info);
    return TRYST_OK;
}

tryst_status tryst_plan_tree_get(const tryst_plan *plan, int number,
                                 tryst_plan_tree *tree_p)
{
    struct err err = ERR_INIT;
    if (!plan || !tree_p)
        return refuse_null("read a tree", plan ? "tree_p" : "plan");
    tryst_status status = params_check_output(tree_p, "tryst_plan_tree", &err);
    if (status == TRYST_OK && (number < 0 || (uint32_t)number >= plan->plan->trees_count))
        status = err_set(&err, TRYST_E_INVALID,
                         "not a tree of the plan: %d (it has %u, from 0)", number,
                         plan->plan->trees_count);
    if (status != TRYST_OK)
        return topo_result(status, &err);
    /* GRAPH_NONE is -1 */
    const struct plan_tree *tree = &plan->plan->trees[number];
    tryst_plan_tree own = {.share = tree->share,
                           .root = (int32_t)tree->root,
                           .parents = (const int32_t *)plan_tree_parents(tree),
                           .ranks = (const int32_t *)plan->members};
    (void)tryst_sized_write(tree_p, &own, sizeof own);
    return TRYST_OK;
}

/* Write a plan by the function `write`, and set *text_p to the text. */
static tryst_status plan_written(const tryst_plan *plan,
                                 void (*write)(const struct plan_report *, struct text *),
                                 char **text_p)
{
    struct err err = ERR_INIT;
    struct text text = {0};
    if (!plan || !text_p)
        return refuse_null("write a plan", !plan ? "plan" : "text_p");
    write(&plan->report, &text);
    return topo_result(text_release(&text, &err, text_p), &err);
}

tryst_status tryst_plan_json(const tryst_plan *plan, char **text_p)
{
    return plan_written(plan, plan_json_write, text_p);
}

tryst_status tryst_plan_text(const tryst_plan *plan, char **text_p)
{
    return plan_written(plan, plan_text_write, text_p);
}

tryst_status tryst_plan_verify(const tryst_topo *topo, const char *json, size_t bytes,
                               const char *name)
{
    struct err err = ERR_INIT;
    if (!topo || !json || !name)
        return refuse_null("verify a plan", !topo ? "topo" : !json ? "json" : "name");
    tryst_status status = plan_verify(topo->graph, json, bytes, name, &err);
    return topo_result(status, &err);
}

/* ---- one route --------------------------------------------------------------------- */

static tryst_status pair_open(const tryst_topo *topo, int from, int to, struct err *err,
                              struct overlay **overlay_p)
{
    const int ends[] = {from, to};
    for (int i = 0; i < 2; i++)
        if (!rank_exists(topo, ends[i]))
            return err_set(err, TRYST_E_INVALID,
                           "not a rank of the topology: %d (it has %u, from 0)", ends[i],
                           topo->graph->ranks_count);
    if (from == to)
        return err_set(err, TRYST_E_INVALID, "cannot route from \"%.60s\" to itself",
                       tryst_topo_rank_name(topo, from));
    tryst_status status =
        overlay_open_pair(topo->graph, (uint32_t)from, (uint32_t)to, err, overlay_p);
    if (status != TRYST_OK)
        return status;
    struct overlay_edge edge;
    overlay_edge(*overlay_p, 0, 1, &edge);
    if (edge.routes > 0)
        return TRYST_OK;
    overlay_close(*overlay_p);
    return err_set(
        err, TRYST_E_UNREACHABLE,
        "cannot route from \"%.60s\" to \"%.60s\": no route exists (routes never pass "
        "through a rank)",
        tryst_topo_rank_name(topo, from), tryst_topo_rank_name(topo, to));
}

tryst_status tryst_topo_route(const tryst_topo *topo, int from, int to,
                              tryst_route_info *info_p)
{
    struct err err = ERR_INIT;
    struct overlay *overlay = NULL;
    struct overlay_edge edge;
    if (!topo || !info_p)
        return refuse_null("describe a route", !topo ? "topo" : "info_p");
    tryst_status status = params_check_output(info_p, "tryst_route_info", &err);
    if (status == TRYST_OK)
        status = pair_open(topo, from, to, &err, &overlay);
    if (status != TRYST_OK || !overlay)
        return topo_result(status, &err);
    overlay_edge(overlay, 0, 1, &edge);
    tryst_route_info info = {.hops = (int32_t)edge.hops,
                             .routes = edge.routes,
                             .bytes_per_s = edge.bytes_per_s,
                             .latency_ns = edge.latency_ns};
    if (edge.bottleneck != GRAPH_NONE) {
        const struct graph_link *link =
            &topo->graph->links[overlay->links[edge.bottleneck]];
        info.bottleneck_share = overlay->capacity[edge.bottleneck] / edge.bytes_per_s;
        info.bottleneck_from = topo->graph->nodes[link->from].name;
        info.bottleneck_to = topo->graph->nodes[link->to].name;
    }
    overlay_close(overlay);
    (void)tryst_sized_write(info_p, &info, sizeof info);
    return TRYST_OK;
}

tryst_status tryst_topo_explain(const tryst_topo *topo, int from, int to, uint64_t bytes,
                                char **text_p)
{
    struct err err = ERR_INIT;
    struct overlay *overlay = NULL;
    struct text text = {0};
    if (!topo || !text_p)
        return refuse_null("explain a route", !topo ? "topo" : "text_p");
    tryst_status status = pair_open(topo, from, to, &err, &overlay);
    if (status != TRYST_OK || !overlay)
        return topo_result(status, &err);
    route_text_write(topo->graph, overlay, bytes, &text);
    overlay_close(overlay);
    return topo_result(text_release(&text, &err, text_p), &err);
}
