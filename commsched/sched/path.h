/* SPDX-License-Identifier: Apache-2.0 */
/** @file path.h
 *  Bandwidth and round trip of the path to a peer, and the slice and window that follow.
 *
 *  Idea (after BBR, Cardwell et al., ACM Queue 2016): one slice at a time is timed from
 *  its start to its DONE, a round. The bytes credited in a round over its time are a
 *  sample of the bandwidth B (over the time that they took to leave, where that was
 *  longer: DONEs may come in bunches); the second largest of the last samples is the
 *  estimate. A slice that leaves while nothing is in flight measures the round trip RTT.
 *  Where the last such probe is old, or was taken at half or twice the bandwidth, the
 *  window drains for a new one. A slice is what the path moves in 1.3 ms; a window is two
 *  slices, or one slice and B RTT in whole slices where that is more, so the path stays
 *  full and an urgent slice waits no longer than a window takes.
 *
 *  A sample that was limited by something else than the path (app-limited) must not lower
 *  B. A sample counts if the window was full during its round or if it exceeds B, but not
 *  if one of the ranks was outside of the library for PAUSE_NS of the round
 *  (sched_pause). Shorter pauses cannot shrink the window: two slices take 2.6 ms.
 *  A low B corrects itself: 1.25 B RTT are in flight in two rounds of eight, and 2.5 B
 *  RTT while B still grows by a quarter. (Not 1.25 all the time: where n ranks send to
 *  one, the RTT of each is the windows of the n - 1 others, and from the sixth sender on
 *  1.25 (n - 1) / n of a window is more than a window: windows of seven senders grew to
 *  19 MiB in tests/sim, where they are 3.5 MiB now.)
 *
 *  The cost of a slice is not estimated: at 1.3 ms of bandwidth, 13 us of it
 *  are 1 %.
 */
#ifndef TRYST_COMMSCHED_SCHED_PATH_H
#define TRYST_COMMSCHED_SCHED_PATH_H

#include "transfer.h"

/** The window before the first sample. */
#define PATH_WINDOW_FIRST (4 * (uint64_t)SCHED_SLICE_FIRST)
/** No window is larger unless the user has set it. */
#define PATH_WINDOW_MAX (64ull << 20)

/** Reset the path. `set_window_bytes` is the user's window, 0: none;
 *  `least_window_bytes` is the least that the rail needs. */
void path_open(struct path *path, uint64_t set_window_bytes, uint64_t least_window_bytes);

/** Note that a slice of `bytes` starts behind `in_flight_bytes`, after `started_bytes`
 *  in all. `cut_bytes` is the slice size of its transfer, 0: the transfer is one
 *  slice. The slice is timed if no other is. */
void path_started(struct path *path, uint64_t now_ns, uint64_t started_bytes,
                  uint64_t in_flight_bytes, uint64_t bytes, uint64_t cut_bytes);
/** True if a slice of `bytes` may start behind `in_flight_bytes`. A single one always
 *  may. */
bool path_has_room(const struct path *path, uint64_t in_flight_bytes, uint64_t bytes);
/** Note that the path's window kept a slice from starting. */
void path_limited(struct path *path);
/** Return the bytes of the timed slice if it started with nothing in flight and its
 *  sample is valid, else 0. */
static inline uint64_t path_probe_bytes(const struct path *path)
{
    return path->sample_invalid ? 0 : path->round_probe_bytes;
}
/** Note a credit that leaves `in_flight_bytes` of `started_bytes`. Returns the time of
 *  the round that ends, 0: none ends. */
uint64_t path_returned(struct path *path, uint64_t now_ns, uint64_t started_bytes,
                       uint64_t in_flight_bytes);
/** Invalidate the round's sample: one of the ranks was outside of the library. */
void path_sample_drop(struct path *path);
/** End the round without a sample: bytes in flight will not be credited. */
void path_forget(struct path *path);

#endif
