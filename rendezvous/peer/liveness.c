/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a peer is still there.
 *
 * Idea: fabrics do not prove a death, so a socket of ours between the two ranks does. Its closing
 * means that the process is gone, unless LEAVE came before. HEARTBEAT carries how many frames
 * were sent and read, so a data path that swallows frames is noticed too. Silence of the
 * process itself proves nothing: a rank that computes is alive.
 * Callers: link.c (how links end), a pass (tick).
 */
#include "liveness.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock_offset.h"
#include "endpoint.h"
#include "link.h"
#include "rendezvous/op/engine.h"
#include "tree.h"

/** A rank that cannot be connected to is dead, unless we hear within this that it has left; counted
 *  from when we are linked with the one that would tell us. */
#define REFUSED_GRACE_NS (500 * NS_PER_MS)
/* A LEAVE that was sent before the path broke is here by then, even if TCP had to repeat it. */
#define LOST_GRACE_NS (1 * NS_PER_S)
/** Passes of the rail that read what a dead peer has left in its frames. */
enum { LAST_PASSES = 64 };

/* ---- the end of a process ----------------------------------------------------------------- */

static void pidfd_ready(struct poller_source *source, uint32_t events)
{
    struct peer *peer = container_of(source, struct peer, liveness.pidfd);
    (void)events;
    poller_remove(peer->rdv->poller, source);
    peer->liveness.died_ns = rendezvous_now(peer->rdv);
    source->events = 0;
    peer->rdv->tick_ns = 0; /* housekeeping decides, soon */
}

/** Watch the peer's process, where the kernel lets us. */
void pidfd_open_peer(struct peer *peer, int32_t pid)
{
    const struct roster *roster = &peer->rdv->group->roster;
    if (pid <= 0 || peer->liveness.pidfd.fd >= 0 ||
        identity_same_process(&roster->entries[roster->rank].host,
                              &roster->entries[peer->rank].host))
        return;
    peer->liveness.pidfd.fd = (int)syscall(SYS_pidfd_open, pid, 0);
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

/* ---- how a link ends ---------------------------------------------------------------------- */

/** Frames that were already received are read before a death is acted on. */
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
    if (peer->left || peer->rdv->leaving) {
        peer->liveness.end_expected = true; /* not `left`, which we would pass on */
        peer_give_up(peer, TRYST_E_PEER, "has left the group");
        return;
    }
    snprintf(reason, sizeof reason, "died: %.120s", text);
    peer_give_up(peer, TRYST_E_PEER, reason);
}

/** No connection comes about. That is a death, unless the rank has left: of that we may hear in a
 *  moment from others, or in what it sent before. */
void peer_link_refused(struct peer *peer, const char *text)
{
    if (peer->left || peer->rdv->leaving) {
        peer_link_gone(peer, text);
        return;
    }
    peer->liveness.refused_ns = rendezvous_now(peer->rdv);
    snprintf(peer->liveness.gone_text, sizeof peer->liveness.gone_text, "%s", text);
    if (peer->link.tree_parent)
        peer_tree_join(peer->rdv); /* its parent knows */
}

/** It lives, but one of the two processes lacks what a link needs. */
void peer_link_short(struct peer *peer, const char *text)
{
    char reason[TRANSPORT_TEXT_MAX];
    bool connecting = peer->link.state == PEER_LINK_CONNECTING;
    peer_last_frames_read(peer);
    snprintf(reason, sizeof reason, "%s: %.130s",
             connecting ? "cannot be connected to" : "is no longer reached", text);
    peer_give_up(peer, TRYST_E_UNREACHABLE, reason);
}

/** Only now can we hear from our parent who has left. */
void peer_refused_again(struct rendezvous *rdv)
{
    for (int i = 0; i < rdv->group->roster.size; i++)
        if (rdv->group->peers[i].liveness.refused_ns)
            rdv->group->peers[i].liveness.refused_ns = rendezvous_now(rdv);
}

/* ---- housekeeping ------------------------------------------------------------------------- */

/** How long frames may be missing: the heartbeat that tells of them comes up to a tick late, and so
 *  does the look that finds it; the peer is to be named within TRYST_PEER_TIMEOUT. */
static uint64_t behind_limit_ns(uint64_t timeout_ns)
{
    return timeout_ns > 4 * TICK_NS ? timeout_ns - 2 * TICK_NS : timeout_ns / 2;
}

/** `passed_ns` more have passed in which both ranks looked. */
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

/** Its kernel has answered: the connection stands, or waits for a place in the listener's queue. */
static bool connect_is_answered(const struct peer *peer)
{
    return peer->link.link ? link_has_met(peer->link.link) : peer->link.queue_full;
}

/** No sign of the peer for TRYST_CONNECT_TIMEOUT. A connection that stands says that somebody will
 *  read it, or else breaks (keep-alive, TRYST_PEER_TIMEOUT), however long the peer computes. */
static bool connect_is_late(struct peer *peer, uint64_t passed_ns)
{
    if (peer->link.state != PEER_LINK_CONNECTING)
        return false;
    if (!connect_is_answered(peer))
        peer->link.unanswered_ns += passed_ns;
    return peer->link.unanswered_ns >= peer->rdv->set.connect_timeout_ns;
}

/** So long have we looked since the last tick: our own absence is nobody else's silence. */
static uint64_t time_looked(struct peer *peer, uint64_t now_ns)
{
    uint64_t passed_ns = clock_since_ns(peer->liveness.looked_ns, now_ns);
    peer->liveness.looked_ns = now_ns;
    return passed_ns < TICK_NS ? passed_ns : TICK_NS;
}

/** What waits for the peer to look: a peer that computes, or is stopped, is not late, and gets no
 *  second question before it has answered the first. */
static void waiting_tick(struct peer *peer, uint64_t passed_ns)
{
    uint64_t both_ns = peer->liveness.answered ? passed_ns : 0;
    data_path_check(peer, both_ns);
    peer_ep_tick(peer, both_ns);
    if (peer->liveness.answered && !peer->endpoint.next &&
        (peer->liveness.behind || peer->endpoint.state == PEER_EP_OPENING))
        peer_ep_ask(peer);
}

/** Nothing of what our parent in the control tree knows can have come: it has not answered yet. (It may
 *  compute; a parent that has died is refused as well, and then another one is.) */
static bool parent_is_silent(const struct tryst_group *group)
{
    int parent = peer_tree_parent(group, group->roster.rank);
    return parent >= 0 && group->peers[parent].link.state == PEER_LINK_CONNECTING;
}

void peer_tick(struct peer *peer, uint64_t now_ns)
{
    if (peer->life >= PEER_GIVING_UP)
        return;
    peer->rdv->peer_events->tick(peer);
    uint64_t passed_ns = time_looked(peer, now_ns);
    bool late = connect_is_late(peer, passed_ns);
    if (peer->liveness.refused_ns && !peer->left) {
        if (clock_since_ns(peer->liveness.refused_ns, now_ns) >= REFUSED_GRACE_NS &&
            (late || !parent_is_silent(peer->rdv->group))) {
            char reason[TRANSPORT_TEXT_MAX];
            memcpy(reason, peer->liveness.gone_text, sizeof reason);
            peer_link_gone(peer, reason);
        }
        return;
    }
    if (late) {
        peer_give_up(peer, TRYST_E_PEER,
                     "could not be connected to within TRYST_CONNECT_TIMEOUT");
        return;
    }
    if (peer->link.again && peer->link.state == PEER_LINK_CONNECTING && !peer->left)
        peer_link_connect(peer);
    if (peer->liveness.unreached_ns &&
        clock_since_ns(peer->liveness.unreached_ns, now_ns) >= PEER_DEATH_GRACE_NS) {
        peer_ep_unreached(peer);
        return;
    }
    if (peer->left && peer->in.frames_read >= peer->liveness.leave_sent) {
        peer_heartbeat_answer(peer);
        peer_give_up(peer, TRYST_E_PEER, "has left the group");
        return;
    }
    if (peer->liveness.lost_ns &&
        (peer->left || clock_since_ns(peer->liveness.lost_ns, now_ns) > LOST_GRACE_NS)) {
        peer_give_up(peer, TRYST_E_PEER,
                     peer->left ? "has left the group" : peer->endpoint.mechanism);
        return;
    }
    if (peer->liveness.died_ns &&
        clock_since_ns(peer->liveness.died_ns, now_ns) > PEER_DEATH_GRACE_NS) {
        peer_link_gone(peer, "its process has ended");
        return;
    }
    peer_heartbeat(peer);
    peer_clock_send(peer);
    waiting_tick(peer, passed_ns);
}
