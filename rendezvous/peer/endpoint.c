/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer's endpoint: the candidates are tried in an order that both ranks compute alike,
 * and the transports' events end here.
 *
 * Invariants: at most one endpoint per peer is open, and none is opened unless the peer
 * is ALIVE. Connect messages for a candidate that is not open here yet are held until it
 * is. No endpoint stays OPENING for longer than TRYST_CONNECT_TIMEOUT in which both ranks
 * make passes; time in which either rank's fabric starts (STARTING) does not count.
 */
#include "endpoint.h"
#include "commsched/sched/sched.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/os/descriptors.h"
#include "core/os/foreign_fd.h"
#include "core/text/text.h"
#include "fault.h"
#include "link.h"
#include "liveness.h"
#include "messages.h"
#include "rendezvous/op/engine.h"

/* Connect messages held per peer, for candidates that are not open here yet; a few of
 * each candidate are usual. PEER_FAULT_CONNECT_FLOOD names this number. */
enum { HELD_MAX = 64 };

static void ep_link_send(struct peer *peer, uint8_t type, uint32_t candidate,
                         const void *data, size_t bytes, int fd, tryst_status *status_p)
{
    uint8_t message[LINK_MESSAGE_MAX];
    struct link_ep head = {.candidate = candidate};
    tryst_status status = TRYST_E_PEER;
    if (bytes <= sizeof message - sizeof head && peer->link.link) {
        memcpy(message, &head, sizeof head);
        if (bytes)
            memcpy(message + sizeof head, data, bytes);
        status = link_send(peer->link.link, type, message, sizeof head + bytes, fd);
    }
    if (status_p)
        *status_p = status;
}

/* ---- candidates -------------------------------------------------------------------- */

/* Return the transport of the present candidate. */
static enum transport_kind candidate_kind(const struct peer *peer)
{
    return peer->endpoint.candidates[peer->endpoint.candidate];
}

/* Return the NIC of the candidate's rail: the one by which the link has reached the
 * peer. */
static uint32_t candidate_nic(const struct peer *peer)
{
    return transport_kind_uses_network(candidate_kind(peer)) ? peer->link.rail : 0;
}

/* Return the candidate's rail; NULL: it is not open. */
static struct rail *candidate_rail(const struct peer *peer)
{
    const struct rendezvous *rdv = peer->rdv;
    for (uint32_t i = 0; i < rdv->rails_count; i++)
        if (rdv->rails[i].kind == (uint32_t)candidate_kind(peer) &&
            rdv->rails[i].nic == candidate_nic(peer))
            return rdv->rails[i].rail;
    return NULL;
}

/* Have the candidate's rail opened. TRYST_OK, TRYST_IN_PROGRESS, or the reason in
 * `text`. */
static tryst_status candidate_rail_open(const struct peer *peer, char *text)
{
    struct rendezvous *rdv = peer->rdv;
    return candidate_rail(peer) ? TRYST_OK
                                : rdv->rail_open(rdv->ctx, (int)candidate_kind(peer),
                                                 candidate_nic(peer), text);
}

/* Write the candidate's transport and interface: "ucx on eth0"; return `text`. */
enum { CANDIDATE_TEXT_BYTES = 64 };
static const char *candidate_text(const struct peer *peer,
                                  char text[CANDIDATE_TEXT_BYTES])
{
    const struct rail *rail = peer->endpoint.ep->rail;
    snprintf(text, CANDIDATE_TEXT_BYTES, "%s%s%s",
             transport_kind_name(candidate_kind(peer)),
             *rail->interface_name ? " on " : "", rail->interface_name);
    return text;
}

static const char *interfaces_advice(const struct peer *peer)
{
    return *peer->endpoint.ep->rail->interface_name
               ? "; TRYST_NET names the interfaces to use"
               : "";
}

void peer_reach_text(const struct peer *peer, char text[PEER_REACH_TEXT_BYTES])
{
    char at[LINK_ADDRESS_TEXT_BYTES], path[CANDIDATE_TEXT_BYTES];
    const char *advice = " (TRYST_NET names the interfaces to use)";
    text[0] = '\0';
    if (peer->link.state == PEER_LINK_CONNECTING && !peer->link.by_unix &&
        peer->link.dialled.family)
        snprintf(text, PEER_REACH_TEXT_BYTES, "; dialling %s%s",
                 link_address_text(&peer->link.dialled, at), advice);
    else if (peer->endpoint.state == PEER_EP_OPENING && peer->endpoint.ep &&
             *peer->endpoint.ep->rail->interface_name)
        snprintf(text, PEER_REACH_TEXT_BYTES, "; %s connects%s",
                 candidate_text(peer, path), advice);
}

static uint32_t rail_index(const struct rendezvous *rdv, const struct rail *rail)
{
    uint32_t i = 0;
    while (i + 1 < rdv->rails_count && rdv->rails[i].rail != rail)
        i++;
    return i;
}

/* Give the endpoint its connect message. */
static void message_deliver(struct peer *peer, const void *data, size_t bytes, int fd)
{
    const struct rail *rail = peer->endpoint.ep->rail;
    if (fd >= 0 && !rail->takes_fds) {
        foreign_fd_close(fd);
        peer_fault(peer, PEER_FAULT_DESCRIPTOR, NULL);
        return;
    }
    rail->ops->ep_message(peer->endpoint.ep, data, bytes, fd);
}

static void held_deliver(struct peer *peer)
{
    list_for_each_safe (&peer->endpoint.held, node, after) {
        struct held_message *message = container_of(node, struct held_message, node);
        if (!peer->endpoint.ep ||
            message->candidate != (uint32_t)peer->endpoint.candidate)
            continue;
        list_remove(node);
        peer->endpoint.held_count--;
        message_deliver(peer, message->data, message->bytes, message->fd);
        mem_free(message);
    }
}

/* Store a transport's text about the path. The text may contain bytes from the peer, so
 * it is escaped. */
static void mechanism_set(struct peer *peer, const char *text, size_t bytes)
{
    text_escape(text, bytes, peer->endpoint.mechanism, sizeof peer->endpoint.mechanism);
}

/* Note the reason for which the candidate is left, for peer_ep_unreached. */
static void refusal_note(struct peer *peer)
{
    (void)text_append(peer->endpoint.refused, sizeof peer->endpoint.refused, "%s%s: %s",
                      *peer->endpoint.refused ? "; " : "",
                      transport_kind_name(candidate_kind(peer)),
                      peer->endpoint.mechanism);
}

/* Leave this candidate: no frame goes over it from here on. The end of the pass closes
 * it. */
static void candidate_leave(struct peer *peer)
{
    assert(peer->life < PEER_GIVING_UP);
    /* from OPENING, STARTING, or READY before the first frame */
    peer->endpoint.state = PEER_EP_REFUSED;
    list_remove(&peer->flush_node);
    engine_reap_soon(peer->rdv);
}

/* Send EP_REFUSED for this candidate, and go on to the next one. */
static void candidate_refuse(struct peer *peer, const char *text)
{
    mechanism_set(peer, text, strlen(text));
    refusal_note(peer);
    LOG_INFO(peer->rdv->log, "cannot reach rank %d over %s: %s", peer->rank,
             transport_kind_name(peer->endpoint.candidates[peer->endpoint.candidate]),
             peer->endpoint.mechanism);
    ep_link_send(peer, LINK_EP_REFUSED, (uint32_t)peer->endpoint.candidate,
                 peer->endpoint.mechanism, strlen(peer->endpoint.mechanism), -1, NULL);
    candidate_leave(peer);
}

void peer_ep_open_send(struct peer *peer)
{
    peer->liveness.answered = false;
    ep_link_send(peer, LINK_EP_OPEN, (uint32_t)peer->endpoint.candidate, NULL, 0, -1,
                 NULL);
}

/* Open the endpoint: the candidate's rails are open. */
static void candidate_open(struct peer *peer)
{
    const struct roster *roster = &peer->rdv->group->roster;
    const struct host_identity mine = roster_host(roster, roster->rank);
    const struct host_identity theirs = roster_host(roster, peer->rank);
    struct ep_params params = {.arg = peer,
                               .peer_rank = peer->rank,
                               .local_rank = roster->rank,
                               .initiator = roster->rank < peer->rank,
                               .loopback = peer->rank == roster->rank,
                               .same_process = identity_same_process(&mine, &theirs),
                               .same_host = identity_same_host(&mine, &theirs),
                               .peer_pid = theirs.pid,
                               .peer_pidfd = peer->liveness.pidfd.fd,
                               .cookie = peer->rdv->cookie,
                               .nonce = peer->link.nonce,
                               .peer_nonce = peer->link.peer_nonce};
    struct rail *rail = candidate_rail(peer);
    tryst_status status = rail ? rail->ops->ep_open(rail, &params, &peer->endpoint.ep)
                               : TRYST_E_UNSUPPORTED;
    if (status != TRYST_OK) {
        peer->endpoint.ep = NULL;
        candidate_refuse(peer, tryst_status_str(status));
        return;
    }
    held_deliver(peer);
}

/* Wait for the fabric, which starts in another thread. Neither rank counts the time:
 * EP_STARTING informs the peer now, and again with each answer to EP_OPEN. */
static void starting_begin(struct peer *peer)
{
    char text[64];
    peer->endpoint.state = PEER_EP_STARTING;
    snprintf(text, sizeof text, "%s starts", transport_kind_name(candidate_kind(peer)));
    mechanism_set(peer, text, strlen(text));
    peer_ep_starting_send(peer);
    peer_live_put(peer);
}

void peer_ep_starting_send(struct peer *peer)
{
    if (peer->endpoint.state == PEER_EP_STARTING)
        ep_link_send(peer, LINK_EP_STARTING, (uint32_t)peer->endpoint.candidate, NULL, 0,
                     -1, NULL);
}

/* Continue after the fabric's start has ended or has timed out. */
static void starting_end(struct peer *peer, tryst_status status, const char *text)
{
    if (peer->life != PEER_ALIVE) { /* the peer has left meanwhile */
        candidate_leave(peer);
        return;
    }
    peer->endpoint.state = PEER_EP_OPENING;
    peer->endpoint.opening_ns = 0;
    if (status != TRYST_OK) {
        candidate_refuse(peer, text);
        return;
    }
    peer_ep_open_send(peer);
    candidate_open(peer);
}

void peer_ep_rail_opened(struct peer *peer, int kind, uint32_t nic, tryst_status status,
                         const char *text)
{
    if (peer->endpoint.state == PEER_EP_STARTING && (int)candidate_kind(peer) == kind &&
        candidate_nic(peer) == nic)
        starting_end(peer, status, text);
}

void peer_ep_open(struct peer *peer, int candidate)
{
    struct rendezvous *rdv = peer->rdv;
    bool loopback = peer->rank == rdv->group->roster.rank;
    assert(peer->life == PEER_ALIVE && !peer->endpoint.ep);
    peer->endpoint.state = PEER_EP_NONE;
    if (candidate == 0)
        peer->endpoint.refused[0] = '\0';
    if (candidate < peer->endpoint.refused_ahead)
        candidate = peer->endpoint.refused_ahead;
    if (candidate >= peer->endpoint.candidates_count && loopback) {
        peer_ep_unreached(peer);
        return;
    }
    if (candidate >= peer->endpoint.candidates_count) {
        /* A fabric may notice a death before the link ends: wait for the link. */
        peer_suspect(peer, SUSPICION_UNREACHED);
        return;
    }
    if (!rdv->peer_events->connect(peer)) {
        peer_give_up(peer, TRYST_E_PEER, "cannot be served: no memory for its frames");
        return;
    }
    peer->endpoint.candidate = candidate;
    peer->bounce.closed = false;
    peer->endpoint.state = PEER_EP_OPENING;
    peer->endpoint.opening_ns = 0;
    peer->liveness.polled_ns = rendezvous_now(rdv);
    if (!loopback)
        peer_ep_open_send(peer);
    char reason[TRANSPORT_TEXT_MAX] = "";
    tryst_status status = candidate_rail_open(peer, reason);
    if (status == TRYST_IN_PROGRESS)
        starting_begin(peer);
    else if (status != TRYST_OK)
        candidate_refuse(peer, reason);
    else
        candidate_open(peer);
}

void peer_ep_unreached(struct peer *peer)
{
    char text[3 * TRANSPORT_TEXT_MAX];
    const char *refused = peer->endpoint.refused;
    snprintf(text, sizeof text, "cannot be reached by any transport: %s",
             *refused ? refused : peer->endpoint.mechanism);
    peer_give_up(peer, TRYST_E_UNREACHABLE, text);
}

void peer_ep_message(struct peer *peer, uint32_t candidate, const void *data,
                     size_t bytes, int fd)
{
    bool open =
        peer->endpoint.state == PEER_EP_OPENING || peer->endpoint.state == PEER_EP_READY;
    if (peer->endpoint.ep && open && candidate == (uint32_t)peer->endpoint.candidate) {
        message_deliver(peer, data, bytes, fd);
        return;
    }
    bool early = peer->endpoint.state == PEER_EP_NONE ||
                 (peer->endpoint.state == PEER_EP_STARTING &&
                  candidate == (uint32_t)peer->endpoint.candidate) ||
                 (peer->endpoint.state != PEER_EP_CLOSING &&
                  candidate > (uint32_t)peer->endpoint.candidate);
    if (early && peer->endpoint.held_count == HELD_MAX) {
        peer_fault(peer, PEER_FAULT_CONNECT_FLOOD, NULL);
        early = false;
    }
    struct held_message *message = early ? mem_alloc(sizeof *message + bytes) : NULL;
    if (!message) {
        foreign_fd_close(fd);
        return;
    }
    memset(message, 0, sizeof *message);
    message->candidate = candidate;
    message->fd = fd;
    message->bytes = bytes;
    memcpy(message->data, data, bytes);
    list_push_back(&peer->endpoint.held, &message->node);
    peer->endpoint.held_count++;
}

void peer_ep_refused(struct peer *peer, uint32_t candidate, const char *text,
                     size_t bytes)
{
    if (candidate >= (uint32_t)peer->endpoint.candidates_count)
        return;
    /* EP_REFUSED may be for a later candidate, while an earlier one is still closing. */
    if (peer->endpoint.refused_ahead <= (int)candidate)
        peer->endpoint.refused_ahead = (int)candidate + 1;
    if (candidate != (uint32_t)peer->endpoint.candidate)
        return;
    if (peer->endpoint.state == PEER_EP_READY && peer->frames.sent) {
        peer_fault(peer, PEER_FAULT_REFUSED_IN_USE, NULL);
        return;
    }
    if (peer->endpoint.state == PEER_EP_OPENING ||
        peer->endpoint.state == PEER_EP_STARTING ||
        peer->endpoint.state == PEER_EP_READY) {
        mechanism_set(peer, text, bytes);
        refusal_note(peer);
        candidate_leave(peer);
    }
}

/* End an OPENING that has timed out. If the peer already uses the endpoint, no other
 * candidate can follow, and the peer is given up. */
static void opening_end(struct peer *peer, const char *why)
{
    char text[TRANSPORT_TEXT_MAX], path[CANDIDATE_TEXT_BYTES];
    snprintf(text, sizeof text, "%s%s did not connect within %s%s",
             peer->liveness.peer_sent ? "was lost: " : "", candidate_text(peer, path),
             why, interfaces_advice(peer));
    if (peer->liveness.peer_sent)
        peer_give_up(peer, TRYST_E_PEER, text);
    else
        candidate_refuse(peer, text);
}

/* Check whether a start has ended or timed out. After a time-out the rank with the slow
 * fabric goes on to the next transport. */
static void starting_poll(struct peer *peer)
{
    char text[TRANSPORT_TEXT_MAX] = "";
    if (peer->endpoint.state != PEER_EP_STARTING)
        return;
    tryst_status status = candidate_rail_open(peer, text);
    if (status != TRYST_IN_PROGRESS)
        starting_end(peer, status, text);
}

/* Count the time of an opening endpoint. A rank without descriptors ends the opening two
 * ticks early, since the other rank cannot name the reason. */
void peer_ep_tick(struct peer *peer, uint64_t passed_ns)
{
    uint64_t limit_ns = peer->rdv->set.connect_timeout_ns;
    uint64_t early_ns = limit_ns >= 4 * TICK_NS ? 2 * TICK_NS : 0;
    bool peer_starts = peer->endpoint.peer_starts;
    peer->endpoint.peer_starts = false;
    starting_poll(peer);
    if (peer_starts)
        return;
    if (peer->endpoint.state != PEER_EP_OPENING || !passed_ns)
        return;
    peer->endpoint.opening_ns += passed_ns;
    if (peer->endpoint.opening_ns >= limit_ns) {
        opening_end(peer, "TRYST_CONNECT_TIMEOUT");
    } else if (peer->endpoint.opening_ns + early_ns >= limit_ns && !descriptors_left(1)) {
        char why[96];
        snprintf(why, sizeof why,
                 "TRYST_CONNECT_TIMEOUT; rank %d has no descriptor left (ulimit -n)",
                 peer->rdv->group->roster.rank);
        opening_end(peer, why);
    }
}

/* Close the endpoint unless closing has begun. True once it is closed and no copy for it
 * runs. */
static bool ep_shut(struct peer *peer)
{
    bounce_lane_close(&peer->bounce);
    if (peer->endpoint.ep && !peer->endpoint.closing) {
        peer->endpoint.closing = true;
        peer->endpoint.ep->rail->ops->ep_close(peer->endpoint.ep);
    }
    return !peer->endpoint.ep && !peer->bounce.busy;
}

/* Open the next candidate after one has been closed. To a peer that has left, no further
 * candidate is opened. */
static void candidate_next(struct peer *peer)
{
    if (peer->life == PEER_ALIVE)
        peer_ep_open(peer, peer->endpoint.candidate + 1);
    else
        peer->endpoint.state = PEER_EP_NONE;
}

void peer_ep_reap(struct peer *peer)
{
    if (peer->endpoint.state == PEER_EP_CLOSING) {
        if (ep_shut(peer)) {
            peer_link_close(peer);
            peer_gone(peer);
        }
    } else if (peer->endpoint.state == PEER_EP_REFUSED) {
        if (ep_shut(peer))
            candidate_next(peer);
    } else if (peer->endpoint.wanted && peer->link.state == PEER_LINK_UP) {
        peer_connect_start(peer); /* the link came up in this pass */
    }
}

/* Wait for LEAVE before giving the peer up, if the link is up: LEAVE travels on another
 * connection and may come shortly after the path breaks. The tick decides. */
void peer_ep_lost(struct peer *peer, const char *text)
{
    const char *what = text ? text : "was lost: a message did not get through";
    if (peer->life >= PEER_GIVING_UP || peer->endpoint.state == PEER_EP_REFUSED)
        return; /* REFUSED: the next candidate is tried in any case */
    if (peer->link.state != PEER_LINK_UP) {
        peer_give_up(peer, TRYST_E_PEER, what);
        return;
    }
    if (text || !peer->endpoint.broken)
        mechanism_set(peer, what, strlen(what));
    peer->endpoint.broken = true;
    peer_suspect(peer, SUSPICION_LOST);
    list_remove(&peer->flush_node);
    engine_tick_at(peer->rdv, 0);
}

/* ---- events of the transports ------------------------------------------------------ */

static void ep_frame(struct endpoint *ep, const void *data, size_t bytes)
{
    struct peer *peer = ep->arg;
    if (peer->life <= PEER_LEFT)
        peer->rdv->peer_events->frame(peer, data, bytes);
}

static void ep_ready(struct endpoint *ep, tryst_status status, const char *text)
{
    struct peer *peer = ep->arg;
    char path[CANDIDATE_TEXT_BYTES];
    if (peer->life >= PEER_GIVING_UP || peer->endpoint.state != PEER_EP_OPENING)
        return;
    if (status != TRYST_OK) {
        candidate_refuse(peer, text);
        return;
    }
    peer->endpoint.state = PEER_EP_READY;
    sched_lane_ready(peer->rdv->sched, &peer->lane, rail_index(peer->rdv, ep->rail),
                     ep->rail->window_bytes, ep->rail->bytes_per_s);
    mechanism_set(peer, text, strlen(text));
    LOG_INFO(peer->rdv->log, "reached rank %d on %s over %s: %s", peer->rank,
             roster_host_name(&peer->rdv->group->roster, peer->rank),
             candidate_text(peer, path), peer->endpoint.mechanism);
    peer_live_put(peer);
    peer_flush_later(peer);
}

static void ep_failed(struct endpoint *ep, tryst_status status, const char *text)
{
    struct peer *peer = ep->arg;
    char reason[2 * TRANSPORT_TEXT_MAX];
    snprintf(reason, sizeof reason, "was lost: %s", text);
    if (status == TRYST_E_PROTOCOL)
        peer_fault(peer, PEER_FAULT_TRANSPORT, text);
    else
        peer_ep_lost(peer, reason);
}

static void ep_mech_dropped(struct endpoint *ep)
{
    struct peer *peer = ep->arg;
    peer->rdv->counters.mechs_dropped++;
}

static void ep_unexpected(struct endpoint *ep, uint64_t tag, size_t bytes)
{
    struct peer *peer = ep->arg;
    char details[64];
    peer->rdv->counters.unexpected_bulk++;
    snprintf(details, sizeof details, "tag %llx, %zu bytes", (unsigned long long)tag,
             bytes);
    peer_fault(peer, PEER_FAULT_BULK, details);
}

static void ep_closed(struct endpoint *ep)
{
    struct peer *peer = ep->arg;
    peer->endpoint.ep = NULL;
    peer->endpoint.closing = false;
    engine_reap_soon(peer->rdv);
}

static tryst_status ep_connect_send(struct endpoint *ep, const void *data, size_t bytes,
                                    int fd)
{
    struct peer *peer = ep->arg;
    tryst_status status;
    ep_link_send(peer, LINK_EP_MESSAGE, (uint32_t)peer->endpoint.candidate, data, bytes,
                 fd, &status);
    return status;
}

static void ep_doorbell(struct endpoint *ep)
{
    struct peer *peer = ep->arg;
    if (peer->link.link)
        (void)link_send(peer->link.link, LINK_DOORBELL, NULL, 0, -1);
}

const struct rail_events peer_rail_events = {.frame = ep_frame,
                                             .ready = ep_ready,
                                             .failed = ep_failed,
                                             .mech_dropped = ep_mech_dropped,
                                             .unexpected = ep_unexpected,
                                             .closed = ep_closed,
                                             .connect_send = ep_connect_send,
                                             .doorbell = ep_doorbell};
