/* SPDX-License-Identifier: Apache-2.0 */
/** @file protocol.h
 *  The protocol's share of an operation's and of a peer's life: the functions behind
 *  struct op_events, struct peer_events and the events of bounce buffers.
 */
#ifndef TRYST_RENDEZVOUS_PROTOCOL_PROTOCOL_H
#define TRYST_RENDEZVOUS_PROTOCOL_PROTOCOL_H

#include "rendezvous/peer/peer.h"

extern const struct op_events protocol_op_events;

extern const struct bounce_events protocol_bounce_events;

/** The functions of struct peer_events (peer.h). */
/** Check a frame and act on its records; a malformed frame ends the peer. */
void protocol_peer_frame(struct peer *peer, const void *frame, size_t bytes);
void protocol_peer_tick(struct peer *peer);
void protocol_peer_gone(struct peer *peer);
void protocol_peer_close(struct peer *peer);
void protocol_scope_aborted(struct scope *scope);
/** Answer and free all parked WANTs and unexpected DATA of peers in `scope`, which is
 *  closed or aborted. `type`: CLOSED or CANCELED, for the WANTs. */
void protocol_scope_answer(struct scope *scope, uint8_t type, tryst_status status,
                           int32_t origin_rank);

#endif
