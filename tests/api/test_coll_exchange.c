/* SPDX-License-Identifier: Apache-2.0 */
/* Small all-reduces and barriers of two to eight ranks on one host: each rank sends its
 * term to all others, and adds all terms in the order of the ranks. So a rank needs only
 * that the others have submitted, and the bits are equal. */
#include "harness.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <tryst/coll.h>

#include "support/unit.h"

enum { COUNT = 33, TIMES = 40, HOPS = 3, AWAY_MS = 500 };
enum { GOOD = 20, LONG_BYTES = 8192, STARS_BYTES = 256 << 10 };
#define NS_PER_MS UINT64_C(1000000)

struct shared {
    _Atomic(uint32_t) counter;
    _Atomic(uint32_t) ended;   /* ranks that have ended, or returned */
    _Atomic(uint64_t) quit_ns; /* time at which a rank has given up */
};

static const int sizes[] = {2, 3, 4, 8};

static void run_some(void (*main)(struct harness_rank *rank), int size)
{
    struct shared *shared = harness_share(sizeof *shared);
    struct harness_params params = {
        .size = size, .main = main, .arg = shared, .timeout_s = 60};
    int failed = harness_run(&params);
    harness_unshare(shared, sizeof *shared);
    assert_int_equal(failed, 0);
}

static void run_ranks(void (*main)(struct harness_rank *rank))
{
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        run_some(main, sizes[i]);
}

static void meet(struct harness_rank *rank)
{
    harness_barrier(rank, &((struct shared *)rank->arg)->counter);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 * NS_PER_MS + (uint64_t)now.tv_nsec;
}

/* ---- bits -------------------------------------------------------------------------- */

static float term(int rank, uint64_t time, int i)
{
    return (float)((rank + 1) * 1.1 + (double)time * 0.7 + i * 1e-3) *
           (rank % 2 ? -1 : 1);
}

/* The factor of a rank in a premultiplied sum; rounds nothing. */
static double factor(int rank)
{
    return rank % 2 ? 0.5 : 2;
}

static float expected(int size, tryst_reduce_op reduce, uint64_t time, int i)
{
    float all = 0;
    for (int rank = 0; rank < size; rank++) {
        float next = term(rank, time, i);
        if (reduce == TRYST_REDUCE_PREMULTIPLIED_SUM)
            next *= (float)factor(rank);
        if (!rank)
            all = next;
        else if (reduce == TRYST_REDUCE_MAX)
            all = all > next ? all : next;
        else
            all += next;
    }
    return reduce == TRYST_REDUCE_AVERAGE ? all / (float)size : all;
}

/* Ranks submit at different times, so the terms arrive in any order. */
static void bits_main(struct harness_rank *rank)
{
    static const tryst_reduce_op reduces[] = {TRYST_REDUCE_SUM, TRYST_REDUCE_MAX,
                                              TRYST_REDUCE_AVERAGE,
                                              TRYST_REDUCE_PREMULTIPLIED_SUM};
    uint64_t random = unit_seed() + (uint64_t)rank->rank * 977 + 1;
    tryst_step *step = harness_step(rank, 1);
    for (uint64_t time = 0; time < TIMES; time++) {
        float in[COUNT], out[COUNT];
        tryst_reduce_op reduce = reduces[time % COUNT_OF(reduces)];
        tryst_op_params params = {.struct_size = sizeof params};
        tryst_tensor from = {.struct_size = sizeof from,
                             .data = in,
                             .count = COUNT,
                             .dtype = TRYST_DTYPE_F32};
        tryst_tensor to = from;
        tryst_op *op;
        for (int i = 0; i < COUNT; i++)
            in[i] = out[i] = term(rank->rank, time, i);
        to.data = out;
        if (reduce == TRYST_REDUCE_PREMULTIPLIED_SUM)
            params.factor = factor(rank->rank);
        for (uint64_t i = harness_random(&random) % 4; i > 0; i--)
            tryst_progress(rank->ctx);
        CHECK_STATUS(tryst_allreduce(step, "x", time % 2 ? &from : NULL, &to, reduce,
                                     &params, &op),
                     TRYST_OK);
        harness_end(op, TRYST_OK);
        for (int i = 0; i < COUNT; i++) {
            CHECK(out[i] == expected(rank->size, reduce, time, i));
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

/* The term of rank 0 has left, and rank 0 computes: the others complete meanwhile, at
 * least once: the machine may be busy. Over the group's tree the result would come from
 * rank 0. */
static void hop_main(struct harness_rank *rank)
{
    struct shared *shared = rank->arg;
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
            atomic_fetch_add(&shared->ended, 1);
        }
        harness_end(op, TRYST_OK);
        CHECK_EQ(value, rank->size);
        late += i && atomic_load(&shared->ended) > i - 1;
        meet(rank);
    }
    CHECK(!rank->rank || late < HOPS);
    harness_step_close(step);
}

static void test_one_hop(void **state)
{
    (void)state;
    if (!harness_has_processes())
        skip();
    run_some(hop_main, 2);
    run_some(hop_main, 4);
}

/* ---- one rank gives up ------------------------------------------------------------- */

/* Fail unless the operation has ended with this cause. */
static void cause_check(tryst_op *op, tryst_status cause, int origin)
{
    tryst_error error = {.struct_size = sizeof error};
    tryst_status status = harness_outcome(op, &error);
    if (status != cause || error.origin_rank != origin)
        harness_fail(__FILE__, __LINE__, "%s of rank %d: %s", tryst_status_name(status),
                     error.origin_rank, error.text);
}

/* Rank 1 cancels its part, or its deadline passes, and rank 0 submits later: rank 0 ends
 * with that cause or, since the term of rank 1 came, with the sum. */
static void quit_main(struct harness_rank *rank)
{
    struct shared *shared = rank->arg;
    for (uint32_t i = 0; i < 6; i++) {
        tryst_status cause = i % 2 ? TRYST_E_CANCELED : TRYST_E_DEADLINE;
        tryst_step *step = harness_step(rank, i + 1);
        bool quits = rank->rank == 1;
        int64_t value = 1;
        while (rank->rank == 0 && atomic_load(&shared->ended) == i) {
            tryst_progress(rank->ctx);
            harness_sleep_ms(1);
        }
        tryst_op *op = sum_start(step, &value, quits && i % 2 == 0 ? 5 * NS_PER_MS : 0);
        if (quits && i % 2)
            CHECK_STATUS(tryst_op_cancel(op), TRYST_OK);
        tryst_error error = {.struct_size = sizeof error};
        tryst_status status = harness_outcome(op, &error);
        if (quits)
            atomic_fetch_add(&shared->ended, 1);
        if (status == TRYST_OK)
            CHECK(!quits && value == rank->size);
        else if (status != cause || error.origin_rank != 1)
            harness_fail(__FILE__, __LINE__, "%s of rank %d: %s",
                         tryst_status_name(status), error.origin_rank, error.text);
        meet(rank);
        harness_step_close(step);
    }
}

static void test_quit(void **state)
{
    (void)state;
    run_some(quit_main, 2);
}

enum { ABSENCES = 6, QUIT_MS = 60, SOON_MS = 1000 };

/* Have the rank that is absent in round `i` come when the others have ended: it submits
 * its part, which ends with the cause, or closes the step. Meanwhile it makes progress in
 * every second round only. */
static void absent_come(struct harness_rank *rank, tryst_step *step, uint32_t i,
                        tryst_status cause, int quitter)
{
    struct shared *shared = rank->arg;
    uint32_t others = (uint32_t)rank->size - 1;
    int64_t value = 1;
    while (atomic_load(&shared->ended) < (i + 1) * others) {
        if (i % 2)
            tryst_progress(rank->ctx);
        harness_sleep_ms(1);
    }
    if (i % 3)
        cause_check(sum_start(step, &value, 0), cause, quitter);
}

/* A rank gives up when all others but one have its term, and it has theirs; the last one
 * has not come. All others end with the cause, soon, and the last one when it comes. */
static void absent_main(struct harness_rank *rank)
{
    struct shared *shared = rank->arg;
    for (uint32_t i = 0; i < ABSENCES; i++) {
        int quitter = (int)i % rank->size, absent = (int)(i + 1 + i / 4) % rank->size;
        tryst_status cause = i % 4 < 2 ? TRYST_E_CANCELED : TRYST_E_DEADLINE;
        int64_t value = 1;
        uint64_t began_ns = now_ns();
        tryst_step *warm = harness_step(rank, 2 * i + 1);
        harness_end(sum_start(warm, &value, 0), TRYST_OK);
        harness_step_close(warm);
        meet(rank);
        tryst_step *step = harness_step(rank, 2 * i + 2);
        if (rank->rank == absent) {
            absent_come(rank, step, i, cause, quitter);
        } else {
            bool quits = rank->rank == quitter, late = cause == TRYST_E_DEADLINE;
            tryst_op *op =
                sum_start(step, &value, quits && late ? QUIT_MS * NS_PER_MS : 0);
            if (quits && !late) {
                CHECK_STATUS(tryst_wait(op, QUIT_MS * NS_PER_MS), TRYST_E_TIMEOUT);
                CHECK_STATUS(tryst_op_cancel(op), TRYST_OK);
            }
            cause_check(op, cause, quitter);
            if (quits)
                atomic_store(&shared->quit_ns, now_ns());
            else if (atomic_load(&shared->quit_ns) > began_ns)
                CHECK(now_ns() - atomic_load(&shared->quit_ns) < SOON_MS * NS_PER_MS);
            atomic_fetch_add(&shared->ended, 1);
        }
        meet(rank);
        harness_step_close(step);
    }
}

static void test_absent(void **state)
{
    (void)state;
    for (size_t i = 1; i < COUNT_OF(sizes); i++)
        run_some(absent_main, sizes[i]);
}

/* Two uses of a name are under way, and the last rank has not come: rank 0 cancels the
 * second one, and the first one, which all others wait for too, is not touched. */
static void second_main(struct harness_rank *rank)
{
    struct shared *shared = rank->arg;
    bool quits = !rank->rank, comes = rank->rank + 1 == rank->size;
    int64_t first = 1, second = 1;
    tryst_step *step = harness_step(rank, 1);
    while (comes && atomic_load(&shared->ended) + 1 < (uint32_t)rank->size) {
        tryst_progress(rank->ctx);
        harness_sleep_ms(1);
    }
    tryst_op *one = sum_start(step, &first, 0), *two = sum_start(step, &second, 0);
    if (quits) {
        CHECK_STATUS(tryst_wait(two, QUIT_MS * NS_PER_MS), TRYST_E_TIMEOUT);
        CHECK_STATUS(tryst_op_cancel(two), TRYST_OK);
    }
    cause_check(two, TRYST_E_CANCELED, 0);
    atomic_fetch_add(&shared->ended, 1);
    harness_end(one, TRYST_OK);
    CHECK_EQ(first, rank->size);
    harness_step_close(step);
}

static void test_second(void **state)
{
    (void)state;
    for (size_t i = 1; i < COUNT_OF(sizes); i++)
        run_some(second_main, sizes[i]);
}

/* Rank 1 closes the step without its part: the others end with its TRYST_E_CLOSED. They
 * close the step when all have ended, since the close of each may be such a cause. */
static void closed_main(struct harness_rank *rank)
{
    tryst_step *step = harness_step(rank, 1);
    if (rank->rank == 1) {
        harness_step_close(step);
        meet(rank);
        return;
    }
    int64_t value = 1;
    cause_check(sum_start(step, &value, 0), TRYST_E_CLOSED, 1);
    meet(rank);
    harness_step_close(step);
}

static void test_closed(void **state)
{
    (void)state;
    run_ranks(closed_main);
}

/* ---- ranks that differ ------------------------------------------------------------- */

/* Start an all-reduce of `bytes` in place. */
static tryst_op *bytes_start(tryst_step *step, int64_t *data, size_t bytes)
{
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .data = data,
                           .count = bytes / sizeof *data,
                           .dtype = TRYST_DTYPE_I64};
    tryst_op *op;
    CHECK_STATUS(tryst_allreduce(step, "x", NULL, &tensor, TRYST_REDUCE_SUM, NULL, &op),
                 TRYST_OK);
    return op;
}

enum wrong { LONG, STARS, SHORT, BARRIER, WRONGS };

/* Start what the odd rank does in place of an all-reduce of 8 bytes. */
static tryst_op *wrong_start(tryst_step *step, enum wrong wrong, int64_t *data)
{
    static const size_t bytes[] = {
        [LONG] = LONG_BYTES, [STARS] = STARS_BYTES, [SHORT] = 16};
    tryst_op *op;
    if (wrong != BARRIER)
        return bytes_start(step, data, bytes[wrong]);
    CHECK_STATUS(tryst_barrier(step, "x", NULL, &op), TRYST_OK);
    return op;
}

/* One rank differs in one use of a name: it ends with a mismatch on all ranks, and the
 * uses that follow in the same step are good, also those that were submitted before the
 * mismatch was found. */
static void differ(struct harness_rank *rank, tryst_step *step, int odd, enum wrong wrong,
                   bool waits, int64_t *data)
{
    int64_t values[GOOD], value = 1;
    tryst_op *ops[GOOD];
    tryst_op *bad = rank->rank == odd ? wrong_start(step, wrong, data)
                                      : bytes_start(step, &value, sizeof value);
    tryst_error error = {.struct_size = sizeof error};
    if (waits)
        CHECK_STATUS(harness_outcome(bad, &error), TRYST_E_MISMATCH);
    for (int i = 0; i < GOOD; i++) {
        values[i] = rank->rank + i;
        ops[i] = bytes_start(step, &values[i], sizeof values[i]);
    }
    if (!waits)
        CHECK_STATUS(harness_outcome(bad, &error), TRYST_E_MISMATCH);
    for (int i = 0; i < GOOD; i++) {
        harness_end(ops[i], TRYST_OK);
        CHECK_EQ(values[i], rank->size * (rank->size - 1) / 2 + rank->size * i);
    }
}

static void differ_main(struct harness_rank *rank)
{
    int64_t *data = calloc(1, STARS_BYTES);
    uint64_t id = 0, random = unit_seed() + (uint64_t)rank->rank;
    CHECK(data);
    for (int odd = 0; odd < rank->size; odd++) {
        tryst_step *step = harness_step(rank, ++id);
        for (int wrong = 0; wrong < WRONGS; wrong++) {
            if (harness_random(&random) % 4 == 0)
                harness_sleep_ms(2);
            differ(rank, step, odd, wrong, wrong % 2 == odd % 2, data);
        }
        harness_step_close(step);
    }
    free(data);
}

static void test_differ(void **state)
{
    (void)state;
    run_ranks(differ_main);
}

/* Uses of one name in one step alternate between the exchange and the trees, many at a
 * time, and ranks come at different times. */
static void alternate_main(struct harness_rank *rank)
{
    enum { USES = 30, ROUNDS = 6 };
    uint64_t random = unit_seed() + (uint64_t)rank->rank * 31;
    int64_t *data = malloc(USES * LONG_BYTES);
    tryst_step *step = harness_step(rank, 1);
    tryst_op *ops[USES];
    CHECK(data);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < USES; i++) {
            int64_t *at = data + (size_t)i * LONG_BYTES / sizeof *at;
            at[0] = rank->rank + i;
            ops[i] = bytes_start(step, at, (i + round) % 3 ? sizeof *at : LONG_BYTES);
            if (harness_random(&random) % 16 == 0)
                harness_sleep_ms(1);
        }
        for (int i = 0; i < USES; i++) {
            harness_end(ops[i], TRYST_OK);
            CHECK_EQ(data[(size_t)i * LONG_BYTES / sizeof *data],
                     rank->size * (rank->size - 1) / 2 + rank->size * i);
        }
    }
    free(data);
    harness_step_close(step);
}

static void test_alternate(void **state)
{
    (void)state;
    run_ranks(alternate_main);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),   cmocka_unit_test(test_one_hop),
        cmocka_unit_test(test_quit),   cmocka_unit_test(test_absent),
        cmocka_unit_test(test_second), cmocka_unit_test(test_closed),
        cmocka_unit_test(test_differ), cmocka_unit_test(test_alternate)};
    return HARNESS_MAIN(argc, argv, tests);
}
