/* SPDX-License-Identifier: Apache-2.0 */
/** @file roster.h
 *  The roster: what every rank announced about itself, read-only (roster.c).
 *
 *  Idea: with thousands of ranks each keeps some 200 bytes a rank. What the ranks of a
 *  host have in common is kept once, and prefixes at their length.
 */
#ifndef TRYST_RENDEZVOUS_BOOTSTRAP_ROSTER_ROSTER_H
#define TRYST_RENDEZVOUS_BOOTSTRAP_ROSTER_ROSTER_H

#include <stdint.h>

#include "rank_key.h"
#include "transports/select.h"

#define ROSTER_PREFIX_MAX  256
#define ROSTER_DIGESTS_MAX 16

/** The announcement of one rank, sent as these bytes. */
struct roster_entry {
    /** Version of the messages that the ranks will exchange. */
    uint32_t wire_version;
    uint32_t byte_order; /**< 0x01020304 in the sender's byte order */
    uint64_t incarnation;
    uint32_t library_version;
    uint32_t agreed_count;
    /** Values of the settings that must be equal. */
    uint64_t agreed[ROSTER_DIGESTS_MAX];
    char device_prefix[ROSTER_PREFIX_MAX];
    struct host_identity host;
    uint8_t key[RANK_KEY_BYTES]; /**< the open half of the rank's key */
};

/** The values that ranks do not share. */
struct roster_rank {
    uint64_t incarnation;
    uint64_t process_id;
    struct link_address link;
    uint8_t key[RANK_KEY_BYTES]; /**< the open half of the rank's key */
    int32_t pid;
    uint32_t prefix; /**< offset in `text` */
    uint32_t host;   /**< index in `hosts` */
    /** Element i holds the rank with prefix number i in the order of device_name_compare;
     *  not a value of rank i. */
    uint32_t by_prefix;
};

struct roster {
    int rank;
    int size;
    int local_rank;
    int local_size;
    struct roster_rank *ranks;   /**< by rank */
    struct host_identity *hosts; /**< without process_id, pid and link */
    char *text;                  /**< prefixes, each with its terminator */
};

/** Keep the announcements: `entries` by rank, and `by_prefix`, the same entries in the
 *  order of device_name_compare. `roster` has rank and sizes. TRYST_OK, TRYST_E_NOMEM. */
tryst_status roster_keep(struct roster *roster, const struct roster_entry *entries,
                         const struct roster_entry *const *by_prefix);
void roster_close(struct roster *roster);

/** Return the rank with a prefix that covers `device` by whole components; -1: none. */
int roster_rank_of(const struct roster *roster, const char *device, size_t bytes);
/** Return a rank's host, as the rank announced it. */
struct host_identity roster_host(const struct roster *roster, int rank);

static inline const char *roster_prefix(const struct roster *roster, int rank)
{
    return roster->text + roster->ranks[rank].prefix;
}
static inline const char *roster_host_name(const struct roster *roster, int rank)
{
    return roster->hosts[roster->ranks[rank].host].host_name;
}

#endif
