/* SPDX-License-Identifier: Apache-2.0 */
/* The recorder of steps on a fake clock: graphs, durations, the choice of a period, and
 * bounds. */
#include "support/unit.h"

#include <pthread.h>
#include <string.h>

#include "commsched/profile/profile.h"
#include "commsched/profile/recorder.h"
#include "core/memory/alloc.h"
#include "core/os/ticks.h"
#include "profile_check.h"
#include "tryst/profile.h"
#include "tryst/tryst.h"

static uint64_t now_ns;

static uint64_t fake_now_ns(void *arg)
{
    (void)arg;
    return now_ns;
}
static const struct clock fake = {.now_ns = fake_now_ns};

static struct recorder *recorder;
static uint64_t step;

static void compute(unsigned ms)
{
    now_ns += ms * NS_PER_MS;
}

static struct recorder_submitted submitted(const char *name, uint64_t bytes)
{
    return recorder_submit(
        recorder, &(struct recorder_submission){.name = recorder_name(recorder, name),
                                                .step = step,
                                                .bytes = bytes});
}

static uint64_t submit(const char *name, uint64_t bytes)
{
    return submitted(name, bytes).op;
}

/* Wait for an operation, which ends after `ms`. */
static void await(uint64_t op, unsigned ms)
{
    recorder_wait_begin(recorder);
    compute(ms);
    recorder_done(recorder, op, 0, now_ns);
    recorder_wait_end(recorder);
    recorder_use(recorder, op, false);
}

static int setup(void **state)
{
    (void)state;
    now_ns = NS_PER_S;
    step = 0;
    recorder = recorder_open(&fake);
    return recorder ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    recorder_close(recorder);
    return 0;
}

static tryst_profile *recorded(void)
{
    struct err err = ERR_INIT;
    tryst_profile *profile;
    if (recorder_profile(recorder, &err, &profile) != TRYST_OK)
        fail_msg("%s", err.text);
    return profile;
}

static void refused(const char *reason)
{
    struct err err = ERR_INIT;
    tryst_profile *profile = NULL;
    assert_int_equal(recorder_profile(recorder, &err, &profile), TRYST_E_INVALID);
    if (!strstr(err.text, reason))
        fail_msg("\"%s\" has no \"%s\"", err.text, reason);
}

/* Return the longest path of computation; a node comes after those before it. */
static double period(tryst_profile *profile)
{
    double ends_s[64] = {0}, last_s = 0;
    assert_true(tryst_profile_nodes(profile) <= COUNT_OF(ends_s));
    for (uint32_t i = 0; i < tryst_profile_nodes(profile); i++) {
        tryst_profile_node node = {.struct_size = sizeof node};
        assert_int_equal(tryst_profile_node_get(profile, i, &node), TRYST_OK);
        for (uint32_t a = 0; a < node.after_count; a++)
            ends_s[i] = fmax(ends_s[i], ends_s[node.after[a]]);
        ends_s[i] += node.seconds;
        last_s = fmax(last_s, ends_s[i]);
    }
    return last_s;
}

/* A step of data-parallel training with two layers: backward of layer 0, forward of layer
 * 0 and 1, backward of layer 1, which begins the next step. */
static void layers(unsigned extra_ms)
{
    uint64_t g1 = submit("gradient 1", 4000);
    compute(10);
    uint64_t g0 = submit("gradient 0", 8000);
    await(g0, 5);
    compute(6);
    await(g1, 3);
    compute(7);
    compute(20 + extra_ms);
}

static void train(unsigned extra_ms)
{
    step++;
    layers(extra_ms);
}

/* Check the graph of train(0). */
static void layers_check(tryst_profile *profile)
{
    assert_int_equal(tryst_profile_nodes(profile), 5);
    check(profile, 0, "gradient 1", 4000, "");
    check(profile, 1, "thread 0;action 0", 0.010, "");
    check(profile, 2, "gradient 0", 8000, "thread 0;action 0");
    check(profile, 3, "thread 0;action 1", 0.006, "thread 0;action 0,gradient 0");
    check(profile, 4, "thread 0;action 2", 0.027, "thread 0;action 1,gradient 1");
    near(period(profile), 0.043);
    tryst_profile_node node = {.struct_size = sizeof node};
    assert_int_equal(tryst_profile_node_get(profile, 2, &node), TRYST_OK);
    near(node.ready_s, 0.010);
    near(node.first_slice_s, 0.015);
    near(node.done_s, 0.015);
    near(node.first_use_s, 0.015);
    assert_true(node.matched_s < 0);
    assert_int_equal(tryst_profile_node_get(profile, 0, &node), TRYST_OK);
    near(node.first_use_s, 0.024);
}

static void data_parallel(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        train(0);
    tryst_profile *profile = recorded();
    layers_check(profile);
    tryst_profile_close(profile);
}

/* What is written loads back. */
static void text(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    for (int i = 0; i < 3; i++)
        train(0);
    tryst_profile *profile = recorded(), *loaded;
    char *written = profile_text(profile);
    if (profile_read(written, &err, &loaded) != TRYST_OK)
        fail_msg("%s", err.text);
    char *again = profile_text(loaded);
    assert_string_equal(written, again);
    mem_free(written);
    mem_free(again);
    tryst_profile_close(loaded);
    tryst_profile_close(profile);
}

/* Steps of 43, 47, 45 ms follow one of 343: the median of the last three counts. */
static void median(void **state)
{
    (void)state;
    train(300);
    train(0);
    train(4);
    train(2);
    train(0);
    tryst_profile *profile = recorded();
    near(period(profile), 0.045);
    tryst_profile_close(profile);
}

/* A step with other operations, for instance an evaluation, does not count. */
static void other_step(void **state)
{
    (void)state;
    train(0);
    train(5);
    train(0);
    step++;
    await(submit("metric", 8), 1);
    train(0);
    tryst_profile *profile = recorded();
    assert_int_equal(tryst_profile_nodes(profile), 5);
    near(period(profile), 0.043);
    tryst_profile_close(profile);
}

/* Equal names are numbered. Operations that are submitted together come after one action.
 * An operation that is submitted after a use comes after that use. */
static void names_and_uses(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        step++;
        uint64_t a = submit("a", 1), b = submit("a", 2);
        compute(1);
        submit("a", 3);
        await(a, 0);
        await(b, 0);
        submit("last", 4);
        compute(2);
    }
    tryst_profile *profile = recorded();
    assert_int_equal(tryst_profile_nodes(profile), 7);
    check(profile, 0, "a", 1, "");
    check(profile, 1, "a;2", 2, "");
    check(profile, 2, "thread 0;action 0", 0.001, "");
    check(profile, 3, "a;3", 3, "thread 0;action 0");
    check(profile, 4, "thread 0;action 1", 0, "thread 0;action 0,a;2,a");
    check(profile, 5, "last", 4, "thread 0;action 1");
    check(profile, 6, "thread 0;action 2", 0.002, "thread 0;action 1");
    tryst_profile_close(profile);
}

/* An action ends where the computation gets another name; the name at the begin of a
 * period is that of before. */
static void named(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        step++;
        uint64_t gradient = submit("gradient", 4000);
        compute(4);
        recorder_action(recorder, "backward"); /* it has this name already */
        compute(3);
        recorder_action(recorder, "forward");
        compute(5);
        await(gradient, 2);
        now_ns += 1000; /* too short for an action */
        recorder_action(recorder, "gradient");
        compute(6);
        recorder_action(recorder, NULL);
        compute(7);
        recorder_action(recorder, "backward");
        compute(8);
    }
    tryst_profile *profile = recorded();
    assert_int_equal(tryst_profile_nodes(profile), 6);
    check(profile, 0, "gradient", 4000, "");
    check(profile, 1, "thread 0;backward", 0.007, "");
    check(profile, 2, "thread 0;forward", 0.005, "thread 0;backward");
    check(profile, 3, "thread 0;gradient", 0.006001, "thread 0;forward,gradient");
    check(profile, 4, "thread 0;action 3", 0.007, "thread 0;gradient");
    check(profile, 5, "thread 0;backward;2", 0.008, "thread 0;action 3");
    tryst_profile_close(profile);
}

static void *callback_thread(void *arg)
{
    recorder_use(recorder, *(uint64_t *)arg, true);
    return NULL;
}

/* A callback uses its operation, on behalf of the thread that submitted it, and may
 * submit others. A wait for the close of the step uses the rest. */
static void callbacks(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        step++;
        uint64_t first = submit("first", 1);
        compute(1);
        recorder_wait_begin(recorder);
        compute(9);
        assert_int_equal(pthread_create(&thread, NULL, callback_thread, &first), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        recorder_submit(recorder, &(struct recorder_submission){
                                      .name = recorder_name(recorder, "chained"),
                                      .step = step,
                                      .bytes = 2,
                                      .by_callback = true,
                                      .cause = first});
        recorder_wait_end(recorder);
        compute(2);
        submit("alone", 3);
        recorder_use_step(recorder, step, false);
        compute(4);
    }
    tryst_profile *profile = recorded();
    assert_int_equal(tryst_profile_nodes(profile), 6);
    check(profile, 0, "first", 1, "");
    check(profile, 1, "thread 0;action 0", 0.001, "");
    check(profile, 2, "chained", 2, "first");
    check(profile, 3, "thread 0;action 1", 0.002, "thread 0;action 0,first");
    check(profile, 4, "alone", 3, "thread 0;action 1");
    tryst_profile_node node = {.struct_size = sizeof node};
    assert_int_equal(tryst_profile_node_get(profile, 5, &node), TRYST_OK);
    near(node.seconds, 0.004);
    assert_int_equal(node.after_count, 3); /* action 1, "alone" and "chained" */
    tryst_profile_close(profile);
}

/* A callback takes note of the end, and the thread waits later: the wait is the use. A
 * second wait, and one in the next period, change nothing that is recorded. */
static void callback_before_wait(void **state)
{
    uint64_t early = 0;
    (void)state;
    for (int i = 0; i < 3; i++) {
        step++;
        uint64_t first = submit("first", 1);
        if (early)
            recorder_use(recorder, early, false);
        compute(1);
        recorder_use(recorder, first, true);
        compute(2);
        early = submit("early", 1);
        recorder_use(recorder, early, true);
        compute(4);
        recorder_use(recorder, first, false);
        recorder_use(recorder, first, true);
        compute(8);
        recorder_use(recorder, first, false);
    }
    tryst_profile *profile = recorded();
    assert_int_equal(tryst_profile_nodes(profile), 5);
    check(profile, 1, "thread 0;action 0", 0.003, "");
    check(profile, 2, "early", 1, "thread 0;action 0");
    check(profile, 3, "thread 0;action 1", 0.004, "thread 0;action 0");
    check(profile, 4, "thread 0;action 2", 0.008, "thread 0;action 1,first");
    tryst_profile_node node = {.struct_size = sizeof node};
    assert_int_equal(tryst_profile_node_get(profile, 0, &node), TRYST_OK);
    near(node.first_use_s, 0.007);
    tryst_profile_close(profile);
}

/* ---- periods that the program begins ----------------------------------------------- */

/* One step for all: the graph is that of steps, wherever the calls are between the last
 * submission and the next one, and however many. */
static void one_step(void **state)
{
    (void)state;
    layers(0);
    layers(0);
    refused("tryst_period_begin");
    for (unsigned i = 0; i < 4; i++) {
        recorder_period_begin(recorder);
        layers(0);
        if (i % 2)
            recorder_period_begin(recorder);
    }
    tryst_profile *profile = recorded();
    layers_check(profile);
    tryst_profile_close(profile);
}

/* A call while an operation of the period is not used yet: the period goes on until the
 * next submission, so the use counts. */
static void begin_before_use(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        uint64_t gradient = submit("gradient", 1);
        compute(3);
        recorder_period_begin(recorder);
        await(gradient, 4);
        compute(5);
    }
    tryst_profile *profile = recorded();
    assert_int_equal(tryst_profile_nodes(profile), 3);
    check(profile, 1, "thread 0;action 0", 0.003, "");
    check(profile, 2, "thread 0;action 1", 0.005, "thread 0;action 0,gradient");
    near(period(profile), 0.008);
    tryst_profile_close(profile);
}

/* An operation is under way when the next period runs: nothing in its own period comes
 * after it, nothing in the next one either, and its end is recorded. */
static void under_way(void **state)
{
    uint64_t before = 0;
    (void)state;
    for (int i = 0; i < 4; i++) {
        recorder_period_begin(recorder);
        uint64_t gradient = submit("gradient", 1);
        compute(3);
        if (before)
            await(before, 1);
        compute(2);
        before = gradient;
    }
    tryst_profile *profile = recorded();
    assert_int_equal(tryst_profile_nodes(profile), 2);
    check(profile, 1, "thread 0;action 0", 0.005, "");
    tryst_profile_node node = {.struct_size = sizeof node};
    assert_int_equal(tryst_profile_node_get(profile, 0, &node), TRYST_OK);
    near(node.done_s, 0.010); /* in the period behind */
    tryst_profile_close(profile);
}

/* Before the first call steps cut, however large their ids; then they do not, until the
 * group ends. */
static void steps_and_begins(void **state)
{
    (void)state;
    step = UINT64_MAX - 4;
    train(0);
    train(0);
    for (int i = 0; i < 3; i++) {
        recorder_period_begin(recorder);
        submit("first", 1);
        compute(2);
        step = 7 + (uint64_t)i;
        submit("second", 2);
        compute(3);
        step = 50 - (uint64_t)i;
        submit("third", 3);
        compute(4);
    }
    tryst_profile *profile = recorded();
    check(profile, 0, "first", 1, "");
    check(profile, 2, "second", 2, "thread 0;action 0");
    check(profile, 4, "third", 3, "thread 0;action 1");
    near(period(profile), 0.009);
    tryst_profile_close(profile);
    recorder_reset(recorder);
    step = 0;
    train(0);
    refused("no whole step");
    train(0);
    tryst_profile_close(recorded());
}

/* Uses of a name, and numbers of periods: only a submission counts, and one of the same
 * or an older step is no newer. */
static void numbers(void **state)
{
    (void)state;
    step = 9;
    struct recorder_submitted first = submitted("a", 1);
    step = 8;
    struct recorder_submitted older = submitted("a", 1);
    assert_int_equal(first.use, 1);
    assert_int_equal(older.use, 2);
    assert_true(recorder_period_is_newer(first.period, older.period));
    recorder_period_begin(recorder);
    struct recorder_submitted begun = submitted("a", 1), same = submitted("a", 1);
    assert_int_equal(begun.use, 1);
    assert_int_equal(same.use, 2);
    assert_true(recorder_period_is_newer(begun.period, first.period));
    assert_false(recorder_period_is_newer(first.period, begun.period));
    step = 99;
    same = submitted("a", 1);
    assert_int_equal(same.use, 3);
    assert_false(recorder_period_is_newer(same.period, begun.period));
    assert_false(recorder_period_is_newer(begun.period, same.period));
    recorder_period_begin(recorder);
    recorder_period_begin(recorder);
    struct recorder_submitted next = submitted("a", 1);
    assert_int_equal(next.use, 1);
    assert_true(recorder_period_is_newer(next.period, begun.period));
}

enum { SUBMITTERS = 3, SUBMISSIONS = 3000 };

static void *submitter(void *arg)
{
    struct recorder *own = arg;
    struct recorder_submission submission = {.name = recorder_name(own, "op")};
    struct recorder_period newest = {0};
    for (int i = 0; i < SUBMISSIONS; i++) {
        struct recorder_submitted at = recorder_submit(own, &submission);
        if (recorder_period_is_newer(newest, at.period))
            return NULL;
        newest = at.period;
        recorder_use(own, at.op, i % 2);
    }
    return arg;
}

/* One thread begins periods while others submit: numbers go up in each thread. */
static void begins_and_submissions(void **state)
{
    pthread_t threads[SUBMITTERS];
    (void)state;
    for (int t = 0; t < SUBMITTERS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, submitter, recorder), 0);
    for (int i = 0; i < SUBMISSIONS; i++) {
        recorder_period_begin(recorder);
        submit("own", 1);
    }
    for (int t = 0; t < SUBMITTERS; t++) {
        void *result;
        assert_int_equal(pthread_join(threads[t], &result), 0);
        assert_ptr_equal(result, recorder);
    }
    tryst_profile_close(recorded());
}

/* ---- threads ----------------------------------------------------------------------- */

static void *other_thread(void *arg)
{
    (void)arg;
    compute(3);
    await(submit("other", 5), 2);
    compute(4);
    await(submit("other", 6), 1);
    return NULL;
}

/* Each thread has a chain of its own from the begin of the period on. */
static void threads(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        step++;
        submit("own", 1);
        assert_int_equal(pthread_create(&thread, NULL, other_thread, NULL), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    tryst_profile *profile = recorded();
    check(profile, 0, "own", 1, "");
    tryst_profile_node node = {.struct_size = sizeof node};
    assert_int_equal(tryst_profile_node_get(profile, 1, &node), TRYST_OK);
    near(node.seconds, 0.003);
    assert_int_equal(tryst_profile_node_get(profile, 2, &node), TRYST_OK);
    assert_string_equal(node.name, "other");
    near(period(profile), 0.010); /* the first thread did not wait */
    tryst_profile_close(profile);
}

static void *one_mark(void *arg)
{
    (void)arg;
    submit("thread", 1);
    return NULL;
}

static void too_many_threads(void **state)
{
    (void)state;
    for (int i = 0; i < 80; i++) {
        pthread_t thread;
        step++;
        assert_int_equal(pthread_create(&thread, NULL, one_mark, NULL), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    refused("threads");
}

/* ---- bounds ------------------------------------------------------------------------ */

static void nothing(void **state)
{
    (void)state;
    refused("no whole step");
    train(0);
    refused("no whole step");
    train(0);
    tryst_profile_close(recorded());
    recorder_reset(recorder);
    refused("no whole step");
    step = 0;
    train(0);
    train(0);
    tryst_profile_close(recorded());
}

/* Too many operations in a step: it is not recorded, and memory stays bounded. A later
 * step is. */
static void bounded(void **state)
{
    (void)state;
    uint64_t before = alloc_live_bytes();
    for (int s = 0; s < 6; s++) {
        step++;
        for (int i = 0; i < 100000; i++) {
            recorder_use(recorder, submit("many", 1), false);
            now_ns++;
        }
    }
    refused("no whole step");
    assert_true(alloc_live_bytes() - before < (UINT64_C(40) << 20));
    train(0);
    train(0);
    tryst_profile_close(recorded());
}

/* A callback that tests the close of the step uses its operations on behalf of the
 * threads that submitted them. */
static void *close_thread(void *arg)
{
    (void)arg;
    recorder_use_step(recorder, step, true);
    return NULL;
}

static void closed_by_callback(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        step++;
        submit("a", 1);
        compute(1);
        assert_int_equal(pthread_create(&thread, NULL, close_thread, NULL), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        compute(2);
    }
    tryst_profile *profile = recorded();
    assert_int_equal(tryst_profile_nodes(profile), 3);
    check(profile, 1, "thread 0;action 0", 0.001, "");
    check(profile, 2, "thread 0;action 1", 0.002, "thread 0;action 0,a");
    tryst_profile_close(profile);
}

/* An operation of a period that is not kept any more is ignored. */
static void late(void **state)
{
    (void)state;
    step++;
    uint64_t old = submit("old", 1);
    for (int i = 0; i < 10; i++) {
        train(0);
        recorder_use(recorder, old, false);
        recorder_done(recorder, old, 0, 0);
    }
    recorder_use(recorder, 0, false);
    tryst_profile *profile = recorded();
    assert_int_equal(tryst_profile_nodes(profile), 5);
    tryst_profile_close(profile);
}

/* Record two steps with a recorder of their own. */
static tryst_status attempt(void)
{
    struct err err = ERR_INIT;
    tryst_profile *profile;
    struct recorder *outer = recorder;
    step = 0;
    recorder = recorder_open(&fake);
    tryst_status status = recorder ? TRYST_OK : TRYST_E_NOMEM;
    if (recorder) {
        train(0);
        train(0);
        status = recorder_profile(recorder, &err, &profile);
        if (status == TRYST_OK)
            tryst_profile_close(profile);
        recorder_close(recorder);
    }
    recorder = outer;
    return status;
}

/* Each allocation fails once. In the first step, and for the profile, none may; in the
 * second one, which is not whole, a failure changes nothing. */
static void allocations(void **state)
{
    (void)state;
    uint64_t before = alloc_live_count();
    int failures = 0, successes = 0;
    bool came_to_pass = true;
    for (uint64_t nth = 1; came_to_pass; nth++) {
        alloc_fail_at(nth);
        tryst_status status = attempt();
        came_to_pass = alloc_fail_off();
        assert_true(status == TRYST_OK || status == TRYST_E_NOMEM ||
                    status == TRYST_E_INVALID);
        failures += status != TRYST_OK;
        successes += status == TRYST_OK;
        assert_int_equal(alloc_live_count(), before);
    }
    assert_true(failures > 10);
    assert_in_range(successes, 2, 6);
}

/* ---- cost -------------------------------------------------------------------------- */

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

/* Get the processor time of `count` readings of the clock. */
static uint64_t readings_ns(const struct recorder *own, int count)
{
    uint64_t begin = cpu_ns();
    for (int i = 0; i < count; i++)
        (void)recorder_now(own);
    return cpu_ns() - begin + 1;
}

/* All that is recorded of an operation takes less processor time than a few readings of
 * the machine's clock (10 on an EPYC, 10 and 15 on two Xeons): the median of rounds of
 * both, since the processor's speed changes. */
static void cost(void **state)
{
    (void)state;
    enum { ROUNDS = 50, OPS = 2000, READINGS_MAX = 20 };
    double ratios[ROUNDS];
    struct recorder *own = recorder_open(NULL);
    assert_non_null(own);
    struct recorder_submission submission = {.name = recorder_name(own, "op")};
    for (int round = 0; round < ROUNDS; round++) {
        submission.step++;
        uint64_t begin = cpu_ns();
        for (int i = 0; i < OPS; i++) {
            uint64_t op = recorder_submit(own, &submission).op;
            recorder_done(own, op, 0, recorder_now(own));
            recorder_use(own, op, false);
        }
        uint64_t spent_ns = cpu_ns() - begin;
        ratios[round] = (double)spent_ns / (double)readings_ns(own, OPS);
    }
    qsort(ratios, ROUNDS, sizeof *ratios, by_size);
    double ratio = ratios[ROUNDS / 2];
    print_message("an operation takes the time of %.1f readings of the clock\n", ratio);
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
    if (ticks_are_steady()) /* else three readings of the clock take most of it */
        assert_true(ratio <= READINGS_MAX);
#endif
    recorder_close(own);
}

int main(void)
{
#define RECORDER_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        RECORDER_TEST(data_parallel),
        RECORDER_TEST(text),
        RECORDER_TEST(median),
        RECORDER_TEST(other_step),
        RECORDER_TEST(names_and_uses),
        RECORDER_TEST(named),
        RECORDER_TEST(callbacks),
        RECORDER_TEST(callback_before_wait),
        RECORDER_TEST(one_step),
        RECORDER_TEST(begin_before_use),
        RECORDER_TEST(under_way),
        RECORDER_TEST(steps_and_begins),
        RECORDER_TEST(numbers),
        RECORDER_TEST(begins_and_submissions),
        RECORDER_TEST(threads),
        RECORDER_TEST(too_many_threads),
        RECORDER_TEST(nothing),
        RECORDER_TEST(bounded),
        RECORDER_TEST(closed_by_callback),
        RECORDER_TEST(late),
        RECORDER_TEST(allocations),
        RECORDER_TEST(cost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
