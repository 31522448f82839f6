/* SPDX-License-Identifier: Apache-2.0 */
/* Implements perf_bound.h: the bound is the certificate of a plan for the same operation
 * over the same links. */
#include "perf_bound.h"

#include <stdlib.h>
#include <tryst/topo.h>

/* Above RANKS_EXACT ranks the planner may stop GAP_LARGE short of the optimum, because
 * the last per cent takes most of the planning time. The certificate stays a true
 * bound. */
#define RANKS_EXACT 64
#define GAP_LARGE   0.01

static double plan_bound(const struct perf_rank *rank, const tryst_topo *topo)
{
    const struct perf_kind *kind = rank->options->kind;
    const tryst_plan_params params = {
        .struct_size = sizeof params,
        .op = kind->plan,
        .root = kind->has_root ? rank->options->root : 0,
        .gap_max = tryst_topo_ranks(topo) > RANKS_EXACT ? GAP_LARGE : 0};
    tryst_plan_info info = {.struct_size = sizeof info};
    tryst_plan *plan;
    if (tryst_plan_open(topo, &params, &plan) != TRYST_OK)
        return 0;
    tryst_status status = tryst_plan_info_get(plan, &info);
    tryst_plan_close(plan);
    return status == TRYST_OK ? info.bound_s_per_byte : 0;
}

double perf_bound_s_per_byte(const struct perf_rank *rank)
{
    const struct perf_kind *kind = rank->options->kind;
    const char *path = getenv("TRYST_TOPOLOGY");
    tryst_topo *topo;
    if (rank->rank != 0 || !path || !*path || kind->plan == TRYST_PLAN_ALLREDUCE)
        return 0;
    if (tryst_topo_load(path, &topo) != TRYST_OK)
        return 0;
    double bound = tryst_topo_ranks(topo) > 1 ? plan_bound(rank, topo) : 0;
    tryst_topo_close(topo);
    return bound;
}
