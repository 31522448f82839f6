/* SPDX-License-Identifier: Apache-2.0 */
/* The dispatch's policy, on plain structs and with a start function of the test's own. */
#include <string.h>

#include "commsched/sched/dispatch.h"
#include "core/alloc.h"
#include "core/random.h"
#include "support/fake_clock.h"
#include "support/unit.h"

enum { LANES = 5, RAILS = 2, TRANSFERS = 12, SLICE_MAX = 60 };

static struct {
    struct clock_fake clock;
    struct dispatch *dispatch;
    struct dispatch_lane lanes[LANES];
    struct transfer transfers[TRANSFERS];
    char started[256]; /* which transfer started a slice, 'a' the first; in order */
    int again;         /* so many starts answer AGAIN */
} t;

static tryst_status start(struct transfer *transfer)
{
    size_t n = strlen(t.started);
    if (t.again && t.again--)
        return TRYST_AGAIN;
    assert_true(transfer->next < transfer->posted);
    assert_true(transfer->next < transfer->slices);
    if (n < sizeof t.started - 1)
        t.started[n] = (char)('a' + (transfer - t.transfers));
    return TRYST_OK;
}

static void begin_as(uint64_t window, uint64_t rail_window, bool window_is_set)
{
    struct dispatch_params params = {&t.clock.clock, NULL,          window,
                                     rail_window,    window_is_set, start};
    memset(&t, 0, sizeof t);
    clock_fake_init(&t.clock, NS_PER_S);
    assert_int_equal(dispatch_open(&params, &t.dispatch), TRYST_OK);
    for (uint32_t i = 0; i < LANES; i++)
        dispatch_ops.lane_init(t.dispatch, &t.lanes[i]);
    for (uint32_t i = 0; i < LANES; i++)
        dispatch_ops.lane_ready(t.dispatch, &t.lanes[i], i % RAILS, 0);
}

static void begin(uint64_t window, uint64_t rail_window)
{
    begin_as(window, rail_window, false);
}

static void end(void)
{
    for (uint32_t i = 0; i < LANES; i++)
        assert_int_equal(t.lanes[i].in_flight_bytes, 0);
    for (uint32_t i = 0; i < RAILS; i++)
        assert_int_equal(dispatch_rail_bytes(t.dispatch, i), 0);
    dispatch_close(t.dispatch);
}

static void add(int which, int lane, uint64_t bytes, uint32_t slice_bytes,
                uint32_t posted)
{
    t.transfers[which] =
        (struct transfer){.lane = &t.lanes[lane],
                          .bytes = bytes,
                          .slice_bytes = slice_bytes,
                          .slices = (uint32_t)((bytes + slice_bytes - 1) / slice_bytes),
                          .posted = posted};
    dispatch_ops.add(t.dispatch, &t.transfers[which]);
}

static void run(const char *wanted)
{
    memset(t.started, 0, sizeof t.started);
    int count = dispatch_ops.run(t.dispatch);
    assert_string_equal(t.started, wanted);
    assert_int_equal(count, strlen(wanted));
}

/* The receiver has `slices` more. */
static void credit(int which, int slices)
{
    struct transfer *transfer = &t.transfers[which];
    while (slices-- > 0)
        dispatch_ops.credit(t.dispatch, transfer,
                            transfer_slice_bytes(transfer, transfer->upto++));
}

/* Time passes, and the dispatch looks. */
static void advance(uint64_t ns)
{
    clock_fake_advance(&t.clock, ns);
    dispatch_ops.look(t.dispatch, t.clock.now_ns);
}

static void post(int which, uint32_t posted)
{
    t.transfers[which].posted = posted;
    dispatch_ops.posted(t.dispatch, &t.transfers[which]);
}

/* ---- decisions, one table ----------------------------------------------------------------- */

struct row {
    const char *name;
    uint64_t window, rail_window;
    struct {
        int lane;
        uint64_t bytes;
        uint32_t slice_bytes, posted;
    } transfers[4];
    const char *started;
};

static const struct row rows[] = {
    {"one slice", 100, 100, {{0, 50, 50, 1}}, "a"},
    {"nothing posted", 100, 100, {{0, 50, 50, 0}}, ""},
    {"as many as are posted", 100, 100, {{0, 50, 10, 3}}, "aaa"},
    {"as many as the window holds", 25, 100, {{0, 50, 10, 5}}, "aa"},
    {"a window's worth exactly", 30, 100, {{0, 50, 10, 5}}, "aaa"},
    {"a lone slice beyond the window", 25, 100, {{0, 80, 40, 2}}, "a"},
    {"a lone slice beyond the rail's window", 1000, 25, {{0, 80, 40, 2}}, "a"},
    {"oldest first", 100, 100, {{0, 20, 10, 2}, {0, 20, 10, 2}}, "aabb"},
    {"what is not posted is passed over",
     100,
     100,
     {{0, 20, 10, 0}, {0, 20, 10, 1}, {0, 20, 10, 2}},
     "bcc"},
    {"what lacks window is not passed over",
     25,
     100,
     {{0, 20, 20, 1}, {0, 20, 20, 1}, {0, 4, 4, 1}},
     "a"},
    {"lanes take turns", 100, 100, {{0, 30, 10, 3}, {1, 30, 10, 3}}, "ababab"},
    {"a lane's window is its own", 20, 100, {{0, 30, 10, 3}, {1, 30, 10, 3}}, "abab"},
    {"the rail's window is shared", 100, 30, {{0, 30, 10, 3}, {2, 30, 10, 3}}, "aba"},
    {"other rails are not held up",
     100,
     20,
     {{0, 30, 10, 3}, {2, 30, 10, 3}, {1, 30, 10, 3}},
     "abcc"},
    {"a short last slice", 25, 100, {{0, 25, 10, 3}}, "aaa"},
};

static void test_decisions(void **state)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *row = &rows[i];
        begin(row->window, row->rail_window);
        for (int j = 0; j < 4 && row->transfers[j].bytes; j++)
            add(j, row->transfers[j].lane, row->transfers[j].bytes,
                row->transfers[j].slice_bytes, row->transfers[j].posted);
        dispatch_ops.run(t.dispatch);
        if (strcmp(t.started, row->started) != 0)
            fail_msg("%s: started \"%s\", not \"%s\"", row->name, t.started,
                     row->started);
        for (int j = 0; j < 4 && row->transfers[j].bytes; j++)
            dispatch_ops.remove(t.dispatch, &t.transfers[j]);
        end();
    }
}

/* ---- over time ---------------------------------------------------------------------------- */

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
    run("abb"); /* the older one first again */
    credit(0, 3);
    credit(1, 3);
    end();
}

/* A transport without room is asked again in the next run, and only then. */
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

/* Removing gives back at once what is in flight, and lets those behind go. */
static void test_remove(void **state)
{
    begin(20, 100);
    add(0, 0, 50, 10, 5);
    add(1, 0, 10, 10, 1);
    add(2, 1, 10, 10, 1);
    run("aca"); /* lanes in turn */
    credit(0, 1);
    dispatch_ops.remove(t.dispatch, &t.transfers[0]);
    assert_int_equal(t.lanes[0].in_flight_bytes, 0);
    run("b");
    dispatch_ops.remove(t.dispatch, &t.transfers[1]); /* all of it under way */
    credit(2, 1);
    end();
}

/* The head lacked window; without it the smaller one behind it fits. */
static void test_remove_head(void **state)
{
    begin(25, 100);
    add(0, 0, 20, 20, 1);
    add(1, 0, 20, 20, 1);
    add(2, 0, 4, 4, 1);
    run("a");
    dispatch_ops.remove(t.dispatch, &t.transfers[1]);
    run("c");
    credit(0, 1);
    credit(2, 1);
    end();
}

/* A rail's wish counts where it is for more, and where the user has not said what he wants. */
static void test_rail_asks(void **state)
{
    static const struct {
        uint64_t window, asked;
        bool is_set;
        const char *started;
    } table[] = {{25, 40, false, "aaaa"},
                 {25, 40, true, "aa"},
                 {25, 15, false, "aa"},
                 {25, 0, false, "aa"}};
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        begin_as(table[i].window, 1000, table[i].is_set);
        dispatch_ops.lane_ready(t.dispatch, &t.lanes[0], 0, table[i].asked);
        add(0, 0, 50, 10, 5);
        run(table[i].started);
        dispatch_ops.remove(t.dispatch, &t.transfers[0]);
        end();
    }
}

/* Window comes back slice by slice, and goes to each lane in turn. */
static void test_turns(void **state)
{
    begin(100, 20);
    add(0, 0, 100, 10, 10);
    add(1, 2, 100, 10, 10);
    run("ab");
    for (int i = 0; i < 4; i++) {
        credit(i % 2, 1);
        run(i % 2 ? "b" : "a");
    }
    dispatch_ops.remove(t.dispatch, &t.transfers[0]);
    dispatch_ops.remove(t.dispatch, &t.transfers[1]);
    end();
}

/* ---- peers that do not look --------------------------------------------------------------- */

/* A lane with nothing in flight starts a slice though its rail is full; one lane does. */
static void test_overdraw(void **state)
{
    begin(20, 20);
    add(0, 0, 50, 10, 5);
    run("aa");
    add(1, 2, 30, 10, 3);
    add(2, 4, 30, 10, 3);
    run("b");
    credit(1, 1);
    run("c"); /* who has waited longest */
    credit(2, 1);
    run("b");
    for (int i = 0; i < 3; i++)
        dispatch_ops.remove(t.dispatch, &t.transfers[i]);
    end();
}

/* Two peers hold all of a rail and do not look. A third has its turns, one slice at a time; and all
 * of the rail when they have been away for long enough, as the dispatch says itself. Those who come
 * back count again. */
static void test_away(void **state)
{
    begin(20, 40);
    add(0, 0, 50, 10, 5);
    add(1, 2, 50, 10, 5);
    run("abab");
    assert_int_equal(dispatch_ops.next_ns(t.dispatch), 0); /* nobody waits for them */
    add(2, 4, 100, 10, 10);
    run("c");
    uint64_t at_ns = dispatch_ops.next_ns(t.dispatch);
    assert_int_equal(at_ns, t.clock.now_ns + DISPATCH_AWAY_NS);
    advance(DISPATCH_AWAY_NS - 1);
    credit(2, 1);
    run("c");
    advance(1);
    assert_true(t.lanes[0].away && t.lanes[2].away && !t.lanes[4].away);
    run("c");
    assert_int_equal(dispatch_rail_bytes(t.dispatch, 0), 20);
    credit(0, 1);
    assert_false(t.lanes[0].away);
    assert_int_equal(dispatch_rail_bytes(t.dispatch, 0), 30);
    credit(2, 2);
    run("acc");
    for (int i = 0; i < 3; i++)
        dispatch_ops.remove(t.dispatch, &t.transfers[i]);
    end();
}

/* Slow is not away: what counts is how long a slice takes on that lane. A peer that was away for long
 * does not pass for one that is as slow. */
static void test_slow(void **state)
{
    const uint64_t turn_ns = 50 * NS_PER_MS;
    begin(20, 20);
    add(0, 0, 1000, 10, 100);
    for (int i = 0; i < 8; i++) {
        dispatch_ops.run(t.dispatch);
        advance(turn_ns / 2);
        credit(0, 1);
    }
    dispatch_ops.run(t.dispatch);
    uint64_t limit_ns = DISPATCH_AWAY_TURNS * t.lanes[0].turn_ns;
    assert_in_range(limit_ns, 2 * turn_ns, 4 * turn_ns);
    add(1, 2, 1000, 10, 100);
    add(2, 4, 1000, 10, 100);
    dispatch_ops.run(t.dispatch);
    advance(limit_ns - 1);
    assert_false(t.lanes[0].away);
    advance(1);
    assert_true(t.lanes[0].away);
    advance(10 * limit_ns);
    credit(0, 2);
    assert_true(DISPATCH_AWAY_TURNS * t.lanes[0].turn_ns <= 2 * limit_ns);
    for (int i = 0; i < 3; i++)
        dispatch_ops.remove(t.dispatch, &t.transfers[i]);
    end();
}

/* ---- at random ---------------------------------------------------------------------------- */

/* What must hold after every step: sums are right, windows are kept but for a lone slice, and for the
 * one that overdraws a rail; who comes back overdraws it too. */
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
        rails[lane % RAILS] += t.lanes[lane].away ? 0 : bytes;
    }
    for (uint32_t i = 0; i < RAILS; i++) {
        assert_int_equal(dispatch_rail_bytes(t.dispatch, i), rails[i]);
        assert_true(looks || rails[i] <= most + SLICE_MAX);
    }
}

static void random_step(struct random *random)
{
    int which = (int)random_range(random, TRANSFERS);
    struct transfer *transfer = &t.transfers[which];
    if (!transfer->lane) {
        add(which, (int)random_range(random, LANES), 1 + random_range(random, 300),
            1 + (uint32_t)random_range(random, SLICE_MAX), 0);
        return;
    }
    switch (random_range(random, 6)) {
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
            transfer->lane = NULL; /* through; the slot is used again */
        break;
    case 4:
        if (random_range(random, 8) == 0) {
            dispatch_ops.remove(t.dispatch, transfer);
            transfer->lane = NULL;
        }
        break;
    default: t.again = (int)random_range(random, 2); break;
    }
}

/* Whatever happens, and when all that is posted and credited has been, everything has started. */
static void test_random(void **state)
{
    struct random random;
    random_seed(&random, unit_seed());
    for (int round = 0; round < 50; round++) {
        uint64_t window = 1 + random_range(&random, 200);
        uint64_t rail_window = 1 + random_range(&random, 300);
        bool looks = round % 2; /* time passes */
        begin(window, rail_window);
        for (int i = 0; i < 2000; i++) {
            random_step(&random);
            if (looks)
                advance(random_range(&random, 10 * NS_PER_MS));
            dispatch_ops.run(t.dispatch);
            check(window, rail_window, looks);
        }
        t.again = 0;
        for (int i = 0; i < TRANSFERS; i++)
            if (t.transfers[i].lane)
                post(i, t.transfers[i].slices);
        for (int turn = 0; turn < 20000; turn++) {
            struct transfer *transfer = &t.transfers[turn % TRANSFERS];
            dispatch_ops.run(t.dispatch);
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
    struct dispatch_params params = {NULL, NULL, 1, 1, false, start};
    struct dispatch *dispatch;
    tryst_status status = dispatch_open(&params, &dispatch);
    if (status == TRYST_OK)
        dispatch_close(dispatch);
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
        cmocka_unit_test(test_rail_asks),    cmocka_unit_test(test_turns),
        cmocka_unit_test(test_overdraw),     cmocka_unit_test(test_away),
        cmocka_unit_test(test_slow),         cmocka_unit_test(test_random),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
