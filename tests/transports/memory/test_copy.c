/* SPDX-License-Identifier: Apache-2.0 */
/* Copies that are polled, on a device that the test advances by hand: their order, their
 * waiting, failures, and that no completion is reported before the device has
 * finished. */
#include "support/unit.h"

#include <string.h>

#include "core/memory/alloc.h"
#include "hand_device.h"
#include "transports/memory/copy.h"

enum {
    BYTES = 100,
    FAILS = 16 /* failed queries in a row after which the device is lost */
};

struct job {
    struct copy copy;
    char from[BYTES], to[BYTES];
    int done;
    tryst_status status;
    int place; /* index in the order of `done` */
};

static struct copies copies;
static int told;

static void on_done(struct copy *copy, tryst_status status)
{
    struct job *job = container_of(copy, struct job, copy);
    assert_int_equal(job->done++, 0);
    job->status = status;
    job->place = told++;
}

static void job_start(struct job *job, enum copy_way way, int32_t device, void *ready)
{
    memset(job, 0, sizeof *job);
    memset(job->from, 0x11 + (int)device, BYTES);
    job->copy = (struct copy){.done = on_done,
                              .memory = &hand_row,
                              .device = device,
                              .way = (uint8_t)way,
                              .dst = job->to,
                              .src = job->from,
                              .bytes = BYTES,
                              .ready = ready};
    copies_start(&copies, &job->copy);
    assert_int_equal(job->done, 0); /* never from inside */
}

static void job_good(const struct job *job)
{
    assert_int_equal(job->done, 1);
    assert_int_equal(job->status, TRYST_OK);
    assert_memory_equal(job->from, job->to, BYTES);
}

static int setup(void **state)
{
    copies_init(&copies);
    told = 0;
    return 0;
}

static int teardown(void **state)
{
    copies_end(&copies);
    hand_check();
    return 0;
}

/* One stream runs its copies in order, and only the oldest copy of each stream is
 * queried. */
static void test_order(void **state)
{
    struct job jobs[5];
    for (int i = 0; i < 5; i++)
        job_start(&jobs[i], COPY_OUT, 0, NULL);
    assert_int_equal(copies.count, 5);
    assert_int_equal(copies_poll(&copies), 0);
    assert_int_equal(hand.query_calls, 1);
    assert_int_equal(hand_run(0, 1), 1); /* the copy has run, its event has not passed */
    assert_int_equal(copies_poll(&copies), 0);
    assert_int_equal(hand_run(0, 4), 4); /* one event, a copy, its event, a copy */
    assert_int_equal(copies_poll(&copies), 2);
    job_good(&jobs[0]);
    job_good(&jobs[1]);
    assert_int_equal(jobs[2].done, 0);
    assert_false(copy_has_ended(&jobs[2].copy));
    hand_run_all();
    /* a query returns the completion before `done` is called */
    assert_true(copy_has_ended(&jobs[2].copy));
    assert_int_equal(copies_poll(&copies), 3);
    for (int i = 0; i < 5; i++) {
        job_good(&jobs[i]);
        assert_int_equal(jobs[i].place, i);
    }
    assert_false(copies.count > 0);
    assert_int_equal(hand.streams, 1);
    assert_int_equal(hand.events, 5);
    job_start(&jobs[0], COPY_OUT, 0, NULL); /* events are reused */
    hand_run_all();
    assert_int_equal(copies_poll(&copies), 1);
    assert_int_equal(hand.events, 5);
}

/* The directions do not wait for each other, nor do the devices. */
static void test_streams(void **state)
{
    struct job out, in, other;
    job_start(&out, COPY_OUT, 0, NULL);
    job_start(&in, COPY_IN, 0, NULL);
    job_start(&other, COPY_IN, 1, NULL);
    assert_int_equal(hand.streams, 3);
    (void)hand_run(1, 2);
    assert_int_equal(copies_poll(&copies), 1);
    job_good(&in);
    (void)hand_run(2, 2);
    assert_int_equal(copies_poll(&copies), 1);
    job_good(&other);
    (void)hand_run(0, 2);
    assert_int_equal(copies_poll(&copies), 1);
    job_good(&out);
}

/* A copy begins when its event has passed; a copy without bytes waits for the event
 * alone. Until then the copy can be dropped, and its `done` is not called. */
static void test_ready(void **state)
{
    struct hand_event *event = hand_event_make();
    struct job copied, waited, dropped;
    job_start(&copied, COPY_IN, 0, event);
    job_start(&dropped, COPY_IN, 0, event);
    memset(&waited, 0, sizeof waited);
    waited.copy = (struct copy){
        .done = on_done, .memory = &hand_row, .dst = waited.to, .ready = event};
    copies_start(&copies, &waited.copy);
    assert_int_equal(copies_poll(&copies), 0);
    assert_int_equal(hand.copy_calls, 0);
    assert_true(copies_drop(&copies, &dropped.copy));
    hand_event_pass(event);
    assert_int_equal(copies_poll(&copies), 1);
    assert_int_equal(waited.done, 1);
    assert_int_equal(waited.status, TRYST_OK);
    assert_int_equal(hand.copy_calls, 1);
    assert_false(copies_drop(&copies, &copied.copy)); /* too late */
    hand_run_all();
    assert_int_equal(copies_poll(&copies), 1);
    job_good(&copied);
    assert_int_equal(dropped.done, 0);
    hand_event_free(event);
}

/* ---- from inside `done` ---- */

static struct job *newest;

static void on_done_again(struct copy *copy, tryst_status status)
{
    assert_int_equal(status, TRYST_OK);
    free(container_of(copy, struct job, copy));
    newest = NULL;
    if (++told == 5)
        return;
    newest = malloc(sizeof *newest);
    job_start(newest, COPY_OUT, 0, NULL);
    newest->copy.done = on_done_again;
    hand_run_all(); /* finished before the first poll */
}

/* `done` may start another copy and free its own; the next poll reports the copy started
 * there. */
static void test_done_starts(void **state)
{
    newest = malloc(sizeof *newest);
    job_start(newest, COPY_OUT, 0, NULL);
    newest->copy.done = on_done_again;
    hand_run_all();
    for (int i = 1; i <= 5; i++) {
        assert_int_equal(copies_poll(&copies), 1);
        assert_int_equal(told, i);
    }
    assert_null(newest);
    assert_false(copies.count > 0);
}

/* ---- failures ---- */

static void fails_once(unsigned *knob, tryst_status status)
{
    struct job job, after;
    *knob = 1;
    job_start(&job, COPY_OUT, 0, NULL);
    assert_true(copy_has_ended(&job.copy)); /* the copy was never queued on the device */
    assert_int_equal(copies_poll(&copies), 1);
    assert_int_equal(job.done, 1);
    assert_int_equal(job.status, status);
    job_start(&after, COPY_OUT, 0, NULL);
    hand_run_all();
    assert_int_equal(copies_poll(&copies), 1);
    job_good(&after);
    /* close the streams, so that the next failure meets a first open */
    copies_end(&copies);
    hand_check();
    copies_init(&copies);
}

static void test_cannot_begin(void **state)
{
    fails_once(&hand.fail_stream, TRYST_E_SYSTEM);
    fails_once(&hand.fail_event, TRYST_E_SYSTEM);
    fails_once(&hand.fail_copy, TRYST_E_SYSTEM);
}

/* A copy that fails between others does not affect them. */
static void test_fails_amid(void **state)
{
    struct job before, failing, behind;
    job_start(&before, COPY_IN, 0, NULL);
    hand.fail_copy = 1;
    job_start(&failing, COPY_IN, 0, NULL);
    job_start(&behind, COPY_IN, 0, NULL);
    assert_int_equal(copies_poll(&copies), 1);
    assert_int_equal(failing.status, TRYST_E_SYSTEM);
    hand_run_all();
    assert_int_equal(copies_poll(&copies), 2);
    job_good(&before);
    job_good(&behind);
}

/* An event that cannot be recorded is recorded later: until the event has passed, the
 * device may still access the bytes. */
static void test_record_fails(void **state)
{
    struct job job;
    hand.fail_record = FAILS - 1;
    job_start(&job, COPY_IN, 0, NULL);
    hand_run_all();
    for (int i = 1; i < FAILS - 1; i++) {
        assert_int_equal(copies_poll(&copies), 0);
        assert_false(copy_has_ended(&job.copy));
    }
    assert_int_equal(hand.fail_record, 0);
    assert_int_equal(copies_poll(&copies), 0); /* recorded now, and not passed */
    assert_int_equal(hand_run(0, 5), 1);
    assert_int_equal(copies_poll(&copies), 1);
    job_good(&job);
}

/* A failed query does not end the copy; after FAILS failures in a row the device is
 * lost. */
static void test_query_fails(void **state)
{
    struct job jobs[2];
    for (int i = 0; i < 2; i++)
        job_start(&jobs[i], COPY_OUT, 0, NULL);
    hand_run_all();
    hand.fail_query = FAILS - 1;
    for (int i = 0; i < FAILS - 1; i++)
        assert_int_equal(copies_poll(&copies), 0);
    assert_int_equal(copies_poll(&copies), 2);
    job_good(&jobs[0]);
    job_good(&jobs[1]);
}

static void lost(unsigned *knob, void *ready)
{
    struct job jobs[3];
    *knob = HAND_ALWAYS;
    for (int i = 0; i < 3; i++)
        job_start(&jobs[i], COPY_OUT, 0, ready);
    int polls = 0;
    while (copies.count > 0) {
        (void)copies_poll(&copies);
        assert_true(++polls <= 3 * FAILS);
    }
    assert_true(polls >= FAILS);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(jobs[i].done, 1);
        assert_int_equal(jobs[i].status, TRYST_E_SYSTEM);
    }
    *knob = 0;
    hand_run_all();
}

static void test_lost(void **state)
{
    struct hand_event *event = hand_event_make();
    lost(&hand.fail_query, NULL);
    lost(&hand.fail_record, NULL);
    lost(&hand.fail_query, event);
    hand_event_free(event);
}

static struct job *second_job;

static void on_done_dropping(struct copy *copy, tryst_status status)
{
    on_done(copy, status);
    assert_false(copies_drop(&copies, &second_job->copy));
}

/* Two copies whose event is lost end together: when `done` of the first is called, the
 * second is too late to be dropped. */
static void test_lost_is_not_dropped(void **state)
{
    struct hand_event *event = hand_event_make();
    struct job first, second;
    second_job = &second;
    job_start(&first, COPY_IN, 0, event);
    first.copy.done = on_done_dropping;
    job_start(&second, COPY_IN, 0, event);
    hand.fail_query = 2 * FAILS;
    for (int i = 0; i < FAILS - 1; i++)
        assert_int_equal(copies_poll(&copies), 0);
    assert_int_equal(copies_poll(&copies), 2);
    assert_int_equal(first.status, TRYST_E_SYSTEM);
    assert_int_equal(second.done, 1);
    assert_int_equal(second.status, TRYST_E_SYSTEM);
    hand_event_free(event);
}

/* Each allocation in turn fails: a status results, no memory is kept, and the next copy
 * works. */
static void test_no_memory(void **state)
{
    bool met = true;
    for (uint64_t nth = 1; met; nth++) {
        uint64_t live = alloc_live_count();
        struct job job, after;
        alloc_fail_at(nth);
        job_start(&job, COPY_IN, 0, NULL);
        met = alloc_fail_off();
        hand_run_all();
        assert_int_equal(copies_poll(&copies), 1);
        assert_int_equal(job.status, met ? TRYST_E_NOMEM : TRYST_OK);
        job_start(&after, COPY_IN, 0, NULL);
        hand_run_all();
        assert_int_equal(copies_poll(&copies), 1);
        job_good(&after);
        copies_end(&copies);
        assert_int_equal(alloc_live_count(), live);
        hand_check();
        copies_init(&copies);
    }
}

/* Stopping withdraws the copies that have not begun and waits for the others: no copy is
 * reported before its end. */
static void test_stop(void **state)
{
    struct hand_event *event = hand_event_make();
    struct job running[2], waiting[2];
    for (int i = 0; i < 2; i++) {
        job_start(&running[i], (enum copy_way)i, 0, NULL);
        job_start(&waiting[i], (enum copy_way)i, 0, event);
    }
    for (int i = 0; i < 2; i++) {
        assert_true(copies_drop(&copies, &waiting[i].copy));
        assert_false(copies_drop(&copies, &running[i].copy));
    }
    assert_int_equal(copies.count, 2);
    assert_int_equal(copies_poll(&copies), 0);
    hand_event_pass(event); /* no copy waits for the event any more */
    hand_run_all();
    assert_int_equal(copies_poll(&copies), 2);
    job_good(&running[0]);
    job_good(&running[1]);
    assert_false(copies.count > 0);
    assert_int_equal(waiting[0].done + waiting[1].done, 0);
    hand_event_free(event);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(order),        TEST(streams),
        TEST(ready),        TEST(done_starts),
        TEST(cannot_begin), TEST(fails_amid),
        TEST(record_fails), TEST(query_fails),
        TEST(lost),         TEST(lost_is_not_dropped),
        TEST(no_memory),    TEST(stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
