/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives through the public API: their results, the calls that are refused, and the
 * failure of one rank, which ends the collective on all ranks. Random plans:
 * tests/collectives/test_run.c. */
#include "harness.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/coll.h>
#include <unistd.h>

#include "support/unit.h"

enum { RANKS = 5, LARGE = 300001, STEPS = 20, MISSING = 3, VICTIM = 4 };
#define NS_PER_MS UINT64_C(1000000)

static void run_size(int size, void (*main)(struct harness_rank *rank), int killed)
{
    _Atomic(uint32_t) *counter = harness_share(sizeof *counter);
    struct harness_params params = {
        .size = size, .main = main, .arg = counter, .timeout_s = 60, .killed = killed};
    int failed = harness_run(&params);
    harness_unshare(counter, sizeof *counter);
    assert_int_equal(failed, 0);
}

static void run_ranks(void (*main)(struct harness_rank *rank), int killed)
{
    run_size(RANKS, main, killed);
}

static tryst_tensor tensor_of(void *data, uint64_t count, tryst_dtype dtype)
{
    return (tryst_tensor){.struct_size = sizeof(tryst_tensor),
                          .data = data,
                          .count = count,
                          .dtype = dtype};
}

static tryst_op *sum_start(tryst_step *step, const char *name, int64_t *data,
                           uint64_t count, const tryst_op_params *params)
{
    tryst_tensor tensor = tensor_of(data, count, TRYST_DTYPE_I64);
    tryst_op *op;
    if (tryst_allreduce(step, name, NULL, &tensor, TRYST_REDUCE_SUM, params, &op) !=
        TRYST_OK)
        harness_fail(__FILE__, __LINE__, "%s", tryst_last_error());
    return op;
}

/* ---- results ----------------------------------------------------------------------- */

static void yield_main(struct harness_rank *rank)
{
    int64_t *data = calloc(LARGE, sizeof *data), *out = calloc(LARGE, sizeof *out);
    tryst_tensor in = tensor_of(data, LARGE, TRYST_DTYPE_I64);
    tryst_tensor result = tensor_of(out, LARGE, TRYST_DTYPE_I64);
    tryst_op *op;
    tryst_step *step = harness_step(rank, 1);
    for (int i = 0; i < LARGE; i++)
        data[i] = (int64_t)rank->rank * 1000003 + i;
    CHECK_STATUS(tryst_barrier(step, "here", NULL, &op), TRYST_OK);
    harness_end(op, TRYST_OK);
    CHECK_STATUS(tryst_allreduce(step, "sum", &in, &result, TRYST_REDUCE_SUM, NULL, &op),
                 TRYST_OK);
    harness_end(op, TRYST_OK);
    for (int i = 0; i < LARGE; i++)
        CHECK_EQ(out[i], RANKS * (RANKS - 1) / 2 * INT64_C(1000003) + RANKS * (int64_t)i);
    CHECK_EQ(data[5], rank->rank * 1000003 + 5);
    CHECK_STATUS(
        tryst_reduce(step, "least", &in, &result, TRYST_REDUCE_MIN, 2, NULL, &op),
        TRYST_OK);
    harness_end(op, TRYST_OK);
    CHECK_EQ(out[7], rank->rank == 2 ? 7 : RANKS * (RANKS - 1) / 2 * 1000003 + RANKS * 7);
    CHECK_STATUS(tryst_broadcast(step, "from 3", &in, 3, NULL, &op), TRYST_OK);
    harness_end(op, TRYST_OK);
    CHECK_EQ(data[LARGE - 1], 3 * 1000003 + LARGE - 1);
    harness_step_close(step);
    free(data);
    free(out);
}

static void test_results(void **state)
{
    run_ranks(yield_main, HARNESS_NO_RANK);
}

/* Use the same name several times in a step and over many steps, detached once. */
static void loop_main(struct harness_rank *rank)
{
    tryst_coll_params params = {.struct_size = sizeof params,
                                .kind = TRYST_COLL_ALLREDUCE,
                                .reduce = TRYST_REDUCE_MAX,
                                .count = 3,
                                .dtype = TRYST_DTYPE_F32,
                                .name = "gradient"};
    tryst_coll *coll;
    CHECK_STATUS(tryst_coll_prepare(rank->group, &params, &coll), TRYST_OK);
    for (uint64_t id = 1; id <= STEPS; id++) {
        tryst_step *step = harness_step(rank, id);
        float data[3][3];
        tryst_op *ops[3];
        for (int i = 0; i < 3; i++) {
            tryst_tensor tensor = tensor_of(data[i], 3, TRYST_DTYPE_F32);
            for (int j = 0; j < 3; j++)
                data[i][j] = (float)(rank->rank * 10 + i);
            CHECK_STATUS(tryst_coll_start(step, coll, NULL, &tensor, NULL, &ops[i]),
                         TRYST_OK);
        }
        for (int i = 0; i < 3; i++) {
            harness_end(ops[i], TRYST_OK);
            CHECK(data[i][2] == (float)((RANKS - 1) * 10 + i));
        }
        CHECK_STATUS(tryst_barrier(step, "detached", NULL, NULL), TRYST_OK);
        tryst_op *last;
        CHECK_STATUS(tryst_barrier(step, "detached", NULL, &last), TRYST_OK);
        harness_end(last, TRYST_OK);
        harness_step_close(step);
    }
    tryst_coll_release(coll);
}

static void test_loop(void **state)
{
    run_ranks(loop_main, HARNESS_NO_RANK);
}

/* ---- how they are carried out ------------------------------------------------------ */

/* Fail unless all ranks report one tree with the collective's root, and each rank has a
 * path to that root. */
static void tree_check(struct harness_rank *rank, const tryst_coll_params *params,
                       uint32_t tree, bool is_up)
{
    int32_t parents[RANKS], root = -1;
    CHECK_STATUS(tryst_coll_tree(rank->group, params, tree, is_up, parents), TRYST_OK);
    for (int32_t at = 0; at < RANKS; at++) {
        int32_t steps = 0, top = at;
        while (parents[top] >= 0 && steps++ < RANKS)
            top = parents[top];
        CHECK(steps < RANKS && (root < 0 || top == root));
        root = top;
    }
    if (params->kind != TRYST_COLL_ALLREDUCE)
        CHECK_EQ(root, params->root);
}

static void describe_main(struct harness_rank *rank)
{
    tryst_coll_params params = {.struct_size = sizeof params,
                                .kind = TRYST_COLL_ALLREDUCE,
                                .reduce = TRYST_REDUCE_SUM,
                                .count = 1 << 20,
                                .dtype = TRYST_DTYPE_F32};
    tryst_coll_info info = {.struct_size = sizeof info};
    int32_t parents[RANKS];
    CHECK_STATUS(tryst_coll_estimate(rank->group, &params, &info), TRYST_OK);
    CHECK(info.trees >= 1 && info.slice_bytes % 64 == 0);
    /* no link has a measured rate */
    CHECK(info.bound_seconds == 0 && info.planned_bytes_per_s == 0);
    for (uint32_t tree = 0; tree < info.trees; tree++) {
        tree_check(rank, &params, tree, true);
        tree_check(rank, &params, tree, false);
    }
    CHECK_STATUS(tryst_coll_tree(rank->group, &params, info.trees, true, parents),
                 TRYST_E_INVALID);
    params.kind = TRYST_COLL_BROADCAST;
    for (params.root = 0; params.root < RANKS; params.root++)
        tree_check(rank, &params, 0, false);
    CHECK_STATUS(tryst_coll_estimate(rank->group, &params, &info), TRYST_E_INVALID);
    CHECK_STATUS(tryst_coll_estimate(rank->group, &params, NULL), TRYST_E_INVALID);
    params.kind = TRYST_COLL_ALLGATHER;
    CHECK_STATUS(tryst_coll_tree(rank->group, &params, 0, false, parents),
                 TRYST_E_INVALID);
    params.root = 2;
    tree_check(rank, &params, 0, false);
    params.kind = TRYST_COLL_ALLTOALL;
    CHECK_STATUS(tryst_coll_tree(rank->group, &params, 0, false, parents),
                 TRYST_E_INVALID);
    params.kind = TRYST_COLL_BARRIER;
    CHECK_STATUS(tryst_coll_estimate(rank->group, &params, &info), TRYST_OK);
    CHECK_EQ(info.trees, 1);
}

static void test_describe(void **state)
{
    run_ranks(describe_main, HARNESS_NO_RANK);
}

/* ---- refused calls ----------------------------------------------------------------- */

static void refuse_check(tryst_status got, tryst_status wanted, const char *word)
{
    CHECK_EQ(got, wanted);
    if (!strstr(tryst_last_error(), word))
        harness_fail(__FILE__, __LINE__, "\"%s\" does not contain \"%s\"",
                     tryst_last_error(), word);
}

/* Prepare collectives of the numbers before and behind the kinds. */
static void kinds_refuse(tryst_group *group)
{
    tryst_coll_params params = {.struct_size = sizeof params,
                                .reduce = TRYST_REDUCE_SUM,
                                .count = 1,
                                .dtype = TRYST_DTYPE_I64,
                                .name = "x"};
    tryst_coll *coll;
    refuse_check(tryst_coll_prepare(group, &params, &coll), TRYST_E_INVALID, "kind is 0");
    params.kind = (tryst_coll_kind)(TRYST_COLL_SCATTER + 1);
    refuse_check(tryst_coll_prepare(group, &params, &coll), TRYST_E_INVALID,
                 "kind is 10");
}

static void refuse_main(struct harness_rank *rank)
{
    double data[8];
    tryst_op *last;
    tryst_step *step = harness_step(rank, 1);
    tryst_tensor good = tensor_of(data, 4, TRYST_DTYPE_F64);
    tryst_tensor shifted = tensor_of(data + 1, 4, TRYST_DTYPE_F64);
    tryst_tensor untyped = tensor_of(data, 4, TRYST_DTYPE_INVALID);
    tryst_tensor nowhere = tensor_of(NULL, 4, TRYST_DTYPE_F64);
    tryst_op_params dead = {.struct_size = sizeof dead, .flags = TRYST_OP_DEAD};
    /* a region elsewhere */
    double other[8];
    tryst_tensor elsewhere = good;
    CHECK_STATUS(tryst_mem_register(rank->ctx, other, sizeof other, TRYST_MEMORY_HOST, 0,
                                    &elsewhere.mem),
                 TRYST_OK);
    tryst_reduce_op sum = TRYST_REDUCE_SUM;
#define ALLREDUCE(name, in, out, op, params) \
    tryst_allreduce(step, name, in, out, op, params, NULL)
    refuse_check(ALLREDUCE("", &good, &good, sum, NULL), TRYST_E_INVALID, "name");
    refuse_check(ALLREDUCE("a;b", &good, &good, sum, NULL), TRYST_E_INVALID, "name");
    refuse_check(ALLREDUCE("~tryst/x", &good, &good, sum, NULL), TRYST_E_INVALID,
                 "the library's");
    refuse_check(ALLREDUCE(NULL, &good, &good, sum, NULL), TRYST_E_INVALID, "NULL");
    refuse_check(ALLREDUCE("x", &good, NULL, sum, NULL), TRYST_E_INVALID, "NULL");
    refuse_check(ALLREDUCE("x", &good, &shifted, sum, NULL), TRYST_E_INVALID, "overlap");
    refuse_check(ALLREDUCE("x", NULL, &untyped, sum, NULL), TRYST_E_INVALID, "dtype");
    refuse_check(ALLREDUCE("x", NULL, &nowhere, sum, NULL), TRYST_E_INVALID, "data");
    refuse_check(ALLREDUCE("x", NULL, &elsewhere, sum, NULL), TRYST_E_INVALID,
                 "of out do not describe");
    refuse_check(ALLREDUCE("x", NULL, &good, TRYST_REDUCE_XOR, NULL), TRYST_E_INVALID,
                 "xor");
    refuse_check(ALLREDUCE("x", NULL, &good, (tryst_reduce_op)77, NULL), TRYST_E_INVALID,
                 "77");
    refuse_check(ALLREDUCE("x", NULL, &good, sum, &dead), TRYST_E_INVALID, "flags");
    refuse_check(tryst_broadcast(step, "x", &good, RANKS, NULL, NULL), TRYST_E_INVALID,
                 "root");
    refuse_check(
        tryst_reduce(step, "x", NULL, &good, sum, rank->rank ? 0 : 1, NULL, NULL),
        TRYST_E_INVALID, "in is NULL");
    refuse_check(tryst_barrier(NULL, "x", NULL, NULL), TRYST_E_INVALID, "step");
    /* the longest name is accepted */
    char name[TRYST_COLL_NAME_MAX + 2];
    memset(name, 'n', sizeof name);
    name[TRYST_COLL_NAME_MAX + 1] = 0;
    refuse_check(ALLREDUCE(name, NULL, &good, sum, NULL), TRYST_E_INVALID, "name");
    name[TRYST_COLL_NAME_MAX] = 0;
    CHECK_STATUS(tryst_barrier(step, name, NULL, &last), TRYST_OK);
    harness_end(last, TRYST_OK);
#undef ALLREDUCE
    kinds_refuse(rank->group);
    harness_step_close(step);
    tryst_mem_release(elsewhere.mem);
}

/* Host memory is named as a device's, or has an unknown event. Such a call is refused;
 * while the driver starts, the operation fails instead. */
static void foreign_main(struct harness_rank *rank)
{
    double data[4], other;
    tryst_step *step = harness_step(rank, 1);
    for (int i = 0; i < 2; i++) {
        tryst_tensor tensor = tensor_of(data, 4, TRYST_DTYPE_F64);
        tryst_error error;
        tryst_op *op;
        tensor.memory = i ? TRYST_MEMORY_HOST : TRYST_MEMORY_CUDA;
        tensor.ready_event = i ? &other : NULL;
        tryst_status status = tryst_allreduce(step, i ? "event" : "memory", NULL, &tensor,
                                              TRYST_REDUCE_SUM, NULL, &op);
        if (status == TRYST_OK && !i && rank->rank == 1)
            tryst_op_cancel(op); /* while the driver starts */
        if (status == TRYST_OK)
            status = harness_outcome(op, &error);
        if (status != TRYST_E_UNSUPPORTED && status != TRYST_E_MODULE &&
            status != TRYST_E_INVALID && (i || status != TRYST_E_CANCELED))
            harness_fail(__FILE__, __LINE__, "%d: %s", i, tryst_status_name(status));
    }
    harness_barrier(rank, rank->arg);
    harness_step_close(step);
}

static void test_refusals(void **state)
{
    run_ranks(refuse_main, HARNESS_NO_RANK);
    if (!getenv("TRYST_CUDA_DRIVER"))
        run_ranks(foreign_main, HARNESS_NO_RANK);
}

/* ---- failures ---------------------------------------------------------------------- */

/* The call of one of two ranks, and its description in error texts. */
struct call {
    tryst_coll_kind kind;
    tryst_reduce_op reduce;
    uint64_t count;
    tryst_dtype dtype;
    const char *says;
};
#define ALLREDUCE TRYST_COLL_ALLREDUCE
#define SUM       TRYST_REDUCE_SUM
static const struct call unlike[][2] = {
    {{ALLREDUCE, SUM, LARGE, TRYST_DTYPE_I64, "all-reduce (sum) of 300001 x i64"},
     {ALLREDUCE, SUM, LARGE - 1, TRYST_DTYPE_I64, "all-reduce (sum) of 300000 x i64"}},
    {{ALLREDUCE, SUM, LARGE, TRYST_DTYPE_I64, "of 300001 x i64"},
     {ALLREDUCE, SUM, 3, TRYST_DTYPE_I64, "of 3 x i64"}},
    {{ALLREDUCE, SUM, 7, TRYST_DTYPE_I64, "of 7 x i64"},
     {ALLREDUCE, SUM, 8, TRYST_DTYPE_I64, "of 8 x i64"}},
    {{ALLREDUCE, SUM, 0, TRYST_DTYPE_I64, "of 0 x i64"},
     {ALLREDUCE, SUM, 5, TRYST_DTYPE_I64, "of 5 x i64"}},
    {{ALLREDUCE, SUM, LARGE, TRYST_DTYPE_I64, "of 300001 x i64"},
     {ALLREDUCE, SUM, 0, TRYST_DTYPE_I64, "of 0 x i64"}},
    /* calls of as many bytes */
    {{ALLREDUCE, SUM, 6, TRYST_DTYPE_F32, "all-reduce (sum) of 6 x f32"},
     {ALLREDUCE, SUM, 6, TRYST_DTYPE_I32, "all-reduce (sum) of 6 x i32"}},
    {{ALLREDUCE, SUM, 2 * LARGE, TRYST_DTYPE_F32, "of 600002 x f32"},
     {ALLREDUCE, SUM, LARGE, TRYST_DTYPE_F64, "of 300001 x f64"}},
    {{ALLREDUCE, SUM, 0, TRYST_DTYPE_F32, "of 0 x f32"},
     {ALLREDUCE, SUM, 0, TRYST_DTYPE_F64, "of 0 x f64"}},
    {{ALLREDUCE, SUM, 6, TRYST_DTYPE_I64, "all-reduce (sum) of 6 x i64"},
     {ALLREDUCE, TRYST_REDUCE_MAX, 6, TRYST_DTYPE_I64, "all-reduce (max) of 6 x i64"}},
    {{ALLREDUCE, SUM, 6, TRYST_DTYPE_F32, "all-reduce (sum) of 6 x f32"},
     {ALLREDUCE, TRYST_REDUCE_PREMULTIPLIED_SUM, 6, TRYST_DTYPE_F32,
      "all-reduce (premultiplied sum) of 6 x f32"}},
    {{ALLREDUCE, SUM, LARGE, TRYST_DTYPE_I64, "all-reduce (sum)"},
     {ALLREDUCE, TRYST_REDUCE_MAX, LARGE, TRYST_DTYPE_I64, "all-reduce (max)"}},
    {{ALLREDUCE, SUM, 6, TRYST_DTYPE_I64, "all-reduce (sum) of 6 x i64"},
     {TRYST_COLL_REDUCE, SUM, 6, TRYST_DTYPE_I64, "reduce (sum) of 6 x i64, root 0"}},
    {{TRYST_COLL_REDUCE, SUM, LARGE, TRYST_DTYPE_I64, "reduce (sum) of 300001 x i64"},
     {ALLREDUCE, SUM, LARGE, TRYST_DTYPE_I64, "all-reduce (sum) of 300001 x i64"}},
    {{TRYST_COLL_BROADCAST, TRYST_REDUCE_INVALID, 6, TRYST_DTYPE_I64,
      "broadcast of 6 x i64, root 0"},
     {ALLREDUCE, SUM, 6, TRYST_DTYPE_I64, "all-reduce (sum) of 6 x i64"}},
    /* each rank waits for a part that the other rank does not have */
    {{ALLREDUCE, SUM, 6, TRYST_DTYPE_I64, "all-reduce (sum) of 6 x i64"},
     {TRYST_COLL_BROADCAST, TRYST_REDUCE_INVALID, 6, TRYST_DTYPE_I64,
      "broadcast of 6 x i64, root 0"}},
    {{TRYST_COLL_BARRIER, TRYST_REDUCE_INVALID, 0, TRYST_DTYPE_U8, "barrier"},
     {TRYST_COLL_BROADCAST, TRYST_REDUCE_INVALID, 6, TRYST_DTYPE_I64,
      "broadcast of 6 x i64, root 0"}},
    {{TRYST_COLL_BARRIER, TRYST_REDUCE_INVALID, 0, TRYST_DTYPE_U8, "barrier"},
     {ALLREDUCE, SUM, LARGE, TRYST_DTYPE_I64, "all-reduce (sum) of 300001 x i64"}},
};

static tryst_op *call_start(tryst_step *step, const struct call *call, void *data)
{
    tryst_tensor tensor = tensor_of(data, call->count, call->dtype);
    tryst_op *op = NULL;
    tryst_status status;
    if (call->kind == TRYST_COLL_BARRIER)
        status = tryst_barrier(step, "x", NULL, &op);
    else if (call->kind == TRYST_COLL_BROADCAST)
        status = tryst_broadcast(step, "x", &tensor, 0, NULL, &op);
    else if (call->kind == TRYST_COLL_REDUCE)
        status = tryst_reduce(step, "x", &tensor, &tensor, call->reduce, 0, NULL, &op);
    else
        status = tryst_allreduce(step, "x", NULL, &tensor, call->reduce, NULL, &op);
    CHECK_STATUS(status, TRYST_OK);
    return op;
}

/* True if `text` describes `call` as the call of `rank`. */
static bool text_names(const char *text, int rank, const struct call *call)
{
    char start[24];
    snprintf(start, sizeof start, "rank %d has ", rank);
    const char *at = strstr(text, start);
    return at && strstr(at, call->says) &&
           (!strstr(at + 1, "rank ") || strstr(at, call->says) < strstr(at + 1, "rank "));
}

/* One rank, never rank 0, starts another collective than the others, and every rank's
 * collective ends. This rank and its neighbours fail, and each text names the rank and
 * its call, however far away; with two ranks also rank 0 and its call. */
static void mismatch_main(struct harness_rank *rank)
{
    int64_t *data = calloc(LARGE, sizeof *data);
    for (unsigned i = 0; i < 2 * COUNT_OF(unlike); i++) {
        const struct call *calls = unlike[i / 2];
        int other = i % 2 ? rank->size - 1 : 1;
        tryst_step *step = harness_step(rank, i + 1);
        tryst_error error;
        tryst_op *op = call_start(step, &calls[rank->rank == other], data);
        bool edge = rank->rank == other || rank->size == 2;
        tryst_status status = harness_outcome(op, &error);
        /* Only all-reduce and barrier end on no rank before all ranks have joined. */
        bool joint = calls[0].kind == ALLREDUCE || calls[0].kind == TRYST_COLL_BARRIER;
        if (status != TRYST_E_MISMATCH && (status != TRYST_OK || edge || joint))
            harness_fail(__FILE__, __LINE__, "row %u: %s: %s", i / 2,
                         tryst_status_name(status), error.text);
        if (status != TRYST_OK && !text_names(error.text, other, &calls[1]))
            harness_fail(__FILE__, __LINE__, "row %u: does not name rank %d's call: %s",
                         i / 2, other, error.text);
        if (rank->size == 2 && !text_names(error.text, 0, &calls[0]))
            harness_fail(__FILE__, __LINE__, "row %u: does not name rank 0's call: %s",
                         i / 2, error.text);
        /* an earlier close would end the others with its own status */
        harness_barrier(rank, rank->arg);
        harness_step_close(step);
    }
    free(data);
}

static void test_mismatch(void **state)
{
    run_size(2, mismatch_main, HARNESS_NO_RANK);
    run_ranks(mismatch_main, HARNESS_NO_RANK);
    run_size(8, mismatch_main, HARNESS_NO_RANK);
}

/* A rank that never joins is named in the error; the next collective of the others
 * succeeds. */
static void deadline_main(struct harness_rank *rank)
{
    int64_t *data = calloc(LARGE, sizeof *data);
    tryst_step *step = harness_step(rank, 1);
    tryst_op_params params = {.struct_size = sizeof params,
                              .deadline_ns = rank->rank == 1 ? 300 * NS_PER_MS : 0};
    /* Let fabrics start and connect before the deadline begins. */
    harness_end(sum_start(step, "first", data, LARGE, NULL), TRYST_OK);
    if (rank->rank != MISSING) {
        tryst_error error;
        tryst_op *op = sum_start(step, "x", data, LARGE, &params);
        CHECK_STATUS(harness_outcome(op, &error), TRYST_E_DEADLINE);
        CHECK(rank->rank != 1 || strstr(error.text, "rank 3"));
        CHECK_EQ(error.origin_rank, 1);
    }
    harness_barrier(rank, rank->arg);
    harness_step_close(step);
    step = harness_step(rank, 2);
    harness_end(sum_start(step, "x", data, LARGE, NULL), TRYST_OK);
    harness_step_close(step);
    free(data);
}

static void test_deadline(void **state)
{
    run_ranks(deadline_main, HARNESS_NO_RANK);
}

/* One rank cancels its part before the collective can end: it fails with that cause on
 * all ranks. */
static void cancel_main(struct harness_rank *rank)
{
    int64_t *data = calloc(LARGE, sizeof *data);
    tryst_step *step = harness_step(rank, 1);
    tryst_error error;
    if (rank->rank != MISSING) {
        tryst_op *op = sum_start(step, "x", data, LARGE, NULL);
        if (rank->rank == 2)
            CHECK_STATUS(tryst_op_cancel(op), TRYST_OK);
        CHECK_STATUS(harness_outcome(op, &error), TRYST_E_CANCELED);
        CHECK_EQ(error.origin_rank, 2);
        CHECK(!strstr(error.text, "rank 2 cancelled its part") == (rank->rank == 2));
    }
    harness_barrier(rank, rank->arg);
    harness_step_close(step);
    free(data);
}

static void test_cancel(void **state)
{
    run_ranks(cancel_main, HARNESS_NO_RANK);
}

static void abort_main(struct harness_rank *rank)
{
    int64_t *data = calloc(LARGE, sizeof *data);
    tryst_step *step = harness_step(rank, 1);
    tryst_error error;
    if (rank->rank == MISSING)
        CHECK_STATUS(tryst_step_abort(step, TRYST_E_NOMEM, "enough"), TRYST_OK);
    if (rank->rank != MISSING) {
        tryst_tensor tensor = tensor_of(data, LARGE, TRYST_DTYPE_I64);
        tryst_op *op;
        tryst_status status =
            tryst_allreduce(step, "x", NULL, &tensor, TRYST_REDUCE_SUM, NULL, &op);
        if (status == TRYST_OK) {
            CHECK_STATUS(harness_outcome(op, &error), TRYST_E_ABORTED);
            CHECK_EQ(error.origin_rank, MISSING);
        } else {
            CHECK_STATUS(status, TRYST_E_ABORTED);
        }
    }
    harness_barrier(rank, rank->arg);
    harness_step_close(step);
    free(data);
}

static void test_abort(void **state)
{
    run_ranks(abort_main, HARNESS_NO_RANK);
}

/* A rank dies during a collective; later collectives fail at once, and the group can be
 * closed. */
static void death_main(struct harness_rank *rank)
{
    int64_t *data = calloc(LARGE, sizeof *data);
    tryst_step *step = harness_step(rank, 1);
    tryst_error error;
    harness_end(sum_start(step, "first", data, 3, NULL), TRYST_OK);
    harness_barrier(rank, rank->arg);
    if (rank->rank == VICTIM)
        kill(getpid(), SIGKILL);
    for (int i = 0; i < 3; i++) {
        uint64_t begin_ns = harness_now_ns();
        tryst_op *op = sum_start(step, "x", data, i ? 3 : LARGE, NULL);
        CHECK_STATUS(harness_outcome(op, &error), TRYST_E_PEER);
        CHECK_EQ(error.origin_rank, VICTIM);
        CHECK(harness_now_ns() - begin_ns < 5000 * NS_PER_MS);
    }
    harness_step_close(step);
    free(data);
}

static void test_death(void **state)
{
    if (harness_has_processes())
        run_ranks(death_main, VICTIM);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results),  cmocka_unit_test(test_loop),
        cmocka_unit_test(test_describe), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_mismatch), cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_cancel),   cmocka_unit_test(test_abort),
        cmocka_unit_test(test_death)};
    return HARNESS_MAIN(argc, argv, tests);
}
