/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machines of a roster (roster_machines.h).
 *
 * Idea: the roster holds each identity once (`hosts`); identities with one host id are
 * one machine. Machines are numbered in the order of `hosts`, so all ranks find the same
 * machines.
 */
#include "roster_machines.h"

#include <string.h>

#include "collectives/plan/compiled.h"
#include "core/text/hash.h"
#include "rendezvous/bootstrap/roster/roster.h"

#define BYTES_PER_MBIT (1000000 / 8)

struct site {
    uint32_t host;  /* index of the machine's first identity in roster->hosts */
    uint32_t ranks; /* ranks on the machine */
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

static void least_speed_find(struct making *making)
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
    least_speed_find(making);
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

/* ---- find -------------------------------------------------------------------------- */

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

static tryst_status cluster_fill(const struct making *making,
                                 struct roster_machines *machines)
{
    uint32_t ranks_count = (uint32_t)making->roster->size, count = making->sites_count;
    struct planner_machine *list = arrays_alloc(&machines->arrays, count, sizeof *list);
    uint32_t *machine_of =
        arrays_alloc(&machines->arrays, ranks_count, sizeof *machine_of);
    for (uint32_t s = 0; list && s < count; s++) {
        const struct site *site = &making->sites[s];
        list[s] =
            (struct planner_machine){.bytes_per_s = site->mbit_per_s * BYTES_PER_MBIT,
                                     .ranks = site->ranks,
                                     .rate_known = site->known};
    }
    for (uint32_t rank = 0; machine_of && rank < ranks_count; rank++)
        machine_of[rank] = making->site_of[making->roster->ranks[rank].host];
    machines->cluster = (struct planner_cluster){.machines = list,
                                                 .machine_of = machine_of,
                                                 .machines_count = count,
                                                 .ranks_count = ranks_count};
    return machines->arrays.status;
}

tryst_status roster_machines_find(const struct roster *roster, struct err *err,
                                  struct roster_machines *machines_p)
{
    struct making making = {.roster = roster};
    struct roster_machines machines = {.alike = true};
    tryst_status status = making_init(&making);
    if (status == TRYST_OK) {
        sites_find(&making);
        rates_find(&making);
        machines.alike = roster->size > ROSTER_MACHINES_RANKS_MAX || all_alike(&making);
        machines.rates_assumed = making.least_mbit_per_s == 0;
        machines.apart = making.sites_count == (uint32_t)roster->size;
        status = cluster_fill(&making, &machines);
    }
    arrays_free(&making.arrays);
    if (status == TRYST_OK) {
        *machines_p = machines;
        return status;
    }
    roster_machines_drop(&machines);
    return err_set(err, status, "cannot plan collectives for %d ranks: out of memory",
                   roster->size);
}

void roster_machines_drop(struct roster_machines *machines)
{
    arrays_free(&machines->arrays);
}

uint64_t roster_machines_digest(const struct roster_machines *machines)
{
    const struct planner_cluster *cluster = &machines->cluster;
    const uint64_t parts[] = {
        hash_bytes(cluster->machines,
                   cluster->machines_count * sizeof *cluster->machines),
        hash_bytes(cluster->machine_of,
                   cluster->ranks_count * sizeof *cluster->machine_of)};
    return hash_bytes(parts, sizeof parts);
}
