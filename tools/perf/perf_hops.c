/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the bound of preempt --op allreduce; see perf_hops.h.
 *
 * Idea: a slice that leaves a host waits for the windows of all edges that leave this
 * host through the same port; the port sends them at its rate. A route of one link is a
 * separate wire and shares no port. */
#include "perf_hops.h"

#include <math.h>
#include <stdlib.h>
#include <tryst/topo.h>

static double window_of(const struct perf_rank *rank, int peer)
{
    tryst_peer_info info = {.struct_size = sizeof info, .window_bytes = 0};
    tryst_group_peer(rank->group, peer, &info);
    return (double)info.window_bytes;
}

/* Fill this rank's row from the routes of `topo`. The rate of the host's port is that of
 * its fastest route. */
static void routes_fill(const struct perf_rank *rank, const tryst_topo *topo,
                        const double *moved, struct perf_hops *hops)
{
    double *row = hops->wait_s + (size_t)rank->rank * (size_t)hops->ranks;
    double port_bytes = 0, port_rate = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int to = 0; to < hops->ranks; to++) {
            tryst_route_info route = {.struct_size = sizeof route};
            if (to == rank->rank ||
                tryst_topo_route(topo, rank->rank, to, &route) != TRYST_OK ||
                isinf(route.bytes_per_s))
                continue;
            bool is_wire = route.hops == 1;
            double window = moved[to] > 0 ? window_of(rank, to) : 0;
            if (pass == 1)
                row[to] = is_wire ? window / route.bytes_per_s : port_bytes / port_rate;
            if (pass == 1 || is_wire)
                continue;
            port_rate = route.bytes_per_s > port_rate ? route.bytes_per_s : port_rate;
            port_bytes += window;
        }
    }
}

/* Fill this rank's row without a topology: the bytes a second that the background moved
 * are the host's rate. */
static void measured_fill(const struct perf_rank *rank, const double *moved,
                          struct perf_hops *hops)
{
    double *row = hops->wait_s + (size_t)rank->rank * (size_t)hops->ranks;
    double bytes = 0, rate = 0;
    for (int to = 0; to < hops->ranks; to++) {
        bytes += moved[to] > 0 ? window_of(rank, to) : 0;
        rate += moved[to];
    }
    for (int to = 0; to < hops->ranks; to++)
        row[to] = to != rank->rank && rate > 0 ? bytes / rate : 0;
}

tryst_status perf_hops_fill(const struct perf_rank *rank, const double *moved,
                            struct perf_hops *hops)
{
    const char *path = getenv("TRYST_TOPOLOGY");
    tryst_topo *topo;
    hops->is_measured = !path || !*path;
    if (hops->is_measured) {
        measured_fill(rank, moved, hops);
        return TRYST_OK;
    }
    tryst_status status = tryst_topo_load(path, &topo);
    if (status != TRYST_OK)
        return perf_fail(rank, "load the file of TRYST_TOPOLOGY", status,
                         tryst_last_error());
    routes_fill(rank, topo, moved, hops);
    tryst_topo_close(topo);
    return TRYST_OK;
}

/* Add up the waits on the path from `leaf` to the root, or from the root to `leaf`. */
static double path_wait(const struct perf_hops *hops, const int32_t *parents, int leaf,
                        bool is_up)
{
    double seconds = 0;
    for (int at = leaf; parents[at] >= 0; at = parents[at]) {
        int from = is_up ? at : parents[at], to = is_up ? parents[at] : at;
        seconds += hops->wait_s[from * hops->ranks + to];
    }
    return seconds;
}

tryst_status perf_hops_longest(const struct perf_rank *rank,
                               const tryst_coll_params *params,
                               const struct perf_hops *hops, double *seconds_p)
{
    tryst_coll_info info = {.struct_size = sizeof info};
    int32_t *parents = calloc((size_t)hops->ranks, sizeof *parents);
    tryst_status status =
        parents ? tryst_coll_estimate(rank->group, params, &info) : TRYST_E_NOMEM;
    *seconds_p = 0;
    for (uint32_t half = 0; half < 2 * info.trees && status == TRYST_OK; half++) {
        bool is_up = half % 2;
        status = tryst_coll_tree(rank->group, params, half / 2, is_up, parents);
        for (int leaf = 0; leaf < hops->ranks && status == TRYST_OK; leaf++)
            *seconds_p = fmax(*seconds_p, path_wait(hops, parents, leaf, is_up));
    }
    free(parents);
    return status == TRYST_OK ? status
                              : perf_fail(rank, "read the trees of the plan", status,
                                          tryst_last_error());
}
