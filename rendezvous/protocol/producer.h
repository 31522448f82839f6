/* SPDX-License-Identifier: Apache-2.0 */
/** @file producer.h
 *  The sending side (producer.c).
 */
#ifndef TRYST_RENDEZVOUS_PROTOCOL_PRODUCER_H
#define TRYST_RENDEZVOUS_PROTOCOL_PRODUCER_H

#include "channel.h"
#include "flow.h"
#include "rendezvous/peer/peer.h"
#include "rendezvous/protocol/wire/wire.h"

struct want;

/** True if `op` is a send of a small flow that is not ready. The send has its number and
 *  is in the table. A WANT for it waits beside it, unless the WANT was given up or is of
 *  a different collective. */
static inline bool flow_is_held(const tryst_op *op)
{
    return __builtin_expect(op->flow != NULL, 0) && op->kind == OP_SEND &&
           !op->flow->ready && op->state == OP_POSTED &&
           op->bytes <= op->rdv->set.eager_max_bytes;
}

/** Give the send its number within the key, and release it unless its device event is
 *  pending. True: its DATA leaves ahead of its WANT, and the caller sends it
 *  (peer_send_now) or queues it (records_queue). */
bool producer_submit(tryst_op *op);
/** Give a number to a small send of a flow that is not ready. producer_release follows
 *  when the flow is ready, unless the send ends first. */
void producer_submit_held(tryst_op *op);
/** Send a numbered operation with bytes that are ready: to the WANT that was parked for
 *  it, as DATA, or once a WANT comes. */
void producer_release(tryst_op *op);
/** Handle a WANT. */
void producer_want(struct peer *peer, const struct record_want *want);
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
/** Fail the sends of a step for which no WANT came: the peer has closed the step (after
 *  an abort, if the status is TRYST_E_ABORTED). Does nothing if no send of the step has
 *  waited since the last such answer. */
void producer_step_closed(struct peer *peer, const struct record_answer *closed);
/** Cancel a send, or fail it, with this cause. */
void producer_fail(tryst_op *op, struct cause cause, const char *text);
/** Send the failure of a flow after its DATA. `op` is a new send with the number of that
 *  flow, and ends when the failure is acknowledged. */
void producer_fail_late(tryst_op *op, struct cause cause, const char *text);
/** Drop the failure of a send in a step that is closed here: if its WANT comes, the
 *  answer is CLOSED. The caller then ends the send. */
void producer_failure_drop(tryst_op *op);
/** End a send: its peer is gone. */
void producer_peer_gone(tryst_op *op);

#endif
