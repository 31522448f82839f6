/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that exit while a fabric starts (support/slow_start.h), with the context
 * closed or open, from a callback, and in a forked child: the destructors of the fabric's
 * library run after the start, and no exit crashes or hangs.
 *
 * TRYST_TEST_EXITS: the number of exits at random moments (8), two in each run. */
#include "harness.h"

#include "support/patience.h"
#include "support/slow_start.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS 1000000ull

/* START_MS: the duration of a slow start. SPAN_MS: random exits are in this time. */
enum { START_MS = 1000, SPAN_MS = 600, TIMEOUT_MIN_MS = 100, TIMEOUT_SPAN_MS = 270 };

/* How a rank leaves while the fabric starts. */
enum way {
    CLOSED,   /* the context is closed, with a short TRYST_PEER_TIMEOUT */
    OPEN,     /* nothing is closed */
    CALLBACK, /* a callback in the background thread exits; nothing is closed */
    WAYS
};

struct plan {
    enum way way;
    bool forks; /* a child is forked during the start, and exits */
    bool slow;  /* exit amid a slow start, not after exit_ns */
    uint64_t exit_ns[2];
};

/* True if the rank leaves its context open: the fabric then has leaks. */
static bool leaves_open;

/* Called by the leak checker of AddressSanitizer. */
__attribute__((used, visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return leaves_open;
}

/* Options of ThreadSanitizer: threads that run at exit() are the subject here. */
__attribute__((used, visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "report_thread_leaks=0";
}

/* Check the end of a slow start. Registered before any handler of the library, so it runs
 * after those and before the destructors of the fabric's library. */
static void start_check(void)
{
    if (!slow_start_inside || !slow_start_ms)
        return;
    dprintf(2, "the fabric still starts where destructors run next\n");
    _exit(9);
}

static void exit_in_callback(void *arg, tryst_op *op, tryst_status status)
{
    exit(0);
}

/* Post a receive that no send meets, so that the rank's fabric starts. */
static tryst_op *recv_post(const struct harness_rank *rank, tryst_step *step)
{
    static char in;
    const struct plan *plan = rank->arg;
    tryst_tensor tensor = harness_tensor(&in, 1);
    struct harness_key key = harness_key(rank, 1 - rank->rank, rank->rank, "x");
    tryst_op_params params = {.struct_size = sizeof params};
    tryst_op *op;
    if (plan->way == CALLBACK) {
        params.callback = exit_in_callback;
        params.deadline_ns = plan->exit_ns[rank->rank] + 1;
    }
    CHECK_STATUS(tryst_recv(step, key.text, &tensor, &params, &op), TRYST_OK);
    return op;
}

/* Fork a child that exits, as children of programs should not do, and does not wait for a
 * thread of its parent. */
static void child_exits(void)
{
    uint64_t begin_ns = harness_now_ns();
    pid_t pid = fork();
    if (pid == 0) {
        slow_start_inside = 0; /* the start is the parent's */
        exit(0);
    }
    CHECK(waitpid(pid, NULL, 0) == pid);
    CHECK(harness_now_ns() - begin_ns < patience_ns(START_MS / 2 * MS));
}

/* Wait for the moment of the exit. */
static void moment_await(const struct harness_rank *rank, tryst_op *op)
{
    const struct plan *plan = rank->arg;
    if (plan->way == CALLBACK) {
        harness_sleep_ms(60000);
        harness_fail(__FILE__, __LINE__, "the callback has not exited");
    }
    if (!plan->slow)
        (void)tryst_wait(op, plan->exit_ns[rank->rank]);
    while (plan->slow && !slow_start_inside)
        (void)tryst_wait(op, MS);
}

static void exit_main(struct harness_rank *rank)
{
    const struct plan *plan = rank->arg;
    tryst_step *step = harness_step(rank, 1);
    leaves_open = plan->way != CLOSED;
    tryst_op *op = recv_post(rank, step);
    moment_await(rank, op);
    if (plan->forks)
        child_exits();
    if (plan->way == CLOSED) {
        tryst_op_release(op);
        tryst_step_close(step, NULL);
        harness_close(rank);
    }
    exit(0);
}

static int run(const struct plan *plan, unsigned peer_timeout_ms)
{
    char text[16];
    const char *config[] = {"peer_timeout", text, "progress_thread",
                            plan->way == CALLBACK ? "1" : "0", NULL};
    struct plan *shared = harness_share(sizeof *shared);
    *shared = *plan;
    (void)snprintf(text, sizeof text, "%ums", peer_timeout_ms);
    struct harness_params params = {
        .size = 2, .main = exit_main, .arg = shared, .config = config, .timeout_s = 60};
    int failed = harness_run(&params);
    harness_unshare(shared, sizeof *shared);
    return failed;
}

static void slow_run(const struct plan *plan)
{
    slow_start_ms = START_MS;
    assert_int_equal(run(plan, 100), 0);
    slow_start_ms = 0;
}

/* ---- tests ------------------------------------------------------------------------- */

static void test_closed(void **state)
{
    slow_run(&(struct plan){.way = CLOSED, .slow = true});
}

static void test_open(void **state)
{
    slow_run(&(struct plan){.way = OPEN, .slow = true});
}

static void test_callback(void **state)
{
    slow_run(&(struct plan){.way = CALLBACK, .exit_ns = {400 * MS, 400 * MS}});
}

static void test_forked(void **state)
{
    if (harness_is_sanitized()) /* the child has leaks: what the parent's thread holds */
        skip();
    slow_run(&(struct plan){.way = CLOSED, .slow = true, .forks = true});
}

static void test_random(void **state)
{
    uint64_t random = unit_seed(), failed = 0;
    uint64_t runs = harness_setting("TRYST_TEST_EXITS", unit_cases(8)) / 2;
    for (uint64_t i = 0; i < runs; i++) {
        struct plan plan = {.way = (enum way)(i % WAYS)};
        for (int rank = 0; rank < 2; rank++)
            plan.exit_ns[rank] = harness_random(&random) % (SPAN_MS * MS);
        unsigned timeout_ms =
            TIMEOUT_MIN_MS + (unsigned)(harness_random(&random) % TIMEOUT_SPAN_MS);
        failed += (uint64_t)run(&plan, timeout_ms);
    }
    print_message("%llu exits, %llu failed\n", 2ull * runs, (unsigned long long)failed);
    assert_int_equal(failed, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest fabric_tests[] = {
        cmocka_unit_test(test_random), cmocka_unit_test(test_closed),
        cmocka_unit_test(test_open),   cmocka_unit_test(test_callback),
        cmocka_unit_test(test_forked),
    };
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};
    if (atexit(start_check) != 0)
        return 1;
    if (argc > 1 && strncmp(argv[1], "shm", 3) == 0)
        return HARNESS_MAIN(argc, argv, tests);
    return HARNESS_MAIN(argc, argv, fabric_tests);
}
