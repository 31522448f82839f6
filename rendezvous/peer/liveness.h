/* SPDX-License-Identifier: Apache-2.0 */
/** @file liveness.h
 *  Liveness of a peer: the proofs of its end, and the waits before it is given up
 *  (liveness.c).
 */
#ifndef TRYST_RENDEZVOUS_PEER_LIVENESS_H
#define TRYST_RENDEZVOUS_PEER_LIVENESS_H

#include "rendezvous/peer/peer.h"

/** Watch the peer's process, where the kernel allows it. */
void pidfd_open_peer(struct peer *peer, int32_t pid);
void pidfd_close_peer(struct peer *peer);
/** Suspect that the peer has ended: it is given up when this reason's grace is over,
 *  unless better evidence comes before. */
void peer_suspect(struct peer *peer, enum suspicion_reason reason);
static inline bool peer_is_refused(const struct peer *peer)
{
    return peer->liveness.suspicion.reason == SUSPICION_REFUSED;
}
/** Give up a peer because its link has closed: it has left, or died.
 *  `text` describes the link's end. */
void peer_link_gone(struct peer *peer, const char *text);
/** Suspect a peer to which no connection comes about. `text`, the reason, is kept for the
 *  report. */
void peer_link_refused(struct peer *peer, const char *text);
/** Give up a living peer, because one of the two processes lacks what a link needs
 *  (memory, a descriptor). `text` names it. */
void peer_link_short(struct peer *peer, const char *text);
/** Restart the grace of refused links: from now on the parent in the control tree can
 *  report ranks that have left. */
void peer_refused_again(struct rendezvous *rdv);
/** Read frames that have already arrived, before an end is acted on. */
void peer_last_frames_read(struct peer *peer);
/** Do a tick's checks: kernels that do not answer, heartbeats, silent data paths. */
void peer_tick(struct peer *peer, uint64_t now_ns);

#endif
