/* SPDX-License-Identifier: Apache-2.0 */
/** @file endpoint.h
 *  A peer's endpoint, and the events of the transports (endpoint.c).
 */
#ifndef TRYST_RENDEZVOUS_PEER_ENDPOINT_H
#define TRYST_RENDEZVOUS_PEER_ENDPOINT_H

#include "rendezvous/peer/peer.h"

void peer_ep_open(struct peer *peer, int candidate);
void peer_ep_message(struct peer *peer, uint32_t candidate, const void *data,
                     size_t bytes, int fd);
void peer_ep_refused(struct peer *peer, uint32_t candidate, const char *text,
                     size_t bytes);
/** Continue after the start of transport `kind`'s rail at NIC `nic` has ended: open the
 *  endpoint if it waits for that rail, or go on to the next candidate. */
void peer_ep_rail_opened(struct peer *peer, int kind, uint32_t nic, tryst_status status,
                         const char *text);
/** Send EP_STARTING if the endpoint is STARTING, so that the peer does not count the
 *  time. */
void peer_ep_starting_send(struct peer *peer);
/** Send EP_OPEN and clear `answered`: time counts once the peer has replied. */
void peer_ep_open_send(struct peer *peer);
/** Check an endpoint that is not ready, after `passed_ns` more in which both ranks made
 *  passes. */
void peer_ep_tick(struct peer *peer, uint64_t passed_ns);
/** Give up a living peer for which no candidate works. */
void peer_ep_unreached(struct peer *peer);
/** Give up the peer because its data path broke: after a grace (SUSPICION_LOST), so that
 *  LEAVE or the end of its link may give a better reason; at once if the link is not up.
 *  No effect if the peer is being given up or the next candidate follows. `text`, the
 *  reason, is read after "rank 3 "; NULL: not known. */
void peer_ep_lost(struct peer *peer, const char *text);
/** Describe a connection that is not there yet: "; dialling 10.0.0.2:4567 (TRYST_NET
 *  names the interfaces to use)", "; ucx on eth0 connects (…)"; else "". */
enum { PEER_REACH_TEXT_BYTES = 160 };
void peer_reach_text(const struct peer *peer, char text[PEER_REACH_TEXT_BYTES]);
/** Close the endpoint, open the next candidate, or finish giving up, at the end of a
 *  pass. */
void peer_ep_reap(struct peer *peer);
extern const struct rail_events peer_rail_events;

#endif
