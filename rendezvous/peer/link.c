/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer's link: connect on demand, and hand each message to its reader.
 *
 * Idea: the ways to a peer (transports/reach.h) are guesses, and a connection is the
 * proof. A way has a moment to answer, then the next one is dialled, round by round, with
 * more time in each; the way that connects decides on which rail the endpoint opens.
 *
 * Invariants: when both ranks connect at once, the lower rank's connection stays
 * (accept.c). A connection that was established is not given up for another way: the
 * peer's process may be busy.
 */
#include "link.h"

#include <stdio.h>
#include <string.h>

#include "abort.h"
#include "clock_offset.h"
#include "core/os/descriptors.h"
#include "core/os/foreign_fd.h"
#include "core/text/text.h"
#include "endpoint.h"
#include "fault.h"
#include "hello.h"
#include "liveness.h"
#include "loss.h"
#include "messages.h"
#include "rendezvous/op/engine.h"
#include "transports/reach.h"
#include "tree.h"

/* Pause before a listener with a full queue is tried again. */
#define RECONNECT_NS (20 * NS_PER_MS)
/* Time for a way to answer in the first round; four times as much in each later one, up
 * to the most. The peer's kernel answers within a round trip, but a first packet may be
 * lost (TCP repeats it after 1 s). RFC 8305 recommends 250 ms. */
#define WAY_NS     (250 * NS_PER_MS)
#define WAY_MAX_NS (16 * NS_PER_S)

/* ---- connecting -------------------------------------------------------------------- */

/* Find the rail that the link leaves from. */
static uint32_t link_rail(const struct peer *peer)
{
    const struct roster *roster = &peer->rdv->group->roster;
    const struct host_identity mine = roster_host(roster, roster->rank);
    const struct host_identity theirs = roster_host(roster, peer->rank);
    struct link_address local;
    return link_own_address(peer->link.link, &local) ? reach_rail(&mine, &local)
                                                     : reach_rail_near(&mine, &theirs);
}

void peer_link_up(struct peer *peer)
{
    struct rendezvous *rdv = peer->rdv;
    peer->link.state = PEER_LINK_UP;
    peer->link.rail = link_rail(peer);
    peer->link.via_tcp = false;
    link_fds_take(peer->link.link);
    /* the suspicion was about the link */
    peer->liveness.suspicion = (struct suspicion){0};
    peer->link.again = false;
    if (peer->link.tree_parent)
        peer_refused_again(rdv);
    descriptors_low_refresh(); /* for the endpoint: a fabric opens descriptors */
    if (link_is_unix(peer->link.link))
        pidfd_open_peer(peer, link_peer_pid(peer->link.link));
    peer_live_put(peer);
    peer_clock_send(peer);
    aborts_send(peer);
    peer_left_send_all(peer);
    if (rdv->leave.state >= LEAVE_SENT)
        peer_leave(peer);
    /* The endpoint is not opened here: the peer's next message may be LEAVE, and opening
     * a rail may take a second. */
    if (peer->endpoint.wanted)
        engine_reap_soon(rdv);
}

void peer_link_why(const struct peer *peer, const char *text, char why[PEER_TEXT_MAX])
{
    char at[LINK_ADDRESS_TEXT_BYTES];
    const char *transport = peer->endpoint.candidates_count
                                ? transport_kind_name(peer->endpoint.candidates[0])
                                : "any transport";
    if (peer->link.by_unix)
        snprintf(why, PEER_TEXT_MAX, "no Unix link for %s: %s", transport, text);
    else if (!peer->link.dialled.family)
        snprintf(why, PEER_TEXT_MAX, "no TCP link for %s: %s", transport, text);
    else
        snprintf(why, PEER_TEXT_MAX, "no TCP link to %s for %s: %s%s%s%s",
                 link_address_text(&peer->link.dialled, at), transport, text,
                 *peer->link.tried ? " (before: " : "", peer->link.tried,
                 *peer->link.tried ? ")" : "");
}

/* Note why a way failed, once for each. */
static void way_note(struct peer *peer, const char *text)
{
    char at[LINK_ADDRESS_TEXT_BYTES];
    if (peer->link.round == 0)
        (void)text_append(peer->link.tried, sizeof peer->link.tried, "%s%s: %s",
                          *peer->link.tried ? "; " : "",
                          link_address_text(&peer->link.dialled, at), text);
}

/* Get way number `attempt`. Returns NULL, or the reason why the list is shorter. */
static const char *peer_way(const struct peer *peer, uint32_t attempt,
                            struct reach_way *way_p)
{
    const struct roster *roster = &peer->rdv->group->roster;
    const struct host_identity mine = roster_host(roster, roster->rank);
    const struct host_identity theirs = roster_host(roster, peer->rank);
    const char *why = "";
    return reach_way(&mine, &theirs, select_pair_number(roster->rank, peer->rank),
                     &peer->rdv->scopes_here, attempt, way_p, &why)
               ? NULL
               : why;
}

/* Have the next tick run within `ns`. */
static void tick_within(struct rendezvous *rdv, uint64_t ns)
{
    engine_tick_at(rdv, rendezvous_now(rdv) + ns);
}

static void connect_later(struct peer *peer)
{
    peer->link.again = true;
    tick_within(peer->rdv, RECONNECT_NS);
}

/* Suspect a peer without an address that can be dialled from here; its own connection may
 * still come. */
static void connect_nowhere(struct peer *peer, const char *text)
{
    char why[PEER_TEXT_MAX];
    peer_link_why(peer, text, why);
    peer_link_refused(peer, why);
}

static uint64_t way_limit_ns(const struct peer *peer)
{
    uint64_t limit_ns = WAY_NS;
    for (uint32_t i = 0; i < peer->link.round && limit_ns < WAY_MAX_NS; i++)
        limit_ns *= 4;
    return limit_ns;
}

/* Begin with the way by which a rank of the same host was met after other ways had
 * failed. */
static void first_way_find(struct peer *peer)
{
    const struct roster *roster = &peer->rdv->group->roster;
    struct reach_way way;
    list_for_each_safe (&peer->rdv->group->met, node, after) {
        const struct peer *other = container_of(node, struct peer, node);
        if (other->link.state != PEER_LINK_UP || !other->link.attempt ||
            roster->ranks[other->rank].host != roster->ranks[peer->rank].host)
            continue;
        for (uint32_t i = 0; !peer_way(peer, i, &way); i++)
            if (way.rail == other->link.from &&
                memcmp(way.address.ip, other->link.dialled.ip, sizeof way.address.ip) ==
                    0)
                peer->link.attempt = peer->link.first = i;
        return;
    }
}

/* Dial `way`, by the Unix socket if link.by_unix. */
static tryst_status way_dial(struct peer *peer, const struct reach_way *way)
{
    struct rendezvous *rdv = peer->rdv;
    const struct roster *roster = &rdv->group->roster;
    const struct host_identity mine = roster_host(roster, roster->rank);
    struct link_address from = {.family = 0};
    peer->link.dialled = way->address;
    peer->link.from = way->rail;
    peer->link.attempt_ns = 0;
    peer->link.attempt_since_ns = rendezvous_now(rdv);
    if (way->rail >= 0) {
        from.family = mine.rails[way->rail].family;
        memcpy(from.ip, mine.rails[way->rail].ip, sizeof from.ip);
    }
    if (!peer->link.by_unix)
        tick_within(rdv, way_limit_ns(peer));
    return link_connect(rdv->poller, rdv->log, &way->address,
                        way->rail >= 0 ? &from : NULL, peer->link.by_unix,
                        rdv->set.peer_timeout_ns, &peer_link_events, peer,
                        &peer->link.link);
}

void peer_link_connect(struct peer *peer)
{
    struct rendezvous *rdv = peer->rdv;
    const struct roster *roster = &rdv->group->roster;
    const struct host_identity mine = roster_host(roster, roster->rank);
    const struct host_identity theirs = roster_host(roster, peer->rank);
    struct reach_way way = {.address = theirs.link, .rail = -1};
    const char *nowhere = NULL;
    peer->link.by_unix = !peer->link.via_tcp && identity_unix_reaches(&mine, &theirs);
    if (peer->link.state == PEER_LINK_NONE) {
        peer->liveness.polled_ns = rendezvous_now(rdv);
        first_way_find(peer);
    }
    peer->link.state = PEER_LINK_CONNECTING;
    peer->link.duplicate = false;
    peer->link.again = false;
    if (!peer->link.by_unix)
        nowhere = peer_way(peer, peer->link.attempt, &way);
    if (nowhere) {
        connect_nowhere(peer, nowhere);
        return;
    }
    tryst_status status = way_dial(peer, &way);
    peer->link.queue_full = status == TRYST_AGAIN;
    if (status == TRYST_OK)
        hello_send(peer, peer->link.link);
    else if (status == TRYST_AGAIN)
        connect_later(peer);
    else
        peer_give_up(
            peer, TRYST_E_UNREACHABLE,
            "cannot be connected to: no socket or no memory for its link here; raise the "
            "limit of open files (ulimit -n)");
}

/* Advance to the next way of a round, and to the first one after the last; true: a round
 * has ended. */
static bool way_advance(struct peer *peer)
{
    struct reach_way way;
    uint32_t next = peer->link.attempt + 1;
    if (peer_way(peer, next, &way))
        next = 0;
    peer->link.attempt = next;
    return next == peer->link.first;
}

/* Go on to the next way. False: the Unix socket is used, or a round has ended that proves
 * that no process listens: all ways were refused, or one was and the others had no answer
 * in the time of a second round (the first one, if the peer was met before). */
static bool way_next(struct peer *peer)
{
    if (peer->link.by_unix)
        return false;
    if (!way_advance(peer))
        return true;
    bool long_enough = peer->link.met || peer->link.round > 0;
    if (!peer->link.silent || (peer->link.refused && long_enough))
        return false;
    peer->link.round++;
    peer->link.silent = peer->link.refused = false;
    return true;
}

void peer_link_redial(struct peer *peer)
{
    peer_link_connect(peer);
    if (peer->rdv->leave.state >= LEAVE_SENT && peer->life == PEER_ALIVE)
        peer_leave(peer);
}

void peer_link_turn(struct peer *peer)
{
    struct reach_way way;
    if (peer->link.state != PEER_LINK_CONNECTING || !peer->link.link ||
        peer->link.by_unix || peer->link.attempt_ns < way_limit_ns(peer) ||
        link_is_decided(peer->link.link))
        return;
    if (peer_way(peer, 1, &way)) /* the only one: the kernel goes on to dial */
        return;
    link_close(peer->link.link);
    peer->link.link = NULL;
    peer->link.silent = true;
    way_note(peer, "no answer");
    if (way_next(peer))
        peer_link_redial(peer);
}

/* ---- messages ---------------------------------------------------------------------- */

static void heartbeat_read(struct peer *peer, const void *data, size_t bytes)
{
    struct link_heartbeat counts;
    if (bytes != sizeof counts)
        return;
    memcpy(&counts, data, sizeof counts);
    peer->liveness.peer_sent = counts.sent;
    peer->liveness.peer_read = counts.read;
    peer->liveness.answered = true;
}

static void leave_read(struct peer *peer, const void *data, size_t bytes)
{
    struct link_heartbeat leave;
    if (bytes != sizeof leave)
        return;
    memcpy(&leave, data, sizeof leave);
    peer->liveness.leave_sent = leave.sent;
    peer->liveness.peer_read = leave.read;
    peer_left_note(peer);
}

/* Give up a peer that has given this rank up: it lives, and has closed its endpoint. */
static void gave_up_read(struct peer *peer, tryst_status status, const char *text,
                         size_t bytes)
{
    char reason[PEER_TEXT_MAX + PEER_LOSS_TEXT_MAX] = "gave up: ";
    size_t head = strlen(reason);
    peer_last_frames_read(peer);
    if (peer->left || peer->rdv->leave.state != LEAVE_NONE)
        return;
    text_escape(text, bytes, reason + head, sizeof reason - head);
    peer_give_up(peer, status, reason);
}

static void ep_link_read(struct peer *peer, uint8_t type, const void *data, size_t bytes,
                         int fd)
{
    struct link_ep head;
    const char *rest = (const char *)data + sizeof head;
    if (bytes < sizeof head) {
        foreign_fd_close(fd);
        return;
    }
    memcpy(&head, data, sizeof head);
    bytes -= sizeof head;
    if (type == LINK_EP_MESSAGE) {
        peer_ep_message(peer, head.candidate, rest, bytes, fd);
        return;
    }
    if (type == LINK_EP_REFUSED) {
        peer_ep_refused(peer, head.candidate, rest, bytes);
        return;
    }
    if (type == LINK_EP_STARTING) {
        peer->endpoint.peer_starts = true;
        return;
    }
    if (peer->endpoint.state == PEER_EP_NONE) {
        peer->endpoint.wanted = true;
        peer_connect_start(peer);
    }
    peer_ep_starting_send(peer);
    peer_heartbeat_answer(peer);
}

/* Read the first message on a connection that this rank has opened. */
static void connect_answer(struct peer *peer, uint8_t type, const void *data,
                           size_t bytes)
{
    /* DUPLICATE: the peer's own connection is on its way here and stays. Until it arrives
     * this connection carries LEAVE, and shows the peer's end. */
    const char *wrong;
    if (type == LINK_DUPLICATE) {
        peer->link.duplicate = true;
        return;
    }
    if (hello_check(peer->rdv, type, data, bytes, &wrong) == peer) {
        peer_link_up(peer);
        return;
    }
    if (way_next(peer)) { /* another process has the peer's address here */
        link_close(peer->link.link);
        peer->link.link = NULL;
        peer_link_redial(peer);
        return;
    }
    peer_give_up(peer, TRYST_E_HANDSHAKE, "did not show this session's cookie");
}

static void peer_message(void *arg, struct link *link, uint8_t type, const void *data,
                         size_t bytes, int fd)
{
    struct peer *peer = arg;
    (void)link;
    if (peer->link.state != PEER_LINK_UP) {
        foreign_fd_close(fd);
        connect_answer(peer, type, data, bytes);
        return;
    }
    if (fd >= 0 && type != LINK_EP_MESSAGE) {
        foreign_fd_close(fd);
        peer_fault(peer, PEER_FAULT_DESCRIPTOR, NULL);
        return;
    }
    switch (type) {
    case LINK_EP_OPEN:
    case LINK_EP_STARTING:
    case LINK_EP_MESSAGE:
    case LINK_EP_REFUSED: ep_link_read(peer, type, data, bytes, fd); return;
    case LINK_HEARTBEAT: heartbeat_read(peer, data, bytes); break;
    case LINK_LEAVE: leave_read(peer, data, bytes); break;
    case LINK_ABORT: abort_read(peer, data, bytes); break;
    case LINK_LEFT: peer_left_read(peer, data, bytes); break;
    case LINK_GAVE_UP: gave_up_read(peer, TRYST_E_PEER, data, bytes); break;
    case LINK_UNREACHED: gave_up_read(peer, TRYST_E_UNREACHABLE, data, bytes); break;
    case LINK_LOSS: peer_loss_read(peer, data, bytes); break;
    case LINK_CLOCK: peer_clock_read(peer, data, bytes); break;
    default: break; /* DOORBELL: it has woken the poller, its only purpose */
    }
}

static void peer_closed(void *arg, struct link *link, tryst_status status,
                        const char *text)
{
    struct peer *peer = arg;
    const struct roster *roster = &peer->rdv->group->roster;
    bool short_of = status == TRYST_E_NOMEM || status == TRYST_E_SYSTEM;
    peer->link.link = NULL;
    bool connecting = peer->link.state == PEER_LINK_CONNECTING;
    bool unix_failed = connecting && link_is_unix(link) && !peer->link.via_tcp &&
                       roster->ranks[peer->rank].link.family != 0;
    /* The peer listens, and has dropped this connection as one of many that have not sent
     * HELLO: no proof of a death. */
    bool dropped = connecting && status == TRYST_E_PEER && link_has_met(link) &&
                   !peer->link.duplicate && !peer->left;
    char reason[PEER_TEXT_MAX];
    if (connecting)
        peer->link.met |=
            link_has_met(link) || (status == TRYST_E_PEER && !unix_failed &&
                                   (peer->link.by_unix || peer->link.unix_refused));
    peer->link.unix_refused |= unix_failed && status == TRYST_E_PEER;
    if (connecting && !peer->link.met && !short_of)
        peer_link_why(peer, text, reason);
    else
        snprintf(reason, sizeof reason, "%s", text);
    if (connecting && !peer->link.met && !peer->link.by_unix)
        way_note(peer, text);
    peer->link.refused |= connecting && !peer->link.by_unix && status == TRYST_E_PEER;
    link_close(link);
    if (peer->life >= PEER_GIVING_UP)
        return;
    if (dropped) { /* by the peer, or by another process with the peer's address */
        if (!peer->link.by_unix)
            (void)way_advance(peer);
        connect_later(peer);
        return;
    }
    if (unix_failed || (connecting && !short_of && way_next(peer))) {
        peer->link.via_tcp |= unix_failed;
        peer_link_redial(peer);
        return;
    }
    if (short_of && !peer->left)
        peer_link_short(peer, reason);
    else if (connecting)
        peer_link_refused(peer, reason);
    else
        peer_link_gone(peer, reason);
}

const struct link_events peer_link_events = {.message = peer_message,
                                             .closed = peer_closed};

void peer_link_close(struct peer *peer)
{
    if (peer->link.link)
        link_close(peer->link.link);
    peer->link.link = NULL;
    peer->link.state = PEER_LINK_NONE;
    pidfd_close_peer(peer);
}

/* ---- send -------------------------------------------------------------------------- */

static void counts_send(struct peer *peer, uint8_t type)
{
    struct link_heartbeat counts = {.sent = peer->out.frames_sent,
                                    .read = peer->in.frames_read};
    if (!peer->link.link || peer->link.state != PEER_LINK_UP)
        return;
    peer->liveness.heartbeat_sent = counts.sent;
    peer->liveness.heartbeat_read = counts.read;
    (void)link_send(peer->link.link, type, &counts, sizeof counts, -1);
}

void peer_heartbeat(struct peer *peer)
{
    if (peer->out.frames_sent != peer->liveness.heartbeat_sent ||
        peer->in.frames_read != peer->liveness.heartbeat_read)
        counts_send(peer, LINK_HEARTBEAT);
}

void peer_heartbeat_answer(struct peer *peer)
{
    counts_send(peer, LINK_HEARTBEAT);
}

void peer_gave_up_send(const struct peer *peer, struct link *link)
{
    const char *text = peer->liveness.gone_text;
    bool unreached = peer->liveness.gone_status == TRYST_E_UNREACHABLE;
    (void)link_send(link, unreached ? LINK_UNREACHED : LINK_GAVE_UP, text, strlen(text),
                    -1);
}

/* Send LEAVE. Connect for that to a neighbour in the control tree that has no link yet:
 * its kernel keeps the message, and the neighbour forwards it to the ranks behind it. */
void peer_leave(struct peer *peer)
{
    static const struct link_heartbeat nothing;
    const struct tryst_group *group = peer->rdv->group;
    aborts_send(peer);
    if (peer->link.state == PEER_LINK_NONE && peer->life == PEER_ALIVE &&
        peer_tree_neighbours(group, group->roster.rank, peer->rank))
        peer_link_connect(peer);
    if (peer->link.link && peer->link.state == PEER_LINK_CONNECTING) {
        peer_left_send_all(peer);
        (void)link_send(peer->link.link, LINK_LEAVE, &nothing, sizeof nothing, -1);
    } else {
        counts_send(peer, LINK_LEAVE);
    }
}

bool peer_leave_is_sent(const struct peer *peer)
{
    if (!peer->link.link)
        return !peer->link.again;
    return link_is_flushed(peer->link.link) &&
           (peer->link.state != PEER_LINK_CONNECTING || link_has_met(peer->link.link));
}
