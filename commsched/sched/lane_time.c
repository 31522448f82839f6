/* SPDX-License-Identifier: Apache-2.0 */
/* Implements lane_time.h. */
#include "lane_time.h"

#include <assert.h>

void lane_time_begin(struct sched_lane *lane, uint64_t now_ns)
{
    lane->time = (struct lane_time){.since_ns = now_ns, .state = LANE_IDLE};
}

void lane_time_enter(struct lane_time *time, enum lane_state state, uint64_t now_ns)
{
    time->sums_ns[time->state] += clock_since_ns(time->since_ns, now_ns);
    time->since_ns = now_ns;
    time->state = (uint8_t)state;
}

/* Enter the state that follows from the lane's counts; the clock is read on a change. */
static void lane_time_follow_clock(struct sched_lane *lane, const struct clock *clock)
{
    enum lane_state state = lane_state_now(lane);
    if (state != lane->time.state)
        lane_time_enter(&lane->time, state, clock_now_ns(clock));
}

/* Count the transfer under another wait. */
static void transfer_wait_set(struct transfer *transfer, enum transfer_wait wait)
{
    uint32_t *waits = transfer->lane->time.waits;
    if (transfer->wait != WAIT_NONE) {
        assert(waits[transfer->wait]);
        waits[transfer->wait]--;
    }
    if (wait != WAIT_NONE)
        waits[wait]++;
    transfer->wait = (uint8_t)wait;
}

void lane_time_recount(struct transfer *transfer, enum transfer_wait wait,
                       const struct clock *clock)
{
    transfer_wait_set(transfer, wait);
    lane_time_follow_clock(transfer->lane, clock);
}

void lane_time_remove(struct transfer *transfer, const struct clock *clock)
{
    transfer_wait_set(transfer, WAIT_NONE);
    lane_time_follow_clock(transfer->lane, clock);
}
