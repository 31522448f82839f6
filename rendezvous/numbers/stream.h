/* SPDX-License-Identifier: Apache-2.0 */
/** @file stream.h
 *  Small tensors between two ranks as an acknowledged stream: one direction of it, at either end.
 *
 *  Idea: DATA records take dense numbers, in the order in which they are packed; frames arrive in
 *  order, so no number travels with them. Each frame's header says back what is done: all numbers
 *  below `base`, and those of the 64 behind it whose bit is set in a mask (bit i: base + 1 + i).
 *  Tensors of different keys are done in any order, so no key waits for another's receive.
 *
 *     number     ...  base-1 │ base │ base+1 ... base+64 │ ... next
 *     consumer         done    not      mask says            WINDOW or more behind base: KEPT
 *
 *  A number that is not done when WINDOW others have come behind it gets a record (KEPT): the
 *  producer takes its send out of the ring into `late`, `base` goes past it, and a record (DONE)
 *  says when it is done. So `base` always moves on, whatever the receives do, and a ring of more than
 *  WINDOW sends never blocks for good. What fails gets a record too.
 *
 *  Invariants: the header speaks of a number only when the record that belongs to it has left, in the
 *  same frame or before; the producer reads the records of a frame before its header's words
 *  on numbers. A send ends once, by the first that speaks of it:
 *  a record of its number, or the header. tests/model/stream.pml is the model that spin checks; names as in TCP's selective acknowledgement (RFC 2018).
 *
 *  One owner: the thread that has the progress lock.
 */
#ifndef RENDEZVOUS_NUMBERS_STREAM_H
#define RENDEZVOUS_NUMBERS_STREAM_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/memory/list.h"
#include "tryst/status.h"

/** Numbers that a header speaks of one by one: base and its mask. */
#define STREAM_WINDOW 65u
/** Sends that may be under way, not counting late ones; a power of two above STREAM_WINDOW. */
#define STREAM_RING 256u
static_assert(STREAM_RING > STREAM_WINDOW && !(STREAM_RING & (STREAM_RING - 1)), "ring");
/** Late sends hang in lists by number. */
enum { STREAM_LATE_LISTS = 64 };

/* ---- the consumer's end ------------------------------------------------------------------- */

struct stream_in {
    uint64_t got;                    /**< DATA that came: the number of the next one */
    uint64_t base;                   /**< all below are done, or a record says so */
    uint64_t mask;                   /**< base + 1 + i is done */
    uint64_t acked_base, acked_mask; /**< as last sent */
};

/** A DATA came. False: its producer had no place for it in the ring. */
static inline bool stream_in_take(struct stream_in *in, uint64_t *number_p)
{
    *number_p = in->got++;
    return *number_p - in->acked_base < STREAM_RING;
}

/** Has WINDOW of DATA come behind `base`? Then stream_in_pass, before the newest is done. */
static inline bool stream_in_overdue(const struct stream_in *in)
{
    return in->got - in->base > STREAM_WINDOW;
}

/** `base` is done or passed: it goes on to the next number that is neither. */
static inline void stream_in_advance(struct stream_in *in)
{
    int ones = in->mask == UINT64_MAX ? 64 : __builtin_ctzll(~in->mask);
    in->base += 1 + (uint64_t)ones;
    in->mask = ones >= 63 ? 0 : in->mask >> (ones + 1);
}

/** `base` goes past a number that is not done: which. Its KEPT must leave. */
static inline uint64_t stream_in_pass(struct stream_in *in)
{
    uint64_t number = in->base;
    stream_in_advance(in);
    return number;
}

/** Has `base` gone past it? Then a record says what becomes of it. */
static inline bool stream_in_has_passed(const struct stream_in *in, uint64_t number)
{
    return number < in->base;
}

/** `number` is done. False: `base` has gone past it, and a record must say so. */
static inline bool stream_in_done(struct stream_in *in, uint64_t number)
{
    if (stream_in_has_passed(in, number))
        return false;
    assert(number < in->got && number - in->base < STREAM_WINDOW);
    if (number == in->base)
        stream_in_advance(in);
    else
        in->mask |= 1ull << (number - in->base - 1);
    return true;
}

/** What a header says. `all`: every record about numbers has left by this frame; else the header
 *  repeats what the last one said. */
static inline void stream_in_ack(struct stream_in *in, bool all)
{
    if (!all)
        return;
    in->acked_base = in->base;
    in->acked_mask = in->mask;
}

static inline bool stream_in_is_owed(const struct stream_in *in)
{
    return in->base != in->acked_base || in->mask != in->acked_mask;
}

/* ---- the producer's end ------------------------------------------------------------------- */

/** A send that has left and is not done; part of its owner. */
struct stream_send {
    uint64_t number;
    struct list_node late_node; /**< in stream_ring.late, while it is late */
};

/** Memory of stream_out, made when the peer is first connected. */
struct stream_ring {
    struct stream_send *sends[STREAM_RING]; /**< by number; NULL: done, or late */
    struct list late[STREAM_LATE_LISTS];
};

struct stream_out {
    uint64_t next;  /**< number of the next DATA */
    uint64_t acked; /**< all below are done or late */
    uint64_t mask;  /**< as last heard */
    struct stream_ring *ring;
};

/** TRYST_OK, TRYST_E_NOMEM. */
tryst_status stream_out_open(struct stream_out *out);
/** Forgets all sends, which others end. */
void stream_out_close(struct stream_out *out);

static inline bool stream_out_has_place(const struct stream_out *out)
{
    return out->next - out->acked < STREAM_RING;
}

/** `send` leaves as DATA with the next number. */
static inline void stream_out_push(struct stream_out *out, struct stream_send *send)
{
    send->number = out->next;
    out->ring->sends[out->next++ & (STREAM_RING - 1)] = send;
}

/** Does a header that says this say anything new? (A rank hears itself before its header comes.) */
static inline bool stream_out_is_news(const struct stream_out *out, uint32_t base,
                                      uint64_t mask)
{
    int32_t ahead = (int32_t)(base - (uint32_t)out->acked);
    return ahead > 0 || (ahead == 0 && mask != out->mask);
}
/** Does a header hold together that says this? */
bool stream_out_check(const struct stream_out *out, uint32_t base, uint64_t mask);
/** Give all sends that this says are done to `done`, which may end them. */
void stream_out_acked(struct stream_out *out, uint32_t base, uint64_t mask,
                      void (*done)(struct stream_send *send));
/** The send with this number that is not done, or NULL. */
struct stream_send *stream_out_find(const struct stream_out *out, uint64_t number);
/** KEPT: its end comes by record. False: there is no such send in the ring. */
bool stream_out_keep(struct stream_out *out, uint64_t number);
/** The send that a record ends: out of the ring or the late ones; or NULL. */
struct stream_send *stream_out_take(struct stream_out *out, uint64_t number);

#endif
