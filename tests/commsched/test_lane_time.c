/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of a lane goes (commsched/sched/lane_time.h), on plain structs with a
 * fake clock: each state, the order in which waits count, removal, the reads of the
 * clock, and random events beside sums that the test takes from the transfers alone. */
#include <string.h>

#include "core/os/random.h"
#include "sched_bench.h"

/* Make the first `slices` slices of a flow ready. */
static void ready(int which, uint32_t slices)
{
    t.transfers[which].ready = slices;
    sched_posted(t.sched, &t.transfers[which]);
}

static void advance_ms(uint64_t ms)
{
    advance(ms * NS_PER_MS);
}

static uint64_t time_ns(int lane, enum lane_state state)
{
    return lane_time_ns(&t.lanes[lane].time, state, t.clock.now_ns);
}

/* Fail unless lane 0 has spent these times in its states, and no other time. */
static void expect_ms(uint64_t idle, uint64_t held, uint64_t ungranted, uint64_t unready,
                      uint64_t moving)
{
    const uint64_t wanted[LANE_STATES] = {[LANE_IDLE] = idle,
                                          [LANE_HELD] = held,
                                          [LANE_UNGRANTED] = ungranted,
                                          [LANE_UNREADY] = unready,
                                          [LANE_MOVING] = moving};
    uint64_t sum_ns = 0;
    for (int state = 0; state < LANE_STATES; state++) {
        assert_int_equal(time_ns(0, state), wanted[state] * NS_PER_MS);
        sum_ns += time_ns(0, state);
    }
    assert_int_equal(sum_ns, t.clock.now_ns - NS_PER_S); /* begin() starts there */
}

/* The life of a flow: each state is entered and left. The spans are powers of two, so no
 * two sets of spans have the same sum. */
static void test_states(void **state)
{
    (void)state;
    begin(100, 100);
    advance_ms(1); /* idle */
    add(0, 0, 30, 10, 0);
    advance_ms(2); /* ungranted */
    post(0, 1);
    advance_ms(4); /* held: the rail has not run */
    run("a");
    advance_ms(8); /* moving */
    ready(0, 1);
    advance_ms(16); /* moving, though the next slice is not ready */
    credit(0, 1);
    expect_ms(1, 4, 2, 0, 24);
    advance_ms(32); /* unready, and not granted either */
    ready(0, 3);
    advance_ms(64); /* ungranted */
    post(0, 3);
    run("aa");
    advance_ms(128); /* moving */
    credit(0, 1);
    advance_ms(256); /* moving: one slice is left */
    credit(0, 1);
    advance_ms(512); /* idle */
    expect_ms(1 + 512, 4, 2 + 64, 32, 24 + 128 + 256);
    end();
}

/* HELD counts a slice without room at the transport, and one without room on the rail. */
static void test_held(void **state)
{
    (void)state;
    begin(100, 100);
    add(0, 0, 10, 10, 1);
    t.again = 1;
    run("");
    advance_ms(1);
    run("a");
    advance_ms(2);
    credit(0, 1);
    expect_ms(0, 1, 0, 0, 2);
    add(1, 2, 200, 100, 2); /* fills the rail, and takes its overdraft */
    add(2, 4, 100, 100, 1);
    run("bc");
    add(0, 0, 10, 10, 1);
    run("");
    advance_ms(4);
    expect_ms(0, 1 + 4, 0, 0, 2);
    for (int i = 0; i < 3; i++)
        sched_remove(t.sched, &t.transfers[i]);
    end();
}

/* Of several transfers the one closest to its start decides: held, ungranted, unready. */
static void test_order(void **state)
{
    (void)state;
    begin(100, 100);
    for (int i = 0; i < 6; i++) {
        add(i, 0, 10, 10, 0);
        ready(i, i >= 4); /* 4 and 5 are ungranted, the others not ready */
    }
    post(5, 1);
    advance_ms(1); /* held */
    sched_remove(t.sched, &t.transfers[5]);
    advance_ms(2); /* ungranted */
    sched_remove(t.sched, &t.transfers[4]);
    for (int i = 0; i < 4; i++) {
        advance_ms(4); /* unready, as long as there is one */
        sched_remove(t.sched, &t.transfers[i]);
    }
    advance_ms(32);
    expect_ms(32, 1, 2, 16, 0);
    end();
}

/* ---- removal ----------------------------------------------------------------------- */

static const struct {
    enum lane_state before;
    uint32_t ready, posted;
    bool runs;
} removals[] = {{LANE_HELD, 3, 3, false},    {LANE_UNGRANTED, 3, 0, false},
                {LANE_UNREADY, 0, 0, false}, {LANE_UNREADY, 0, 3, false},
                {LANE_MOVING, 3, 3, true}, /* and the third slice is held */
                {LANE_MOVING, 3, 2, true},   {LANE_MOVING, 2, 3, true},
                {LANE_MOVING, 1, 1, true}};

/* A transfer is removed in each state, twice. Its lane is then idle, or waits for the
 * other transfer. */
static void removed(size_t row, bool other)
{
    begin(20, 100);
    if (other)
        add(1, 0, 10, 10, 0);
    add(0, 0, 30, 10, 0);
    ready(0, removals[row].ready);
    post(0, removals[row].posted);
    if (removals[row].runs)
        run_once();
    uint64_t before_ns = time_ns(0, removals[row].before);
    advance_ms(1);
    enum lane_state before = other && removals[row].before == LANE_UNREADY
                                 ? LANE_UNGRANTED
                                 : removals[row].before;
    enum lane_state after = other ? LANE_UNGRANTED : LANE_IDLE;
    assert_int_equal(before_ns, 0);
    assert_int_equal(time_ns(0, before), NS_PER_MS);
    sched_remove(t.sched, &t.transfers[0]);
    t.transfers[0].upto = t.transfers[0].next; /* as rendezvous does */
    sched_remove(t.sched, &t.transfers[0]);
    advance_ms(2);
    assert_int_equal(time_ns(0, after), (before == after ? 3 : 2) * NS_PER_MS);
    if (before != after)
        assert_int_equal(time_ns(0, before), NS_PER_MS);
    if (other)
        sched_remove(t.sched, &t.transfers[1]);
    for (int wait = WAIT_NONE + 1; wait < TRANSFER_WAITS; wait++)
        assert_int_equal(t.lanes[0].time.waits[wait], 0);
    end();
}

static void test_removed(void **state)
{
    (void)state;
    for (size_t row = 0; row < COUNT_OF(removals); row++) {
        removed(row, false);
        removed(row, true);
    }
}

/* ---- the clock --------------------------------------------------------------------- */

static int reads;

static uint64_t counted_now_ns(void *arg)
{
    reads++;
    return clock_fake_now_ns(arg);
}

/* While bytes are in flight, transfers come, go and change without a read of the clock. A
 * slice that starts and its credit take the one read that they took before. */
static void test_reads(void **state)
{
    (void)state;
    begin(20, 100);
    add(0, 0, 50, 10, 5);
    run("aa");
    t.clock.clock.now_ns = counted_now_ns;
    reads = 0;
    add(1, 0, 50, 10, 0);
    ready(1, 0);
    post(1, 1);
    ready(1, 5);
    sched_raise(t.sched, &t.transfers[1], 0);
    sched_remove(t.sched, &t.transfers[1]);
    assert_int_equal(reads, 0);
    credit(0, 1);
    assert_int_equal(reads, 1);
    run("a");
    assert_int_equal(reads, 2);
    sched_remove(t.sched, &t.transfers[0]);
    end();
}

/* ---- at random --------------------------------------------------------------------- */

static uint64_t sums_ns[LANES][LANE_STATES];

/* Return the state of a lane from its transfers alone, as held_by names their waits. */
static enum lane_state model_state(int lane)
{
    bool has[TRANSFER_WAITS] = {false};
    for (int i = 0; i < TRANSFERS; i++) {
        const struct transfer *transfer = &t.transfers[i], *before;
        if (transfer->lane != &t.lanes[lane])
            continue;
        if (transfer->upto < transfer->next)
            return LANE_MOVING;
        switch (sched_held_by(t.sched, transfer, &before)) {
        case HOLD_NONE: break;
        case HOLD_UNREADY: has[WAIT_DATA] = true; break;
        case HOLD_UNPOSTED: has[WAIT_GRANT] = true; break;
        default: has[WAIT_TURN] = true; break;
        }
    }
    return has[WAIT_TURN]    ? LANE_HELD
           : has[WAIT_GRANT] ? LANE_UNGRANTED
           : has[WAIT_DATA]  ? LANE_UNREADY
                             : LANE_IDLE;
}

/* Let time pass in the model and on the clock, and compare all sums. */
static void model_advance(uint64_t ns)
{
    for (int lane = 0; lane < LANES; lane++)
        sums_ns[lane][model_state(lane)] += ns;
    advance(ns);
    for (int lane = 0; lane < LANES; lane++)
        for (int state = 0; state < LANE_STATES; state++)
            assert_int_equal(time_ns(lane, state), sums_ns[lane][state]);
}

static void random_change(struct random *random, int which)
{
    struct transfer *transfer = &t.transfers[which];
    switch (random_range(random, 6)) {
    case 0:
    case 1:
        if (transfer->posted < transfer->slices)
            post(which, transfer->posted + 1);
        break;
    case 2:
        if (transfer->ready < transfer->slices)
            ready(which, transfer->ready + 1);
        break;
    case 3:
    case 4:
        if (transfer->upto < transfer->next)
            credit(which, 1);
        if (transfer->upto == transfer->slices)
            transfer->lane = NULL; /* finished; rendezvous removes no such transfer */
        break;
    default:
        if (random_range(random, 4) == 0) {
            sched_remove(t.sched, transfer);
            transfer->lane = NULL;
        }
    }
}

static void test_random(void **state)
{
    struct random random;
    (void)state;
    random_seed(&random, unit_seed());
    begin(100, 150);
    memset(sums_ns, 0, sizeof sums_ns);
    for (int i = 0; i < 20000; i++) {
        int which = (int)random_range(&random, TRANSFERS);
        if (t.transfers[which].lane) {
            random_change(&random, which);
        } else {
            add(which, (int)random_range(&random, LANES), 1 + random_range(&random, 100),
                1 + (uint32_t)random_range(&random, SLICE_MAX), 0);
            ready(which, (uint32_t)random_range(&random, t.transfers[which].slices + 1));
        }
        t.again = random_range(&random, 8) == 0;
        if (random_range(&random, 2))
            run_once();
        model_advance(random_range(&random, NS_PER_MS));
    }
    for (int lane = 0; lane < LANES; lane++)
        for (int s = 0; s < LANE_STATES; s++)
            assert_true(sums_ns[lane][s] > 0);
    for (int i = 0; i < TRANSFERS; i++)
        if (t.transfers[i].lane)
            sched_remove(t.sched, &t.transfers[i]);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states), cmocka_unit_test(test_held),
        cmocka_unit_test(test_order),  cmocka_unit_test(test_removed),
        cmocka_unit_test(test_reads),  cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
