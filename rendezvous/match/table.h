/* SPDX-License-Identifier: Apache-2.0 */
/** @file table.h
 *  The table of one scope: key entries, where sends and receives meet.
 *
 *  Idea: a key is a FIFO channel of numbered sends and receives. Number i of one side
 *  meets number i of the other, on whichever side the match happens, so nothing depends
 *  on the order of arrival. An entry keeps the next numbers until its step closes; its
 *  queues hold only what is unfinished.
 *
 *  Invariants: an entry is found by hash *and* whole key. A number is in at most one of
 *  sends and wants, and in at most one of recvs and unexpected, except while its
 *  operation here waits for a device.
 *
 *  One owner: the thread that holds the progress lock. The same thread checks a step's
 *  status and queues the operation, so no shard lock is needed (rendezvous/README.md).
 */
#ifndef TRYST_RENDEZVOUS_MATCH_TABLE_H
#define TRYST_RENDEZVOUS_MATCH_TABLE_H

#include "parked.h"
#include "prepared.h"
#include "queue.h"
#include "scopes.h"

struct declared;

struct entry {
    struct hash_node node; /**< in scope->entries, by the table_hash of `key` */
    struct scope *scope;
    tryst_key *key;
    /** References to `key` that entry_key_take has not given out yet. */
    uint32_t keys_ahead;
    /** The number of the next send. In a closed step: a send from this number on may have
     *  ended before it met its WANT. */
    uint64_t send_next;
    uint64_t recv_next;
    /** Producer: the name of `key`, valid if `declared_at` holds it. */
    uint64_t declared;
    const struct declared *declared_at; /**< NULL: no name (names.h) */
    /** Consumer: the name under which the producer declared `key`, or NULL. */
    struct name *name;
    struct queue sends;      /**< sends of this rank: POSTED, VOID; if sparse: INLINE */
    struct queue recvs;      /**< receives of this rank that have not ended */
    struct list wants;       /**< parked receives of the consumer (parked.h) */
    struct queue unexpected; /**< tensors that came before their receive */
    /** The owner of its flows gives the numbers, and may skip some: a number below
     *  `send_next` or `recv_next` may never have been used here. */
    bool is_sparse;
};

/** Return the entry behind `entry`, or the first entry if `entry` is NULL, in no defined
 *  order. NULL: there is none. */
struct entry *entry_next(const struct scope *scope, const struct entry *entry);

/** Free all entries, for scope_free. */
void scope_entries_free(struct scope *scope);

/** Take a reference to the key for an operation. Atomic instructions are slow, so the
 *  entry takes many references at once. */
static inline tryst_key *entry_key_take(struct entry *entry)
{
    enum { AHEAD = 64 };
    if (__builtin_expect(!entry->keys_ahead, 0)) {
        prepared_refs_add(entry->key, AHEAD);
        entry->keys_ahead = AHEAD;
    }
    entry->keys_ahead--;
    return entry->key;
}

/** Return the entry of `key`, which is made if it does not exist. NULL: no memory. */
struct entry *entry_get(struct scope *scope, tryst_key *key);
/** Return the entry of `key`, or NULL. */
struct entry *entry_known(struct scope *scope, const tryst_key *key);
/** Return the entry of a key that came in a record, or NULL. `hash` is hash_keyed of the
 *  key. */
struct entry *entry_find(struct scope *scope, uint64_t hash, const char *key,
                         size_t key_bytes);

/** Return an entry of some key with this hash and the source `src_rank`, or NULL. */
struct entry *entry_hashed(struct scope *scope, uint64_t hash, int32_t src_rank);

/** A key in a record, and the ranks that a valid record's key must have. */
struct record_key {
    uint64_t hash; /**< hash_keyed of `string` */
    const char *string;
    size_t bytes;
    int32_t src_rank, dst_rank;
};
/** Find the key of a record in scopes->keys, or prepare it; `keep`: scopes->keys then
 *  keeps it. Returns TRYST_OK, TRYST_E_KEY, TRYST_E_INCARNATION (this rank is the source,
 *  but another incarnation of it) or TRYST_E_NOMEM. */
tryst_status record_key_open(struct scopes *scopes, const struct roster *roster,
                             const struct record_key *named, bool keep,
                             tryst_key **key_p);
/** Return the entry of a record's key, which is made if it does not exist and `may_make`
 *  is set. NULL: *status_p is as of record_key_open, or TRYST_E_NOMEM where `may_make` is
 *  false. An invalid key makes no entry. */
struct entry *entry_resolve(struct scope *scope, const struct roster *roster,
                            const struct record_key *named, bool may_make,
                            tryst_status *status_p);

#endif
