/* SPDX-License-Identifier: Apache-2.0 */
/** @file path.h
 *  What a lane learns of its path, and the slice and window that follow from it.
 *
 *  Idea (after BBR, Cardwell et al., ACM Queue 2016): one slice at a time is timed from its start to its
 *  DONE, a round. What came back meanwhile, over that time, is a sample of the bandwidth B (or over the time
 *  that it took to leave, where that was longer: DONEs may come in bunches), the second largest of
 *  the last few is the estimate; a slice that leaves while nothing is in flight gives the round trip RTT,
 *  and when that was long ago, or at half or twice the bandwidth, the window is let run empty for one.
 *  A slice is what the path moves in 1.3 ms, a window two slices, or one slice and B RTT in whole slices where
 *  that is more: it keeps the path full, and what is urgent waits no longer than that takes.
 *
 *  A sample that was limited by something else than the path must not lower B. It counts if the window
 *  was full during its round, or if it is higher than B; and not if either rank was outside of the library
 *  for PAUSE_NS of it (dispatch_ops.pause). Shorter pauses cannot make the window shrink: two slices
 *  take 2.6 ms. B that is too low makes a window that finds out: 1.25 B RTT are in flight in two
 *  rounds of eight, and 2.5 while B still grows by a quarter. (Not 1.25 all the time: where n send to one, each
 *  one's RTT is the windows of the n - 1 others, and 1.25 (n - 1) / n of a window is more than it from the sixth
 *  sender on: windows of seven grew to 19 MiB in tests/sim where they are 3.5 MiB now.)
 *
 *  A paced lane (pace.h): the pace's rate and round trip take the place of B and RTT, a slice is 128 KiB at most,
 *  and the window is not let run empty: the pace measures its round trips by itself.
 *
 *  The cost of a slice needs no estimate of its own: at 1.3 ms of bandwidth, 13 us of it are 1 %.
 */
#ifndef COMMSCHED_SCHED_PATH_H
#define COMMSCHED_SCHED_PATH_H

#include "rendezvous/op/transfer.h"

/** A window before anything is known. */
#define PATH_WINDOW_FIRST (4 * (uint64_t)DISPATCH_SLICE_FIRST)
/** No window is larger unless the user has set it. */
#define PATH_WINDOW_MAX (64ull << 20)

/** What the user has set (0: nothing), and the least window that the rail asks for. */
void path_open(struct path *path, uint64_t set_window_bytes, uint64_t least_window_bytes);

/** Let slice and window follow the lane's pace instead of what is measured here: a paced lane is seldom limited by
 *  its window, so its samples would not count. `trip_ns` 0: not known; `bytes_per_s` 0: no pace any more. */
void path_pace(struct path *path, uint64_t bytes_per_s, uint64_t trip_ns);
/** A slice of `bytes` leaves behind `in_flight_bytes`, of `started_bytes` in all, and a transfer of more
 *  than one slice is cut into `cut_bytes` (else 0). It is timed if no other is. */
void path_started(struct path *path, uint64_t now_ns, uint64_t started_bytes,
                  uint64_t in_flight_bytes, uint64_t bytes, uint64_t cut_bytes);
/** May a slice of `bytes` leave behind `in_flight_bytes`? A single one always may. */
bool path_has_room(const struct path *path, uint64_t in_flight_bytes, uint64_t bytes);
/** It had none, which kept a slice from leaving. */
void path_limited(struct path *path);
/** Return the bytes of the slice that is timed if it met nothing in flight and both ranks looked, else 0. */
static inline uint64_t path_alone_bytes(const struct path *path)
{
    return path->disturbed ? 0 : path->round_alone_bytes;
}
/** Of `started_bytes` so many have not come back. Returns how long the round took that this ends, 0: none
 *  ends. */
uint64_t path_returned(struct path *path, uint64_t now_ns, uint64_t started_bytes,
                       uint64_t in_flight_bytes);
/** One of the two did not look: the round is no sample. */
void path_disturbed(struct path *path);
/** Of what is in flight some will not come back: the round ends here. */
void path_forget(struct path *path);

#endif
