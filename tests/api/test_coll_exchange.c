/* SPDX-License-Identifier: Apache-2.0 */
/* Small all-reduces and barriers of two ranks on one host: each rank sends its term to
 * the other and adds both, rank 0's first. So a rank needs only that the other has
 * submitted, and the bits are equal. */
#include "harness.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <tryst/coll.h>

#include "support/unit.h"

enum { RANKS = 2, COUNT = 33, TIMES = 40, HOPS = 3, AWAY_MS = 500 };
#define NS_PER_MS UINT64_C(1000000)

static void run_ranks(void (*main)(struct harness_rank *rank))
{
    _Atomic(uint32_t) *counter = harness_share(2 * sizeof *counter);
    struct harness_params params = {
        .size = RANKS, .main = main, .arg = counter, .timeout_s = 60};
    int failed = harness_run(&params);
    harness_unshare(counter, 2 * sizeof *counter);
    assert_int_equal(failed, 0);
}

/* ---- bits -------------------------------------------------------------------------- */

static float term(int rank, uint64_t time, int i)
{
    return (float)((rank + 1) * 1.1 + (double)time * 0.7 + i * 1e-3) *
           (rank % 2 ? -1 : 1);
}

static float expected(tryst_reduce_op reduce, uint64_t time, int i)
{
    float a = term(0, time, i), b = term(1, time, i);
    if (reduce == TRYST_REDUCE_MAX)
        return a > b ? a : b;
    return reduce == TRYST_REDUCE_AVERAGE ? (a + b) / 2 : a + b;
}

/* Ranks submit at different times, so the terms arrive in any order. */
static void bits_main(struct harness_rank *rank)
{
    static const tryst_reduce_op reduces[] = {TRYST_REDUCE_SUM, TRYST_REDUCE_MAX,
                                              TRYST_REDUCE_AVERAGE};
    uint64_t random = unit_seed() + (uint64_t)rank->rank * 977 + 1;
    tryst_step *step = harness_step(rank, 1);
    for (uint64_t time = 0; time < TIMES; time++) {
        float in[COUNT], out[COUNT];
        tryst_reduce_op reduce = reduces[time % COUNT_OF(reduces)];
        tryst_tensor from = {.struct_size = sizeof from,
                             .data = in,
                             .count = COUNT,
                             .dtype = TRYST_DTYPE_F32};
        tryst_tensor to = from;
        tryst_op *op;
        for (int i = 0; i < COUNT; i++)
            in[i] = out[i] = term(rank->rank, time, i);
        to.data = out;
        for (uint64_t i = harness_random(&random) % 4; i > 0; i--)
            tryst_progress(rank->ctx);
        CHECK_STATUS(
            tryst_allreduce(step, "x", time % 2 ? &from : NULL, &to, reduce, NULL, &op),
            TRYST_OK);
        harness_end(op, TRYST_OK);
        for (int i = 0; i < COUNT; i++) {
            CHECK(out[i] == expected(reduce, time, i));
            CHECK(in[i] == term(rank->rank, time, i));
        }
    }
    harness_step_close(step);
}

static void test_bits(void **state)
{
    (void)state;
    run_ranks(bits_main);
}

/* ---- one hop ----------------------------------------------------------------------- */

static tryst_op *sum_start(tryst_step *step, int64_t *value, uint64_t deadline_ns)
{
    tryst_op_params params = {.struct_size = sizeof params, .deadline_ns = deadline_ns};
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .data = value,
                           .count = 1,
                           .dtype = TRYST_DTYPE_I64};
    tryst_op *op;
    CHECK_STATUS(
        tryst_allreduce(step, "x", NULL, &tensor, TRYST_REDUCE_SUM, &params, &op),
        TRYST_OK);
    return op;
}

/* The term of rank 0 has left, and rank 0 computes: rank 1 completes meanwhile, at least
 * once: the machine may be busy. Over the group's tree the result would come from rank
 * 0. */
static void hop_main(struct harness_rank *rank)
{
    _Atomic(uint32_t) *counter = rank->arg, *returned = counter + 1;
    tryst_step *step = harness_step(rank, 1);
    uint32_t late = 0;
    for (uint32_t i = 0; i <= HOPS; i++) {
        int64_t value = 1;
        if (rank->rank && i) /* after the first one, which connects the ranks */
            harness_sleep_ms(AWAY_MS / 10);
        tryst_op *op = sum_start(step, &value, 0);
        if (!rank->rank && i) {
            (void)tryst_wait(op, 1000000);
            harness_sleep_ms(AWAY_MS);
            atomic_fetch_add(returned, 1);
        }
        harness_end(op, TRYST_OK);
        CHECK_EQ(value, rank->size);
        late += i && atomic_load(returned) > i - 1;
        harness_barrier(rank, counter);
    }
    CHECK(!rank->rank || late < HOPS);
    harness_step_close(step);
}

static void test_one_hop(void **state)
{
    (void)state;
    if (!harness_has_processes())
        skip();
    run_ranks(hop_main);
}

/* ---- one rank gives up ------------------------------------------------------------- */

/* Rank 1 cancels its part, or its deadline passes, and rank 0 submits later: rank 0 ends
 * with that cause or, since the term of rank 1 came, with the sum. */
static void quit_main(struct harness_rank *rank)
{
    _Atomic(uint32_t) *counter = rank->arg, *ended = counter + 1;
    for (uint32_t i = 0; i < 6; i++) {
        tryst_status cause = i % 2 ? TRYST_E_CANCELED : TRYST_E_DEADLINE;
        tryst_step *step = harness_step(rank, i + 1);
        bool quits = rank->rank == 1;
        int64_t value = 1;
        while (rank->rank == 0 && atomic_load(ended) == i) {
            tryst_progress(rank->ctx);
            harness_sleep_ms(1);
        }
        tryst_op *op = sum_start(step, &value, quits && i % 2 == 0 ? 5 * NS_PER_MS : 0);
        if (quits && i % 2)
            CHECK_STATUS(tryst_op_cancel(op), TRYST_OK);
        tryst_error error = {.struct_size = sizeof error};
        tryst_status status = harness_outcome(op, &error);
        if (quits)
            atomic_fetch_add(ended, 1);
        if (status == TRYST_OK)
            CHECK(!quits && value == RANKS);
        else if (status != cause || error.origin_rank != 1)
            harness_fail(__FILE__, __LINE__, "%s of rank %d: %s",
                         tryst_status_name(status), error.origin_rank, error.text);
        harness_barrier(rank, counter);
        harness_step_close(step);
    }
}

static void test_quit(void **state)
{
    (void)state;
    run_ranks(quit_main);
}

/* Rank 1 closes the step without its part: rank 0 ends with its TRYST_E_CLOSED. */
static void closed_main(struct harness_rank *rank)
{
    tryst_step *step = harness_step(rank, 1);
    if (rank->rank != 1) {
        int64_t value = 1;
        tryst_error error = {.struct_size = sizeof error};
        CHECK_STATUS(harness_outcome(sum_start(step, &value, 0), &error), TRYST_E_CLOSED);
        CHECK_EQ(error.origin_rank, 1);
    }
    harness_step_close(step);
    harness_barrier(rank, rank->arg);
}

static void test_closed(void **state)
{
    (void)state;
    run_ranks(closed_main);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits), cmocka_unit_test(test_one_hop),
        cmocka_unit_test(test_quit), cmocka_unit_test(test_closed)};
    return HARNESS_MAIN(argc, argv, tests);
}
