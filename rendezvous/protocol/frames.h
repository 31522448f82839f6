/* SPDX-License-Identifier: Apache-2.0 */
/** @file frames.h
 *  The records that are queued for a peer, and the frames that carry them (frames.c). All
 *  in the progress domain.
 */
#ifndef TRYST_RENDEZVOUS_PROTOCOL_FRAMES_H
#define TRYST_RENDEZVOUS_PROTOCOL_FRAMES_H

#include "channel.h"
#include "rendezvous/op/engine.h"

/** Queue the acknowledgements, BLOCKED and ASK that wait for an idle pass. */
void peer_queue_waiting(struct peer *peer);
/** Send the DATA of `op` at once, alone in a frame, if nothing else is queued for the
 *  peer and the peer has read every frame. False: nothing was done. */
bool peer_send_now(tryst_op *op);
/** Post slices and announce receives that have waited, then build and send frames while
 *  records and credit, or a header that is due, are left. Returns the number of
 *  frames. */
int peer_flush(struct peer *peer);
#endif
