/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps that one side has closed while the other still sends in them.
 *
 * Idea: a send that waits for its WANT has put nothing on the wire that CLOSED could
 * answer. So its producer sends ASK in an idle pass. The consumer notes the question, and
 * answers when the step is closed for good.
 *
 * Invariant: the answer leaves only when no WANT of the step is in flight to the asking
 * peer and none will come. A send for which no WANT came before the answer never gets
 * one. An answer counts only if a send of the step has waited for the peer since the
 * peer's last answer, and costs a walk over the waiting sends to that peer alone.
 *
 * Failures of flows outlive the close of a step here: as DATA with a status, within eager
 * credit, or as a send in `blocked_sends` that leaves with its WANT or with credit, at
 * most FAILURES_MAX for each peer. Beyond that the newest failures are dropped: their
 * WANTs are answered CLOSED.
 */
#include <assert.h>

#include "closed.h"
#include "core/memory/alloc.h"

/* The first capacity of the array of answers. */
enum { CLOSED_STEPS_FIRST = 16 };

/* ---- the producer ------------------------------------------------------------------ */

/* True if sends wait for the peer, and the peer is not this rank. */
static bool request_is_due(const struct peer *peer)
{
    return (!urgent_empty(&peer_out(peer)->posted_sends) ||
            !urgent_empty(&peer_out(peer)->blocked_sends)) &&
           peer->rank != peer->rdv->group->roster.rank;
}

void producer_await(tryst_op *op)
{
    struct peer *peer = op->peer;
    struct scope *scope = op->scope;
    if (!rank_set_add(&scope->awaited, peer->rank, peer->rdv->group->roster.size))
        scope->all_awaited = true;
    if (!list_linked(&op->waiting_node))
        list_push_back(&peer_out(peer)->waiting_sends, &op->waiting_node);
}

bool scope_awaits(const struct scope *scope, const struct peer *peer)
{
    return scope->all_awaited || rank_set_has(&scope->awaited, peer->rank);
}

void producer_request_later(tryst_op *op)
{
    struct peer *peer = op->peer;
    struct peer_out *out = peer_out(peer);
    uint32_t count = out->requests_new_count;
    uint64_t step = op->scope->id;
    producer_await(op);
    if (count && out->requests_new[(count - 1) % REQUESTS_NEW_MAX] == step)
        return;
    /* If there are too many steps, the oldest wait for a tick. */
    out->requests_new[count % REQUESTS_NEW_MAX] = step;
    out->requests_new_count++;
    peer_idle_later(peer);
}

void producer_request_new(struct peer *peer)
{
    uint32_t count = peer_out(peer)->requests_new_count;
    peer_out(peer)->requests_new_count = 0;
    if (!count || !request_is_due(peer))
        return;
    peer_out(peer)->requests_queued = count < REQUESTS_NEW_MAX ? count : REQUESTS_NEW_MAX;
    peer_flush_later(peer);
}

void producer_request_all(struct peer *peer)
{
    if (!request_is_due(peer))
        return;
    if (!peer_out(peer)->requests_due)
        /* Else the last round still waits for room, and continues. */
        peer_out(peer)->request_from = 0;
    peer_out(peer)->requests_due = true;
    peer_flush_later(peer);
}

/* ---- the consumer ------------------------------------------------------------------ */

/* True if a receive from the peer still waits for its own answer. */
static bool scope_receives_from(const struct list *ops, const struct peer *peer)
{
    list_for_each_safe (ops, node, after) {
        const tryst_op *op = container_of(node, tryst_op, scope_node);
        if (op->kind == OP_RECV && op->peer == peer)
            return true;
    }
    return false;
}

/* True if `scope` is closed to the peer for good: no WANT of it is in flight, and none
 * will come. While the scope closes, receives may have WANTs in flight that need their
 * own answers. */
static bool scope_is_closed_to(const struct scope *scope, const struct peer *peer)
{
    return scope->state == SCOPE_CLOSING && !scope_receives_from(&scope->ops, peer) &&
           !scope_receives_from(&scope->warned, peer);
}

/* Make room for one more answer. False: the limit is reached, or no memory. */
static bool closed_steps_grow(struct peer *peer)
{
    struct peer_in *in = peer_in(peer);
    if (in->closed_count < in->closed_capacity)
        return true;
    uint32_t capacity =
        in->closed_capacity ? 2 * in->closed_capacity : CLOSED_STEPS_FIRST;
    uint64_t *over = capacity <= REQUESTS_MAX
                         ? mem_resize(in->closed_steps, capacity * sizeof *over)
                         : NULL;
    if (!over)
        return false;
    in->closed_steps = over;
    in->closed_capacity = capacity;
    return true;
}

/* Queue the answer. False: no room now, or the peer is being given up. */
static bool asker_answer(struct peer *peer, uint64_t step)
{
    if (peer->life >= PEER_GIVING_UP || !closed_steps_grow(peer))
        return false;
    peer_in(peer)->closed_steps[peer_in(peer)->closed_count++] = step;
    peer_flush_later(peer);
    return true;
}

void consumer_requests_end(struct peer *peer)
{
    if (peer_in(peer)->closed_capacity > CLOSED_STEPS_FIRST)
        consumer_requests_drop(peer);
}

void consumer_requests_drop(struct peer *peer)
{
    mem_free(peer_in(peer)->closed_steps);
    peer_in(peer)->closed_steps = NULL;
    peer_in(peer)->closed_count = peer_in(peer)->closed_capacity = 0;
}

void consumer_request_answer(struct peer *peer, uint64_t step)
{
    struct scope *scope = scope_find(&peer->rdv->scopes, step);
    bool over = scope ? scope_is_closed_to(scope, peer)
                      : scope_is_closed(&peer->rdv->scopes, step);
    if (over)
        (void)asker_answer(peer, step);
    else if (scope) /* no memory: the peer sends ASK again at its next tick */
        (void)rank_set_add(&scope->askers, peer->rank, peer->rdv->group->roster.size);
}

void consumer_askers_answer(struct rendezvous *rdv, struct scope *scope)
{
    const struct tryst_group *group = rdv->group;
    for (int i = 0; scope->askers.used && i < group->roster.size; i++) {
        struct peer *peer = group->peers[i];
        if (peer && rank_set_has(&scope->askers, i) && scope_is_closed_to(scope, peer) &&
            asker_answer(peer, scope->id))
            rank_set_remove(&scope->askers, i);
    }
}
