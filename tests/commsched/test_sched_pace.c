/* SPDX-License-Identifier: Apache-2.0 */
/* Paced lanes in the scheduler: which slices their bucket holds back. */
#include <string.h>

#include "sched_bench.h"

/* Let time pass without a timer call, so that only the run itself reads the clock. */
static void pass_until(uint64_t at_ns)
{
    assert_true(at_ns > t.clock.now_ns);
    clock_fake_advance(&t.clock, at_ns - 1 - t.clock.now_ns);
    run("");
    clock_fake_advance(&t.clock, 1);
}

/* The bucket holds the paced lane and no other of its rail. The run reads the clock
 * itself. On the lane the most urgent slice is still first. */
static void test_pace(void **state)
{
    begin(1 << 20, 1 << 20);
    pace_set(0, 1000000);
    assert_int_equal(sched_ops.next_ns(t.sched), 0);
    add_urgent(0, 0, 400000, 40000, 10, urgent(0, 1));
    add_urgent(1, 2, 30, 10, 3, urgent(1, 2));
    run("abbb");
    expect_held(0, HOLD_PACE, -1);
    assert_true(t.lanes[0].path.limited);
    uint64_t at_ns = sched_ops.next_ns(t.sched);
    assert_in_range(at_ns, t.clock.now_ns + 40 * NS_PER_MS,
                    t.clock.now_ns + 61 * NS_PER_MS);
    add_urgent(2, 0, 40000, 40000, 1, urgent(-1, 3));
    run("");
    expect_held(0, HOLD_BEHIND, 2);
    expect_held(2, HOLD_PACE, -1);
    pass_until(sched_ops.next_ns(t.sched));
    run("c");
    assert_true(sched_ops.next_ns(t.sched) > t.clock.now_ns);
    pass_until(sched_ops.next_ns(t.sched));
    run("a");
    for (int i = 0; i < 3; i++)
        sched_ops.remove(t.sched, &t.transfers[i]);
    end();
}

/* A lane with a full window waits for credit, not for its bucket. */
static void test_pace_window(void **state)
{
    begin(1000, 1 << 20);
    pace_set(0, 1000000);
    add(0, 0, 4000, 1000, 4);
    run("a");
    expect_held(0, HOLD_WINDOW, -1);
    assert_int_equal(sched_ops.next_ns(t.sched), 0);
    clock_fake_advance(&t.clock, NS_PER_S);
    credit(0, 1);
    run("a");
    credit(0, 1);
    run("a");
    sched_ops.remove(t.sched, &t.transfers[0]);
    end();
}

/* A transfer that ends while its lane is held leaves no reference to the lane, so the
 * lane may be freed with its peer. */
static void test_pace_ends(void **state)
{
    begin(1 << 20, 1 << 20);
    pace_set(0, 1000000);
    pace_set(2, 1000000);
    add(0, 0, 80000, 40000, 2);
    add(1, 2, 80000, 40000, 2);
    run("ab");
    sched_ops.remove(t.sched, &t.transfers[0]);
    assert_false(list_linked(&t.lanes[0].paced));
    t.transfers[0].lane = NULL;
    memset(&t.lanes[0], 0xff, sizeof t.lanes[0]);
    clock_fake_advance(&t.clock, NS_PER_S);
    run("b");
    sched_ops.remove(t.sched, &t.transfers[1]);
    assert_int_equal(sched_ops.next_ns(t.sched), 0);
    memset(&t.lanes[0], 0, sizeof t.lanes[0]);
    end();
}

/* The bucket belongs to the plan: only transfers of collectives wait for tokens and use
 * them. */
static void test_pace_others(void **state)
{
    begin(1 << 20, 1 << 20);
    pace_set(0, 1000000);
    add_urgent(0, 0, 120000, 40000, 3, urgent(0, 1));
    add_urgent(1, 0, 80000, 40000, 2, urgent(0, 2));
    t.transfers[0].pace_bytes_per_s = 0;
    run("aaab");
    expect_held(1, HOLD_PACE, -1);
    add_urgent(2, 0, 10000, 10000, 1, urgent(-1, 3));
    t.transfers[2].pace_bytes_per_s = 0;
    run("c");
    expect_held(1, HOLD_PACE, -1);
    for (int i = 0; i < 3; i++)
        sched_ops.remove(t.sched, &t.transfers[i]);
    end();
}

/* A background slice takes a nineteenth more tokens than it has bytes. */
static void test_pace_background(void **state)
{
    begin(1 << 20, 1 << 20);
    pace_set(0, 1000000);
    pace_set(2, 1000000);
    add_urgent(0, 0, 38000, 19000, 2, urgent(0, 1));
    add_urgent(1, 2, 38000, 19000, 2, background(0, 2));
    run("ab");
    assert_in_range((uint64_t)-t.lanes[0].pace.tokens, 18998, 19000);
    assert_in_range((uint64_t)-t.lanes[2].pace.tokens, 19998, 20000);
    sched_ops.remove(t.sched, &t.transfers[0]);
    sched_ops.remove(t.sched, &t.transfers[1]);
    end();
}

/* When a plan ends, the slices that its bucket holds start at once. */
static void test_pace_off(void **state)
{
    begin(1 << 20, 1 << 20);
    pace_set(0, 1000000);
    add(0, 0, 120000, 40000, 3);
    run("a");
    pace_set(0, 0);
    run("aa");
    credit(0, 3);
    end();
}

/* On a paced lane, window and slices follow the pace, not the measured path, before and
 * after a round trip. */
static void test_pace_path(void **state)
{
    const struct path *path = &t.lanes[0].path;
    begin(0, 64 << 20);
    assert_int_equal(path->slice_bytes, DISPATCH_SLICE_FIRST);
    pace_set(0, 50000000);
    assert_int_equal(path->slice_bytes, 64 << 10);
    assert_int_equal(path->window_bytes, 4 * (64 << 10));
    /* a new endpoint keeps the lane's pace */
    sched_ops.lane_ready(t.sched, &t.lanes[0], 0, 0, 0);
    assert_int_equal(path->slice_bytes, 64 << 10);
    add(0, 0, 64 << 20, 64 << 10, 1024);
    for (int i = 0; i < 1000; i++) {
        run_once();
        if (t.transfers[0].upto < t.transfers[0].next) {
            clock_fake_advance(&t.clock, NS_PER_MS);
            credit(0, (int)(t.transfers[0].next - t.transfers[0].upto));
        } else {
            clock_fake_advance(&t.clock, sched_ops.next_ns(t.sched) - t.clock.now_ns);
        }
    }
    /* The lane has 400 MB/s and no queue. 1.3 ms of that are 520 KB, but a slice of a
     * paced lane is at most 128 KiB. */
    assert_int_equal(path->slice_bytes, 128 << 10);
    assert_in_range(path->window_bytes, 2 * (128 << 10), 16 * (128 << 10));
    sched_ops.remove(t.sched, &t.transfers[0]);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pace),
        cmocka_unit_test(test_pace_window),
        cmocka_unit_test(test_pace_others),
        cmocka_unit_test(test_pace_ends),
        cmocka_unit_test(test_pace_background),
        cmocka_unit_test(test_pace_off),
        cmocka_unit_test(test_pace_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
