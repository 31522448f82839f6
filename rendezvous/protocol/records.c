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
#include "producer.h"
#include "records.h"
#include "rendezvous/peer/fault.h"
#include "rendezvous/protocol/wire/wire_decode.h"
#include "send_run.h"

/* A frame with a wrong cookie is logged at most once in this interval. */
#define COOKIES_LOG_NS (10 * NS_PER_S)

/* ---- reading ----------------------------------------------------------------------- */

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
