/* SPDX-License-Identifier: Apache-2.0 */
/* Rosters of machines with a given number of ranks and NICs on each. */
#ifndef TRYST_TESTS_CONTEXT_SITES_H
#define TRYST_TESTS_CONTEXT_SITES_H

#include "support/roster.h"
#include "support/unit.h"

enum { SITES_MAX = 1024, SITE_RAILS_MAX = 3 };

struct sites {
    int count, ranks_each;
    bool in_turn;   /**< neighbours in rank are on different machines */
    bool own_rails; /**< each rank of a machine announces only one of its rails */
    bool same_ips;  /**< the machines' rails have the same addresses */
    /** Rates of each machine's rails, up to the first 0; see `unknown`. */
    uint32_t mbit[SITE_RAILS_MAX];
    uint32_t mbit_last; /**< not 0: rate of the only rail of the last machine */
    /** the rails announce no rate: `unknown` on all machines, `unknown_last` on the last
     *  one */
    bool unknown, unknown_last;
};

static inline int sites_ranks(const struct sites *sites)
{
    return sites->count * sites->ranks_each;
}

static inline int site_of(const struct sites *sites, int rank)
{
    return sites->in_turn ? rank % sites->count : rank / sites->ranks_each;
}

static inline void rail_announce(struct host_identity *host, int net, uint8_t number,
                                 uint32_t mbit)
{
    uint8_t number_here = (uint8_t)host->rails_count;
    host->rails[host->rails_count++] =
        (struct rail_address){.family = 4,
                              .interface = number_here,
                              .prefix_bits = 8,
                              .speed_mbit_per_s = mbit,
                              .ip = {10, (uint8_t)(net / 256), (uint8_t)net, number}};
}

static inline void rails_fill(const struct sites *sites, int rank,
                              struct host_identity *host)
{
    int site = site_of(sites, rank), number = rank / sites->count;
    int net = sites->same_ips ? 0 : site;
    bool last = site + 1 == sites->count;
    bool unknown = sites->unknown || (last && sites->unknown_last);
    if (last && sites->mbit_last) {
        rail_announce(host, net, 0, unknown ? 0 : sites->mbit_last);
        return;
    }
    for (int i = 0; i < SITE_RAILS_MAX && sites->mbit[i]; i++)
        if (!sites->own_rails || i == number)
            rail_announce(host, net, (uint8_t)i, unknown ? 0 : sites->mbit[i]);
}

/** Make the roster, which the test closes. Any thread: the memory is not cmocka's. */
static inline void sites_roster(const struct sites *sites, struct roster *roster)
{
    int size = sites_ranks(sites);
    struct roster_entry *entries = calloc((size_t)size, sizeof *entries);
    *roster = (struct roster){.size = size};
    for (int rank = 0; rank < size; rank++) {
        struct host_identity *host = &entries[rank].host;
        snprintf(entries[rank].device_prefix, sizeof entries[rank].device_prefix,
                 "/job:worker/replica:0/task:%d", rank);
        host->host_id = 1 + (uint64_t)site_of(sites, rank);
        host->process_id = 1 + (uint64_t)rank;
        roster->local_size += site_of(sites, rank) == site_of(sites, 0);
        rails_fill(sites, rank, host);
    }
    assert_int_equal(roster_make(roster, entries), TRYST_OK);
    free(entries);
}

#endif
