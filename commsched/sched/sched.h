/* SPDX-License-Identifier: Apache-2.0 */
/** @file sched.h
 *  The preemptive scheduler: matched transfers start slice by slice, the most urgent first, under byte
 *  windows.
 *
 *  Idea: bytes in flight are bounded per peer (its lane) and per rail, and a slice's window comes back
 *  with the receiver's DONE. Whatever is more urgent (core/memory/urgency.h) therefore waits for one window at
 *  most, even behind a transfer of a gigabyte. A transfer whose receiver has no slice posted is passed
 *  over, one that only lacks window is not: a large slice must not be starved by smaller ones.
 *  Background gets what training leaves, and a sixteenth of what both want.
 *
 *  No peer keeps another from moving. What a peer has in flight that does not look (no window came
 *  back for a few turns of a slice, as timed on its own lane) stops counting against the rail until
 *  it looks again; its own window bounds it all the same. And the most urgent slice may overdraw its
 *  rail where its lane has nothing in flight, one lane of a rail at a time.
 *
 *  Invariants: no slice starts while a more urgent one of its rail has a posted place and window on its
 *  lane (but for the background's share). lane->in_flight_bytes is the sum of started and not yet
 *  credited bytes of its transfers; it exceeds the lane's window only by a slice that is alone in
 *  flight. A rail's bytes are the sum of those of its lanes that are not away; they exceed its window by
 *  what was in flight on lanes that have come back, and by one slice.
 *
 *  With rank and step of every urgency zero (TRYST_SCHED=fifo) what was submitted first starts first.
 */
#ifndef COMMSCHED_SCHED_H
#define COMMSCHED_SCHED_H

#include "core/log/trace.h"
#include "core/os/clock.h"
#include "rendezvous/op/transfer.h"

struct sched;

struct sched_params {
    const struct clock *clock;
    struct trace *trace;        /**< counts each lane's bytes in flight; NULL: off */
    uint64_t window_bytes;      /**< per peer; 0: follows its path (path.h) */
    uint64_t rail_window_bytes; /**< per rail; 0: follows its rate (rail.h) */
    /** transfer_start, or a test's. */
    tryst_status (*start)(struct transfer *transfer);
};

/** A peer is away that has given no window back for so many turns of a slice, and for so long: a peer
 *  whose thread was only descheduled is back by then. */
enum { SCHED_AWAY_TURNS = 4 };
#define SCHED_AWAY_NS (20 * NS_PER_MS)

/** Of what both classes want, background gets one part in so many. */
enum { BACKGROUND_SHARE = 16 };

tryst_status sched_open(const struct sched_params *params, struct sched **sched_p);
void sched_close(struct sched *sched);

/** The table for rendezvous; its `arg` is the scheduler. */
extern const struct dispatch_ops sched_ops;

/** Bytes in flight on all lanes of `rail` that count. */
uint64_t sched_rail_bytes(const struct sched *sched, uint32_t rail);

#endif
