/* SPDX-License-Identifier: Apache-2.0 */
/** @file link.h
 *  A peer's link: connecting, and the messages on it (link.c).
 */
#ifndef TRYST_RENDEZVOUS_PEER_LINK_H
#define TRYST_RENDEZVOUS_PEER_LINK_H

#include "rendezvous/peer/peer.h"

/** Dial way number link.attempt to the peer, or its Unix socket. */
void peer_link_connect(struct peer *peer);
/** Dial again; LEAVE, which the last connection had queued, goes with the new one. */
void peer_link_redial(struct peer *peer);
/** Dial the next way if the one that is dialled has had its time and brought no answer.
 *  */
void peer_link_turn(struct peer *peer);
/** Write "no TCP link to 10.0.0.2:4567 for ucx: `text`" into `why`. */
void peer_link_why(const struct peer *peer, const char *text, char why[PEER_TEXT_MAX]);
/** Begin to use a link on which both HELLOs were exchanged: send the clock, aborts, and
 *  the ranks that have left. */
void peer_link_up(struct peer *peer);
void peer_link_close(struct peer *peer);
/** Send the numbers of frames sent and read if they have changed since the last
 *  heartbeat; peer_heartbeat_answer sends them in any case. */
void peer_heartbeat(struct peer *peer);
void peer_heartbeat_answer(struct peer *peer);
/** Send GAVE_UP or UNREACHED with the reason in gone_text, on `link`, to a living peer
 *  that was given up here. */
void peer_gave_up_send(const struct peer *peer, struct link *link);
/** Send LEAVE: this rank leaves the group. For that, connect to a neighbour in the
 *  control tree without a link. */
void peer_leave(struct peer *peer);
/** True if the kernel delivers all that was sent on the link, whatever this process does;
 *  also without a link. */
bool peer_leave_is_sent(const struct peer *peer);
extern const struct link_events peer_link_events;

#endif
