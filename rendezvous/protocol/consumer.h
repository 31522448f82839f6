/* SPDX-License-Identifier: Apache-2.0 */
/** @file consumer.h
 *  The side that receives (consumer.c).
 */
#ifndef RENDEZVOUS_PROTOCOL_CONSUMER_H
#define RENDEZVOUS_PROTOCOL_CONSUMER_H

#include "rendezvous/peer/peer.h"
#include "rendezvous/protocol/wire/wire.h"

void consumer_submit(tryst_op *op);
/** WANTs of receives that wait are queued, as far as there is quota, each with an id and with its first
 *  slices posted. Its endpoint is ready. */
void consumer_announce(struct peer *peer);
/** The ready event of a held receive has passed, or failed (`status`). */
void consumer_released(tryst_op *op, tryst_status status);
/** The bytes of a small receive are on its device, or could not be copied there. */
void consumer_placed(tryst_op *op, tryst_status status);
/** A small tensor as it came. */
struct arrived {
    uint64_t number;
    const void *payload; /**< of a failure: its record_failure */
    int32_t status;      /**< why it has no bytes, or TRYST_OK */
    uint32_t bytes;
    uint8_t dtype;
    const struct flow_shape
        *shape; /**< of a collective's edge; NULL: of an ordinary send */
};
/** It is this receive's: copy, report, answer. */
void consumer_take(tryst_op *op, const struct arrived *arrived);
/** Announce the oldest deferred receives again, in case the producer's step was closed. */
void consumer_tick(struct peer *peer);
void consumer_offer(struct peer *peer, const struct record_offer *offer, const char *key);
void consumer_ended(struct peer *peer, const struct record_answer *answer);
void consumer_fail(tryst_op *op, struct cause cause, const char *text);
void consumer_peer_gone(tryst_op *op);
/** A posted slice is complete. */
void recv_slice_arrived(struct bulk *bulk, tryst_status status, size_t bytes);
/** A receive that waits to hear why its step was aborted now knows. */
void consumer_cause(tryst_op *op, struct cause cause, const char *text);

#endif
