/* SPDX-License-Identifier: Apache-2.0 */
/** @file keys.h
 *  The most recently used keys, prepared: a key that comes again is neither parsed nor
 *  allocated.
 *
 *  Idea: a job uses the same keys in every step. Strings of callers and keys in records
 *  both pass through one table per engine, so all uses of a key share one object, and
 *  most comparisons of keys end at the pointer. The table holds the newest KEYS_MAX keys,
 *  and replaces the oldest first.
 *
 *  Size: a first in, first out table always misses once a step uses more keys than the
 *  table holds. KEYS_MAX is four times a step of 1,000 tensors. The table has 24 bytes
 *  for each place, allocated at first use, and each key in it 64 bytes and the string:
 *  0.7 MiB with strings of 100 bytes.
 *
 *  Any thread: one lock, held during a search.
 */
#ifndef TRYST_RENDEZVOUS_MATCH_KEYS_H
#define TRYST_RENDEZVOUS_MATCH_KEYS_H

#include <pthread.h>

#include "core/memory/hash_table.h"
#include "prepared.h"

/** The keys that the table holds; a power of two. */
#define KEYS_MAX 4096u

struct key_place;

struct keys {
    pthread_mutex_t lock; /**< guards the fields below */
    struct hash_table index;
    struct key_place *places; /**< KEYS_MAX places; NULL: no key yet, or no memory */
    uint32_t next;            /**< the place to fill next */
};

void keys_init(struct keys *keys);
/** Drop all keys: their ranks are those of a group that is being closed. References of
 *  other holders stay valid. */
void keys_forget(struct keys *keys);
/** Drop all keys and destroy the lock. References of other holders stay valid. */
void keys_close(struct keys *keys);

/** Return a reference to the key with this string, or NULL. `hash` is hash_keyed of the
 *  string. */
tryst_key *keys_find(struct keys *keys, const char *string, size_t bytes, uint64_t hash);
/** Keep a reference to a key that was not found, if there is memory for the table. */
void keys_keep(struct keys *keys, tryst_key *key);
/** Find the key of a caller's string, or prepare and keep it (prepared_open). Returns
 *  TRYST_OK, TRYST_E_KEY or TRYST_E_NOMEM. */
tryst_status keys_get(struct keys *keys, const struct roster *roster, const char *string,
                      size_t bytes, struct err *err, tryst_key **key_p);

#endif
