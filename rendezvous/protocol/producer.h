/* SPDX-License-Identifier: Apache-2.0 */
/** @file producer.h
 *  The sending side (producer.c).
 */
#ifndef TRYST_RENDEZVOUS_PROTOCOL_PRODUCER_H
#define TRYST_RENDEZVOUS_PROTOCOL_PRODUCER_H

#include "channel.h"
#include "rendezvous/peer/peer.h"
#include "rendezvous/protocol/wire/wire.h"

struct want;

/** Give the send its number within the key, and release it unless its device event is
 *  pending. */
void producer_submit(tryst_op *op);
/** Give a number to a small send of a flow that is not ready. producer_release follows
 *  when the flow is ready, unless the send ends first. */
void producer_submit_held(tryst_op *op);
/** Send a numbered operation with bytes that are ready: to the WANT that was parked for
 *  it, as DATA, or once a WANT comes. */
void producer_release(tryst_op *op);
/** Handle a WANT with its key. */
void producer_want(struct peer *peer, const struct record_want *want, const char *key);
/** Handle a CANCEL of a WANT. */
void producer_cancel(struct peer *peer, const struct record_answer *cancel);
/** Raise the send of a peer's receive, which has become more urgent. */
void producer_raise(struct peer *peer, const struct record_answer *raise);
/** Handle DONE, or KEPT, for the DATA with this number. */
void producer_data_done(struct peer *peer, const struct record_answer *done);
void producer_data_kept(struct peer *peer, uint64_t number);
/** Handle CANCELED of a DATA: the consumer has dropped its bytes, and its receive, if one
 *  comes, ends with the cause of the CANCEL. */
void producer_data_canceled(struct peer *peer, uint64_t number);
/** End a send: a header has acknowledged its DATA. */
void producer_acked(struct stream_send *send);
/** Do the work of producer_unblock, where sends wait. */
void producer_unblock_some(struct peer *peer);
/** Send the small tensors and the failures of flows that wait for eager credit, as far as
 *  there is credit. */
static inline void producer_unblock(struct peer *peer)
{
    if (!urgent_empty(&peer_out(peer)->blocked_sends))
        producer_unblock_some(peer);
}
/** Cancel a send, or fail it, with this cause. */
void producer_fail(tryst_op *op, struct cause cause, const char *text);
/** Drop the failure of a send in a step that is closed here: if its WANT comes, the
 *  answer is CLOSED. The caller then ends the send. */
void producer_failure_drop(tryst_op *op);
/** Continue a held send: its device is ready for it, or has failed with `status`. */
void producer_released(tryst_op *op, tryst_status status);
/** Queue the DATA of a small device send: its bytes are in the slot, or the copy failed
 *  with `status`. */
void producer_fetched(tryst_op *op, tryst_status status);
/** End a send: its peer is gone. */
void producer_peer_gone(tryst_op *op);
/** Free all WANTs and unexpected DATA of a peer that is gone or closed. */
void producer_wants_drop(struct peer *peer);
/** End the id of `want`: its answer has been packed. */
void producer_want_answered(struct want *want);
/** Answer and free all parked WANTs and unexpected DATA of peers in `scope`, which is
 *  closed or aborted. `type`: CLOSED or CANCELED, for the WANTs. */
void producer_scope_answer(struct scope *scope, uint8_t type, tryst_status status,
                           int32_t origin_rank);

#endif
