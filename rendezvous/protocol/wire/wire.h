/* SPDX-License-Identifier: Apache-2.0 */
/** @file wire.h
 *  The frames and records between two ranks. (Messages of their link: peer/messages.h.)
 *
 *  Records in common terms: WANT is ready to receive (RTR), OFFER ready to send (RTS),
 *  DATA an eager message, DONE an acknowledgement.
 *
 *  All fields are little-endian and naturally aligned; records are padded to 8 bytes.
 *  Append, never reorder; a change of meaning raises WIRE_VERSION. Every byte is hostile
 *  until wire_decode.c has checked it.
 *
 *  A frame:   frame_header, then `records` records back to back.
 *  A record:  record_header (type, flags, whole size), then the rest of its struct, then
 *             key and payload if the type has them, each padded to 8.
 *
 *  WANT      consumer → producer  There is room for receive number `seq` of this key.
 *  DATA      producer → consumer  A small tensor. Its number in the stream
 *                                 (numbers/stream.h) is implied; its key is a name that
 *                                 this DATA or an earlier one, of any step, has declared.
 *  OFFER     producer → consumer  Send number `seq` is ready: sent after a deferral, with
 *                                 the shape for a receive of unknown shape (want != 0),
 *                                 or with the ready slices of a want that has fewer
 *                                 posted. Of a flow (flow.h) `ready` counts the slices,
 *                                 cumulatively, and the OFFER repeats.
 *  DONE      consumer → producer  Slices [0, upto) of want `id` are in place, and [0,
 *                                 posted) are posted. With a status: the slices came, but
 *                                 could not be put in place.
 *            consumer → producer  (RECORD_SEND) DATA number `id` has ended with this
 *                                 status; `upto` 1: a receive took it. Headers
 *                                 acknowledge most DATA that ends well.
 *  KEPT      consumer → producer  (RECORD_SEND) DATA number `id` waits for its receive: a
 *                                 DONE will acknowledge it, not a header.
 *  CANCEL    consumer → producer  Cancel want `id` if possible; `status` is the reason. A
 *                                 record with a status carries its origin too: the rank
 *                                 where the failure began, not always the sender, the
 *                                 status reported there and, in most cases, the text.
 *            producer → consumer  (RECORD_SEND) Drop DATA number `id` if no receive has
 *                                 taken it.
 *  CANCELED  producer → consumer  Want `id` ends with `status` after `upto` slices
 *                                 started.
 *            consumer → producer  (RECORD_SEND) DATA number `id` was dropped. DONE
 *                                 follows.
 *  DEFERRED  producer → consumer  Want `id` ends: no room; an OFFER will come.
 *  CLOSED    producer → consumer  Want `id` ends: its step is closed at the producer.
 *            consumer → producer  (RECORD_STEP) Step `id` is closed at the consumer for
 *                                 good: no WANT of it is in flight, and none will come.
 *  ASK       producer → consumer  Sends of step `id` wait for a WANT: is the step closed
 *                                 at the consumer? The consumer answers once the step is
 *                                 closed. The producer repeats ASK at every tick, in case
 *                                 the consumer did not have the step yet or had no memory
 *                                 to note the question.
 *  RAISE     consumer → producer  The receive of WANT `id` has become more urgent:
 *                                 priority `posted` (int32) of the training class. No
 *                                 answer.
 *
 *  Credit for WANTs is `wants_taken` in the header: cumulative, and in every frame. So
 *  are the acknowledgements of DATA (`done_base`, `done_mask`).
 */
#ifndef TRYST_RENDEZVOUS_PROTOCOL_WIRE_WIRE_H
#define TRYST_RENDEZVOUS_PROTOCOL_WIRE_WIRE_H

#include <assert.h>
#include <stdint.h>

#include "rendezvous/match/flow_shape.h"
#include "transports/transport.h"

/** The largest frame; every transport accepts this size (TRANSPORT_FRAME_BYTES). */
#define FRAME_BYTES_MAX 5248u
static_assert(FRAME_BYTES_MAX <= TRANSPORT_FRAME_BYTES, "every transport takes it");
/** Eager credit that one DATA costs beyond its payload: bounds the number of DATA
 *  records. */
#define EAGER_OVERHEAD_BYTES 192u
/** The largest tensor that always fits a frame beside the longest key. */
#define EAGER_BYTES_LIMIT 4096u
/** The smallest slice that a WANT may request (TRYST_SLICE_BYTES allows no smaller one):
 *  bounds the number of slices in one peer's window. */
#define SLICE_BYTES_MIN 4096u

/** How far the number of a WANT may be ahead of the producer's sends of the key, and that
 *  of a DATA ahead of the consumer's receives. A peer that is further ahead would have as
 *  many operations of one key and step pending, in half a terabyte of memory. */
#define NUMBERS_AHEAD_MAX (1u << 30)

enum record_type {
    RECORD_WANT = 1,
    RECORD_DATA = 2,
    RECORD_OFFER = 3,
    RECORD_DONE = 4,
    RECORD_CANCEL = 5,
    RECORD_CANCELED = 6,
    RECORD_DEFERRED = 7,
    RECORD_CLOSED = 8,
    RECORD_ASK = 9,
    RECORD_KEPT = 10,
    RECORD_RAISE = 11
};

/** frame_header.flags: the frame has no record, costs no credit and is not counted. A
 *  frame without a record and without this flag is counted: a leaving rank acknowledges
 *  with such a frame, and path probes are such frames. */
#define FRAME_HEADER_ONLY 1u
/** frame_header.flags: a small tensor waits at the sender for eager credit, so the
 *  receiver announces its unannounced small receives (as for QUIC's DATA_BLOCKED). */
#define FRAME_BLOCKED 2u
/** frame_header.flags: the sender probes the path: reply with a frame that counts. */
#define FRAME_PROBE 4u
/** frame_header.flags, three bits: the slice size that suits the path from the frame's
 *  sender to its receiver: FRAME_SLICE_UNIT << n bytes; n = 0: unknown. WANTs of the
 *  receiver request slices of this size. */
#define FRAME_SLICE_SHIFT 3u
#define FRAME_SLICE_MASK  7u
#define FRAME_SLICE_UNIT  (32u << 10)
/** frame_header.flags: since its last frame the sender was outside of the library while
 *  bulk was in flight: samples from that time do not measure the path. */
#define FRAME_PAUSED 64u
/** frame_header.flags: the sender keeps the newest NAMES_MAX names, not NAMES_FIRST
 *  (match/names.h); set in all later frames. */
#define FRAME_NAMES 128u

/** Without a cookie: the transport has verified the sender (rail_events.frame). */
struct frame_header {
    /** Bit i: DATA number done_base + 1 + i, from the frame's receiver, is done. */
    uint64_t done_mask;
    /** All numbers below are done, or records report how they end (numbers/stream.h). */
    uint32_t done_base;
    /** The receiver's frames that the sender has read, cumulative. */
    uint32_t frames_read;
    /** The receiver's WANTs that the sender has taken up, cumulative. */
    uint32_t wants_taken;
    uint16_t records;
    uint8_t flags;
    uint8_t group; /**< group id, agreed at bootstrap; one group so far: 0 */
};
static_assert(sizeof(struct frame_header) == 24, "frame header");

struct record_header {
    uint8_t type;
    uint8_t flags;
    uint16_t bytes; /**< size of the whole record, a multiple of 8 */
    /** A tryst_status, in WANT with RECORD_VOID, DATA, DONE, CANCEL, CANCELED and
     *  CLOSED. */
    int32_t status;
};
static_assert(sizeof(struct record_header) == 8, "record header");

/** WANT: the receive was given up before it was announced, and only consumes its number.
 *  `status` is the reason; `priority` is then the rank where the failure began (-1:
 *  unknown), and `bytes` the status reported there. */
#define RECORD_VOID 1u
/** WANT: dtype and size are unknown; the receive requests an OFFER, or takes DATA. */
#define RECORD_ALLOC 2u
/** WANT: `priority` is valid (not with RECORD_VOID). */
#define RECORD_PRIORITY 4u
/** WANT with RECORD_VOID, and answers with a status: the text of the failure follows the
 *  key or the record: up to RECORD_TEXT_MAX bytes, padded with zeros to 8. (A failed DATA
 *  has its text behind the record_failure.) The receiver makes the text safe. */
#define RECORD_TEXT     4u
#define RECORD_TEXT_MAX 512u
/** DATA: a record_name and the key precede the payload, and declare the key. */
#define RECORD_NAMED 8u
/** WANT and OFFER: the operation moves an edge of a collective. The edge's flow_shape is
 *  the end of the record. (DATA carries the shape with the name.) Two ends with different
 *  shapes, or with a shape at one end only, end with TRYST_E_MISMATCH. */
#define RECORD_SHAPE 8u
/** WANT: the receive is of the background class. */
#define RECORD_BACKGROUND 16u
/** DONE, KEPT, CANCEL, CANCELED: `id` is the number of a DATA, not the id of a WANT.
 *  CANCEL then goes from producer to consumer, and the consumer answers CANCELED if it
 *  still holds the bytes. DONE follows in either case. */
#define RECORD_SEND 32u
/** CLOSED: `id` is the id of a step. */
#define RECORD_STEP 64u
/** WANT, with RECORD_PRIORITY: the receive was submitted without an urgency, and a raise
 *  has set `priority`. A raise does not make a transfer less urgent: if the send has no
 *  urgency either, the transfer has the middle priority at least. */
#define RECORD_RAISED 64u
/** WANT: the receive's buffer is in device memory. */
#define RECORD_DEVICE 128u

struct record_want {
    struct record_header header;
    uint64_t id; /**< the consumer's id; also the tag of slice 0 */
    uint64_t step;
    uint64_t seq;
    uint64_t key_hash;    /**< as in record_name */
    uint64_t bytes;       /**< size of the tensor */
    uint32_t slice_bytes; /**< slice i is bulk message id + i */
    uint32_t posted;      /**< slices posted when the WANT left */
    int32_t priority;
    uint8_t dtype;
    uint8_t reserved; /**< 0 */
    uint16_t key_bytes;
};
static_assert(sizeof(struct record_want) == 64, "want");

/** DATA. With a status, the payload is a record_failure instead of the tensor. */
struct record_data {
    struct record_header header;
    uint32_t seq;  /**< lower half of the number; the declaration has the upper half */
    uint32_t step; /**< lower half of the step's id; the declaration has the upper half */
    uint32_t name; /**< the name that was declared for the key */
    uint16_t payload_bytes;
    uint8_t dtype;
    uint8_t reserved;
};
static_assert(sizeof(struct record_data) == 24, "data");

/** The payload of a failed DATA; the text of the failure follows, without a terminator:
 *  fewer than RECORD_TEXT_MAX bytes. */
struct record_failure {
    int32_t origin_rank;   /**< the rank where the failure began; -1: unknown */
    int32_t origin_status; /**< the status reported there */
};
static_assert(sizeof(struct record_failure) == 8, "failure");

/** record_name.flags: the key is an edge of a collective; a flow_shape follows the
 *  key. */
#define NAME_SHAPE 1u

/** A declaration: from now on, `name` in DATA from this rank means this key, in every
 *  step. The producer counts names up and uses the newest NAMES_FIRST, or NAMES_MAX after
 *  FRAME_NAMES (match/names.h). A use of the key with another upper half of step id or
 *  number, or with another shape, declares the key anew. So DATA has 24 bytes, and a
 *  frame holds 59 tensors of 64 bytes. */
struct record_name {
    /** XXH3-64 of the key, never 0: for tools that read frames. The receiver's tables use
     *  a keyed hash, which the receiver computes. */
    uint64_t key_hash;
    uint32_t step_high; /**< upper half of the ids of the steps that use the name */
    uint32_t seq_high;  /**< upper half of the numbers within the key */
    uint16_t key_bytes;
    uint8_t flags;
    uint8_t reserved[5];
};
static_assert(sizeof(struct record_name) == 24, "name");

struct record_offer {
    struct record_header header;
    /** The ALLOC WANT that this OFFER answers and ends, or the matched WANT with slices
     *  ready, by id; 0: sent after a deferral. */
    uint64_t want;
    uint64_t step;
    uint64_t seq;
    uint64_t key_hash;
    uint64_t bytes;
    uint32_t ready; /**< `want` is of a flow: slices that are ready, cumulative; else 0 */
    uint16_t key_bytes;
    uint8_t dtype;
    uint8_t reserved2;
};
static_assert(sizeof(struct record_offer) == 56, "offer");

/** DONE, KEPT, CANCEL, CANCELED, DEFERRED, CLOSED, ASK, RAISE. With a status:
 *  `origin_rank` is the rank where the failure began (-1: unknown), and `origin_status`
 *  the status reported there; a value with which no operation can end means the record's
 *  own status (with TRYST_E_ABORTED any error counts: users choose it). */
struct record_answer {
    struct record_header header;
    uint64_t id;
    uint32_t upto;
    uint32_t posted;
    int32_t origin_rank;
    int32_t origin_status;
};
static_assert(sizeof(struct record_answer) == 32, "answer");

/** Return `bytes` rounded up to 8: keys and payloads are padded with zeros. */
static inline size_t wire_padded(size_t bytes)
{
    return (bytes + 7) & ~(size_t)7;
}

/** Return the bytes of a declaration with its key and its shape; flags and key_bytes must
 *  be set. */
static inline size_t wire_name_bytes(const struct record_name *name)
{
    return sizeof *name + wire_padded(name->key_bytes) +
           (name->flags & NAME_SHAPE ? sizeof(struct flow_shape) : 0);
}

#endif
