/* SPDX-License-Identifier: Apache-2.0 */
/* The clock of the tests' own waits (support/patience.h): it runs slower while more
 * threads run than there are processors, and a stopped test counts as PATIENCE_STEP at
 * most. */
#include "support/patience.h"
#include "support/unit.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS_PER_CPU = 4 };

static atomic_bool stop;

static void *spin(void *arg)
{
    while (!atomic_load(&stop))
        continue;
    return NULL;
}

static void busy_machine_is_slower(void **state)
{
    pthread_t threads[THREADS_PER_CPU * 64];
    cpu_set_t cpus;
    assert_int_equal(sched_getaffinity(0, sizeof cpus, &cpus), 0);
    int count = THREADS_PER_CPU * (CPU_COUNT(&cpus) < 64 ? CPU_COUNT(&cpus) : 64);
    if (patience_load_fd < 0 || CPU_COUNT(&cpus) > 64)
        skip();
    for (int i = 0; i < count; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, spin, NULL), 0);
    struct patience patience = patience_begin();
    uint64_t begin_ns = patience_now_ns(), most_ns = 0;
    double slowest = 1;
    while (most_ns < 5 * PATIENCE_STEP) {
        usleep(1000);
        double slower = patience_slower();
        slowest = slower > slowest ? slower : slowest;
        most_ns = patience_now_ns() - begin_ns;
    }
    uint64_t spent_ns = patience_spent_ns(&patience);
    atomic_store(&stop, true);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    assert_true(slowest >= THREADS_PER_CPU / 2.0 && slowest <= PATIENCE_SLOWER_MAX);
    assert_true(spent_ns <= PATIENCE_STEP);
}

static void standing_still_is_one_step(void **state)
{
    struct patience patience = patience_begin();
    usleep(3 * PATIENCE_STEP / 1000);
    uint64_t spent_ns = patience_spent_ns(&patience);
    assert_true(spent_ns <= PATIENCE_STEP);
    assert_true(spent_ns >= (uint64_t)(PATIENCE_STEP / PATIENCE_SLOWER_MAX));
}

static void every_wait_ends(void **state)
{
    struct patience patience = patience_begin();
    uint64_t begin_ns = patience_now_ns();
    while (patience_spent_ns(&patience) < PATIENCE_STEP / 2)
        usleep(1000);
    assert_true(patience_now_ns() - begin_ns >= PATIENCE_STEP / 2);
    assert_true(patience_ns(PATIENCE_STEP) >= PATIENCE_STEP);
    assert_true(patience_ns(PATIENCE_STEP) <=
                (uint64_t)PATIENCE_SLOWER_MAX * PATIENCE_STEP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(busy_machine_is_slower),
        cmocka_unit_test(standing_still_is_one_step),
        cmocka_unit_test(every_wait_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
