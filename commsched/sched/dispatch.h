/* SPDX-License-Identifier: Apache-2.0 */
/** @file dispatch.h
 *  The first dispatch: matched transfers start slice by slice under byte windows.
 *
 *  Idea: bytes in flight are bounded per peer and per rail, and a slice's window comes back with
 *  the receiver's DONE. Transfers to one peer start in the order in which they were matched; peers
 *  take turns. A transfer whose receiver has no slice posted is passed over, one that only lacks
 *  window is not: what waits for window must not be starved by smaller ones.
 *
 *  No peer keeps another from moving. What a peer has in flight that does not look (no window came
 *  back for a few turns of a slice, as timed on its own lane) stops counting against the rail until
 *  it looks again; its own window bounds it all the same. And a lane with nothing in flight may
 *  overdraw its rail by a slice, one lane of a rail at a time: with peers that look, but seldom,
 *  somebody always moves.
 *
 *  Invariants: lane->in_flight_bytes is the sum of started and not yet credited bytes of its
 *  transfers; it exceeds the lane's window only by a slice that is alone in flight. A rail's bytes
 *  are the sum of those of its lanes that are not away; they exceed its window by what was in flight
 *  on lanes that have come back, and by one slice.
 */
#ifndef COMMSCHED_DISPATCH_H
#define COMMSCHED_DISPATCH_H

#include "core/clock.h"
#include "core/trace.h"
#include "rendezvous/op/transfer.h"

struct dispatch;

struct dispatch_params {
    const struct clock *clock;
    struct trace *trace;        /**< counts each lane's bytes in flight; NULL: off */
    uint64_t window_bytes;      /**< per peer; more where its rail asks for it */
    uint64_t rail_window_bytes; /**< per rail */
    bool window_is_set;         /**< by the user: rails are not asked */
    /** transfer_start, or a test's. */
    tryst_status (*start)(struct transfer *transfer);
};

/** A peer is away that has given no window back for so many turns of a slice, and for so long: a peer
 *  whose thread was only descheduled is back by then. */
enum { DISPATCH_AWAY_TURNS = 4 };
#define DISPATCH_AWAY_NS (20 * NS_PER_MS)

tryst_status dispatch_open(const struct dispatch_params *params,
                           struct dispatch **dispatch_p);
void dispatch_close(struct dispatch *dispatch);

/** The table for rendezvous; its `arg` is the dispatch. */
extern const struct dispatch_ops dispatch_ops;

/** Bytes in flight on all lanes of `rail` that count. */
uint64_t dispatch_rail_bytes(const struct dispatch *dispatch, uint32_t rail);

#endif
