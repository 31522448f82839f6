/* SPDX-License-Identifier: Apache-2.0 */
/* Each place that opens a descriptor, in a process close to its limit: two ranks open,
 * connect and send both ways, in regions of their own, while rank 1, or both, may open 0,
 * 1, 2, … more descriptors. Over a fabric the first count suffices for the library's own
 * connections, because UCX does not open at all with few descriptors.
 *
 * What must hold: each call and each operation ends with success, or with a status and a
 * text. If a rank cannot be opened, the text names the limit. With enough descriptors
 * everything succeeds. */
#include "harness.h"

#include "support/unit.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SMALL = 100, LARGE = 3 << 20, WAIT_MS = 30000 };
enum { FABRIC_FIRST = 14, FABRIC_EACH = 32, FABRIC_STEP = 4, TRIALS_MAX = 100 };
enum { ENOUGH = 40, FABRIC_ENOUGH = FABRIC_EACH + 9 * FABRIC_STEP };

static int enough(void)
{
    return harness_over_fabric() ? FABRIC_ENOUGH : ENOUGH;
}

struct trial {
    int left; /* descriptors that the process may still open */
    bool both;
    _Atomic(int) succeeded; /* number of ranks that succeeded */
};

static void limit_set(int left)
{
    int lowest = dup(0);
    struct rlimit limit;
    close(lowest);
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = (rlim_t)lowest + (rlim_t)left;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

static void say(const struct harness_rank *rank, const char *what, const char *text)
{
    const struct trial *trial = rank->arg;
    CHECK(text[0]);
    if (getenv("TRYST_TEST_VERBOSE"))
        dprintf(1, "%2d left%s, rank %d: %s: %s\n", trial->left,
                trial->both ? " to each" : "", rank->rank, what, text);
}

/* Fail unless the refusal of a rank at its limit names the limit. */
static void refused(const struct harness_rank *rank, const char *what, const char *text)
{
    const struct trial *trial = rank->arg;
    bool limited = rank->rank == 1 || trial->both;
    say(rank, what, text);
    bool named = strstr(text, "ulimit -n") || strstr(text, "rank");
    if (limited && !named)
        harness_fail(__FILE__, __LINE__, "%d left: %s: %s", trial->left, what, text);
}

static bool ended(struct harness_rank *rank, const char *what, tryst_op *op)
{
    tryst_error error = {.struct_size = sizeof error, .text = ""};
    tryst_status status = tryst_wait(op, WAIT_MS * 1000000ull);
    if (status == TRYST_E_TIMEOUT)
        harness_fail(__FILE__, __LINE__, "a %s has not ended", what);
    if (status != TRYST_OK && tryst_op_error(op, &error) == status)
        say(rank, what, error.text);
    tryst_op_release(op);
    return status == TRYST_OK;
}

static bool exchange(struct harness_rank *rank, tryst_step *step)
{
    static const size_t sizes[] = {SMALL, LARGE, LARGE};
    tryst_op *ops[2 * COUNT_OF(sizes)];
    void *from[COUNT_OF(sizes)], *to[COUNT_OF(sizes)];
    tryst_mem *mems[2 * COUNT_OF(sizes)];
    bool all = true;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        char edge[8];
        snprintf(edge, sizeof edge, "e%zu", i);
        CHECK_STATUS(tryst_mem_alloc(rank->ctx, sizes[i], TRYST_MEMORY_HOST, 0, &from[i],
                                     &mems[2 * i]),
                     TRYST_OK);
        CHECK_STATUS(tryst_mem_alloc(rank->ctx, sizes[i], TRYST_MEMORY_HOST, 0, &to[i],
                                     &mems[2 * i + 1]),
                     TRYST_OK);
        harness_fill(from[i], sizes[i], i + (size_t)rank->rank);
        ops[2 * i] = harness_send(rank, step, 1 - rank->rank, edge, from[i], sizes[i]);
        ops[2 * i + 1] = harness_recv(rank, step, 1 - rank->rank, edge, to[i], sizes[i]);
    }
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        bool sent = ended(rank, "send", ops[2 * i]);
        bool received = ended(rank, "receive", ops[2 * i + 1]);
        size_t seed = i + 1 - (size_t)rank->rank;
        CHECK(!received || harness_mismatch(to[i], sizes[i], seed) == SIZE_MAX);
        all = all && sent && received;
    }
    harness_step_close(step);
    for (size_t i = 0; i < COUNT_OF(mems); i++)
        tryst_mem_release(mems[i]);
    return all;
}

static void no_log(void *arg, tryst_log_level level, const char *line)
{
    if (getenv("TRYST_TEST_VERBOSE"))
        dprintf(1, "    %s\n", line);
}

static void trial_main(struct harness_rank *rank)
{
    struct trial *trial = rank->arg;
    tryst_config *config = harness_config(rank);
    if (rank->rank == 1 || trial->both)
        limit_set(trial->left);
    tryst_open_params open = {
        .struct_size = sizeof open, .config = config, .log_fn = no_log};
    tryst_group_params group = {.struct_size = sizeof group};
    if (tryst_open(&open, &rank->ctx) != TRYST_OK) {
        refused(rank, "tryst_open", tryst_last_error());
    } else if (tryst_group_open(rank->ctx, &group, &rank->group) != TRYST_OK) {
        refused(rank, "tryst_group_open", tryst_last_error());
        tryst_close(rank->ctx);
    } else {
        atomic_fetch_add(&trial->succeeded, exchange(rank, harness_step(rank, 1)));
        harness_close(rank);
    }
    tryst_config_close(config);
}

static int trial_run(struct trial *trial)
{
    static const char *const config[] = {"bootstrap_timeout", "2s", "connect_timeout",
                                         "2s", NULL};
    struct harness_params params = {.size = 2,
                                    .main = trial_main,
                                    .arg = trial,
                                    .config = trial->left < enough() ? config : NULL,
                                    .no_group = true,
                                    .timeout_s = 45};
    return harness_run(&params);
}

static int trials_make(struct trial *all)
{
    int count = 0;
    for (int left = harness_over_fabric() ? FABRIC_FIRST : 0; left <= enough();) {
        all[count++].left = left;
        all[count].left = left;
        all[count++].both = true;
        left += harness_over_fabric() && left >= FABRIC_EACH ? FABRIC_STEP : 1;
    }
    return count;
}

/* All calls at once: most of them sleep until one of the time limits ends them. */
static void test_few(void **state)
{
    struct trial *all = harness_share(TRIALS_MAX * sizeof *all);
    pid_t pids[TRIALS_MAX];
    int trials = trials_make(all), failed = 0;
    fflush(NULL);
    for (int i = 0; i < trials; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0)
            _exit(trial_run(&all[i]) != 0);
    }
    for (int i = 0; i < trials; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        failed += status != 0;
    }
    assert_int_equal(failed, 0);
    assert_int_equal(all[0].succeeded, 0);
    assert_int_equal(all[trials - 2].succeeded, 2);
    assert_int_equal(all[trials - 1].succeeded, 2);
    harness_unshare(all, TRIALS_MAX * sizeof *all);
}

/* A connected rank of shm without descriptors for its stage sends through the ring, and
 * counts that once. */
static void unstaged_main(struct harness_rank *rank)
{
    static const char *const edges[] = {"a", "b", "c"};
    static char data[LARGE];
    tryst_step *step = harness_step(rank, 1);
    for (size_t i = 0; i < COUNT_OF(edges); i++) {
        size_t bytes = i == 0 ? SMALL : LARGE; /* connects; then would use the stage */
        if (rank->rank == 0) {
            harness_end(harness_recv(rank, step, 1, edges[i], data, bytes), TRYST_OK);
            CHECK(harness_mismatch(data, bytes, i) == SIZE_MAX);
            continue;
        }
        harness_fill(data, bytes, i);
        harness_end(harness_send(rank, step, 0, edges[i], data, bytes), TRYST_OK);
        if (i == 0)
            limit_set(0);
    }
    CHECK_EQ(harness_counter(rank->ctx, "mechs_dropped"), rank->rank);
    harness_step_close(step);
}

static void test_unstaged(void **state)
{
    struct harness_params params = {.size = 2, .main = unstaged_main};
    if (strcmp(harness_mode(), "shm-stage") != 0)
        skip();
    assert_int_equal(harness_run(&params), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_few),
                                       cmocka_unit_test(test_unstaged)};
    return HARNESS_MAIN(argc, argv, tests);
}
