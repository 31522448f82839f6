/* SPDX-License-Identifier: Apache-2.0 */
/* Default priorities of two ranks: drafts, their maximum, and when the table is in
 * force. */
#include "support/unit.h"

#include <string.h>

#include "commsched/profile/priorities.h"
#include "commsched/profile/recorder.h"
#include "core/memory/alloc.h"
#include "core/os/clock.h"
#include "tryst/status.h"

enum { RANKS = 2 };
static uint64_t now_ns[RANKS];

static uint64_t fake_now_ns(void *arg)
{
    return *(uint64_t *)arg;
}
static const struct clock clocks[RANKS] = {{fake_now_ns, &now_ns[0]},
                                           {fake_now_ns, &now_ns[1]}};

static struct recorder *recorders[RANKS];
static struct priorities *priorities[RANKS];
static uint64_t step;

static struct recorder_submitted submit(int rank, const char *name)
{
    return recorder_submit(
        recorders[rank],
        &(struct recorder_submission){
            .name = recorder_name(recorders[rank], name), .step = step, .bytes = 1});
}

/* The operations of a step, the one that is used first at first. The rank computes
 * `ms` after each use. */
struct script {
    const char *const *names;
    unsigned ms[RANKS][4];
    int count;
};

static void run(int rank, const struct script *script)
{
    uint64_t ops[4];
    for (int i = script->count; i-- > 0;)
        ops[i] = submit(rank, script->names[i]).op;
    for (int i = 0; i < script->count; i++) {
        recorder_use(recorders[rank], ops[i], false);
        now_ns[rank] += script->ms[rank][i] * NS_PER_MS;
    }
}

/* Run a step on both ranks. */
static void both(const struct script *script)
{
    step++;
    run(0, script);
    run(1, script);
}

static int setup(void **state)
{
    (void)state;
    step = 0;
    for (int r = 0; r < RANKS; r++) {
        now_ns[r] = NS_PER_S;
        recorders[r] = recorder_open(&clocks[r]);
        priorities[r] = priorities_open();
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int r = 0; r < RANKS; r++) {
        recorder_close(recorders[r]);
        priorities_close(priorities[r]);
    }
    return 0;
}

/* Draft operations with this suffix on both ranks in step `period`, and hand the maximum
 * over. */
static void gather_of(const char *suffix, uint64_t period)
{
    struct draft *drafts[RANKS];
    uint64_t *vectors[RANKS];
    size_t counts[RANKS];
    for (int r = 0; r < RANKS; r++) {
        drafts[r] = draft_open(recorders[r], suffix, period);
        assert_non_null(drafts[r]);
        vectors[r] = draft_vector(drafts[r], &counts[r]);
    }
    /* a difference is TRYST_E_MISMATCH in the all-reduce */
    size_t count = counts[0] < counts[1] ? counts[0] : counts[1];
    for (size_t i = 0; i < count; i++)
        vectors[0][i] = vectors[1][i] =
            vectors[0][i] > vectors[1][i] ? vectors[0][i] : vectors[1][i];
    for (int r = 0; r < RANKS; r++)
        priorities_arrive(priorities[r], drafts[r]);
}

static void gather(uint64_t period)
{
    gather_of("", period);
}

static void begin(uint64_t period, const char *why)
{
    for (int r = 0; r < RANKS; r++) {
        const char *got = priorities_begin(priorities[r], recorders[r], period);
        if (!why)
            assert_null(got);
        else
            assert_non_null(strstr(got, why));
    }
}

enum { NONE = -1 };

/* Check that an operation has the priority of so many milliseconds of computation on both
 * ranks, and `more`; NONE: it has none. */
static void wanted_more(const char *name, uint32_t use, int left_ms, int32_t more)
{
    int32_t priority = left_ms == NONE ? -1 : PRIORITY_LEAST - left_ms * 1000 + more;
    for (int r = 0; r < RANKS; r++) {
        int32_t got = -1;
        bool found =
            priorities_get(priorities[r], recorder_name(recorders[r], name), use, &got);
        assert_int_equal(found, priority >= 0);
        assert_int_equal(got, priority);
    }
}

static void wanted(const char *name, uint32_t use, int left_ms)
{
    wanted_more(name, use, left_ms, 0);
}

static const char *const abc[] = {"a", "b", "a", "c"};
static const struct script steps = {abc, {{1, 1, 1, 1}, {1, 1, 1, 1}}, 4};

/* Drafted of period 1 in period 2, in force in period 3. The second submission of "a" is
 * used first. */
static void in_turn(void **state)
{
    (void)state;
    both(&steps);
    wanted("a", 1, NONE);
    both(&steps);
    gather(2);
    begin(2, NULL);
    wanted("a", 1, NONE);
    both(&steps);
    begin(3, NULL);
    wanted("a", 2, 4);
    wanted("b", 1, 3);
    wanted("a", 1, 2);
    wanted("c", 1, 1);
    wanted("a", 3, NONE);
    wanted("other", 1, NONE);
    priorities_reset(priorities[0]);
    priorities_reset(priorities[1]);
    wanted("a", 1, NONE);
}

/* The maximum over ranks counts: rank 1 computes long after "c". Ties go by name. */
static void maximum(void **state)
{
    static const char *const names[] = {"d", "c", "b"};
    static const struct script script = {names, {{0, 0, 0}, {0, 9, 0}}, 3};
    (void)state;
    both(&script);
    both(&script);
    gather(2);
    both(&script);
    begin(3, NULL);
    wanted("c", 1, 9); /* 9 ms are left after "c" and "d" */
    wanted_more("d", 1, 9, 1);
    wanted("b", 1, 0);
}

static void different_steps(void **state)
{
    static const char *const names[] = {"a", "b", "x"};
    static const struct script other = {names, {{1, 1, 1}, {1, 1, 1}}, 3};
    (void)state;
    both(&steps);
    both(&other);
    gather(2);
    begin(2, NULL);
    both(&steps);
    begin(3, "last two steps");
    wanted("a", 1, NONE);
}

/* Names of one rank differ; or its period was not whole. */
static void different_ranks(void **state)
{
    static const char *const names[] = {"a", "b", "a", "x"};
    static const struct script other = {names, {{1, 1, 1, 1}, {1, 1, 1, 1}}, 4};
    (void)state;
    for (int i = 0; i < 2; i++) {
        step++;
        run(0, &steps);
        run(1, &other);
    }
    gather(2);
    begin(2, "ranks");
    wanted("a", 1, NONE);
}

static void not_whole(void **state)
{
    (void)state;
    both(&steps);
    for (uint32_t i = 0; i < 40000; i++)
        submit(1, "many");
    both(&steps);
    gather(2);
    begin(2, "recorded whole");
    wanted("a", 1, NONE);
}

/* Drafts of the group and of a subgroup differ; their priorities compare. */
static void subgroups(void **state)
{
    static const char *const names[] = {"a;subgroup 1.2", "b", "a;subgroup 1.3"};
    static const struct script script = {names, {{1, 1, 1}, {1, 1, 1}}, 3};
    (void)state;
    both(&script);
    both(&script);
    gather(2);
    both(&script);
    begin(3, NULL);
    wanted("b", 1, 2);
    wanted("a;subgroup 1.2", 1, NONE);
    gather_of(";subgroup 1.2", 3);
    begin(4, NULL);
    wanted("a;subgroup 1.2", 1, 3);
    wanted("a;subgroup 1.3", 1, NONE);
    wanted("b", 1, NONE); /* this table is the newest one of its owner */
}

static uint64_t counted(uint64_t begins, uint64_t number)
{
    return priorities_count(priorities[0],
                            (struct recorder_period){.begins = begins, .step = number});
}

/* A period begins with the first operation in one that is newer than all before. Places
 * count anew when the program begins periods. */
static void count(void **state)
{
    (void)state;
    assert_int_equal(counted(0, 7), 1);
    assert_int_equal(counted(0, 7), 0);
    assert_int_equal(counted(0, UINT64_MAX - 1), 2);
    assert_int_equal(counted(0, 8), 0);
    assert_true(counted(2, 0) == PRIORITIES_AGAIN + 1);
    assert_int_equal(counted(2, 0), 0);
    assert_int_equal(counted(1, 0), 0);
    assert_int_equal(counted(0, UINT64_MAX - 1), 0);
    assert_true(counted(9, 0) == PRIORITIES_AGAIN + 2);
    priorities_reset(priorities[0]);
    assert_true(counted(1, 0) == PRIORITIES_AGAIN + 1);
    priorities_reset(priorities[0]);
    assert_int_equal(counted(0, 3), 1);
}

/* The program begins periods when a draft of its steps is under way: the table comes into
 * force with the next period, on all ranks. */
static void begun_meanwhile(void **state)
{
    (void)state;
    both(&steps);
    both(&steps);
    gather(2);
    for (int r = 0; r < RANKS; r++)
        recorder_period_begin(recorders[r]);
    both(&steps);
    begin(PRIORITIES_AGAIN + 1, NULL);
    wanted("a", 2, 4);
    both(&steps); /* in the same period: no call came */
    for (int r = 0; r < RANKS; r++)
        recorder_period_begin(recorders[r]);
    both(&steps);
    gather(PRIORITIES_AGAIN + 2);
    begin(PRIORITIES_AGAIN + 2, NULL);
    wanted("a", 4, NONE); /* four uses of the name, in force one period later */
    begin(PRIORITIES_AGAIN + 3, "last two steps");
}

/* Drafts that meet none are few. */
static void drafts_wait(void **state)
{
    (void)state;
    for (int i = 0; i < PRIORITIES_DRAFTS_MAX; i++)
        assert_true(priorities_draft_begin(priorities[0]));
    assert_false(priorities_draft_begin(priorities[0]));
    assert_true(priorities_draft_begin(priorities[1]));
    priorities_draft_end(priorities[0]);
    assert_true(priorities_draft_begin(priorities[0]));
    assert_false(priorities_draft_begin(priorities[0]));
}

/* Times above 18 minutes are one; the order by name goes on. */
static void longest(void **state)
{
    static const char *const names[] = {"c", "b", "a"};
    static const struct script script = {names, {{0, 0, 4000000}, {0, 0, 4000000}}, 3};
    int32_t got;
    (void)state;
    both(&script);
    both(&script);
    gather(2);
    both(&script);
    begin(3, NULL);
    for (int i = 0; i < 3; i++) {
        const char name[2] = {(char)('a' + i), 0};
        assert_true(
            priorities_get(priorities[0], recorder_name(recorders[0], name), 1, &got));
        assert_int_equal(got, i);
    }
}

/* Each allocation fails once: without the memory there is no table, and nothing else. */
static void allocations(void **state)
{
    bool came_to_pass = true;
    (void)state;
    both(&steps);
    both(&steps);
    both(&steps);
    uint64_t before = alloc_live_count();
    for (uint64_t nth = 1; came_to_pass; nth++) {
        alloc_fail_at(nth);
        struct draft *draft = draft_open(recorders[0], "", 2);
        if (draft)
            priorities_arrive(priorities[0], draft);
        const char *why = priorities_begin(priorities[0], recorders[0], 3);
        came_to_pass = alloc_fail_off();
        int32_t priority;
        bool found =
            priorities_get(priorities[0], recorder_name(recorders[0], "a"), 1, &priority);
        if (!came_to_pass || (draft && !why && found))
            assert_true(found && priority == PRIORITY_LEAST - 2000);
        else
            assert_true(!draft || why);
        priorities_reset(priorities[0]);
        assert_int_equal(alloc_live_count(), before);
    }
}

int main(void)
{
#define PRIORITY_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        PRIORITY_TEST(in_turn),         PRIORITY_TEST(maximum),
        PRIORITY_TEST(different_steps), PRIORITY_TEST(different_ranks),
        PRIORITY_TEST(not_whole),       PRIORITY_TEST(subgroups),
        PRIORITY_TEST(allocations),     PRIORITY_TEST(count),
        PRIORITY_TEST(longest),         PRIORITY_TEST(begun_meanwhile),
        PRIORITY_TEST(drafts_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
