/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol's share of an operation's and of a peer's life; see protocol.h.
 */
#include "protocol.h"
#include "commsched/sched/sched.h"

#include <assert.h>

#include "closed.h"
#include "consumer.h"
#include "core/memory/alloc.h"
#include "flow_op.h"
#include "frames.h"
#include "op_device.h"
#include "producer.h"
#include "rendezvous/protocol/wire/wire.h"
#include "want.h"

/* ---- operations -------------------------------------------------------------------- */

/* Return the cause of a flow that the close of its step cancels: that with which its
 * owner is failing, else `cause`. */
static struct cause flow_cancel_cause(const struct flow *flow, struct cause cause)
{
    struct cause first = cause;
    if (flow->ops->failing)
        first = flow->ops->failing(flow);
    return first.status == TRYST_OK ? cause : first;
}

static void op_fail_by_kind(tryst_op *op, struct cause cause, const char *text)
{
    if (op->flow && cause.status == TRYST_E_CANCELED)
        cause = flow_cancel_cause(op->flow, cause);
    if (cause.origin_rank < 0)
        cause.origin_rank = op->rdv->group->roster.rank;
    if (op->kind == OP_SEND)
        producer_fail(op, cause, text);
    else if (op->kind == OP_RECV)
        consumer_fail(op, cause, text);
    else if (op->kind == OP_COLL)
        op->rdv->coll_calls.fail(op->rdv->coll_calls.arg, op, cause, text);
}

static int32_t op_peer_rank(const tryst_op *op)
{
    return op->peer ? op->peer->rank : -1;
}

/* Raise the operation in every queue here and, if its WANT has left, at its producer. */
static void op_raise(tryst_op *op, uint64_t sort_key)
{
    enum { NODES = 3 };
    struct urgent_node *const nodes[NODES] = {&op->pending_node, &op->deferred_node,
                                              &op->slot_node};
    int nodes_count = op->kind == OP_RECV ? NODES : NODES - 1;
    bool queued[NODES];
    if (op->kind == OP_COLL) {
        op->rdv->coll_calls.raise(op->rdv->coll_calls.arg, op, sort_key);
        return;
    }
    for (int i = 0; i < nodes_count; i++)
        queued[i] = urgent_remove(nodes[i]);
    op->urgency.sort_key =
        sort_key < op->urgency.sort_key ? sort_key : op->urgency.sort_key;
    for (int i = 0; i < nodes_count; i++)
        if (queued[i])
            urgent_push(nodes[i]->queue, nodes[i], &op->urgency);
    if (op->want && op->state == OP_MATCHED)
        sched_raise(op->rdv->sched, &op->want->transfer, sort_key);
    if (op->kind == OP_RECV && op->state == OP_WANTED && !(op->records & QUEUED_WANT))
        records_queue(op, QUEUED_RAISE);
}

const struct op_events protocol_op_events = {.raise = op_raise,
                                             .fail = op_fail_by_kind,
                                             .device_close = op_device_close,
                                             .peer_rank = op_peer_rank,
                                             .flow_ended = flow_op_ended};

/* ---- peers ------------------------------------------------------------------------- */

void protocol_peer_open(struct peer *peer)
{
    urgent_init(&peer->out.pending);
    urgent_init(&peer->in.unannounced);
    urgent_init(&peer->out.blocked_sends);
    urgent_init(&peer->out.wants_waiting);
    urgent_init(&peer->in.slots_waiting);
    urgent_init(&peer->out.deferred_ops);
    urgent_init(&peer->out.posted_sends);
    list_init(&peer->out.waiting_sends);
    list_init(&peer->out.want_answers);
    list_init(&peer->in.wants_list);
    list_init(&peer->in.unexpected);
    hash_table_init(&peer->in.wants);
}

bool protocol_peer_connect(struct peer *peer)
{
    if (!peer->out.answers)
        peer->out.answers =
            mem_zalloc(peer_answers_max(peer) * sizeof *peer->out.answers);
    if (!peer->in.names.places && names_in_open(&peer->in.names) != TRYST_OK)
        return false;
    if (!peer->out.stream.ring && stream_out_open(&peer->out.stream) != TRYST_OK)
        return false;
    if (!peer->out.names.places && names_out_open(&peer->out.names) != TRYST_OK)
        return false;
    return peer->out.answers;
}

/* True if the path still has to deliver records or bulk, in either direction. */
static bool peer_waits_for_path(const struct peer *peer)
{
    return peer->out.stream.next != peer->out.stream.acked ||
           peer->lane.in_flight_bytes || peer->in.slots_ready ||
           !urgent_empty(&peer->out.pending) || !urgent_empty(&peer->out.wants_waiting);
}

/* Probe an idle path on which this rank waits, although the peer has reported (over the
 * link) that it has read every counted frame. A dead path is found by counted frames
 * that a rank reports as sent and that do not come. Bulk and header-only frames are not
 * counted. So this rank sends a counted frame and requests one: then one of the two
 * ranks misses a frame, in whichever direction the path has died. */
static void path_probe(struct peer *peer)
{
    if (peer->is_self || peer->endpoint.state != PEER_EP_READY ||
        peer->out.frames_sent != peer->liveness.peer_read || !peer_waits_for_path(peer))
        return;
    peer->in.header_due = peer->in.counted = peer->in.probe = true;
    peer_flush_later(peer);
}

void protocol_peer_tick(struct peer *peer)
{
    path_probe(peer);
    /* A WANT may have waited for memory. */
    if (!urgent_empty(&peer->out.wants_waiting))
        peer_flush_later(peer);
    consumer_tick(peer);
    producer_request_all(peer);
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

void protocol_peer_gone(struct peer *peer)
{
    list_for_each_safe (&peer->rdv->scopes.all, node, after) {
        struct scope *scope = container_of(node, struct scope, node);
        gone_ops(peer, &scope->ops);
        gone_ops(peer, &scope->warned);
    }
    producer_wants_drop(peer);
    peer->out.answers_count = 0;
    consumer_requests_drop(peer);
    assert(urgent_empty(&peer->out.pending) && urgent_empty(&peer->out.wants_waiting));
}

void protocol_peer_close(struct peer *peer)
{
    list_remove(&peer->out.idle_node);
    list_remove(&peer->in.unannounced_node);
    producer_wants_drop(peer);
    hash_table_close(&peer->in.wants);
    mem_free(peer->out.answers);
    stream_out_close(&peer->out.stream);
    names_out_close(&peer->out.names);
    names_in_close(&peer->in.names);
    consumer_requests_drop(peer);
    peer->out.answers = NULL;
}

/* ---- aborts ------------------------------------------------------------------------ */

static void abort_ops(struct scope *scope, struct list *ops)
{
    struct cause cause = {TRYST_E_ABORTED, scope->abort_rank, scope->abort_status};
    list_for_each_safe (ops, node, after)
        op_fail_from(container_of(node, tryst_op, scope_node), cause, scope->abort_text);
}

void protocol_scope_aborted(struct scope *scope)
{
    producer_scope_answer(scope, RECORD_CANCELED, TRYST_E_ABORTED, scope->abort_rank);
    abort_ops(scope, &scope->ops);
    abort_ops(scope, &scope->warned);
}
