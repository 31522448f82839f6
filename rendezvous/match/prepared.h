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
    uint64_t src_incarnation;
    uint64_t hash; /**< XXH3-64 of the string; never 0 */
    char string[]; /**< terminated */
};

/** tryst_key_build, with the roster of its group. */
tryst_status key_build(const struct roster *roster, int src_rank, int dst_rank,
                       const char *edge, uint64_t frame, uint64_t iter, char *key,
                       size_t capacity);

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
