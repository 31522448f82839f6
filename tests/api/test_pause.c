/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that makes no progress for longer than one of the library's time-outs first
 * reads everything that has arrived; only then may a time-out expire. */
#include "harness.h"

#include "support/unit.h"

#include <stdatomic.h>

/* PAUSE_MS: more than two ticks */
enum { RANKS = 3, BYTES = 100000, PAUSE_MS = 1300, TURNS = 100 };

struct shared {
    _Atomic(uint32_t) counter;
    _Atomic(bool) paused;
    _Atomic(uint32_t) turns; /* turns of rank 2 */
};

/* Rank 1 begins to connect to rank 2, from which nothing has arrived yet, and then
 * computes for so long that rank 2's answer arrives meanwhile. */
static void pause_main(struct harness_rank *rank)
{
    struct shared *shared = rank->arg;
    char *data = calloc(1, BYTES);
    tryst_step *step = harness_step(rank, 1);
    harness_barrier(rank, &shared->counter);
    if (rank->rank == 1) {
        tryst_op *send = harness_send(rank, step, 2, "late", data, BYTES);
        uint32_t before = atomic_load(&shared->turns);
        harness_sleep_ms(PAUSE_MS);
        while (atomic_load(&shared->turns) < before + TURNS)
            harness_sleep_ms(1);
        atomic_store(&shared->paused, true);
        harness_end(send, TRYST_OK);
    }
    while (!atomic_load(&shared->paused)) {
        tryst_progress(rank->ctx);
        harness_sleep_ms(1);
        if (rank->rank == 2)
            atomic_fetch_add(&shared->turns, 1);
    }
    if (rank->rank == 2)
        harness_end(harness_recv(rank, step, 1, "late", data, BYTES), TRYST_OK);
    harness_step_close(step);
    harness_barrier(rank, &shared->counter);
    free(data);
}

static void test_connect_after_a_pause(void **state)
{
    static const char *const config[] = {"connect_timeout", "1s", NULL};
    struct shared *shared = harness_share(sizeof *shared);
    struct harness_params params = {
        .size = RANKS, .main = pause_main, .arg = shared, .config = config};
    int failed = harness_run(&params);
    harness_unshare(shared, sizeof *shared);
    assert_int_equal(failed, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_connect_after_a_pause)};
    return HARNESS_MAIN(argc, argv, tests);
}
