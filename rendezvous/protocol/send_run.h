/* SPDX-License-Identifier: Apache-2.0 */
/** @file send_run.h
 *  The slices of one send after its WANT has come: the scheduler starts them one by one
 *  (transfer_start), the transport sends them, the consumer acknowledges
 *  them.
 *
 *  Invariant: the send ends when its last slice has left the transport, and not before
 *  the consumer has acknowledged all slices, or an answer reports how many were started.
 *
 *  All in the progress domain.
 */
#ifndef TRYST_RENDEZVOUS_PROTOCOL_SEND_RUN_H
#define TRYST_RENDEZVOUS_PROTOCOL_SEND_RUN_H

#include "channel.h"
#include "flow.h"
#include "rendezvous/protocol/wire/wire.h"

/** The size of the record of one slice in flight, for its pool. */
extern const size_t send_slice_bytes;

/** Start slice transfer->next (sched_params.start). */
tryst_status transfer_start(struct transfer *transfer);
/** Match the send with its WANT and add the transfer to the scheduler. */
void send_run_begin(struct want *want, tryst_op *op);
/** Copy the flow's ready count to the transfer of the send, which has met its WANT. */
void send_run_ready(tryst_op *op);
/** Note that the transport no longer reads slice `index` of a flow. */
static inline void send_slice_left(const tryst_op *op, uint32_t index)
{
    struct flow *flow = op->flow;
    if (flow && op->fail == TRYST_OK && flow->ops->sent)
        flow->ops->sent(flow, index);
}
/** Handle a DONE, for the want that it names. */
void send_run_done(struct peer *peer, const struct record_answer *done);
/** Fail the send: start no further slice, and end with `cause` once the slices in flight
 *  have left. */
void send_run_fail(tryst_op *op, struct cause cause, const char *text);
/** Return why the next slice of this operation does not start. HOLD_NONE also for an
 *  operation that is not a send with its WANT. HOLD_BEHIND: `*before_p` goes first; else
 *  it is NULL. */
enum transfer_hold send_run_held_by(const tryst_op *op, const tryst_op **before_p);
/** Remove the transfer from the scheduler, and release the window of its started slices;
 *  a second call does nothing. */
void send_run_forget(struct want *want);
/** True if this slice, which has started, is still to be sent: its send is not
 *  failing. */
bool send_run_slice_wanted(const struct bulk *bulk);

#endif
