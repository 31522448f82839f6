/* SPDX-License-Identifier: Apache-2.0 */
/* The behaviour that the manual documents for successful operations and for refused
 * calls. Failed operations are in test_errors.c. */
#include "harness.h"

#include "support/unit.h"

#include <stdatomic.h>
#include <string.h>

enum { SMALL = 100, LARGE = 3 << 20 };
static const size_t sizes[] = {SMALL, LARGE};

static void run_two(void (*main)(struct harness_rank *rank))
{
    _Atomic(uint32_t) *counter = harness_share(sizeof *counter);
    struct harness_params params = {.size = 2, .main = main, .arg = counter};
    int failed = harness_run(&params);
    harness_unshare(counter, sizeof *counter);
    assert_int_equal(failed, 0);
}

/* Send on rank 0, receive on rank 1. */
static tryst_op *submit(struct harness_rank *rank, tryst_step *step, const char *edge,
                        void *data, size_t bytes, const tryst_op_params *params)
{
    tryst_op *op;
    tryst_tensor tensor = harness_tensor(data, bytes);
    struct harness_key key = harness_key(rank, 0, 1, edge);
    CHECK_STATUS(rank->rank == 0 ? tryst_send(step, key.text, &tensor, params, &op)
                                 : tryst_recv(step, key.text, &tensor, params, &op),
                 TRYST_OK);
    return op;
}

/* ---- matching ---------------------------------------------------------------------- */

/* The i-th send meets the i-th receive, small or large, whichever is posted first. */
static void duplicates_main(struct harness_rank *rank)
{
    enum { COUNT = 24 };
    char *data = malloc((size_t)COUNT * LARGE);
    CHECK(data);
    for (uint64_t first = 0; first < 2; first++) {
        tryst_op *ops[COUNT];
        tryst_step *step = harness_step(rank, 1 + first);
        if ((uint64_t)rank->rank != first)
            harness_barrier(rank, rank->arg);
        for (size_t i = 0; i < COUNT; i++) {
            size_t bytes = sizes[i % 3 == 1];
            if (rank->rank == 0)
                harness_fill(data + i * LARGE, bytes, i);
            ops[i] = submit(rank, step, "same", data + i * LARGE, bytes, NULL);
        }
        if ((uint64_t)rank->rank == first)
            harness_barrier(rank, rank->arg);
        for (size_t i = COUNT; i-- > 0;)
            harness_end(ops[i], TRYST_OK);
        for (size_t i = 0; i < COUNT; i++)
            CHECK_EQ(harness_mismatch(data + i * LARGE, sizes[i % 3 == 1], i), SIZE_MAX);
        harness_step_close(step);
    }
    free(data);
}

static void test_duplicates_in_order(void **state)
{
    run_two(duplicates_main);
}

/* Wait in a barrier that makes no progress, like that of another library. */
static void meet_elsewhere(_Atomic(uint32_t) *counter)
{
    uint32_t turn = atomic_fetch_add(counter, 1) / 2;
    while (atomic_load(counter) < (turn + 1) * 2)
        harness_sleep_ms(1);
}

/* Rank 1 answers promptly many times and then waits for rank 0 outside the library: rank
 * 0's send must still end. */
static void waits_elsewhere_main(struct harness_rank *rank)
{
    enum { ROUNDS = 60 };
    uint64_t out = 1, in = 0;
    tryst_step *step = harness_step(rank, 1);
    for (int turn = 0; turn < 5; turn++) {
        for (int i = 0; i < ROUNDS; i++) {
            if (rank->rank == 0)
                tryst_op_release(harness_send(rank, step, 1, "ask", &out, sizeof out));
            harness_end(harness_recv(rank, step, 1 - rank->rank,
                                     rank->rank ? "ask" : "answer", &in, sizeof in),
                        TRYST_OK);
            if (rank->rank == 1)
                tryst_op_release(harness_send(rank, step, 0, "answer", &out, sizeof out));
        }
        tryst_op *last = rank->rank == 0
                             ? harness_send(rank, step, 1, "last", &out, sizeof out)
                             : harness_recv(rank, step, 0, "last", &in, sizeof in);
        harness_end(last, TRYST_OK);
        meet_elsewhere(rank->arg);
    }
    harness_step_close(step);
}

static void test_waits_elsewhere(void **state)
{
    run_two(waits_elsewhere_main);
}

/* One key in two open steps is two separate keys. */
static void two_steps_main(struct harness_rank *rank)
{
    uint32_t values[2] = {rank->rank ? 0 : 11, rank->rank ? 0 : 22};
    tryst_step *steps[2] = {harness_step(rank, 1), harness_step(rank, 2)};
    tryst_op *ops[2];
    for (int i = 0; i < 2; i++) {
        int k = rank->rank == 0 ? i : 1 - i;
        ops[k] = submit(rank, steps[k], "k", &values[k], sizeof values[k], NULL);
    }
    harness_end(ops[0], TRYST_OK);
    harness_end(ops[1], TRYST_OK);
    CHECK_EQ(values[0], 11);
    CHECK_EQ(values[1], 22);
    harness_step_close(steps[0]);
    harness_step_close(steps[1]);
}

static void test_two_steps_do_not_mix(void **state)
{
    run_two(two_steps_main);
}

static void empty_main(struct harness_rank *rank)
{
    tryst_step *step = harness_step(rank, 1);
    tryst_tensor got = {.struct_size = sizeof got};
    char byte = 7;
    tryst_op *op = submit(rank, step, "empty", NULL, 0, NULL);
    CHECK_STATUS(tryst_wait(op, TRYST_FOREVER), TRYST_OK);
    CHECK_STATUS(tryst_op_tensor(op, &got), TRYST_OK);
    CHECK_EQ(got.count, 0);
    CHECK_EQ(got.dtype, TRYST_DTYPE_U8);
    tryst_op_release(op);
    harness_end(submit(rank, step, "empty", &byte, 0, NULL), TRYST_OK);
    CHECK_EQ(byte, 7);
    /* an empty and a non-empty tensor do not agree */
    harness_end(submit(rank, step, "empty", &byte, (size_t)rank->rank, NULL),
                TRYST_E_MISMATCH);
    harness_step_close(step);
}

static void test_empty_tensors(void **state)
{
    run_two(empty_main);
}

static void priority_main(struct harness_rank *rank)
{
    enum { COUNT = 8 };
    static const int32_t priorities[] = {0, 5, -5, INT32_MAX, INT32_MIN};
    char *data = malloc((size_t)COUNT * LARGE);
    tryst_op *ops[COUNT];
    char edge[16];
    tryst_step *step = harness_step(rank, 1);
    CHECK(data);
    for (size_t i = 0; i < COUNT; i++) {
        tryst_op_params params = {
            .struct_size = sizeof params,
            .flags = i % 2 ? TRYST_OP_PRIORITY : 0,
            .priority =
                i % 2 ? priorities[(i + (size_t)rank->rank) % COUNT_OF(priorities)] : 0};
        snprintf(edge, sizeof edge, "p%zu", i);
        if (rank->rank == 0)
            harness_fill(data + i * LARGE, LARGE, i);
        ops[i] = submit(rank, step, edge, data + i * LARGE, LARGE, &params);
    }
    for (size_t i = 0; i < COUNT; i++) {
        harness_end(ops[i], TRYST_OK);
        CHECK_EQ(harness_mismatch(data + i * LARGE, LARGE, i), SIZE_MAX);
    }
    harness_step_close(step);
    free(data);
}

static void test_priorities(void **state)
{
    run_two(priority_main);
}

/* ---- handles ----------------------------------------------------------------------- */

struct seen {
    tryst_status status;
    _Atomic(int) calls;
};

static void on_end(void *arg, tryst_op *op, tryst_status status)
{
    struct seen *seen = arg;
    seen->status = status;
    atomic_fetch_add(&seen->calls, 1);
}

/* After an early release the operation goes on, and its callback runs once. */
static void released_main(struct harness_rank *rank)
{
    char *data = calloc(1, LARGE);
    tryst_step *step = harness_step(rank, 1);
    CHECK(data);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct seen seen = {.status = TRYST_IN_PROGRESS};
        tryst_op_params params = {
            .struct_size = sizeof params, .callback = on_end, .arg = &seen};
        if (rank->rank == 0)
            harness_fill(data, sizes[i], i + 1);
        tryst_op_release(submit(rank, step, "r", data, sizes[i], &params));
        while (atomic_load(&seen.calls) == 0)
            if (!tryst_progress(rank->ctx))
                harness_sleep_ms(1);
        CHECK_STATUS(seen.status, TRYST_OK);
        CHECK_EQ(harness_mismatch(data, sizes[i], i + 1), SIZE_MAX);
        for (int k = 0; k < 20; k++)
            tryst_progress(rank->ctx);
        CHECK_EQ(atomic_load(&seen.calls), 1);
    }
    harness_step_close(step);
    free(data);
}

static void test_release_before_completion(void **state)
{
    run_two(released_main);
}

/* Cancel while the bytes are in flight: both ends get the same status, and the next
 * number meets. */
static void cancel_moving_main(struct harness_rank *rank)
{
    enum { BYTES = 24 << 20, ROUNDS = 8 };
    char *data = calloc(1, BYTES);
    tryst_step *step = harness_step(rank, 1);
    CHECK(data);
    for (int i = 0; i < ROUNDS; i++) {
        tryst_op *op = submit(rank, step, "m", data, BYTES, NULL);
        if (rank->rank == i % 2) {
            for (int k = 0; k < 8 * i; k++)
                tryst_progress(rank->ctx);
            CHECK_STATUS(tryst_op_cancel(op), TRYST_OK);
        }
        tryst_status status = tryst_wait(op, TRYST_FOREVER);
        CHECK(status == TRYST_OK || status == TRYST_E_CANCELED);
        memset(data, i, BYTES); /* the buffer belongs to the caller again */
        tryst_op_release(op);
        harness_barrier(rank, rank->arg);
    }
    harness_fill(data, BYTES, rank->rank == 0 ? 99 : 0);
    harness_end(submit(rank, step, "m", data, BYTES, NULL), TRYST_OK);
    CHECK_EQ(harness_mismatch(data, BYTES, 99), SIZE_MAX);
    harness_step_close(step);
    free(data);
}

static void test_cancel_while_moving(void **state)
{
    run_two(cancel_moving_main);
}

/* ---- refused calls ----------------------------------------------------------------- */

/* A refused call changes nothing: no operation is counted and the key's numbers stay. */
static void refused_main(struct harness_rank *rank)
{
    char data[SMALL] = {0};
    tryst_step *step = harness_step(rank, 10), *other = NULL;
    tryst_op *op = NULL;
    struct harness_key key = harness_key(rank, 0, 1, "e");
    tryst_tensor tensor = harness_tensor(data, SMALL), bad = tensor;
    tryst_op_params params = {.struct_size = sizeof params};
    tryst_status (*call)(tryst_step *, const char *, const tryst_tensor *,
                         const tryst_op_params *, tryst_op **) =
        rank->rank == 0 ? tryst_send : tryst_recv;
    uint64_t operations = harness_counter(rank->ctx, "operations");
    bad.struct_size = 4;
    CHECK_STATUS(call(step, key.text, &bad, NULL, &op), TRYST_E_INVALID);
    bad = tensor;
    bad.dtype = (tryst_dtype)99;
    CHECK_STATUS(call(step, key.text, &bad, NULL, &op), TRYST_E_INVALID);
    bad = tensor;
    bad.count = UINT64_MAX;
    bad.dtype = TRYST_DTYPE_F64;
    CHECK_STATUS(call(step, key.text, &bad, NULL, &op), TRYST_E_INVALID);
    params.struct_size = 0;
    CHECK_STATUS(call(step, key.text, &tensor, &params, &op), TRYST_E_INVALID);
    CHECK_STATUS(call(step, "a;b", &tensor, NULL, &op), TRYST_E_KEY);
    CHECK_STATUS(call(step, "", &tensor, NULL, &op), TRYST_E_KEY);
    CHECK_STATUS(tryst_step_open(rank->group, 10, &other), TRYST_E_INVALID);
    CHECK_STATUS(tryst_step_open(rank->group, 9, &other), TRYST_E_INVALID);
    CHECK(op == NULL && other == NULL);
    CHECK_EQ(harness_counter(rank->ctx, "operations"), operations);
    harness_end(submit(rank, step, "e", data, SMALL, NULL), TRYST_OK);
    harness_step_close(step);
    other = harness_step(rank, 11);
    harness_step_close(other);
}

static void test_refused_without_trace(void **state)
{
    run_two(refused_main);
}

/* ---- peers ------------------------------------------------------------------------- */

/* True if the text of tryst_dump has `part`. */
static bool dump_has(tryst_ctx *ctx, const char *part)
{
    static _Thread_local char text[16384];
    FILE *file = tmpfile();
    CHECK(file);
    tryst_dump(ctx, fileno(file));
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return strstr(text, part) != NULL;
}

static void peers_main(struct harness_rank *rank)
{
    char *data = calloc(1, LARGE), prefix[64];
    tryst_step *step = harness_step(rank, 1);
    tryst_peer_info info = {.struct_size = sizeof info};
    CHECK(data);
    tryst_op *op = submit(rank, step, "e", data, LARGE, NULL);
    /* one operation is no "1 operations", and no brackets end with ": )" */
    CHECK(!dump_has(rank->ctx, "\n1 operations ") && !dump_has(rank->ctx, ": )"));
    harness_end(op, TRYST_OK);
    for (int i = 0; i < 2; i++) {
        snprintf(prefix, sizeof prefix, "/job:worker/replica:0/task:%d", i);
        CHECK_STATUS(tryst_group_peer(rank->group, i, &info), TRYST_OK);
        CHECK_EQ(info.rank, i);
        CHECK_EQ(info.alive, 1);
        CHECK(info.incarnation != 0 && info.host[0] != '\0');
        CHECK(strcmp(info.device_prefix, prefix) == 0);
    }
    CHECK_STATUS(tryst_group_peer(rank->group, 1 - rank->rank, &info), TRYST_OK);
    CHECK(strncmp(info.transport, harness_mode(), strlen(info.transport)) == 0);
    CHECK(info.transport[0] != '\0' && info.mechanism[0] != '\0');
    CHECK_EQ(rank->rank == 0 ? info.bytes_sent : info.bytes_received, LARGE);
    CHECK_EQ(rank->rank == 0 ? info.bytes_received : info.bytes_sent, 0);
    CHECK((rank->rank == 0) == (info.moving_ns > 0));
    CHECK((rank->rank == 0) == dump_has(rank->ctx, "; bulk: moving "));
    CHECK_STATUS(tryst_group_peer(rank->group, 2, &info), TRYST_E_INVALID);
    CHECK_STATUS(tryst_group_peer(rank->group, -1, &info), TRYST_E_INVALID);
    /* both ranks read the information while both are in the group */
    harness_barrier(rank, rank->arg);
    harness_step_close(step);
    free(data);
}

static void test_peer_info(void **state)
{
    run_two(peers_main);
}

/* ---- waits ------------------------------------------------------------------------- */

/* Repeated messages to the rank itself, each of whose passes takes a millisecond. */
struct slow {
    struct harness_rank *rank;
    tryst_step *step;
    bool stop;
    char byte[2];
    tryst_op *ops[2];
};

static void slow_again(struct slow *slow);

static void slow_done(void *arg, tryst_op *op, tryst_status status)
{
    struct slow *slow = arg;
    (void)op;
    if (slow->stop)
        return; /* the step's close may have cancelled the operation */
    CHECK_STATUS(status, TRYST_OK);
    harness_sleep_ms(1);
    slow_again(slow);
}

static void slow_again(struct slow *slow)
{
    int me = slow->rank->rank;
    struct harness_key key = harness_key(slow->rank, me, me, "slow");
    tryst_op_params params = {
        .struct_size = sizeof params, .callback = slow_done, .arg = slow};
    tryst_op *op;
    for (int i = 0; i < 2; i++) {
        tryst_tensor tensor = harness_tensor(&slow->byte[i], 1);
        CHECK_STATUS(i ? tryst_recv(slow->step, key.text, &tensor, &params, &op)
                       : tryst_send(slow->step, key.text, &tensor, NULL, &op),
                     TRYST_OK);
        tryst_op_release(op);
    }
}

/* A wait ends in time although a pass takes long; the first few waits measure the
 * duration of a pass. */
static void slow_main(struct harness_rank *rank)
{
    enum { LEARN = 10, TIMEOUT_MS = 10, MOST_MS = 60 };
    tryst_step *step = harness_step(rank, 1);
    struct slow slow = {.rank = rank, .step = step};
    char byte;
    tryst_op *never = harness_recv(rank, step, 1 - rank->rank, "never", &byte, 1);
    uint64_t least_ns = UINT64_MAX;
    slow_again(&slow);
    for (int i = 0; i < 2 * LEARN; i++) {
        uint64_t begin_ns = harness_now_ns();
        CHECK_STATUS(tryst_wait(never, TIMEOUT_MS * 1000000ull), TRYST_E_TIMEOUT);
        uint64_t took_ns = harness_now_ns() - begin_ns;
        least_ns = i >= LEARN && took_ns < least_ns ? took_ns : least_ns;
    }
    CHECK(least_ns >= TIMEOUT_MS * 1000000ull);
    CHECK(least_ns < MOST_MS * 1000000ull);
    slow.stop = true;
    harness_barrier(rank, rank->arg);
    tryst_op_cancel(never);
    harness_end(never, TRYST_E_CANCELED);
    /* otherwise the other rank's close would end the wait */
    harness_barrier(rank, rank->arg);
    harness_step_close(step);
}

static void test_slow_passes(void **state)
{
    run_two(slow_main);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slow_passes),
        cmocka_unit_test(test_duplicates_in_order),
        cmocka_unit_test(test_waits_elsewhere),
        cmocka_unit_test(test_two_steps_do_not_mix),
        cmocka_unit_test(test_empty_tensors),
        cmocka_unit_test(test_priorities),
        cmocka_unit_test(test_release_before_completion),
        cmocka_unit_test(test_cancel_while_moving),
        cmocka_unit_test(test_refused_without_trace),
        cmocka_unit_test(test_peer_info),
    };
    return HARNESS_MAIN(argc, argv, tests);
}
