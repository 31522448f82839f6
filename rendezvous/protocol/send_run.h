/* SPDX-License-Identifier: Apache-2.0 */
/** @file send_run.h
 *  The slices of one send whose WANT has come: started one by one by the dispatch (transfer_start,
 *  transfer.h), sent by the transport, acknowledged by the consumer.
 *
 *  Invariant: the send ends when its last slice has left the transport, and not before the consumer has
 *  acknowledged all, or the consumer has been told how many were started.
 *
 *  All in the progress domain.
 */
#ifndef RENDEZVOUS_SEND_RUN_H
#define RENDEZVOUS_SEND_RUN_H

#include "rendezvous/peer/peer.h"
#include "rendezvous/protocol/wire/wire.h"

/** Of one slice under way, for the pool that they come from. */
extern const size_t send_slice_bytes;

/** The send meets its WANT and goes to the dispatch. */
void send_run_begin(struct want *want, tryst_op *op);
/** DONE has come for the want that it names. */
void send_run_done(struct peer *peer, const struct record_answer *done);
/** No slice starts any more; the send ends with `status` once those under way have left. */
void send_run_fail(tryst_op *op, struct cause cause, const char *text);
/** Why does the next slice of this operation not leave? HOLD_NONE too where it is no send that has its
 *  WANT. HOLD_BEHIND: `*before_p`, else NULL, has its turn before. */
enum transfer_hold send_run_held_by(const tryst_op *op, const tryst_op **before_p);
/** It leaves the dispatch, with the window of what was started; a second time changes nothing. */
void send_run_forget(struct want *want);
/** Is this slice still to leave, which was started? */
bool send_run_slice_wanted(const struct bulk *bulk);

#endif
