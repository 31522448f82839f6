/* SPDX-License-Identifier: Apache-2.0 */
/* Four of six ranks are stopped (SIGSTOP) with posted receives that have met their sends.
 * The stream to the sixth rank must be as fast as with the four stopped and no operations
 * towards them. The two measurements alternate, and their medians are compared. */
#include "harness.h"

#include "support/unit.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 6, SENDER = 0, TAKER = 5, ROUNDS = 9, TENSORS = 24 };
/* WANTED_BYTES is more than a peer's window and four times the rail's; STREAM_BYTES is
 * several times the rail's window. */
enum { WANTED_BYTES = 32 << 20, STREAM_BYTES = 8 << 20 };
#define LEAST 0.95

struct shared {
    _Atomic(uint32_t) counter;
    _Atomic(pid_t) pids[RANKS];
};

static int by_size(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof *values, by_size);
    return values[ROUNDS / 2];
}

static void all_signal(const struct shared *shared, int number)
{
    for (int i = 1; i < TAKER; i++)
        CHECK(kill(atomic_load(&shared->pids[i]), number) == 0);
}

/* Return the rate of a stream to the receiver, in bytes per second. */
static double stream(struct harness_rank *rank, tryst_step *step, char *data)
{
    tryst_op *ops[TENSORS];
    uint64_t begin_ns = harness_now_ns();
    for (int i = 0; i < TENSORS; i++)
        ops[i] = harness_send(rank, step, TAKER, "stream", data, STREAM_BYTES);
    for (int i = 0; i < TENSORS; i++)
        harness_end(ops[i], TRYST_OK);
    return (double)TENSORS * STREAM_BYTES / (double)(harness_now_ns() - begin_ns) * 1e9;
}

static void sender_round(struct harness_rank *rank, tryst_step *step,
                         struct shared *shared, char *data, double rates[2])
{
    tryst_op *wanted[RANKS];
    harness_barrier(rank, &shared->counter);
    all_signal(shared, SIGSTOP); /* so that they use no processor in either measurement */
    rates[0] = stream(rank, step, data);
    all_signal(shared, SIGCONT);
    harness_barrier(rank, &shared->counter);
    harness_barrier(rank, &shared->counter); /* the receives are posted */
    all_signal(shared, SIGSTOP);
    for (int i = 1; i < TAKER; i++)
        wanted[i] = harness_send(rank, step, i, "wanted", data, WANTED_BYTES);
    CHECK_STATUS(tryst_wait(wanted[1], 100000000), TRYST_E_TIMEOUT);
    rates[1] = stream(rank, step, data);
    all_signal(shared, SIGCONT);
    for (int i = 1; i < TAKER; i++)
        harness_end(wanted[i], TRYST_OK);
}

static void sender(struct harness_rank *rank, tryst_step *step, struct shared *shared)
{
    char *data = calloc(1, WANTED_BYTES);
    double before[ROUNDS], stopped[ROUNDS], rates[2];
    sender_round(rank, step, shared, data, rates); /* warms up */
    for (int i = 0; i < ROUNDS; i++) {
        sender_round(rank, step, shared, data, rates);
        before[i] = rates[0];
        stopped[i] = rates[1];
    }
    double ratio = median(stopped) / median(before);
    printf("%s: %.0f MB/s, with receives of four stopped ones %.0f: %.3f\n",
           harness_mode(), median(before) * 1e-6, median(stopped) * 1e-6, ratio);
    fflush(stdout);
    CHECK(ratio >= LEAST);
    free(data);
}

static void taker(struct harness_rank *rank, tryst_step *step, struct shared *shared)
{
    char *data = calloc(1, STREAM_BYTES);
    for (int i = 0; i <= ROUNDS; i++) {
        harness_barrier(rank, &shared->counter);
        for (int k = 0; k < 2 * TENSORS; k++) {
            harness_end(harness_recv(rank, step, SENDER, "stream", data, STREAM_BYTES),
                        TRYST_OK);
            if (k == TENSORS - 1) {
                harness_barrier(rank, &shared->counter);
                harness_barrier(rank, &shared->counter);
            }
        }
    }
    free(data);
}

static void sleeper(struct harness_rank *rank, tryst_step *step, struct shared *shared)
{
    char *data = calloc(1, WANTED_BYTES);
    atomic_store(&shared->pids[rank->rank], getpid());
    for (int i = 0; i <= ROUNDS; i++) {
        harness_barrier(rank, &shared->counter);
        harness_barrier(rank, &shared->counter);
        tryst_op *recv = harness_recv(rank, step, SENDER, "wanted", data, WANTED_BYTES);
        CHECK_STATUS(tryst_wait(recv, 20000000), TRYST_E_TIMEOUT);
        harness_barrier(rank, &shared->counter);
        harness_end(recv, TRYST_OK);
    }
    free(data);
}

static void stopped_main(struct harness_rank *rank)
{
    struct shared *shared = rank->arg;
    tryst_step *step = harness_step(rank, 1);
    if (rank->rank == SENDER)
        sender(rank, step, shared);
    else if (rank->rank == TAKER)
        taker(rank, step, shared);
    else
        sleeper(rank, step, shared);
    harness_barrier(rank, &shared->counter);
    harness_step_close(step);
}

static void test_stopped(void **state)
{
    struct shared *shared = harness_share(sizeof *shared);
    struct harness_params params = {.size = RANKS, .main = stopped_main, .arg = shared};
    int failed = harness_run(&params);
    harness_unshare(shared, sizeof *shared);
    assert_int_equal(failed, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stopped)};
    return HARNESS_MAIN(argc, argv, tests);
}
