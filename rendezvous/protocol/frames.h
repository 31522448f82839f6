/* SPDX-License-Identifier: Apache-2.0 */
/** @file frames.h
 *  The records that are queued for a peer, and the frames that carry them (frames.c). All
 *  in the progress domain.
 */
#ifndef TRYST_RENDEZVOUS_PROTOCOL_FRAMES_H
#define TRYST_RENDEZVOUS_PROTOCOL_FRAMES_H

#include "channel.h"
#include "rendezvous/op/engine.h"

/** The most small tensors that are done and not acknowledged, however busy this rank
 *  is. */
enum { ACK_MAX = 32 };

/** Queue records (enum op_records) of `op` for its peer. */
void records_queue(tryst_op *op, unsigned records);
/** Mark the peer for peer_queue_waiting: in the next idle pass, when a thread leaves the
 *  engine (acknowledgements alone may then wait for TRYST_ACK_DELAY), or when the timers
 *  run. Acknowledgements also leave with any frame before that. */
void peer_idle_later(struct peer *peer);
/** Queue the acknowledgements, BLOCKED and ASK that wait for an idle pass. */
void peer_queue_waiting(struct peer *peer);
/** Note that a thread leaves the engine. True if acknowledgements to the peer may wait for
 *  a reply: a small tensor was sent to the peer since a thread last left, so that the next
 *  one can carry them, and nothing else waits. */
bool peer_acks_wait(struct peer *peer);
/** Queue a header, which leaves even without records. */
static inline void peer_header_queue(struct peer *peer)
{
    peer_in(peer)->header_due = true;
    peer_flush_later(peer);
}
/** True if headers to the peer carry BLOCKED. */
static inline bool peer_is_blocked(const struct peer *peer)
{
    return peer_out(peer)->blocked && !urgent_empty(&peer_out(peer)->blocked_sends);
}
/** Note that acknowledgements have left; unmark the peer if nothing else waits for an
 *  idle pass. */
static inline void peer_acked(struct peer *peer)
{
    peer_in(peer)->unacked = 0;
    peer_in(peer)->header_due = false;
    if (!peer_out(peer)->requests_new_count &&
        urgent_empty(&peer_out(peer)->blocked_sends))
        list_remove(&peer_out(peer)->idle_node);
}
/** Acknowledge the DATA with this number, which is done. */
void peer_data_done(struct peer *peer, uint64_t number);
/** Answer a DATA of `step` that failed before a receive took it. */
void peer_data_refuse(struct peer *peer, uint64_t number, uint64_t step,
                      tryst_status status, int32_t origin_rank);
/** Queue the WANTs of small receives that have not been announced. */
void peer_announce(struct peer *peer);
/** Post slices and announce receives that have waited, then build and send frames while
 *  records and credit, or a header that is due, are left. Returns the number of
 *  frames. */
int peer_flush(struct peer *peer);
/** True if records are queued for the peer that belong to no pending operation. */
static inline bool peer_has_answers(const struct peer *peer)
{
    return peer_out(peer)->answers_count | peer_in(peer)->closed_count |
           peer_out(peer)->requests_queued | peer_out(peer)->requests_due |
           !list_empty(&peer_out(peer)->want_answers);
}
/** True if records are queued for the peer. */
static inline bool peer_has_records(const struct peer *peer)
{
    return !urgent_empty(&peer_out(peer)->pending) || peer_has_answers(peer);
}
/** True if a header must return credit: half of the peer's frame credits or of its WANT
 *  quota can be returned. */
bool peer_credit_is_due(const struct peer *peer);
/** Return the most answers without an operation that can be queued at once. */
uint32_t peer_answers_max(const struct peer *peer);
/** Queue an answer without an operation, unless the peer is being given up. A full ring
 *  means that the peer has exceeded its credit, and ends the peer. */
void peer_answer(struct peer *peer, const struct answer *answer);

#endif
