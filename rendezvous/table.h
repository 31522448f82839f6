/* SPDX-License-Identifier: Apache-2.0 */
/** @file table.h
 *  The rendezvous table: scopes (steps) of key entries, where sends and receives meet.
 *
 *  Idea: a key is a FIFO channel of numbered sends and receives. Number i meets number i, on
 *  whichever side the match happens, so nothing depends on the order of arrival. An entry keeps the
 *  next numbers until its step closes; its queues hold only what is unfinished.
 *
 *  Invariants: an entry is found by hash *and* whole key. `sends`, `recvs`, `wants` and `early`
 *  ascend in seq. A number is in at most one of sends/wants and one of recvs/early, except while
 *  its operation here waits for a device (op_device.h).
 *
 *  One owner: the progressing thread. There is no shard lock to hold while a status is checked,
 *  because checking and queueing happen in the same thread (rendezvous/README.md).
 */
#ifndef RENDEZVOUS_TABLE_H
#define RENDEZVOUS_TABLE_H

#include "core/list.h"
#include "rendezvous/op.h"
#include "rendezvous/transfer.h"

/** DATA that came before its receive; holds the sender's eager credit. */
struct early {
    struct list_node node; /**< entry->early */
    struct list_node peer_node;
    struct peer *peer;
    struct entry *entry;
    uint64_t seq;
    uint64_t number; /**< in the producer's stream */
    uint8_t dtype;
    bool given_back; /**< to its producer: the receive of its number gets none of it */
    int32_t status;  /**< why it has no bytes, or TRYST_OK */
    uint32_t bytes;
    _Alignas(8) uint8_t payload[];
};

/** A peer's receive, parked here until its tensor is ready; then a transfer. */
struct want {
    struct list_node node;      /**< entry->wants while parked */
    struct list_node peer_node; /**< peer->wants_list */
    struct peer *peer;
    struct entry *entry;
    uint64_t id; /**< the consumer's */
    uint64_t seq;
    uint8_t dtype;
    uint8_t flags; /**< RECORD_VOID, RECORD_ALLOC, RECORD_PRIORITY */
    uint8_t rail;
    bool answered; /**< its id has ended: out of peer->wants */
    bool early;    /**< counted in peer->early_wants */
    bool
        unanswered; /**< its send has failed, and slices of a device are still on their way */
    uint8_t answer; /**< RECORD_CANCELED or RECORD_CLOSED, while answer_node is linked */
    int32_t status; /**< why, for the answer and for VOID */
    int32_t origin_rank;
    struct list_node answer_node; /**< peer->want_answers */
    tryst_op *send;               /**< once matched */
    uint32_t in_flight;           /**< slices handed to the transport and not complete */
    struct transfer transfer;
};

struct entry {
    struct entry *next; /**< bucket chain */
    struct scope *scope;
    tryst_key *key;
    uint64_t send_next;
    uint64_t recv_next;
    uint64_t told; /**< as producer: the name that was declared for it last; 0: none */
    struct name
        *name; /**< as consumer: the name by which its producer knows it, or NULL */
    struct list sends; /**< tryst_op: POSTED or VOID */
    struct list recvs; /**< tryst_op: every receive that has not ended; and recv_cursor */
    struct list_node recv_cursor; /**< before the receive that was looked for last */
    struct list wants;            /**< struct want: parked */
    struct list early;            /**< struct early */
};

enum scope_state { SCOPE_EARLY, SCOPE_OPEN, SCOPE_CLOSING };

struct scope {
    struct list_node node;       /**< rdv->scopes */
    struct list_node early_node; /**< rdv->scopes_early */
    struct list_node reap_node;  /**< rdv->scopes_reap */
    struct scope *next;          /**< bucket chain of the index */
    struct rendezvous *rdv;
    tryst_step *step; /**< NULL while early, and again once closed */
    uint64_t id;
    uint8_t state;
    struct entry **buckets;
    size_t buckets_count; /**< power of two */
    size_t entries_count;
    struct list ops;    /**< unfinished operations, oldest first */
    struct list warned; /**< the same, after they were warned about */
    bool sends_wait;    /**< a send has waited in it for its WANT */
    tryst_op *close_op; /**< OP_STEP_CLOSE, while closing */
    uint64_t *askers;   /**< bit per rank: it asked whether the step is closed; or NULL */
    struct peer *aborted_by; /**< early: who told us; counted in its early_aborts */
    /* Why it was aborted; status TRYST_OK while it was not. */
    int32_t abort_status;
    int32_t abort_rank;
    uint64_t abort_time_ns;
    char abort_text[256];
};

/** Steps by id (scopes.c). */
enum { SCOPES_FIRST = 64 };
struct scope_index {
    struct scope **buckets;
    size_t buckets_count; /**< power of two */
    size_t count;
    struct scope *first[SCOPES_FIRST];
};

/** Aborted steps, not open here yet, that one peer may tell us of. Each costs a struct scope and its first buckets. */
enum { EARLY_ABORTS_MAX = 1 << 16 };

void scopes_init(struct rendezvous *rdv);
/** All are freed already. */
void scopes_close(struct rendezvous *rdv);

/** Not in the index yet (scope_add). */
tryst_status scope_open(struct rendezvous *rdv, uint64_t id, struct scope **scope_p);
void scope_add(struct scope *scope);
/** No operation is left. Frees entries, parked wants and early data. */
void scope_free(struct scope *scope);
/** A scope, in the index, for what a peer says of a step that is not open here yet; the caller
 *  bounds that. NULL: no memory. */
struct scope *scope_open_early(struct rendezvous *rdv, uint64_t id);
/** Nothing was put into an early scope after all? Then it goes. */
void scope_drop_early(struct scope *scope);
/** EARLY, then OPEN, then CLOSING; a state may be left out. */
void scope_state_set(struct scope *scope, enum scope_state state);
/** NULL when there is none. */
struct scope *scope_find(struct rendezvous *rdv, uint64_t id);
/** Whether `id` was opened and closed here (or skipped). */
bool scope_is_closed(const struct rendezvous *rdv, uint64_t id);
/** It is closing, and may have come to an end: looked at when the pass ends. */
void scope_reap_later(struct scope *scope);
/** Part of scope_free. */
void scope_entries_free(struct scope *scope);

/** The entry of `key`, made if need be. NULL: no memory. */
struct entry *entry_get(struct scope *scope, tryst_key *key);
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
/** The entry of such a key, made if need be and if `may_make`. NULL with *status_p: TRYST_E_KEY,
 *  TRYST_E_INCARNATION (this rank is the source, in another life), TRYST_E_NOMEM (also where it
 *  may not be made). What is wrong leaves no entry behind. */
struct entry *entry_take(struct scope *scope, const struct record_key *named,
                         bool may_make, tryst_status *status_p);

tryst_op *entry_send_find(struct entry *entry, uint64_t seq);
tryst_op *entry_recv_find(struct entry *entry, uint64_t seq);
struct want *entry_want_find(struct entry *entry, uint64_t seq);
struct early *entry_early_find(struct entry *entry, uint64_t seq);
void entry_want_insert(struct entry *entry, struct want *want);
void entry_early_insert(struct entry *entry, struct early *early);
void entry_send_insert(struct entry *entry, tryst_op *op);

/** Take it out of its entry. */
void want_unpark(struct want *want);
void want_free(struct want *want);
/** Unless something still needs it: its send, a slice under way, an answer to pack, a send to come. */
void want_maybe_free(struct want *want);
/** The WANT ends with CANCELED or CLOSED; the want itself carries the answer. */
void want_answer(struct want *want, uint8_t type, tryst_status status,
                 int32_t origin_rank);
void early_free(struct early *early);

#endif
