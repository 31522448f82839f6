/* SPDX-License-Identifier: Apache-2.0 */
/** @file ofi_posted.h
 *  The receives that a peer has announced: tag → room. */
#ifndef TRYST_TRANSPORTS_OFI_OFI_POSTED_H
#define TRYST_TRANSPORTS_OFI_OFI_POSTED_H

#include <stdbool.h>
#include <stdint.h>

#include "transports/module.h"

/** Most receives that may be posted per endpoint. */
enum { OFI_POSTED_MAX = 256 };

/** A receive that the peer has posted for this side. */
struct ofi_posted {
    uint64_t tag;
    uint64_t room; /**< bytes that the receive takes */
    uint32_t next; /**< index + 1 of the next entry in the same chain; 0: none */
};

enum { OFI_BUCKETS = 128 };

struct ofi_posted_table {
    uint32_t buckets[OFI_BUCKETS]; /**< index + 1 into entries; 0: empty */
    /** Entries used so far; index + 1 of the first free one among them, or 0; size of
     *  `entries`. */
    uint32_t count, free, capacity;
    struct ofi_posted *entries;
};

/** Add an entry. TRYST_OK, TRYST_E_NOMEM, TRYST_E_PROTOCOL (OFI_POSTED_MAX are there). */
tryst_status ofi_posted_add(const struct tryst_host *host, struct ofi_posted_table *table,
                            uint64_t tag, uint64_t room);
/** Remove the entry with `tag` and get its room. False: there is none. */
bool ofi_posted_remove(struct ofi_posted_table *table, uint64_t tag, uint64_t *room_p);
void ofi_posted_free(const struct tryst_host *host, struct ofi_posted_table *table);

#endif
