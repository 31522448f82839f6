/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public functions for probes (tryst/topo.h): convert between programs' flows, a list
 * with round numbers, and the rounds of pairs of fit.h.
 */
#include <string.h>

#include "core/memory/alloc.h"
#include "core/text/params.h"
#include "core/text/refuse.h"
#include "topo_own.h"
#include "topology/probe/fit.h"
#include "topology/probe/fit_schedule.h"

static void flows_fill(const struct fit_schedule *schedule, tryst_probe_flow *flows)
{
    for (uint32_t r = 0; r < schedule->rounds_count; r++)
        for (uint32_t i = schedule->first[r]; i < schedule->first[r + 1]; i++)
            flows[i] = (tryst_probe_flow){.round = (int32_t)r,
                                          .from = (int32_t)schedule->pairs[i].from,
                                          .to = (int32_t)schedule->pairs[i].to};
}

tryst_status tryst_probe_schedule(int ranks_count, const int32_t *hosts,
                                  tryst_probe_flow **flows_p, int *flows_count_p)
{
    struct err err = ERR_INIT;
    struct fit_schedule schedule;
    if (!flows_p || !flows_count_p)
        return refuse_null("schedule a probe", flows_p ? "flows_count_p" : "flows_p");
    if (ranks_count < 0)
        return refuse(TRYST_E_INVALID, "cannot schedule a probe: ranks_count is %d",
                      ranks_count);
    tryst_status status = fit_schedule_open((uint32_t)ranks_count,
                                            (const uint32_t *)hosts, &err, &schedule);
    if (status != TRYST_OK)
        return topo_result(status, &err);
    tryst_probe_flow *flows = mem_zalloc_array(schedule.pairs_count, sizeof *flows);
    if (flows) {
        flows_fill(&schedule, flows);
        *flows_p = flows;
        *flows_count_p = (int)schedule.pairs_count;
    }
    fit_schedule_close(&schedule);
    return flows ? TRYST_OK : topo_result(TRYST_E_NOMEM, &err);
}

void tryst_probe_flows_free(tryst_probe_flow *flows)
{
    mem_free(flows);
}

/* Split the flows, copied into `kept`, into rounds. TRYST_E_INVALID: a flow's round is
 * neither that of the flow before nor the next one. */
static tryst_status rounds_make(const tryst_probe_flow *flows, int count,
                                struct fit_flow *kept, struct fit_round *rounds,
                                uint32_t *rounds_count_p, struct err *err)
{
    uint32_t rounds_count = 0;
    for (int i = 0; i < count; i++) {
        bool next = flows[i].round == (int32_t)rounds_count;
        if (!next && (rounds_count == 0 || flows[i].round != (int32_t)rounds_count - 1))
            return err_set(err, TRYST_E_INVALID,
                           "cannot fit a topology: flow %d has round %d after round %d",
                           i, (int)flows[i].round, (int)rounds_count - 1);
        kept[i] = (struct fit_flow){(uint32_t)flows[i].from, (uint32_t)flows[i].to,
                                    flows[i].bytes_per_s};
        if (next)
            rounds[rounds_count++] = (struct fit_round){&kept[i], 0};
        rounds[rounds_count - 1].count++;
    }
    *rounds_count_p = rounds_count;
    return TRYST_OK;
}

static tryst_status samples_fit(struct fit_samples *samples,
                                const tryst_probe_flow *flows, int count, struct err *err,
                                tryst_probe_info *info_p, tryst_topo **topo_p)
{
    struct fit_flow *kept = mem_zalloc_array((size_t)count, sizeof *kept);
    struct fit_round *rounds = mem_zalloc_array((size_t)count, sizeof *rounds);
    struct fit_report report = {0};
    struct graph *graph;
    tryst_status status = kept && rounds ? TRYST_OK : TRYST_E_NOMEM;
    if (status == TRYST_OK)
        status = rounds_make(flows, count, kept, rounds, &samples->rounds_count, err);
    samples->rounds = rounds;
    if (status == TRYST_OK)
        status = graph_fit(samples, err, &report, &graph);
    if (status == TRYST_OK)
        status = topo_wrap(graph, err, topo_p);
    const tryst_probe_info info = {.flows = (int32_t)report.flows,
                                   .explained = (int32_t)report.explained,
                                   .groups = (int32_t)report.groups,
                                   .mesh = report.mesh};
    if (status == TRYST_OK && info_p)
        (void)tryst_sized_write(info_p, &info, sizeof info);
    mem_free(kept);
    mem_free(rounds);
    return status;
}

tryst_status tryst_topo_fit(int ranks_count, const char *const *names,
                            const tryst_probe_flow *flows, int flows_count,
                            const double *latency_ns, tryst_probe_info *info_p,
                            tryst_topo **topo_p)
{
    struct err err = ERR_INIT;
    if (ranks_count < 0 || flows_count < 0)
        return refuse(TRYST_E_INVALID,
                      "cannot fit a topology: ranks_count is %d, flows_count is %d",
                      ranks_count, flows_count);
    if (!names || (!flows && flows_count) || !topo_p)
        return refuse_null("fit a topology", !names    ? "names"
                                             : !topo_p ? "topo_p"
                                                       : "flows");
    struct fit_samples samples = {
        .ranks_count = (uint32_t)ranks_count, .names = names, .latency_ns = latency_ns};
    tryst_status status = params_check_output(info_p, "tryst_probe_info", &err);
    if (status == TRYST_OK)
        status = samples_fit(&samples, flows, flows_count, &err, info_p, topo_p);
    return topo_result(status, &err);
}
