/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that have announced receives and then make no calls do not delay other peers: a
 * stream to another rank uses the whole window that the four of them leave free. */
#include "harness.h"

#include "support/unit.h"

#include <stdatomic.h>

enum { RANKS = 6, SENDER = 0, TAKER = 5, TENSORS = 16, AWAY_MS = 15000 };
/* Each of the four announces twice a peer's window; the stream is several times the
 * rail's window. */
enum { WANTED_BYTES = 8 << 20, STREAM_BYTES = 8 << 20 };

struct shared {
    _Atomic(uint32_t) counter;
    _Atomic(bool) streamed; /* the stream is complete */
};

static void warm_up(struct harness_rank *rank, tryst_step *step)
{
    char byte = 0;
    if (rank->rank != SENDER) {
        harness_end(harness_recv(rank, step, SENDER, "warm", &byte, 1), TRYST_OK);
        return;
    }
    for (int i = 1; i < RANKS; i++)
        harness_end(harness_send(rank, step, i, "warm", &byte, 1), TRYST_OK);
}

/* Announce a receive, give the WANT time to leave, and then compute without calls until
 * the stream is complete. */
static void stay_away(struct harness_rank *rank, tryst_step *step, struct shared *shared)
{
    char *data = calloc(1, WANTED_BYTES);
    tryst_op *recv = harness_recv(rank, step, SENDER, "wanted", data, WANTED_BYTES);
    CHECK_STATUS(tryst_wait(recv, 100000000), TRYST_E_TIMEOUT);
    harness_barrier(rank, &shared->counter);
    uint64_t begin_ns = harness_now_ns();
    while (!atomic_load(&shared->streamed) &&
           harness_now_ns() - begin_ns < AWAY_MS * UINT64_C(1000000))
        harness_sleep_ms(5);
    CHECK(atomic_load(&shared->streamed));
    harness_end(recv, TRYST_OK);
    free(data);
}

static void send_all(struct harness_rank *rank, tryst_step *step, struct shared *shared)
{
    char *data = calloc(1, STREAM_BYTES);
    tryst_op *wanted[RANKS] = {0}, *stream[TENSORS];
    harness_barrier(rank, &shared->counter);
    for (int i = 1; i < TAKER; i++)
        wanted[i] = harness_send(rank, step, i, "wanted", data, WANTED_BYTES);
    CHECK_STATUS(tryst_wait(wanted[1], 200000000), TRYST_E_TIMEOUT);
    for (int i = 0; i < TENSORS; i++)
        stream[i] = harness_send(rank, step, TAKER, "stream", data, STREAM_BYTES);
    for (int i = 0; i < TENSORS; i++)
        harness_end(stream[i], TRYST_OK);
    atomic_store(&shared->streamed, true);
    for (int i = 1; i < TAKER; i++)
        harness_end(wanted[i], TRYST_OK);
    free(data);
}

static void take_all(struct harness_rank *rank, tryst_step *step, struct shared *shared)
{
    char *data = calloc(1, STREAM_BYTES);
    harness_barrier(rank, &shared->counter);
    for (int i = 0; i < TENSORS; i++)
        harness_end(harness_recv(rank, step, SENDER, "stream", data, STREAM_BYTES),
                    TRYST_OK);
    free(data);
}

static void away_main(struct harness_rank *rank)
{
    struct shared *shared = rank->arg;
    tryst_step *step = harness_step(rank, 1);
    warm_up(rank, step);
    if (rank->rank == SENDER)
        send_all(rank, step, shared);
    else if (rank->rank == TAKER)
        take_all(rank, step, shared);
    else
        stay_away(rank, step, shared);
    harness_step_close(step);
    harness_barrier(rank, &shared->counter);
}

static void test_away(void **state)
{
    struct shared *shared = harness_share(sizeof *shared);
    struct harness_params params = {
        .size = RANKS, .main = away_main, .arg = shared, .timeout_s = 40};
    int failed = harness_run(&params);
    harness_unshare(shared, sizeof *shared);
    assert_int_equal(failed, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_away)};
    return HARNESS_MAIN(argc, argv, tests);
}
