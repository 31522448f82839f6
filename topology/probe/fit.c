/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From cuts to a graph; see fit.h.
 *
 * The nested groups are a tree of switches under one root; rank i's wire goes to the
 * smallest group that holds the rank. Latencies are distributed over the tree's wires by
 * non-negative least squares (SIRT: Gilbert 1972).
 */
#include "fit.h"

#include <stdio.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "fit_cuts.h"

enum { LATENCY_ROUNDS = 300 };

/* The mesh must explain this part of all flows more than the groups do: a wire for each
 * pair explains more flows by chance. */
static const double MESH_BETTER = 0.05;

#define BIT(rank) (UINT64_C(1) << (rank))

/* ---- checks ------------------------------------------------------------------------ */

static tryst_status round_check(const struct fit_samples *samples, uint32_t r,
                                bool *measured, struct err *err)
{
    uint32_t n = samples->ranks_count;
    for (uint32_t f = 0; f < samples->rounds[r].count; f++) {
        const struct fit_flow *flow = &samples->rounds[r].flows[f];
        if (flow->from >= n || flow->to >= n || flow->from == flow->to)
            return err_set(err, TRYST_E_INVALID,
                           "cannot fit a graph to a probe: round %u has a flow from rank "
                           "%u to rank %u of %u ranks",
                           r, flow->from, flow->to, n);
        if (!(flow->bytes_per_s > 0) || isinf(flow->bytes_per_s))
            return err_set(
                err, TRYST_E_INVALID,
                "cannot fit a graph to a probe: no data from %s to %s in round %u; "
                "check that no firewall blocks it",
                samples->names[flow->from], samples->names[flow->to], r);
        measured[flow->from * n + flow->to] = true;
    }
    return TRYST_OK;
}

static tryst_status samples_check(const struct fit_samples *samples, struct err *err)
{
    uint32_t n = samples->ranks_count;
    tryst_status status = TRYST_OK;
    if (n < 2 || n > FIT_RANKS_MAX)
        return err_set(err, TRYST_E_INVALID, "cannot probe %u ranks (2 to %d)", n,
                       FIT_RANKS_MAX);
    bool *measured = mem_zalloc_array((size_t)n * n, sizeof *measured);
    if (!measured)
        return TRYST_E_NOMEM;
    for (uint32_t r = 0; r < samples->rounds_count && status == TRYST_OK; r++)
        status = round_check(samples, r, measured, err);
    for (uint32_t i = 0; i < n && status == TRYST_OK; i++)
        for (uint32_t j = 0; j < n && status == TRYST_OK; j++)
            if (i != j && !measured[i * n + j])
                status =
                    err_set(err, TRYST_E_INVALID,
                            "cannot fit a graph to a probe: no round measured %s to %s",
                            samples->names[i], samples->names[j]);
    mem_free(measured);
    return status;
}

/* ---- latencies over a tree --------------------------------------------------------- */

/* True if the wire is on the path from i to j. Wires 0 … n - 1 are the ranks', then come
 * the groups'. */
static bool wire_on_path(const struct fit_cuts *cuts, uint32_t n, uint32_t wire,
                         uint32_t i, uint32_t j)
{
    uint64_t set = wire < n ? BIT(wire) : cuts->groups[wire - n];
    return !(set & BIT(i)) != !(set & BIT(j));
}

/* Make one step: each path distributes its residual equally over its wires, and each wire
 * adds the mean of its paths' parts. Starting from 0 this converges to the solution of
 * least norm: wires that no path distinguishes share equally. */
static void wires_step(const struct fit_samples *samples, const struct fit_cuts *cuts,
                       double *wires, uint32_t count)
{
    uint32_t n = samples->ranks_count;
    double gift[2 * FIT_RANKS_MAX] = {0};
    uint32_t paths[2 * FIT_RANKS_MAX] = {0};
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++) {
            double left = i == j ? GRAPH_UNKNOWN : samples->latency_ns[i * n + j];
            uint32_t length = 0;
            if (left < 0)
                continue;
            for (uint32_t w = 0; w < count; w++)
                if (wire_on_path(cuts, n, w, i, j)) {
                    left -= wires[w];
                    length++;
                }
            for (uint32_t w = 0; w < count; w++)
                if (wire_on_path(cuts, n, w, i, j)) {
                    gift[w] += left / length;
                    paths[w]++;
                }
        }
    for (uint32_t w = 0; w < count; w++)
        wires[w] = paths[w] ? fmax(0, wires[w] + gift[w] / paths[w]) : GRAPH_UNKNOWN;
}

static void latencies_share(const struct fit_samples *samples,
                            const struct fit_cuts *cuts, double *wires)
{
    uint32_t count = samples->ranks_count + cuts->groups_count;
    for (uint32_t w = 0; w < count; w++)
        wires[w] = samples->latency_ns ? 0 : GRAPH_UNKNOWN;
    for (uint32_t round = 0; round < LATENCY_ROUNDS && samples->latency_ns; round++)
        wires_step(samples, cuts, wires, count);
}

/* ---- the graph --------------------------------------------------------------------- */

static tryst_status ranks_add(const struct fit_samples *samples, struct graph *graph,
                              struct err *err)
{
    for (uint32_t rank = 0; rank < samples->ranks_count; rank++) {
        const struct graph_node node = {.name = samples->names[rank],
                                        .kind = NODE_RANK,
                                        .parent = GRAPH_NONE,
                                        .os_index = GRAPH_NONE};
        uint32_t at;
        tryst_status status = graph_node_add(graph, &node, err, &at);
        if (status != TRYST_OK)
            return status;
    }
    return TRYST_OK;
}

/* Add a switch named net<number>, with "+" appended while a node has that name. */
static tryst_status switch_add(struct graph *graph, uint32_t number, struct err *err,
                               uint32_t *node_p)
{
    char name[64];
    snprintf(name, sizeof name, "net%u", number);
    while (graph_find(graph, name) != GRAPH_NONE && strlen(name) + 2 < sizeof name)
        strcat(name, "+");
    const struct graph_node node = {
        .name = name, .kind = NODE_SWITCH, .parent = GRAPH_NONE, .os_index = GRAPH_NONE};
    return graph_node_add(graph, &node, err, node_p);
}

static tryst_status half_add(struct graph *graph, uint32_t from, uint32_t to,
                             double bytes_per_s, double latency_ns, struct err *err)
{
    uint32_t at;
    struct graph_link link = {.from = from,
                              .to = to,
                              .bytes_per_s = {bytes_per_s, ORIGIN_MEASURED},
                              .latency_ns = {latency_ns, ORIGIN_MEASURED}};
    if (latency_ns < 0)
        link.latency_ns = (struct graph_number){GRAPH_UNKNOWN, ORIGIN_NONE};
    return graph_link_add(graph, &link, err, &at);
}

/* Add both directions of the wire between `node`, below which are the ranks of `set`, and
 * `above`. */
static tryst_status wire_add(const struct fit_samples *samples, struct graph *graph,
                             uint64_t set, uint32_t node, uint32_t above,
                             double latency_ns, struct err *err)
{
    uint32_t n = samples->ranks_count;
    uint64_t all = fit_all(n);
    double up, down;
    tryst_status status = fit_usual(samples, set, &up);
    if (status == TRYST_OK)
        status = fit_usual(samples, all & ~set, &down);
    if (status == TRYST_OK)
        status = half_add(graph, node, above, up, latency_ns, err);
    if (status == TRYST_OK)
        status = half_add(graph, above, node, down, latency_ns, err);
    return status;
}

/* Return the number of the smallest group that contains `set` and differs from it;
 * groups_count: the root. */
static uint32_t group_above(const struct fit_cuts *cuts, uint64_t set)
{
    uint32_t best = cuts->groups_count;
    for (uint32_t g = 0; g < cuts->groups_count; g++) {
        uint64_t group = cuts->groups[g];
        if (group == set || (group & set) != set)
            continue;
        if (best == cuts->groups_count ||
            __builtin_popcountll(group) < __builtin_popcountll(cuts->groups[best]))
            best = g;
    }
    return best;
}

static tryst_status tree_build(const struct fit_samples *samples,
                               const struct fit_cuts *cuts, struct graph *graph,
                               struct err *err)
{
    uint32_t n = samples->ranks_count, root = cuts->groups_count;
    uint32_t nodes[FIT_RANKS_MAX + 1] = {0};
    double wires[2 * FIT_RANKS_MAX] = {0};
    tryst_status status = switch_add(graph, 0, err, &nodes[root]);
    for (uint32_t g = 0; g < root && status == TRYST_OK; g++)
        status = switch_add(graph, g + 1, err, &nodes[g]);
    latencies_share(samples, cuts, wires);
    for (uint32_t rank = 0; rank < n && status == TRYST_OK; rank++)
        status = wire_add(samples, graph, BIT(rank), rank,
                          nodes[group_above(cuts, BIT(rank))], wires[rank], err);
    for (uint32_t g = 0; g < root && status == TRYST_OK; g++)
        status = wire_add(samples, graph, cuts->groups[g], nodes[g],
                          nodes[group_above(cuts, cuts->groups[g])], wires[n + g], err);
    return status;
}

/* Find the node where the wires of `rank` begin: the rank itself, or a port (a switch) if
 * the rank cannot fill all wires at once. */
static tryst_status port_add(const struct fit_samples *samples, struct graph *graph,
                             uint32_t rank, struct err *err, uint32_t *port_p)
{
    uint32_t n = samples->ranks_count;
    uint64_t all = fit_all(n);
    double out = 0, in = 0;
    for (uint32_t other = 0; other < n; other++) {
        out += other == rank ? 0 : fit_pair_capacity(samples, rank, other);
        in += other == rank ? 0 : fit_pair_capacity(samples, other, rank);
    }
    *port_p = rank;
    if (fit_capacity(samples, BIT(rank)) >= FIT_FULL * out &&
        fit_capacity(samples, all & ~BIT(rank)) >= FIT_FULL * in)
        return TRYST_OK;
    tryst_status status = switch_add(graph, rank, err, port_p);
    if (status == TRYST_OK)
        status = wire_add(samples, graph, BIT(rank), rank, *port_p, GRAPH_UNKNOWN, err);
    return status;
}

/* Add a wire for each ordered pair. */
static tryst_status mesh_build(const struct fit_samples *samples, struct graph *graph,
                               struct err *err)
{
    uint32_t n = samples->ranks_count, ports[FIT_RANKS_MAX];
    tryst_status status = TRYST_OK;
    for (uint32_t rank = 0; rank < n && status == TRYST_OK; rank++)
        status = port_add(samples, graph, rank, err, &ports[rank]);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n && status == TRYST_OK; j++) {
            double latency =
                samples->latency_ns ? samples->latency_ns[i * n + j] : GRAPH_UNKNOWN;
            if (i != j)
                status = half_add(graph, ports[i], ports[j],
                                  fit_pair_usual(samples, i, j), latency, err);
        }
    return status;
}

tryst_status graph_fit(const struct fit_samples *samples, struct err *err,
                       struct fit_report *report_p, struct graph **graph_p)
{
    struct fit_report report = {.groups = 0};
    struct fit_cuts cuts;
    struct graph *graph = NULL;
    uint32_t by_mesh = 0;
    tryst_status status = samples_check(samples, err);
    if (status == TRYST_OK)
        status = fit_cuts_find(samples, &cuts);
    if (status == TRYST_OK)
        status = fit_mesh_explains(samples, &by_mesh);
    if (status == TRYST_OK)
        status = graph_open(&graph);
    if (status != TRYST_OK)
        return status;
    for (uint32_t r = 0; r < samples->rounds_count; r++)
        report.flows += samples->rounds[r].count;
    report.mesh = by_mesh > cuts.explained + MESH_BETTER * report.flows;
    report.groups = report.mesh ? 0 : cuts.groups_count;
    report.explained = report.mesh ? by_mesh : cuts.explained;
    status = ranks_add(samples, graph, err);
    if (status == TRYST_OK)
        status = report.mesh ? mesh_build(samples, graph, err)
                             : tree_build(samples, &cuts, graph, err);
    if (status == TRYST_OK)
        status = graph_seal(graph, err);
    if (status != TRYST_OK) {
        graph_close(graph);
        return status;
    }
    *report_p = report;
    *graph_p = graph;
    return TRYST_OK;
}
