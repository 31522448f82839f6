/* SPDX-License-Identifier: Apache-2.0 */
/** @file keys.h
 *  The keys that were used last, prepared: a key that comes again is neither parsed nor allocated.
 *
 *  Idea: a job uses the same keys in every step. Strings of callers and keys in records both pass through
 *  one table per engine, so all uses of a key share one object, and most comparisons of keys end at the
 *  pointer. The table holds the newest KEYS_MAX keys, and replaces the oldest first.
 *
 *  Size: first in, first out misses always once a step uses more keys than the table has. KEYS_MAX is four
 *  times a step of 1,000 tensors; 24 bytes each, allocated at first use, and 64 bytes and the string for each
 *  key that is in it: 0.7 MiB with strings of 100 bytes.
 *
 *  Any thread: one lock, held for a search.
 */
#ifndef RENDEZVOUS_MATCH_KEYS_H
#define RENDEZVOUS_MATCH_KEYS_H

#include <pthread.h>

#include "core/memory/hash_table.h"
#include "prepared.h"

/** A power of two. */
#define KEYS_MAX 4096u

struct key_place;

struct keys {
    pthread_mutex_t lock; /**< guards all below it */
    struct hash_table index;
    struct key_place *places; /**< KEYS_MAX; NULL until there was a key and memory */
    uint32_t next;            /**< the place that is filled next */
};

void keys_init(struct keys *keys);
/** Drop all keys: the ranks in them are those of a group, which is being closed. References that others hold stay
 *  valid. */
void keys_forget(struct keys *keys);
/** References that others hold stay valid. */
void keys_close(struct keys *keys);

/** Return a reference to the key with this string, or NULL. `hash`: of the string, as a peer reports it, or 0:
 *  it is computed. */
tryst_key *keys_find(struct keys *keys, const char *string, size_t bytes, uint64_t hash);
/** Keep a reference to a key that was not found, if there is memory for the table. */
void keys_keep(struct keys *keys, tryst_key *key);
/** As prepared_open, for a caller's string: find the key, or prepare and keep it.
 *  TRYST_OK, TRYST_E_KEY, TRYST_E_NOMEM. */
tryst_status keys_get(struct keys *keys, const struct roster *roster, const char *string,
                      size_t bytes, struct err *err, tryst_key **key_p);

#endif
