/* SPDX-License-Identifier: Apache-2.0 */
/* Small collectives are reported when their result is complete and their DATA is packed:
 * a rank does not wait for the acknowledgements of ranks that compute after their own
 * wait. The caller's memory is free then, also for free(), and what happens to the last
 * DATA later does not change the operation. */
#include "harness.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/coll.h>

#include "support/unit.h"

/* Five ranks: small blocks are packed into one all-reduce. */
enum { RANKS = 5, VICTIM = 3, ROUNDS = 3, AWAY_MS = 200 };

struct shared {
    _Atomic(uint32_t) counter;
    _Atomic(uint32_t) returned; /* ranks that have come back from computing */
};

enum kind { BARRIER, ALLREDUCE, ALLGATHER, PREPARED, KINDS };

static tryst_tensor tensor_of(int64_t *data, uint64_t count)
{
    return (tryst_tensor){.struct_size = sizeof(tryst_tensor),
                          .data = data,
                          .count = count,
                          .dtype = TRYST_DTYPE_I64};
}

static tryst_coll *prepare(const struct harness_rank *rank)
{
    tryst_coll_params params = {.struct_size = sizeof params,
                                .kind = TRYST_COLL_ALLREDUCE,
                                .reduce = TRYST_REDUCE_SUM,
                                .count = 1,
                                .dtype = TRYST_DTYPE_I64,
                                .name = "prepared"};
    tryst_coll *coll;
    CHECK_STATUS(tryst_coll_prepare(rank->group, &params, &coll), TRYST_OK);
    return coll;
}

static tryst_op *start(tryst_step *step, enum kind kind, tryst_coll *coll,
                       const tryst_tensor *in, const tryst_tensor *out)
{
    tryst_op *op;
    tryst_status status =
        kind == BARRIER ? tryst_barrier(step, "b", NULL, &op)
        : kind == ALLREDUCE
            ? tryst_allreduce(step, "r", in, out, TRYST_REDUCE_SUM, NULL, &op)
        : kind == ALLGATHER ? tryst_allgather(step, "g", in, out, NULL, &op)
                            : tryst_coll_start(step, coll, in, out, NULL, &op);
    CHECK_STATUS(status, TRYST_OK);
    return op;
}

/* Run one collective with the status `wanted`, in memory that is freed at once. */
static void collective(struct harness_rank *rank, tryst_step *step, enum kind kind,
                       tryst_coll *coll, tryst_status wanted)
{
    uint64_t out_count = kind == ALLGATHER ? RANKS : 1;
    int64_t *in = malloc(sizeof *in), *out = calloc(out_count, sizeof *out);
    CHECK(in && out);
    *in = rank->rank + 1;
    tryst_tensor from = tensor_of(in, 1), to = tensor_of(out, out_count);
    tryst_error error = {.struct_size = sizeof error};
    tryst_op *op = start(step, kind, coll, &from, &to);
    CHECK_STATUS(harness_outcome(op, &error), wanted);
    if (wanted != TRYST_OK)
        CHECK_EQ(error.origin_rank, VICTIM);
    for (int i = 0; wanted == TRYST_OK && kind != BARRIER && i < (int)out_count; i++)
        CHECK_EQ(out[i], kind == ALLGATHER ? i + 1 : RANKS * (RANKS + 1) / 2);
    memset(in, 0x5a, sizeof *in);
    memset(out, 0x5a, out_count * sizeof *out);
    free(in);
    free(out);
}

/* Connect all neighbours. */
static tryst_step *open_connected(struct harness_rank *rank)
{
    struct shared *shared = rank->arg;
    tryst_step *step = harness_step(rank, 1);
    collective(rank, step, BARRIER, NULL, TRYST_OK);
    harness_barrier(rank, &shared->counter);
    return step;
}

static void run_ranks(void (*main)(struct harness_rank *rank), int killed)
{
    /* No acknowledgement leaves by itself while a rank computes. */
    static const char *const config[] = {"ack_delay", "1s", NULL};
    struct shared *shared = harness_share(sizeof *shared);
    struct harness_params params = {.size = RANKS,
                                    .main = main,
                                    .arg = shared,
                                    .timeout_s = 30,
                                    .config = config,
                                    .killed = killed};
    int failed = harness_run(&params);
    harness_unshare(shared, sizeof *shared);
    assert_int_equal(failed, 0);
}

/* ---- ranks that compute ------------------------------------------------------------ */

/* All ranks but rank 0 compute after each collective. Rank 0 completes each one before
 * they return, if the machine is not too busy: then at least half of the time. */
static void away_main(struct harness_rank *rank)
{
    struct shared *shared = rank->arg;
    tryst_step *step = open_connected(rank);
    tryst_coll *coll = prepare(rank);
    uint32_t late = 0;
    for (uint32_t i = 0; i < KINDS * ROUNDS; i++) {
        collective(rank, step, (enum kind)(i / ROUNDS), coll, TRYST_OK);
        if (rank->rank == 0) {
            late += atomic_load(&shared->returned) > i * (RANKS - 1);
        } else {
            harness_sleep_ms(AWAY_MS);
            atomic_fetch_add(&shared->returned, 1);
        }
    }
    CHECK(late <= KINDS * ROUNDS / 2);
    tryst_coll_release(coll);
    harness_step_close(step);
}

static void test_away(void **state)
{
    (void)state;
    run_ranks(away_main, HARNESS_NO_RANK);
}

/* ---- a rank that dies, a step that ends -------------------------------------------- */

/* The victim dies before it acknowledges the result: the collective is complete on all
 * ranks, and the next one fails. */
static void killed_main(struct harness_rank *rank)
{
    tryst_step *step = open_connected(rank);
    collective(rank, step, ALLREDUCE, NULL, TRYST_OK);
    if (rank->rank == VICTIM)
        raise(SIGKILL);
    for (int i = 0; i < ROUNDS; i++)
        collective(rank, step, i ? BARRIER : ALLREDUCE, NULL, TRYST_E_PEER);
    harness_step_close(step);
}

static void test_killed(void **state)
{
    (void)state;
    if (!harness_has_processes())
        skip();
    run_ranks(killed_main, VICTIM);
}

/* Rank 0 ends the step at once, while other ranks have not read the result. */
static void step_end(struct harness_rank *rank, bool aborts)
{
    struct shared *shared = rank->arg;
    int64_t value = 1;
    tryst_tensor tensor = tensor_of(&value, 1);
    tryst_error error = {.struct_size = sizeof error};
    tryst_step *step = open_connected(rank);
    tryst_op *op = start(step, ALLREDUCE, NULL, NULL, &tensor);
    if (rank->rank) { /* the term leaves; the result comes while this rank computes */
        (void)tryst_wait(op, 1000);
        harness_sleep_ms(AWAY_MS);
    }
    tryst_status status = harness_outcome(op, &error);
    bool may_abort = aborts && rank->rank;
    if (status != TRYST_OK && !(may_abort && status == TRYST_E_ABORTED))
        harness_fail(__FILE__, __LINE__, "%s: %s", tryst_status_name(status), error.text);
    CHECK(status != TRYST_OK || value == RANKS);
    if (aborts && rank->rank == 0)
        CHECK_STATUS(tryst_step_abort(step, TRYST_E_CANCELED, "test"), TRYST_OK);
    harness_step_close(step);
    step = harness_step(rank, 2);
    collective(rank, step, ALLREDUCE, NULL, TRYST_OK);
    harness_step_close(step);
    harness_barrier(rank, &shared->counter);
}

static void closed_main(struct harness_rank *rank)
{
    step_end(rank, false);
}

static void aborted_main(struct harness_rank *rank)
{
    step_end(rank, true);
}

static void test_closed(void **state)
{
    (void)state;
    run_ranks(closed_main, HARNESS_NO_RANK);
}

static void test_aborted(void **state)
{
    (void)state;
    run_ranks(aborted_main, HARNESS_NO_RANK);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_away), cmocka_unit_test(test_killed),
        cmocka_unit_test(test_closed), cmocka_unit_test(test_aborted)};
    return HARNESS_MAIN(argc, argv, tests);
}
