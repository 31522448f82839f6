/* SPDX-License-Identifier: Apache-2.0 */
/* Five ranks in a chain: the cause that ends a collective, also if a rank submits late,
 * has closed its step or has left; and the rank that the text of an expired deadline
 * names. */
#include "harness.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/coll.h>
#include <unistd.h>

#include "coll_net.h"
#include "support/unit.h"

enum { RANKS = 5, VICTIM = 4, NEIGHBOUR = 3, LARGE = 300001, SMALL = 5 };
#define NS_PER_MS UINT64_C(1000000)

struct shared {
    _Atomic(uint32_t) counter, living;
};

static void run_ranks(void (*main)(struct harness_rank *rank), int killed)
{
    char path[64];
    struct shared *shared = harness_share(sizeof *shared);
    coll_net_write(NET_CHAIN, RANKS, path);
    const char *const config[] = {"topology", path, NULL};
    struct harness_params params = {.size = RANKS,
                                    .main = main,
                                    .arg = shared,
                                    .timeout_s = 30,
                                    .config = config,
                                    .killed = killed};
    int failed = harness_run(&params);
    unlink(path);
    harness_unshare(shared, sizeof *shared);
    assert_int_equal(failed, 0);
}

/* thread-local, because in mode self ranks are threads */
static _Thread_local int64_t data[LARGE];

static tryst_op *coll_begin(struct harness_rank *rank, tryst_step *step,
                            tryst_coll_kind kind, uint64_t count, int root,
                            uint64_t deadline_ns)
{
    tryst_op_params params = {.struct_size = sizeof params, .deadline_ns = deadline_ns};
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .data = data,
                           .count = count,
                           .dtype = TRYST_DTYPE_I64};
    const tryst_tensor *in = rank->rank == root ? NULL : &tensor;
    tryst_status status;
    tryst_op *op;
    if (kind == TRYST_COLL_ALLREDUCE)
        status =
            tryst_allreduce(step, "x", NULL, &tensor, TRYST_REDUCE_SUM, &params, &op);
    else if (kind == TRYST_COLL_REDUCE)
        status =
            tryst_reduce(step, "x", in, &tensor, TRYST_REDUCE_SUM, root, &params, &op);
    else if (kind == TRYST_COLL_BROADCAST)
        status = tryst_broadcast(step, "x", &tensor, root, &params, &op);
    else
        status = tryst_barrier(step, "x", &params, &op);
    if (status != TRYST_OK)
        harness_fail(__FILE__, __LINE__, "%s", tryst_last_error());
    return op;
}

static void outcome_check(tryst_status status, const tryst_error *error,
                          tryst_status wanted, int origin)
{
    if (status != wanted || error->origin_rank != origin)
        harness_fail(__FILE__, __LINE__, "%s of rank %d, not %s of rank %d: %s",
                     tryst_status_name(status), error->origin_rank,
                     tryst_status_name(wanted), origin, error->text);
}

static void text_check(const tryst_error *error, const char *part, bool has)
{
    if (!strstr(error->text, part) == has)
        harness_fail(__FILE__, __LINE__, "\"%s\" %s \"%s\"", error->text,
                     has ? "lacks" : "has", part);
}

/* Wait until all ranks but the victim have called this function as often. */
static void living_meet(struct harness_rank *rank)
{
    struct shared *shared = rank->arg;
    uint32_t turn = atomic_fetch_add(&shared->living, 1) / (RANKS - 1);
    while (atomic_load(&shared->living) < (turn + 1) * (RANKS - 1)) {
        tryst_progress(rank->ctx);
        harness_sleep_ms(1);
    }
}

static void connect_all(struct harness_rank *rank)
{
    struct shared *shared = rank->arg;
    tryst_error error;
    tryst_step *step = harness_step(rank, 1);
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(harness_outcome(coll_begin(rank, step, TRYST_COLL_ALLREDUCE,
                                                i ? LARGE : SMALL, 0, 0),
                                     &error),
                     TRYST_OK);
    harness_step_close(step);
    harness_barrier(rank, &shared->counter);
}

/* ---- a rank that died -------------------------------------------------------------- */

static const struct shape {
    tryst_coll_kind kind;
    uint64_t count;
    int root;
} shapes[] = {{TRYST_COLL_REDUCE, LARGE, 0},
              {TRYST_COLL_REDUCE, SMALL, 0},
              {TRYST_COLL_BROADCAST, LARGE, 4},
              {TRYST_COLL_ALLREDUCE, LARGE, 0}};
static unsigned shape_at;

/* The neighbour of the dead rank has failed and closed its step before the others
 * submit. */
static void closed_main(struct harness_rank *rank)
{
    const struct shape *shape = &shapes[shape_at];
    tryst_error error;
    connect_all(rank);
    if (rank->rank == VICTIM)
        kill(getpid(), SIGKILL);
    tryst_step *step = harness_step(rank, 2);
    if (rank->rank != NEIGHBOUR)
        living_meet(rank);
    tryst_op *op = coll_begin(rank, step, shape->kind, shape->count, shape->root, 0);
    tryst_status status = harness_outcome(op, &error);
    outcome_check(status, &error, TRYST_E_PEER, VICTIM);
    harness_step_close(step);
    if (rank->rank == NEIGHBOUR)
        living_meet(rank);
    living_meet(rank);
}

/* A rank dies when all others have submitted: each text names this rank. */
static void died_main(struct harness_rank *rank)
{
    struct shared *shared = rank->arg;
    tryst_error error;
    connect_all(rank);
    if (rank->rank == VICTIM) {
        while (atomic_load(&shared->living) < 2 * (RANKS - 1))
            harness_sleep_ms(1);
        kill(getpid(), SIGKILL);
    }
    tryst_step *step = harness_step(rank, 2);
    tryst_op *ops[2];
    ops[0] = coll_begin(rank, step, TRYST_COLL_ALLREDUCE, SMALL, 0, 0);
    ops[1] = coll_begin(rank, step, TRYST_COLL_REDUCE, LARGE, VICTIM, 0);
    for (int i = 0; i < 2; i++)
        living_meet(rank);
    for (int i = 0; i < 2; i++) {
        tryst_status status = harness_outcome(ops[i], &error);
        if (i && status == TRYST_OK) /* its sums had all left */
            continue;
        outcome_check(status, &error, TRYST_E_PEER, VICTIM);
        text_check(&error, "rank 4 ", true);
    }
    living_meet(rank);
    harness_step_close(step);
}

static void test_died(void **state)
{
    if (harness_has_processes())
        run_ranks(died_main, VICTIM);
}

static void test_closed(void **state)
{
    for (shape_at = 0; shape_at < COUNT_OF(shapes) && harness_has_processes(); shape_at++)
        run_ranks(closed_main, VICTIM);
}

/* The neighbour of the dead rank has failed and left. The others already have the death's
 * notice. */
static void left_main(struct harness_rank *rank)
{
    tryst_error error;
    connect_all(rank);
    if (rank->rank == VICTIM)
        kill(getpid(), SIGKILL);
    tryst_step *step = harness_step(rank, 2);
    tryst_op *op = coll_begin(rank, step, TRYST_COLL_ALLREDUCE, LARGE, 0, 0);
    tryst_status status = harness_outcome(op, &error);
    outcome_check(status, &error, TRYST_E_PEER, VICTIM);
    harness_step_close(step);
    living_meet(rank);
    if (rank->rank == NEIGHBOUR)
        return;
    for (int i = 0; i < 200; i++) { /* the neighbour's LEAVE arrives */
        tryst_progress(rank->ctx);
        harness_sleep_ms(1);
    }
    step = harness_step(rank, 3);
    for (unsigned i = 0; i < COUNT_OF(shapes); i++) {
        const struct shape *shape = &shapes[i];
        op = coll_begin(rank, step, shape->kind, shape->count, shape->root, 0);
        status = harness_outcome(op, &error);
        outcome_check(status, &error, TRYST_E_PEER, VICTIM);
    }
    harness_step_close(step);
}

static void test_left(void **state)
{
    if (harness_has_processes())
        run_ranks(left_main, VICTIM);
}

/* One rank aborts the step: its status is the origin status of the errors. */
static void abort_main(struct harness_rank *rank)
{
    struct shared *shared = rank->arg;
    tryst_error error;
    connect_all(rank);
    tryst_step *step = harness_step(rank, 2);
    tryst_op *op = NULL;
    if (rank->rank != VICTIM)
        op = coll_begin(rank, step, TRYST_COLL_ALLREDUCE, LARGE, 0, 0);
    harness_barrier(rank, &shared->counter);
    if (rank->rank == VICTIM)
        CHECK_STATUS(tryst_step_abort(step, TRYST_E_NOMEM, "enough"), TRYST_OK);
    if (op) {
        tryst_status status = harness_outcome(op, &error);
        outcome_check(status, &error, TRYST_E_ABORTED, VICTIM);
        CHECK_EQ(error.origin_status, TRYST_E_NOMEM);
    }
    harness_barrier(rank, &shared->counter);
    harness_step_close(step);
}

static void test_abort(void **state)
{
    run_ranks(abort_main, HARNESS_NO_RANK);
}

/* ---- deadlines --------------------------------------------------------------------- */

enum { DEADLINE_MS = 700 };

/* Rank `missing` never joins, and one rank, at the other end of the chain, has a
 * deadline. That rank's neighbour has joined, so no text blames it; the neighbour of the
 * missing rank names the missing rank. */
static void missing_case(struct harness_rank *rank, uint64_t step_id,
                         tryst_coll_kind kind, uint64_t count, int missing)
{
    struct shared *shared = rank->arg;
    int late = missing ? 0 : RANKS - 1;
    int neighbour = missing ? missing - 1 : 1, joined = missing ? 1 : RANKS - 2;
    tryst_step *step = harness_step(rank, step_id);
    if (rank->rank != missing) {
        tryst_error error;
        char text[64];
        uint64_t deadline_ns = rank->rank == late ? DEADLINE_MS * NS_PER_MS : 0;
        tryst_op *op = coll_begin(rank, step, kind, count, 0, deadline_ns);
        tryst_status status = harness_outcome(op, &error);
        outcome_check(status, &error, TRYST_E_DEADLINE, late);
        snprintf(text, sizeof text, "nothing has come from rank %d", missing);
        text_check(&error, text, rank->rank == neighbour);
        snprintf(text, sizeof text, "the deadline of rank %d passed", late);
        text_check(&error, text, rank->rank != late);
        if (rank->rank == late) {
            snprintf(text, sizeof text, "rank %d has joined, and waits itself", joined);
            text_check(&error, text, true);
        } else if (rank->rank != neighbour) {
            text_check(&error, "nothing has come", false);
        }
    }
    harness_barrier(rank, &shared->counter);
    harness_step_close(step);
}

static void missing_main(struct harness_rank *rank)
{
    connect_all(rank);
    missing_case(rank, 2, TRYST_COLL_ALLREDUCE, LARGE, 4);
    missing_case(rank, 3, TRYST_COLL_ALLREDUCE, SMALL, 4);
    missing_case(rank, 4, TRYST_COLL_BARRIER, 0, 4);
    missing_case(rank, 5, TRYST_COLL_ALLREDUCE, LARGE, 0);
    missing_case(rank, 6, TRYST_COLL_ALLREDUCE, SMALL, 0);
}

/* Ranks that give different roots may wait for each other: the text of the expired
 * deadline offers that as a reason. */
static void roots_main(struct harness_rank *rank)
{
    struct shared *shared = rank->arg;
    tryst_error error;
    connect_all(rank);
    tryst_step *step = harness_step(rank, 2);
    tryst_op *op = coll_begin(rank, step, TRYST_COLL_REDUCE, LARGE, rank->rank,
                              DEADLINE_MS * NS_PER_MS);
    tryst_status status = harness_outcome(op, &error);
    if (status != TRYST_E_MISMATCH) {
        CHECK_STATUS(status, TRYST_E_DEADLINE);
        if (error.origin_rank == rank->rank)
            text_check(&error, "names another root", true);
    }
    harness_barrier(rank, &shared->counter);
    harness_step_close(step);
}

/* Of two missing neighbours the text names the connected one, which has not submitted.
 * Other roots are no reason where a neighbour is not connected. */
static void silent_main(struct harness_rank *rank)
{
    struct shared *shared = rank->arg;
    static const int32_t members[] = {0, 1};
    tryst_step *step = harness_step(rank, 1);
    tryst_error error;
    if (rank->rank < 2) {
        tryst_subgroup_params pair = {
            .struct_size = sizeof pair, .count = 2, .members = members};
        tryst_op_params params = {.struct_size = sizeof params};
        tryst_subgroup *subgroup;
        tryst_op *op;
        CHECK_STATUS(tryst_subgroup_open(rank->group, &pair, &subgroup), TRYST_OK);
        params.subgroup = subgroup;
        CHECK_STATUS(tryst_barrier(step, "x", &params, &op), TRYST_OK);
        harness_end(op, TRYST_OK);
        tryst_subgroup_close(subgroup);
    }
    if (rank->rank == 1) {
        tryst_op *op =
            coll_begin(rank, step, TRYST_COLL_ALLREDUCE, SMALL, 0, 200 * NS_PER_MS);
        tryst_status status = harness_outcome(op, &error);
        outcome_check(status, &error, TRYST_E_DEADLINE, 1);
        text_check(&error, "nothing has come from rank 0", true);
        atomic_fetch_add(&shared->living, 1);
    }
    if (rank->rank == 3) {
        tryst_op *op =
            coll_begin(rank, step, TRYST_COLL_REDUCE, SMALL, 4, 200 * NS_PER_MS);
        tryst_status status = harness_outcome(op, &error);
        outcome_check(status, &error, TRYST_E_DEADLINE, 3);
        text_check(&error, "another root", false);
        atomic_fetch_add(&shared->living, 1);
    }
    while (atomic_load(&shared->living) < 2) {
        if (rank->rank < 2) /* ranks 2 and 4 stay unconnected */
            tryst_progress(rank->ctx);
        harness_sleep_ms(1);
    }
    harness_barrier(rank, &shared->counter);
    harness_step_close(step);
}

static void test_silent(void **state)
{
    run_ranks(silent_main, HARNESS_NO_RANK);
}

/* A bound is that of an all-reduce. */
static void bound_main(struct harness_rank *rank)
{
    tryst_coll_params params = {.struct_size = sizeof params,
                                .reduce = TRYST_REDUCE_SUM,
                                .count = LARGE,
                                .dtype = TRYST_DTYPE_I64};
    for (params.kind = TRYST_COLL_ALLREDUCE; params.kind <= TRYST_COLL_SCATTER;
         params.kind++) {
        tryst_coll_info info = {.struct_size = sizeof info};
        bool has = params.kind == TRYST_COLL_ALLREDUCE;
        CHECK_STATUS(tryst_coll_estimate(rank->group, &params, &info), TRYST_OK);
        CHECK((info.bound_seconds > 0) == has && (info.planned_bytes_per_s > 0) == has);
    }
}

static void test_bound(void **state)
{
    run_ranks(bound_main, HARNESS_NO_RANK);
}

static void test_roots(void **state)
{
    run_ranks(roots_main, HARNESS_NO_RANK);
}

static void test_missing(void **state)
{
    run_ranks(missing_main, HARNESS_NO_RANK);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_closed), cmocka_unit_test(test_left),
        cmocka_unit_test(test_abort),  cmocka_unit_test(test_missing),
        cmocka_unit_test(test_roots),  cmocka_unit_test(test_died),
        cmocka_unit_test(test_silent), cmocka_unit_test(test_bound)};
    return HARNESS_MAIN(argc, argv, tests);
}
