/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records: packing the records that are queued for a peer into frames, and reading frames
 * that came.
 *
 * Idea: no bytes are queued. A queued record is a mark on its operation or its want, or
 * an entry in the peer's bounded ring of answers, and becomes bytes only when a frame
 * leaves. So small ready pieces for one peer leave together, and the memory of the queue
 * does not grow with them. Packing allocates nothing but a larger index of names. It
 * frees answered WANTs and the list of answered steps; an operation ends after the frame
 * with its last record is packed. Receives are announced before packing.
 *
 * Invariant: a frame's lengths and counts are checked before any record of it acts, and
 * each record is checked before it acts; a malformed frame or record ends the peer.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "closed.h"
#include "commsched/sched/sched.h"
#include "consumer.h"
#include "eager.h"
#include "flow_op.h"
#include "frames.h"
#include "op_device.h"
#include "producer.h"
#include "records.h"
#include "recv_run.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/peer/abort.h"
#include "rendezvous/peer/fault.h"
#include "rendezvous/protocol/outcome/cause.h"
#include "rendezvous/protocol/outcome/shape.h"
#include "rendezvous/protocol/wire/wire_decode.h"
#include "rendezvous/protocol/wire/wire_encode.h"
#include "send_run.h"
#include "want.h"

/* A frame with a wrong cookie is logged at most once in this interval. */
#define COOKIES_LOG_NS (10 * NS_PER_S)

/* ---- packing ----------------------------------------------------------------------- */

/* The frame that is being packed, and its peer. */
struct packer {
    struct peer *peer;
    struct wire_writer writer;
    struct list finished_ops; /**< operations that end when the frame is packed */
};

static bool pack_answer(struct packer *packer, uint8_t type, uint8_t flags,
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

static bool pack_answers(struct packer *packer)
{
    struct peer *peer = packer->peer;
    uint32_t capacity = peer_answers_max(peer);
    while (peer_out(peer)->answers_count) {
        const struct answer *answer =
            &peer_out(peer)->answers[peer_out(peer)->answers_head];
        struct record_answer fields = {.header.status = answer->status,
                                       .id = answer->id,
                                       .upto = answer->status == TRYST_OK,
                                       .origin_rank = answer->origin_rank,
                                       .origin_status = answer->status};
        char text[CAUSE_TEXT_BYTES];
        const char *why = answer->status == TRYST_OK
                              ? NULL
                              : refusal_put(peer->rdv, answer->step, &fields, text);
        if (!pack_answer(packer, answer->type, answer->for_want ? 0 : RECORD_SEND,
                         &fields, why))
            return false;
        if (answer->for_want)
            peer_in(peer)->wants_unanswered--;
        peer_out(peer)->answers_head = (peer_out(peer)->answers_head + 1) % capacity;
        peer_out(peer)->answers_count--;
    }
    return true;
}

/* Pack the answers to ASK. */
static bool pack_closed_steps(struct packer *packer)
{
    struct peer *peer = packer->peer;
    while (peer_in(peer)->closed_count) {
        uint64_t step = peer_in(peer)->closed_steps[peer_in(peer)->closed_count - 1];
        struct rendezvous *rdv = peer->rdv;
        struct record_answer fields = {.id = step};
        char text[CAUSE_TEXT_BYTES];
        fields.header.status =
            step_refuses(rdv, scope_find(&rdv->scopes, step), step).status;
        const char *why = refusal_put(rdv, step, &fields, text);
        if (!pack_answer(packer, RECORD_CLOSED, RECORD_STEP, &fields, why))
            return false;
        if (--peer_in(peer)->closed_count == 0)
            consumer_requests_end(peer);
    }
    return true;
}

static bool pack_want_answers(struct packer *packer)
{
    struct list_node *node;
    while ((node = list_first(&peer_out(packer->peer)->want_answers)) != NULL) {
        struct want *want = container_of(node, struct want, answer_node);
        struct record_answer fields = {.id = want->id, .upto = want->transfer.next};
        char text[CAUSE_TEXT_BYTES];
        const char *why = want->text;
        cause_put_answer(&fields, want->cause);
        if (want->flags & RECORD_VOID)
            why = NULL; /* the consumer's own text */
        else if (!why)
            why = refusal_put(packer->peer->rdv, want->step, &fields, text);
        if (!pack_answer(packer, want->answer, 0, &fields, why))
            return false;
        producer_want_answered(want);
    }
    return true;
}

static bool pack_request(struct packer *packer, uint64_t step)
{
    return pack_answer(packer, RECORD_ASK, 0, &(struct record_answer){.id = step}, NULL);
}

/* Pack ASK for the steps in which sends have waited for the peer since its last CLOSED:
 * as many as fit; the next frame continues at out.request_from. */
static void pack_requests(struct packer *packer)
{
    struct peer *peer = packer->peer;
    uint32_t at = 0;
    while (peer_out(peer)->requests_queued &&
           pack_request(
               packer, peer_out(peer)->requests_new[peer_out(peer)->requests_queued - 1]))
        peer_out(peer)->requests_queued--;
    if (!peer_out(peer)->requests_due)
        return;
    list_for_each_safe (&peer->rdv->scopes.all, node, after) {
        const struct scope *scope = container_of(node, struct scope, node);
        if (at++ < peer_out(peer)->request_from || scope->state == SCOPE_EARLY ||
            !scope_awaits(scope, peer))
            continue;
        if (!pack_request(packer, scope->id)) {
            peer_out(peer)->request_from = at - 1;
            return;
        }
    }
    peer_out(peer)->requests_due = false;
}

/* Pack one record of `op`, as each pack function below does. False: the record waits for
 * the next frame, or DATA for a place in the stream. True also if the record is not
 * needed any more. */
static bool pack_want(struct packer *packer, tryst_op *op)
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
__attribute__((noinline)) static bool pack_unnamed(struct packer *packer, tryst_op *op,
                                                   const void *payload, size_t bytes)
{
    struct names_out *names = &peer_out(packer->peer)->names;
    const struct flow_shape *shape = op_shape_of(op);
    const struct name_terms terms = name_terms_of(op->step_id, op->queued.seq, shape);
    bool named = name_adopt(names, op->entry, &terms);
    struct record_data record = data_fields(op, bytes);
    if (named)
        return wire_data(&packer->writer, &record, payload);
    const struct record_name name = {.key_hash = op->key->hash,
                                     .step_high = terms.step_high,
                                     .seq_high = terms.seq_high,
                                     .key_bytes = op->key->bytes,
                                     .flags = shape ? NAME_SHAPE : 0};
    record.name = (uint32_t)(names->count + 1);
    if (!wire_data_named(&packer->writer, &record, &name, op->key->string, shape,
                         payload))
        return false;
    name_add(names, op->entry, &terms);
    return true;
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
                                                               tryst_op *op,
                                                               const void *payload,
                                                               size_t bytes)
{
    struct peer *peer = packer->peer;
    struct record_data record = data_fields(op, bytes);
    if (!stream_out_has_place(&peer_out(peer)->stream))
        return false;
    bool named = !op_shape_of(op) && name_is_declared(op->entry, op->queued.seq);
    bool packed = named ? wire_data(&packer->writer, &record, payload)
                        : pack_unnamed(packer, op, payload, bytes);
    if (!packed)
        return false;
    if (__builtin_expect(op->device != NULL, 0))
        op_device_slot_drop(op);
    stream_out_push(&peer_out(peer)->stream, &op->sent);
    peer->bytes_sent += bytes;
    if (__builtin_expect(op->flow != NULL, 0))
        flow_slice_sent(op, 0);
    if (op->rdv->trace)
        op_trace_flow(op, trace_now_ns(op->rdv->trace));
    op->rdv->counters.data_inline++;
    return true;
}

/* Pack DATA that failed: its payload is the cause. Apart from pack_data, which is
 * inlined, for the room that the text takes. */
__attribute__((noinline, cold)) static bool pack_failure(struct packer *packer,
                                                         tryst_op *op)
{
    struct failure_payload failure;
    return pack_payload(packer, op, &failure, failure_put(op, &failure));
}

static bool pack_data(struct packer *packer, tryst_op *op)
{
    const void *payload = op->tensor.data;
    if (__builtin_expect(op->fail != TRYST_OK, 0))
        return pack_failure(packer, op);
    if (__builtin_expect(op->device != NULL, 0))
        payload = op->bytes ? op->device->slot->data : NULL; /* fetched from the device */
    return pack_payload(packer, op, payload, op->bytes);
}

static bool pack_offer(struct packer *packer, tryst_op *op)
{
    if (op->flow && !flow_offer_is_due(op))
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
    if (!wire_offer(&packer->writer, &record, op->key->string, shape))
        return false;
    op->rdv->counters.offers++;
    return true;
}

static bool pack_cancel(struct packer *packer, tryst_op *op)
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
    return pack_answer(packer, RECORD_CANCEL, flags, &fields,
                       op_cause_text(op, cause, text));
}

static bool pack_raise(struct packer *packer, tryst_op *op)
{
    return !op->id || pack_answer(packer, RECORD_RAISE, 0,
                                  &(struct record_answer){
                                      .id = op->id, .posted = (uint32_t)op->priority},
                                  NULL);
}

static bool pack_done(struct packer *packer, tryst_op *op)
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
    if (!pack_answer(packer, RECORD_DONE, op->took_data ? RECORD_SEND : 0, &fields, why))
        return false;
    if (op->took_data)
        /* This DONE reports how the DATA has ended. */
        (void)stream_in_done(&peer_in(op->peer)->stream, op->number);
    return true;
}

static bool pack_record(struct packer *packer, tryst_op *op, unsigned record)
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

/* True if the packed record was the last of an operation that has been reported. */
static bool op_is_finished(const tryst_op *op)
{
    if (op->state != OP_VOID)
        return op->state == OP_TAKEN;
    return op->took_data || (op->kind == OP_SEND && op->scope->state == SCOPE_CLOSING &&
                             !urgent_queued(&op->deferred_node));
}

/* Pack the records of pending operations until the frame is full. */
static void pack_pending(struct packer *packer)
{
    struct urgent_node *node;
    while ((node = urgent_first(&peer_out(packer->peer)->pending)) != NULL) {
        tryst_op *op = container_of(node, tryst_op, pending_node);
        while (op->records) { /* none left: the records were withdrawn */
            unsigned record = op->records & -op->records;
            if (!pack_record(packer, op, record))
                return;
            op->records &= (uint8_t)~record;
        }
        urgent_remove(node);
        if (op_is_finished(op))
            list_push_back(&packer->finished_ops, &node->node);
    }
}

static void ops_end(struct list *finished_ops)
{
    struct list_node *node;
    while ((node = list_pop_front(finished_ops)) != NULL)
        op_end(container_of(node, tryst_op, pending_node.node));
}

/* Pack the records that belong to no pending operation, before all others. False: the
 * frame is full. */
__attribute__((noinline)) static bool pack_rest(struct packer *packer)
{
    const struct peer *peer = packer->peer;
    if (!pack_answers(packer) || !pack_want_answers(packer) || !pack_closed_steps(packer))
        return false;
    if (peer_out(peer)->requests_due || peer_out(peer)->requests_queued)
        pack_requests(packer);
    return true;
}

size_t records_pack(struct peer *peer, uint8_t *frame, size_t capacity)
{
    struct packer packer = {.peer = peer, .writer = wire_begin(frame, capacity)};
    list_init(&packer.finished_ops);
    if (!peer_has_answers(peer) || pack_rest(&packer))
        pack_pending(&packer);
    ops_end(&packer.finished_ops);
    peer->rdv->counters.records_sent += packer.writer.records;
    if (!packer.writer.records)
        return 0;
    frame_header_put(peer, frame, packer.writer.records, 0);
    return (size_t)(packer.writer.at - frame);
}

/* Return FRAME_PAUSED, and note that the peer receives it: this rank was outside of the
 * library while bulk was in flight. */
__attribute__((noinline)) static unsigned pause_flag_pack(struct peer *peer)
{
    peer_out(peer)->pauses_sent = peer->rdv->bulk.pauses;
    return FRAME_PAUSED;
}

void frame_header_put(struct peer *peer, uint8_t *frame, unsigned records, unsigned flags)
{
    struct frame_header *header = (void *)frame;
    stream_in_ack(&peer_in(peer)->stream, !peer_out(peer)->answers_count);
    peer_acked(peer);
    peer_out(peer)->blocked_sent = peer_is_blocked(peer);
    header->cookie = peer->rdv->cookie;
    header->done_mask = peer_in(peer)->stream.acked_mask;
    header->done_base = (uint32_t)peer_in(peer)->stream.acked_base;
    header->frames_read = (uint32_t)peer->frames.read;
    header->wants_taken = peer_in(peer)->wants_got - peer_in(peer)->wants_unanswered;
    header->records = (uint16_t)records;
    if (__builtin_expect(peer_out(peer)->pauses_sent != peer->rdv->bulk.pauses, 0))
        flags |= pause_flag_pack(peer);
    if (names_in_many(&peer_in(peer)->names))
        flags |= FRAME_NAMES;
    header->flags = (uint8_t)(flags | peer_out(peer)->slice_flags |
                              (peer_out(peer)->blocked_sent ? FRAME_BLOCKED : 0));
    header->group = 0;
    peer_in(peer)->frames_acked = header->frames_read;
    peer_in(peer)->wants_acked = header->wants_taken;
}

/* ---- reading ----------------------------------------------------------------------- */

static void data_read(struct peer *peer, const struct record_data *data)
{
    const struct record_name *name = wire_data_name(data);
    eager_data(peer, data, name, wire_data_payload(data));
}

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
            producer_want(peer, whole, (const char *)record + sizeof(struct record_want));
        return wrong;
    case RECORD_DATA:
        wrong = wire_data_check(whole);
        if (!wrong)
            data_read(peer, whole);
        return wrong;
    case RECORD_OFFER:
        wrong = wire_offer_check(whole);
        if (!wrong)
            consumer_offer(peer, whole,
                           (const char *)record + sizeof(struct record_offer));
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
    uint32_t unacked = (uint32_t)peer->frames.sent - peer->frames.acked;
    uint32_t acked = header->frames_read - peer->frames.acked;
    uint32_t taken = header->wants_taken - peer_out(peer)->wants_acked;
    if (peer->is_self) /* acks_apply_own may have applied more */
        acked = (int32_t)acked > 0 ? acked : 0;
    else if (!stream_out_check(&peer_out(peer)->stream, header->done_base,
                               header->done_mask))
        return false;
    if (acked > unacked ||
        taken > peer_out(peer)->wants_sent - peer_out(peer)->wants_acked)
        return false;
    peer->frames.acked += acked;
    peer_out(peer)->wants_acked += taken;
    if (__builtin_expect(header->flags & FRAME_PAUSED, 0))
        sched_pause(peer->rdv->sched, &peer->lane);
    if ((acked && peer_has_records(peer)) ||
        (taken && !urgent_empty(&peer_out(peer)->wants_waiting)))
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

/* Count and log a frame without this session's cookie. */
__attribute__((cold, noinline)) static void cookie_refuse(struct peer *peer)
{
    struct rendezvous *rdv = peer->rdv;
    rdv->counters.wrong_cookies++;
    LOG_WARN_LIMITED(rdv->log, &rdv->limits.cookies, COOKIES_LOG_NS,
                     "dropped a frame on the endpoint to rank %d: its cookie is not "
                     "of this session",
                     peer->rank);
}

void records_read(struct peer *peer, const void *frame, size_t bytes)
{
    const struct frame_header *header = frame;
    struct rendezvous *rdv = peer->rdv;
    if (bytes < sizeof *header || header->cookie != rdv->cookie) {
        cookie_refuse(peer);
        return;
    }
    bool header_only = header->flags & FRAME_HEADER_ONLY;
    if (header->group != 0 || !wire_frame_check(frame, bytes, header->records) ||
        (header_only && header->records) || !header_read(peer, header)) {
        peer_fault(peer, PEER_FAULT_FRAME, NULL);
        return;
    }
    rdv->counters.frames_received++;
    rdv->counters.records_received += header->records;
    peer->frames.read += !header_only;
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
