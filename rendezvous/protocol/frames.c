/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: the records that are queued for a peer are packed and leave.
 *
 * Idea: a frame is built in the transport's own memory, when the transport has room and
 * the peer has credit. To pack a record changes nothing but the frame; once the record is
 * in the frame, its mark is taken away (by the functions `*_pack`), and an operation ends
 * with its last record. So small ready pieces for one peer leave together, and queued
 * records take no memory. Receives are announced before packing.
 *
 * Invariants: at most frame_credits counted frames are unread at the peer. Packing
 * allocates nothing but a larger index of names.
 */
#include "frames.h"

#include <assert.h>
#include <string.h>

#include "closed.h"
#include "commsched/sched/sched.h"
#include "consumer.h"
#include "op_device.h"
#include "recv_run.h"
#include "rendezvous/peer/abort.h"
#include "rendezvous/peer/endpoint.h"
#include "rendezvous/protocol/outcome/cause.h"
#include "rendezvous/protocol/outcome/shape.h"
#include "rendezvous/protocol/wire/wire_encode.h"
#include "send_run.h"
#include "want.h"

/* ---- records that may wait for an idle pass ---------------------------------------- */

void peer_queue_waiting(struct peer *peer)
{
    list_remove(&peer_out(peer)->idle_node);
    producer_request_new(peer);
    peer_out(peer)->blocked = !urgent_empty(&peer_out(peer)->blocked_sends);
    peer_in(peer)->header_due |= peer_in(peer)->unacked > 0;
    if (peer_out(peer)->blocked || peer_in(peer)->header_due)
        peer_flush_later(peer);
}

/* ---- packing: one record ----------------------------------------------------------- */

/* The frame that is being packed, and its peer. The functions pack_* write one record and
 * change nothing but the frame. False: the record waits for the next frame. */
struct packer {
    struct peer *peer;
    struct wire_writer writer;
    /* Of the DATA that was packed last: */
    bool undeclared;           /**< its entry had no valid name */
    struct declared *declared; /**< and takes this one's; NULL: it declares the next */
};

static bool pack_fields(struct packer *packer, uint8_t type, uint8_t flags,
                        struct record_answer *fields, const char *text)
{
    fields->header.type = type;
    fields->header.flags = flags;
    return wire_answer(&packer->writer, fields, text);
}

/* Write the cause with which `step` refuses records into an answer with the status of the
 * refusal. Returns the text of the cause; "": the answer has another status. */
static const char *refusal_put(struct rendezvous *rdv, uint64_t step,
                               struct record_answer *fields, char *text)
{
    struct cause cause = step_refuses(rdv, scope_find(&rdv->scopes, step), step);
    if (cause.status == TRYST_OK || cause.status != fields->header.status)
        return "";
    cause_put_answer(fields, cause);
    return step_refusal_text(rdv, step, cause.status, text);
}

/* Pack an answer of the ring. */
static bool pack_answer(struct packer *packer, const struct answer *answer)
{
    struct record_answer fields = {.header.status = answer->status,
                                   .id = answer->id,
                                   .upto = answer->status == TRYST_OK,
                                   .origin_rank = answer->origin_rank,
                                   .origin_status = answer->status};
    char text[CAUSE_TEXT_BYTES];
    const char *why = NULL;
    if (answer->status != TRYST_OK)
        why = refusal_put(packer->peer->rdv, answer->step, &fields, text);
    return pack_fields(packer, answer->type, answer->for_want ? 0 : RECORD_SEND, &fields,
                       why);
}

/* Pack the answer to an ASK. */
static bool pack_closed_step(struct packer *packer, uint64_t step)
{
    struct rendezvous *rdv = packer->peer->rdv;
    struct cause cause = step_refuses(rdv, scope_find(&rdv->scopes, step), step);
    struct record_answer fields = {.header.status = cause.status, .id = step};
    char text[CAUSE_TEXT_BYTES];
    const char *why = refusal_put(rdv, step, &fields, text);
    return pack_fields(packer, RECORD_CLOSED, RECORD_STEP, &fields, why);
}

static bool pack_want_answer(struct packer *packer, const struct want *want)
{
    struct record_answer fields = {.id = want->id, .upto = want->transfer.next};
    char text[CAUSE_TEXT_BYTES];
    const char *why = want->text;
    cause_put_answer(&fields, want->cause);
    if (want->flags & RECORD_VOID)
        why = NULL; /* the consumer's own text */
    else if (!why)
        why = refusal_put(packer->peer->rdv, want->step, &fields, text);
    return pack_fields(packer, want->answer_type, 0, &fields, why);
}

static bool pack_request(struct packer *packer, uint64_t step)
{
    return pack_fields(packer, RECORD_ASK, 0, &(struct record_answer){.id = step}, NULL);
}

static bool pack_want(struct packer *packer, const tryst_op *op)
{
    assert(op->id);
    bool is_void = op->state == OP_VOID;
    bool alloc = op->alloc && !op->tensor.data;
    bool has_priority = !is_void && op->flags & TRYST_OP_PRIORITY;
    char text[CAUSE_TEXT_BYTES];
    const char *why = NULL;
    uint8_t flags = (uint8_t)((is_void ? RECORD_VOID : 0) | (alloc ? RECORD_ALLOC : 0) |
                              (has_priority ? RECORD_PRIORITY : 0) |
                              (op->raised ? RECORD_RAISED : 0) |
                              (op->flags & TRYST_OP_BACKGROUND ? RECORD_BACKGROUND : 0) |
                              (op->device ? RECORD_DEVICE : 0) |
                              (op_shape_of(op) ? RECORD_SHAPE : 0));
    struct record_want record = {
        .header = {.flags = flags,
                   .status = is_void ? op_peer_status(op->final) : TRYST_OK},
        .id = op->id,
        .step = op->step_id,
        .seq = op->queued.seq,
        .key_hash = op->key->hash,
        .bytes = op->bytes,
        /* Without a run the slice size has no effect, but must be valid. */
        .slice_bytes = op->run ? op->run->slice_bytes : SCHED_SLICE_FIRST,
        .posted = op->run ? op->done_posted : 0,
        .priority = op->priority,
        .dtype = (uint8_t)op->tensor.dtype,
        .key_bytes = op->key->bytes};
    if (is_void) {
        struct cause cause = op_cause(op, op->final);
        cause_put_want(&record, cause);
        why = op_cause_text(op, cause, text);
    }
    return wire_want(&packer->writer, &record, op->key->string, op_shape_of(op), why);
}

static struct record_data data_fields(const tryst_op *op, size_t payload_bytes)
{
    return (struct record_data){.header = {.status = op_peer_status(op->fail)},
                                .seq = (uint32_t)op->queued.seq,
                                .step = (uint32_t)op->step_id,
                                .name = (uint32_t)op->entry->declared,
                                .payload_bytes = (uint16_t)payload_bytes,
                                .dtype = (uint8_t)op->tensor.dtype};
}

/* Pack the first DATA of a key in a step, or with another shape: the key may have a
 * valid name, or this DATA declares one. */
__attribute__((noinline)) static bool pack_undeclared(struct packer *packer,
                                                      const tryst_op *op,
                                                      const void *payload, size_t bytes)
{
    const struct names_out *names = &peer_out(packer->peer)->names;
    const struct flow_shape *shape = op_shape_of(op);
    const struct name_terms terms = name_terms_of(op->step_id, op->queued.seq, shape);
    const struct declared *declared = packer->declared =
        name_valid(names, op->entry, &terms);
    struct record_data record = data_fields(op, bytes);
    packer->undeclared = true;
    record.name = (uint32_t)(declared ? declared->count : names->count + 1);
    if (declared)
        return wire_data(&packer->writer, &record, payload);
    const struct record_name name = {.key_hash = op->key->hash,
                                     .step_high = terms.step_high,
                                     .seq_high = terms.seq_high,
                                     .key_bytes = op->key->bytes,
                                     .flags = shape ? NAME_SHAPE : 0};
    return wire_data_named(&packer->writer, &record, &name, op->key->string, shape,
                           payload);
}

/* The payload of a failed DATA. */
struct failure_payload {
    struct record_failure failure;
    char text[CAUSE_TEXT_BYTES];
};

/* Write the payload of a failed DATA; returns its bytes. */
static size_t failure_put(const tryst_op *op, struct failure_payload *payload)
{
    struct cause cause = op_cause(op, op->fail);
    cause_put_data(&payload->failure, cause);
    return sizeof payload->failure + strlen(op_cause_text(op, cause, payload->text));
}

__attribute__((always_inline)) static inline bool pack_payload(struct packer *packer,
                                                               const tryst_op *op,
                                                               const void *payload,
                                                               size_t bytes)
{
    struct record_data record = data_fields(op, bytes);
    if (!stream_out_has_place(&peer_out(packer->peer)->stream))
        return false;
    if (op_shape_of(op) || !name_is_declared(op->entry, op->queued.seq))
        return pack_undeclared(packer, op, payload, bytes);
    packer->undeclared = false;
    return wire_data(&packer->writer, &record, payload);
}

/* Pack DATA that failed: its payload is the cause. Apart from pack_data, which is
 * inlined, for the room that the text takes. */
__attribute__((noinline, cold)) static bool pack_failure(struct packer *packer,
                                                         const tryst_op *op)
{
    struct failure_payload failure;
    return pack_payload(packer, op, &failure, failure_put(op, &failure));
}

static bool pack_data(struct packer *packer, const tryst_op *op)
{
    const void *payload = op->tensor.data;
    if (__builtin_expect(op->fail != TRYST_OK, 0))
        return pack_failure(packer, op);
    if (__builtin_expect(op->device != NULL, 0))
        payload = op->bytes ? op->device->slot->data : NULL; /* fetched from the device */
    return pack_payload(packer, op, payload, op->bytes);
}

/* True if the OFFER of the send is still needed: more slices of a flow are ready than
 * posted, or the send has no WANT. */
static bool offer_is_due(const tryst_op *op)
{
    return !op->flow || !op->want || op->flow->ready > op->want->transfer.posted;
}

static bool pack_offer(struct packer *packer, const tryst_op *op)
{
    if (!offer_is_due(op))
        return true; /* the slices were posted meanwhile */
    const struct flow_shape *shape = op_shape_of(op);
    struct record_offer record = {.header = {.flags = shape ? RECORD_SHAPE : 0},
                                  .want = op->want_id,
                                  .step = op->step_id,
                                  .seq = op->queued.seq,
                                  .key_hash = op->key->hash,
                                  .bytes = op->bytes,
                                  .ready = op->flow && op->want ? op->flow->ready : 0,
                                  .key_bytes = op->want_id ? 0 : op->key->bytes,
                                  .dtype = (uint8_t)op->tensor.dtype};
    return wire_offer(&packer->writer, &record, op->key->string, shape);
}

static bool pack_cancel(struct packer *packer, const tryst_op *op)
{
    uint8_t flags = op->kind == OP_SEND ? RECORD_SEND : 0;
    tryst_status why = op->kind == OP_SEND ? op->take_back : op->fail;
    /* The step was aborted since: the origin of the abort counts. */
    if (op->reported && op->final != TRYST_OK)
        why = op->final;
    struct record_answer fields = {.id = op->kind == OP_SEND ? op->sent.number : op->id};
    struct cause cause = op_cause(op, why);
    char text[CAUSE_TEXT_BYTES];
    cause_put_answer(&fields, cause);
    return pack_fields(packer, RECORD_CANCEL, flags, &fields,
                       op_cause_text(op, cause, text));
}

static bool pack_raise(struct packer *packer, const tryst_op *op)
{
    return !op->id || pack_fields(packer, RECORD_RAISE, 0,
                                  &(struct record_answer){
                                      .id = op->id, .posted = (uint32_t)op->priority},
                                  NULL);
}

static bool pack_done(struct packer *packer, const tryst_op *op)
{
    struct record_answer fields = {.header.status = op->done_status,
                                   .id = op->took_data ? op->number : op->id,
                                   .upto = op->took_data ? 1 : op->done_upto,
                                   .posted = op->done_posted,
                                   .origin_rank = -1};
    char text[CAUSE_TEXT_BYTES];
    const char *why = NULL;
    if (__builtin_expect(op->done_status != TRYST_OK, 0)) {
        struct cause cause = op_cause(op, op->done_status);
        cause_put_answer(&fields, cause);
        why = op_cause_text(op, cause, text);
    }
    return pack_fields(packer, RECORD_DONE, op->took_data ? RECORD_SEND : 0, &fields,
                       why);
}

/* Pack one record (enum op_records) of `op`. True also if it is not needed any more. */
static bool pack_record(struct packer *packer, const tryst_op *op, unsigned record)
{
    switch (record) {
    case QUEUED_WANT: return pack_want(packer, op);
    case QUEUED_DATA: return pack_data(packer, op);
    case QUEUED_OFFER: return pack_offer(packer, op);
    case QUEUED_CANCEL: return pack_cancel(packer, op);
    case QUEUED_RAISE: return pack_raise(packer, op);
    default: return pack_done(packer, op);
    }
}

/* ---- packing: the queues ----------------------------------------------------------- */

/* Pack what the queue has, and take the marks of what is packed away, as each function
 * below does. False: the frame is full. */
static bool answers_pack(struct packer *packer)
{
    struct peer_out *out = peer_out(packer->peer);
    uint32_t capacity = peer_answers_max(packer->peer);
    for (; out->answers_count; out->answers_count--) {
        const struct answer *answer = &out->answers[out->answers_head];
        if (!pack_answer(packer, answer))
            return false;
        peer_in(packer->peer)->wants_refused -= answer->for_want;
        out->answers_head = (out->answers_head + 1) % capacity;
    }
    return true;
}

static bool want_answers_pack(struct packer *packer)
{
    struct list_node *node;
    while ((node = list_first(&peer_out(packer->peer)->want_answers)) != NULL) {
        struct want *want = container_of(node, struct want, answer_node);
        if (!pack_want_answer(packer, want))
            return false;
        want_answered(want);
    }
    return true;
}

static bool closed_steps_pack(struct packer *packer)
{
    struct peer_in *in = peer_in(packer->peer);
    while (in->closed_count) {
        if (!pack_closed_step(packer, in->closed_steps[in->closed_count - 1]))
            return false;
        if (--in->closed_count == 0)
            consumer_requests_end(packer->peer);
    }
    return true;
}

/* Pack ASK for the steps in which sends have waited for the peer since its last CLOSED:
 * as many as fit; the next frame continues at out.request_from. */
static void requests_pack(struct packer *packer)
{
    const struct peer *peer = packer->peer;
    struct peer_out *out = peer_out(peer);
    uint32_t at = 0;
    while (out->requests_queued &&
           pack_request(packer, out->requests_new[out->requests_queued - 1]))
        out->requests_queued--;
    if (!out->requests_due)
        return;
    list_for_each_safe (&peer->rdv->scopes.all, node, after) {
        const struct scope *scope = container_of(node, struct scope, node);
        if (at++ < out->request_from || scope->state == SCOPE_EARLY ||
            !scope_awaits(scope, peer))
            continue;
        if (!pack_request(packer, scope->id)) {
            out->request_from = at - 1;
            return;
        }
    }
    out->requests_due = false;
}

/* Set the name of the entry to that with which its DATA was packed. */
__attribute__((noinline)) static void name_packed(struct packer *packer,
                                                  const tryst_op *op)
{
    const struct name_terms terms =
        name_terms_of(op->step_id, op->queued.seq, op_shape_of(op));
    if (packer->declared)
        name_adopt(op->entry, packer->declared);
    else
        name_add(&peer_out(packer->peer)->names, op->entry, &terms);
}

/* Note that the DATA of the send has its number, and has left its memory. */
static inline void data_packed(struct packer *packer, tryst_op *op)
{
    struct peer *peer = packer->peer;
    if (__builtin_expect(packer->undeclared, 0))
        name_packed(packer, op);
    if (__builtin_expect(op->device != NULL, 0))
        op_device_slot_drop(op);
    stream_out_push(&peer_out(peer)->stream, &op->sent);
    peer->bytes_sent += op->fail == TRYST_OK ? op->bytes : 0;
    if (__builtin_expect(op->flow != NULL, 0))
        send_slice_left(op, 0);
    if (op->rdv->trace)
        op_trace_flow(op, trace_now_ns(op->rdv->trace));
    op->rdv->counters.data_inline++;
}

/* Take the mark of a packed record away. */
static inline void record_packed(struct packer *packer, tryst_op *op, unsigned record)
{
    op->records &= (uint8_t)~record;
    if (__builtin_expect(record == QUEUED_DATA, 1))
        data_packed(packer, op);
    else if (record == QUEUED_OFFER)
        op->rdv->counters.offers += offer_is_due(op);
    else if (record == QUEUED_DONE && op->took_data)
        /* This DONE reports how the DATA has ended. */
        (void)stream_in_done(&peer_in(op->peer)->stream, op->number);
}

/* True if the packed record was the last of an operation that has been reported. */
static bool op_is_finished(const tryst_op *op)
{
    if (op->state != OP_VOID)
        return op->state == OP_TAKEN;
    return op->took_data || (op->kind == OP_SEND && op->scope->state == SCOPE_CLOSING &&
                             !urgent_queued(&op->deferred_node));
}

/* Pack the records of pending operations. */
static void pending_pack(struct packer *packer)
{
    struct urgent_node *node;
    while ((node = urgent_first(&peer_out(packer->peer)->pending)) != NULL) {
        tryst_op *op = container_of(node, tryst_op, pending_node);
        while (op->records) { /* none left: the records were withdrawn */
            unsigned record = op->records & -op->records;
            if (!pack_record(packer, op, record))
                return;
            record_packed(packer, op, record);
        }
        urgent_remove(node);
        if (op_is_finished(op))
            op_end(op);
    }
}

/* Pack the records that belong to no pending operation, before all others. */
__attribute__((noinline)) static bool answers_pack_all(struct packer *packer)
{
    const struct peer_out *out = peer_out(packer->peer);
    if (!answers_pack(packer) || !want_answers_pack(packer) || !closed_steps_pack(packer))
        return false;
    if (out->requests_due || out->requests_queued)
        requests_pack(packer);
    return true;
}

/* ---- frames ------------------------------------------------------------------------ */

/* True if the header alone must leave. */
static bool header_is_due(const struct peer *peer)
{
    return peer_in(peer)->header_due ||
           (peer_is_blocked(peer) && !peer_out(peer)->blocked_sent) ||
           peer_credit_is_due(peer);
}

/* Write the header of a frame with `records` records and these flags. */
static void header_write(const struct peer *peer, struct frame_header *header,
                         unsigned records, unsigned flags)
{
    const struct peer_out *out = peer_out(peer);
    const struct peer_in *in = peer_in(peer);
    bool all = !out->answers_count; /* else some records about DATA have not left */
    header->done_mask = all ? in->stream.mask : in->stream.acked_mask;
    header->done_base = (uint32_t)(all ? in->stream.base : in->stream.acked_base);
    header->frames_read = (uint32_t)peer->frames.read;
    header->wants_taken = in->wants_got - in->wants_refused;
    header->records = (uint16_t)records;
    /* This rank was outside of the library while bulk was in flight. */
    if (__builtin_expect(out->pauses_sent != peer->rdv->bulk.pauses, 0))
        flags |= FRAME_PAUSED;
    if (names_in_many(&in->names))
        flags |= FRAME_NAMES;
    header->flags =
        (uint8_t)(flags | out->slice_flags | (peer_is_blocked(peer) ? FRAME_BLOCKED : 0));
    header->group = 0;
}

/* Note that the header leaves: what it reports is not due any more. */
static void header_sent(struct peer *peer, const struct frame_header *header)
{
    stream_in_ack(&peer_in(peer)->stream, !peer_out(peer)->answers_count);
    peer_acked(peer);
    if (!header->records)
        peer_in(peer)->counted = peer_in(peer)->probe = false;
    peer_out(peer)->blocked_sent = header->flags & FRAME_BLOCKED;
    peer_out(peer)->pauses_sent = peer->rdv->bulk.pauses;
    peer_in(peer)->frames_acked = header->frames_read;
    peer_in(peer)->wants_acked = header->wants_taken;
    peer->frames.sent += !(header->flags & FRAME_HEADER_ONLY);
    peer->rdv->counters.frames_sent++;
    peer->rdv->counters.records_sent += header->records;
}

/* Return the flags of a header that leaves without records. */
static unsigned header_alone_flags(const struct peer *peer, bool credit)
{
    /* The peer must read all counted frames before LEAVE takes effect. */
    bool leaves = peer->rdv->leave.state != LEAVE_NONE && peer_in(peer)->header_due;
    bool counts = credit && (leaves || peer_in(peer)->counted);
    return (peer_in(peer)->probe ? FRAME_PROBE : 0) | (counts ? 0 : FRAME_HEADER_ONLY);
}

/* Write the header of a frame that leaves now. Returns the bytes of the frame. */
static inline size_t frame_finish(struct packer *packer, uint8_t *frame, unsigned flags)
{
    header_write(packer->peer, (void *)frame, packer->writer.records, flags);
    header_sent(packer->peer, (void *)frame);
    return (size_t)(packer->writer.at - frame);
}

/* Build the next frame in memory of the transport. Returns its bytes; 0: there is
 * nothing to send. */
static size_t frame_build(struct peer *peer, uint8_t *frame)
{
    struct packer packer = {.peer = peer, .writer = wire_begin(frame, FRAME_BYTES_MAX)};
    uint32_t unread = (uint32_t)peer->frames.sent - peer->frames.acked;
    bool credit = unread < peer->rdv->set.frame_credits;
    unsigned flags = 0;
    if (credit && (!peer_has_answers(peer) || answers_pack_all(&packer)))
        pending_pack(&packer);
    if (!packer.writer.records) {
        if (!header_is_due(peer))
            return 0;
        flags = header_alone_flags(peer, credit);
    }
    return frame_finish(&packer, frame, flags);
}

/* Send one frame. True if a frame has left. */
static bool frame_push(struct peer *peer)
{
    const struct transport_ops *ops = peer->endpoint.ep->rail->ops;
    void *frame;
    tryst_status status = ops->frame_begin(peer->endpoint.ep, FRAME_BYTES_MAX, &frame);
    if (status == TRYST_AGAIN) {
        peer->rdv->counters.frames_again++;
        peer_flush_later(peer);
        return false;
    }
    if (status != TRYST_OK) {
        peer_ep_lost(peer, NULL);
        return false;
    }
    size_t bytes = frame_build(peer, frame);
    if (bytes)
        ops->frame_commit(peer->endpoint.ep, bytes);
    return bytes;
}

/* True if frames can leave to the peer. */
static bool peer_takes_frames(const struct peer *peer)
{
    return peer->endpoint.state == PEER_EP_READY && peer->life <= PEER_LEFT &&
           !peer->endpoint.broken;
}

bool peer_send_now(tryst_op *op)
{
    struct peer *peer = op->peer;
    bool clear = !list_linked(&peer->flush_node) && !peer_has_records(peer) &&
                 peer->frames.acked == (uint32_t)peer->frames.sent;
    void *frame;
    if (!clear || !peer_takes_frames(peer))
        return false;
    struct endpoint *ep = peer->endpoint.ep;
    if (ep->rail->ops->frame_begin(ep, FRAME_BYTES_MAX, &frame) != TRYST_OK)
        return false; /* peer_flush handles that */
    struct packer packer = {.peer = peer, .writer = wire_begin(frame, FRAME_BYTES_MAX)};
    if (!pack_data(&packer, op))
        return false;
    data_packed(&packer, op);
    ep->rail->ops->frame_commit(ep, frame_finish(&packer, frame, 0));
    return true;
}

int peer_flush(struct peer *peer)
{
    int count = 0;
    list_remove(&peer->flush_node);
    if (peer_in(peer)->post_refused && peer_takes_frames(peer)) {
        peer_in(peer)->post_refused = false;
        consumer_slots_serve(peer);
    }
    if (!urgent_empty(&peer_out(peer)->wants_waiting) && peer_takes_frames(peer))
        consumer_announce(peer);
    bool more = peer_has_records(peer) || header_is_due(peer);
    while (more && peer_takes_frames(peer) && frame_push(peer)) {
        more = peer_has_records(peer); /* each header carries all acknowledgements */
        count++;
    }
    return count;
}
