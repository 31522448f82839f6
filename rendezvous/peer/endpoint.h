/* SPDX-License-Identifier: Apache-2.0 */
/** @file endpoint.h
 *  A peer's endpoint, and the events of the transports (endpoint.c).
 */
#ifndef RENDEZVOUS_PEER_ENDPOINT_H
#define RENDEZVOUS_PEER_ENDPOINT_H

#include "rendezvous/peer/peer.h"

void peer_ep_open(struct peer *peer, int candidate);
void peer_ep_message(struct peer *peer, uint32_t candidate, const void *data,
                     size_t bytes, int fd);
void peer_ep_refused(struct peer *peer, uint32_t candidate, const char *text,
                     size_t bytes);
/** The start of transport `kind`'s rails has ended: open an endpoint that waits for them, or go on. */
void peer_ep_rails_opened(struct peer *peer, int kind, tryst_status status,
                          const char *text);
/** While STARTING, inform the peer, which then does not count the time. */
void peer_ep_starting_send(struct peer *peer);
/** Ask the peer whether it looks (`answered`); that it does is what makes time count. */
void peer_ep_ask(struct peer *peer);
/** Housekeeping: an endpoint that does not become ready, after `passed_ns` more in which both ranks
 *  looked. */
void peer_ep_tick(struct peer *peer, uint64_t passed_ns);
/** No candidate works, and the peer lives: give it up. */
void peer_ep_unreached(struct peer *peer);
/** The data path to the peer broke, for the reason in `text`, which is read behind "rank 3 " (NULL: not known):
 *  the peer is given up, unless its LEAVE or the end of its link comes first. */
void peer_ep_lost(struct peer *peer, const char *text);
/** End of a pass: close, reopen or finish giving up. */
void peer_ep_reap(struct peer *peer);
extern const struct rail_events peer_rail_events;

#endif
