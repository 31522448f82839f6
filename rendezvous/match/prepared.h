/* SPDX-License-Identifier: Apache-2.0 */
/** @file prepared.h
 *  Prepared keys: parsed, resolved to ranks and hashed once, with counted references; and
 *  the builder of keys from ranks.
 *
 *  Operations, table entries and the caller's handle share one object, so a hot loop
 *  copies and parses nothing. A prepared key never changes; any thread may take and drop
 *  references.
 */
#ifndef TRYST_RENDEZVOUS_MATCH_PREPARED_H
#define TRYST_RENDEZVOUS_MATCH_PREPARED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tryst/key.h"

struct err;
struct roster;

struct tryst_key {
    _Atomic(uint32_t) refs;
    int32_t src_rank;
    int32_t dst_rank;
    uint16_t bytes;
    uint16_t edge; /**< offset of the edge name in `string` */
    uint64_t src_incarnation;
    uint64_t hash; /**< XXH3-64 of the string, as other processes know it; never 0 */
    uint64_t table_hash; /**< hash_keyed of the string, for tables of this process */
    char string[];       /**< NUL-terminated */
};

/** The first character of the library's own edge names; calls of users refuse it
 *  (tryst/key.h). */
#define KEY_RESERVED '~'

/** Build a key as tryst_key_build does, with the roster of its group; the library's own
 *  edges are allowed. */
tryst_status key_build(const struct roster *roster, int src_rank, int dst_rank,
                       const char *edge, uint64_t frame, uint64_t iter, char *key,
                       size_t capacity);

/** True if the edge of `key` is one of the library's own. */
static inline bool key_is_reserved(const tryst_key *key)
{
    return key->string[key->edge] == KEY_RESERVED;
}

/** Parse `string` (`bytes` long, terminated or not) and resolve its devices in `roster`.
 *  `err` (may be NULL) receives the text of a failure. Returns TRYST_OK, TRYST_E_KEY or
 *  TRYST_E_NOMEM. */
tryst_status prepared_open(const struct roster *roster, const char *string, size_t bytes,
                           struct err *err, tryst_key **key_p);
/** Take, or drop, `count` references at once. Any thread. */
void prepared_refs_add(tryst_key *key, uint32_t count);
void prepared_refs_drop(tryst_key *key, uint32_t count);
tryst_key *prepared_ref(tryst_key *key);
void prepared_unref(tryst_key *key);

#endif
