/* SPDX-License-Identifier: Apache-2.0 */
/** @file link.h
 *  A peer's link: connecting, and what is said on it (link.c).
 */
#ifndef RENDEZVOUS_PEER_LINK_H
#define RENDEZVOUS_PEER_LINK_H

#include "rendezvous/peer/peer.h"

void peer_link_connect(struct peer *peer);
/** "no TCP link to 10.0.0.2:4567 for ucx: `text`", in `why`. */
void peer_link_why(const struct peer *peer, const char *text, char why[PEER_TEXT_MAX]);
/** Its HELLO was read and is answered: what each is to know of the other follows. */
void peer_link_up(struct peer *peer);
void peer_link_close(struct peer *peer);
/** How far the frames have come, if that has changed since it was told; or in any case. */
void peer_heartbeat(struct peer *peer);
void peer_heartbeat_answer(struct peer *peer);
/** We have given the peer up, in gone_text, and it lives. */
void peer_gave_up_send(struct peer *peer);
/** We leave the group. */
void peer_leave(struct peer *peer);
/** Its kernel has what we said, or nothing more can be done for that. */
bool peer_leave_is_sent(const struct peer *peer);
extern const struct link_events peer_link_events;

#endif
