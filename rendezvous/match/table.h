/* SPDX-License-Identifier: Apache-2.0 */
/** @file table.h
 *  The table of one scope: key entries, where sends and receives meet.
 *
 *  Idea: a key is a FIFO channel of numbered sends and receives. Number i meets number i, on
 *  whichever side the match happens, so nothing depends on the order of arrival. An entry keeps the
 *  next numbers until its step closes; its queues hold only what is unfinished.
 *
 *  Invariants: an entry is found by hash *and* whole key. A number is in at most one of sends/wants
 *  and one of recvs/unexpected, except while its operation here waits for a device.
 *
 *  One owner: the progressing thread. There is no shard lock to hold while a status is checked,
 *  because checking and queueing happen in the same thread (rendezvous/README.md).
 */
#ifndef RENDEZVOUS_MATCH_TABLE_H
#define RENDEZVOUS_MATCH_TABLE_H

#include "prepared.h"
#include "queue.h"
#include "scopes.h"

struct declared;

struct entry {
    struct hash_node node; /**< scope->entries, by the hash of its key */
    struct scope *scope;
    tryst_key *key;
    uint64_t
        send_next; /**< closed: from this number on a send may have ended that its peer has not met */
    uint64_t recv_next;
    uint64_t declared; /**< as producer: the name of its key, if `declared_at` has it */
    const struct declared *declared_at; /**< or NULL (names.h) */
    struct name
        *name; /**< as consumer: the name by which its producer knows it, or NULL */
    struct queue sends;      /**< operations: POSTED or VOID */
    struct queue recvs;      /**< operations: every receive that has not ended */
    struct queue wants;      /**< receives of its consumer, parked */
    struct queue unexpected; /**< tensors that came before their receive */
};

/** The one behind `entry` (NULL: the first) of all entries, in no order; or NULL. */
struct entry *entry_next(const struct scope *scope, const struct entry *entry);

/** Part of scope_free. */
void scope_entries_free(struct scope *scope);

/** The entry of `key`, made if need be. NULL: no memory. */
struct entry *entry_get(struct scope *scope, tryst_key *key);
/** The entry of `key`, or NULL. */
struct entry *entry_known(struct scope *scope, const tryst_key *key);
/** The entry of a key that came in a record, or NULL. */
struct entry *entry_find(struct scope *scope, uint64_t hash, const char *key,
                         size_t key_bytes);

/** An entry of a key with this hash whose source is `src_rank`, or NULL. */
struct entry *entry_hashed(struct scope *scope, uint64_t hash, int32_t src_rank);

/** A key as a record names it, and the ranks that it must name for the record to be right. */
struct record_key {
    uint64_t hash;
    const char *string;
    size_t bytes;
    int32_t src_rank, dst_rank;
};
/** Prepare such a key, or find it among scopes->keys; `keep`: the table keeps it for later.
 *  TRYST_OK, TRYST_E_KEY, TRYST_E_INCARNATION (this rank is the source, in another life), TRYST_E_NOMEM. */
tryst_status record_key_open(struct scopes *scopes, const struct roster *roster,
                             const struct record_key *named, bool keep,
                             tryst_key **key_p);
/** The entry of such a key, made if need be and if `may_make`. NULL with *status_p: as record_key_open
 *  (TRYST_E_NOMEM also where it may not be made). What is wrong leaves no entry behind. */
struct entry *entry_take(struct scope *scope, const struct roster *roster,
                         const struct record_key *named, bool may_make,
                         tryst_status *status_p);

#endif
