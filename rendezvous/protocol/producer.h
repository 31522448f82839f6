/* SPDX-License-Identifier: Apache-2.0 */
/** @file producer.h
 *  The side that sends (producer.c).
 */
#ifndef RENDEZVOUS_PROTOCOL_PRODUCER_H
#define RENDEZVOUS_PROTOCOL_PRODUCER_H

#include "rendezvous/peer/peer.h"
#include "rendezvous/protocol/wire/wire.h"

struct want;

void producer_submit(tryst_op *op);
/** A small send of a flow that is not ready: it takes its number; producer_submit follows. */
void producer_submit_held(tryst_op *op);
void producer_want(struct peer *peer, const struct record_want *want, const char *key);
void producer_cancel(struct peer *peer, const struct record_answer *cancel);
/** A receive of the peer has become more urgent. */
void producer_raise(struct peer *peer, const struct record_answer *raise);
/** Records about a DATA, by its number. */
void producer_data_done(struct peer *peer, const struct record_answer *done);
void producer_data_kept(struct peer *peer, uint64_t number);
/** The consumer has dropped this DATA's bytes; its receive, if one comes, ends as cancelled. */
void producer_data_canceled(struct peer *peer, uint64_t number);
/** A header says that this DATA is done. */
void producer_acked(struct stream_send *send);
/** Part of producer_unblock. */
void producer_unblock_some(struct peer *peer);
/** Eager credit may have come back: small sends that waited for it leave. */
static inline void producer_unblock(struct peer *peer)
{
    if (!urgent_empty(&peer->out.blocked_sends))
        producer_unblock_some(peer);
}
/** Cancel a send, or fail it with `status`. */
void producer_fail(tryst_op *op, struct cause cause, const char *text);
/** Drop the failure of a send: in a step that is closed here its WANT, if one comes, is answered CLOSED. The send ends
 *  next. */
void producer_failure_drop(tryst_op *op);
/** The ready event of a held send has passed, or failed (`status`). */
void producer_released(tryst_op *op, tryst_status status);
/** The bytes of a small send on a device are in its slot, or cannot be had. */
void producer_fetched(tryst_op *op, tryst_status status);
/** The peer is gone: drop its wants, end the send. */
void producer_peer_gone(tryst_op *op);
void producer_wants_drop(struct peer *peer);
/** The answer of `want` has been packed. */
void producer_want_answered(struct want *want);
/** Answer and drop all that peers have parked in `scope` (closed or aborted). */
void producer_scope_answer(struct scope *scope, uint8_t type, tryst_status status,
                           int32_t origin_rank);

#endif
