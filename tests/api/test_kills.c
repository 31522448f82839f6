/* SPDX-License-Identifier: Apache-2.0 */
/* Four ranks exchange 16 MiB with each other, and one is killed at a random moment. Its
 * peers get the death as the cause of their errors, by rank, and exchange with each other
 * without errors.
 *
 * TRYST_TEST_KILLS sets the number of kills. A close after a death, or beside a stopped
 * rank, ends within 2 s. In one more test the victim dies at the
 * worst moment: during the fabric's own copy. */
#include "harness.h"

#include "support/child.h"
#include "support/patience.h"
#include "support/unit.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 4, VICTIM = 3, BYTES = 16 << 20, ROUNDS = 2, LOAD_MAX = 64 };
#define CLOSE_MAX_NS 2000000000ull /* for a close, as tryst.h promises */

struct kill_run {
    uint64_t seed;
    _Atomic(uint32_t) counter;
    pid_t pids[RANKS];
};

/* One rank's state for one peer: the tensor that is sent (the same for all peers), the
 * tensor that is received, and whether the peer is known to be dead. */
struct side {
    char *sent, *received;
    tryst_op *send, *recv;
    bool dead;
};

static void side_start(struct harness_rank *rank, tryst_step *step, int peer,
                       const char *edge, size_t bytes, struct side *side)
{
    side->recv = harness_recv(rank, step, peer, edge, side->received, bytes);
    side->send = harness_send(rank, step, peer, edge, side->sent, bytes);
}

/* True if the operation failed because the victim died. Fail on any other error. */
static bool op_failed_by_death(tryst_op *op, int peer)
{
    tryst_error error = {.struct_size = sizeof error, .text = ""};
    tryst_status status = tryst_wait(op, TRYST_FOREVER);
    if (status != TRYST_OK) {
        CHECK_STATUS(tryst_op_error(op, &error), status);
        if (status != TRYST_E_PEER || peer != VICTIM || error.origin_rank != VICTIM)
            harness_fail(__FILE__, __LINE__, "with rank %d: %s: %s", peer,
                         tryst_status_name(status), error.text);
    }
    tryst_op_release(op);
    return status != TRYST_OK;
}

/* Exchange between all ranks that are not known to be dead. */
static void exchange(struct harness_rank *rank, tryst_step *step, const char *edge,
                     size_t bytes, struct side *sides)
{
    bool asked[RANKS];
    for (int i = 0; i < RANKS; i++) {
        asked[i] = i != rank->rank && !sides[i].dead;
        if (asked[i])
            side_start(rank, step, i, edge, bytes, &sides[i]);
    }
    for (int i = 0; i < RANKS; i++) {
        if (!asked[i])
            continue;
        bool recv_dead = op_failed_by_death(sides[i].recv, i);
        bool send_dead = op_failed_by_death(sides[i].send, i);
        sides[i].dead = recv_dead || send_dead;
    }
}

/* Kill from another thread, so that the rank dies wherever its main thread is. */
static void *killer_main(void *arg)
{
    uint64_t after_ns = *(const uint64_t *)arg;
    struct timespec time = {.tv_sec = (time_t)(after_ns / 1000000000),
                            .tv_nsec = (long)(after_ns % 1000000000)};
    nanosleep(&time, NULL);
    raise(SIGKILL);
    return NULL;
}

/* Start the killer with a random delay of up to one and a half times the duration of a
 * round. */
static void killer_start(const struct kill_run *run, uint64_t round_ns)
{
    static uint64_t after_ns;
    uint64_t state = run->seed * 0x9E3779B97F4A7C15ull + 1;
    pthread_t thread;
    for (int i = 0; i < 16; i++)
        harness_random(&state);
    after_ns = harness_random(&state) % (round_ns + round_ns / 2 + 1);
    CHECK(pthread_create(&thread, NULL, killer_main, &after_ns) == 0);
}

static void sides_open(struct side *sides)
{
    char *sent = malloc(BYTES);
    CHECK(sent);
    memset(sent, 1, BYTES);
    for (int i = 0; i < RANKS; i++) {
        sides[i] = (struct side){.sent = sent, .received = malloc(BYTES)};
        CHECK(sides[i].received);
        /* pages in the memory, so that all rounds take equally long */
        memset(sides[i].received, 1, BYTES);
    }
}

static void sides_close(struct side *sides)
{
    free(sides[0].sent);
    for (int i = 0; i < RANKS; i++)
        free(sides[i].received);
}

/* Open the sides and a step, and have the victim die within the time of an exchange. */
static tryst_step *victim_begin(struct harness_rank *rank, struct side *sides)
{
    struct kill_run *run = rank->arg;
    tryst_step *step = harness_step(rank, 1);
    sides_open(sides);
    exchange(rank, step, "connect", 8, sides);
    harness_barrier(rank, &run->counter);
    uint64_t begin_ns = harness_now_ns();
    exchange(rank, step, "measured", BYTES, sides);
    if (rank->rank == VICTIM)
        killer_start(run, harness_now_ns() - begin_ns);
    return step;
}

static void kill_main(struct harness_rank *rank)
{
    struct side sides[RANKS];
    char edge[24];
    tryst_step *step = victim_begin(rank, sides);
    for (int i = 0; i < ROUNDS; i++) {
        snprintf(edge, sizeof edge, "round %d", i);
        exchange(rank, step, edge, BYTES, sides);
    }
    /* A rank without the death's notice gets the notice here. The victim never gets
     * here. */
    tryst_op *never =
        harness_recv(rank, step, VICTIM, "never", sides[VICTIM].received, 8);
    CHECK(op_failed_by_death(never, VICTIM));
    harness_step_close(step);
    sides_close(sides);
}

static void test_kills(void **state)
{
    const char *text = getenv("TRYST_TEST_KILLS");
    unsigned kills = text ? (unsigned)strtoul(text, NULL, 10) : 2, failed = 0;
    uint64_t seed = unit_seed();
    for (unsigned i = 0; i < kills; i++) {
        struct kill_run *run = harness_share(sizeof *run);
        run->seed = seed + i;
        struct harness_params params = {
            .size = RANKS, .main = kill_main, .arg = run, .killed = VICTIM};
        if (harness_run(&params) != 0) {
            print_error("kill %u failed: TRYST_TEST_SEED=%llu TRYST_TEST_KILLS=1\n", i,
                        (unsigned long long)run->seed);
            failed++;
        }
        harness_unshare(run, sizeof *run);
    }
    print_message("%u of %u kills failed\n", failed, kills);
    assert_int_equal(failed, 0);
}

static void fault_kills(int signal_number)
{
    (void)signal_number;
    raise(SIGKILL);
}

/* Send from memory whose last half cannot be read. A copy by this process dies there,
 * after its claim on the receiver's memory; a copy by the kernel fails with an error. */
static void victim_copies(struct harness_rank *rank, tryst_step *step)
{
    struct sigaction action = {.sa_handler = fault_kills};
    char *data =
        mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(data != MAP_FAILED);
    CHECK(mprotect(data + BYTES / 2, BYTES / 2, PROT_NONE) == 0);
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    tryst_op *op = harness_send(rank, step, 0, "unreadable", data, BYTES);
    (void)tryst_wait(op, TRYST_FOREVER);
    raise(SIGKILL); /* the kernel copied, and reported the error */
}

static void copy_main(struct harness_rank *rank)
{
    struct kill_run *run = rank->arg;
    struct side sides[RANKS];
    tryst_step *step = harness_step(rank, 1);
    sides_open(sides);
    exchange(rank, step, "connect", 8, sides);
    harness_barrier(rank, &run->counter);
    if (rank->rank == VICTIM)
        victim_copies(rank, step);
    if (rank->rank == 0) {
        tryst_op *op =
            harness_recv(rank, step, VICTIM, "unreadable", sides[VICTIM].received, BYTES);
        CHECK(tryst_wait(op, TRYST_FOREVER) != TRYST_OK);
        tryst_op_release(op);
    }
    sides[VICTIM].dead = true;
    exchange(rank, step, "living", BYTES, sides);
    harness_step_close(step);
    sides_close(sides);
}

static void test_dies_while_it_copies(void **state)
{
    struct kill_run *run = harness_share(sizeof *run);
    struct harness_params params = {
        .size = RANKS, .main = copy_main, .arg = run, .killed = VICTIM};
    int failed = harness_run(&params);
    harness_unshare(run, sizeof *run);
    assert_int_equal(failed, 0);
}

/* ---- closing after a death --------------------------------------------------------- */

/* The limit of a close: CLOSE_MAX_NS. */
static void close_timed(struct harness_rank *rank, tryst_step *step)
{
    uint64_t begin_ns = harness_now_ns();
    tryst_step_close(step, NULL);
    harness_close(rank);
    uint64_t took_ns = harness_now_ns() - begin_ns;
    dprintf(2, "rank %d closed in %.2f s\n", rank->rank, (double)took_ns / 1e9);
    CHECK(took_ns < (harness_is_sanitized() ? patience_ns(CLOSE_MAX_NS) : CLOSE_MAX_NS));
}

/* Exchange with all others until an operation fails, and close at once, amid the
 * transfers with the living. */
static void close_main(struct harness_rank *rank)
{
    struct side sides[RANKS];
    char edge[24];
    bool failed = false;
    tryst_step *step = victim_begin(rank, sides);
    for (int i = 0; !failed; i++) {
        snprintf(edge, sizeof edge, "round %d", i);
        for (int peer = 0; peer < RANKS; peer++)
            if (peer != rank->rank)
                side_start(rank, step, peer, edge, BYTES, &sides[peer]);
        for (int peer = 0; peer < RANKS; peer++) {
            if (peer == rank->rank)
                continue;
            failed = failed || tryst_wait(sides[peer].recv, TRYST_FOREVER) != TRYST_OK ||
                     tryst_wait(sides[peer].send, TRYST_FOREVER) != TRYST_OK;
            tryst_op_release(sides[peer].recv);
            tryst_op_release(sides[peer].send);
        }
    }
    close_timed(rank, step);
    sides_close(sides);
}

/* Start processes that compute, as `stress -c` does. */
static void load_start(pid_t *pids, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if ((pids[i] = child_fork()) == 0)
            for (volatile unsigned spin = 0;; spin++)
                continue;
}

static void load_stop(const pid_t *pids, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
}

/* TRYST_TEST_LOAD: processes that compute meanwhile (0). */
static void test_close(void **state)
{
    uint64_t kills = harness_setting("TRYST_TEST_KILLS", 1), seed = unit_seed();
    uint64_t load = harness_setting("TRYST_TEST_LOAD", 0) % LOAD_MAX, failed = 0;
    pid_t pids[LOAD_MAX];
    load_start(pids, load);
    for (uint64_t i = 0; i < kills; i++) {
        struct kill_run *run = harness_share(sizeof *run);
        run->seed = seed + i;
        struct harness_params params = {.size = RANKS,
                                        .main = close_main,
                                        .arg = run,
                                        .killed = VICTIM,
                                        .timeout_s = 60};
        failed += harness_run(&params) != 0;
        harness_unshare(run, sizeof *run);
    }
    load_stop(pids, load);
    print_message("%u of %u kills failed\n", (unsigned)failed, (unsigned)kills);
    assert_int_equal(failed, 0);
}

/* A rank closes amid a transfer to a stopped rank, which answers nothing. */
static void stopped_main(struct harness_rank *rank)
{
    struct kill_run *run = rank->arg;
    struct side sides[RANKS];
    tryst_step *step = harness_step(rank, 1);
    sides_open(sides);
    exchange(rank, step, "connect", 8, sides);
    run->pids[rank->rank] = getpid();
    harness_barrier(rank, &run->counter);
    if (rank->rank == 0) {
        CHECK(kill(run->pids[VICTIM], SIGSTOP) == 0);
        tryst_op *send = harness_send(rank, step, VICTIM, "x", sides[0].sent, BYTES);
        tryst_op *recv = harness_recv(rank, step, VICTIM, "y", sides[0].received, BYTES);
        (void)tryst_wait(send, 50000000);
        tryst_op_release(send);
        tryst_op_release(recv);
        close_timed(rank, step);
        kill(run->pids[VICTIM], SIGKILL);
    } else if (rank->rank == VICTIM) {
        harness_end(harness_recv(rank, step, 0, "never", sides[0].received, 8),
                    TRYST_E_PEER);
    }
    sides_close(sides);
}

static void test_close_beside_stopped(void **state)
{
    struct kill_run *run = harness_share(sizeof *run);
    struct harness_params params = {.size = RANKS,
                                    .main = stopped_main,
                                    .arg = run,
                                    .killed = VICTIM,
                                    .timeout_s = 60};
    int failed = harness_run(&params);
    harness_unshare(run, sizeof *run);
    assert_int_equal(failed, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_close), cmocka_unit_test(test_close_beside_stopped),
        cmocka_unit_test(test_dies_while_it_copies), cmocka_unit_test(test_kills)};
    return HARNESS_MAIN(argc, argv, tests);
}
