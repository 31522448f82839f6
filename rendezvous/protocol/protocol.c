/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol's share of an operation's and of a peer's life (protocol.h), and the
 * dispatch of received records.
 *
 * Invariant: a frame's lengths and counts are checked before any record of it acts, and
 * each record is checked before it acts; a malformed frame or record ends the peer.
 */
#include "protocol.h"
#include "commsched/sched/sched.h"

#include <assert.h>

#include "closed.h"
#include "consumer.h"
#include "eager.h"
#include "flow.h"
#include "op_device.h"
#include "producer.h"
#include "recv_run.h"
#include "rendezvous/peer/fault.h"
#include "rendezvous/protocol/wire/wire_decode.h"
#include "send_run.h"
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

/* True if the path still has to deliver records or bulk, in either direction. */
static bool peer_waits_for_path(const struct peer *peer)
{
    return peer_out(peer)->stream.next != peer_out(peer)->stream.acked ||
           peer->lane.in_flight_bytes || peer_in(peer)->slots_ready ||
           !urgent_empty(&peer_out(peer)->pending) ||
           !urgent_empty(&peer_out(peer)->wants_waiting);
}

/* Probe an idle path on which this rank waits, although the peer has reported (over the
 * link) that it has read every counted frame. A dead path is found by counted frames
 * that a rank reports as sent and that do not come. Bulk and header-only frames are not
 * counted. So this rank sends a counted frame and requests one: then one of the two
 * ranks misses a frame, in whichever direction the path has died. */
static void path_probe(struct peer *peer)
{
    if (peer->is_self || peer->endpoint.state != PEER_EP_READY ||
        peer->frames.sent != peer->liveness.peer_read || !peer_waits_for_path(peer))
        return;
    peer_in(peer)->counted = peer_in(peer)->probe = true;
    peer_header_queue(peer);
}

void protocol_peer_tick(struct peer *peer)
{
    path_probe(peer);
    /* A WANT may have waited for memory. */
    if (!urgent_empty(&peer_out(peer)->wants_waiting))
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

/* Free all WANTs and unexpected DATA of a peer that is gone or closed. */
static void wants_drop(struct peer *peer)
{
    struct list_node *node;
    while ((node = list_first(&peer_in(peer)->wants_list)) != NULL)
        want_free(container_of(node, struct want, peer_node));
    while ((node = list_first(&peer_in(peer)->unexpected)) != NULL)
        unexpected_free(container_of(node, struct unexpected, peer_node));
}

void protocol_peer_gone(struct peer *peer)
{
    list_for_each_safe (&peer->rdv->scopes.all, node, after) {
        struct scope *scope = container_of(node, struct scope, node);
        gone_ops(peer, &scope->ops);
        gone_ops(peer, &scope->warned);
    }
    wants_drop(peer);
    peer_out(peer)->answers_count = 0;
    consumer_requests_drop(peer);
    assert(urgent_empty(&peer_out(peer)->pending) &&
           urgent_empty(&peer_out(peer)->wants_waiting));
}

void protocol_peer_close(struct peer *peer)
{
    wants_drop(peer);
    channel_close(peer);
}

/* ---- aborts ------------------------------------------------------------------------ */

void protocol_scope_answer(struct scope *scope, uint8_t type, tryst_status status,
                           int32_t origin_rank)
{
    tryst_status origin_status = status == TRYST_E_ABORTED ? scope->abort_status : status;
    for (struct entry *entry = NULL; (entry = entry_next(scope, entry)) != NULL;) {
        struct list_node *node;
        struct queue_node *item;
        while ((node = list_first(&entry->wants)) != NULL) {
            struct want *want = container_of(node, struct want, parked.node);
            want_unpark(want);
            want_answer(want, type, (struct cause){status, origin_rank, origin_status},
                        NULL);
            want_maybe_free(want);
        }
        while ((item = queue_next(&entry->unexpected, NULL)) != NULL) {
            struct unexpected *unexpected = container_of(item, struct unexpected, queued);
            peer_data_refuse(unexpected->peer, unexpected->number, scope->id, status,
                             origin_rank);
            unexpected_free(unexpected);
        }
    }
}

static void abort_ops(struct scope *scope, struct list *ops)
{
    struct cause cause = {TRYST_E_ABORTED, scope->abort_rank, scope->abort_status};
    list_for_each_safe (ops, node, after)
        op_fail_from(container_of(node, tryst_op, scope_node), cause, scope->abort_text);
}

void protocol_scope_aborted(struct scope *scope)
{
    protocol_scope_answer(scope, RECORD_CANCELED, TRYST_E_ABORTED, scope->abort_rank);
    abort_ops(scope, &scope->ops);
    abort_ops(scope, &scope->warned);
}

/* ---- events of bounce buffers ------------------------------------------------------ */

static bool bounce_wanted(void *arg, const struct bulk *bulk)
{
    (void)arg;
    return send_run_slice_wanted(bulk);
}

static void bounce_room(void *arg)
{
    struct rendezvous *rdv = arg;
    if (!rdv->group)
        return;
    list_for_each_safe (&rdv->group->met, node, after)
        consumer_slots_serve(container_of(node, struct peer, node));
}

/* The end of a peer may have waited for the copies: check at the end of the pass. */
static void bounce_idle(void *arg)
{
    ((struct rendezvous *)arg)->reap = true;
}

const struct bounce_events protocol_bounce_events = {bounce_wanted, bounce_room,
                                                     bounce_idle};

/* ---- frames that came -------------------------------------------------------------- */

/* Handle an answer about a DATA, by its number. */
static void data_answer_read(struct peer *peer, const struct record_answer *answer)
{
    switch (answer->header.type) {
    case RECORD_DONE: producer_data_done(peer, answer); break;
    case RECORD_KEPT: producer_data_kept(peer, answer->id); break;
    case RECORD_CANCEL: eager_cancel(peer, answer); break;
    case RECORD_CANCELED: producer_data_canceled(peer, answer->id); break;
    default: peer_fault(peer, PEER_FAULT_DATA_ANSWER, NULL); break;
    }
}

/* Handle an answer. Not inlined, since that would cost the path of DATA registers. */
__attribute__((noinline)) static void answer_read(struct peer *peer,
                                                  const struct record_answer *answer)
{
    if (answer->header.flags & RECORD_SEND) {
        data_answer_read(peer, answer);
        return;
    }
    switch (answer->header.type) {
    case RECORD_DONE: send_run_done(peer, answer); break;
    case RECORD_CANCEL: producer_cancel(peer, answer); break;
    case RECORD_RAISE: producer_raise(peer, answer); break;
    case RECORD_ASK: consumer_request_answer(peer, answer->id); break;
    case RECORD_CLOSED:
        if (answer->header.flags & RECORD_STEP)
            producer_step_closed(peer, answer);
        else
            consumer_ended(peer, answer);
        break;
    default: consumer_ended(peer, answer); break;
    }
}

/* Act on one record. Returns NULL, or a description of the violation. */
static const char *record_read(struct peer *peer, const struct record_header *record)
{
    const void *whole = record;
    const char *wrong = record->status == TRYST_OK
                            ? NULL
                            : wire_failure_check(record, peer->rdv->group->roster.size);
    if (wrong)
        return wrong;
    switch (record->type) {
    case RECORD_WANT:
        wrong = wire_want_check(whole);
        if (!wrong)
            producer_want(peer, whole);
        return wrong;
    case RECORD_DATA:
        wrong = wire_data_check(whole);
        if (!wrong)
            eager_data(peer, whole);
        return wrong;
    case RECORD_OFFER:
        wrong = wire_offer_check(whole);
        if (!wrong)
            consumer_offer(peer, whole);
        return wrong;
    case RECORD_DONE:
    case RECORD_CANCEL:
    case RECORD_CANCELED:
    case RECORD_DEFERRED:
    case RECORD_CLOSED:
    case RECORD_ASK:
    case RECORD_KEPT:
    case RECORD_RAISE:
        wrong = wire_answer_check(whole, peer->rdv->group->roster.size);
        if (!wrong)
            answer_read(peer, whole);
        return wrong;
    default: return "unknown record type";
    }
}

/* Apply the credit in the header. False: it acknowledges more than was sent. */
static bool header_read(struct peer *peer, const struct frame_header *header)
{
    struct peer_out *out = peer_out(peer);
    uint32_t unacked = (uint32_t)peer->frames.sent - peer->frames.acked;
    uint32_t acked = header->frames_read - peer->frames.acked;
    uint32_t taken = header->wants_taken - out->wants_acked;
    if (peer->is_self) /* acks_apply_own may have applied more */
        acked = (int32_t)acked > 0 ? acked : 0;
    else if (!stream_out_check(&out->stream, header->done_base, header->done_mask))
        return false;
    if (acked > unacked || taken > out->wants_sent - out->wants_acked)
        return false;
    peer->frames.acked += acked;
    out->wants_acked += taken;
    if (__builtin_expect(header->flags & FRAME_PAUSED, 0))
        sched_pause(peer->rdv->sched, &peer->lane);
    if ((acked && peer_has_records(peer)) ||
        (taken && !urgent_empty(&out->wants_waiting)))
        peer_flush_later(peer);
    return true;
}

__attribute__((noinline)) static void header_flags_apply(struct peer *peer,
                                                         unsigned flags)
{
    if (flags & FRAME_PROBE) {
        peer_in(peer)->counted = true;
        peer_header_queue(peer);
    }
    if (flags & FRAME_BLOCKED)
        peer_announce(peer);
    if (flags & FRAME_NAMES && !names_out_many(&peer_out(peer)->names))
        names_out_grow(&peer_out(peer)->names);
}

/* Apply the acknowledgements of DATA and the flags in the header, after the records of
 * its frame. */
static void acks_read(struct peer *peer, const struct frame_header *header)
{
    peer_in(peer)->header_flags = header->flags;
    if (__builtin_expect(header->flags & (FRAME_PROBE | FRAME_BLOCKED | FRAME_NAMES), 0))
        header_flags_apply(peer, header->flags);
    if (stream_out_is_news(&peer_out(peer)->stream, header->done_base,
                           header->done_mask)) {
        stream_out_acked(&peer_out(peer)->stream, header->done_base, header->done_mask,
                         producer_acked);
        if (!urgent_empty(
                &peer_out(peer)->pending)) /* DATA may have waited for a place */
            peer_flush_later(peer);
    }
    producer_unblock(peer); /* a record may have returned credit too */
}

/* Apply acknowledgements of a rank's own DATA at once, without a frame, unless a record
 * in flight must come first. */
static void acks_apply_own(struct peer *peer)
{
    bool on_way = peer_out(peer)->answers_count || peer->frames.read != peer->frames.sent;
    if (!peer_in(peer)->unacked || on_way)
        return;
    peer->frames.acked = peer_in(peer)->frames_acked = (uint32_t)peer->frames.read;
    peer_acked(peer);
    stream_in_ack(&peer_in(peer)->stream, true);
    stream_out_acked(&peer_out(peer)->stream, (uint32_t)peer_in(peer)->stream.acked_base,
                     peer_in(peer)->stream.acked_mask, producer_acked);
    producer_unblock(peer);
}

/* True if the frame has a whole header, for this group, and its records fill the rest. */
static inline bool frame_is_sound(const struct frame_header *header, size_t bytes)
{
    return bytes >= sizeof *header && header->group == 0 &&
           wire_frame_check(header, bytes, header->records) &&
           !(header->flags & FRAME_HEADER_ONLY && header->records);
}

void protocol_peer_frame(struct peer *peer, const void *frame, size_t bytes)
{
    const struct frame_header *header = frame;
    struct rendezvous *rdv = peer->rdv;
    if (!frame_is_sound(header, bytes) || !header_read(peer, header)) {
        peer_fault(peer, PEER_FAULT_FRAME, NULL);
        return;
    }
    rdv->counters.frames_received++;
    rdv->counters.records_received += header->records;
    peer->frames.read += !(header->flags & FRAME_HEADER_ONLY);
    if (peer_credit_is_due(peer))
        peer_flush_later(peer);
    const uint8_t *at = (const uint8_t *)frame + sizeof *header;
    for (unsigned i = 0; i < header->records && peer->life <= PEER_LEFT; i++) {
        const struct record_header *record = (const void *)at;
        const char *wrong = record_read(peer, record);
        if (wrong) {
            peer_fault(peer, PEER_FAULT_RECORD, wrong);
            return;
        }
        at += record->bytes;
    }
    if (peer->life <= PEER_LEFT)
        acks_read(peer, header);
    if (peer->is_self)
        acks_apply_own(peer);
}
