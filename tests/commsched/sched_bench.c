/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler on plain structs; see sched_bench.h. */
#include "sched_bench.h"

#include <string.h>

struct sched_bench t;

/* True if the transfer could start a slice: the slice is posted and fits the lane's
 * window and, on probation, half of the rail's. */
bool may_start(const struct transfer *transfer)
{
    const struct sched_lane *lane = transfer->lane;
    if (!lane || !transfer_may_start(transfer) || t.refused[lane - t.lanes])
        return false;
    uint64_t bytes =
        lane->in_flight_bytes + transfer_slice_bytes(transfer, transfer->next);
    uint64_t most = t.window;
    if (lane->probation && t.rail_window / 2 < most)
        most = t.rail_window / 2;
    return !lane->in_flight_bytes || bytes <= most;
}

/* True if the lane is kept: its first transfer of either class has a slice that does not
 * fit. The lane then waits, also for a slice of the background whose turn it is. */
static bool lane_is_kept(struct sched_lane *lane)
{
    for (int kind = 0; kind < URGENCY_CLASSES; kind++) {
        struct urgent_node *node = urgent_first(&lane->ready[kind]);
        if (node && !may_start(container_of(node, struct transfer, node)))
            return true;
    }
    return false;
}

/* True if no more urgent transfer of the class waits on the lane. A large slice is not
 * passed over for a smaller one on its lane. */
static bool is_lanes_first(const struct transfer *transfer)
{
    for (int i = 0; i < TRANSFERS; i++) {
        const struct transfer *other = &t.transfers[i];
        if (other->lane == transfer->lane && transfer_may_start(other) &&
            urgency_class(&other->urgency) == urgency_class(&transfer->urgency) &&
            urgency_before(&other->urgency, &transfer->urgency))
            return false;
    }
    return true;
}

/* Fail on an inversion: a slice starts while a more urgent one of its rail and class
 * could start. */
static void inversion_check(const struct transfer *transfer)
{
    for (int i = 0; i < TRANSFERS; i++) {
        const struct transfer *other = &t.transfers[i];
        if (may_start(other) && is_lanes_first(other) && !lane_is_kept(other->lane) &&
            other->lane->rail == transfer->lane->rail &&
            urgency_class(&other->urgency) == urgency_class(&transfer->urgency) &&
            urgency_before(&other->urgency, &transfer->urgency))
            fail_msg("'%c' started before '%c', which is more urgent",
                     (char)('a' + (transfer - t.transfers)), (char)('a' + i));
    }
}

tryst_status bench_start(struct transfer *transfer)
{
    size_t n = strlen(t.started);
    if (t.again && t.again--) {
        t.refused[transfer->lane - t.lanes] = true;
        return TRYST_AGAIN;
    }
    assert_true(transfer->next < transfer->posted);
    assert_true(transfer->next < transfer->ready);
    assert_true(transfer->next < transfer->slices);
    inversion_check(transfer);
    t.bytes_of[urgency_class(&transfer->urgency)] +=
        transfer_slice_bytes(transfer, transfer->next);
    if (n < sizeof t.started - 1)
        t.started[n] = (char)('a' + (transfer - t.transfers));
    return TRYST_OK;
}

void begin(uint64_t window, uint64_t rail_window)
{
    struct sched_params params = {&t.clock.clock, NULL, window, rail_window, bench_start};
    memset(&t, 0, sizeof t);
    t.window = window;
    t.rail_window = rail_window;
    clock_fake_init(&t.clock, NS_PER_S);
    assert_int_equal(sched_open(&params, &t.sched), TRYST_OK);
    for (uint32_t i = 0; i < LANES; i++)
        sched_lane_init(t.sched, &t.lanes[i]);
    for (uint32_t i = 0; i < LANES; i++)
        sched_lane_ready(t.sched, &t.lanes[i], i % RAILS, 0, 0);
}

void end(void)
{
    for (uint32_t i = 0; i < LANES; i++)
        assert_int_equal(t.lanes[i].in_flight_bytes, 0);
    for (uint32_t i = 0; i < RAILS; i++)
        assert_int_equal(sched_rail_bytes(t.sched, i), 0);
    sched_close(t.sched);
}

void add_urgent(int which, int lane, uint64_t bytes, uint32_t slice_bytes,
                uint32_t posted, struct urgency urgency)
{
    t.transfers[which] =
        (struct transfer){.lane = &t.lanes[lane],
                          .urgency = urgency,
                          .bytes = bytes,
                          .slice_bytes = slice_bytes,
                          .slices = (uint32_t)((bytes + slice_bytes - 1) / slice_bytes),
                          .ready = (uint32_t)((bytes + slice_bytes - 1) / slice_bytes),
                          .posted = posted};
    sched_add(t.sched, &t.transfers[which]);
}

/* Add a transfer whose urgency is its order of submission. */
void add(int which, int lane, uint64_t bytes, uint32_t slice_bytes, uint32_t posted)
{
    add_urgent(which, lane, bytes, slice_bytes, posted, (struct urgency){0, 0, 0});
}

void run_once(void)
{
    memset(t.refused, 0, sizeof t.refused);
    memset(t.started, 0, sizeof t.started);
    sched_run(t.sched);
}

void run(const char *wanted)
{
    memset(t.refused, 0, sizeof t.refused);
    memset(t.started, 0, sizeof t.started);
    int count = sched_run(t.sched);
    assert_string_equal(t.started, wanted);
    assert_int_equal(count, strlen(wanted));
}

/* Return credit for `slices` more slices of the receiver. */
void credit(int which, int slices)
{
    struct transfer *transfer = &t.transfers[which];
    while (slices-- > 0)
        sched_credit(t.sched, transfer, transfer_slice_bytes(transfer, transfer->upto++));
}

/* Advance the clock and run the scheduler's timer. */
void advance(uint64_t ns)
{
    clock_fake_advance(&t.clock, ns);
    sched_timer(t.sched, t.clock.now_ns);
}

void post(int which, uint32_t posted)
{
    t.transfers[which].posted = posted;
    sched_posted(t.sched, &t.transfers[which]);
}

void expect_held(int which, enum transfer_hold wanted, int before)
{
    const struct transfer *other;
    assert_int_equal(sched_held_by(t.sched, &t.transfers[which], &other), wanted);
    assert_ptr_equal(other, before < 0 ? NULL : &t.transfers[before]);
}
