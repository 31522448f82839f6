/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This rank in its group: it joins, leaves in good order, cuts its connections, and frees
 * the peers.
 *
 * Idea: leaving takes passes, so it is a state machine that its caller polls (leave.h).
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/memory/alloc.h"
#include "membership.h"
#include "rendezvous.h"
#include "rendezvous/bootstrap/roster/rank_key.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/peer/accept.h"
#include "rendezvous/peer/clock_offset.h"
#include "rendezvous/peer/link.h"
#include "rendezvous/peer/peer.h"
#include "rendezvous/peer/tree.h"
#include "rendezvous/progress/pass.h"
#include "rendezvous/protocol/frames.h"
#include "step.h"

/* The most polls that read what has come, before this rank sends LEAVE. */
enum { LAST_POLLS = 64 };

/* Reset the state that the previous group has left: leaving, its steps and its
 * aborts. */
static void group_begin(struct rendezvous *rdv)
{
    rdv->join_again = false;
    rdv->leave.state = LEAVE_NONE;
    rdv->aborts.count = 0;
    rdv->aborts_due = false;
    rdv->scopes.end = rdv->scopes.opened = 0;
    rdv->acks.timer_runs = false; /* the close of the last group stopped the thread */
    rdv->acks.timer_idle = 0;
}

tryst_status rendezvous_group_open(struct rendezvous *rdv, struct tryst_group *group,
                                   struct err *err)
{
    size_t size = (size_t)group->roster.size;
    group->rdv = rdv;
    group->peers = mem_zalloc(size * sizeof(struct peer *));
    group->left = mem_zalloc((size / 64 + 1) * sizeof *group->left);
    group->passed_aborts = mem_zalloc(size * sizeof *group->passed_aborts);
    if (!group->peers || !group->left || !group->passed_aborts) {
        mem_free(group->peers);
        mem_free(group->left);
        mem_free(group->passed_aborts);
        group->peers = NULL;
        return err_set(err, TRYST_E_NOMEM,
                       "cannot open the group: out of memory for %zu peers", size);
    }
    list_init(&group->met);
    pthread_mutex_init(&group->step_lock, NULL);
    rdv->group = group;
    group_begin(rdv);
    memcpy(&rdv->cookie, group->cookie, sizeof rdv->cookie);
    group->run = rank_run(group->cookie);
    rendezvous_clock_open(rdv);
    peer_tree_join(rdv);
    if (rdv->live) {
        live_session(rdv->live, group->run);
        live_phase(rdv->live, TRYST_LIVE_OPEN);
    }
    return TRYST_OK;
}

/* Acknowledge all DATA from the peer once more, by a frame that counts: acknowledgements
 * in frames without records may still be in flight when LEAVE comes. */
static void acks_count(struct peer *peer)
{
    if (peer->endpoint.state != PEER_EP_READY || !peer_in(peer)->stream.got)
        return;
    peer_header_queue(peer);
}

/* Cancel all operations of this rank, and close its steps. */
static void leave_begin(struct rendezvous *rdv)
{
    list_for_each_safe (&rdv->scopes.all, node, after) {
        struct scope *scope = container_of(node, struct scope, node);
        if (scope->step)
            pool_put(rdv->steps, scope->step); /* the user did not close it */
        if (scope->state != SCOPE_CLOSING)
            scope_close(rdv, scope, TRYST_E_CONTEXT, "its group is being closed");
    }
    list_for_each_safe (&rdv->group->met, node, after)
        acks_count(container_of(node, struct peer, node));
    rdv->leave.state = LEAVE_BEGUN;
    rdv->leave.until_ns = clock_now_ns(rdv->clock) + LEAVE_QUIET_NS;
    rdv->scopes.end = UINT64_MAX; /* all later records are answered CLOSED */
}

/* True if the peer can still get and send frames. */
static bool peer_is_reached(const struct peer *peer)
{
    return peer->life <= PEER_LEFT && peer->endpoint.ep && !peer->endpoint.broken;
}

/* True if nothing is left to send to the peer, or nothing can be sent. */
static bool peer_is_quiet(const struct peer *peer)
{
    if (!peer_is_reached(peer))
        return true;
    return urgent_empty(&peer_out(peer)->pending) &&
           list_empty(&peer_out(peer)->want_answers) && !peer_out(peer)->answers_count &&
           !peer_in(peer)->closed_count && !peer_in(peer)->unacked &&
           !peer_in(peer)->header_due;
}

/* True if the peer has read all frames that were sent, as its LEAVE, its heartbeats or
 * its headers report; also if it can read none. */
static bool peer_has_read(const struct peer *peer)
{
    return !peer_is_reached(peer) || peer->rank == peer->rdv->group->roster.rank ||
           peer->liveness.peer_read >= peer->frames.sent ||
           peer->frames.acked == (uint32_t)peer->frames.sent;
}

/* True if no step is open and nothing is left to send. */
static bool group_is_quiet(const struct rendezvous *rdv)
{
    bool quiet = list_empty(&rdv->scopes.all);
    list_for_each_safe (&rdv->group->met, node, after)
        quiet = quiet && peer_is_quiet(container_of(node, struct peer, node));
    return quiet;
}

/* True if LEAVE has left this host on every link, and the peers that can be reached have
 * read all frames of this rank. */
static bool group_has_read(const struct rendezvous *rdv)
{
    bool all = true;
    list_for_each_safe (&rdv->group->met, node, after) {
        const struct peer *peer = container_of(node, struct peer, node);
        all = all && peer_leave_is_sent(peer) && peer_has_read(peer);
    }
    return all;
}

/* Create the peers of this rank's neighbours in the control tree, so that LEAVE goes
 * also to those without a link. A neighbour without memory for its peer may receive the
 * report from other ranks. */
static void neighbours_meet(struct tryst_group *group)
{
    for (int i = 0; i < group->roster.size; i++)
        if (!group->peers[i] && !group_has_left(group, i) &&
            peer_tree_neighbours(group, group->roster.rank, i))
            (void)peer_get(group, i);
}

/* Send LEAVE to all. */
static void leave_send(struct rendezvous *rdv)
{
    /* Read the LEAVEs that have come. A rank that left before may have sent LEAVE to this
     * rank only, and this rank must forward that (LEFT) before it leaves itself. */
    for (int i = 0; i < LAST_POLLS && poller_run(rdv->poller, 0) > 0; i++)
        continue;
    rdv->leave.state = LEAVE_SENT;
    rdv->leave.until_ns += LEAVE_READ_NS - LEAVE_QUIET_NS;
    neighbours_meet(rdv->group);
    list_for_each_safe (&rdv->group->met, node, after) {
        struct peer *peer = container_of(node, struct peer, node);
        if (peer->life <= PEER_LEFT)
            peer_leave(peer);
    }
}

/* Close every endpoint and link by force. */
static void leave_cut(struct rendezvous *rdv)
{
    rdv->leave.state = LEAVE_CUT;
    rdv->leave.until_ns = 0;
    list_for_each_safe (&rdv->group->met, node, after) {
        struct peer *peer = container_of(node, struct peer, node);
        peer->liveness.end_expected = true; /* the end is this rank's doing */
        peer_give_up(peer, TRYST_E_CONTEXT,
                     "cannot be reached any more: this context is closing");
    }
}

/* True if every endpoint and link is closed. */
static bool group_is_gone(const struct rendezvous *rdv)
{
    list_for_each_safe (&rdv->group->met, node, after)
        if (container_of(node, struct peer, node)->life != PEER_GONE)
            return false;
    return true;
}

enum leave_state rendezvous_leave_poll(struct rendezvous *rdv)
{
    bool late = clock_now_ns(rdv->clock) >= rdv->leave.until_ns;
    switch (rdv->leave.state) {
    case LEAVE_NONE: leave_begin(rdv); break;
    case LEAVE_BEGUN:
        if (late || group_is_quiet(rdv))
            leave_send(rdv);
        break;
    case LEAVE_SENT:
        if (late || group_has_read(rdv))
            leave_cut(rdv);
        break;
    case LEAVE_CUT:
        if (group_is_gone(rdv))
            rdv->leave.state = LEAVE_DONE;
        break;
    case LEAVE_DONE: break;
    }
    return rdv->leave.state;
}

void rendezvous_group_held(const struct rendezvous *rdv, char *text, size_t capacity)
{
    size_t used = 0;
    text[0] = '\0';
    list_for_each_safe (&rdv->group->met, node, after) {
        const struct peer *peer = container_of(node, struct peer, node);
        if (peer->life == PEER_GONE || !peer->endpoint.ep || used >= capacity)
            continue;
        used += (size_t)snprintf(
            text + used, capacity - used, "%srank %d (%s)", used ? ", " : "", peer->rank,
            transport_kind_name(peer->endpoint.candidates[peer->endpoint.candidate]));
    }
}

void rendezvous_group_close(struct rendezvous *rdv)
{
    struct tryst_group *group = rdv->group;
    pass_reap(rdv);
    list_for_each_safe (&rdv->scopes.all, node, after)
        scope_free(container_of(node, struct scope, node));
    list_for_each_safe (&group->met, node, after)
        peer_close(container_of(node, struct peer, node));
    peer_hello_links_close(rdv);
    op_complete_all(rdv);
    keys_forget(&rdv->scopes.keys);
    list_for_each_safe (&group->met, node, after)
        mem_free(container_of(node, struct peer, node));
    mem_free(group->peers);
    mem_free(group->left);
    mem_free(group->passed_aborts);
    group->peers = NULL;
    pthread_mutex_destroy(&group->step_lock);
    rdv->group = NULL;
}

void rendezvous_forked(struct rendezvous *rdv)
{
    if (rdv->live)
        live_forked(rdv->live);
    if (rdv->listener)
        link_listener_forked(rdv->listener);
    peer_hello_links_forked(rdv);
    if (!rdv->group || !rdv->group->peers)
        return;
    list_for_each_safe (&rdv->group->met, node, after) {
        struct peer *peer = container_of(node, struct peer, node);
        if (peer->link.link)
            link_forked(peer->link.link);
        if (peer->liveness.pidfd.fd >= 0)
            close(peer->liveness.pidfd.fd);
    }
}
