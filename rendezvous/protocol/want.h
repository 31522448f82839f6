/* SPDX-License-Identifier: Apache-2.0 */
/** @file want.h
 *  A peer's receive (WANT) at its producer: parked until its tensor is ready, then a transfer, and last
 *  the answer that the peer is to have.
 */
#ifndef RENDEZVOUS_WANT_H
#define RENDEZVOUS_WANT_H

#include "rendezvous/match/table.h"
#include "rendezvous/op/transfer.h"
#include "rendezvous/protocol/outcome/cause.h"
#include "rendezvous/protocol/wire/wire.h"

struct peer;

struct want {
    struct queue_node queued;   /**< in entry->wants while parked */
    struct list_node peer_node; /**< peer->wants_list */
    struct peer *peer;
    struct entry *entry;
    uint64_t id;            /**< the consumer's */
    struct hash_node by_id; /**< peer->in.wants, until `answered` */
    uint8_t dtype;
    uint8_t flags; /**< RECORD_VOID, RECORD_ALLOC, RECORD_PRIORITY, RECORD_BACKGROUND */
    uint8_t rail;
    bool answered; /**< its id has ended: out of peer->wants */
    bool early;    /**< counted in peer->early_wants */
    bool
        unanswered; /**< its send has failed, and slices of a device are still on their way */
    uint8_t answer; /**< RECORD_CANCELED or RECORD_CLOSED, while answer_node is linked */
    int32_t priority;        /**< of its receive, where `flags` say that it has one */
    struct cause cause;      /**< why, for the answer and for VOID */
    struct flow_shape shape; /**< with RECORD_SHAPE */
    struct list_node answer_node; /**< peer->want_answers */
    tryst_op *send;               /**< once matched */
    uint32_t in_flight;           /**< slices handed to the transport and not complete */
    uint32_t reported; /**< of a flow: `sent` was called for slices [0, reported) */
    struct list
        leaving; /**< of a flow: slices in flight, and sent slices behind one of them */
    struct transfer transfer;
};

/** The shape of the collective's edge that the receive is part of, or NULL. */
static inline const struct flow_shape *want_flow_shape(const struct want *want)
{
    return want->flags & RECORD_SHAPE ? &want->shape : NULL;
}

/** The one with this number that is parked in `entry`, or NULL. */
static inline struct want *want_find(struct entry *entry, uint64_t seq)
{
    struct queue_node *found = queue_find(&entry->wants, seq);
    return found ? container_of(found, struct want, queued) : NULL;
}

/** The one that this peer knows by `id` and that has not been answered, or NULL. */
struct want *want_by_id(const struct peer *peer, uint64_t id);
/** Its answer leaves: the id means nothing any more. */
void want_id_end(struct want *want);
/** Take it out of its entry. */
void want_unpark(struct want *want);
/** Its step was opened: it no longer counts against the peer's bound for steps that were not. */
void want_settle(struct want *want);
void want_free(struct want *want);
/** Unless something still needs it: its send, a slice under way, an answer to pack, a send to come. */
void want_maybe_free(struct want *want);
/** The WANT ends with CANCELED or CLOSED; the want itself carries the answer. */
void want_answer(struct want *want, uint8_t type, struct cause cause);

#endif
