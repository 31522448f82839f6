/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring with one writer and one reader, in memory that both map.
 *
 * One idea: no shared head. Each entry begins at a cache line, and its first word is of
 * another lap, or zero, until the entry is whole. So the reader polls the very line that
 * will bring the data; a frame with one tensor of 8 bytes is one line, and touches no
 * other. Only the tail is shared, and the reader gives space back a quarter of the ring
 * at a time.
 *
 * Why it is correct (release/acquire, no fences):
 *
 * - A word carries its lap, 1 and 2 in turn, and the reader waits for a word of the lap
 *   that it reads. Until then the next entry's place holds a word of the lap before or,
 *   where that lap may have had payload of a larger entry, the zero that the writer
 *   stores before this entry's word (zero_until). Nothing there is older, since each
 *   lap writes every line.
 * - The writer stores the payload and that zero, then the entry's word with release. The
 *   reader loads that word with acquire, so it sees the payload, and the zero or the word
 *   of the lap before at the next entry's place, never payload.
 * - The reader stores the tail with release after its last load from the entries it gives
 *   back. The writer loads it with acquire before it writes there again, so no write
 *   overtakes a read.
 * - The word behind the last entry is the writer's as well: an entry needs its own lines
 *   and one more, so the reader never polls a word that the tail still guards.
 *
 * Sleeping without a lost wake-up: a side that stores something for which the other side
 * may sleep (a word, a tail, an answer) then does a read-modify-write of the other side's
 * `asleep`. The sleeper sets `asleep` by a read-modify-write and then checks word, tail
 * and answers once more. All writes of `asleep` are acq_rel read-modify-writes, so they
 * have one order, and each sees all that was stored before the earlier ones. If the
 * sleeper's write comes later, its check finds the store; if the sleeper's write comes
 * first, the other side finds `asleep` set and rings.
 *
 * Neither side trusts the other's words. RING_BAD reports a word with an unknown kind,
 * with set bits that must be zero, or with more bytes than the ring holds, and a tail
 * that is within a line, moves back or is beyond the head. Copies are bounded by the
 * ring's own mapping, whatever the peer writes.
 */
#ifndef TRYST_TRANSPORTS_PAIR_PAIR_RING_H
#define TRYST_TRANSPORTS_PAIR_PAIR_RING_H

#include <stdbool.h>
#include <string.h>

#include "pair_wire.h"

struct ring_tx {
    uint8_t *data;
    _Atomic uint64_t *tail; /**< written by the reader */
    uint64_t bytes;
    uint64_t head;      /**< bytes written since the beginning */
    uint64_t offset;    /**< head modulo bytes: offset of the next entry */
    uint64_t tail_seen; /**< the newest tail that was checked */
    uint64_t lap;       /**< lap of the next entry's word: 1 or 2 */
    /** Lines below this value of `head` may hold payload of the lap before. */
    uint64_t zero_until;
};

struct ring_rx {
    uint8_t *data;
    _Atomic uint64_t *tail;
    uint64_t bytes;
    uint64_t read;       /**< bytes read since the beginning */
    uint64_t offset;     /**< read modulo bytes: offset of the next entry's word */
    uint64_t lap;        /**< lap of the next entry's word: 1 or 2 */
    uint64_t tail_given; /**< value stored in *tail */
};

/** An entry's word, copied out and checked. */
struct ring_entry {
    uint32_t bytes; /**< bytes of the payload */
    uint32_t kind;  /**< enum pair_kind */
};

enum ring_answer { RING_NO = 0, RING_YES = 1, RING_BAD = 2 };

/** Return the bytes of an entry in the ring: its word and its payload, in whole lines. */
static inline uint64_t ring_entry_bytes(uint64_t payload)
{
    return (8 + payload + PAIR_LINE_BYTES - 1) & ~(uint64_t)(PAIR_LINE_BYTES - 1);
}

/** Return the largest payload of an entry that takes at most `bytes` of the ring with the
 *  line behind it. */
static inline uint64_t ring_payload_max(uint64_t bytes)
{
    return bytes / PAIR_LINE_BYTES * PAIR_LINE_BYTES - PAIR_LINE_BYTES - 8;
}

static inline uint64_t ring_wrap(uint64_t offset, uint64_t bytes)
{
    return offset >= bytes ? offset - bytes : offset;
}

static inline _Atomic uint64_t *ring_word(uint8_t *data, uint64_t offset)
{
    return (_Atomic uint64_t *)(void *)(data + offset);
}

/** Go `bytes` on from `*offset`; passing the ring's end begins the other lap. */
static inline void ring_advance(uint64_t *offset, uint64_t *lap, uint64_t bytes,
                                uint64_t ring_bytes)
{
    *offset += bytes;
    if (__builtin_expect(*offset >= ring_bytes, 0)) {
        *offset -= ring_bytes;
        *lap ^= PAIR_LAPS;
    }
}

/** Load the newest tail. RING_YES: it has moved; RING_NO: it has not; RING_BAD: no honest
 *  reader could have stored this value. */
static inline enum ring_answer ring_tx_refresh(struct ring_tx *tx)
{
    /* acquire: pairs with the reader's store in ring_rx_next; see above. */
    uint64_t tail = atomic_load_explicit(tx->tail, memory_order_acquire);
    if (tail - tx->tail_seen > tx->head - tx->tail_seen || tail % PAIR_LINE_BYTES != 0)
        return RING_BAD;
    if (tail == tx->tail_seen)
        return RING_NO;
    tx->tail_seen = tail;
    return RING_YES;
}

/** Check for room for an entry of `payload` bytes, such that at most `limit` bytes of the
 *  ring are in use with it. */
static inline enum ring_answer ring_tx_room(struct ring_tx *tx, uint64_t payload,
                                            uint64_t limit)
{
    uint64_t need = ring_entry_bytes(payload) + PAIR_LINE_BYTES;
    if (tx->head - tx->tail_seen + need <= limit)
        return RING_YES;
    if (ring_tx_refresh(tx) == RING_BAD)
        return RING_BAD;
    return tx->head - tx->tail_seen + need <= limit ? RING_YES : RING_NO;
}

/** Copy into the ring at `offset`, wrapping at the ring's end. Returns the offset behind
 *  the copy, not rounded. */
static inline uint64_t ring_copy_in(struct ring_tx *tx, uint64_t offset, const void *from,
                                    uint64_t bytes)
{
    uint64_t first = tx->bytes - offset;
    if (__builtin_expect(bytes <= first, 1)) {
        memcpy(tx->data + offset, from, bytes);
    } else {
        memcpy(tx->data + offset, from, first);
        memcpy(tx->data, (const uint8_t *)from + first, bytes - first);
    }
    return ring_wrap(offset + bytes, tx->bytes);
}

/** Fetch this line for writing, where the processor can: the compiler's builtin fetches
 *  for reading only, unless the target has prefetchw. Processors without it ignore that
 *  instruction. */
static inline void ring_line_own(const uint8_t *line)
{
#ifdef __x86_64__
    __asm__ volatile("prefetchw %0" : : "m"(*line));
#else
    __builtin_prefetch(line, 1);
#endif
}

/** Write one entry: `head`, then `body`. ring_tx_room must have
 *  returned RING_YES. */
static inline void ring_tx_put(struct ring_tx *tx, enum pair_kind kind, const void *head,
                               uint32_t head_bytes, const void *body, uint32_t body_bytes)
{
    uint64_t place = tx->offset, lap = tx->lap;
    uint64_t payload = (uint64_t)head_bytes + body_bytes;
    uint64_t size = ring_entry_bytes(payload);
    uint64_t offset = place + 8;
    ring_advance(&tx->offset, &tx->lap, size, tx->bytes);
    tx->head += size;
    /* A zero word comes first, since its line may have to come from the reader's cache.
     * Stores become visible in their order: if this one waited behind the payload, the
     * reader would have time to take the polled line back. relaxed: published by the last
     * store. */
    if (__builtin_expect(tx->head < tx->zero_until, 0))
        atomic_store_explicit(ring_word(tx->data, tx->offset), 0, memory_order_relaxed);
    if (head_bytes)
        offset = ring_copy_in(tx, offset, head, head_bytes);
    if (body_bytes)
        ring_copy_in(tx, offset, body, body_bytes);
    /* release: payload and zero word come first. Partner: ring_rx_peek. */
    atomic_store_explicit(ring_word(tx->data, place),
                          payload | (uint64_t)kind << 32 | lap << 40,
                          memory_order_release);
    if (size == PAIR_LINE_BYTES)
        return;
    /* The next entry is likely of this size too: fetch the second line for it. (The first
     * is the one that the reader polls.) */
    tx->zero_until = tx->head + tx->bytes;
    ring_line_own(tx->data + ring_wrap(tx->offset + PAIR_LINE_BYTES, tx->bytes));
}

/** False if the word is zero or of the lap before: no entry has come. */
static inline bool ring_word_is_new(const struct ring_rx *rx, uint64_t word)
{
    return word >> 40 != (rx->lap ^ PAIR_LAPS) && word != 0;
}

/** Get the next entry, if there is one. RING_BAD: a word that no honest writer stores. */
static inline enum ring_answer ring_rx_peek(struct ring_rx *rx,
                                            struct ring_entry *entry_p)
{
    /* acquire: pairs with the last store of ring_tx_put. */
    uint64_t word =
        atomic_load_explicit(ring_word(rx->data, rx->offset), memory_order_acquire);
    if (__builtin_expect(!ring_word_is_new(rx, word), 1))
        return RING_NO;
    *entry_p = (struct ring_entry){(uint32_t)word,
                                   (uint32_t)(word >> 32) ^ (uint32_t)rx->lap << 8};
    bool good =
        entry_p->kind - 1 < PAIR_PIECE && entry_p->bytes <= ring_payload_max(rx->bytes);
    return good ? RING_YES : RING_BAD;
}

/** True if an entry has come; checked before sleeping. */
static inline bool ring_rx_ready(struct ring_rx *rx)
{
    /* relaxed: ring_rx_peek reads the entry. */
    return ring_word_is_new(
        rx, atomic_load_explicit(ring_word(rx->data, rx->offset), memory_order_relaxed));
}

/** Copy `bytes` of the payload, from byte `skip` on, out of the ring. skip + bytes must
 *  not exceed the payload. */
static inline void ring_rx_copy(struct ring_rx *rx, uint64_t skip, void *to,
                                uint64_t bytes)
{
    uint64_t offset = ring_wrap(rx->offset + 8 + skip, rx->bytes);
    uint64_t first = rx->bytes - offset;
    if (__builtin_expect(bytes <= first, 1)) {
        memcpy(to, rx->data + offset, bytes);
    } else {
        memcpy(to, rx->data + offset, first);
        memcpy((uint8_t *)to + first, rx->data, bytes - first);
    }
}

/** Go to the next entry. True if space was given back, which happens a quarter of the
 *  ring at a time: the caller must then wake a writer that sleeps for want of room. */
static inline bool ring_rx_next(struct ring_rx *rx, uint32_t payload)
{
    uint64_t size = ring_entry_bytes(payload);
    ring_advance(&rx->offset, &rx->lap, size, rx->bytes);
    rx->read += size;
    if (rx->read - rx->tail_given < rx->bytes / 4)
        return false;
    rx->tail_given = rx->read;
    /* release: this side's reads come first. Partner: ring_tx_refresh. */
    atomic_store_explicit(rx->tail, rx->read, memory_order_release);
    return true;
}

/** True if the reader has given space back since the last check; the writer checks before
 *  it sleeps. */
static inline bool ring_tx_moved(const struct ring_tx *tx)
{
    /* relaxed: ring_tx_refresh reads the tail. */
    return atomic_load_explicit(tx->tail, memory_order_relaxed) != tx->tail_seen;
}

#endif
