/* SPDX-License-Identifier: Apache-2.0 */
/* The streams of a copier, on a device that the test advances by hand and by the test's
 * clock: order of urgency, pieces and bytes in flight, ready events, growing limits,
 * cancels in each state, failures of each call, and a random run against plain copies. */
#include "support/unit.h"

#include <string.h>

#include "../transports/memory/hand_device.h"
#include "core/memory/alloc.h"
#include "core/os/random.h"
#include "rendezvous/copier_streams.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)
enum { FAILS = 16 };

struct job {
    struct copier_range range;
    char *device, *host;
    unsigned reports;
};

static struct copier_streams streams;
static uint64_t now_ns;

static void job_init(struct job *job, enum copier_way way, uint64_t bytes,
                     uint64_t number)
{
    *job = (struct job){.device = malloc(bytes + 1), .host = malloc(bytes + 1)};
    char *from = way == COPIER_FETCH ? job->device : job->host;
    char *to = way == COPIER_FETCH ? job->host : job->device;
    for (uint64_t i = 0; i < bytes; i++)
        from[i] = (char)(i * 7 + i / 251 + number + 1);
    memset(to, 0, bytes);
    job->range = (struct copier_range){.ops = &hand_row,
                                       .way = way,
                                       .device_data = job->device,
                                       .host_data = job->host,
                                       .bytes = bytes,
                                       .urgency = {.number = number},
                                       .limit = way == COPIER_FETCH ? bytes : 0};
}

/* Check that exactly the first `done` bytes have been copied. */
static void job_free(struct job *job)
{
    const struct copier_range *range = &job->range;
    const char *to = range->way == COPIER_FETCH ? job->host : job->device;
    assert_memory_equal(job->device, job->host, range->done);
    if (range->status != TRYST_E_SYSTEM)
        for (uint64_t i = range->done; i < range->bytes; i++)
            if (to[i] != 0)
                fail_msg("byte %llu was copied", (unsigned long long)i);
    free(job->device);
    free(job->host);
}

static void reports_take(void)
{
    struct list_node *node;
    while ((node = list_pop_front(&streams.reports)) != NULL) {
        struct job *job = container_of(node, struct job, range.report);
        assert_false(job->range.ended);
        job->reports++;
        if (job->range.state == COPIER_ENDED) {
            assert_int_equal(job->range.flying, 0);
            job->range.ended = true;
        }
    }
}

static uint64_t pass(void)
{
    uint64_t next_ns = copier_streams_poll(&streams, now_ns);
    reports_take();
    return next_ns;
}

static void job_add(struct job *job)
{
    copier_streams_update(&streams, &job->range);
    reports_take();
}

static void job_raise(struct job *job, uint64_t limit)
{
    job->range.limit = limit;
    job_add(job);
}

static void job_cancel(struct job *job)
{
    job->range.is_canceled = true;
    job_add(job);
}

/* Let the device do all that is queued, and all that follows from it. */
static void finish(void)
{
    do {
        hand_run_all();
        (void)pass();
    } while (!copier_streams_idle(&streams));
}

static void job_is(const struct job *job, tryst_status status, uint64_t done)
{
    assert_true(job->range.ended);
    assert_int_equal(job->range.status, status);
    assert_int_equal(job->range.done, done);
}

static int setup(void **state)
{
    copier_streams_open(&streams);
    now_ns = UINT64_C(1000000000);
    return 0;
}

static int teardown(void **state)
{
    assert_true(copier_streams_idle(&streams));
    copier_streams_close(&streams);
    hand_check();
    return 0;
}

/* Polls become rare while a piece takes long, and are frequent again for the next. */
static void test_naps(void **state)
{
    struct job job;
    job_init(&job, COPIER_FETCH, 3 * MIB, 5);
    job_add(&job);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pass(), now_ns + COPIER_NAP_NS);
        now_ns += 100 * COPIER_NAP_NS;
        assert_int_equal(pass(), now_ns + 100 * COPIER_NAP_NS / COPIER_NAP_SHARE);
        assert_int_equal(hand_run(0, 2), 2);
    }
    finish();
    assert_int_equal(pass(), UINT64_MAX);
    job_free(&job);
}

/* An urgent range overtakes at the next piece, and its piece waits for at most the bytes
 * in flight. */
static void test_urgent_first(void **state)
{
    struct job large, urgent;
    job_init(&large, COPIER_FETCH, 8 * MIB, 5);
    job_init(&urgent, COPIER_FETCH, 2 * MIB, 1);
    job_add(&large);
    (void)pass();
    assert_int_equal(large.range.queued, COPIER_FLIGHT_BYTES);
    job_add(&urgent);
    (void)pass();
    assert_int_equal(urgent.range.queued, 0);
    for (uint64_t i = 1; i <= 2; i++) {
        assert_int_equal(hand_run(0, 2), 2);
        assert_true(pass() <= now_ns + COPIER_NAP_NS);
        assert_int_equal(urgent.range.queued, i * MIB);
        assert_int_equal(large.range.queued, COPIER_FLIGHT_BYTES);
        assert_int_equal(large.range.done, i * MIB);
    }
    assert_int_equal(hand_run(0, 2), 2);
    (void)pass();
    assert_int_equal(large.range.queued, COPIER_FLIGHT_BYTES + MIB);
    finish();
    job_is(&urgent, TRYST_OK, 2 * MIB);
    job_is(&large, TRYST_OK, 8 * MIB);
    assert_int_equal(pass(), UINT64_MAX);
    job_free(&large);
    job_free(&urgent);
}

/* Equally urgent ranges, the parts of one collective, take turns: both trees have slices
 * from the begin on. */
static void test_turns(void **state)
{
    struct job jobs[2];
    for (int i = 0; i < 2; i++)
        job_init(&jobs[i], COPIER_FETCH, 4 * MIB, 5);
    for (int i = 0; i < 2; i++)
        job_add(&jobs[i]);
    (void)pass();
    assert_int_equal(jobs[0].range.queued, COPIER_FLIGHT_BYTES / 2);
    assert_int_equal(jobs[1].range.queued, COPIER_FLIGHT_BYTES / 2);
    assert_int_equal(hand_run(0, 2), 2);
    (void)pass();
    assert_int_equal(jobs[0].range.done, MIB);
    assert_int_equal(jobs[0].range.queued, COPIER_FLIGHT_BYTES / 2 + MIB);
    finish();
    for (int i = 0; i < 2; i++) {
        job_is(&jobs[i], TRYST_OK, 4 * MIB);
        job_free(&jobs[i]);
    }
}

/* The range of the earlier submission goes first; directions do not wait for each
 * other. */
static void test_ways(void **state)
{
    struct job jobs[4];
    for (int i = 0; i < 4; i++) {
        job_init(&jobs[i], i % 2 ? COPIER_BRING : COPIER_FETCH, 3 * MIB, (uint64_t)i);
        jobs[i].range.limit = 3 * MIB;
        job_add(&jobs[i]);
    }
    (void)pass();
    for (int i = 0; i < 4; i++)
        assert_int_equal(jobs[i].range.queued, i < 2 ? 3 * MIB : MIB);
    hand_run(1, 2); /* BRING alone moves */
    (void)pass();
    assert_int_equal(jobs[2].range.queued, MIB);
    assert_int_equal(jobs[3].range.queued, 2 * MIB);
    finish();
    for (int i = 0; i < 4; i++) {
        job_is(&jobs[i], TRYST_OK, 3 * MIB);
        job_free(&jobs[i]);
    }
    assert_int_equal(hand.streams, 2);
}

/* Small ranges are copied whole, and their number in flight is bounded. */
static void test_small(void **state)
{
    enum { JOBS = 100 };
    static struct job jobs[JOBS];
    for (int i = 0; i < JOBS; i++) {
        job_init(&jobs[i], COPIER_FETCH, 100 + (unsigned)i, (uint64_t)i);
        job_add(&jobs[i]);
    }
    (void)pass();
    assert_int_equal(hand.copy_calls, 32);
    finish();
    assert_int_equal(hand.copy_calls, JOBS);
    assert_int_equal(hand.events, 32);
    for (int i = 0; i < JOBS; i++) {
        job_is(&jobs[i], TRYST_OK, 100 + (unsigned)i);
        assert_int_equal(jobs[i].reports, 1);
        job_free(&jobs[i]);
    }
}

/* A range of 256 KiB waits until all its bytes may go; a larger one follows its limit. */
static void test_limit(void **state)
{
    struct job whole, grows;
    job_init(&whole, COPIER_BRING, COPIER_WHOLE_BYTES, 0);
    job_init(&grows, COPIER_BRING, 3 * MIB + 1, 0);
    job_add(&whole);
    job_add(&grows);
    assert_int_equal(pass(), UINT64_MAX);
    job_raise(&whole, COPIER_WHOLE_BYTES - 1);
    (void)pass();
    assert_int_equal(hand.copy_calls, 0);
    job_raise(&whole, COPIER_WHOLE_BYTES + 5); /* beyond the size: the size counts */
    finish();
    assert_int_equal(hand.copy_calls, 1);
    job_is(&whole, TRYST_OK, COPIER_WHOLE_BYTES);
    for (uint64_t limit = 0; limit < grows.range.bytes; limit += 700 * KIB) {
        job_raise(&grows, limit);
        finish();
        assert_false(grows.range.ended);
        assert_int_equal(grows.range.done, limit);
    }
    job_raise(&grows, grows.range.bytes);
    finish();
    job_is(&grows, TRYST_OK, grows.range.bytes);
    job_free(&whole);
    job_free(&grows);
}

/* Both ways wait for `ready`; other ranges go on meanwhile. Polls become rarer. */
static void test_ready(void **state)
{
    struct job held[COPIER_WAYS], free_job, waits;
    struct hand_event *event = hand_event_make();
    for (int way = 0; way < COPIER_WAYS; way++) {
        job_init(&held[way], (enum copier_way)way, 2 * MIB, 0);
        held[way].range.limit = 2 * MIB;
        held[way].range.ready = event;
        job_add(&held[way]);
    }
    job_init(&waits, COPIER_FETCH, 0, 0);
    waits.range.ready = event;
    job_add(&waits);
    uint64_t nap_ns = COPIER_HELD_NAP_MIN_NS;
    for (int i = 0; i < 10; i++) {
        unsigned queries = hand.query_calls;
        assert_int_equal(pass(), now_ns + nap_ns);
        assert_int_equal(hand.query_calls, queries + 3);
        now_ns += nap_ns - 1;
        (void)pass(); /* too early */
        assert_int_equal(hand.query_calls, queries + 3);
        now_ns++;
        nap_ns =
            2 * nap_ns < COPIER_HELD_NAP_MAX_NS ? 2 * nap_ns : COPIER_HELD_NAP_MAX_NS;
    }
    assert_int_equal(nap_ns, COPIER_HELD_NAP_MAX_NS);
    job_init(&free_job, COPIER_BRING, 10, 9);
    job_raise(&free_job, 10);
    finish();
    job_is(&free_job, TRYST_OK, 10);
    assert_int_equal(held[0].range.queued + held[1].range.queued, 0);
    hand_event_pass(event);
    now_ns += nap_ns;
    finish();
    for (int way = 0; way < COPIER_WAYS; way++) {
        job_is(&held[way], TRYST_OK, 2 * MIB);
        job_free(&held[way]);
    }
    job_is(&waits, TRYST_OK, 0);
    job_free(&waits);
    job_free(&free_job);
    hand_event_free(event);
}

/* A cancel ends a range at once where no copy is in flight, in each state. */
static void test_cancel_idle(void **state)
{
    struct job held, starved, queued, blocker;
    struct hand_event *event = hand_event_make();
    job_init(&held, COPIER_FETCH, MIB, 0);
    held.range.ready = event;
    job_add(&held);
    job_init(&starved, COPIER_BRING, MIB, 0);
    job_add(&starved);
    job_init(&blocker, COPIER_FETCH, 5 * MIB, 0);
    job_add(&blocker);
    (void)pass();
    job_init(&queued, COPIER_FETCH, MIB, 1);
    job_add(&queued);
    struct job *canceled[] = {&held, &starved, &queued};
    for (unsigned i = 0; i < COUNT_OF(canceled); i++) {
        assert_false(canceled[i]->range.ended);
        job_cancel(canceled[i]);
        job_is(canceled[i], TRYST_E_CANCELED, 0);
        assert_int_equal(canceled[i]->reports, 1);
        job_free(canceled[i]);
    }
    finish();
    job_is(&blocker, TRYST_OK, 5 * MIB);
    job_free(&blocker);
    hand_event_free(event);
}

/* With copies in flight it ends when they have, and no further copy begins. */
static void test_cancel_flying(void **state)
{
    struct job job, last;
    job_init(&job, COPIER_BRING, 6 * MIB, 0);
    job_raise(&job, 6 * MIB);
    (void)pass();
    job_cancel(&job);
    for (uint64_t i = 1; i <= 4; i++) {
        (void)pass();
        assert_false(job.range.ended);
        assert_int_equal(hand_run(0, 2), 2);
        (void)pass();
        assert_int_equal(job.range.done, i * MIB);
    }
    job_is(&job, TRYST_E_CANCELED, 4 * MIB);
    assert_int_equal(hand.copy_calls, 4);
    /* too late: the last piece is in flight */
    job_init(&last, COPIER_FETCH, 100, 0);
    job_add(&last);
    (void)pass();
    job_cancel(&last);
    finish();
    job_is(&last, TRYST_OK, 100);
    job_free(&last);
    job_free(&job);
}

/* A call that fails once ends its range with status and text, and no other range. */
static void test_call_fails(void **state)
{
    unsigned *const fails[] = {&hand.fail_stream, &hand.fail_event, &hand.fail_copy};
    for (unsigned i = 0; i < COUNT_OF(fails); i++) {
        struct job bad, good;
        copier_streams_close(&streams);
        copier_streams_open(&streams);
        hand_check();
        job_init(&bad, COPIER_FETCH, 3 * MIB, 0);
        job_init(&good, COPIER_FETCH, 3 * MIB, 1);
        job_add(&bad);
        job_add(&good);
        *fails[i] = 1;
        (void)pass();
        job_is(&bad, TRYST_E_SYSTEM, 0);
        assert_string_equal(bad.range.text, "the test failed this call");
        finish();
        job_is(&good, TRYST_OK, 3 * MIB);
        job_free(&bad);
        job_free(&good);
    }
}

/* A copy that is refused after others are in flight: the range ends after those. */
static void test_copy_fails_later(void **state)
{
    struct job job;
    job_init(&job, COPIER_BRING, 3 * MIB, 0);
    job_raise(&job, MIB);
    (void)pass();
    hand.fail_copy = 1;
    job_raise(&job, 2 * MIB);
    (void)pass();
    assert_false(job.range.ended);
    job_raise(&job, 3 * MIB); /* begins nothing */
    finish();
    assert_true(job.range.ended);
    assert_int_equal(job.range.status, TRYST_E_SYSTEM);
    assert_int_equal(hand.copy_calls, 2);
    job_free(&job);
}

/* Events that fail for a time: the copies are good, and end when the device has ended. */
static void test_event_fails_for_a_time(void **state)
{
    struct job job;
    job_init(&job, COPIER_FETCH, 3 * MIB, 0);
    hand.fail_record = 6;
    job_add(&job);
    (void)pass();
    hand_run_all();
    hand.fail_query = FAILS - 6;
    for (int i = 0; i < 2 * FAILS; i++)
        (void)pass();
    finish();
    job_is(&job, TRYST_OK, 3 * MIB);
    job_free(&job);
}

/* A lost device: no event passes any more. All ranges with copies in flight end. */
static void test_lost(void **state)
{
    unsigned *const fails[] = {&hand.fail_query, &hand.fail_record};
    for (unsigned i = 0; i < COUNT_OF(fails); i++) {
        struct job jobs[2];
        for (int j = 0; j < 2; j++) {
            job_init(&jobs[j], COPIER_FETCH, 2 * MIB, 0);
            job_add(&jobs[j]);
        }
        *fails[i] = HAND_ALWAYS;
        for (int j = 0; j < FAILS - 2; j++)
            (void)pass();
        assert_false(jobs[0].range.ended);
        for (int j = 0; j < 4 * FAILS; j++)
            (void)pass();
        for (int j = 0; j < 2; j++) {
            assert_string_equal(jobs[j].range.text, "the test failed this call");
            job_is(&jobs[j], TRYST_E_SYSTEM, 0);
        }
        *fails[i] = 0;
        hand_run_all(); /* the device is not lost: empty its queues */
        for (int j = 0; j < 2; j++)
            free(jobs[j].device), free(jobs[j].host);
    }
}

/* One piece is lost: what is behind it does not count as copied. */
static void test_lost_piece(void **state)
{
    struct job job;
    job_init(&job, COPIER_FETCH, 2 * MIB, 0);
    job_add(&job);
    (void)pass();
    hand_run_all();
    hand.fail_query = FAILS;
    for (int i = 0; i < FAILS; i++) {
        assert_false(job.range.ended);
        (void)pass();
    }
    job_is(&job, TRYST_E_SYSTEM, 0);
    job_free(&job);
}

/* A ready event that cannot be polled ends the range, and only after many attempts. */
static void test_ready_fails(void **state)
{
    struct job job;
    struct hand_event *event = hand_event_make();
    job_init(&job, COPIER_BRING, MIB, 0);
    job.range.ready = event;
    job_add(&job);
    hand.fail_query = HAND_ALWAYS;
    for (int i = 0; i < FAILS; i++) {
        assert_false(job.range.ended);
        now_ns = pass();
    }
    job_is(&job, TRYST_E_SYSTEM, 0);
    assert_int_equal(hand.copy_calls, 0);
    hand.fail_query = 0;
    job_free(&job);
    hand_event_free(event);
}

static void test_no_memory(void **state)
{
    struct job job;
    job_init(&job, COPIER_FETCH, MIB, 0);
    alloc_fail_at(1);
    job_add(&job);
    assert_true(alloc_fail_off());
    job_is(&job, TRYST_E_NOMEM, 0);
    assert_string_equal(job.range.text, "out of memory");
    job_free(&job);
}

/* ---- random ------------------------------------------------------------------------ */

enum { JOBS_MAX = 12 };

struct draw {
    struct random random;
    struct job jobs[JOBS_MAX];
    struct hand_event *events[JOBS_MAX];
    int count;
};

static uint64_t below(struct draw *draw, uint64_t limit)
{
    return random_range(&draw->random, limit);
}

static void draw_add(struct draw *draw)
{
    struct job *job = &draw->jobs[draw->count];
    uint64_t bytes = below(draw, 2) ? below(draw, 300 * KIB) : below(draw, 6 * MIB);
    job_init(job, below(draw, 2) ? COPIER_FETCH : COPIER_BRING, bytes, below(draw, 4));
    job->range.device = (int32_t)below(draw, 2);
    draw->events[draw->count] = hand_event_make();
    if (below(draw, 2))
        job->range.ready = draw->events[draw->count];
    draw->count++;
    job_add(job);
}

static void draw_step(struct draw *draw)
{
    int i = (int)below(draw, (uint64_t)draw->count);
    struct job *job = &draw->jobs[i];
    switch (below(draw, 6)) {
    case 0: hand_event_pass(draw->events[i]); break;
    case 1:
        if (job->range.limit < job->range.bytes)
            job_raise(job, job->range.limit + 1 +
                               below(draw, job->range.bytes - job->range.limit));
        break;
    case 2:
        if (below(draw, 10) == 0)
            job_cancel(job);
        break;
    case 3: (void)hand_run((int)below(draw, 4), 1 + (int)below(draw, 5)); break;
    default: break;
    }
    now_ns += below(draw, 100000);
    (void)pass();
}

/* What is in flight stays within its bounds, and nothing runs before its event. */
static void draw_check(const struct draw *draw)
{
    uint64_t flying[2][COPIER_WAYS] = {{0}};
    for (int i = 0; i < draw->count; i++) {
        const struct copier_range *range = &draw->jobs[i].range;
        assert_true(range->queued <= range->limit);
        assert_true(range->status != TRYST_OK || range->done <= range->queued);
        flying[range->device][range->way] += range->queued - range->done;
        assert_true(flying[range->device][range->way] <= COPIER_FLIGHT_BYTES);
        if (range->ready && range->queued > 0)
            assert_int_equal(hand_row.event_query(0, range->ready), TRYST_OK);
    }
}

static void draw_run(uint64_t seed)
{
    static struct draw draw;
    draw = (struct draw){.count = 0};
    random_seed(&draw.random, seed);
    while (draw.count < JOBS_MAX) {
        draw_add(&draw);
        for (uint64_t steps = below(&draw, 30); steps > 0; steps--)
            draw_step(&draw);
        draw_check(&draw);
    }
    for (int i = 0; i < JOBS_MAX; i++) {
        hand_event_pass(draw.events[i]);
        if (!draw.jobs[i].range.ended)
            job_raise(&draw.jobs[i], draw.jobs[i].range.bytes);
    }
    now_ns += COPIER_HELD_NAP_MAX_NS;
    finish();
    for (int i = 0; i < JOBS_MAX; i++) {
        struct copier_range *range = &draw.jobs[i].range;
        if (!range->is_canceled || range->done == range->bytes)
            job_is(&draw.jobs[i], TRYST_OK, range->bytes);
        else
            job_is(&draw.jobs[i], TRYST_E_CANCELED, range->done);
        job_free(&draw.jobs[i]);
        hand_event_free(draw.events[i]);
    }
}

static void test_random(void **state)
{
    uint64_t seed = unit_seed();
    for (uint64_t i = 0; i < unit_cases(12); i++)
        draw_run(seed + i);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_naps),
                                       TEST(test_urgent_first),
                                       TEST(test_turns),
                                       TEST(test_ways),
                                       TEST(test_small),
                                       TEST(test_limit),
                                       TEST(test_ready),
                                       TEST(test_cancel_idle),
                                       TEST(test_cancel_flying),
                                       TEST(test_call_fails),
                                       TEST(test_copy_fails_later),
                                       TEST(test_event_fails_for_a_time),
                                       TEST(test_lost),
                                       TEST(test_lost_piece),
                                       TEST(test_ready_fails),
                                       TEST(test_no_memory),
                                       TEST(test_random)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
