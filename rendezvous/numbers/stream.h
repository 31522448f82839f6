/* SPDX-License-Identifier: Apache-2.0 */
/** @file stream.h
 *  Small tensors between two ranks as an acknowledged stream: one direction, both ends.
 *
 *  Idea: DATA records have dense numbers in the order of packing. Frames arrive in order,
 *  so the numbers are not sent. Each frame's header acknowledges: all numbers below
 *  `base` are done (or KEPT, see below), and number base + 1 + i is done if bit i of a
 *  64-bit mask is set.
 *  Tensors of different keys are done in any order, so no key waits for the receive of
 *  another.
 *
 *     number     ...  base-1 │ base │ base+1 ... base+64 │ ... next
 *     consumer         done    not      in the mask          WINDOW behind: base is KEPT
 *
 *  A number that is not done when WINDOW numbers behind it have come gets a KEPT record:
 *  the producer moves the send from the ring to `late`, `base` passes the number, and a
 *  DONE record reports its end. So `base` always advances, whatever the receives do, and
 *  a ring of more than WINDOW sends never blocks for good. A DATA that fails gets a
 *  record too.
 *
 *  Invariants: a header covers a number only if the record of that number, where there is
 *  one, has left in the same frame or before. The producer reads the records of a frame
 *  before the acknowledgements in its header. A send ends once, by a record of its number
 *  or by a header, whichever comes first. tests/model/stream.pml is a model of the
 *  protocol that spin checks. Names follow TCP's selective acknowledgement (RFC 2018).
 *
 *  One owner: the thread that holds the progress lock.
 */
#ifndef TRYST_RENDEZVOUS_NUMBERS_STREAM_H
#define TRYST_RENDEZVOUS_NUMBERS_STREAM_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/memory/list.h"
#include "tryst/status.h"

/** The numbers from `base` on that may have come: base and the 64 of the mask. */
#define STREAM_WINDOW 65u
/** The most sends in flight, late ones apart; a power of two above STREAM_WINDOW. */
#define STREAM_RING 256u
static_assert(STREAM_RING > STREAM_WINDOW && !(STREAM_RING & (STREAM_RING - 1)), "ring");
/** Lists of late sends; a send is in the list of its number modulo this. */
enum { STREAM_LATE_LISTS = 64 };

/* ---- the consumer's end ------------------------------------------------------------ */

struct stream_in {
    uint64_t got;  /**< DATA records that came; the number of the next one */
    uint64_t base; /**< all numbers below are done or passed (KEPT) */
    uint64_t mask; /**< bit i: number base + 1 + i is done */
    uint64_t acked_base, acked_mask; /**< base and mask in the last header */
};

/** Count a DATA that came, and return its number in `*number_p`. False: the producer has
 *  broken the protocol, since its ring had no place for this DATA. */
static inline bool stream_in_count_data(struct stream_in *in, uint64_t *number_p)
{
    *number_p = in->got++;
    return *number_p - in->acked_base < STREAM_RING;
}

/** True if WINDOW numbers behind `base` have come: call stream_in_pass before the newest
 *  number is done. */
static inline bool stream_in_overdue(const struct stream_in *in)
{
    return in->got - in->base > STREAM_WINDOW;
}

/** Move `base`, which is done or KEPT, to the next number that is not done. */
static inline void stream_in_advance(struct stream_in *in)
{
    int ones = in->mask == UINT64_MAX ? 64 : __builtin_ctzll(~in->mask);
    in->base += 1 + (uint64_t)ones;
    in->mask = ones >= 63 ? 0 : in->mask >> (ones + 1);
}

/** Move `base` past a number that is not done, and return that number. The caller sends
 *  KEPT. */
static inline uint64_t stream_in_pass(struct stream_in *in)
{
    uint64_t number = in->base;
    stream_in_advance(in);
    return number;
}

/** True if `base` has passed `number`, which is not done: a record must report its
 *  end. */
static inline bool stream_in_has_passed(const struct stream_in *in, uint64_t number)
{
    return number < in->base;
}

/** Note that `number` is done. False: `base` has passed it, and a record must report its
 *  end. */
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

/** Set the acknowledgements for the next header. `all`: true if each queued record about
 *  a number leaves in this frame or has left before. Otherwise the header repeats the
 *  acknowledgements of the previous header. */
static inline void stream_in_ack(struct stream_in *in, bool all)
{
    if (!all)
        return;
    in->acked_base = in->base;
    in->acked_mask = in->mask;
}

/* ---- the producer's end ------------------------------------------------------------ */

/** A send in flight; embedded in its owner. */
struct stream_send {
    uint64_t number;
    struct list_node late_node; /**< in stream_ring.late, while the send is late */
};

/** The memory of stream_out, allocated when the peer is first connected. */
struct stream_ring {
    struct stream_send *sends[STREAM_RING]; /**< by number; NULL: done or late */
    struct list late[STREAM_LATE_LISTS];
};

struct stream_out {
    uint64_t next;  /**< number of the next DATA */
    uint64_t acked; /**< all numbers below are done or late */
    uint64_t mask;  /**< the mask in the newest header from the consumer */
    struct stream_ring *ring;
};

/** Allocate the ring. Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status stream_out_open(struct stream_out *out);
/** Free the ring. The sends in it are ended by the caller. */
void stream_out_close(struct stream_out *out);

static inline bool stream_out_has_place(const struct stream_out *out)
{
    return out->next - out->acked < STREAM_RING;
}

/** Give the next number to `send`, which leaves as DATA. */
static inline void stream_out_push(struct stream_out *out, struct stream_send *send)
{
    send->number = out->next;
    out->ring->sends[out->next++ & (STREAM_RING - 1)] = send;
}

/** True if a header with these values acknowledges something new. (A rank applies its own
 *  acknowledgements before their header arrives.) */
static inline bool stream_out_is_news(const struct stream_out *out, uint32_t base,
                                      uint64_t mask)
{
    int32_t ahead = (int32_t)(base - (uint32_t)out->acked);
    return ahead > 0 || (ahead == 0 && mask != out->mask);
}
/** True if a header with these values acknowledges only numbers that were sent. */
bool stream_out_check(const struct stream_out *out, uint32_t base, uint64_t mask);
/** Call `done`, which may end the send, for each send that these values acknowledge. */
void stream_out_acked(struct stream_out *out, uint32_t base, uint64_t mask,
                      void (*done)(struct stream_send *send));
/** Return the send with this number, if it is not done, or NULL. */
struct stream_send *stream_out_find(const struct stream_out *out, uint64_t number);
/** Mark a send as late, for KEPT: a record will end it. False: the ring has no such
 *  send. */
bool stream_out_keep(struct stream_out *out, uint64_t number);
/** Remove the send that a record ends from the ring or the late lists, and return it; or
 *  NULL. */
struct stream_send *stream_out_remove(struct stream_out *out, uint64_t number);

#endif
