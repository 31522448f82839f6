/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler's policy, on plain structs and with the test's own start function. */
#include <string.h>

#include "core/memory/alloc.h"
#include "core/os/random.h"
#include "sched_bench.h"

/* Make the first `slices` slices of a flow ready. */
static void ready(int which, uint32_t slices)
{
    t.transfers[which].ready = slices;
    sched_posted(t.sched, &t.transfers[which]);
}

/* ---- decisions in one table -------------------------------------------------------- */

struct row {
    const char *name;
    uint64_t window, rail_window;
    struct {
        int lane;
        uint64_t bytes;
        uint32_t slice_bytes, posted;
        uint64_t rank;
    } transfers[4];
    const char *started;
};

static const struct row rows[] = {
    {"one slice", 100, 100, {{0, 50, 50, 1, 0}}, "a"},
    {"nothing posted", 100, 100, {{0, 50, 50, 0, 0}}, ""},
    {"all posted slices", 100, 100, {{0, 50, 10, 3, 0}}, "aaa"},
    {"no more than the window holds", 25, 100, {{0, 50, 10, 5, 0}}, "aa"},
    {"exactly the window", 30, 100, {{0, 50, 10, 5, 0}}, "aaa"},
    {"a single slice larger than the window", 25, 100, {{0, 80, 40, 2, 0}}, "a"},
    {"a single slice larger than the rail's window", 1000, 25, {{0, 80, 40, 2, 0}}, "a"},
    {"oldest first", 100, 100, {{0, 20, 10, 2, 0}, {0, 20, 10, 2, 0}}, "aabb"},
    {"a transfer without posted slices is passed over",
     100,
     100,
     {{0, 20, 10, 0, 0}, {0, 20, 10, 1, 0}, {0, 20, 10, 2, 0}},
     "bcc"},
    {"a transfer without window is not passed over",
     25,
     100,
     {{0, 20, 20, 1, 0}, {0, 20, 20, 1, 0}, {0, 4, 4, 1, 0}},
     "a"},
    {"each lane has its own window",
     20,
     100,
     {{0, 30, 10, 3, 0}, {2, 30, 10, 3, 0}},
     "aabb"},
    {"lanes share the rail's window, but an idle lane may start one slice",
     100,
     30,
     {{0, 40, 10, 4, 0}, {2, 30, 10, 3, 0}},
     "aaa"},
    {"other rails are not delayed",
     100,
     20,
     {{0, 30, 10, 3, 0}, {2, 30, 10, 3, 0}, {1, 30, 10, 3, 0}},
     "aacc"},
    {"a short last slice", 25, 100, {{0, 25, 10, 3, 0}}, "aaa"},
    {"the more urgent transfer first",
     100,
     100,
     {{0, 20, 10, 2, 2}, {0, 20, 10, 2, 1}, {0, 20, 10, 2, 3}},
     "bbaacc"},
    {"the more urgent lane first",
     100,
     100,
     {{0, 20, 10, 2, 2}, {2, 20, 10, 2, 1}, {4, 20, 10, 2, 3}},
     "bbaacc"},
    {"an urgent transfer that is not posted delays no other",
     100,
     100,
     {{0, 20, 10, 2, 2}, {0, 20, 10, 0, 1}},
     "aa"},
    {"an urgent transfer without window is not passed over on its lane",
     25,
     100,
     {{0, 20, 20, 1, 1}, {0, 20, 20, 1, 2}, {0, 4, 4, 1, 3}},
     "a"},
    {"but on another lane", 25, 100, {{0, 40, 20, 2, 1}, {2, 4, 4, 1, 3}}, "ab"},
    {"an urgent transfer without the rail's window delays the others",
     100,
     25,
     {{0, 40, 20, 2, 1}, {2, 4, 4, 1, 3}},
     "a"},
};

/* Transfers of flows: the last slices of each transfer are not ready. */
static const struct {
    struct row row;
    uint32_t unready[4];
} flow_rows[] = {
    {{"all ready slices", 100, 100, {{0, 50, 10, 5, 0}}, "aaa"}, {2}},
    {{"no more than posted", 100, 100, {{0, 50, 10, 2, 0}}, "aa"}, {2}},
    {{"nothing ready", 100, 100, {{0, 50, 50, 1, 0}}, ""}, {1}},
    {{"an urgent one that is not ready: the others start",
      100,
      100,
      {{0, 20, 10, 2, 2}, {0, 20, 10, 2, 1}},
      "aa"},
     {0, 2}},
    {{"on another lane, once the ready slices have started",
      100,
      100,
      {{0, 20, 10, 2, 2}, {2, 30, 10, 3, 1}},
      "baa"},
     {0, 2}},
};

static void decide(const struct row *row, const uint32_t unready[4])
{
    begin(row->window, row->rail_window);
    for (int j = 0; j < 4 && row->transfers[j].bytes; j++)
        add_urgent(j, row->transfers[j].lane, row->transfers[j].bytes,
                   row->transfers[j].slice_bytes, row->transfers[j].posted,
                   (struct urgency){row->transfers[j].rank, 0, 0});
    for (int j = 0; j < 4; j++)
        if (unready[j])
            ready(j, t.transfers[j].slices - unready[j]);
    run_once();
    if (strcmp(t.started, row->started) != 0)
        fail_msg("%s: started \"%s\", not \"%s\"", row->name, t.started, row->started);
    for (int j = 0; j < 4 && row->transfers[j].bytes; j++)
        sched_remove(t.sched, &t.transfers[j]);
    end();
}

static void test_decisions(void **state)
{
    static const uint32_t all_ready[4];
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        decide(&rows[i], all_ready);
    for (size_t i = 0; i < COUNT_OF(flow_rows); i++)
        decide(&flow_rows[i].row, flow_rows[i].unready);
}

/* ---- over time --------------------------------------------------------------------- */

static void test_credit(void **state)
{
    begin(20, 100);
    add(0, 0, 50, 10, 5);
    add(1, 0, 20, 10, 2);
    run("aa");
    run("");
    credit(0, 1);
    run("a");
    credit(0, 2);
    run("aa");
    credit(0, 2);
    run("bb");
    credit(1, 2);
    end();
}

/* Flows of one collective are equally urgent: they start slices in turn, on one lane and
 * over the lanes of a rail. A less urgent flow waits, and an ordinary transfer stays
 * first. */
static void test_turns(void **state)
{
    begin(100, 1000);
    for (int i = 0; i < 4; i++) {
        add_urgent(i, i == 2 ? 2 : 0, 30, 10, 0, urgent(i == 3, 7));
        t.transfers[i].round_robin = i < 3;
    }
    for (int i = 0; i < 4; i++)
        post(i, 3);
    run("acbcacbabddd"); /* c is alone on its lane; a and b share one */
    for (int i = 0; i < 4; i++)
        credit(i, 3);
    end();
}

static void test_posted_later(void **state)
{
    begin(100, 100);
    add(0, 0, 30, 10, 0);
    add(1, 0, 30, 10, 1);
    run("b");
    run("");
    post(0, 2);
    run("aa");
    post(1, 3);
    post(0, 3);
    run("bba"); /* the first posted transfer is first */
    credit(0, 3);
    credit(1, 3);
    end();
}

/* A slice starts once it is both ready and posted. */
static void test_ready_later(void **state)
{
    begin(100, 100);
    add(0, 0, 30, 10, 1);
    ready(0, 0);
    add(1, 0, 30, 10, 3);
    ready(1, 1);
    run("b");
    ready(0, 3);
    run("a");
    post(0, 2);
    ready(1, 3);
    run("abb");
    post(0, 3);
    run("a");
    credit(0, 3);
    credit(1, 3);
    end();
}

/* A refused start is repeated in the next run, not before. */
static void test_again(void **state)
{
    begin(100, 100);
    add(0, 0, 30, 10, 3);
    t.again = 1;
    run("");
    run("aaa");
    credit(0, 3);
    end();
}

/* The removal of a transfer frees its bytes in flight at once, and the transfers behind
 * it start. */
static void test_remove(void **state)
{
    begin(20, 100);
    add(0, 0, 50, 10, 5);
    add(1, 0, 10, 10, 1);
    add(2, 1, 10, 10, 1);
    run("aac"); /* one rail after the other */
    credit(0, 1);
    sched_remove(t.sched, &t.transfers[0]);
    assert_int_equal(t.lanes[0].in_flight_bytes, 0);
    run("b");
    sched_remove(t.sched, &t.transfers[1]); /* all of its slices are in flight */
    credit(2, 1);
    end();
}

/* Credit one slice of transfer 0 each millisecond, `slices` times. */
static void drain(int slices)
{
    while (slices-- > 0) {
        run_once();
        advance(NS_PER_MS);
        credit(0, 1);
    }
}

/* The bytes of a transfer that is removed were not delivered: the bandwidth of the path
 * stays as it was, although nine tenths of the window return at once near the end of a
 * round, in many rounds. */
static void test_remove_is_no_sample(void **state)
{
    begin(100, 1000);
    add_urgent(0, 0, 10000, 10, 1000, urgent(0, 1));
    drain(100);
    uint64_t before = t.lanes[0].path.bytes_per_s;
    assert_in_range(before, 9000, 11000);
    for (int i = 0; i < 20; i++) {
        for (int k = 0; t.lanes[0].path.round_ns; k++) {
            drain(1);
            assert_in_range(k, 0, 20);
        }
        add_urgent(1, 0, 90, 10, 9, urgent(-1, 2));
        drain(9);
        assert_int_equal(t.transfers[1].next, 9);
        sched_remove(t.sched, &t.transfers[1]);
        drain(1);
    }
    assert_in_range(t.lanes[0].path.bytes_per_s, before / 2, before + before / 10);
    sched_remove(t.sched, &t.transfers[0]);
    end();
}

/* The first transfer lacked window; after its removal the smaller one behind it fits. */
static void test_remove_head(void **state)
{
    begin(25, 100);
    add(0, 0, 20, 20, 1);
    add(1, 0, 20, 20, 1);
    add(2, 0, 4, 4, 1);
    run("a");
    sched_remove(t.sched, &t.transfers[1]);
    run("c");
    credit(0, 1);
    credit(2, 1);
    end();
}

/* ---- urgency ----------------------------------------------------------------------- */

/* A more urgent transfer that is added later waits only for window. */
static void test_preempts(void **state)
{
    begin(20, 100);
    add_urgent(0, 0, 100, 10, 10, urgent(0, 1));
    run("aa");
    add_urgent(1, 0, 30, 10, 3, urgent(-1, 2));
    run("");
    credit(0, 1);
    run("b");
    credit(0, 1);
    credit(1, 1);
    run("bb");
    credit(1, 2);
    run("aa");
    sched_remove(t.sched, &t.transfers[0]);
    end();
}

/* A rail's window is freed slice by slice, and the most urgent transfer gets it. */
static void test_rail_order(void **state)
{
    begin(100, 20);
    add_urgent(0, 0, 40, 10, 4, urgent(0, 1));
    add_urgent(1, 2, 40, 10, 4, urgent(0, 2));
    run("aa");
    credit(0, 1);
    run("a");
    credit(0, 1);
    run("ab"); /* a lane that has nothing in flight */
    credit(0, 1);
    run("");
    credit(0, 1);
    run("b");
    credit(1, 2);
    run("bb");
    credit(1, 2);
    end();
}

/* A waiting transfer is raised; no call makes it less urgent. */
static void test_raise(void **state)
{
    begin(10, 100);
    add_urgent(0, 0, 30, 10, 3, urgent(0, 1));
    add_urgent(1, 0, 10, 10, 1, urgent(3, 2));
    add_urgent(2, 0, 10, 10, 1, background(0, 3));
    run("a");
    sched_raise(t.sched, &t.transfers[1], urgency_sort_key(URGENCY_TRAINING, -5));
    sched_raise(t.sched, &t.transfers[1], urgency_sort_key(URGENCY_TRAINING, 9));
    credit(0, 1);
    run("b");
    credit(1, 1);
    sched_raise(t.sched, &t.transfers[2], urgency_sort_key(URGENCY_TRAINING, -5));
    run("c");
    credit(2, 1);
    run("a");
    credit(0, 1);
    run("a");
    credit(0, 1);
    end();
}

/* Both classes have work for a long time, on a path that behaves as a FIFO link.
 * Background moves a sixteenth of the bytes for all slice sizes, on the same lane and on
 * another one. */
static void test_share(void **state)
{
    static const struct {
        uint64_t window, rail_window;
        int lane;
        uint32_t training, background;
    } table[] = {{60, 1000, 0, 10, 10}, {60, 1000, 0, 10, 60}, {60, 1000, 0, 60, 1},
                 {1000, 60, 0, 10, 10}, {1000, 60, 2, 10, 10}, {1000, 120, 2, 7, 60}};
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        char link[4096] = "";
        size_t first = 0;
        begin(table[i].window, table[i].rail_window);
        add_urgent(0, 0, 1000000, table[i].training, 100000, urgent(0, 1));
        add_urgent(1, table[i].lane, 1000000, table[i].background, 1000000,
                   background(0, 2));
        while (t.bytes_of[URGENCY_TRAINING] < 100000) {
            run_once();
            memmove(link, link + first, strlen(link + first) + 1);
            strcat(link, t.started);
            first = 1;
            credit(link[0] - 'a', 1);
        }
        uint64_t all = t.bytes_of[URGENCY_TRAINING] + t.bytes_of[URGENCY_BACKGROUND];
        assert_in_range(t.bytes_of[URGENCY_BACKGROUND] * BACKGROUND_SHARE * 100 / all, 90,
                        110);
        sched_remove(t.sched, &t.transfers[0]);
        sched_remove(t.sched, &t.transfers[1]);
        end();
    }
}

/* The background's first slice starts when training has started fifteen times its bytes
 * while the background waited, and so does each further one. */
static void test_share_first(void **state)
{
    begin(320, 1000);
    add_urgent(0, 0, 1000, 10, 100, urgent(0, 1));
    add_urgent(1, 0, 1000, 10, 100, background(0, 2));
    run("aaaaaaaaaaaaaaabaaaaaaaaaaaaaaab");
    sched_remove(t.sched, &t.transfers[0]);
    sched_remove(t.sched, &t.transfers[1]);
    end();
}

/* ---- what holds a transfer --------------------------------------------------------- */

static void test_held(void **state)
{
    begin(20, 30);
    add_urgent(0, 0, 100, 10, 10, urgent(0, 1));
    add_urgent(1, 0, 100, 10, 10, urgent(-1, 2));
    add_urgent(2, 0, 100, 10, 0, urgent(-2, 3));
    run("bb");
    expect_held(0, HOLD_BEHIND, 1);
    expect_held(1, HOLD_WINDOW, -1);
    expect_held(2, HOLD_UNPOSTED, -1);
    ready(2, 0);
    expect_held(2, HOLD_UNREADY, -1);
    ready(2, 10);
    add_urgent(3, 2, 100, 10, 10, urgent(0, 4)); /* on another lane of that rail */
    add_urgent(4, 4, 100, 10, 10, urgent(1, 5)); /* on a third lane of that rail */
    run("d");
    expect_held(3, HOLD_RAIL, -1);
    expect_held(4, HOLD_BEHIND, 3);
    sched_remove(t.sched, &t.transfers[1]);
    t.again = 9;
    run("");
    expect_held(0, HOLD_TRANSPORT, -1);
    t.again = 0;
    add_urgent(5, 0, 10, 10, 1, urgent(-9, 6));
    sched_run(t.sched);
    expect_held(5, HOLD_NONE, -1);
    for (int i = 0; i < 6; i++)
        if (i != 1)
            sched_remove(t.sched, &t.transfers[i]);
    end();
}

/* ---- stalled peers ----------------------------------------------------------------- */

/* A lane with nothing in flight starts a slice although its rail is full; only one lane
 * does. */
static void test_overdraw(void **state)
{
    begin(20, 20);
    add(0, 0, 50, 10, 5);
    run("aa");
    add(1, 2, 30, 10, 3);
    add(2, 4, 30, 10, 3);
    run("b");
    credit(1, 1);
    run("b"); /* the first added of the lanes that may */
    credit(1, 1);
    run("b");
    credit(1, 1);
    run("c");
    for (int i = 0; i < 3; i++)
        sched_remove(t.sched, &t.transfers[i]);
    end();
}

/* A lane that overdraws its rail stalls: another lane with nothing in flight may overdraw
 * the rail then. */
static void test_overdraw_stalled(void **state)
{
    begin(20, 20);
    add_urgent(0, 0, 50, 10, 5, urgent(0, 1));
    run("aa");
    add_urgent(1, 2, 30, 10, 3, urgent(0, 3));
    run("b");
    add_urgent(2, 4, 30, 10, 3, urgent(0, 2));
    run("");
    advance(SCHED_STALL_NS / 2);
    credit(0, 1);
    run("");
    advance(SCHED_STALL_NS / 2);
    assert_true(t.lanes[2].stalled && !t.lanes[0].stalled);
    run("ac");
    for (int i = 0; i < 3; i++)
        sched_remove(t.sched, &t.transfers[i]);
    end();
}

/* Two peers that do not poll hold all of a rail. A third starts one slice at a time, and
 * uses the whole rail once the two are stalled, at the time that next_ns returned. A
 * stalled lane counts again after its next credit. */
static void test_away(void **state)
{
    begin(20, 40);
    add(0, 0, 50, 10, 5);
    add(1, 2, 50, 10, 5);
    run("aabb");
    /* no transfer waits for these lanes */
    assert_int_equal(sched_next_ns(t.sched), 0);
    add(2, 4, 100, 10, 10);
    run("c");
    uint64_t at_ns = sched_next_ns(t.sched);
    assert_int_equal(at_ns, t.clock.now_ns + SCHED_STALL_NS);
    advance(SCHED_STALL_NS - 1);
    credit(2, 1);
    run("c");
    advance(1);
    assert_true(t.lanes[0].stalled && t.lanes[2].stalled && !t.lanes[4].stalled);
    run("c");
    assert_int_equal(sched_rail_bytes(t.sched, 0), 20);
    credit(0, 1);
    assert_false(t.lanes[0].stalled);
    assert_int_equal(sched_rail_bytes(t.sched, 0), 30);
    credit(2, 2);
    run("acc");
    for (int i = 0; i < 3; i++)
        sched_remove(t.sched, &t.transfers[i]);
    end();
}

/* A slow peer is not a stalled one: the limit follows the lane's srtt. After a long stall
 * the srtt grows only a little. */
static void test_slow(void **state)
{
    uint64_t srtt_ns = 50 * NS_PER_MS;
    begin(20, 20);
    add(0, 0, 1000, 10, 100);
    for (int i = 0; i < 8; i++) {
        sched_run(t.sched);
        advance(srtt_ns / 2);
        credit(0, 1);
    }
    sched_run(t.sched);
    uint64_t limit_ns = SCHED_STALL_SRTTS * t.lanes[0].srtt_ns;
    assert_in_range(limit_ns, 2 * srtt_ns, 4 * srtt_ns);
    add(1, 2, 1000, 10, 100);
    add(2, 4, 1000, 10, 100);
    sched_run(t.sched);
    assert_int_not_equal(t.lanes[0].path.round_ns, 0);
    uint64_t age_ns = t.clock.now_ns - t.lanes[0].path.round_ns;
    advance(limit_ns - age_ns - 1);
    assert_false(t.lanes[0].stalled);
    advance(1);
    assert_true(t.lanes[0].stalled);
    advance(10 * limit_ns);
    credit(0, 2);
    assert_true(SCHED_STALL_SRTTS * t.lanes[0].srtt_ns <= 2 * limit_ns);
    for (int i = 0; i < 3; i++)
        sched_remove(t.sched, &t.transfers[i]);
    end();
}

/* A receiver holds a rail: once with a slice larger than the rail's window, once with
 * slices of the usual size; it returns window a moment before its lane stalls, or a
 * moment after, which stretches its srtt. Beside it an honest pair moves at half of its
 * rate at least, counted in slices of 1 ms each. */
static uint64_t honest_slices(uint64_t slice_bytes, bool stalls)
{
    enum { MS = 4000 };
    uint64_t slices = 0;
    begin(40, 40);
    if (slice_bytes)
        add_urgent(0, 0, 100000, (uint32_t)slice_bytes, 100000 / (uint32_t)slice_bytes,
                   urgent(0, 1));
    add_urgent(1, 2, 10 * (uint64_t)MS * 4, 10, MS * 4, urgent(0, 2));
    for (int ms = 0; ms < MS; ms++) {
        sched_run(t.sched);
        advance(NS_PER_MS);
        uint64_t late_ns = SCHED_STALL_SRTTS * t.lanes[0].srtt_ns;
        late_ns = late_ns > SCHED_STALL_NS ? late_ns : SCHED_STALL_NS;
        late_ns = stalls ? late_ns + NS_PER_MS : late_ns - NS_PER_MS;
        bool due = t.clock.now_ns >= t.lanes[0].credited_ns + late_ns;
        if (t.transfers[0].next > t.transfers[0].upto && due)
            credit(0, 1);
        /* All bytes in flight arrive in 1 ms: the window is the rate. */
        uint32_t honest = t.transfers[1].next - t.transfers[1].upto;
        slices += honest;
        credit(1, (int)honest);
    }
    for (int i = slice_bytes == 0; i < 2; i++)
        sched_remove(t.sched, &t.transfers[i]);
    end();
    return slices;
}

static void test_withheld(void **state)
{
    static const uint64_t slice_bytes[] = {10, 20, 40, 400};
    uint64_t alone = honest_slices(0, false);
    for (size_t i = 0; i < 2 * COUNT_OF(slice_bytes); i++) {
        uint64_t beside = honest_slices(slice_bytes[i / 2], i % 2);
        print_message("slices of %d bytes, %s: %d of %d\n", (int)slice_bytes[i / 2],
                      i % 2 ? "stalls" : "late", (int)beside, (int)alone);
        assert_true(2 * beside >= alone);
    }
}

/* The srtt, and so the time for which a rail is held, is bounded; a slice during which
 * one of the ranks was outside of the library does not count. */
static void test_late(void **state)
{
    begin(20, 20);
    add(0, 0, 1000, 10, 100);
    for (int i = 0; i < 20; i++) {
        sched_run(t.sched);
        sched_pause(t.sched, &t.lanes[0]);
        advance(NS_PER_S);
        credit(0, (int)(t.transfers[0].next - t.transfers[0].upto));
    }
    assert_int_equal(t.lanes[0].srtt_ns, 0);
    for (int i = 0; i < 20; i++) {
        sched_run(t.sched);
        advance(10 * NS_PER_S);
        credit(0, (int)(t.transfers[0].next - t.transfers[0].upto));
    }
    assert_true(t.lanes[0].srtt_ns >= SCHED_STALL_MAX_NS / SCHED_STALL_SRTTS);
    sched_run(t.sched);
    add(1, 2, 30, 10, 3);
    add(2, 4, 30, 10, 3);
    run("b");
    advance(SCHED_STALL_MAX_NS - 1);
    assert_false(t.lanes[0].stalled);
    advance(1);
    assert_true(t.lanes[0].stalled);
    for (int i = 0; i < 3; i++)
        sched_remove(t.sched, &t.transfers[i]);
    end();
}

/* After as many slices in time as it was on probation for, a lane has the whole rail
 * again. */
static void test_probation(void **state)
{
    begin(40, 40);
    add_urgent(0, 0, 10000, 10, 1000, urgent(0, 1));
    add_urgent(1, 2, 10000, 10, 1000, urgent(0, 2));
    run("aaaab");
    advance(SCHED_STALL_NS / 2);
    credit(1, 1);
    run("b");
    advance(SCHED_STALL_NS / 2);
    assert_true(t.lanes[0].stalled && !t.lanes[2].stalled);
    credit(0, 4);
    for (int i = 0; i < SCHED_PROBATION_ROUNDS; i++) {
        assert_int_equal(t.lanes[0].probation, SCHED_PROBATION_ROUNDS - i);
        run("aab");
        advance(1);
        credit(0, 2);
        credit(1, 1);
    }
    run("aaa");
    for (int i = 0; i < 2; i++)
        sched_remove(t.sched, &t.transfers[i]);
    end();
}

/* ---- at random --------------------------------------------------------------------- */

/* Check the invariants after each step: sums are right, and windows are kept, except for
 * a single slice and for the lane that overdraws a rail. A lane that is no longer stalled
 * also overdraws its rail. */
static void check(uint64_t window, uint64_t rail_window, bool looks)
{
    uint64_t rails[RAILS] = {0};
    uint64_t most = rail_window > SLICE_MAX ? rail_window : SLICE_MAX;
    for (int lane = 0; lane < LANES; lane++) {
        uint64_t bytes = 0;
        uint64_t count = 0;
        for (int i = 0; i < TRANSFERS; i++) {
            const struct transfer *transfer = &t.transfers[i];
            if (transfer->lane != &t.lanes[lane])
                continue;
            for (uint32_t j = transfer->upto; j < transfer->next; j++, count++)
                bytes += transfer_slice_bytes(transfer, j);
        }
        assert_int_equal(t.lanes[lane].in_flight_bytes, bytes);
        assert_true(bytes <= window || count == 1);
        assert_true(t.lanes[lane].counted_bytes <= bytes);
        assert_true(t.lanes[lane].probation || t.lanes[lane].counted_bytes == bytes);
        rails[lane % RAILS] += t.lanes[lane].counted_bytes;
    }
    for (uint32_t i = 0; i < RAILS; i++) {
        assert_int_equal(sched_rail_bytes(t.sched, i), rails[i]);
        assert_true(looks || rails[i] <= most + SLICE_MAX);
    }
}

static void random_step(struct random *random)
{
    int which = (int)random_range(random, TRANSFERS);
    struct transfer *transfer = &t.transfers[which];
    if (!transfer->lane) {
        add_urgent(which, (int)random_range(random, LANES), 1 + random_range(random, 300),
                   1 + (uint32_t)random_range(random, SLICE_MAX), 0,
                   (struct urgency){urgency_sort_key(random_range(random, 4) == 0,
                                                     (int32_t)random_range(random, 3)),
                                    random_range(random, 2), t.number++});
        if (random_range(random, 2))
            ready(which, 0);
        return;
    }
    switch (random_range(random, 8)) {
    case 7:
        if (transfer->ready < transfer->slices)
            ready(which, transfer->ready + 1);
        break;
    case 6:
        sched_raise(t.sched, transfer,
                    urgency_sort_key(URGENCY_TRAINING, (int32_t)random_range(random, 3)));
        break;
    case 0:
    case 1:
        if (transfer->posted < transfer->slices)
            post(which, transfer->posted + 1);
        break;
    case 2:
    case 3:
        if (transfer->upto < transfer->next)
            credit(which, 1);
        if (transfer->upto == transfer->slices)
            /* the transfer is finished, and its slot is used again */
            transfer->lane = NULL;
        break;
    case 4:
        if (random_range(random, 8) == 0) {
            sched_remove(t.sched, transfer);
            transfer->lane = NULL;
        }
        break;
    default: t.again = (int)random_range(random, 2); break;
    }
}

/* Random steps keep the invariants, and every transfer has started all slices once all
 * are posted and credited. */
static void test_random(void **state)
{
    struct random random;
    random_seed(&random, unit_seed());
    for (int round = 0; round < 50; round++) {
        uint64_t window = 1 + random_range(&random, 200);
        uint64_t rail_window = 1 + random_range(&random, 300);
        bool looks = round % 2; /* true: time passes */
        begin(window, rail_window);
        for (int i = 0; i < 2000; i++) {
            random_step(&random);
            if (looks)
                advance(random_range(&random, 10 * NS_PER_MS));
            run_once();
            check(window, rail_window, looks);
        }
        t.again = 0;
        for (int i = 0; i < TRANSFERS; i++)
            if (t.transfers[i].lane)
                post(i, t.transfers[i].slices), ready(i, t.transfers[i].slices);
        for (int turn = 0; turn < 20000; turn++) {
            struct transfer *transfer = &t.transfers[turn % TRANSFERS];
            run_once();
            check(window, rail_window, looks);
            if (transfer->lane && transfer->upto < transfer->next)
                credit(turn % TRANSFERS, 1);
        }
        for (int i = 0; i < TRANSFERS; i++)
            if (t.transfers[i].lane)
                assert_int_equal(t.transfers[i].upto, t.transfers[i].slices);
        end();
    }
}

static tryst_status open_and_close(void)
{
    struct sched_params params = {NULL, NULL, 1, 1, bench_start};
    struct sched *sched;
    tryst_status status = sched_open(&params, &sched);
    if (status == TRYST_OK)
        sched_close(sched);
    return status;
}

static void test_no_memory(void **state)
{
    WALK_ALLOCATIONS(open_and_close());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decisions),    cmocka_unit_test(test_credit),
        cmocka_unit_test(test_posted_later), cmocka_unit_test(test_again),
        cmocka_unit_test(test_remove),       cmocka_unit_test(test_remove_head),
        cmocka_unit_test(test_preempts),     cmocka_unit_test(test_rail_order),
        cmocka_unit_test(test_raise),        cmocka_unit_test(test_share),
        cmocka_unit_test(test_overdraw),     cmocka_unit_test(test_away),
        cmocka_unit_test(test_slow),         cmocka_unit_test(test_random),
        cmocka_unit_test(test_no_memory),    cmocka_unit_test(test_held),
        cmocka_unit_test(test_ready_later),  cmocka_unit_test(test_turns),
        cmocka_unit_test(test_share_first),  cmocka_unit_test(test_overdraw_stalled),
        cmocka_unit_test(test_withheld),     cmocka_unit_test(test_late),
        cmocka_unit_test(test_probation),    cmocka_unit_test(test_remove_is_no_sample),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
