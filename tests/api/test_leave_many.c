/* SPDX-License-Identifier: Apache-2.0 */
/* Many ranks leave in good order after one step, on few cores: links break in any order,
 * connections are refused, and LEAVE messages arrive late. No rank may be declared dead
 * or given up.
 *
 * TRYST_TEST_RANKS: number of ranks (48). TRYST_TEST_ROUNDS: runs (1). Each log line with
 * "died" in it is printed. */
#include "harness.h"

#include "support/unit.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct leaving {
    _Atomic(uint32_t) died;
};

static struct leaving *leaving;

/* Receive from lower ranks in rings of several widths: the links go to neighbours in the
 * control tree and to other ranks. */
static void leave_main(struct harness_rank *rank)
{
    enum { BYTES = 8192 };
    char *data = calloc(2, BYTES);
    CHECK(data);
    tryst_step *step = harness_step(rank, 1);
    for (int width = 1; width < rank->size; width *= 8) {
        int to = (rank->rank + width) % rank->size;
        int from = (rank->rank + rank->size - width) % rank->size;
        char edge[16];
        (void)snprintf(edge, sizeof edge, "w%d", width);
        tryst_op *recv = harness_recv(rank, step, from, edge, data, BYTES);
        harness_end(harness_send(rank, step, to, edge, data + BYTES, BYTES), TRYST_OK);
        harness_end(recv, TRYST_OK);
    }
    harness_step_close(step);
    free(data);
}

static void on_log(void *arg, tryst_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    if (!strstr(line, "died"))
        return;
    atomic_fetch_add(&leaving->died, 1);
    dprintf(2, "%s\n", line);
}

static void test_leave(void **state)
{
    static const char *const config[] = {"bootstrap_timeout", "120s", "connect_timeout",
                                         "120s", NULL};
    unsigned ranks = (unsigned)harness_setting("TRYST_TEST_RANKS", 48);
    assert_in_range(ranks, 2, HARNESS_RANKS_MAX);
    for (unsigned i = 0; i < harness_setting("TRYST_TEST_ROUNDS", 1); i++) {
        leaving = harness_share(sizeof *leaving);
        struct harness_params params = {.size = (int)ranks,
                                        .main = leave_main,
                                        .config = config,
                                        .log_fn = on_log,
                                        .timeout_s = 120};
        int failed = harness_run(&params);
        uint32_t died = atomic_load(&leaving->died);
        harness_unshare(leaving, sizeof *leaving);
        assert_int_equal(failed, 0);
        assert_int_equal(died, 0);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_leave)};
    return HARNESS_MAIN(argc, argv, tests);
}
