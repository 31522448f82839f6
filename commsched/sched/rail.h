/* SPDX-License-Identifier: Apache-2.0 */
/** @file rail.h
 *  How many bytes may be in flight on a rail, over all of its peers.
 *
 *  Idea: the lanes bound what is in flight to each peer, but an urgent slice also waits for what other lanes have on the
 *  wire, so a rail takes no more than it moves in RAIL_WINDOW_NS, and in a round trip on top. Its rate is given (the
 *  interface's, or the graph's): a rate that is measured under a window cannot tell a slow wire from a small window, and
 *  one that followed it shrank without an end. The round trip is measured, by slices that meet nothing in flight on their
 *  lane; the least counts, since a greater one has waited behind other lanes or for a processor, until it is RAIL_AGE_NS
 *  old.
 *
 *  Peers at unlike distances share the least round trip, so the distant ones get less than their path holds when all
 *  send at once: TRYST_RAIL_WINDOW_BYTES sets a window for these.
 */
#ifndef COMMSCHED_SCHED_RAIL_H
#define COMMSCHED_SCHED_RAIL_H

#include <stdint.h>

#include "core/os/clock.h"

/** Chosen on links of 400 Mbit/s: 5 ms cost all-reduces 11 %, 10 ms let urgent ones wait longer (tests/perf/RESULTS.md). */
#define RAIL_WINDOW_NS (8 * NS_PER_MS)
/** Of a rail without a known rate, and the most that RAIL_WINDOW_NS of a faster one come to. */
#define RAIL_WINDOW_MAX (16ull << 20)
/** Two slices of DISPATCH_SLICE_PACED: one on the wire, one acknowledged. */
#define RAIL_WINDOW_MIN (256ull << 10)
/** A round trip that was measured so long ago gives way to the next one. */
#define RAIL_AGE_NS (10 * NS_PER_S)

struct rail_rate {
    uint64_t set_window_bytes; /**< by the user; 0: it follows the rate */
    uint64_t bytes_per_s;      /**< 0: not known */
    uint64_t trip_ns;    /**< round trip, without the slice's own bytes; 0: none yet */
    uint64_t trip_at_ns; /**< when it was measured; 0: not yet */
};

/** Return the window. */
uint64_t rail_window_bytes(const struct rail_rate *rate);
/** Count the round trip of a slice of `bytes` that met nothing in flight on its lane. */
void rail_trip_add(struct rail_rate *rate, uint64_t now_ns, uint64_t spent_ns,
                   uint64_t bytes);

#endif
