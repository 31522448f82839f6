/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The channel to a peer: its life, and the marks of queued records.
 *
 * Idea: no bytes are queued. A queued record is a mark on its operation or its want, or
 * an entry in the bounded ring of answers, and becomes bytes when a frame leaves
 * (frames.c).
 *
 * Invariant: a peer with a mark is in rdv->flush, or its endpoint is not ready, or the
 * mark waits for an idle pass (rdv->idle_peers).
 */
#include "channel.h"

#include "core/memory/alloc.h"
#include "rendezvous/peer/fault.h"
#include "rendezvous/protocol/wire/wire.h"

/* ---- life -------------------------------------------------------------------------- */

void channel_open(struct peer *peer)
{
    struct peer_out *out = peer_out(peer);
    struct peer_in *in = peer_in(peer);
    urgent_init(&out->pending);
    urgent_init(&in->unannounced);
    urgent_init(&out->blocked_sends);
    urgent_init(&out->wants_waiting);
    urgent_init(&in->slots_waiting);
    urgent_init(&out->deferred_ops);
    urgent_init(&out->posted_sends);
    list_init(&out->waiting_sends);
    list_init(&out->want_answers);
    list_init(&in->wants_list);
    list_init(&in->unexpected);
    hash_table_init(&in->wants);
}

bool channel_connect(struct peer *peer)
{
    struct peer_out *out = peer_out(peer);
    struct peer_in *in = peer_in(peer);
    if (!out->answers)
        out->answers = mem_zalloc(peer_answers_max(peer) * sizeof *out->answers);
    return out->answers && (in->names.places || names_in_open(&in->names) == TRYST_OK) &&
           (out->stream.ring || stream_out_open(&out->stream) == TRYST_OK) &&
           (out->names.places || names_out_open(&out->names) == TRYST_OK);
}

void channel_close(struct peer *peer)
{
    struct peer_out *out = peer_out(peer);
    struct peer_in *in = peer_in(peer);
    list_remove(&out->idle_node);
    list_remove(&in->unannounced_node);
    hash_table_close(&in->wants);
    stream_out_close(&out->stream);
    names_out_close(&out->names);
    names_in_close(&in->names);
    mem_free(in->closed_steps);
    mem_free(out->answers);
}

/* ---- records are queued ------------------------------------------------------------ */

void records_queue(tryst_op *op, unsigned records)
{
    op->records |= (uint8_t)records;
    if (!urgent_queued(&op->pending_node))
        urgent_push(&peer_out(op->peer)->pending, &op->pending_node, &op->urgency);
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
    struct peer_out *out = peer_out(peer);
    if (peer->life >= PEER_GIVING_UP)
        return;
    uint32_t capacity = peer_answers_max(peer);
    if (out->answers_count == capacity || !out->answers) {
        peer_fault(peer, PEER_FAULT_CREDIT, NULL);
        return;
    }
    peer_out(peer)->answers[(out->answers_head + out->answers_count++) % capacity] =
        *answer;
    peer_flush_later(peer);
}

/* ---- records that may wait for an idle pass ---------------------------------------- */

void peer_idle_later(struct peer *peer)
{
    if (!list_linked(&peer_out(peer)->idle_node))
        list_push_back(&peer->rdv->idle_peers, &peer_out(peer)->idle_node);
}

bool peer_acks_wait(struct peer *peer)
{
    uint64_t sent = peer_out(peer)->stream.next, before = peer_in(peer)->left_next;
    if (!peer_in(peer)->unacked || peer_out(peer)->requests_new_count ||
        !urgent_empty(&peer_out(peer)->blocked_sends))
        return false;
    peer_in(peer)->left_next = sent;
    return sent != before;
}

void peer_data_done(struct peer *peer, uint64_t number)
{
    if (!stream_in_done(&peer_in(peer)->stream, number)) {
        peer_answer(
            peer, &(struct answer){.id = number, .type = RECORD_DONE, .origin_rank = -1});
        return;
    }
    if (++peer_in(peer)->unacked < ACK_MAX)
        peer_idle_later(peer);
    else
        peer_header_queue(peer);
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
    (void)stream_in_done(&peer_in(peer)->stream, number);
}

void peer_announce(struct peer *peer)
{
    struct urgent_node *node;
    list_remove(&peer_in(peer)->unannounced_node);
    if (urgent_empty(&peer_in(peer)->unannounced))
        return;
    while ((node = urgent_first(&peer_in(peer)->unannounced)) != NULL) {
        urgent_remove(node);
        urgent_push(&peer_out(peer)->wants_waiting, node, node->urgency);
    }
    peer_flush_later(peer);
}

bool peer_credit_is_due(const struct peer *peer)
{
    const struct peer_in *in = peer_in(peer);
    const struct rendezvous_settings *set = &peer->rdv->set;
    uint32_t frames = (uint32_t)peer->frames.read - in->frames_acked;
    uint32_t wants = in->wants_got - in->wants_refused - in->wants_acked;
    return frames >= (set->frame_credits + 1) / 2 || wants >= (set->wants_max + 1) / 2;
}
