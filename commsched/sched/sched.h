/* SPDX-License-Identifier: Apache-2.0 */
/** @file sched.h
 *  The preemptive scheduler: matched transfers start slice by slice, the most urgent
 *  first, under byte windows.
 *
 *  Idea: bytes in flight are bounded per peer (its lane) and per rail, and a slice's
 *  window returns with the receiver's DONE. A more urgent transfer
 *  (core/memory/urgency.h) therefore waits for one window at most, even behind a transfer
 *  of a gigabyte. The scheduler passes over a transfer without a posted slice, but not
 *  one that lacks window: smaller slices must not starve a large one. Background gets the
 *  bytes that training leaves, and a sixteenth where both have slices to start.
 *
 *  No peer stalls another. A lane with a timed slice that is older than
 *  SCHED_STALL_SRTTS times its srtt is stalled: its bytes in flight do not count against
 *  the rail until that slice is credited, and its own window still bounds them. A lane
 *  that has stalled, or has started a slice larger than half of its rail's window, counts
 *  for that half at most until it has credited SCHED_PROBATION_ROUNDS timed slices. So a
 *  receiver that returns window late, or requests huge slices, holds the rail once for a
 *  moment, and then leaves half of it to the others. The most urgent slice may overdraw
 *  its rail where its lane has nothing in flight, one lane of a rail at a time.
 *
 *  Invariants: no slice starts while a more urgent one of its rail is posted and fits its
 *  lane's window, and on probation the lane's share of the rail (but for the background's
 *  share). lane->in_flight_bytes is the sum of the bytes of the lane's transfers that
 *  were started and not credited; the sum exceeds the lane's window only while a single
 *  slice is in flight. A rail's bytes are the sum of its lanes' counted_bytes; the sum
 *  exceeds the rail's window by the bytes of lanes that were stalled, and by one slice.
 *
 *  With sort key and step of every urgency zero (TRYST_SCHED=fifo) transfers start in the
 *  order of submission.
 */
#ifndef TRYST_COMMSCHED_SCHED_SCHED_H
#define TRYST_COMMSCHED_SCHED_SCHED_H

#include "core/log/trace.h"
#include "core/os/clock.h"
#include "transfer.h"

struct sched;

struct sched_params {
    const struct clock *clock;
    struct trace *trace;        /**< counter of each lane's bytes in flight; NULL: off */
    uint64_t window_bytes;      /**< per peer; 0: follows its path (path.h) */
    uint64_t rail_window_bytes; /**< per rail; 0: follows its rate (rail.h) */
    /** Start slice transfer->next: TRYST_OK (the scheduler advances `next`), TRYST_AGAIN
     *  (no room now), or TRYST_E_PEER (the transfer is about to be removed). */
    tryst_status (*start)(struct transfer *transfer);
};

/** A lane is stalled when its timed slice is as old as SCHED_STALL_SRTTS times its srtt,
 *  and SCHED_STALL_NS at least: a peer with a thread that was only descheduled has run
 *  again by then. SCHED_STALL_MAX_NS bounds what late credits can make of the srtt; it is
 *  above the time of a slice on paths around the earth. */
enum { SCHED_STALL_SRTTS = 4 };
#define SCHED_STALL_NS     (20 * NS_PER_MS)
#define SCHED_STALL_MAX_NS (500 * NS_PER_MS)
/** A receiver that stalls once in so many timed slices holds its rail for SCHED_STALL_NS
 *  of their time. */
enum { SCHED_PROBATION_ROUNDS = 64 };

/** Background gets one byte of this many where both classes have slices to start. */
enum { BACKGROUND_SHARE = 16 };

tryst_status sched_open(const struct sched_params *params, struct sched **sched_p);
void sched_close(struct sched *sched);

/* All calls from here on are in the progress domain. */

void sched_lane_init(struct sched *sched, struct sched_lane *lane);
/** Start the use of a lane: its endpoint is ready and nothing is in flight. The lane's
 *  bytes take the window of `rail` (< SCHED_RAILS_MAX), which requires a window of at
 *  least `window_bytes` to each peer and moves `rail_bytes_per_s` (0: unknown). */
void sched_lane_ready(struct sched *sched, struct sched_lane *lane, uint32_t rail,
                      uint64_t window_bytes, uint64_t rail_bytes_per_s);
/** Add a transfer; its receiver has room for `posted` slices. */
void sched_add(struct sched *sched, struct transfer *transfer);
/** Note a change: transfer->posted or ->ready has grown, or transfer->posted has been set
 *  to transfer->next. In the second case nothing further starts, and sched_remove
 *  follows. */
void sched_posted(struct sched *sched, struct transfer *transfer);
/** Raise the transfer to `sort_key` (core/memory/urgency.h), for either end; a less
 *  urgent one changes nothing. */
void sched_raise(struct sched *sched, struct transfer *transfer, uint64_t sort_key);
/** Release the window of `bytes` of the transfer, which have arrived. */
void sched_credit(struct sched *sched, struct transfer *transfer, uint64_t bytes);
/** Remove the transfer: nothing further starts. The window of its bytes in flight is
 *  released here, since no DONE will come. */
void sched_remove(struct sched *sched, struct transfer *transfer);
/** Note that this rank (`lane` NULL) or the lane's peer was outside of the library for
 *  PAUSE_NS or longer: samples from that time do not measure the path. */
void sched_pause(struct sched *sched, struct sched_lane *lane);
/** Return the bytes that may be in flight on the rail; a receiver posts as many on the
 *  rail for several senders. */
uint64_t sched_rail_window(const struct sched *sched, uint32_t rail);
/** Start slices. Returns the number of slices started. */
int sched_run(struct sched *sched);
/** Return why the next slice does not start. HOLD_BEHIND: `*before_p` goes first; else
 *  `*before_p` is NULL. */
enum transfer_hold sched_held_by(struct sched *sched, const struct transfer *transfer,
                                 const struct transfer **before_p);
/** Note that time has passed: the next run may start more. */
void sched_timer(struct sched *sched, uint64_t now_ns);
/** Return the time by which sched_timer must be called (CLOCK_MONOTONIC ns); 0: none. */
uint64_t sched_next_ns(const struct sched *sched);
/** Return the bytes in flight that count against the rail's window. */
uint64_t sched_rail_bytes(const struct sched *sched, uint32_t rail);

#endif
