/* SPDX-License-Identifier: Apache-2.0 */
/** @file pace.h
 *  The pace of a lane: when its next slice may start, so that the lane takes its planned
 *  share of a link whatever the link's true rate is.
 *
 *  Bucket: tokens arrive at the planned rate times `scale`. A slice starts while there is
 *  a token and takes as many as it has bytes, so the bucket may go into debt: slices of
 *  all sizes start, and the mean is the rate. Unused tokens are kept up to PACE_BURST.
 *  (After the leaky bucket of Turner, IEEE Communications Magazine 24(10), 1986.) A slice
 *  of the background class costs 20/19 of its bytes, so this class has 0.95 of the rate.
 *
 *  A plan has other trees for other sizes, and so another rate of a pair for each class of
 *  sizes. The lane's rate is the largest; a slice of another class costs as much more as
 *  the rate of its class is smaller.
 *
 *  Scale: a paced lane delivers what its pace lets through, so the delivery rate cannot
 *  show that the link has more. The round trip can: a queue grows where the pace is above
 *  the link's rate, and only there. This is TCP Vegas' sign (Brakmo, O'Malley, Peterson,
 *  SIGCOMM 1994). As in FAST TCP (Wei, Jin, Low, Hegde, IEEE/ACM Transactions on
 *  Networking 14(6), 2006) the rate is a function of the queue:
 *
 *      scale = (base + own + target) / (base + own + queue)      within 1/4 and 2
 *
 *  base: the least round trip without the slice's own bytes; own: the time of these bytes
 *  at the link's rate in the graph; queue: what a round trip takes beyond both, smoothed;
 *  target: the time of PACE_QUEUE bytes, or of two slices. So the planned rate leaves a
 *  queue of `target` where the graph is right; without a queue the lane goes up to twice
 *  its plan; at a graph 30 % too low the queue is smaller, at 30 % too high larger, and
 *  the link is full in both.
 *
 *  Proportions: lanes of one NIC meet the same FIFO, and so do lanes of several ranks in
 *  front of one receiver. Each measures the same queue and has therefore the same scale:
 *  rates keep the plan's proportions wherever the narrow link is. The queue is the
 *  evidence that the lanes share. There is no estimate per NIC: such an estimate cannot
 *  serve lanes that meet at a receiver, and with it one slow receiver would hold all
 *  lanes of its senders. The scale has no memory but the smoothing, so no lane drifts
 *  from the others, and an error of measurement (a thread that was late) ends with its
 *  cause; late DONEs pass for a queue and make the real one smaller.
 *
 *  Base: it must be measured without a queue (BBR's min RTT: Cardwell et al., ACM Queue
 *  14(5), 2016). Each lane makes its first few round trips at a quarter of its rate, and
 *  again every PACE_AGE_NS, when all lanes of a host do so at once; the two last ages
 *  count. Starts are moved by up to half a slice at random: lanes with equal periods
 *  would otherwise start in one order for ever, and the base of the last lane would
 *  contain the slices of the others.
 *
 *  Pure: no clock is read here and nothing is allocated. tests/commsched/test_pace.c has
 *  a link in virtual time.
 */
#ifndef COMMSCHED_SCHED_PACE_H
#define COMMSCHED_SCHED_PACE_H

#include "rendezvous/op/transfer.h"

/** The most tokens of an idle lane: one slice, or what its rate fills in so long, since slices start in passes,
 *  which take 0.2 to 0.8 ms over TCP. */
#define PACE_BURST    DISPATCH_SLICE_PACED
#define PACE_BURST_NS NS_PER_MS
/** The queue of a link that is as fast as its graph: the time of so many bytes, */
#define PACE_QUEUE (128u << 10)
/** but not less than this: a pass over TCP takes 0.2 to 0.8 ms, and DONEs leave with
 *  passes. */
#define PACE_QUEUE_NS NS_PER_MS
/** How long a base counts, once more after its end. */
#define PACE_AGE_NS (20 * NS_PER_S)

/** Begin a pace, without a base and without debt. */
void pace_init(struct pace *pace, const struct pace_plan *plan);

/** True if the lane is paced. */
static inline bool pace_is_on(const struct pace *pace)
{
    return __builtin_expect(pace->planned_bytes_per_s != 0, 0);
}

/** Returns the rate now, in bytes per second. */
uint64_t pace_rate(const struct pace *pace);
/** Returns the round trip that a window has to cover, without the slice's own bytes; 0:
 *  not known. */
uint64_t pace_trip_ns(const struct pace *pace);

/** Returns when the next slice may start: `now_ns`, or later. Any size. */
uint64_t pace_start_ns(const struct pace *pace, uint64_t now_ns);
/** Take the tokens of a slice of `bytes` that starts behind the first `started_bytes` of
 *  the lane. `bytes_per_s`: the planned rate of transfers of its kind on this lane. */
void pace_started(struct pace *pace, uint64_t now_ns, uint64_t started_bytes,
                  uint64_t bytes, uint64_t bytes_per_s, enum urgency_class kind);
/** Take a DONE: the first `returned_bytes` of the lane are not in flight any more.
 *  Returns true if a round trip was measured: rate and trip may be others. */
bool pace_credited(struct pace *pace, uint64_t now_ns, uint64_t returned_bytes);
/** Drop the measurement under way: a rank was outside of the library, or bytes will not
 *  be acknowledged. */
void pace_forget(struct pace *pace);

#endif
