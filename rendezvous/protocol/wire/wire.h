/* SPDX-License-Identifier: Apache-2.0 */
/** @file wire.h
 *  What travels between two ranks in frames: records. (Their link: peer/messages.h.)
 *
 *  In the field's words: WANT is ready to receive (RTR), OFFER ready to send (RTS), DATA an eager
 *  message, DONE an acknowledgement.
 *
 *  All fields are little-endian and naturally aligned; records are padded to 8 bytes. Append,
 *  never reorder; a change of meaning raises WIRE_VERSION. Everything here is hostile until
 *  wire_decode.c has checked it.
 *
 *  A frame:   frame_header, then `records` records back to back.
 *  A record:  record_header (type, flags, whole size), then the rest of its struct, then key and
 *             payload where it has them, each padded to 8.
 *
 *  WANT      consumer → producer  "I have room for receive number `seq` of this key"
 *  DATA      producer → consumer  the tensor itself, small. It has the next number of its stream
 *                                 (numbers/stream.h) and names its key by a number that an earlier DATA, of
 *                                 whatever step, or this one declares
 *  OFFER     producer → consumer  "send number `seq` is ready": after a deferral, or the shape that
 *                                 a receive of unknown shape (want != 0) asked for, or the slices that
 *                                 are ready, of a want with fewer posted. Of a flow (flow.h) `ready`
 *                                 counts them, cumulatively, and the OFFER repeats
 *  DONE      consumer → producer  slices [0, upto) of want `id` are in place and [0, posted) are
 *                                 posted. With a status: they came, but
 *                                 could not be put in place
 *            consumer → producer  (RECORD_SEND) DATA number `id` has ended, with this status; `upto`
 *                                 1: a receive took it. Headers say so of most that end well
 *  KEPT      consumer → producer  (RECORD_SEND) DATA number `id` waits for its receive: headers will
 *                                 not speak of it, DONE will
 *  CANCEL    consumer → producer  give want `id` back if you can; `status`: why. A record with a status
 *                                 has its origin too: the rank where the failure began, which is
 *                                 not always the sender, and the status that this rank reported
 *            producer → consumer  (RECORD_SEND) give DATA number `id` back if no receive has taken it
 *  CANCELED  producer → consumer  want `id` ends with `status` after `upto` slices were started
 *  DEFERRED  producer → consumer  want `id` ends: no room; an OFFER will come
 *  CLOSED    producer → consumer  want `id` ends: its step is closed here
 *            consumer → producer  (RECORD_STEP) step `id` is closed here for good: no WANT of it
 *                                 is under way, and none will come
 *  ASK       producer → consumer  sends of step `id` wait for your WANT: is it closed at yours?
 *                                 Answered once it is; asked again at every tick, in case the
 *                                 consumer did not know the step or had no memory to note it
 *
 *  RAISE     consumer → producer  the receive of WANT `id` has become more urgent: priority `posted`
 *                                 (int32), of the training class. No answer
 *
 *  Credit for WANTs is the header's `wants_taken`: cumulative, and every frame carries it. So are the
 *  acknowledgements of DATA (`done_base`, `done_mask`).
 */
#ifndef RENDEZVOUS_PROTOCOL_WIRE_H
#define RENDEZVOUS_PROTOCOL_WIRE_H

#include <assert.h>
#include <stdint.h>

#include "rendezvous/match/flow_shape.h"
#include "transports/transport.h"

/** Largest frame that is ever sent; every transport takes as much (TRANSPORT_FRAME_BYTES). */
#define FRAME_BYTES_MAX 5248u
static_assert(FRAME_BYTES_MAX <= TRANSPORT_FRAME_BYTES, "every transport takes it");
/** Bytes of eager credit that one DATA costs beyond its payload: bounds the number of them. */
#define EAGER_OVERHEAD_BYTES 192u
/** Largest inline tensor that always fits a frame beside the longest key. */
#define EAGER_BYTES_LIMIT 4096u
/** Smallest slice that a WANT may ask for (TRYST_SLICE_BYTES allows no smaller one): bounds what
 *  one peer's window costs in slices. */
#define SLICE_BYTES_MIN 4096u

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

/** frame_header.flags: carries no record, costs no credit and is not counted. (Without it a frame of no
 *  record is counted: who leaves acknowledges so, and who probes the path.) */
#define FRAME_HEADER_ONLY 1u
/** frame_header.flags: a small tensor waits here for eager credit: receives that it could meet
 *  announce themselves (as QUIC's DATA_BLOCKED). */
#define FRAME_BLOCKED 2u
/** Its sender waits for what the path is to bring: answer with a frame that counts. */
#define FRAME_PROBE 4u
/** Three bits: the slices that its sender finds fit for the path from it, into which what it is to send
 *  should be cut: FRAME_SLICE_UNIT << n bytes; n = 0: it does not know. */
#define FRAME_SLICE_SHIFT 3u
#define FRAME_SLICE_MASK  7u
#define FRAME_SLICE_UNIT  (32u << 10)
/** While bulk was under way its sender was outside of the library, since its last frame: how long that bulk
 *  took tells nothing of the path. */
#define FRAME_PAUSED 64u
/** From here on its sender keeps the newest NAMES_MAX names, not only NAMES_FIRST (match/names.h). */
#define FRAME_NAMES 128u

struct frame_header {
    uint64_t cookie; /**< first half of the session cookie */
    uint64_t
        done_mask; /**< bit i: DATA number done_base + 1 + i of the receiver is done */
    uint32_t
        done_base; /**< all numbers below are done, or a record says so (numbers/stream.h) */
    uint32_t frames_read; /**< frames of the receiver that were read here, cumulative */
    uint32_t
        wants_taken; /**< WANTs of the receiver that were taken up here, cumulative */
    uint16_t records;
    uint8_t flags;
    uint8_t group; /**< id agreed at bootstrap; one group so far: 0 */
};
static_assert(sizeof(struct frame_header) == 32, "frame header");

struct record_header {
    uint8_t type;
    uint8_t flags;
    uint16_t bytes; /**< whole record, multiple of 8 */
    int32_t
        status; /**< WANT with RECORD_VOID, DONE, CANCEL, CANCELED, CLOSED: a tryst_status */
};
static_assert(sizeof(struct record_header) == 8, "record header");

/** WANT: the receive was given up before it was announced: it only consumes its number. `status` is why;
 *  `priority` is then the rank where the failure began (-1: unknown), `bytes` the status that it reported. */
#define RECORD_VOID 1u
/** WANT: dtype and size are not known; the receive asks for an OFFER or takes DATA. WANT with RECORD_VOID and
 *  a dtype, and a failed DONE with RECORD_SEND: the receive's alloc callback provided no room. */
#define RECORD_ALLOC 2u
/** WANT: `priority` counts. */
#define RECORD_PRIORITY 4u
/** DATA: declares its key: a record_name and the key come before the payload. */
#define RECORD_NAMED 8u
/** WANT, OFFER, DONE of RECORD_SEND with TRYST_E_MISMATCH: the operation moves an edge of a collective. The edge's
 *  flow_shape comes behind the key, and in DONE behind the record. (DATA has the shape with the name.) Ends with
 *  different shapes, or of which only one has a shape, end with TRYST_E_MISMATCH. */
#define RECORD_SHAPE 8u
/** WANT: of the background class. */
#define RECORD_BACKGROUND 16u
/** DONE, KEPT, CANCEL, CANCELED: `id` is the number of a DATA, not the id of a WANT; CANCEL then goes
 *  from producer to consumer, who answers CANCELED if it still holds the bytes. DONE follows all the
 *  same. */
#define RECORD_SEND 32u
/** CLOSED: `id` is that of a step. */
#define RECORD_STEP 64u
/** WANT: the bytes go to a device's memory. */
#define RECORD_DEVICE 128u

struct record_want {
    struct record_header header;
    uint64_t id; /**< consumer's id and tag of slice 0 */
    uint64_t step;
    uint64_t seq;
    uint64_t key_hash;
    uint64_t bytes;       /**< of the tensor */
    uint32_t slice_bytes; /**< slice i is bulk message id + i */
    uint32_t posted;      /**< slices posted now */
    int32_t priority;
    uint8_t dtype;
    uint8_t rail; /**< the consumer's rail that the bulk must come to */
    uint16_t key_bytes;
};
static_assert(sizeof(struct record_want) == 64, "want");

/** With a status the payload is a record_failure instead of the tensor. */
struct record_data {
    struct record_header header;
    uint32_t seq;  /**< lower half; the declaration has the upper half, */
    uint32_t step; /**< and of this one too */
    uint32_t name; /**< the number that was declared for its key */
    uint16_t payload_bytes;
    uint8_t dtype;
    uint8_t reserved;
};
static_assert(sizeof(struct record_data) == 24, "data");

/** The payload of a failed DATA: RECORD_FAILURE_BYTES of it; the whole with TRYST_E_MISMATCH. */
struct record_failure {
    int32_t origin_rank;   /**< where the failure began; -1: unknown */
    int32_t origin_status; /**< the status that this rank reported */
    uint64_t bytes;        /**< of the send's tensor */
};
static_assert(sizeof(struct record_failure) == 16, "failure");
#define RECORD_FAILURE_BYTES 8u

/** record_name.flags: the key is an edge of a collective: a flow_shape comes behind it. */
#define NAME_SHAPE 1u

/** From now on `name` of DATA from this rank means this key, in every step. The producer counts names up and
 *  uses the newest NAMES_FIRST, or NAMES_MAX after FRAME_NAMES (match/names.h). A use of the key with another
 *  upper half of the step's id or of the number, or with another shape, declares the key anew. So DATA has 24
 *  bytes, and a frame takes 59 tensors of 64 bytes. */
struct record_name {
    uint64_t key_hash;
    uint32_t step_high; /**< upper half of the steps in which the name is used */
    uint32_t seq_high;  /**< and of the numbers within the key */
    uint16_t key_bytes;
    uint8_t flags;
    uint8_t reserved[5];
};
static_assert(sizeof(struct record_name) == 24, "name");

struct record_offer {
    struct record_header header;
    uint64_t
        want; /**< id of the ALLOC WANT that this OFFER answers and ends, or of the matched
                    *   WANT with slices ready; 0: after a deferral */
    uint64_t step;
    uint64_t seq;
    uint64_t key_hash;
    uint64_t bytes;
    uint32_t ready; /**< `want` is a flow's: slices that are ready, cumulative; else 0 */
    uint16_t key_bytes;
    uint8_t dtype;
    uint8_t reserved2;
};
static_assert(sizeof(struct record_offer) == 56, "offer");

/** DONE, KEPT, CANCEL, CANCELED, DEFERRED, CLOSED, ASK, RAISE. With a status: `origin_rank` is where the failure
 *  began (-1: unknown), `origin_status` what that rank reported (a status with which no operation ends: the
 *  record's own). In a DONE of RECORD_SEND with TRYST_E_MISMATCH
 *  `upto` and `posted` are the low and the high half of the receive's bytes, `origin_status` is its dtype. */
struct record_answer {
    struct record_header header;
    uint64_t id;
    uint32_t upto;
    uint32_t posted;
    int32_t origin_rank;
    int32_t origin_status;
};
static_assert(sizeof(struct record_answer) == 32, "answer");

/** Keys and payloads are padded with zeros to 8 bytes. */
static inline size_t wire_padded(size_t bytes)
{
    return (bytes + 7) & ~(size_t)7;
}

/** Bytes of a declaration with its key and its shape, for which flags and key_bytes count. */
static inline size_t wire_name_bytes(const struct record_name *name)
{
    return sizeof *name + wire_padded(name->key_bytes) +
           (name->flags & NAME_SHAPE ? sizeof(struct flow_shape) : 0);
}

#endif
