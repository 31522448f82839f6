/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The beginning and the end of a peer.
 *
 * Invariant: a peer that is given up fails its operations only when its endpoint has
 * reported `closed`; from then on it has no endpoint.
 */
#include "peer.h"
#include "commsched/sched/sched.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/os/foreign_fd.h"
#include "core/os/random.h"
#include "core/text/text.h"
#include "endpoint.h"
#include "link.h"
#include "loss.h"
#include "rendezvous/op/engine.h"
#include "tree.h"

/* ---- open and close ---------------------------------------------------------------- */

static tryst_status peer_open(struct peer *peer, struct rendezvous *rdv, int rank)
{
    const struct roster *roster = &rdv->group->roster;
    peer->rdv = rdv;
    peer->rank = rank;
    peer->liveness.pidfd.fd = -1;
    list_init(&peer->endpoint.held);
    peer->lane.rank = rank;
    sched_lane_init(rdv->sched, &peer->lane);
    bounce_lane_init(&peer->bounce);
    if (random_secret(&peer->link.nonce, sizeof peer->link.nonce) != TRYST_OK)
        return TRYST_E_SYSTEM;
    const struct host_identity mine = roster_host(roster, roster->rank);
    const struct host_identity theirs = roster_host(roster, rank);
    peer->endpoint.candidates_count = select_candidates(
        &mine, &theirs, peer->endpoint.candidates, peer->endpoint.mechanism);
    peer->is_self = rank == roster->rank;
    peer->life = rdv->leave.state >= LEAVE_CUT ? PEER_GONE : PEER_ALIVE;
    rdv->peer_events->open(peer);
    if (peer->is_self) {
        peer->endpoint.candidates[0] = TRANSPORT_SELF;
        peer->endpoint.candidates_count = 1;
    }
    return TRYST_OK;
}

struct peer *peer_make(struct tryst_group *group, int rank)
{
    struct peer *peer = mem_zalloc(sizeof *peer);
    if (!peer)
        return NULL;
    if (peer_open(peer, group->rdv, rank) != TRYST_OK) {
        mem_free(peer);
        return NULL;
    }
    list_push_back(&group->met, &peer->node);
    group->peers[rank] = peer;
    return peer;
}

static void held_drop(struct peer *peer)
{
    struct list_node *node;
    while ((node = list_pop_front(&peer->endpoint.held)) != NULL) {
        struct held_message *message = container_of(node, struct held_message, node);
        foreign_fd_close(message->fd);
        mem_free(message);
    }
    peer->endpoint.held_count = 0;
}

void peer_close(struct peer *peer)
{
    assert(!peer->endpoint.ep);
    held_drop(peer);
    peer_link_close(peer);
    list_remove(&peer->out.flush_node);
    peer->rdv->peer_events->close(peer);
}

void peer_connect_start(struct peer *peer)
{
    if (peer->life != PEER_ALIVE || peer->endpoint.state != PEER_EP_NONE)
        return;
    peer->endpoint.wanted = true;
    /* refused: peer_link_up continues if a link still comes up */
    if (peer->liveness.suspicion.reason)
        return;
    if (peer->rank == peer->rdv->group->roster.rank || peer->link.state == PEER_LINK_UP)
        peer_ep_open(peer, 0);
    else if (peer->link.state == PEER_LINK_NONE)
        peer_link_connect(peer);
}

void peer_flush_later(struct peer *peer)
{
    if (!list_linked(&peer->out.flush_node) && peer->endpoint.state == PEER_EP_READY &&
        !peer->endpoint.broken)
        list_push_back(&peer->rdv->flush, &peer->out.flush_node);
}

bool peer_has_left(const struct peer *peer)
{
    return peer->left || group_has_left(peer->rdv->group, peer->rank);
}

/* ---- the end ----------------------------------------------------------------------- */

/* Keep the reason, and packets that are lost, which may be the reason's own. */
static void gone_text_put(struct peer *peer, const char *text)
{
    char *to = peer->liveness.gone_text;
    size_t capacity = sizeof peer->liveness.gone_text;
    size_t head = (size_t)snprintf(to, capacity, "rank %d ", peer->rank);
    head += text_escape(text, strlen(text), to + head, capacity - head);
    if (!peer->left && !strstr(to, " are lost on the way"))
        peer_loss_text(peer, "; ", to + head, capacity - head);
}

void peer_give_up(struct peer *peer, tryst_status status, const char *text)
{
    struct rendezvous *rdv = peer->rdv;
    bool expected = peer->left || peer->liveness.end_expected;
    if (peer->life >= PEER_GIVING_UP)
        return;
    peer->life = PEER_GIVING_UP;
    /* from any state: no other candidate follows */
    peer->endpoint.state = PEER_EP_CLOSING;
    list_remove(&peer->out.flush_node);
    peer->liveness.gone_status = status;
    gone_text_put(peer, text);
    rdv->counters.peers_given_up += !expected;
    rdv->counters.protocol_errors += status == TRYST_E_PROTOCOL;
    if (!expected)
        LOG_WARN(rdv->log, "%s; its operations fail", peer->liveness.gone_text);
    if (peer->link.link && peer->link.state == PEER_LINK_UP && !peer->left &&
        rdv->leave.state == LEAVE_NONE)
        peer_gave_up_send(peer, peer->link.link);
    /* The endpoint is closed at the end of the pass, outside its events. */
    engine_reap_soon(rdv);
    peer_live_put(peer);
}

void peer_gone(struct peer *peer)
{
    struct rendezvous *rdv = peer->rdv;
    peer->life = PEER_GONE;
    peer->endpoint.state = PEER_EP_NONE;
    held_drop(peer);
    rdv->peer_events->gone(peer);
    peer_live_put(peer);
    peer_tree_repair(peer);
}

/* ---- the live page ----------------------------------------------------------------- */

static uint16_t loss_mtu(const struct link_loss *loss)
{
    return loss->mtu < UINT16_MAX ? (uint16_t)loss->mtu : UINT16_MAX;
}

void peer_live_put(const struct peer *peer)
{
    struct live *live = peer->rdv->live;
    if (!live || (uint32_t)peer->rank >= live->peers_count)
        return;
    bool used = peer->endpoint.candidates_count &&
                peer->endpoint.candidate < peer->endpoint.candidates_count;
    bool unix_link = peer->link.link && link_is_unix(peer->link.link);
    struct tryst_live_peer now = {
        .rank = peer->rank,
        .life = peer_is_alive(peer) || peer->life != PEER_ALIVE ? peer->life : PEER_LEFT,
        .link = peer->link.state,
        .endpoint = peer->endpoint.state == PEER_EP_STARTING ? PEER_EP_OPENING
                                                             : peer->endpoint.state,
        .pid = unix_link ? link_peer_pid(peer->link.link) : 0,
        .lost_to_mtu = loss_mtu(&peer->loss.to),
        .lost_from_mtu = loss_mtu(&peer->loss.from),
        .frames_sent = peer->out.frames_sent,
        .frames_acked = peer->out.frames_acked,
        .frames_read = peer->in.frames_read,
        .in_flight_bytes = peer->lane.in_flight_bytes,
        .bytes_sent = peer->bytes_sent,
        .bytes_received = peer->bytes_received,
        .window_bytes = peer->lane.path.window_bytes,
        .slice_bytes = peer->lane.path.slice_bytes,
        .bytes_per_s = peer->lane.path.bytes_per_s,
        .rtt_ns = peer->lane.path.rtt_ns};
    if (used)
        snprintf(
            now.transport, sizeof now.transport, "%s",
            transport_kind_name(peer->endpoint.candidates[peer->endpoint.candidate]));
    const char *text = peer->life >= PEER_GIVING_UP ? peer->liveness.gone_text
                                                    : peer->endpoint.mechanism;
    memcpy(now.mechanism, text, strnlen(text, sizeof now.mechanism - 1));
    live_peer_put(live, &now);
}

struct cause op_refusal(const struct scope *scope, const struct peer *peer,
                        const char **text_p)
{
    if (scope->state == SCOPE_CLOSING) {
        *text_p = "its step was closed";
        return (struct cause){TRYST_E_CLOSED, -1, TRYST_E_CLOSED};
    }
    if (scope->abort_status != TRYST_OK) {
        *text_p = scope->abort_text;
        return (struct cause){TRYST_E_ABORTED, scope->abort_rank, scope->abort_status};
    }
    if (peer && peer->life >= PEER_GIVING_UP) {
        tryst_status status = peer->liveness.gone_status;
        *text_p = peer->liveness.gone_text;
        return (struct cause){status, peer->rank, status};
    }
    return (struct cause){TRYST_OK, -1, TRYST_OK};
}
