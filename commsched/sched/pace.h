/* SPDX-License-Identifier: Apache-2.0 */
/** @file pace.h
 *  The pace of a lane: when the lane's next slice may start, so that the lane takes its
 *  planned share of a link whatever the link's true rate is.
 *
 *  Bucket: tokens arrive at the planned rate times `scale`. A slice starts while the
 *  bucket has a token, and takes a token for each of its bytes, so the bucket may go into
 *  debt: slices of all sizes start, and their mean rate is the bucket's. Unused tokens
 *  are kept, up to PACE_BURST or the tokens of PACE_BURST_NS where these are more. (After
 *  the leaky bucket of Turner, IEEE Communications Magazine 24(10), 1986.) A slice of the
 *  background class costs 20/19 of its bytes, so this class gets 0.95 of the rate.
 *
 *  Classes: a plan uses different trees for different sizes, so a pair has one rate for
 *  each class of sizes. The lane's rate is the largest of these. A slice of another class
 *  costs more tokens, by the ratio of the lane's rate to the rate of its class.
 *
 *  Scale: a paced lane delivers what its pace admits, so the delivery rate cannot show
 *  that the link is faster. The round trip can: a queue grows only where the pace exceeds
 *  the link's rate. This is TCP Vegas' signal (Brakmo, O'Malley, Peterson, SIGCOMM 1994).
 *  As in FAST TCP (Wei, Jin, Low, Hegde, IEEE/ACM Transactions on Networking 14(6), 2006)
 *  the rate is a function of the queue:
 *
 *      scale = (base + own + target) / (base + own + queue)      within 1/4 and 2
 *
 *  base: the least round trip without the slice's own bytes; own: the time of these bytes
 *  at the link's rate in the graph; queue: the smoothed excess of a round trip over both;
 *  target: the time of PACE_QUEUE bytes or of two slices, PACE_QUEUE_NS at least. So the
 *  planned rate leaves a queue of `target` where the graph is right. Without a queue the
 *  lane sends at up to twice its planned rate. Where the graph's rate is 30 % too low,
 *  the queue is smaller, and where it is 30 % too high, larger; the link is full in both
 *  cases.
 *
 *  Proportions: lanes of one NIC share a FIFO, and so do lanes of several ranks in front
 *  of one receiver. Each of these lanes measures the same queue and so has the same
 *  scale: rates keep the plan's proportions wherever the narrow link is. An estimate per
 *  NIC would not serve lanes that share a receiver, and one slow receiver would slow down
 *  all lanes of its senders. The scale has no memory but the smoothing, so no lane drifts
 *  from the others, and an error of measurement (a thread that was late) ends with its
 *  cause. Late DONEs count as a queue and make the real queue smaller.
 *
 *  Base: must be measured without a queue (BBR's min RTT: Cardwell et al., ACM Queue
 *  14(5), 2016). Each lane makes its first few round trips at a quarter of its rate, and
 *  again every PACE_AGE_NS, when all lanes of a host do so at once; the bases of the last
 *  two ages count. Starts are delayed at random by up to half a slice. Otherwise lanes
 *  with equal periods would always start in one order, and the base of the last lane
 *  would contain the slices of the others.
 *
 *  Pure: reads no clock and allocates nothing. tests/commsched/test_pace.c checks the
 *  pace against a link in virtual time.
 */
#ifndef TRYST_COMMSCHED_SCHED_PACE_H
#define TRYST_COMMSCHED_SCHED_PACE_H

#include "rendezvous/op/transfer.h"

/** The most tokens of an idle lane: those of one slice, or of PACE_BURST_NS at the
 *  lane's rate where these are more, since slices start in passes, and a pass takes
 *  0.2 to 0.8 ms over TCP. */
#define PACE_BURST    DISPATCH_SLICE_PACED
#define PACE_BURST_NS NS_PER_MS
/** The target queue, in bytes: a link that is as fast as its graph keeps this queue. */
#define PACE_QUEUE (128u << 10)
/** The least target queue, as a time: DONEs leave with passes, and a pass takes 0.2 to
 *  0.8 ms over TCP. */
#define PACE_QUEUE_NS NS_PER_MS
/** The length of an age. The base of an age counts in this age and in the next one. */
#define PACE_AGE_NS (20 * NS_PER_S)

/** Reset the pace: no base, no debt. */
void pace_init(struct pace *pace, const struct pace_plan *plan);

/** True if the lane is paced. */
static inline bool pace_is_on(const struct pace *pace)
{
    return __builtin_expect(pace->planned_bytes_per_s != 0, 0);
}

/** Return the current rate, in bytes per second. */
uint64_t pace_rate(const struct pace *pace);
/** Return the round trip that a window must cover, without the slice's own bytes; 0:
 *  not known. */
uint64_t pace_trip_ns(const struct pace *pace);

/** Return when the next slice, of any size, may start: `now_ns` or later. */
uint64_t pace_start_ns(const struct pace *pace, uint64_t now_ns);
/** Take the tokens of a slice of `bytes` that starts behind the first `started_bytes`
 *  of the lane. `bytes_per_s` is the planned rate of the slice's class of sizes on
 *  this lane. */
void pace_started(struct pace *pace, uint64_t now_ns, uint64_t started_bytes,
                  uint64_t bytes, uint64_t bytes_per_s, enum urgency_class kind);
/** Note a DONE: the first `returned_bytes` of the lane have left the flight. Returns
 *  true if this DONE ends a measured round trip; pace_rate and pace_trip_ns may have
 *  changed then. */
bool pace_credited(struct pace *pace, uint64_t now_ns, uint64_t returned_bytes);
/** Drop the measurement under way: a rank was outside of the library, or bytes will
 *  not be acknowledged. */
void pace_forget(struct pace *pace);

#endif
