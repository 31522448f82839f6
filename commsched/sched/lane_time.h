/* SPDX-License-Identifier: Apache-2.0 */
/** @file lane_time.h
 *  Where the time of a lane goes: the nanoseconds that the lane has spent in each state
 *  (enum lane_state, commsched/sched/transfer.h).
 *
 *  Idea: a lane counts its transfers by the reason for their wait, and each transfer
 *  keeps its own reason. The state of the lane is then a few comparisons at each event,
 *  and only a change of the state takes the time. While bytes are in flight, no change of
 *  a transfer changes the state, so a busy lane reads no clock.
 *
 *  Invariants: lane->time.waits[w] is the number of transfers of the lane with wait w,
 *  for each w but WAIT_NONE. The sums of all states, with the current state until now,
 *  are the time since lane_time_begin.
 *
 *  Thread: the progress domain.
 */
#ifndef TRYST_COMMSCHED_SCHED_LANE_TIME_H
#define TRYST_COMMSCHED_SCHED_LANE_TIME_H

#include "core/os/clock.h"
#include "transfer.h"

/** Count the time of the lane from now on; it is idle. */
void lane_time_begin(struct sched_lane *lane, uint64_t now_ns);

/** Do what the inline functions do where something changes; call those instead. */
void lane_time_enter(struct lane_time *time, enum lane_state state, uint64_t now_ns);
void lane_time_recount(struct transfer *transfer, enum transfer_wait wait,
                       const struct clock *clock);

/** Return the state of the lane by its bytes in flight and its transfers. */
static inline enum lane_state lane_state_now(const struct sched_lane *lane)
{
    const uint32_t *waits = lane->time.waits;
    if (lane->in_flight_bytes)
        return LANE_MOVING;
    return waits[WAIT_TURN]    ? LANE_HELD
           : waits[WAIT_GRANT] ? LANE_UNGRANTED
           : waits[WAIT_DATA]  ? LANE_UNREADY
                               : LANE_IDLE;
}

/** Return why the transfer does not start its next slice now; the order of the reasons is
 *  that of sched_held_by. */
static inline enum transfer_wait transfer_wait_now(const struct transfer *transfer)
{
    if (transfer_may_start(transfer))
        return WAIT_TURN;
    if (transfer->next == transfer->slices)
        return WAIT_NONE;
    return transfer->next == transfer->ready ? WAIT_DATA : WAIT_GRANT;
}

/** Note that the lane's bytes in flight have changed at `now_ns`. */
static inline void lane_time_follow(struct sched_lane *lane, uint64_t now_ns)
{
    enum lane_state state = lane_state_now(lane);
    if (state != lane->time.state)
        lane_time_enter(&lane->time, state, now_ns);
}

/** Note that the slices of the transfer that are started, posted or ready may have
 *  changed. */
static inline void lane_time_transfer(struct transfer *transfer,
                                      const struct clock *clock)
{
    enum transfer_wait wait = transfer_wait_now(transfer);
    if (wait != transfer->wait)
        lane_time_recount(transfer, wait, clock);
}

/** Note that the transfer has left its lane, and that the lane's bytes in flight may have
 *  changed with it. A second call changes nothing. */
void lane_time_remove(struct transfer *transfer, const struct clock *clock);

#endif
