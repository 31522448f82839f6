/* SPDX-License-Identifier: Apache-2.0 */
/** @file link.h
 *  A peer's link: connecting, and the messages on it (link.c).
 */
#ifndef TRYST_RENDEZVOUS_PEER_LINK_H
#define TRYST_RENDEZVOUS_PEER_LINK_H

#include "rendezvous/peer/peer.h"

void peer_link_connect(struct peer *peer);
/** Write "no TCP link to 10.0.0.2:4567 for ucx: `text`" into `why`. */
void peer_link_why(const struct peer *peer, const char *text, char why[PEER_TEXT_MAX]);
/** Begin to use a link on which both HELLOs were exchanged:
 *  send clock, aborts and leaves. */
void peer_link_up(struct peer *peer);
void peer_link_close(struct peer *peer);
/** Send the counts of frames if they have changed since the last heartbeat;
 *  peer_heartbeat_answer sends them in any case. */
void peer_heartbeat(struct peer *peer);
void peer_heartbeat_answer(struct peer *peer);
/** Send GAVE_UP with the reason in gone_text to a living peer that was given up here. */
void peer_gave_up_send(struct peer *peer);
/** Send LEAVE: this rank leaves the group. */
void peer_leave(struct peer *peer);
/** True if the peer's kernel has all that was sent, or nothing more can be done about
 *  it. */
bool peer_leave_is_sent(const struct peer *peer);
extern const struct link_events peer_link_events;

#endif
