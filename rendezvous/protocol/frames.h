/* SPDX-License-Identifier: Apache-2.0 */
/** @file frames.h
 *  What is queued for a peer, and when it leaves (frames.c). All in the progress domain.
 */
#ifndef RENDEZVOUS_PROTOCOL_FRAMES_H
#define RENDEZVOUS_PROTOCOL_FRAMES_H

#include "rendezvous/op/engine.h"
#include "rendezvous/peer/peer.h"

/** Small tensors that are acknowledged at the latest when so many have come, however busy we are. */
enum { ACK_MAX = 32 };

/** Queue records (enum op_records) of `op` for its peer. */
void records_queue(tryst_op *op, unsigned records);
/** What may wait a little leaves with any frame, or else when nothing happens, when our thread leaves the
 *  engine, and at a tick: acknowledgements, BLOCKED, ASK. */
void peer_idle_later(struct peer *peer);
/** Nothing happens, or our thread leaves: it leaves now. */
void peer_idle(struct peer *peer);
/** Do our frames say BLOCKED? */
static inline bool peer_is_blocked(const struct peer *peer)
{
    return peer->out.blocked && !urgent_empty(&peer->out.blocked_sends);
}
/** Acknowledgements have left: what else waits for an idle pass? */
static inline void peer_acked(struct peer *peer)
{
    peer->in.unacked = 0;
    peer->in.ack_alone = false;
    if (!peer->out.asks_new_count && urgent_empty(&peer->out.blocked_sends))
        list_remove(&peer->out.idle_node);
}
/** DATA with this number is done: acknowledge it. */
void peer_data_done(struct peer *peer, uint64_t number);
/** It has failed, and no receive has taken it. */
void peer_data_refuse(struct peer *peer, uint64_t number, tryst_status status,
                      int32_t origin_rank);
/** Small receives that have not announced themselves do. */
void peer_announce(struct peer *peer);
/** Build and send frames while there is something to say and credit to say it. */
int peer_flush(struct peer *peer);
/** Is there a record for it that no operation waits to send? */
static inline bool peer_has_answers(const struct peer *peer)
{
    return peer->out.answers_count | peer->in.closed_count | peer->out.asks_queued |
           peer->out.ask | !list_empty(&peer->out.want_answers);
}
/** Is there a record for it? */
static inline bool peer_has_records(const struct peer *peer)
{
    return !urgent_empty(&peer->out.pending) || peer_has_answers(peer);
}
/** Does the peer wait for credit or for its WANTs to be taken up? */
bool peer_credit_is_due(const struct peer *peer);
/** Answers without an operation that can be queued at once. */
uint32_t peer_answers_max(const struct peer *peer);
/** Answer without an operation; a full ring is a violation by the peer. */
void peer_answer(struct peer *peer, const struct answer *answer);

#endif
