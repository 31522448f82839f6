/* SPDX-License-Identifier: Apache-2.0 */
/* One rank never joins a collective, another rank gives up, and then the missing rank
 * closes its step. All ranks end with the cause of the rank that gave up or, behind the
 * missing rank, with the missing rank's CLOSED. A rank in between that has closed its
 * step passes the cause on. In a chain a missing inner rank cuts the tree in two. */
#include "coll_items.h"

#include "support/unit.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { RANKS = 5, SMALL = 3, LARGE = 100000 };
#define NS_PER_MS UINT64_C(1000000)

static tryst_op *sum_start(tryst_step *step, int64_t *data, uint64_t count,
                           uint64_t deadline_ns)
{
    tryst_op_params params = {.struct_size = sizeof params, .deadline_ns = deadline_ns};
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .data = data,
                           .count = count,
                           .dtype = TRYST_DTYPE_I64};
    tryst_op *op;
    CHECK_STATUS(
        tryst_allreduce(step, "x", NULL, &tensor, TRYST_REDUCE_SUM, &params, &op),
        TRYST_OK);
    return op;
}

/* Make progress on the missing rank for a while, so that each operation that can end
 * before its close does end. */
static void missing_wait(struct harness_rank *rank)
{
    uint64_t until_ns = harness_now_ns() + 20 * NS_PER_MS;
    while (harness_now_ns() < until_ns) {
        tryst_progress(rank->ctx);
        harness_sleep_ms(1);
    }
}

struct round {
    int missing, quits;
    uint64_t count;
    bool cancels;
};

static void outcome_check(const struct round *round, tryst_op *op)
{
    tryst_error error = {.struct_size = sizeof error};
    tryst_status cause = round->cancels ? TRYST_E_CANCELED : TRYST_E_DEADLINE;
    tryst_status status = tryst_wait(op, 30000 * NS_PER_MS);
    if (status == TRYST_E_TIMEOUT)
        harness_fail(
            __FILE__, __LINE__,
            "rank %d is missing, rank %d %s, %llu elements: the collective does not end",
            round->missing, round->quits, round->cancels ? "cancels" : "has a deadline",
            (unsigned long long)round->count);
    CHECK_STATUS(tryst_op_error(op, &error), status);
    if (status == TRYST_E_CLOSED) {
        CHECK_EQ(error.origin_rank, round->missing);
    } else {
        CHECK_STATUS(status, cause);
        CHECK_EQ(error.origin_rank, round->quits);
        CHECK_EQ(error.origin_status, cause);
    }
    tryst_op_release(op);
}

static void round_run(struct harness_rank *rank, tryst_step *step, int64_t *data,
                      const struct round *round)
{
    if (rank->rank == round->missing) {
        missing_wait(rank);
        return;
    }
    bool quits = rank->rank == round->quits;
    tryst_op *op =
        sum_start(step, data, round->count, quits && !round->cancels ? 5 * NS_PER_MS : 0);
    if (quits && round->cancels)
        CHECK_STATUS(tryst_op_cancel(op), TRYST_OK);
    outcome_check(round, op);
}

static void missing_main(struct harness_rank *rank)
{
    int64_t *data = calloc(LARGE, sizeof *data);
    CHECK(data);
    for (int i = 0; i < RANKS * RANKS; i++) {
        struct round round = {.missing = i / RANKS,
                              .quits = i % RANKS,
                              .count = i % 3 ? SMALL : LARGE,
                              .cancels = i % 2};
        if (round.quits == round.missing)
            continue;
        tryst_step *step = harness_step(rank, (uint64_t)i + 1);
        round_run(rank, step, data, &round);
        harness_step_close(step);
    }
    harness_barrier(rank, rank->arg);
    free(data);
}

static int run_over_network(const char *network)
{
    const char *config[] = {"topology", network, NULL};
    _Atomic(uint32_t) *counter = harness_share(sizeof *counter);
    struct harness_params params = {.size = RANKS,
                                    .main = missing_main,
                                    .arg = counter,
                                    .config = network ? config : NULL,
                                    .timeout_s = 40};
    int failed = harness_run(&params);
    harness_unshare(counter, sizeof *counter);
    return failed;
}

static void test_equal_links(void **state)
{
    assert_int_equal(run_over_network(NULL), 0);
}

static void test_chain(void **state)
{
    char path[] = "coll-missing-XXXXXX";
    int fd = mkstemp(path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    assert_non_null(file);
    fprintf(file,
            "{\"ranks\":[\"h0\",\"h1\",\"h2\",\"h3\",\"h4\"],\"nodes\":[],\"links\":[");
    for (int i = 1; i < RANKS; i++)
        fprintf(file,
                "%s{\"a\":\"h%d\",\"b\":\"h%d\",\"gbit_per_s\":1,\"latency_us\":20}",
                i == 1 ? "" : ",", i - 1, i);
    fprintf(file, "]}\n");
    assert_int_equal(fclose(file), 0);
    int failed = run_over_network(path);
    unlink(path);
    assert_int_equal(failed, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_equal_links),
                                       cmocka_unit_test(test_chain)};
    return HARNESS_MAIN(argc, argv, tests);
}
