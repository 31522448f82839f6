/* SPDX-License-Identifier: Apache-2.0 */
/** @file prepared.h
 *  Keys by their ranks, and a prepared key: parsed, resolved to ranks and hashed once; counted references.
 *
 *  Operations, table entries and the caller's handle share one object, so a hot loop copies and
 *  parses nothing. Immutable after its making; references from any thread.
 */
#ifndef RENDEZVOUS_MATCH_PREPARED_H
#define RENDEZVOUS_MATCH_PREPARED_H

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
    uint16_t edge; /**< where the edge name begins in `string` */
    uint64_t src_incarnation;
    uint64_t hash; /**< XXH3-64 of the string; never 0 */
    char string[]; /**< terminated */
};

/** An edge name that begins with this is the library's: users' calls refuse it (tryst/key.h). */
#define KEY_RESERVED '~'

/** tryst_key_build, with the roster of its group; the library's edges too. */
tryst_status key_build(const struct roster *roster, int src_rank, int dst_rank,
                       const char *edge, uint64_t frame, uint64_t iter, char *key,
                       size_t capacity);

/** True if the edge of `key` is the library's. */
static inline bool key_is_reserved(const tryst_key *key)
{
    return key->string[key->edge] == KEY_RESERVED;
}

/** The hash of a key's string; never 0. */
uint64_t prepared_hash(const char *string, size_t bytes);

/** Parse `string` (`bytes` long, terminated or not) and resolve it in `roster`. `err` (may be NULL) receives
 *  the sentence of a failure.
 *  TRYST_OK, TRYST_E_KEY, TRYST_E_NOMEM. */
tryst_status prepared_open(const struct roster *roster, const char *string, size_t bytes,
                           struct err *err, tryst_key **key_p);
tryst_key *prepared_ref(tryst_key *key);
void prepared_unref(tryst_key *key);

#endif
