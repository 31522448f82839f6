/* SPDX-License-Identifier: Apache-2.0 */
/** @file liveness.h
 *  Whether a peer is still there: what proves its end, and what must be waited for (liveness.c).
 */
#ifndef RENDEZVOUS_PEER_LIVENESS_H
#define RENDEZVOUS_PEER_LIVENESS_H

#include "rendezvous/peer/peer.h"

/** Watch the peer's process, where the kernel lets us. */
void pidfd_open_peer(struct peer *peer, int32_t pid);
void pidfd_close_peer(struct peer *peer);
/** It may have come to its end: unless we hear more, it has once this reason's grace is over. */
void peer_suspect(struct peer *peer, enum suspicion_reason reason);
static inline bool peer_is_refused(const struct peer *peer)
{
    return peer->liveness.suspicion.reason == SUSPICION_REFUSED;
}
/** Its link has closed: it has left, or died. `text` says how the link ended. */
void peer_link_gone(struct peer *peer, const char *text);
/** No connection to it comes about. */
void peer_link_refused(struct peer *peer, const char *text);
/** It lives, but one of the two processes lacks what a link needs. */
void peer_link_short(struct peer *peer, const char *text);
/** We can hear from our parent in the control tree from now on. */
void peer_refused_again(struct rendezvous *rdv);
/** Frames that were already received are read before an end is acted on. */
void peer_last_frames_read(struct peer *peer);
/** Housekeeping: kernels that do not answer, heartbeats, silent data paths. */
void peer_tick(struct peer *peer, uint64_t now_ns);

#endif
