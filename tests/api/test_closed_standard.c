/* SPDX-License-Identifier: Apache-2.0 */
/* A program closes its descriptors 0, 1 and 2 (one of them, or all) and still writes to
 * them. It closes them before tryst_open, before tryst_group_open, before the first
 * operation, or after it.
 *
 * What must hold: each of these writes fails with EBADF, none reaches a descriptor of the
 * library, no rank dies of SIGPIPE, and all tensors arrive. Over shm the numbers stay
 * closed. Over a fabric placeholders keep its sockets off them until tryst_close. */
#include "harness.h"

#include "support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SMALL = 64, LARGE = 2 << 20, STEPS = 4, SAVED_FD = 100, WRITE_US = 20 };

enum moment { BEFORE_OPEN, BEFORE_GROUP, BEFORE_FIRST, AFTER_FIRST, MOMENTS };

struct trial {
    unsigned closed; /* a bit for each number */
    enum moment moment;
    _Atomic(uint32_t) counter;
};

/* Report a failure on the duplicate of descriptor 2 that was made before the close. */
#define HOLDS(condition)                                                          \
    do {                                                                          \
        if (!(condition)) {                                                       \
            dup2(SAVED_FD, STDERR_FILENO);                                        \
            harness_fail(__FILE__, __LINE__, "%s (errno %d)", #condition, errno); \
        }                                                                         \
    } while (0)

struct writer {
    pthread_t thread;
    unsigned closed;
    _Atomic(bool) ends;
    bool runs;
    _Atomic(uint64_t) writes;
};

static void *writer_main(void *arg)
{
    static const char text[] = "warning: a line that the program writes to its log\n";
    struct writer *writer = arg;
    while (!atomic_load(&writer->ends)) {
        for (int fd = 0; fd < 3; fd++) {
            if (!(writer->closed & 1u << fd))
                continue;
            /* Not write(): TSan would report the program's use of a closed number as a
             * race with the placeholder's open. */
            long wrote = syscall(SYS_write, fd, text, sizeof text - 1);
            HOLDS(wrote < 0 && errno == EBADF);
            atomic_fetch_add(&writer->writes, 1);
        }
        usleep(WRITE_US);
    }
    return NULL;
}

/* Return after the first write: on a busy machine the thread might begin only after the
 * last call of the library. */
static void writer_start(struct writer *writer, unsigned closed)
{
    writer->closed = closed;
    for (int fd = 0; fd < 3; fd++)
        if (closed & 1u << fd)
            close(fd);
    HOLDS(pthread_create(&writer->thread, NULL, writer_main, writer) == 0);
    writer->runs = true;
    while (atomic_load(&writer->writes) == 0)
        usleep(WRITE_US);
}

/* Fail if a closed number is a descriptor of the library or of a fabric. */
static void numbers_check(const struct writer *writer, bool placeholders)
{
    for (int fd = 0; fd < 3 && writer->runs; fd++) {
        int flags = writer->closed & 1u << fd ? fcntl(fd, F_GETFL) : -1;
        HOLDS(flags < 0 || (placeholders && (flags & O_PATH)));
    }
}

static void exchange(struct harness_rank *rank, uint64_t id)
{
    static char from[2][LARGE], to[2][LARGE];
    static const size_t sizes[2] = {SMALL, LARGE};
    tryst_step *step = harness_step(rank, id);
    tryst_op *ops[4];
    for (int i = 0; i < 2; i++) {
        const char *edge = i ? "large" : "small";
        harness_fill(from[i], sizes[i], id + (uint64_t)rank->rank);
        ops[2 * i] = harness_send(rank, step, 1 - rank->rank, edge, from[i], sizes[i]);
        ops[2 * i + 1] = harness_recv(rank, step, 1 - rank->rank, edge, to[i], sizes[i]);
    }
    for (int i = 0; i < 4; i++) {
        tryst_error error = {.struct_size = sizeof error, .text = ""};
        tryst_status status = tryst_wait(ops[i], TRYST_FOREVER);
        if (status != TRYST_OK) {
            dup2(SAVED_FD, STDERR_FILENO);
            (void)tryst_op_error(ops[i], &error);
            harness_fail(__FILE__, __LINE__, "operation %d: %s", i, error.text);
        }
        tryst_op_release(ops[i]);
    }
    for (int i = 0; i < 2; i++)
        HOLDS(harness_mismatch(to[i], sizes[i], id + 1 - (uint64_t)rank->rank) ==
              SIZE_MAX);
    harness_step_close(step);
}

static void rank_main(struct harness_rank *rank)
{
    struct trial *trial = rank->arg;
    struct writer writer = {.runs = false};
    tryst_config *config = harness_config(rank);
    tryst_open_params open = {.struct_size = sizeof open, .config = config};
    signal(SIGPIPE, SIG_DFL);
    CHECK(dup2(STDERR_FILENO, SAVED_FD) == SAVED_FD);
    fcntl(SAVED_FD, F_SETFD, FD_CLOEXEC);
    for (int moment = 0; moment < MOMENTS; moment++) {
        if (trial->moment == (enum moment)moment)
            writer_start(&writer, trial->closed);
        if (moment == BEFORE_OPEN)
            HOLDS(tryst_open(&open, &rank->ctx) == TRYST_OK);
        else if (moment == BEFORE_GROUP)
            HOLDS(tryst_group_open(rank->ctx, NULL, &rank->group) == TRYST_OK);
        else
            for (uint64_t i = 0; i < STEPS; i++)
                exchange(rank, 1 + i + (moment == AFTER_FIRST) * STEPS);
        numbers_check(&writer, moment >= BEFORE_FIRST && harness_over_fabric());
    }
    harness_barrier(rank, &trial->counter);
    tryst_group_close(rank->group);
    tryst_close(rank->ctx);
    atomic_store(&writer.ends, true);
    pthread_join(writer.thread, NULL);
    numbers_check(&writer, false);
    tryst_config_close(config);
}

static void trial_run(unsigned closed, enum moment moment)
{
    struct trial *trial = harness_share(sizeof *trial);
    trial->closed = closed;
    trial->moment = moment;
    struct harness_params params = {
        .size = 2, .main = rank_main, .arg = trial, .no_group = true, .timeout_s = 30};
    int failed = harness_run(&params);
    harness_unshare(trial, sizeof *trial);
    if (failed)
        fail_msg("closed 0x%x at moment %d", closed, moment);
}

static void test_error_alone(void **state)
{
    for (int moment = 0; moment < MOMENTS; moment++)
        trial_run(1u << STDERR_FILENO, (enum moment)moment);
}

static void test_all(void **state)
{
    for (int moment = 0; moment < MOMENTS; moment++)
        trial_run(7, (enum moment)moment);
}

static void test_input_or_output(void **state)
{
    trial_run(1u << STDIN_FILENO, BEFORE_OPEN);
    trial_run(1u << STDOUT_FILENO, BEFORE_GROUP);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_error_alone),
                                       cmocka_unit_test(test_all),
                                       cmocka_unit_test(test_input_or_output)};
    return HARNESS_MAIN(argc, argv, tests);
}
