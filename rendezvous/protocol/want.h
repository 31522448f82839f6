/* SPDX-License-Identifier: Apache-2.0 */
/** @file want.h
 *  A peer's receive (WANT) at its producer: parked until its send is ready, then a
 *  transfer, and last an answer to the peer.
 */
#ifndef TRYST_RENDEZVOUS_PROTOCOL_WANT_H
#define TRYST_RENDEZVOUS_PROTOCOL_WANT_H

#include "channel.h"
#include "commsched/sched/transfer.h"
#include "rendezvous/match/table.h"
#include "rendezvous/protocol/outcome/cause.h"
#include "rendezvous/protocol/wire/wire.h"

struct peer;

struct want {
    struct parked parked;       /**< its entry and number */
    struct list_node peer_node; /**< in channel->in.wants_list */
    struct peer *peer;
    uint64_t id;            /**< the consumer's id */
    uint64_t step;          /**< id of its step */
    struct hash_node by_id; /**< in channel->in.wants, until `id_ended` */
    uint8_t dtype;
    /** RECORD_VOID, _ALLOC, _PRIORITY, _RAISED, _BACKGROUND, _SHAPE, _DEVICE. */
    uint8_t flags;
    bool id_ended; /**< the id has ended and has left channel->in.wants */
    bool early;    /**< counted in channel->in.early_wants */
    /** The send has failed: the answer is queued once the slices from device memory that
     *  are in flight have left. */
    bool answer_due;
    /** RECORD_CANCELED or RECORD_CLOSED, while answer_node is linked. */
    uint8_t answer_type;
    int32_t priority;        /**< the receive's priority; valid with RECORD_PRIORITY */
    struct cause cause;      /**< the cause in the answer, or of RECORD_VOID */
    char *text;              /**< the text of `cause` (peer_text_keep); NULL: none */
    struct flow_shape shape; /**< valid with RECORD_SHAPE */
    struct list_node answer_node; /**< in channel->out.want_answers */
    tryst_op *send;               /**< the send, once matched */
    uint32_t in_flight;           /**< slices handed to the transport and not complete */
    /** Of a flow: `sent` was called for slices [0, reported); UINT32_MAX: a slice was not
     *  sent, so no further call follows. */
    uint32_t reported;
    /** Of a flow: slices in flight, and slices that have left behind one in flight. */
    struct list leaving;
    struct transfer transfer;
};

/** Return the shape of the collective's edge that the receive is part of, or NULL. */
static inline const struct flow_shape *want_flow_shape(const struct want *want)
{
    return want->flags & RECORD_SHAPE ? &want->shape : NULL;
}

/** Return the WANT with this number that is parked in `entry`, or NULL. */
static inline struct want *want_find(const struct entry *entry, uint64_t seq)
{
    struct parked *found = list_empty(&entry->wants) ? NULL : parked_find(entry, seq);
    return found ? container_of(found, struct want, parked) : NULL;
}

/** Return the WANT that this peer announced with `id` and that has not been answered, or
 *  NULL. */
struct want *want_by_id(const struct peer *peer, uint64_t id);
/** End the id: the answer has been packed, or none is needed. */
void want_id_end(struct want *want);
/** Take the WANT out of its entry. */
void want_unpark(struct want *want);
/** Stop counting the WANT in channel->in.early_wants: its step was opened here, or the
 *  WANT leaves the table. */
void want_settle(struct want *want);
/** Take the WANT out of all lists and free it. */
void want_free(struct want *want);
/** Free the WANT unless a send, a slice in flight, a queued answer or its entry still
 *  needs it. */
void want_maybe_free(struct want *want);
/** Queue CANCELED or CLOSED for the WANT, unless it is answered or an answer is queued.
 *  The want itself carries the answer, and a copy of `text`, unless that is NULL or "".
 *  */
void want_answer(struct want *want, uint8_t type, struct cause cause, const char *text);
/** End the id: its queued answer has been packed. */
void want_answered(struct want *want);
/** Set the text of the cause, a copy of `peer_text`. */
void want_text_set(struct want *want, struct wire_text peer_text);

#endif
