/* SPDX-License-Identifier: Apache-2.0 */
/** @file loss.h
 *  Large packets that are lost on the way between two ranks, while small ones arrive
 *  (loss.c).
 */
#ifndef TRYST_RENDEZVOUS_PEER_LOSS_H
#define TRYST_RENDEZVOUS_PEER_LOSS_H

#include "rendezvous/peer/peer.h"

/** Search for lost packets if nothing has reached the peer for a while; at each tick.
 *  Give the peer up if they have been lost for TRYST_PEER_TIMEOUT. */
void peer_loss_tick(struct peer *peer, uint64_t now_ns);
/** Read a LINK_LOSS message. */
void peer_loss_read(struct peer *peer, const void *data, size_t bytes);
/** Write the sentence about packets between this rank and the peer that are lost, after
 *  `before`. False, and an empty text, if there are none. */
bool peer_loss_text(const struct peer *peer, const char *before, char *text,
                    size_t capacity);

#endif
