/* SPDX-License-Identifier: Apache-2.0 */
/* A fabric that takes seconds to start (support/slow_start.h): waits and deadlines end in
 * time, other peers are served, closes end, and neither rank counts the start as silence
 * of the other. */
#include "harness.h"

#include "support/slow_start.h"
#include "support/unit.h"

#include <fcntl.h>
#include <net/if.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tryst/coll.h>
#include <unistd.h>

#define MS 1000000ull

enum { START_MS = 2000, WAIT_MS = 100, LATE_MS = 50 };

static uint64_t since_ms(uint64_t begin_ns)
{
    return (harness_now_ns() - begin_ns) / MS;
}

static void run_with(const struct harness_params *model, void *arg)
{
    struct harness_params params = *model;
    _Atomic(uint32_t) *counter = harness_share(sizeof *counter);
    params.arg = arg ? arg : (void *)counter;
    int failed = harness_run(&params);
    harness_unshare((void *)counter, sizeof *counter);
    slow_start_ms = 0;
    slow_start_fails = 0;
    assert_int_equal(failed, 0);
}

/* ---- waits ------------------------------------------------------------------------- */

static void waits_main(struct harness_rank *rank)
{
    int other = 1 - rank->rank;
    char in = 0, out = 7;
    uint64_t late_ms = UINT64_MAX, begin_ns = harness_now_ns();
    tryst_step *step = harness_step(rank, 1);
    tryst_op *recv = harness_recv(rank, step, other, "x", &in, 1);
    tryst_op *send = harness_send(rank, step, other, "x", &out, 1);
    CHECK(since_ms(begin_ns) < START_MS / 2); /* submissions do not wait for the start */
    for (int i = 0; i < 5; i++) {
        uint64_t wait_ns = harness_now_ns();
        CHECK_STATUS(tryst_wait(recv, WAIT_MS * MS), TRYST_E_TIMEOUT);
        uint64_t took_ms = since_ms(wait_ns);
        CHECK(took_ms >= WAIT_MS && took_ms < START_MS / 2);
        late_ms = took_ms - WAIT_MS < late_ms ? took_ms - WAIT_MS : late_ms;
    }
    /* the best of five counts, because the machine may be busy */
    CHECK(late_ms <= LATE_MS);
    harness_end(recv, TRYST_OK);
    harness_end(send, TRYST_OK);
    CHECK(in == 7 && since_ms(begin_ns) >= START_MS - 100);
    harness_step_close(step);
    harness_barrier(rank, rank->arg);
}

/* Warnings of a slow start, of all ranks. */
static _Atomic(int) *slow_warnings;

static void log_count(void *arg, tryst_log_level level, const char *line)
{
    (void)arg;
    fprintf(stderr, "%s\n", line);
    if (level == TRYST_LOG_WARN && strstr(line, " s to start on "))
        atomic_fetch_add(slow_warnings, 1);
}

static void test_waits(void **state)
{
    const struct harness_params params = {
        .size = 2, .main = waits_main, .timeout_s = 40, .log_fn = log_count};
    (void)state;
    slow_warnings = harness_share(sizeof *slow_warnings);
    slow_start_ms = START_MS;
    run_with(&params, NULL);
    int warnings = *slow_warnings;
    harness_unshare((void *)slow_warnings, sizeof *slow_warnings);
    if (!harness_in_lab()) /* both ranks are on one host, and one of them warns */
        assert_int_equal(warnings, 1);
}

/* The error of a collective whose deadline expires while this rank's own fabric starts
 * blames no other rank. */
static void coll_main(struct harness_rank *rank)
{
    tryst_error error = {.struct_size = sizeof error, .text = ""};
    tryst_op_params params = {.struct_size = sizeof params, .deadline_ns = 200 * MS};
    tryst_step *step = harness_step(rank, 1);
    tryst_op *op;
    CHECK_STATUS(tryst_barrier(step, "x", &params, &op), TRYST_OK);
    CHECK_STATUS(tryst_wait(op, TRYST_FOREVER), TRYST_E_DEADLINE);
    CHECK_STATUS(tryst_op_error(op, &error), TRYST_E_DEADLINE);
    if (error.origin_rank == rank->rank &&
        (!strstr(error.text, "fabric") || strstr(error.text, "nothing has come")))
        harness_fail(__FILE__, __LINE__, "%s", error.text);
    tryst_op_release(op);
    harness_step_close(step);
    harness_barrier(rank, rank->arg);
}

static void test_coll(void **state)
{
    const struct harness_params params = {.size = 2, .main = coll_main, .timeout_s = 40};
    (void)state;
    slow_start_ms = START_MS;
    run_with(&params, NULL);
}

static void deadline_main(struct harness_rank *rank)
{
    int other = 1 - rank->rank;
    char in[2] = {0};
    tryst_tensor tensor = harness_tensor(in, 1);
    tryst_op_params params = {.struct_size = sizeof params, .deadline_ns = 200 * MS};
    tryst_step *step = harness_step(rank, 1);
    struct harness_key key = harness_key(rank, other, rank->rank, "x");
    uint64_t begin_ns = harness_now_ns();
    tryst_op *op;
    CHECK_STATUS(tryst_recv(step, key.text, &tensor, &params, &op), TRYST_OK);
    harness_end(op, TRYST_E_DEADLINE);
    CHECK(since_ms(begin_ns) < START_MS - 300);
    harness_step_close(step);
    harness_barrier(rank, rank->arg);
}

static void test_deadlines(void **state)
{
    const struct harness_params params = {
        .size = 2, .main = deadline_main, .timeout_s = 40};
    (void)state;
    slow_start_ms = START_MS;
    run_with(&params, NULL);
}

/* ---- closing ----------------------------------------------------------------------- */

static void close_main(struct harness_rank *rank)
{
    char in;
    tryst_step *step = harness_step(rank, 1);
    tryst_op *op = harness_recv(rank, step, 1 - rank->rank, "x", &in, 1);
    (void)tryst_wait(op, 50 * MS);
    tryst_op_release(op);
    tryst_step_close(step, NULL);
    uint64_t begin_ns = harness_now_ns();
    harness_close(rank);
    CHECK(since_ms(begin_ns) < START_MS + 2000);
    CHECK_EQ(slow_start_begun, slow_start_ended); /* the close waited for the start */
}

static void test_close(void **state)
{
    const struct harness_params params = {.size = 2, .main = close_main, .timeout_s = 40};
    (void)state;
    slow_start_ms = START_MS;
    run_with(&params, NULL);
}

static void leave_main(struct harness_rank *rank)
{
    char in;
    tryst_step *step = harness_step(rank, 1);
    tryst_op *op = harness_recv(rank, step, 1 - rank->rank, "x", &in, 1);
    (void)tryst_wait(op, 50 * MS);
    tryst_op_release(op);
    tryst_step_close(step, NULL);
    uint64_t begin_ns = harness_now_ns();
    harness_close(rank);
    /* the close waits for TRYST_PEER_TIMEOUT, not for the start */
    CHECK(since_ms(begin_ns) < START_MS - 300);
    for (int i = 0; slow_start_begun != slow_start_ended; i++) {
        CHECK(i < 2000);
        harness_sleep_ms(5);
    }
    /* exit() waits until the thread that was left behind has closed its resources */
}

static void test_leave(void **state)
{
    static const char *const config[] = {"peer_timeout", "300ms", NULL};
    const struct harness_params params = {
        .size = 2, .main = leave_main, .config = config, .timeout_s = 40};
    (void)state;
    slow_start_ms = START_MS;
    run_with(&params, NULL);
}

/* ---- a start that fails ------------------------------------------------------------ */

static void fails_main(struct harness_rank *rank)
{
    char in;
    tryst_error error = {.struct_size = sizeof error};
    uint64_t begin_ns = harness_now_ns();
    tryst_step *step = harness_step(rank, 1);
    tryst_op *op = harness_recv(rank, step, 1 - rank->rank, "x", &in, 1);
    tryst_status status = tryst_wait(op, TRYST_FOREVER);
    CHECK(status == TRYST_E_UNREACHABLE || status == TRYST_E_PEER);
    CHECK(since_ms(begin_ns) >= 900);
    CHECK_STATUS(tryst_op_error(op, &error), status);
    if (!strstr(error.text, "cannot be reached by any transport"))
        harness_fail(__FILE__, __LINE__, "not the reason of the failure: %s", error.text);
    tryst_op_release(op);
    harness_step_close(step);
    harness_barrier(rank, rank->arg);
}

static void test_fails(void **state)
{
    const struct harness_params params = {.size = 2, .main = fails_main, .timeout_s = 40};
    (void)state;
    slow_start_ms = 1000;
    slow_start_fails = 1;
    run_with(&params, NULL);
}

/* ---- a start that never ends ------------------------------------------------------- */

static void never_main(struct harness_rank *rank)
{
    char in;
    tryst_error error = {.struct_size = sizeof error};
    uint64_t begin_ns = harness_now_ns();
    tryst_step *step = harness_step(rank, 1);
    tryst_op *op = harness_recv(rank, step, 1 - rank->rank, "x", &in, 1);
    tryst_status status = tryst_wait(op, TRYST_FOREVER);
    CHECK(status == TRYST_E_UNREACHABLE || status == TRYST_E_PEER);
    CHECK(since_ms(begin_ns) >= 900 && since_ms(begin_ns) < 10000);
    CHECK_STATUS(tryst_op_error(op, &error), status);
    if (!strstr(error.text, "has not started within 1 s"))
        harness_fail(__FILE__, __LINE__, "not the reason of the failure: %s", error.text);
    tryst_op_release(op);
    harness_step_close(step);
    harness_barrier(rank, rank->arg);
    begin_ns = harness_now_ns();
    harness_close(rank);
    CHECK(since_ms(begin_ns) < 10000);
    _exit(0); /* exit() would wait 10 s for the start */
}

static void test_never(void **state)
{
    static const char *const config[] = {"connect_timeout", "100ms", "peer_timeout",
                                         "300ms", NULL};
    const struct harness_params params = {
        .size = 2, .main = never_main, .config = config, .timeout_s = 60};
    (void)state;
    slow_start_ms = 600000;
    run_with(&params, NULL);
}

/* ---- one rank's fabric is slow: the other does not count that time ----------------- */

static void uneven_main(struct harness_rank *rank)
{
    int other = 1 - rank->rank;
    char in = 0, out = 7;
    if (rank->rank == 0)
        slow_start_ms = 0;
    tryst_step *step = harness_step(rank, 1);
    tryst_op *recv = harness_recv(rank, step, other, "x", &in, 1);
    tryst_op *send = harness_send(rank, step, other, "x", &out, 1);
    harness_end(recv, TRYST_OK);
    harness_end(send, TRYST_OK);
    harness_step_close(step);
    harness_barrier(rank, rank->arg);
}

static void test_uneven(void **state)
{
    static const char *const config[] = {"connect_timeout", "700ms", NULL};
    const struct harness_params params = {
        .size = 2, .main = uneven_main, .config = config, .timeout_s = 60};
    (void)state;
    slow_start_ms = 2500;
    run_with(&params, NULL);
}

/* ---- several rails, and a peer over shared memory that is served meanwhile --------- */

static void served_main(struct harness_rank *rank)
{
    char in = 0, out = 7, far_in = 0;
    tryst_config *config = harness_config(rank);
    tryst_open_params open = {.struct_size = sizeof open, .config = config};
    bool far = rank->rank == 2;
    CHECK_STATUS(tryst_config_set(config, "transport", "auto"), TRYST_OK);
    CHECK_STATUS(tryst_config_set(config, "host_id", far ? "far" : "near"), TRYST_OK);
    CHECK_STATUS(tryst_open(&open, &rank->ctx), TRYST_OK);
    CHECK_STATUS(tryst_group_open(rank->ctx, NULL, &rank->group), TRYST_OK);
    tryst_config_close(config);
    tryst_step *step = harness_step(rank, 1);
    int peer = far ? 0 : 2;
    tryst_op *recv = harness_recv(rank, step, peer, "far", &far_in, 1);
    tryst_op *send = harness_send(rank, step, peer, "far", &out, 1);
    uint64_t begin_ns = harness_now_ns();
    for (int i = 0; i < 50 && !far; i++) {
        tryst_op *near_recv = harness_recv(rank, step, 1 - rank->rank, "near", &in, 1);
        harness_end(harness_send(rank, step, 1 - rank->rank, "near", &out, 1), TRYST_OK);
        harness_end(near_recv, TRYST_OK);
    }
    CHECK(since_ms(begin_ns) < START_MS - 300);
    CHECK_STATUS(tryst_op_test(recv), TRYST_IN_PROGRESS);
    if (rank->rank != 1) {
        harness_end(recv, TRYST_OK);
        harness_end(send, TRYST_OK);
    } else {
        CHECK_STATUS(tryst_op_cancel(recv), TRYST_OK);
        CHECK_STATUS(tryst_op_cancel(send), TRYST_OK);
        harness_end(recv, TRYST_E_CANCELED);
        harness_end(send, TRYST_E_CANCELED);
    }
    harness_step_close(step);
    harness_barrier(rank, rank->arg);
    harness_close(rank);
}

static void test_served(void **state)
{
    static const char *const config[] = {"net", "lo,eth0", NULL};
    const struct harness_params params = {.size = 3,
                                          .main = served_main,
                                          .config =
                                              if_nametoindex("eth0") ? config : NULL,
                                          .no_group = true,
                                          .timeout_s = 60};
    (void)state;
    if (strcmp(harness_mode(), "ucx") != 0)
        skip(); /* the test uses auto, which chooses ucx */
    slow_start_ms = START_MS;
    run_with(&params, NULL);
}

/* ---- fork -------------------------------------------------------------------------- */

static void fork_main(struct harness_rank *rank)
{
    int other = 1 - rank->rank, status = 0;
    char in = 0, out = 7;
    tryst_step *step = harness_step(rank, 1);
    tryst_op *recv = harness_recv(rank, step, other, "x", &in, 1);
    tryst_op *send = harness_send(rank, step, other, "x", &out, 1);
    (void)tryst_wait(recv, 100 * MS);
    pid_t pid = fork();
    if (pid == 0) {
        tryst_ctx *own;
        tryst_group *alone;
        bool forked = tryst_wait(recv, TRYST_FOREVER) == TRYST_E_FORKED;
        tryst_group_close(rank->group);
        tryst_close(rank->ctx);
        setenv("TRYST_SIZE", "1", 1);
        bool opens = tryst_open(NULL, &own) == TRYST_OK &&
                     tryst_group_open(own, NULL, &alone) == TRYST_OK;
        if (opens) {
            tryst_group_close(alone);
            tryst_close(own);
        }
        _exit(forked && opens ? 0 : 1);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    harness_end(recv, TRYST_OK);
    harness_end(send, TRYST_OK);
    harness_step_close(step);
    harness_barrier(rank, rank->arg);
}

static void test_fork(void **state)
{
    const struct harness_params params = {.size = 2, .main = fork_main, .timeout_s = 40};
    (void)state;
    slow_start_ms = START_MS;
    run_with(&params, NULL);
}

/* ---- no other call waits ----------------------------------------------------------- */

enum { CALLS_MAX = 40, CALL_MS = 50 };

struct call_times {
    const char *names[CALLS_MAX];
    uint64_t best_ms[CALLS_MAX];
    size_t count;
};

/* Note the fastest of a few rounds, because the machine may be busy. */
static void call_note(struct call_times *times, const char *name, uint64_t ms)
{
    size_t i = 0;
    while (i < times->count && strcmp(times->names[i], name) != 0)
        i++;
    if (i == times->count) {
        CHECK(i < CALLS_MAX);
        times->names[i] = name;
        times->best_ms[i] = UINT64_MAX;
        times->count++;
    }
    times->best_ms[i] = ms < times->best_ms[i] ? ms : times->best_ms[i];
}

#define TIMED(times, name, call)                      \
    do {                                              \
        uint64_t begin_ = harness_now_ns();           \
        call;                                         \
        call_note((times), (name), since_ms(begin_)); \
    } while (0)

static int item_skip(void *arg, const char *name, uint64_t value)
{
    (void)arg, (void)name, (void)value;
    return 0;
}

static void callback(void *arg, tryst_op *op, tryst_status status)
{
    (void)arg, (void)op, (void)status;
}

/* Call each public function of a context that is documented not to block, while the
 * fabric of a peer starts. */
static void calls_round(struct harness_rank *rank, struct call_times *times, uint64_t id,
                        int null_fd)
{
    int other = 1 - rank->rank;
    static char in[4], out[4];
    tryst_tensor from = harness_tensor(out, 4), to = harness_tensor(in, 4), seen;
    tryst_op_params params = {.struct_size = sizeof params, .callback = callback};
    struct harness_key in_key = harness_key(rank, other, rank->rank, "calls");
    struct harness_key out_key = harness_key(rank, rank->rank, other, "calls");
    tryst_op *recv, *send, *prepared, *close_op = NULL;
    tryst_peer_info info = {.struct_size = sizeof info};
    tryst_error error = {.struct_size = sizeof error};
    tryst_step *step;
    tryst_key *key;
    tryst_mem *mem;
    seen.struct_size = sizeof seen;
    TIMED(times, "step_open",
          CHECK_STATUS(tryst_step_open(rank->group, id, &step), TRYST_OK));
    TIMED(times, "recv",
          CHECK_STATUS(tryst_recv(step, in_key.text, &to, &params, &recv), TRYST_OK));
    TIMED(times, "send",
          CHECK_STATUS(tryst_send(step, out_key.text, &from, &params, &send), TRYST_OK));
    TIMED(times, "key_prepare",
          CHECK_STATUS(tryst_key_prepare(rank->group, out_key.text, &key), TRYST_OK));
    TIMED(times, "send_key",
          CHECK_STATUS(tryst_send_key(step, key, &from, NULL, &prepared), TRYST_OK));
    TIMED(times, "key_release", tryst_key_release(key));
    TIMED(times, "op_test", (void)tryst_op_test(recv));
    TIMED(times, "op_tensor", (void)tryst_op_tensor(recv, &seen));
    TIMED(times, "op_error", (void)tryst_op_error(recv, &error));
    TIMED(times, "reprioritize", CHECK_STATUS(tryst_op_reprioritize(send, -1), TRYST_OK));
    TIMED(times, "progress", (void)tryst_progress(rank->ctx));
    TIMED(times, "event_fd", (void)tryst_event_fd(rank->ctx));
    TIMED(times, "arm", (void)tryst_arm(rank->ctx));
    TIMED(times, "wake", tryst_wake(rank->ctx));
    TIMED(times, "wait 0", (void)tryst_wait(recv, 0));
    TIMED(times, "wait_all 0", (void)tryst_wait_all(&recv, 1, 0));
    TIMED(times, "group_peer",
          CHECK_STATUS(tryst_group_peer(rank->group, other, &info), TRYST_OK));
    TIMED(times, "counter_visit", (void)tryst_counter_visit(rank->ctx, item_skip, NULL));
    TIMED(times, "dump", tryst_dump(rank->ctx, null_fd));
    TIMED(times, "mem_register",
          CHECK_STATUS(tryst_mem_register(rank->ctx, in, 4, TRYST_MEMORY_HOST, 0, &mem),
                       TRYST_OK));
    TIMED(times, "mem_release", tryst_mem_release(mem));
    TIMED(times, "cancel", CHECK_STATUS(tryst_op_cancel(recv), TRYST_OK));
    TIMED(times, "step_status", (void)tryst_step_status(step, NULL));
    TIMED(times, "release", tryst_op_release(send));
    TIMED(times, "step_abort",
          CHECK_STATUS(tryst_step_abort(step, TRYST_E_CANCELED, "over"), TRYST_OK));
    TIMED(times, "step_close", CHECK_STATUS(tryst_step_close(step, &close_op), TRYST_OK));
    tryst_op_release(recv);
    tryst_op_release(prepared);
    tryst_op_release(close_op);
}

static void calls_main(struct harness_rank *rank)
{
    static struct call_times times;
    int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    uint64_t begin_ns = harness_now_ns();
    unsigned rounds = 0;
    for (; slow_start_ended == 0 && since_ms(begin_ns) < START_MS / 2; rounds++) {
        calls_round(rank, &times, 1 + rounds, null_fd);
        harness_sleep_ms(10);
    }
    CHECK(rounds > 0 && slow_start_ended == 0);
    for (size_t i = 0; i < times.count; i++)
        if (times.best_ms[i] > CALL_MS)
            harness_fail(__FILE__, __LINE__, "%s took %llu ms at best", times.names[i],
                         (unsigned long long)times.best_ms[i]);
    close(null_fd);
    harness_barrier(rank, rank->arg);
}

static void test_calls(void **state)
{
    const struct harness_params params = {.size = 2, .main = calls_main, .timeout_s = 40};
    (void)state;
    slow_start_ms = START_MS;
    run_with(&params, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_coll),      cmocka_unit_test(test_waits),
        cmocka_unit_test(test_deadlines), cmocka_unit_test(test_close),
        cmocka_unit_test(test_leave),     cmocka_unit_test(test_fails),
        cmocka_unit_test(test_never),     cmocka_unit_test(test_uneven),
        cmocka_unit_test(test_served),    cmocka_unit_test(test_fork),
        cmocka_unit_test(test_calls),
    };
    return HARNESS_MAIN(argc, argv, tests);
}
