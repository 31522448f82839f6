/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer: what is owed leaves in frames, and how a peer ends.
 *
 * Invariants: at most frame_credits counted frames are unread at the peer. A peer that is given up
 * fails its operations only when its endpoint has reported `closed`.
 * Callers: everybody in this layer.
 */
#include "peer.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/random.h"
#include "core/text.h"
#include "engine.h"
#include "live_gather.h"

/* ---- open and close ----------------------------------------------------------------------- */

tryst_status peer_open(struct peer *peer, struct rendezvous *rdv, int rank)
{
    const struct roster *roster = &rdv->group->roster;
    memset(peer, 0, sizeof *peer);
    peer->rdv = rdv;
    peer->rank = rank;
    peer->pidfd.fd = -1;
    list_init(&peer->held);
    list_init(&peer->pending);
    list_init(&peer->unannounced);
    list_init(&peer->blocked_sends);
    list_init(&peer->wants_waiting);
    list_init(&peer->slots_waiting);
    list_init(&peer->deferred_ops);
    list_init(&peer->posted_sends);
    list_init(&peer->want_answers);
    list_init(&peer->wants_list);
    list_init(&peer->early_list);
    idmap_init(&peer->wants);
    peer->lane.rank = rank;
    rdv->dispatch->lane_init(rdv->dispatch_arg, &peer->lane);
    stage_lane_init(&peer->stage);
    if (random_secret(&peer->nonce, sizeof peer->nonce) != TRYST_OK)
        return TRYST_E_SYSTEM;
    peer->candidates_count =
        select_candidates(&roster->entries[roster->rank].host,
                          &roster->entries[rank].host, peer->candidates, peer->mechanism);
    peer->is_self = rank == roster->rank;
    if (peer->is_self) {
        peer->candidates[0] = TRANSPORT_SELF;
        peer->candidates_count = 1;
    }
    return TRYST_OK;
}

static void held_drop(struct peer *peer)
{
    struct list_node *node;
    while ((node = list_pop_front(&peer->held)) != NULL) {
        struct held_message *message = container_of(node, struct held_message, node);
        if (message->fd >= 0)
            close(message->fd);
        mem_free(message);
    }
    peer->held_count = 0;
}

void peer_close(struct peer *peer)
{
    assert(!peer->ep);
    held_drop(peer);
    peer_link_close(peer);
    list_remove(&peer->flush_node);
    list_remove(&peer->idle_node);
    list_remove(&peer->unannounced_node);
    producer_wants_drop(peer);
    idmap_free(&peer->wants);
    mem_free(peer->answers);
    stream_out_close(&peer->out);
    if (peer->names)
        names_forget(peer->names);
    mem_free(peer->names);
    consumer_asks_forget(peer);
    peer->answers = NULL;
    peer->names = NULL;
}

void peer_need(struct peer *peer)
{
    if (peer->life != PEER_ALIVE || peer->ep_state != PEER_EP_NONE || peer->unreached_ns)
        return;
    peer->ep_wanted = true;
    if (peer->rank == peer->rdv->group->roster.rank || peer->link_state == PEER_LINK_UP)
        peer_ep_open(peer, 0);
    else if (peer->link_state == PEER_LINK_NONE)
        peer_link_connect(peer);
}

/* ---- what is owed ------------------------------------------------------------------------- */

uint32_t peer_answers_max(const struct peer *peer)
{
    const struct rendezvous_settings *set = &peer->rdv->set;
    /* For each DATA under way: KEPT, CANCELED and DONE, once each. */
    return set->wants_max + STREAM_RING +
           2 * (uint32_t)(set->eager_credit_bytes / EAGER_OVERHEAD_BYTES) + 1;
}

void peer_answer(struct peer *peer, const struct answer *answer)
{
    if (peer->life >= PEER_GIVING_UP)
        return;
    uint32_t capacity = peer_answers_max(peer);
    if (peer->answers_count == capacity || !peer->answers) {
        peer_give_up(peer, TRYST_E_PROTOCOL, "it sent more than its credit allows");
        return;
    }
    peer->answers[(peer->answers_head + peer->answers_count++) % capacity] = *answer;
    peer_flush_later(peer);
}

void peer_wants_resume(struct peer *peer)
{
    uint32_t quota = peer->rdv->set.wants_max - (peer->wants_sent - peer->wants_acked);
    struct list_node *node;
    while (quota-- && (node = list_pop_front(&peer->wants_waiting)) != NULL) {
        list_push_back(&peer->pending, node);
        peer_flush_later(peer);
    }
}

void peer_flush_later(struct peer *peer)
{
    if (!list_linked(&peer->flush_node) && peer->ep_state == PEER_EP_READY &&
        !peer->lost_ns)
        list_push_back(&peer->rdv->flush, &peer->flush_node);
}

/* ---- what may wait a little --------------------------------------------------------------- */

void peer_idle_later(struct peer *peer)
{
    if (!list_linked(&peer->idle_node))
        list_push_back(&peer->rdv->idle_peers, &peer->idle_node);
}

void peer_idle(struct peer *peer)
{
    list_remove(&peer->idle_node);
    producer_ask_new(peer);
    peer->blocked = !list_empty(&peer->blocked_sends);
    peer->ack_alone = peer->unacked > 0;
    if (peer->blocked || peer->ack_alone)
        peer_flush_later(peer);
}

void peer_data_done(struct peer *peer, uint64_t number)
{
    if (!stream_in_done(&peer->in, number)) {
        peer_answer(
            peer, &(struct answer){.id = number, .type = RECORD_DONE, .origin_rank = -1});
        return;
    }
    if (++peer->unacked < ACK_MAX) {
        peer_idle_later(peer);
    } else {
        peer->ack_alone = true;
        peer_flush_later(peer);
    }
}

void peer_data_refuse(struct peer *peer, uint64_t number, tryst_status status,
                      int32_t origin_rank)
{
    peer_answer(peer, &(struct answer){.id = number,
                                       .status = (int16_t)status,
                                       .origin_rank = origin_rank,
                                       .type = RECORD_DONE});
    (void)stream_in_done(&peer->in, number); /* told when that record has left */
}

void peer_announce(struct peer *peer)
{
    list_remove(&peer->unannounced_node);
    if (list_empty(&peer->unannounced))
        return;
    list_append(&peer->pending, &peer->unannounced);
    peer_flush_later(peer);
}

/* ---- frames out --------------------------------------------------------------------------- */

bool peer_credit_is_due(const struct peer *peer)
{
    const struct rendezvous_settings *set = &peer->rdv->set;
    uint32_t frames = (uint32_t)peer->frames_read - peer->frames_told;
    uint32_t wants = peer->wants_got - peer->wants_unanswered - peer->wants_told;
    return frames >= (set->frame_credits + 1) / 2 || wants >= (set->wants_max + 1) / 2;
}

/** Does the header alone say something that is due? */
static bool header_is_due(const struct peer *peer)
{
    return peer->ack_alone || (peer_is_blocked(peer) && !peer->blocked_told) ||
           peer_credit_is_due(peer);
}

/** Build the next frame where the transport has room for it; its bytes, 0: there is nothing to say. */
static size_t frame_build(struct peer *peer, void *frame)
{
    uint32_t unread = (uint32_t)peer->frames_sent - peer->frames_acked;
    bool credit = unread < peer->rdv->set.frame_credits;
    size_t bytes = 0;
    if (credit && peer_is_owed(peer))
        bytes = records_pack(peer, frame, FRAME_BYTES_MAX);
    if (bytes) {
        peer->frames_sent++;
    } else if (header_is_due(peer)) {
        /* The peer reads all counted frames before it believes that we have left. */
        bool counts = peer->rdv->leaving && peer->ack_alone && credit;
        frame_header_put(peer, frame, 0, counts ? 0 : FRAME_HEADER_ONLY);
        bytes = sizeof(struct frame_header);
        peer->frames_sent += counts;
    }
    return bytes;
}

/** True if a frame has left. */
static bool frame_push(struct peer *peer)
{
    const struct transport_ops *ops = peer->ep->rail->ops;
    void *frame;
    tryst_status status = ops->frame_begin(peer->ep, FRAME_BYTES_MAX, &frame);
    if (status == TRYST_AGAIN) {
        peer->rdv->counters.frames_again++;
        peer_flush_later(peer);
        return false;
    }
    if (status != TRYST_OK) {
        peer_give_up(peer, TRYST_E_PEER, "a frame could not be sent to it");
        return false;
    }
    size_t bytes = frame_build(peer, frame);
    if (!bytes)
        return false;
    ops->frame_commit(peer->ep, bytes);
    peer->rdv->counters.frames_sent++;
    return true;
}

int peer_flush(struct peer *peer)
{
    int count = 0;
    bool more = true;
    list_remove(&peer->flush_node);
    while (more && peer->ep_state == PEER_EP_READY && peer->life <= PEER_LEFT &&
           !peer->lost_ns && (peer_is_owed(peer) || header_is_due(peer)) &&
           frame_push(peer)) {
        more = peer_is_owed(peer); /* a new header has said all that was due */
        count++;
    }
    return count;
}

/* ---- the end ------------------------------------------------------------------------------ */

void peer_give_up(struct peer *peer, tryst_status status, const char *text)
{
    struct rendezvous *rdv = peer->rdv;
    bool expected = peer->left || peer->end_expected;
    if (peer->life >= PEER_GIVING_UP)
        return;
    peer->life = PEER_GIVING_UP;
    peer->gone_status = status;
    int head = snprintf(peer->gone_text, sizeof peer->gone_text, "rank %d ", peer->rank);
    text_escape(text, strlen(text), peer->gone_text + head,
                sizeof peer->gone_text - (size_t)head);
    rdv->counters.peers_given_up += !expected;
    rdv->counters.protocol_errors += status == TRYST_E_PROTOCOL;
    if (!expected)
        LOG_WARN(rdv->log, "%s; its operations fail", peer->gone_text);
    peer_gave_up_send(peer);
    rdv->reap =
        true; /* the endpoint is closed at the end of the pass, outside its events */
    live_peer(rdv->live, peer);
}

static void gone_ops(struct peer *peer, struct list *ops)
{
    list_for_each_safe (ops, node, after) {
        tryst_op *op = container_of(node, tryst_op, scope_node);
        if (op->peer != peer)
            continue;
        if (op->kind == OP_SEND)
            producer_peer_gone(op);
        else
            consumer_peer_gone(op);
    }
}

void peer_gone(struct peer *peer)
{
    struct rendezvous *rdv = peer->rdv;
    peer->life = PEER_GONE;
    peer->ep_state = PEER_EP_NONE;
    list_remove(&peer->flush_node);
    held_drop(peer);
    list_for_each_safe (&rdv->scopes.all, node, after) {
        struct scope *scope = container_of(node, struct scope, node);
        gone_ops(peer, &scope->ops);
        gone_ops(peer, &scope->warned);
    }
    producer_wants_drop(peer);
    peer->answers_count = 0;
    consumer_asks_forget(peer);
    assert(list_empty(&peer->pending) && list_empty(&peer->wants_waiting));
    live_peer(rdv->live, peer);
    peer_tree_repair(peer);
}
