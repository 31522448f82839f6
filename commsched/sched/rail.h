/* SPDX-License-Identifier: Apache-2.0 */
/** @file rail.h
 *  How many bytes may be in flight on a rail, over all of its peers.
 *
 *  Idea: lanes bound the bytes in flight to each peer, but an urgent slice also waits for
 *  the bytes of other lanes on the wire. So a rail has no more in flight than it moves in
 *  RAIL_WINDOW_NS plus a round trip. The rate is given (the interface's, or the graph's):
 *  a rate measured under a window cannot distinguish a slow wire from a small window, and
 *  a window that followed a measured rate shrank without end. The round trip is measured,
 *  by slices that start with nothing in flight on their lane. The least round trip counts
 *  until it is RAIL_AGE_NS old, since a longer one has waited behind other lanes or for a
 *  processor.
 *
 *  Peers at different distances share the least round trip, so distant peers get less
 *  than their paths hold when all send at once. TRYST_RAIL_WINDOW_BYTES sets a window for
 *  this case.
 */
#ifndef TRYST_COMMSCHED_SCHED_RAIL_H
#define TRYST_COMMSCHED_SCHED_RAIL_H

#include <stdint.h>

#include "core/os/clock.h"

/** Chosen on links of 400 Mbit/s: 5 ms cost all-reduces 11 %, 10 ms let urgent ones
 *  wait longer (tests/perf/RESULTS.md). */
#define RAIL_WINDOW_NS (8 * NS_PER_MS)
/** The window of a rail without a known rate, and the most that RAIL_WINDOW_NS of a
 *  faster rail adds to a window. */
#define RAIL_WINDOW_MAX (16ull << 20)
/** The least window: two slices of SCHED_SLICE_PLANNED, one on the wire, one
 *  acknowledged. */
#define RAIL_WINDOW_MIN (256ull << 10)
/** The age at which the next round trip replaces the least one. */
#define RAIL_AGE_NS (10 * NS_PER_S)

struct rail_rate {
    uint64_t set_window_bytes; /**< the user's window; 0: the window follows the rate */
    uint64_t bytes_per_s;      /**< the rate; 0: not known */
    uint64_t trip_ns;    /**< round trip, without the slice's own bytes; 0: none yet */
    uint64_t trip_at_ns; /**< when trip_ns was measured; 0: not yet */
};

/** Return the window. */
uint64_t rail_window_bytes(const struct rail_rate *rate);
/** Count the round trip of a slice of `bytes` that met nothing in flight on its lane. */
void rail_trip_add(struct rail_rate *rate, uint64_t now_ns, uint64_t spent_ns,
                   uint64_t bytes);

#endif
