/* SPDX-License-Identifier: Apache-2.0 */
/* Sources are pipes here. Every wait has a limit; one that must not be reached is 20
 * s. */
#include "support/unit.h"

#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "core/os/clock.h"
#include "core/os/poller.h"

#define LONG_NS (20 * NS_PER_S)

/* A pipe with its reading end polled. */
struct reader {
    struct poller_source source;
    struct poller *poller;
    struct reader *removes; /* another reader to remove when called, or NULL */
    int writer, calls;
};

static void reader_called(struct poller_source *source, uint32_t events)
{
    /* source is the first member of the reader */
    struct reader *reader = (struct reader *)(void *)source;
    char bytes[16];
    assert_true(events & EPOLLIN);
    assert_true(read(source->fd, bytes, sizeof bytes) > 0);
    reader->calls++;
    if (reader->removes)
        poller_remove(reader->poller, &reader->removes->source);
}

static void reader_open(struct reader *reader, struct poller *poller)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    *reader = (struct reader){
        .source = {.fd = fds[0], .events = EPOLLIN, .fn = reader_called},
        .poller = poller,
        .writer = fds[1],
    };
    assert_int_equal(poller_add(poller, &reader->source), TRYST_OK);
}

static void reader_feed(struct reader *reader)
{
    assert_int_equal(write(reader->writer, "x", 1), 1);
}

static void reader_close(struct reader *reader)
{
    close(reader->source.fd);
    close(reader->writer);
}

static void a_source_that_is_ready_is_called(void **state)
{
    struct poller poller;
    struct reader a, b;
    assert_int_equal(poller_open(&poller), TRYST_OK);
    reader_open(&a, &poller);
    reader_open(&b, &poller);
    assert_int_equal(poller_run(&poller, 0), 0);
    reader_feed(&a);
    assert_int_equal(poller_run(&poller, LONG_NS), 1);
    assert_int_equal(a.calls, 1);
    assert_int_equal(b.calls, 0);
    assert_int_equal(poller_run(&poller, 0), 0);
    reader_close(&a);
    reader_close(&b);
    poller_close(&poller);
}

static void a_removed_source_is_not_called_in_its_batch_or_later(void **state)
{
    struct poller poller;
    struct reader a, b;
    assert_int_equal(poller_open(&poller), TRYST_OK);
    reader_open(&a, &poller);
    reader_open(&b, &poller);
    a.removes = &b;
    b.removes = &a;
    reader_feed(&a);
    reader_feed(&b);
    for (int i = 0; i < 3; i++)
        (void)poller_run(&poller, 0);
    assert_int_equal(a.calls + b.calls, 1); /* the first one called removed the other */
    reader_close(&a);
    reader_close(&b);
    poller_close(&poller);
}

static void events_can_be_turned_off_and_on(void **state)
{
    struct poller poller;
    struct reader a;
    assert_int_equal(poller_open(&poller), TRYST_OK);
    reader_open(&a, &poller);
    reader_feed(&a);
    assert_int_equal(poller_modify(&poller, &a.source, 0), TRYST_OK);
    assert_int_equal(poller_run(&poller, 0), 0);
    assert_int_equal(poller_modify(&poller, &a.source, EPOLLIN), TRYST_OK);
    assert_int_equal(poller_run(&poller, LONG_NS), 1);
    assert_int_equal(a.calls, 1);
    reader_close(&a);
    poller_close(&poller);
}

static void a_descriptor_that_cannot_be_polled_is_a_status(void **state)
{
    struct poller poller;
    struct poller_source bad = {.fd = -1, .events = EPOLLIN, .fn = reader_called};
    assert_int_equal(poller_open(&poller), TRYST_OK);
    assert_int_equal(poller_add(&poller, &bad), TRYST_E_SYSTEM);
    assert_int_equal(poller_modify(&poller, &bad, EPOLLOUT), TRYST_E_SYSTEM);
    poller_close(&poller);
}

static void a_run_waits_as_long_as_it_was_told(void **state)
{
    struct poller poller;
    assert_int_equal(poller_open(&poller), TRYST_OK);
    uint64_t begin_ns = clock_monotonic_ns();
    assert_int_equal(poller_run(&poller, 3 * NS_PER_MS), 0);
    assert_true(clock_monotonic_ns() - begin_ns >= 3 * NS_PER_MS);
    poller_close(&poller);
}

static void the_timer_wakes_at_its_time_and_once(void **state)
{
    struct poller poller;
    assert_int_equal(poller_open(&poller), TRYST_OK);
    uint64_t at_ns = clock_monotonic_ns() + 2 * NS_PER_MS;
    poller_timer_set(&poller, at_ns);
    assert_int_equal(poller_run(&poller, LONG_NS), 1);
    assert_true(clock_monotonic_ns() >= at_ns);
    assert_int_equal(poller_run(&poller, 5 * NS_PER_MS), 0);
    poller_timer_set(&poller, 1); /* long past: expires at once */
    assert_int_equal(poller_run(&poller, LONG_NS), 1);
    poller_close(&poller);
}

static void a_timer_can_be_moved_and_turned_off(void **state)
{
    struct poller poller;
    assert_int_equal(poller_open(&poller), TRYST_OK);
    poller_timer_set(&poller, clock_monotonic_ns() + LONG_NS);
    poller_timer_set(&poller, clock_monotonic_ns() + NS_PER_MS);
    assert_int_equal(poller_run(&poller, LONG_NS), 1);
    poller_timer_set(&poller, clock_monotonic_ns() + 2 * NS_PER_MS);
    poller_timer_set(&poller, 0);
    assert_int_equal(poller_run(&poller, 5 * NS_PER_MS), 0);
    poller_close(&poller);
}

static void wakes_before_a_run_count_as_one(void **state)
{
    struct poller poller;
    assert_int_equal(poller_open(&poller), TRYST_OK);
    for (int i = 0; i < 5; i++)
        poller_wake(&poller);
    assert_int_equal(poller_run(&poller, LONG_NS), 1);
    assert_int_equal(poller_run(&poller, 0), 0);
    poller_wake(&poller);
    assert_int_equal(poller_run(&poller, LONG_NS), 1);
    poller_close(&poller);
}

enum { WAKERS = 3, WAKES = 3000 };

struct bell {
    struct poller poller;
    _Atomic int rung; /* incremented before each wake */
};

static void *ring(void *arg)
{
    struct bell *bell = arg;
    for (int i = 0; i < WAKES; i++) {
        bell->rung++;
        poller_wake(&bell->poller);
        if (i % 16 == 0)
            sched_yield();
    }
    return NULL;
}

/* The sleeper reads `rung` only after a run; a lost wake-up shows as an expired limit. */
static void no_wake_is_lost_between_threads(void **state)
{
    struct bell bell = {.rung = 0};
    pthread_t threads[WAKERS];
    assert_int_equal(poller_open(&bell.poller), TRYST_OK);
    for (int i = 0; i < WAKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ring, &bell), 0);
    while (bell.rung < WAKERS * WAKES)
        assert_int_equal(poller_run(&bell.poller, LONG_NS), 1);
    for (int i = 0; i < WAKERS; i++)
        pthread_join(threads[i], NULL);
    poller_close(&bell.poller);
}

static void closing_twice_does_no_harm(void **state)
{
    struct poller poller;
    assert_int_equal(poller_open(&poller), TRYST_OK);
    poller_close(&poller);
    poller_close(&poller);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_source_that_is_ready_is_called),
        cmocka_unit_test(a_removed_source_is_not_called_in_its_batch_or_later),
        cmocka_unit_test(events_can_be_turned_off_and_on),
        cmocka_unit_test(a_descriptor_that_cannot_be_polled_is_a_status),
        cmocka_unit_test(a_run_waits_as_long_as_it_was_told),
        cmocka_unit_test(the_timer_wakes_at_its_time_and_once),
        cmocka_unit_test(a_timer_can_be_moved_and_turned_off),
        cmocka_unit_test(wakes_before_a_run_count_as_one),
        cmocka_unit_test(no_wake_is_lost_between_threads),
        cmocka_unit_test(closing_twice_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
