/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that the two ends of a pair share.
 *
 *   header page        sizes, both nonces, each side's words, each ring's tail
 *   ring 0             side 0 writes, side 1 reads        (ring_bytes)
 *   ring 1             side 1 writes, side 0 reads        (ring_bytes)
 *
 * Side 0 is the initiator. Each cache line has one writer (or is rarely written), so that
 * polling stays in the reader's cache. A faulty peer may overwrite anything here at any
 * time: a reader copies a word out once, checks the copy and uses only the copy.
 *
 * A ring holds entries of whole cache lines, one behind the other, wrapping anywhere:
 *
 *   word     bits 0..31 payload bytes, 32..39 kind, 40..63 lap
 *   payload  and unused bytes up to the end of its last line
 *
 * The lap is 1, then 2 after the ring's end was passed, then 1 again. A word of the lap
 * before, or zero, means: no entry yet. The word doubles as the flag "this entry is
 * whole": the writer first writes the payload, then the word. So one cache line carries a
 * small frame and its arrival.
 *
 * Layout version: PAIR_VERSION. Append, never reorder. Little-endian hosts only.
 */
#ifndef TRYST_TRANSPORTS_PAIR_PAIR_WIRE_H
#define TRYST_TRANSPORTS_PAIR_PAIR_WIRE_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define PAIR_MAGIC        UINT64_C(0x3130524941505254) /* "TRPAIR01" */
#define PAIR_VERSION      3u
#define PAIR_LINE_BYTES   64
#define PAIR_HEADER_BYTES 4096u
#define PAIR_SLOTS        64u /**< most offers per direction (bits of one word) */

/** Largest frame. The ring must hold one beside a quarter that is read but not yet given
 *  back. */
#define PAIR_FRAME_MAX      5248u
#define PAIR_RING_BYTES_MIN 8192u
#define PAIR_RING_BYTES_MAX (UINT64_C(1) << 30)

/** pair_side.asleep */
enum {
    PAIR_ASLEEP = 1,     /**< wants the doorbell for an entry or an answer */
    PAIR_WANTS_ROOM = 2, /**< wants the doorbell for ring space given back, too */
};

/** pair_side.grant: bits that say whether the peer may read memory that this side named
 *  in an OFFER entry */
enum {
    PAIR_REVOKED = 1, /**< the peer may not; this side sets the bit once and for all */
    PAIR_READING = 2, /**< self: the peer, in this process, is reading; the peer's bit */
};

/** pair_side.answer[slot] */
enum {
    PAIR_ANSWER_TAKEN = 1, /**< the bytes were read (or dropped): the buffer is free */
    PAIR_ANSWER_RETRY = 2, /**< the bytes cannot be read: send them through the ring */
    PAIR_ANSWER_DENIED = 3 /**< no bytes at all can be read by this mechanism */
};

/** Words of one side, the owner; the other side is the peer. */
struct pair_side {
    /** The owner sets and clears the bits; the peer clears them when it rings. */
    _Atomic uint32_t asleep;
    uint8_t pad0[60];
    /** The peer sets the bit of each slot with an answer; the owner clears the bits. */
    _Atomic uint64_t answered;
    uint8_t pad1[56];
    _Atomic uint8_t answer[PAIR_SLOTS]; /**< written by the peer */
    /** The owner sets PAIR_REVOKED. The peer re-reads the word by a read-modify-write
     *  that changes nothing (shm), or sets and clears PAIR_READING (self). */
    _Atomic uint32_t grant;
    uint8_t pad2[60];
};

/** Words of one ring: how far its reader has given space back, in bytes since the
 *  beginning. */
struct pair_tail {
    _Atomic uint64_t tail;
    uint8_t pad[56];
};

struct pair_header {
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;
    uint64_t ring_bytes;
    uint64_t nonce[2]; /**< nonces of side 0 and 1: this memory is for these two only */
    uint8_t pad[24];
    struct pair_side side[2];
    struct pair_tail ring[2]; /**< ring[i] is written by side i, its tail by the other */
};

enum { PAIR_LAPS = 1 ^ 2 }; /**< changes one lap of a word into the other */

/** Kinds of entries. */
enum pair_kind {
    PAIR_FRAME = 1, /**< payload: a frame of the layer above */
    /** Payload: struct pair_offer; the receiver reads the bytes itself. */
    PAIR_OFFER = 2,
    PAIR_FIRST = 3, /**< payload: struct pair_first, then the first piece of a bulk */
    /** Payload: the next piece of the bulk that the newest PAIR_FIRST began; there is one
     *  such bulk at a time per direction. */
    PAIR_PIECE = 4,
};

/** Where a bulk's bytes can be read. */
enum pair_mech {
    PAIR_MECH_RING = 0, /**< through the ring (never in an offer) */
    PAIR_MECH_READ = 1, /**< at `where` in the sender's address space */
    /** At offset `where` of `region`, which the receiver has mapped. */
    PAIR_MECH_MAP = 2,
    /** In device memory; `where` means the same as for READ (self) or MAP (shm). */
    PAIR_MECH_DEVICE = 3,
    PAIR_MECH_NONE = 4,  /**< nowhere (never in an offer) */
    PAIR_MECH_STAGE = 5, /**< by MAP, after a copy; the sender's own name, never sent */
    PAIR_MECH_FULL = 6,  /**< by STAGE, later (never in an offer) */
};

struct pair_offer {
    uint64_t tag;
    uint64_t bytes;
    uint64_t where;
    uint64_t region;   /**< MAP, and DEVICE between processes: id of the region */
    uint32_t slot;     /**< the sender's slot, in which the answer comes */
    uint32_t mech;     /**< enum pair_mech */
    uint64_t sort_key; /**< urgency.sort_key of the send (core/memory/urgency.h) */
};

struct pair_first {
    uint64_t tag;
    uint64_t bytes; /**< bytes of the whole message */
};

static_assert(sizeof(struct pair_side) == 256, "four lines per side");
static_assert(sizeof(struct pair_tail) == PAIR_LINE_BYTES, "one line per tail");
static_assert(offsetof(struct pair_header, side) == 64, "the sides begin on a line");
static_assert(sizeof(struct pair_header) == 704, "the header's layout is pinned");
static_assert(sizeof(struct pair_header) <= PAIR_HEADER_BYTES,
              "the header fits its page");
static_assert(sizeof(struct pair_offer) == 48, "an offer's layout is pinned");
static_assert(sizeof(struct pair_first) == 16, "a first piece's layout is pinned");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2 &&
                  ATOMIC_CHAR_LOCK_FREE == 2,
              "atomics in shared memory must be lock-free");

/** Get the size of the area in bytes: the header and two rings. */
static inline uint64_t pair_area_bytes(uint64_t ring_bytes)
{
    return PAIR_HEADER_BYTES + 2 * ring_bytes;
}

#endif
