/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records that are queued for a peer, and the frames that carry them.
 *
 * Idea: a record is queued as its subject (an operation, a want, an answer in a ring). A
 * frame is built in the transport's own memory, when the transport has room and the peer
 * has credit.
 *
 * Invariant: at most frame_credits counted frames are unread at the peer.
 */
#include "frames.h"

#include "closed.h"
#include "consumer.h"
#include "records.h"
#include "recv_run.h"
#include "rendezvous/peer/endpoint.h"
#include "rendezvous/peer/fault.h"
#include "rendezvous/protocol/wire/wire.h"

/* ---- records are queued ------------------------------------------------------------ */

void records_queue(tryst_op *op, unsigned records)
{
    op->records |= (uint8_t)records;
    if (!urgent_queued(&op->pending_node))
        urgent_push(&op->peer->out.pending, &op->pending_node, &op->urgency);
    peer_flush_later(op->peer);
}

uint32_t peer_answers_max(const struct peer *peer)
{
    const struct rendezvous_settings *set = &peer->rdv->set;
    /* KEPT, CANCELED and DONE, once each for each DATA in flight. */
    return set->wants_max + STREAM_RING +
           2 * (uint32_t)(set->eager_credit_bytes / EAGER_OVERHEAD_BYTES) + 1;
}

void peer_answer(struct peer *peer, const struct answer *answer)
{
    if (peer->life >= PEER_GIVING_UP)
        return;
    uint32_t capacity = peer_answers_max(peer);
    if (peer->out.answers_count == capacity || !peer->out.answers) {
        peer_fault(peer, PEER_FAULT_CREDIT, NULL);
        return;
    }
    peer->out.answers[(peer->out.answers_head + peer->out.answers_count++) % capacity] =
        *answer;
    peer_flush_later(peer);
}

/* ---- records that may wait for an idle pass ---------------------------------------- */

void peer_idle_later(struct peer *peer)
{
    if (!list_linked(&peer->out.idle_node))
        list_push_back(&peer->rdv->idle_peers, &peer->out.idle_node);
}

void peer_queue_waiting(struct peer *peer)
{
    list_remove(&peer->out.idle_node);
    producer_request_new(peer);
    peer->out.blocked = !urgent_empty(&peer->out.blocked_sends);
    peer->in.header_due |= peer->in.unacked > 0;
    if (peer->out.blocked || peer->in.header_due)
        peer_flush_later(peer);
}

void peer_data_done(struct peer *peer, uint64_t number)
{
    if (!stream_in_done(&peer->in.stream, number)) {
        peer_answer(
            peer, &(struct answer){.id = number, .type = RECORD_DONE, .origin_rank = -1});
        return;
    }
    if (++peer->in.unacked < ACK_MAX) {
        peer_idle_later(peer);
    } else {
        peer->in.header_due = true;
        peer_flush_later(peer);
    }
}

void peer_data_refuse(struct peer *peer, uint64_t number, uint64_t step,
                      tryst_status status, int32_t origin_rank)
{
    peer_answer(peer, &(struct answer){.id = number,
                                       .step = step,
                                       .status = (int16_t)status,
                                       .origin_rank = origin_rank,
                                       .type = RECORD_DONE});
    /* Headers acknowledge the number only after this record has left. */
    (void)stream_in_done(&peer->in.stream, number);
}

void peer_announce(struct peer *peer)
{
    struct urgent_node *node;
    list_remove(&peer->in.unannounced_node);
    if (urgent_empty(&peer->in.unannounced))
        return;
    while ((node = urgent_first(&peer->in.unannounced)) != NULL) {
        urgent_remove(node);
        urgent_push(&peer->out.wants_waiting, node, node->urgency);
    }
    peer_flush_later(peer);
}

/* ---- frames ------------------------------------------------------------------------ */

bool peer_credit_is_due(const struct peer *peer)
{
    const struct rendezvous_settings *set = &peer->rdv->set;
    uint32_t frames = (uint32_t)peer->in.frames_read - peer->in.frames_acked;
    uint32_t wants =
        peer->in.wants_got - peer->in.wants_unanswered - peer->in.wants_acked;
    return frames >= (set->frame_credits + 1) / 2 || wants >= (set->wants_max + 1) / 2;
}

/* True if the header alone must leave. */
static bool header_is_due(const struct peer *peer)
{
    return peer->in.header_due || (peer_is_blocked(peer) && !peer->out.blocked_sent) ||
           peer_credit_is_due(peer);
}

/* Build the next frame in memory of the transport. Returns its bytes; 0: there is
 * nothing to send. */
static size_t frame_build(struct peer *peer, void *frame, bool records)
{
    uint32_t unread = (uint32_t)peer->out.frames_sent - peer->out.frames_acked;
    bool credit = unread < peer->rdv->set.frame_credits;
    size_t bytes = 0;
    if (credit && records)
        bytes = records_pack(peer, frame, FRAME_BYTES_MAX);
    if (bytes) {
        peer->out.frames_sent++;
    } else if (header_is_due(peer)) {
        /* The peer must read all counted frames before LEAVE takes effect. */
        bool leaves = peer->rdv->leave.state != LEAVE_NONE && peer->in.header_due;
        bool counts = credit && (leaves || peer->in.counted);
        unsigned probe = peer->in.probe ? FRAME_PROBE : 0;
        peer->in.counted = peer->in.probe = false;
        frame_header_put(peer, frame, 0, probe | (counts ? 0 : FRAME_HEADER_ONLY));
        bytes = sizeof(struct frame_header);
        peer->out.frames_sent += counts;
    }
    return bytes;
}

/* Send one frame. `records`: records are queued. True if a frame has left. */
static bool frame_push(struct peer *peer, bool records)
{
    const struct transport_ops *ops = peer->endpoint.ep->rail->ops;
    void *frame;
    tryst_status status = ops->frame_begin(peer->endpoint.ep, FRAME_BYTES_MAX, &frame);
    if (status == TRYST_AGAIN) {
        peer->rdv->counters.frames_again++;
        peer_flush_later(peer);
        return false;
    }
    if (status != TRYST_OK) {
        peer_ep_lost(peer, NULL);
        return false;
    }
    size_t bytes = frame_build(peer, frame, records);
    if (!bytes)
        return false;
    ops->frame_commit(peer->endpoint.ep, bytes);
    peer->rdv->counters.frames_sent++;
    return true;
}

/* True if frames can leave to the peer. */
static bool peer_takes_frames(const struct peer *peer)
{
    return peer->endpoint.state == PEER_EP_READY && peer->life <= PEER_LEFT &&
           !peer->endpoint.broken;
}

int peer_flush(struct peer *peer)
{
    int count = 0;
    list_remove(&peer->out.flush_node);
    if (peer->in.post_refused && peer_takes_frames(peer)) {
        peer->in.post_refused = false;
        consumer_slots_serve(peer);
    }
    if (!urgent_empty(&peer->out.wants_waiting) && peer_takes_frames(peer))
        consumer_announce(peer);
    bool records = peer_has_records(peer);
    bool more = records || header_is_due(peer);
    while (more && peer_takes_frames(peer) && frame_push(peer, records)) {
        /* Each header carries all acknowledgements that are due. */
        more = records = peer_has_records(peer);
        count++;
    }
    return count;
}
