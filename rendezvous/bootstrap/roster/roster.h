/* SPDX-License-Identifier: Apache-2.0 */
/** @file roster.h
 *  Who is where: what every rank announced at the bootstrap, checked once, then read-only.
 */
#ifndef RENDEZVOUS_ROSTER_H
#define RENDEZVOUS_ROSTER_H

#include <stdint.h>

#include "core/config.h"
#include "core/err.h"
#include "transports/select.h"

struct bootstrap;

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

struct roster {
    int rank;
    int size;
    int local_rank;
    int local_size;
    struct roster_entry *entries;          /**< by rank */
    const struct roster_entry **by_prefix; /**< the same by device_name_compare */
};

/** Gather all entries and check that they fit: versions, byte order, settings, prefixes.
 *  `mine` holds what config does not: wire version, prefix, incarnation, host. With size 1 `bootstrap` is
 *  NULL. TRYST_OK, TRYST_E_HANDSHAKE, TRYST_E_GROUP, TRYST_E_NOMEM, or what the bootstrap says. */
tryst_status roster_open(struct bootstrap *bootstrap, int rank, int size,
                         const struct config *config, struct roster_entry *mine,
                         struct err *err, struct roster *roster_p);
void roster_close(struct roster *roster);

/** The rank whose prefix covers `device` by whole path components, or -1. */
int roster_rank_of(const struct roster *roster, const char *device, size_t bytes);

#endif
