/* SPDX-License-Identifier: Apache-2.0 */
/** @file roster.h
 *  Who is where: what every rank announced, read-only (roster.c).
 *
 *  Idea: of thousands of ranks each keeps some 150 bytes a rank: what the ranks of a host have in common is kept
 *  once, and prefixes as long as they are.
 */
#ifndef RENDEZVOUS_ROSTER_H
#define RENDEZVOUS_ROSTER_H

#include <stdint.h>

#include "transports/select.h"

#define ROSTER_PREFIX_MAX  256
#define ROSTER_DIGESTS_MAX 16

/** What one rank announces; it travels as it is. */
struct roster_entry {
    uint32_t wire_version; /**< of the messages that the ranks will exchange */
    uint32_t byte_order;   /**< 0x01020304 as the sender stores it */
    uint64_t incarnation;
    uint32_t library_version;
    uint32_t agreed_count;
    uint64_t agreed[ROSTER_DIGESTS_MAX]; /**< values of the settings that must be equal */
    char device_prefix[ROSTER_PREFIX_MAX];
    struct host_identity host;
};

/** What is one rank's own. */
struct roster_rank {
    uint64_t incarnation;
    uint64_t process_id;
    struct link_address link;
    int32_t pid;
    uint32_t prefix; /**< where it begins in `text` */
    uint32_t host;   /**< which of `hosts` */
    uint32_t
        by_prefix; /**< nobody's own: of element i, the rank whose prefix is number i */
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

/** Keep what was announced: `entries` by rank, and the same by device_name_compare. `roster` has rank and
 *  sizes. TRYST_OK, TRYST_E_NOMEM. */
tryst_status roster_keep(struct roster *roster, const struct roster_entry *entries,
                         const struct roster_entry *const *by_prefix);
void roster_close(struct roster *roster);

/** The rank whose prefix covers `device` by whole path components, or -1. */
int roster_rank_of(const struct roster *roster, const char *device, size_t bytes);
/** As it was announced. */
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
