/* SPDX-License-Identifier: Apache-2.0 */
/** @file copier_streams.h
 *  The streams of a copier, one for each device and direction, and the ranges in them
 *  (copier_streams.c).
 *
 *  Domain: one thread at a time. Time is the caller's. Nothing here takes a lock or calls
 *  `moved`: ranges that have moved are in `reports`.
 */
#ifndef TRYST_RENDEZVOUS_COPIER_COPIER_STREAMS_H
#define TRYST_RENDEZVOUS_COPIER_COPIER_STREAMS_H

#include "copier.h"

/** Largest piece; a piece is what an urgent range waits for at least. */
#define COPIER_PIECE_BYTES (UINT64_C(1) << 20)
/** Bytes in flight in one direction of a device. Four pieces keep a link of 50 GB/s busy
 *  for 80 us, longer than a nap. */
#define COPIER_FLIGHT_BYTES (4 * COPIER_PIECE_BYTES)
/** A range of at most this size is copied in one piece, once its limit is its size: to
 *  queue and to poll a copy costs about as much as 256 KiB take. */
#define COPIER_WHOLE_BYTES (UINT64_C(256) << 10)
/** Time between two polls while copies are in flight, at least: about what one piece
 *  takes over PCIe 5 x16; and the share of the time since the oldest piece's begin. With
 *  a fixed nap, two copiers of 100 MB/s took most of a processor. */
#define COPIER_NAP_NS UINT64_C(20000)
enum { COPIER_NAP_SHARE = 8 };
/** Time between two polls of `ready` events: doubles while none passes. */
#define COPIER_HELD_NAP_MIN_NS UINT64_C(50000)
#define COPIER_HELD_NAP_MAX_NS UINT64_C(1000000)

struct copier_streams {
    struct list homes;   /**< struct home: one per device */
    struct list held;    /**< HELD ranges */
    struct list reports; /**< ranges that have moved or ended, for the caller */
    uint32_t ranges;     /**< ranges that have not ENDED */
    uint64_t held_nap_ns, held_next_ns;
};

void copier_streams_open(struct copier_streams *streams);
/** Close all streams and events; no range is left. */
void copier_streams_close(struct copier_streams *streams);
/** Take over what a range's owner has set: the limit, whether the range is canceled; and
 *  the range itself at the first call. No driver call. */
void copier_streams_update(struct copier_streams *streams, struct copier_range *range);
/** Poll events and queue copies. Return when to call again at the latest; UINT64_MAX: not
 *  before the next copier_streams_update. */
uint64_t copier_streams_poll(struct copier_streams *streams, uint64_t now_ns);
/** True if no copy is in flight (after a poll: nor could one be queued). */
bool copier_streams_idle(const struct copier_streams *streams);

/** As copier_streams_prepare, copier_may_take and copier_take (copier.h). */
tryst_status streams_prepare(struct copier_streams *streams, const struct memory_ops *ops,
                             int32_t device);
bool streams_may_take(struct copier_streams *streams, const struct copier_range *range);
void streams_take(struct copier_streams *streams, struct copier_range *range);

#endif
