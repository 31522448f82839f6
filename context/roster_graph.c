/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph of a roster's machines (roster_graph.h).
 *
 * Idea: the roster holds each identity once (`hosts`); identities with one host id are
 * one machine, which the builder of topology/machine adds to the graph. Machines are
 * numbered in the order of `hosts`, so all ranks build the same graph.
 */
#include "roster_graph.h"

#include <stdio.h>
#include <string.h>

#include "core/memory/arrays.h"
#include "rendezvous/bootstrap/roster/roster.h"
#include "topology/base/graph.h"
#include "topology/machine/machine_build.h"
#include "topology/sized/compiled_make.h"
#include "topology/sized/sum_rate.h"

#define BYTES_PER_MBIT (1000000 / 8)

struct site {
    uint32_t host;  /* index of the machine's first identity in roster->hosts */
    uint32_t ranks; /* ranks on the machine */
    uint32_t node;  /* the machine's node in the graph */
    uint64_t mbit_per_s;
    bool known; /* the rate of each rail is known */
};

struct making {
    struct arrays arrays; /* memory of the arrays below */
    const struct roster *roster;
    uint32_t hosts_count, sites_count;
    uint32_t *site_of; /* index in `sites`, by index in roster->hosts */
    struct site *sites;
    uint32_t least_mbit_per_s; /* the least known rate of a rail; 0: none is known */
    struct graph *graph;
    struct err *err;
};

/* ---- machines ---------------------------------------------------------------------- */

/* Return the site with the id of `host`; sites_count: there is none yet. */
static uint32_t site_find(const struct making *making, uint32_t host)
{
    const struct host_identity *hosts = making->roster->hosts;
    uint32_t s = 0;
    while (s < making->sites_count &&
           !identity_same_host(&hosts[making->sites[s].host], &hosts[host]))
        s++;
    return s;
}

static void sites_find(struct making *making)
{
    const struct roster *roster = making->roster;
    for (uint32_t h = 0; h < making->hosts_count; h++) {
        uint32_t s = making->site_of[h] = site_find(making, h);
        if (s == making->sites_count)
            making->sites[making->sites_count++] = (struct site){.host = h};
    }
    for (int rank = 0; rank < roster->size; rank++)
        making->sites[making->site_of[roster->ranks[rank].host]].ranks++;
}

/* ---- rates of NICs ----------------------------------------------------------------- */

static void least_find(struct making *making)
{
    for (uint32_t h = 0; h < making->hosts_count; h++) {
        const struct host_identity *host = &making->roster->hosts[h];
        for (uint32_t i = 0; i < host->rails_count; i++) {
            uint32_t mbit = host->rails[i].speed_mbit_per_s;
            if (mbit && (!making->least_mbit_per_s || mbit < making->least_mbit_per_s))
                making->least_mbit_per_s = mbit;
        }
    }
}

/* True if rail `i` is the first one of its interface: an interface with two addresses
 * counts once. */
static bool interface_is_new(const struct host_identity *host, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++)
        if (host->rails[k].interface == host->rails[i].interface)
            return false;
    return true;
}

static bool rail_same(const struct rail_address *a, const struct rail_address *b)
{
    return a->family == b->family && memcmp(a->ip, b->ip, sizeof a->ip) == 0;
}

/* True if an earlier identity of the same machine announced `rail`. */
static bool rail_counted(const struct making *making, uint32_t host,
                         const struct rail_address *rail)
{
    uint32_t first = making->sites[making->site_of[host]].host;
    for (uint32_t h = first; h < host; h++) {
        const struct host_identity *other = &making->roster->hosts[h];
        for (uint32_t i = 0;
             making->site_of[h] == making->site_of[host] && i < other->rails_count; i++)
            if (rail_same(&other->rails[i], rail))
                return true;
    }
    return false;
}

static void rail_add(const struct making *making, struct site *site,
                     uint32_t speed_mbit_per_s)
{
    uint32_t unknown = making->least_mbit_per_s
                           ? making->least_mbit_per_s
                           : (uint32_t)(COMPILED_RATE_ASSUMED / BYTES_PER_MBIT);
    site->mbit_per_s += speed_mbit_per_s ? speed_mbit_per_s : unknown;
    site->known = site->known && speed_mbit_per_s;
}

static void rates_find(struct making *making)
{
    least_find(making);
    for (uint32_t s = 0; s < making->sites_count; s++)
        making->sites[s].known = true;
    for (uint32_t h = 0; h < making->hosts_count; h++) {
        const struct host_identity *host = &making->roster->hosts[h];
        for (uint32_t i = 0; i < host->rails_count; i++)
            if (interface_is_new(host, i) && !rail_counted(making, h, &host->rails[i]))
                rail_add(making, &making->sites[making->site_of[h]],
                         host->rails[i].speed_mbit_per_s);
    }
    for (uint32_t s = 0; s < making->sites_count; s++)
        if (!making->sites[s].mbit_per_s) /* no rail was announced */
            rail_add(making, &making->sites[s], 0);
}

/* True if links between all ranks are alike, as far as the roster shows. */
static bool all_alike(const struct making *making)
{
    const struct site *sites = making->sites;
    for (uint32_t s = 0; making->sites_count > 1 && s < making->sites_count; s++)
        if (sites[s].ranks > 1 || sites[s].mbit_per_s != sites[0].mbit_per_s)
            return false;
    return true;
}

/* ---- graph ------------------------------------------------------------------------- */

static const struct graph_number unknown = MACHINE_UNKNOWN;

static tryst_status site_build(struct making *making, uint32_t s, uint32_t network)
{
    struct site *site = &making->sites[s];
    struct machine machine = MACHINE_INIT;
    char name[32], prefix[32];
    snprintf(name, sizeof name, "machine%u", s);
    snprintf(prefix, sizeof prefix, "machine%u/", s);
    const struct machine_build build = {.prefix = prefix, .network = network};
    struct machine_port *port = machine_port_add(&machine);
    tryst_status status = port ? TRYST_OK : TRYST_E_NOMEM;
    if (port) {
        port->name = "nic";
        port->kind = WIRE_ETHERNET;
        port->bytes_per_s =
            (struct graph_number){(double)site->mbit_per_s * BYTES_PER_MBIT,
                                  site->known ? ORIGIN_DETECTED : ORIGIN_NONE};
        port->latency_ns = unknown;
        status = machine_build(making->graph, &machine, &build, making->err);
    }
    site->node = graph_find(making->graph, name);
    machine_drop(&machine);
    return status;
}

static tryst_status rank_build(struct making *making, uint32_t rank)
{
    const struct site *site =
        &making->sites[making->site_of[making->roster->ranks[rank].host]];
    char name[32];
    snprintf(name, sizeof name, "rank%u", rank);
    struct graph_node node = {
        .name = name, .kind = NODE_RANK, .parent = site->node, .os_index = GRAPH_NONE};
    struct graph_link link = {.to = site->node,
                              .kind = WIRE_MEMORY,
                              .bytes_per_s = {SUM_CORE_BYTES_PER_S, ORIGIN_TABLE},
                              .latency_ns = unknown};
    if (site->ranks == 1)
        return machine_rank_add(making->graph, site->node, making->err);
    tryst_status status = graph_node_add(making->graph, &node, making->err, &link.from);
    return status ? status : graph_wire_add(making->graph, &link, making->err);
}

static tryst_status graph_build(struct making *making)
{
    const struct graph_node network = {.name = "switch",
                                       .kind = NODE_SWITCH,
                                       .parent = GRAPH_NONE,
                                       .os_index = GRAPH_NONE};
    uint32_t node;
    tryst_status status = graph_open(&making->graph);
    if (!status)
        status = graph_node_add(making->graph, &network, making->err, &node);
    for (uint32_t s = 0; !status && s < making->sites_count; s++)
        status = site_build(making, s, node);
    for (int rank = 0; !status && rank < making->roster->size; rank++)
        status = rank_build(making, (uint32_t)rank);
    return status ? status : graph_seal(making->graph, making->err);
}

/* ---- open -------------------------------------------------------------------------- */

static tryst_status making_init(struct making *making)
{
    const struct roster *roster = making->roster;
    for (int rank = 0; rank < roster->size; rank++)
        if (roster->ranks[rank].host >= making->hosts_count)
            making->hosts_count = roster->ranks[rank].host + 1;
    making->site_of =
        arrays_alloc(&making->arrays, making->hosts_count, sizeof *making->site_of);
    making->sites =
        arrays_alloc(&making->arrays, making->hosts_count, sizeof *making->sites);
    return making->arrays.status;
}

tryst_status roster_graph_open(const struct roster *roster, struct err *err,
                               struct roster_graph *graph_p)
{
    struct making making = {.roster = roster, .err = err};
    tryst_status status = making_init(&making);
    bool alike = true;
    if (!status) {
        sites_find(&making);
        rates_find(&making);
        alike = roster->size > ROSTER_GRAPH_RANKS_MAX || all_alike(&making);
    }
    if (!status && !alike)
        status = graph_build(&making);
    arrays_free(&making.arrays);
    if (status) {
        graph_close(making.graph);
        return status == TRYST_E_NOMEM
                   ? err_set(err, status,
                             "cannot plan collectives for %d ranks: out of memory",
                             roster->size)
                   : status;
    }
    *graph_p = (struct roster_graph){making.graph, making.least_mbit_per_s == 0,
                                     making.sites_count == (uint32_t)roster->size};
    return TRYST_OK;
}
