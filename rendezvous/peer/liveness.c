/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Liveness of a peer.
 *
 * Idea: fabrics do not prove a death, so a socket between the two ranks does. When it
 * closes, the process is dead, unless LEAVE came before. HEARTBEAT carries the numbers of
 * frames sent and read, so a data path that swallows frames is noticed too. Silence of
 * the process itself proves nothing: a rank that computes is alive.
 */
#include "liveness.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "abort.h"
#include "clock_offset.h"
#include "core/os/fd.h"
#include "endpoint.h"
#include "link.h"
#include "loss.h"
#include "rendezvous/op/engine.h"
#include "tree.h"

/* The time for better evidence to come. REFUSED counts from the time at which the link to
 * the parent in the control tree, which reports leaves, is up. LOST: a LEAVE that was
 * sent before has arrived by then, even if TCP had to retransmit it. */
static const uint64_t graces_ns[SUSPICION_REASONS] = {
    [SUSPICION_REFUSED] = 500 * NS_PER_MS,
    [SUSPICION_UNREACHED] = 200 * NS_PER_MS,
    [SUSPICION_LOST] = 1 * NS_PER_S,
    [SUSPICION_DIED] = 200 * NS_PER_MS,
};

/* The most passes of the rail that read the last frames of a dead peer. */
enum { LAST_PASSES = 64 };

/* ---- suspicion --------------------------------------------------------------------- */

static uint64_t suspicion_end_ns(const struct suspicion *suspicion)
{
    return suspicion->since_ns + graces_ns[suspicion->reason];
}

/* Have the next tick run when the grace is over, at the latest. */
static void suspicion_tick_set(struct rendezvous *rdv, const struct suspicion *suspicion)
{
    engine_tick_at(rdv, suspicion_end_ns(suspicion));
}

/* Keep, of two reasons, the one with the earlier end of grace. */
void peer_suspect(struct peer *peer, enum suspicion_reason reason)
{
    struct suspicion *suspicion = &peer->liveness.suspicion;
    struct suspicion now = {.reason = (uint8_t)reason,
                            .since_ns = rendezvous_now(peer->rdv)};
    if (suspicion->reason == SUSPICION_NONE ||
        suspicion_end_ns(&now) < suspicion_end_ns(suspicion))
        *suspicion = now;
    suspicion_tick_set(peer->rdv, suspicion);
}

/* ---- the end of a process ---------------------------------------------------------- */

static void pidfd_ready(struct poller_source *source, uint32_t events)
{
    struct peer *peer = container_of(source, struct peer, liveness.pidfd);
    (void)events;
    poller_remove(peer->rdv->poller, source);
    source->events = 0;
    peer_suspect(peer, SUSPICION_DIED);
}

void pidfd_open_peer(struct peer *peer, int32_t pid)
{
    const struct roster *roster = &peer->rdv->group->roster;
    if (pid <= 0 || peer->liveness.pidfd.fd >= 0 ||
        roster->ranks[roster->rank].process_id == roster->ranks[peer->rank].process_id)
        return;
    peer->liveness.pidfd.fd = FD_MAKE((int)syscall(SYS_pidfd_open, pid, 0));
    peer->liveness.pidfd.events = EPOLLIN;
    peer->liveness.pidfd.fn = pidfd_ready;
    if (peer->liveness.pidfd.fd >= 0 &&
        poller_add(peer->rdv->poller, &peer->liveness.pidfd) != TRYST_OK)
        peer->liveness.pidfd.events = 0;
}

void pidfd_close_peer(struct peer *peer)
{
    if (peer->liveness.pidfd.fd < 0)
        return;
    if (peer->liveness.pidfd.events)
        poller_remove(peer->rdv->poller, &peer->liveness.pidfd);
    close(peer->liveness.pidfd.fd);
    peer->liveness.pidfd.fd = -1;
}

/* ---- how a link ends --------------------------------------------------------------- */

void peer_last_frames_read(struct peer *peer)
{
    for (int i = 0; i < LAST_PASSES && peer->endpoint.ep && peer->life <= PEER_LEFT; i++)
        if (peer->endpoint.ep->rail->ops->progress(peer->endpoint.ep->rail) == 0)
            return;
}

void peer_link_gone(struct peer *peer, const char *text)
{
    char reason[TRANSPORT_TEXT_MAX];
    peer_last_frames_read(peer);
    if (peer_has_left(peer) || peer->rdv->leave.state != LEAVE_NONE) {
        /* not `left`, which would be forwarded to other ranks */
        peer->liveness.end_expected = true;
        peer_give_up(peer, TRYST_E_LEFT, "has left the group");
        return;
    }
    snprintf(reason, sizeof reason, "died: %.120s", text);
    peer_give_up(peer, TRYST_E_PEER, reason);
}

/* Give the peer up as unreachable: no connection came about, which proves no death.
 * `why` names the address. */
static void peer_link_unreached(struct peer *peer, const char *why)
{
    char reason[PEER_TEXT_MAX];
    if (peer_has_left(peer) || peer->rdv->leave.state != LEAVE_NONE) {
        peer_link_gone(peer, why);
        return;
    }
    peer_last_frames_read(peer);
    snprintf(reason, sizeof reason,
             "cannot be reached: %.270s; if its process runs, check TRYST_NET, "
             "TRYST_PORT_RANGE and the firewall",
             why);
    peer_give_up(peer, TRYST_E_UNREACHABLE, reason);
}

/* Suspect a peer to which no connection comes about. A report that the rank has left may
 * still come, from other ranks or in earlier messages. Without a report the peer is dead
 * if it was met before, else unreachable. */
void peer_link_refused(struct peer *peer, const char *text)
{
    if (peer_has_left(peer) || peer->rdv->leave.state != LEAVE_NONE) {
        peer_link_gone(peer, text);
        return;
    }
    peer_suspect(peer, SUSPICION_REFUSED);
    snprintf(peer->liveness.gone_text, sizeof peer->liveness.gone_text, "%s", text);
    if (peer->link.tree_parent)
        peer_tree_join(peer->rdv); /* the parent's parent may have the report */
}

void peer_link_short(struct peer *peer, const char *text)
{
    char reason[TRANSPORT_TEXT_MAX];
    bool connecting = peer->link.state == PEER_LINK_CONNECTING;
    peer_last_frames_read(peer);
    snprintf(reason, sizeof reason, "%s: %.130s",
             connecting ? "cannot be connected to" : "cannot be reached any more", text);
    peer_give_up(peer, TRYST_E_UNREACHABLE, reason);
}

void peer_refused_again(struct rendezvous *rdv)
{
    list_for_each_safe (&rdv->group->met, node, after) {
        struct peer *peer = container_of(node, struct peer, node);
        if (peer_is_refused(peer))
            peer->liveness.suspicion.since_ns = rendezvous_now(rdv);
    }
}

/* ---- housekeeping ------------------------------------------------------------------ */

/* Return how long frames may be missing. The heartbeat that reports them and the check
 * that finds them come up to a tick late each, and the peer is to be given up within
 * TRYST_PEER_TIMEOUT. */
static uint64_t behind_limit_ns(uint64_t timeout_ns)
{
    return timeout_ns > 4 * TICK_NS ? timeout_ns - 2 * TICK_NS : timeout_ns / 2;
}

/* Check for missing frames, after `passed_ns` more in which both ranks made passes. */
static void data_path_check(struct peer *peer, uint64_t passed_ns)
{
    bool behind = peer->in.frames_read < peer->liveness.peer_sent;
    bool still = behind && peer->liveness.behind &&
                 peer->in.frames_read == peer->liveness.behind_read;
    peer->liveness.behind = behind;
    peer->liveness.behind_read = peer->in.frames_read;
    peer->liveness.behind_ns = still ? peer->liveness.behind_ns + passed_ns : 0;
    if (still &&
        peer->liveness.behind_ns >= behind_limit_ns(peer->rdv->set.peer_timeout_ns))
        peer_give_up(peer, TRYST_E_PEER,
                     "has sent frames that do not arrive: its data path is dead");
}

/* True if the peer's kernel has answered: the connection is established, or waits for a
 * place in the listener's queue. */
static bool connect_is_answered(const struct peer *peer)
{
    return peer->link.link ? link_has_met(peer->link.link) : peer->link.queue_full;
}

/* Count `passed_ns` more. True if the peer's kernel has not answered for
 * TRYST_CONNECT_TIMEOUT. An established connection needs no time-out here: the peer reads
 * it when it stops computing, or it breaks (keep-alive, TRYST_PEER_TIMEOUT). */
static bool connect_time_count(struct peer *peer, uint64_t passed_ns)
{
    if (peer->link.state != PEER_LINK_CONNECTING)
        return false;
    if (!connect_is_answered(peer)) {
        peer->link.unanswered_ns += passed_ns;
        uint64_t since_ns =
            clock_since_ns(peer->link.attempt_since_ns, rendezvous_now(peer->rdv));
        peer->link.attempt_ns += passed_ns < since_ns ? passed_ns : since_ns;
    }
    return peer->link.unanswered_ns >= peer->rdv->set.connect_timeout_ns;
}

/* Return the time since the last tick, a tick at most: time in which this rank made no
 * pass is not the peer's silence. */
static uint64_t elapsed_ns_update(struct peer *peer, uint64_t now_ns)
{
    uint64_t passed_ns = clock_since_ns(peer->liveness.polled_ns, now_ns);
    peer->liveness.polled_ns = now_ns;
    return passed_ns < TICK_NS ? passed_ns : TICK_NS;
}

/* Check what waits for the peer to make passes. A peer that computes, or is stopped, is
 * not late, and receives no second EP_OPEN before it has answered the first. */
static void waiting_tick(struct peer *peer, uint64_t passed_ns)
{
    uint64_t both_ns = peer->liveness.answered ? passed_ns : 0;
    data_path_check(peer, both_ns);
    peer_ep_tick(peer, both_ns);
    if (peer->liveness.answered && peer->endpoint.state != PEER_EP_REFUSED &&
        (peer->liveness.behind || peer->endpoint.state == PEER_EP_OPENING))
        peer_ep_open_send(peer);
}

/* True if the parent in the control tree has not answered yet, so that it cannot have
 * reported a leave. (The parent may compute. A parent that has died is refused as well,
 * and the next ancestor takes its place.) */
static bool parent_is_silent(const struct tryst_group *group)
{
    int parent = peer_tree_parent(group, group->roster.rank);
    const struct peer *peer = parent >= 0 ? group->peers[parent] : NULL;
    return peer && peer->link.state == PEER_LINK_CONNECTING;
}

/* Give the peer up: no better evidence came within the grace. */
static void suspicion_holds(struct peer *peer)
{
    char text[PEER_TEXT_MAX];
    switch ((enum suspicion_reason)peer->liveness.suspicion.reason) {
    case SUSPICION_REFUSED:
        /* the reason, as kept by peer_link_refused */
        memcpy(text, peer->liveness.gone_text, sizeof text);
        if (peer->link.met)
            peer_link_gone(peer, text);
        else
            peer_link_unreached(peer, text);
        break;
    case SUSPICION_UNREACHED: peer_ep_unreached(peer); break;
    case SUSPICION_LOST:
        peer_give_up(peer, peer->left ? TRYST_E_LEFT : TRYST_E_PEER,
                     peer->left ? "has left the group" : peer->endpoint.mechanism);
        break;
    case SUSPICION_DIED: peer_link_gone(peer, "its process has ended"); break;
    case SUSPICION_NONE:
    case SUSPICION_REASONS: break;
    }
}

/* Decide a suspicion when its grace is over. True if it was decided, or if a refused
 * link still waits: the tick then does nothing more. A refused link is not decided on
 * before the parent in the control tree can have reported that the peer has left. */
static bool suspicion_tick(struct peer *peer, uint64_t now_ns, bool late)
{
    const struct suspicion *suspicion = &peer->liveness.suspicion;
    bool over = now_ns >= suspicion_end_ns(suspicion);
    if (suspicion->reason == SUSPICION_NONE)
        return false;
    if (!over)
        suspicion_tick_set(peer->rdv, suspicion);
    if (suspicion->reason == SUSPICION_REFUSED)
        over = (over && (late || !parent_is_silent(peer->rdv->group))) ||
               peer_has_left(peer);
    if (suspicion->reason == SUSPICION_LOST)
        over = over || peer->left;
    if (over)
        suspicion_holds(peer);
    return over || suspicion->reason == SUSPICION_REFUSED;
}

/* True if the peer has left and all its frames have been read. */
static bool has_ended(const struct peer *peer)
{
    return peer->left && peer->in.frames_read >= peer->liveness.leave_sent;
}

/* End a connect that has timed out. A peer that accepted and dropped each connection was
 * reached. */
static void connect_end(struct peer *peer)
{
    char why[PEER_TEXT_MAX];
    if (peer->link.met && !peer_has_left(peer)) {
        peer_give_up(peer, TRYST_E_PEER,
                     "could not be connected to within TRYST_CONNECT_TIMEOUT");
        return;
    }
    peer_link_why(peer, "no answer within TRYST_CONNECT_TIMEOUT", why);
    peer_link_unreached(peer, why);
}

void peer_tick(struct peer *peer, uint64_t now_ns)
{
    if (peer->life >= PEER_GIVING_UP)
        return;
    peer->rdv->peer_events->tick(peer);
    uint64_t passed_ns = elapsed_ns_update(peer, now_ns);
    bool late = connect_time_count(peer, passed_ns);
    if (has_ended(peer)) {
        peer_heartbeat_answer(peer);
        peer_give_up(peer, TRYST_E_LEFT, "has left the group");
        return;
    }
    if (suspicion_tick(peer, now_ns, late))
        return;
    if (late) {
        connect_end(peer);
        return;
    }
    if (peer->link.again && peer->link.state == PEER_LINK_CONNECTING && !peer->left)
        peer_link_redial(peer);
    else
        peer_link_turn(peer);
    peer_heartbeat(peer);
    aborts_send(peer);
    peer_clock_send(peer);
    peer_loss_tick(peer, now_ns);
    if (peer->life >= PEER_GIVING_UP)
        return;
    waiting_tick(peer, passed_ns);
}
