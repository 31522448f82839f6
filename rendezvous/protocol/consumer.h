/* SPDX-License-Identifier: Apache-2.0 */
/** @file consumer.h
 *  The receiving side (consumer.c).
 */
#ifndef TRYST_RENDEZVOUS_PROTOCOL_CONSUMER_H
#define TRYST_RENDEZVOUS_PROTOCOL_CONSUMER_H

#include "channel.h"
#include "rendezvous/protocol/wire/wire_decode.h"

/** Submit a receive: give it its number, then the DATA that has come, or announce it. */
void consumer_submit(tryst_op *op);
/** Give the entry's next receive this number; DATA that has come for skipped ones is
 *  dropped (entry.is_sparse). */
void consumer_skip_to(struct entry *entry, uint64_t number);
/** Assign ids to waiting receives within the WANT quota, post their first slices and
 *  queue their WANTs. Call it only while the endpoint is ready. */
void consumer_announce(struct peer *peer);
/** A small tensor as it came. */
struct arrived {
    uint64_t number;
    const void *payload; /**< the tensor's bytes, or a failed send's record_failure */
    int32_t status;      /**< the status of a failed send, else TRYST_OK */
    uint32_t bytes;
    uint8_t dtype;
    struct wire_text peer_text; /**< with `status`: the text of the failure */
    /** The shape of a collective's edge; NULL: an ordinary send. */
    const struct flow_shape *shape;
};
/** Give the tensor to the receive: copy, report, acknowledge. */
void consumer_deliver(tryst_op *op, const struct arrived *arrived);
/** Announce the most urgent deferred receives again, in case the producer has closed
 *  their step. */
void consumer_tick(struct peer *peer);
/** Handle an OFFER. */
void consumer_offer(struct peer *peer, const struct record_offer *offer);
/** End the id of a receive: CANCELED, CLOSED or DEFERRED has come. */
void consumer_ended(struct peer *peer, const struct record_answer *answer);
struct recv_slice;
/** Handle a borrowed slice that the transport has back: all its bytes count. */
void consumer_slice_returned(struct recv_slice *slice);
/** Cancel a receive, or fail it, with this cause. */
void consumer_fail(tryst_op *op, struct cause cause, const char *text);
/** End a receive: its peer is gone. */
void consumer_peer_gone(tryst_op *op);

#endif
