/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records: packing what is queued for a peer into frames, and reading frames that came.
 *
 * Idea: nothing is queued as bytes. What is to be said hangs on its operation, on its want, or
 * in the peer's bounded ring of answers, and becomes bytes only when a frame leaves, so small ready
 * pieces for one peer leave together and memory does not grow with it.
 * Invariant: a frame is checked whole, field by field, before any record of it acts; a frame that
 * does not hold together ends the peer.
 * Callers: peer_flush, and the frame event of the transports.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "closed.h"
#include "consumer.h"
#include "eager.h"
#include "frames.h"
#include "op_device.h"
#include "producer.h"
#include "records.h"
#include "recv_run.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/peer/abort.h"
#include "send_run.h"
#include "want.h"

/** Frames with a wrong cookie are logged once in this time. */
#define COOKIES_LOG_NS (10 * NS_PER_S)

/* Frames are aligned to 8 bytes and records padded to them, so their fields are written where they
 * travel: a copy of what was just written field by field would wait for those stores to end. */

static size_t padded(size_t bytes)
{
    return (bytes + 7) & ~(size_t)7;
}

/** Copy and pad with zeros; returns the padded size. */
static size_t put_padded(uint8_t *at, const void *data, size_t bytes)
{
    size_t whole = padded(bytes);
    if (whole > bytes)
        memset(at + whole - 8, 0, 8);
    if (bytes)
        memcpy(at, data, bytes);
    return whole;
}

/* ---- packing ------------------------------------------------------------------------------ */

struct packer {
    struct peer *peer;
    uint8_t *at;
    size_t room;
    unsigned records;
};

/** Room for one record of `bytes`, or NULL. */
static uint8_t *packer_take(struct packer *packer, size_t bytes)
{
    if (bytes > packer->room)
        return NULL;
    uint8_t *at = packer->at;
    packer->at += bytes;
    packer->room -= bytes;
    packer->records++;
    return at;
}

static bool pack_answer(struct packer *packer, uint8_t type, uint8_t flags,
                        const struct record_answer *fields)
{
    uint8_t *at = packer_take(packer, sizeof *fields);
    if (!at)
        return false;
    struct record_answer *record = (void *)at;
    record->header =
        (struct record_header){type, flags, sizeof *record, fields->header.status};
    record->id = fields->id;
    record->upto = fields->upto;
    record->posted = fields->posted;
    record->origin_rank = fields->origin_rank;
    record->origin_status = fields->origin_status;
    return true;
}

static bool pack_answers(struct packer *packer)
{
    struct peer *peer = packer->peer;
    uint32_t capacity = peer_answers_max(peer);
    while (peer->out.answers_count) {
        const struct answer *answer = &peer->out.answers[peer->out.answers_head];
        struct record_answer fields = {.header.status = answer->status,
                                       .id = answer->id,
                                       .upto = answer->status == TRYST_OK,
                                       .origin_rank = answer->origin_rank,
                                       .origin_status = answer->status};
        if (!pack_answer(packer, answer->type, answer->for_want ? 0 : RECORD_SEND,
                         &fields))
            return false;
        if (answer->for_want)
            peer->in.wants_unanswered--;
        peer->out.answers_head = (peer->out.answers_head + 1) % capacity;
        peer->out.answers_count--;
    }
    return true;
}

/** Of steps that it asked about. */
static bool pack_over(struct packer *packer)
{
    struct peer *peer = packer->peer;
    while (peer->in.closed_count) {
        uint64_t step = peer->in.closed_steps[peer->in.closed_count - 1];
        struct record_answer fields = {.id = step};
        fields.header.status = step_refuses(
            peer->rdv, scope_find(&peer->rdv->scopes, step), step, &fields.origin_rank);
        fields.origin_status = fields.header.status;
        if (!pack_answer(packer, RECORD_CLOSED, RECORD_STEP, &fields))
            return false;
        if (--peer->in.closed_count == 0)
            consumer_asks_forget(peer);
    }
    return true;
}

static bool pack_want_answers(struct packer *packer)
{
    struct list_node *node;
    while ((node = list_first(&packer->peer->out.want_answers)) != NULL) {
        struct want *want = container_of(node, struct want, answer_node);
        struct record_answer fields = {.header.status = want->status,
                                       .id = want->id,
                                       .upto = want->transfer.next,
                                       .origin_rank = want->origin_rank,
                                       .origin_status = want->status};
        if (!pack_answer(packer, want->answer, 0, &fields))
            return false;
        producer_want_answered(want);
    }
    return true;
}

static bool pack_ask(struct packer *packer, uint64_t step)
{
    return pack_answer(packer, RECORD_ASK, 0, &(struct record_answer){.id = step});
}

/** Ask about the steps in which sends wait, or did: as many as there is room for, the others in the next
 *  frame. */
static void pack_asks(struct packer *packer)
{
    struct peer *peer = packer->peer;
    uint32_t at = 0;
    while (peer->out.asks_queued &&
           pack_ask(packer, peer->out.asks_new[peer->out.asks_queued - 1]))
        peer->out.asks_queued--;
    if (!peer->out.ask)
        return;
    list_for_each_safe (&peer->rdv->scopes.all, node, after) {
        const struct scope *scope = container_of(node, struct scope, node);
        if (at++ < peer->out.ask_from || scope->state != SCOPE_OPEN || !scope->sends_wait)
            continue;
        if (!pack_ask(packer, scope->id)) {
            peer->out.ask_from = at - 1;
            return;
        }
    }
    peer->out.ask = false;
}

/** TRYST_OK: packed. TRYST_AGAIN: not now, but others may be. TRYST_IN_PROGRESS: frame full. */
static tryst_status pack_want(struct packer *packer, tryst_op *op)
{
    size_t bytes = sizeof(struct record_want) + padded(op->key->bytes);
    if (bytes > packer->room)
        return TRYST_IN_PROGRESS;
    tryst_status status = consumer_announce(op);
    if (status != TRYST_OK)
        return status;
    bool is_void = op->state == OP_VOID;
    bool alloc = op->alloc && !op->tensor.data;
    uint8_t flags = (uint8_t)((is_void ? RECORD_VOID : 0) | (alloc ? RECORD_ALLOC : 0) |
                              (op->flags & TRYST_OP_PRIORITY ? RECORD_PRIORITY : 0) |
                              (op->device ? RECORD_DEVICE : 0));
    struct record_want record = {.header = {RECORD_WANT, flags, (uint16_t)bytes,
                                            is_void ? op_told(op->final) : TRYST_OK},
                                 .id = op->id,
                                 .step = op->step_id,
                                 .seq = op->queued.seq,
                                 .key_hash = op->key->hash,
                                 .bytes = op->bytes,
                                 .slice_bytes = op->run
                                                    ? op->run->slice_bytes
                                                    : (uint32_t)op->rdv->set.slice_bytes,
                                 .posted = op->run ? op->done_posted : 0,
                                 .priority = op->priority,
                                 .dtype = (uint8_t)op->tensor.dtype,
                                 .key_bytes = op->key->bytes};
    uint8_t *at = packer_take(packer, bytes);
    memcpy(at, &record, sizeof record);
    put_padded(at + sizeof record, op->key->string, op->key->bytes);
    op->records &= (uint8_t)~QUEUED_WANT;
    return TRYST_OK;
}

/** The bytes of a small tensor on a device, out of their slot. */
static void device_pack(tryst_op *op, uint8_t *at, size_t bytes)
{
    if (bytes)
        put_padded(at, op->device->slot->data, bytes);
    op_device_slot_drop(op);
}

/** Declare the key of `op`; returns where the payload goes. */
static uint8_t *pack_name(tryst_op *op, struct record_data *data)
{
    struct record_name *record = (void *)(data + 1);
    op->entry->declared = op->peer->out.names_told;
    data->header.flags |= RECORD_NAMED;
    *record = (struct record_name){
        .step = op->step_id, .key_hash = op->key->hash, .key_bytes = op->key->bytes};
    uint8_t *at = (uint8_t *)(record + 1);
    return at + put_padded(at, op->key->string, op->key->bytes);
}

static void pack_payload(tryst_op *op, uint8_t *at, size_t bytes)
{
    if (__builtin_expect(op->device != NULL, 0))
        device_pack(op, at, bytes);
    else
        put_padded(at, op->tensor.data, bytes);
}

static tryst_status pack_data(struct packer *packer, tryst_op *op)
{
    struct peer *peer = packer->peer;
    bool named = name_is_declared(op->entry, peer->out.names_told);
    size_t name_bytes = named ? 0 : sizeof(struct record_name) + padded(op->key->bytes);
    size_t payload_bytes = op->fail == TRYST_OK ? op->bytes : 0;
    size_t bytes = sizeof(struct record_data) + name_bytes + padded(payload_bytes);
    uint8_t *at =
        stream_out_has_place(&peer->out.stream) ? packer_take(packer, bytes) : NULL;
    if (!at)
        return TRYST_IN_PROGRESS;
    struct record_data *record = (void *)at;
    record->header =
        (struct record_header){RECORD_DATA, 0, (uint16_t)bytes, op_told(op->fail)};
    record->seq = op->queued.seq;
    record->name = (uint32_t)(named ? op->entry->declared : ++peer->out.names_told);
    record->payload_bytes = (uint16_t)payload_bytes;
    record->dtype = (uint8_t)op->tensor.dtype;
    record->reserved = 0;
    pack_payload(op, named ? (uint8_t *)(record + 1) : pack_name(op, record),
                 payload_bytes);
    stream_out_push(&peer->out.stream, &op->sent);
    peer->bytes_sent += payload_bytes;
    op->records &= (uint8_t)~QUEUED_DATA;
    if (op->rdv->trace)
        op_trace_flow(op, trace_now_ns(op->rdv->trace));
    op->rdv->counters.data_inline++;
    return TRYST_OK;
}

static tryst_status pack_offer(struct packer *packer, tryst_op *op)
{
    size_t key_bytes = op->want_id ? 0 : op->key->bytes;
    size_t bytes = sizeof(struct record_offer) + padded(key_bytes);
    uint8_t *at = packer_take(packer, bytes);
    if (!at)
        return TRYST_IN_PROGRESS;
    struct record_offer record = {.header = {RECORD_OFFER, 0, (uint16_t)bytes, TRYST_OK},
                                  .want = op->want_id,
                                  .step = op->step_id,
                                  .seq = op->queued.seq,
                                  .key_hash = op->key->hash,
                                  .bytes = op->bytes,
                                  .key_bytes = (uint16_t)key_bytes,
                                  .dtype = (uint8_t)op->tensor.dtype};
    memcpy(at, &record, sizeof record);
    put_padded(at + sizeof record, op->key->string, key_bytes);
    op->records &= (uint8_t)~QUEUED_OFFER;
    op->rdv->counters.offers++;
    if (op->state == OP_VOID && op->scope->state == SCOPE_CLOSING)
        op_end(op); /* the last that it had to say */
    return TRYST_OK;
}

static tryst_status pack_cancel(struct packer *packer, tryst_op *op)
{
    uint8_t flags = op->kind == OP_SEND ? RECORD_SEND : 0;
    tryst_status why = op->kind == OP_SEND ? op->take_back : op->fail;
    struct record_answer fields = {.header.status = op_told(why),
                                   .id = op->kind == OP_SEND ? op->sent.number : op->id};
    if (!pack_answer(packer, RECORD_CANCEL, flags, &fields))
        return TRYST_IN_PROGRESS;
    op->records &= (uint8_t)~QUEUED_CANCEL;
    return TRYST_OK;
}

static tryst_status pack_done(struct packer *packer, tryst_op *op)
{
    struct record_answer fields = {.header.status = op->done_status,
                                   .id = op->took_data ? op->number : op->id,
                                   .upto = op->took_data ? 1 : op->done_upto,
                                   .posted = op->done_posted,
                                   .origin_rank = op->rdv->group->roster.rank,
                                   .origin_status = op->done_status};
    if (!pack_answer(packer, RECORD_DONE, op->took_data ? RECORD_SEND : 0, &fields))
        return TRYST_IN_PROGRESS;
    if (op->took_data)
        (void)stream_in_done(&op->peer->in.stream, op->number); /* this record says how */
    op->records &= (uint8_t)~QUEUED_DONE;
    if (op->state == OP_TAKEN || (op->state == OP_VOID && op->took_data))
        op_end(op);
    return TRYST_OK;
}

static tryst_status pack_op(struct packer *packer, tryst_op *op)
{
    if (!op->records)
        return TRYST_OK; /* what it had to say was withdrawn */
    if (op->records & QUEUED_WANT)
        return pack_want(packer, op);
    if (op->records & QUEUED_DATA)
        return pack_data(packer, op);
    if (op->records & QUEUED_OFFER)
        return pack_offer(packer, op);
    if (op->records & QUEUED_CANCEL)
        return pack_cancel(packer, op);
    return pack_done(packer, op);
}

/** Pack the marks of pending operations until the frame is full. */
static void pack_pending(struct packer *packer)
{
    struct list_node *node;
    while ((node = list_first(&packer->peer->out.pending)) != NULL) {
        tryst_op *op = container_of(node, tryst_op, pending_node);
        op_hold(op); /* packing its last mark may end it */
        tryst_status status = pack_op(packer, op);
        bool through =
            status == TRYST_AGAIN ? op->state != OP_VOID || op->run : !op->records;
        if (status != TRYST_IN_PROGRESS && through &&
            list_first(&packer->peer->out.pending) == node)
            list_remove(node);
        op_let_go(op);
        if (status == TRYST_IN_PROGRESS)
            return;
    }
}

/** Records that no operation waits to send, before all others: false where the frame is full. */
__attribute__((noinline)) static bool pack_rest(struct packer *packer)
{
    const struct peer *peer = packer->peer;
    if (!pack_answers(packer) || !pack_want_answers(packer) || !pack_over(packer))
        return false;
    if (peer->out.ask || peer->out.asks_queued)
        pack_asks(packer);
    return true;
}

size_t records_pack(struct peer *peer, uint8_t *frame, size_t capacity)
{
    struct packer packer = {.peer = peer,
                            .at = frame + sizeof(struct frame_header),
                            .room = capacity - sizeof(struct frame_header)};
    if (!peer_has_answers(peer) || pack_rest(&packer))
        pack_pending(&packer);
    peer->rdv->counters.records_sent += packer.records;
    if (!packer.records)
        return 0;
    frame_header_put(peer, frame, packer.records, 0);
    return (size_t)(packer.at - frame);
}

void frame_header_put(struct peer *peer, uint8_t *frame, unsigned records, unsigned flags)
{
    struct frame_header *header = (void *)frame;
    stream_in_tell(&peer->in.stream, !peer->out.answers_count);
    peer_acked(peer);
    peer->out.blocked_told = peer_is_blocked(peer);
    header->cookie = peer->rdv->cookie;
    header->done_mask = peer->in.stream.told_mask;
    header->done_base = (uint32_t)peer->in.stream.told_base;
    header->frames_read = (uint32_t)peer->in.frames_read;
    header->wants_taken = peer->in.wants_got - peer->in.wants_unanswered;
    header->records = (uint16_t)records;
    header->flags = (uint8_t)(flags | (peer->out.blocked_told ? FRAME_BLOCKED : 0));
    header->group = 0;
    peer->in.frames_told = header->frames_read;
    peer->in.wants_told = header->wants_taken;
}

/* ---- reading ------------------------------------------------------------------------------ */

static const char *want_check(const struct record_want *want, size_t bytes)
{
    if (bytes != sizeof *want + padded(want->key_bytes) || !want->key_bytes)
        return "WANT: key does not fit";
    if (!want->id || !want->slice_bytes)
        return "WANT: no id or no slice size";
    if (want->slice_bytes < SLICE_BYTES_MIN)
        return "WANT: slices too small";
    if (want->bytes / want->slice_bytes >= UINT32_MAX / 2)
        return "WANT: too many slices";
    if (want->header.flags & RECORD_VOID && want->header.status < 100)
        return "WANT: given up, but without a failure";
    uint64_t slices =
        want->bytes / want->slice_bytes + !!(want->bytes % want->slice_bytes);
    return want->posted <= slices ? NULL : "WANT: posted";
}

/** What DATA declares, or NULL. */
static const struct record_name *data_name(const struct record_data *data)
{
    return data->header.flags & RECORD_NAMED ? (const void *)(data + 1) : NULL;
}

static const char *data_check(const struct record_data *data, size_t bytes)
{
    const struct record_name *name = data_name(data);
    size_t head = sizeof *data;
    if (name && bytes < head + sizeof *name)
        return "DATA: short";
    if (name && (!name->key_bytes || !name->key_hash))
        return "DATA: no key";
    if (name)
        head += sizeof *name + padded(name->key_bytes);
    return bytes == head + padded(data->payload_bytes) ? NULL
                                                       : "DATA: sizes do not add up";
}

static void data_read(struct peer *peer, const struct record_data *data)
{
    const struct record_name *name = data_name(data);
    const uint8_t *payload = (const uint8_t *)(data + 1);
    if (name)
        payload += sizeof *name + padded(name->key_bytes);
    eager_data(peer, data, name, payload);
}

static const char *offer_check(const struct record_offer *offer, size_t bytes)
{
    if (bytes != sizeof *offer + padded(offer->key_bytes))
        return "OFFER: key does not fit";
    return offer->want || offer->key_bytes ? NULL : "OFFER: neither key nor want";
}

/** The answer is about a DATA, by its number. */
static void data_answer_read(struct peer *peer, const struct record_answer *answer)
{
    switch (answer->header.type) {
    case RECORD_DONE: producer_data_done(peer, answer); break;
    case RECORD_KEPT: producer_data_kept(peer, answer->id); break;
    case RECORD_CANCEL: eager_cancel(peer, answer); break;
    case RECORD_CANCELED: producer_data_canceled(peer, answer->id); break;
    default: peer_give_up(peer, TRYST_E_PROTOCOL, "it answered DATA as a WANT"); break;
    }
}

static void answer_read(struct peer *peer, const struct record_answer *answer)
{
    if (answer->header.flags & RECORD_SEND) {
        data_answer_read(peer, answer);
        return;
    }
    switch (answer->header.type) {
    case RECORD_DONE: send_run_done(peer, answer); break;
    case RECORD_CANCEL: producer_cancel(peer, answer); break;
    case RECORD_ASK: consumer_asked(peer, answer->id); break;
    case RECORD_CLOSED:
        if (answer->header.flags & RECORD_STEP)
            producer_step_closed(peer, answer);
        else
            consumer_ended(peer, answer);
        break;
    default: consumer_ended(peer, answer); break;
    }
}

/** Users index by it. */
static bool rank_is_any(const struct peer *peer, int32_t rank)
{
    return rank >= -1 && rank < peer->rdv->group->roster.size;
}

/** Act on one record; the reason when it is malformed. */
static const char *record_read(struct peer *peer, const uint8_t *record, size_t bytes)
{
    const struct record_header *header = (const void *)record;
    const char *wrong = NULL;
    if (header->status != TRYST_OK && header->status < 100)
        return "a status that ends nothing";
    switch (header->type) {
    case RECORD_WANT: {
        const struct record_want *want = (const void *)record;
        wrong = bytes < sizeof *want ? "WANT: short" : want_check(want, bytes);
        if (!wrong)
            producer_want(peer, want, (const char *)(want + 1));
        return wrong;
    }
    case RECORD_DATA: {
        const struct record_data *data = (const void *)record;
        wrong = bytes < sizeof *data ? "DATA: short" : data_check(data, bytes);
        if (!wrong)
            data_read(peer, data);
        return wrong;
    }
    case RECORD_OFFER: {
        const struct record_offer *offer = (const void *)record;
        wrong = bytes < sizeof *offer ? "OFFER: short" : offer_check(offer, bytes);
        if (!wrong)
            consumer_offer(peer, offer, (const char *)(offer + 1));
        return wrong;
    }
    case RECORD_DONE:
    case RECORD_CANCEL:
    case RECORD_CANCELED:
    case RECORD_DEFERRED:
    case RECORD_CLOSED:
    case RECORD_ASK:
    case RECORD_KEPT:
        if (bytes != sizeof(struct record_answer))
            return "answer: wrong size";
        if ((header->type == RECORD_CANCEL || header->type == RECORD_CANCELED ||
             header->type == RECORD_CLOSED) &&
            header->status == TRYST_OK)
            return "answer: a failure that is none";
        if (!rank_is_any(peer, ((const struct record_answer *)record)->origin_rank))
            return "answer: no rank of the group";
        answer_read(peer, (const void *)record);
        return NULL;
    default: return "unknown record";
    }
}

/** Whether the records tile the frame exactly. */
static bool frame_check(const uint8_t *frame, size_t bytes, unsigned records)
{
    size_t at = sizeof(struct frame_header);
    for (unsigned i = 0; i < records; i++) {
        if (bytes - at < sizeof(struct record_header))
            return false;
        const struct record_header *header = (const void *)(frame + at);
        if (header->bytes < sizeof *header || header->bytes % 8 ||
            header->bytes > bytes - at)
            return false;
        at += header->bytes;
    }
    return at == bytes;
}

/** Credit and take-ups that the header returns; false when it returns what was not taken. */
static bool header_read(struct peer *peer, const struct frame_header *header)
{
    uint32_t unacked = (uint32_t)peer->out.frames_sent - peer->out.frames_acked;
    uint32_t acked = header->frames_read - peer->out.frames_acked;
    uint32_t taken = header->wants_taken - peer->out.wants_acked;
    if (peer->is_self) /* it may have heard more since that left: acks_apply_own */
        acked = (int32_t)acked > 0 ? acked : 0;
    else if (!stream_out_check(&peer->out.stream, header->done_base, header->done_mask))
        return false;
    if (acked > unacked || taken > peer->out.wants_sent - peer->out.wants_acked)
        return false;
    peer->out.frames_acked += acked;
    if (taken) {
        peer->out.wants_acked += taken;
        peer_wants_resume(peer);
    }
    if (acked && peer_has_records(peer))
        peer_flush_later(peer);
    return true;
}

/** What the header says of DATA; after the records of its frame. */
static void acks_read(struct peer *peer, const struct frame_header *header)
{
    peer->in.wants_announced = header->flags & FRAME_BLOCKED;
    if (peer->in.wants_announced)
        peer_announce(peer);
    if (stream_out_is_news(&peer->out.stream, header->done_base, header->done_mask)) {
        stream_out_acked(&peer->out.stream, header->done_base, header->done_mask,
                         producer_acked);
        if (!list_empty(&peer->out.pending)) /* DATA may have waited for a place */
            peer_flush_later(peer);
    }
    producer_unblock(peer); /* a record may have brought credit too */
}

/** A rank applies its acknowledgements of its own DATA at once, without a frame, unless a record is on its
 *  way that must come first. */
static void acks_apply_own(struct peer *peer)
{
    bool on_way =
        peer->out.answers_count || peer->in.frames_read != peer->out.frames_sent;
    if (!peer->in.unacked || on_way)
        return;
    peer->out.frames_acked = peer->in.frames_told = (uint32_t)peer->in.frames_read;
    peer_acked(peer);
    stream_in_tell(&peer->in.stream, true);
    stream_out_acked(&peer->out.stream, (uint32_t)peer->in.stream.told_base,
                     peer->in.stream.told_mask, producer_acked);
    producer_unblock(peer);
}

void records_read(struct peer *peer, const void *frame, size_t bytes)
{
    const struct frame_header *header = frame;
    struct rendezvous *rdv = peer->rdv;
    if (bytes < sizeof *header || header->cookie != rdv->cookie) {
        rdv->counters.wrong_cookies++;
        LOG_WARN_LIMITED(rdv->log, &rdv->cookies_limit, COOKIES_LOG_NS,
                         "dropped a frame without this session's cookie, which came by "
                         "the endpoint to rank %d",
                         peer->rank);
        return;
    }
    bool header_only = header->flags & FRAME_HEADER_ONLY;
    if (header->group != 0 || !frame_check(frame, bytes, header->records) ||
        (header_only && header->records) || !header_read(peer, header)) {
        peer_give_up(peer, TRYST_E_PROTOCOL,
                     "it sent a frame that does not hold together");
        return;
    }
    rdv->counters.frames_received++;
    rdv->counters.records_received += header->records;
    peer->in.frames_read += !header_only;
    if (peer_credit_is_due(peer))
        peer_flush_later(peer);
    const uint8_t *at = (const uint8_t *)frame + sizeof *header;
    for (unsigned i = 0; i < header->records && peer->life <= PEER_LEFT; i++) {
        const struct record_header *record = (const void *)at;
        const char *wrong = record_read(peer, at, record->bytes);
        if (wrong) {
            peer_give_up(peer, TRYST_E_PROTOCOL, wrong);
            return;
        }
        at += record->bytes;
    }
    if (peer->life <= PEER_LEFT)
        acks_read(peer, header);
    if (peer->is_self)
        acks_apply_own(peer);
}
