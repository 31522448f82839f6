/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated network compared with times that were computed by hand. All links move 1
 * byte per ns. */
#include "sim.h"

enum { RATE = 1000000000, LATENCY = 10000, PACKET = 65536, SLICE = 1 << 20 };

static struct sim sim;

/* Open ranks in a row, with `hops` links between its two ends. */
static void begin(int hops, uint64_t window_bytes)
{
    struct net net;
    struct sim_params params = {.ranks = 2,
                                .slice_bytes = SLICE,
                                .window_bytes = window_bytes,
                                .rail_window_bytes = 64 << 20,
                                .posted_slices = 16};
    net_init(&net, hops + 1, 2, PACKET);
    for (int i = 0; i < hops; i++) /* rank 0, nodes 2, 3, …, rank 1 */
        net_link_pair(&net, i ? i + 1 : 0, i + 1 < hops ? i + 2 : 1, RATE, LATENCY);
    net_routes(&net);
    sim_open(&sim, &params, &net);
}

static const struct sim_entry *find(enum sim_event event, int rank, uint64_t from_ns)
{
    for (size_t i = 0; i < sim.log.count; i++) {
        const struct sim_entry *entry = &sim.log.entries[i];
        if (entry->event == event && entry->rank == rank && entry->at_ns >= from_ns)
            return entry;
    }
    fail_msg("the log has no such entry");
    return NULL;
}

static uint64_t when(enum sim_event event, int which, uint64_t a)
{
    for (size_t i = 0; i < sim.log.count; i++) {
        const struct sim_entry *entry = &sim.log.entries[i];
        if (entry->event == event && entry->which == which && entry->a == a)
            return entry->at_ns;
    }
    fail_msg("the log has no such entry");
    return 0;
}

/* Return the time of a message over `hops` links, on which its packets follow each
 * other. */
static uint64_t way_ns(int hops, uint64_t bytes)
{
    uint64_t packet = bytes < PACKET ? bytes : PACKET;
    return bytes + (uint64_t)hops * LATENCY + (uint64_t)(hops - 1) * packet;
}

/* Run WANT, one slice and DONE. */
static void one_slice(int hops)
{
    begin(hops, 4 * SLICE);
    int which = sim_transfer_at(&sim, 0, 1, SLICE, 0, 0, 0, 0);
    assert_true(sim_run(&sim, NS_PER_S));
    const struct sim_entry *want = find(SIM_FRAME, 1, 0);
    assert_int_equal(want->at_ns, 0);
    uint64_t starts = way_ns(hops, want->a);
    assert_int_equal(when(SIM_START, which, 0), starts);
    uint64_t arrives = starts + way_ns(hops, SLICE);
    assert_int_equal(when(SIM_SLICE, which, 0), arrives);
    assert_int_equal(when(SIM_DONE, which, false), arrives);
    const struct sim_entry *done = find(SIM_FRAME, 1, arrives);
    assert_int_equal(done->at_ns, arrives);
    assert_int_equal(when(SIM_DONE, which, true), arrives + way_ns(hops, done->a));
    sim_close(&sim);
}

static void test_one_slice(void **state)
{
    one_slice(1);
    one_slice(2);
    one_slice(3);
}

/* Compare with a tolerance: once the path is known, the sender sends one frame without
 * records with the wanted slice size. */
static void expect_near(uint64_t got_ns, uint64_t wanted_ns)
{
    assert_in_range(got_ns, wanted_ns, wanted_ns + sizeof(struct frame_header));
}

/* A window of two slices keeps the link busy, because the round trip is shorter than a
 * slice. */
static void test_window_of_two(void **state)
{
    begin(1, 2 * SLICE);
    int which = sim_transfer_at(&sim, 0, 1, 8 * SLICE, 0, 0, 0, 0);
    assert_true(sim_run(&sim, NS_PER_S));
    uint64_t starts = when(SIM_START, which, 0);
    for (uint64_t i = 0; i < 8; i++)
        expect_near(when(SIM_SLICE, which, i), starts + (i + 1) * SLICE + LATENCY);
    sim_close(&sim);
}

/* A window of one slice leaves the link idle for a round trip after each slice. */
static void test_window_of_one(void **state)
{
    begin(1, SLICE);
    int which = sim_transfer_at(&sim, 0, 1, 4 * SLICE, 0, 0, 0, 0);
    assert_true(sim_run(&sim, NS_PER_S));
    uint64_t starts = when(SIM_START, which, 0);
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(when(SIM_START, which, i), starts);
        uint64_t arrives = when(SIM_SLICE, which, i);
        expect_near(arrives, starts + way_ns(1, SLICE));
        starts = arrives + way_ns(1, find(SIM_FRAME, 1, arrives)->a);
    }
    sim_close(&sim);
}

/* Halve the rate of a link, or cut the link for a while, from the middle of the tenth of
 * sixteen packets on. That packet still moves at the old rate. */
static void slow_or_cut(uint64_t cut_ns)
{
    begin(1, SLICE);
    int which = sim_transfer_at(&sim, 0, 1, SLICE, 0, 0, 0, 0);
    assert_true(sim_run(&sim, NS_PER_S));
    uint64_t starts = when(SIM_START, which, 0); /* a second run is like the first */
    uint64_t change = starts + 9 * PACKET + PACKET / 2;
    sim_close(&sim);
    begin(1, SLICE);
    (void)sim_transfer_at(&sim, 0, 1, SLICE, 0, 0, 0, 0);
    sim_act(&sim, change, cut_ns ? SIM_DO_LINK_CUT : SIM_DO_LINK_RATE, 0, RATE / 2);
    if (cut_ns)
        sim_act(&sim, change + cut_ns, SIM_DO_LINK_MEND, 0, 0);
    assert_true(sim_run(&sim, NS_PER_S));
    assert_int_equal(when(SIM_SLICE, which, 0),
                     LATENCY + (cut_ns ? change + cut_ns + 6 * PACKET
                                       : starts + 10 * PACKET + 12 * PACKET));
    sim_close(&sim);
}

static void test_slow_and_cut(void **state)
{
    slow_or_cut(0);
    slow_or_cut(5 * NS_PER_MS);
}

/* With a slice in flight each way, a frame waits for at most one packet of the slice. */
static void test_frame_beside_bulk(void **state)
{
    begin(1, 4 * SLICE);
    (void)sim_transfer_at(&sim, 0, 1, 16 * SLICE, 0, 0, 0, 0);
    (void)sim_transfer_at(&sim, 1, 0, 16 * SLICE, 0, 0, 0, 0);
    int small = sim_transfer_at(&sim, 0, 1, 1024, 8 * NS_PER_MS, 0, 0, 0);
    assert_true(sim_run(&sim, NS_PER_S));
    const struct sim_entry *frame = find(SIM_FRAME, 0, 8 * NS_PER_MS);
    assert_int_equal(frame->at_ns, 8 * NS_PER_MS);
    assert_in_range(when(SIM_DONE, small, false) - frame->at_ns, frame->a + LATENCY,
                    frame->a + PACKET + LATENCY);
    sim_close(&sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_slice),         cmocka_unit_test(test_window_of_two),
        cmocka_unit_test(test_window_of_one),     cmocka_unit_test(test_slow_and_cut),
        cmocka_unit_test(test_frame_beside_bulk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
