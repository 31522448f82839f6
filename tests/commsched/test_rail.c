/* SPDX-License-Identifier: Apache-2.0 */
/* The window of a rail, which follows the rail's rate: rail.c alone, and together with
 * lanes in the scheduler. */
#include "commsched/sched/rail.h"

#include "sched_bench.h"

#define MBIT (1000000 / 8)
#define GBIT (1000000000ull / 8)

/* The window is 8 ms of the rate, between 256 KiB and 16 MiB; a window that the user has
 * set is kept. */
static void test_window(void **state)
{
    static const struct {
        uint64_t set_bytes, bytes_per_s, wanted;
    } table[] = {{0, 0, 16 << 20},          {0, 400 * MBIT, 400000},
                 {0, 10 * MBIT, 256 << 10}, {0, 10 * GBIT, 10000000},
                 {0, 100 * GBIT, 16 << 20}, {65536, 400 * MBIT, 65536},
                 {1 << 30, 0, 1 << 30}};
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct rail_rate rate = {.set_window_bytes = table[i].set_bytes,
                                 .bytes_per_s = table[i].bytes_per_s};
        assert_int_equal(rail_window_bytes(&rate), table[i].wanted);
    }
}

/* On a path of 50 ms the window grows by rate times round trip. The least round trip
 * counts until it is old. */
static void test_trip(void **state)
{
    uint64_t slice = 1 << 17, now_ns = NS_PER_S;
    struct rail_rate rate = {.bytes_per_s = 1000 * MBIT};
    uint64_t own_ns = slice * NS_PER_S / rate.bytes_per_s;
    rail_trip_add(&rate, now_ns, own_ns + 50 * NS_PER_MS, slice);
    assert_in_range(rail_window_bytes(&rate), 7249000, 7251000);
    rail_trip_add(&rate, now_ns + 1, own_ns + 60 * NS_PER_MS, slice);
    assert_in_range(rail_window_bytes(&rate), 7249000, 7251000);
    rail_trip_add(&rate, now_ns + 2, own_ns / 2, slice);
    assert_int_equal(rail_window_bytes(&rate), 1000000);
    rail_trip_add(&rate, now_ns + 2 + RAIL_AGE_NS, own_ns + 50 * NS_PER_MS, slice);
    assert_int_equal(rail_window_bytes(&rate), 1000000);
    rail_trip_add(&rate, now_ns + 3 + RAIL_AGE_NS, own_ns + 50 * NS_PER_MS, slice);
    assert_in_range(rail_window_bytes(&rate), 7249000, 7251000);
}

/* A rail without a known rate uses no round trip: nothing overflows, and a rate that
 * becomes known later starts anew. */
static void test_unknown(void **state)
{
    struct rail_rate rate = {0};
    rail_trip_add(&rate, NS_PER_S, UINT64_MAX, 1);
    assert_int_equal(rail_window_bytes(&rate), RAIL_WINDOW_MAX);
    rate.bytes_per_s = 400 * MBIT;
    assert_int_equal(rail_window_bytes(&rate), 400000);
}

/* The most urgent lane fills the rail's window, and a less urgent lane waits although its
 * own window is empty. On a rail without a rate it starts at once. */
static void lanes_run(uint64_t bytes_per_s, const char *wanted)
{
    uint32_t slice = 1 << 17;
    begin(0, 0);
    for (int lane = 0; lane < LANES; lane += RAILS)
        sched_lane_ready(t.sched, &t.lanes[lane], 0, 0, bytes_per_s);
    t.window = t.lanes[0].path.window_bytes;
    add_urgent(0, 0, 100 * slice, slice, 100, urgent(0, 1));
    add_urgent(1, 2, slice, slice, 1, urgent(1, 2));
    run(wanted);
    for (int i = 0; i < 2; i++)
        sched_remove(t.sched, &t.transfers[i]);
    end();
}

static void test_lanes(void **state)
{
    lanes_run(0, "aaaaaaaab");
    lanes_run(400 * MBIT, "aaa");
}

/* A slice with nothing else in flight measures the round trip. */
static void test_measured(void **state)
{
    uint32_t slice = 1 << 17;
    begin(0, 0);
    sched_lane_ready(t.sched, &t.lanes[0], 0, 0, 1000 * MBIT);
    t.window = t.lanes[0].path.window_bytes;
    add_urgent(0, 0, 4 * slice, slice, 1, urgent(0, 1));
    run("a");
    clock_fake_advance(&t.clock, 50 * NS_PER_MS + slice * NS_PER_S / (1000 * MBIT));
    credit(0, 1);
    assert_in_range(sched_rail_window(t.sched, 0), 7249000, 7251000);
    post(0, 2);
    run("a");
    /* the peer was outside the library: no sample */
    sched_pause(t.sched, &t.lanes[0]);
    credit(0, 1);
    assert_in_range(sched_rail_window(t.sched, 0), 7249000, 7251000);
    post(0, 3);
    run("a");
    credit(0, 1);
    assert_int_equal(sched_rail_window(t.sched, 0), 1000000);
    sched_remove(t.sched, &t.transfers[0]);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_window),   cmocka_unit_test(test_trip),
        cmocka_unit_test(test_unknown),  cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
