/* SPDX-License-Identifier: Apache-2.0 */
/* Both queues alone and under threads; the threaded tests are meant for ThreadSanitizer
 * too. */
#include "support/unit.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

#include "core/memory/alloc.h"
#include "core/memory/mpsc.h"

enum { PRODUCERS = 4, EACH = 20000 };

struct message {
    struct mpsc_node node;
    int producer, number;
};

static struct message messages[PRODUCERS][EACH];

/* ---- unbounded --------------------------------------------------------------------- */

static void a_drain_gives_all_in_order(void **state)
{
    struct mpsc queue;
    struct mpsc_node nodes[5];
    mpsc_init(&queue);
    assert_true(mpsc_empty(&queue));
    assert_null(mpsc_drain(&queue));
    for (int i = 0; i < 5; i++)
        assert_true(mpsc_push(&queue, &nodes[i]) == (i == 0));
    assert_false(mpsc_empty(&queue));
    struct mpsc_node *node = mpsc_drain(&queue);
    for (int i = 0; i < 5; i++, node = node->next)
        assert_ptr_equal(node, &nodes[i]);
    assert_null(node);
    assert_true(mpsc_empty(&queue));
    /* empty again: the next push must wake again */
    assert_true(mpsc_push(&queue, &nodes[0]));
    assert_ptr_equal(mpsc_drain(&queue), &nodes[0]);
}

struct traffic {
    struct mpsc queue;
    sem_t wake;
    _Atomic int sleeping; /* seq_cst: the pattern in mpsc.h */
    _Atomic uint64_t found_empty;
    bool spare_wakes;
};

struct producer {
    struct traffic *traffic;
    int index;
};

static void *produce(void *arg)
{
    struct producer *producer = arg;
    struct traffic *traffic = producer->traffic;
    for (int i = 0; i < EACH; i++) {
        struct message *message = &messages[producer->index][i];
        message->producer = producer->index;
        message->number = i;
        bool was_empty = mpsc_push(&traffic->queue, &message->node);
        traffic->found_empty += was_empty;
        if (was_empty && (!traffic->spare_wakes || traffic->sleeping))
            sem_post(&traffic->wake);
        if (i % 64 == 0)
            sched_yield();
    }
    return NULL;
}

/* Sleep until woken; a lost wake-up exceeds the time limit. */
static void sleep_until_woken(struct traffic *traffic)
{
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 20;
    traffic->sleeping = 1;
    if (mpsc_empty(&traffic->queue)) {
        int failed;
        while ((failed = sem_timedwait(&traffic->wake, &limit)) && errno == EINTR)
            ;
        assert_int_equal(failed, 0);
    }
    traffic->sleeping = 0;
}

/* Take everything that the producers send, sleeping in between, and check the order. */
static void consume(struct traffic *traffic, uint64_t *drains_p)
{
    int next[PRODUCERS] = {0};
    for (int left = PRODUCERS * EACH; left > 0;) {
        struct mpsc_node *node = mpsc_drain(&traffic->queue);
        if (!node) {
            sleep_until_woken(traffic);
            continue;
        }
        ++*drains_p;
        for (; node; node = node->next, left--) {
            struct message *message = (struct message *)(void *)node;
            assert_int_equal(message->number, next[message->producer]++);
        }
    }
}

static void many_to_one(bool spare_wakes)
{
    struct traffic traffic = {.spare_wakes = spare_wakes};
    struct producer producers[PRODUCERS];
    pthread_t threads[PRODUCERS];
    uint64_t drains = 0;
    mpsc_init(&traffic.queue);
    sem_init(&traffic.wake, 0, 0);
    for (int i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct producer){.traffic = &traffic, .index = i};
        assert_int_equal(pthread_create(&threads[i], NULL, produce, &producers[i]), 0);
    }
    consume(&traffic, &drains);
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(threads[i], NULL);
    assert_true(mpsc_empty(&traffic.queue));
    /* exactly one push of each batch found the queue empty */
    assert_int_equal(drains, traffic.found_empty);
    sem_destroy(&traffic.wake);
}

static void each_batch_wakes_once(void **state)
{
    many_to_one(false);
}

static void wakes_spared_by_the_flag_are_never_missed(void **state)
{
    many_to_one(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_drain_gives_all_in_order),
        cmocka_unit_test(each_batch_wakes_once),
        cmocka_unit_test(wakes_spared_by_the_flag_are_never_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
