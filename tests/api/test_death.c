/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that are killed or stopped. An operation that needs a dead rank fails soon and
 * names that rank; all others go on. A stopped rank is not declared dead:
 * TRYST_TEST_STOP_MS sets how long it is stopped. */
#include "harness.h"

#include "support/patience.h"
#include "support/unit.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 3, VICTIM = 2, BYTES = 1 << 20 };

struct death {
    _Atomic(uint32_t) counter;
    _Atomic(int) pids[RANKS];
    _Atomic(int) orphan; /* pid of the victim's child, which outlives the victim */
    _Atomic(bool) victim_is_dead;
    bool forks;
    uint64_t after_us;
};

/* Exchange a message between all pairs of ranks under one edge; each peer has its own
 * buffers. */
static void exchange(struct harness_rank *rank, tryst_step *step, const char *edge,
                     int ranks_count)
{
    char *data = malloc(2 * RANKS * (size_t)BYTES);
    tryst_op *ops[2 * RANKS] = {NULL};
    for (int i = 0; i < ranks_count; i++) {
        if (i == rank->rank)
            continue;
        ops[2 * i] =
            harness_recv(rank, step, i, edge, data + 2 * (size_t)i * BYTES, BYTES);
        ops[2 * i + 1] =
            harness_send(rank, step, i, edge, data + (2 * (size_t)i + 1) * BYTES, BYTES);
    }
    for (int i = 0; i < 2 * ranks_count; i++)
        if (ops[i])
            harness_end(ops[i], TRYST_OK);
    free(data);
}

static void victim_dies(struct death *death)
{
    if (death->forks) {
        pid_t pid = fork();
        if (pid == 0)
            for (;;)
                pause();
        atomic_store(&death->orphan, pid);
    }
    atomic_fetch_add(&death->counter, 1);
    raise(SIGKILL);
}

static void killed_main(struct harness_rank *rank)
{
    struct death *death = rank->arg;
    char *data = calloc(4, BYTES), text[16];
    tryst_step *step = harness_step(rank, 1);
    exchange(rank, step, "before", RANKS);
    tryst_op *ops[4] = {NULL};
    if (rank->rank == VICTIM) {
        while (atomic_load(&death->counter) < RANKS - 1) {
            /* the messages that the others still wait for may leave only now */
            tryst_progress(rank->ctx);
            harness_sleep_ms(1);
        }
        victim_dies(death);
    }
    ops[0] = harness_recv(rank, step, VICTIM, "never", data, BYTES);
    ops[1] = harness_send(rank, step, VICTIM, "never", data + BYTES, BYTES);
    ops[2] = harness_recv(rank, step, VICTIM, "never small", data + 2 * BYTES, 8);
    ops[3] = harness_send(rank, step, VICTIM, "never small", data + 3 * BYTES, 8);
    atomic_fetch_add(&death->counter, 1);
    while (atomic_load(&death->counter) < RANKS) {
        tryst_progress(rank->ctx);
        harness_sleep_ms(1);
    }
    uint64_t begin_ns = harness_now_ns();
    snprintf(text, sizeof text, "rank %d", VICTIM);
    for (int i = 0; i < 4; i++) {
        tryst_error error = {.struct_size = sizeof error};
        CHECK_STATUS(tryst_wait(ops[i], TRYST_FOREVER), TRYST_E_PEER);
        CHECK_STATUS(tryst_op_error(ops[i], &error), TRYST_E_PEER);
        CHECK_EQ(error.origin_rank, VICTIM);
        if (!strstr(error.text, text))
            harness_fail(__FILE__, __LINE__, "does not name rank %d: %s", VICTIM,
                         error.text);
        tryst_op_release(ops[i]);
    }
    uint64_t took_ms = (harness_now_ns() - begin_ns) / 1000000;
    /* The documented limit is two seconds; a busy machine gets ten times that. */
    dprintf(2, "rank %d knew after %llu ms\n", rank->rank, (unsigned long long)took_ms);
    CHECK(took_ms < patience_ns(20000));
    memset(data, 1, 4 * (size_t)BYTES); /* the library has released these buffers */
    exchange(rank, step, "after", RANKS - 1);
    harness_step_close(step);
    free(data);
}

static void killed_run(bool forks)
{
    struct death *death = harness_share(sizeof *death);
    death->forks = forks;
    struct harness_params params = {
        .size = RANKS, .main = killed_main, .arg = death, .killed = VICTIM};
    int failed = harness_run(&params);
    pid_t orphan = atomic_load(&death->orphan);
    if (orphan > 0)
        kill(orphan, SIGKILL);
    harness_unshare(death, sizeof *death);
    assert_int_equal(failed, 0);
}

static void test_killed(void **state)
{
    killed_run(false);
}

/* A child that inherited the victim's descriptors by plain fork lives on; the rank still
 * counts as dead. */
static void test_killed_with_a_living_child(void **state)
{
    killed_run(true);
}

static void log_no_death(void *arg, tryst_log_level level, const char *line)
{
    if (strstr(line, "died"))
        harness_fail(__FILE__, __LINE__, "a living rank was declared dead: %s", line);
}

/* Ranks leave in good order before others have a link to them, some of them at once. */
static void leaver_main(struct harness_rank *rank)
{
    struct death *death = rank->arg;
    char data[8] = {0};
    tryst_error error = {.struct_size = sizeof error};
    harness_open(rank);
    tryst_step *step = harness_step(rank, 1);
    if (rank->rank == VICTIM) {
        harness_step_close(step);
        harness_close(rank);
        atomic_store(&death->victim_is_dead, true);
        return;
    }
    while (rank->rank == 1 && !atomic_load(&death->victim_is_dead))
        harness_sleep_ms(1); /* rank 1 makes no call until rank 2 has left */
    for (int i = 0; i < 2; i++) {
        tryst_op *op = harness_recv(rank, step, VICTIM, "never", data, sizeof data);
        CHECK_STATUS(tryst_wait(op, TRYST_FOREVER), TRYST_E_LEFT);
        CHECK_STATUS(tryst_op_error(op, &error), TRYST_E_LEFT);
        if (!strstr(error.text, "rank 2 has left"))
            harness_fail(__FILE__, __LINE__, "the text does not report the leave: %s",
                         error.text);
        tryst_op_release(op);
    }
    harness_step_close(step);
    harness_barrier(rank, &death->counter);
    harness_close(rank);
}

static void test_left(void **state)
{
    for (int i = 0; i < 3; i++) {
        struct death *death = harness_share(sizeof *death);
        /* counts for the victim, which does not come to the barrier */
        atomic_store(&death->counter, 1);
        struct harness_params params = {.size = RANKS,
                                        .main = leaver_main,
                                        .arg = death,
                                        .no_group = true,
                                        .log_fn = log_no_death};
        int failed = harness_run(&params);
        harness_unshare(death, sizeof *death);
        assert_int_equal(failed, 0);
    }
}

/* The victim dies some time after it has joined, while all ranks connect. Whatever status
 * the fabric reports, the others declare the victim dead and connect to each other. */
static void connecting_main(struct harness_rank *rank)
{
    struct death *death = rank->arg;
    char *data = calloc(2, BYTES);
    tryst_step *step = harness_step(rank, 1);
    tryst_op *ops[2];
    if (rank->rank == VICTIM) {
        uint64_t end_ns = harness_now_ns() + death->after_us * 1000;
        for (int i = 0; i < RANKS - 1; i++)
            harness_send(rank, step, i, "never", data, BYTES);
        while (harness_now_ns() < end_ns)
            tryst_progress(rank->ctx);
        raise(SIGKILL);
    }
    ops[0] = harness_send(rank, step, VICTIM, "large", data, BYTES);
    ops[1] = harness_recv(rank, step, VICTIM, "small", data + BYTES, 8);
    exchange(rank, step, "living", RANKS - 1);
    for (int i = 0; i < 2; i++) {
        tryst_error error = {.struct_size = sizeof error};
        CHECK_STATUS(tryst_wait(ops[i], TRYST_FOREVER), TRYST_E_PEER);
        CHECK_STATUS(tryst_op_error(ops[i], &error), TRYST_E_PEER);
        CHECK_EQ(error.origin_rank, VICTIM);
        if (!strstr(error.text, "rank 2 died") && !strstr(error.text, "rank 2 was lost"))
            harness_fail(__FILE__, __LINE__, "the text does not report a death: %s",
                         error.text);
        tryst_op_release(ops[i]);
    }
    harness_step_close(step);
    free(data);
}

/* TRYST_TEST_DEATHS sets the number of deaths. */
static void test_killed_connecting(void **state)
{
    const char *text = getenv("TRYST_TEST_DEATHS");
    unsigned deaths = text ? (unsigned)strtoul(text, NULL, 10) : 5;
    for (unsigned i = 0; i < deaths; i++) {
        struct death *death = harness_share(sizeof *death);
        death->after_us = (uint64_t)i * i * 37 % 20000;
        struct harness_params params = {
            .size = RANKS, .main = connecting_main, .arg = death, .killed = VICTIM};
        int failed = harness_run(&params);
        harness_unshare(death, sizeof *death);
        assert_int_equal(failed, 0);
    }
}

static unsigned stop_ms(void)
{
    const char *text = getenv("TRYST_TEST_STOP_MS");
    return text ? (unsigned)strtoul(text, NULL, 10) : 5000;
}

static void stopped_main(struct harness_rank *rank)
{
    struct death *death = rank->arg;
    tryst_step *step = harness_step(rank, 1);
    exchange(rank, step, "before", RANKS);
    if (rank->rank == VICTIM)
        atomic_store(&death->pids[VICTIM], getpid());
    harness_barrier(rank, &death->counter);
    if (rank->rank == 0) {
        pid_t pid = atomic_load(&death->pids[VICTIM]), waker;
        CHECK(kill(pid, SIGSTOP) == 0);
        waker = fork();
        if (waker == 0) {
            harness_sleep_ms(stop_ms());
            kill(pid, SIGCONT);
            _exit(0);
        }
    }
    exchange(rank, step, "after", RANKS);
    CHECK_EQ(harness_counter(rank->ctx, "peers_given_up"), 0);
    harness_barrier(rank, &death->counter);
    harness_step_close(step);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
}

static void test_stopped(void **state)
{
    struct death *death = harness_share(sizeof *death);
    struct harness_params params = {.size = RANKS,
                                    .main = stopped_main,
                                    .arg = death,
                                    .timeout_s = stop_ms() / 1000 + 20};
    int failed = harness_run(&params);
    harness_unshare(death, sizeof *death);
    assert_int_equal(failed, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_killed_with_a_living_child),
        cmocka_unit_test(test_left),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_killed_connecting),
    };
    return HARNESS_MAIN(argc, argv, tests);
}
