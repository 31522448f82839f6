/* SPDX-License-Identifier: Apache-2.0 */
/* Every outcome of an operation except success, at both of its ends. */
#include "harness.h"

#include "support/unit.h"
#include "tryst/coll.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SMALL = 100, LARGE = 3 << 20 };
static const size_t sizes[] = {SMALL, LARGE};

static void run_two(void (*main)(struct harness_rank *rank), const char *const *config)
{
    _Atomic(uint32_t) *counter = harness_share(sizeof *counter);
    struct harness_params params = {
        .size = 2, .main = main, .arg = counter, .config = config};
    int failed = harness_run(&params);
    harness_unshare(counter, sizeof *counter);
    assert_int_equal(failed, 0);
}

static tryst_op *submit(struct harness_rank *rank, tryst_step *step, const char *edge,
                        const tryst_tensor *tensor, const tryst_op_params *params)
{
    tryst_op *op;
    struct harness_key key = harness_key(rank, 0, 1, edge);
    CHECK_STATUS(rank->rank == 0 ? tryst_send(step, key.text, tensor, params, &op)
                                 : tryst_recv(step, key.text, tensor, params, &op),
                 TRYST_OK);
    return op;
}

/* ---- both ends disagree ------------------------------------------------------------ */

static void mismatch_main(struct harness_rank *rank)
{
    char *data = calloc(1, LARGE + 1);
    tryst_step *step = harness_step(rank, 1);
    CHECK(data);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        tryst_tensor tensor = harness_tensor(data, sizes[i] + (size_t)rank->rank);
        harness_end(submit(rank, step, "size", &tensor, NULL), TRYST_E_MISMATCH);
        tensor = harness_tensor(data, sizes[i]);
        tensor.dtype = rank->rank ? TRYST_DTYPE_I8 : TRYST_DTYPE_U8;
        harness_end(submit(rank, step, "dtype", &tensor, NULL), TRYST_E_MISMATCH);
        /* one end is small, the other large */
        tensor = harness_tensor(data, sizes[(i + (size_t)rank->rank) % 2]);
        harness_end(submit(rank, step, "kind", &tensor, NULL), TRYST_E_MISMATCH);
        tensor =
            harness_tensor(data, sizes[i]); /* the next number of the key still meets */
        harness_end(submit(rank, step, "size", &tensor, NULL), TRYST_OK);
    }
    harness_step_close(step);
    free(data);
}

static void test_mismatch(void **state)
{
    run_two(mismatch_main, NULL);
}

static void dead_main(struct harness_rank *rank)
{
    char *data = calloc(1, LARGE);
    tryst_step *step = harness_step(rank, 1);
    tryst_op_params dead = {.struct_size = sizeof dead,
                            .flags = rank->rank == 0 ? TRYST_OP_DEAD : 0};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        tryst_tensor tensor = harness_tensor(data, sizes[i]);
        harness_end(submit(rank, step, "dead", &tensor, &dead), TRYST_E_DEAD);
        harness_end(submit(rank, step, "dead", &tensor, NULL), TRYST_OK);
    }
    harness_step_close(step);
    free(data);
}

static void test_dead(void **state)
{
    run_two(dead_main, NULL);
}

/* Fail unless the error text of the last refused call contains `wanted`. */
static void why(const char *wanted)
{
    if (!strstr(tryst_last_error(), wanted))
        harness_fail(__FILE__, __LINE__, "\"%s\" is not part of \"%s\"", wanted,
                     tryst_last_error());
}

/* A key made of two ranks and a name is the same at both ends, and its string is that of
 * tryst_key_build. */
static void made_main(struct harness_rank *rank)
{
    tryst_step *step = harness_step(rank, 1);
    char text[TRYST_KEY_MAX + 1];
    int32_t values[4] = {0}, wanted[4] = {7, 8, 9, 10};
    tryst_tensor tensor = harness_tensor(rank->rank ? values : wanted, sizeof values);
    for (uint64_t i = 0; i < 3; i++) {
        tryst_key *key;
        tryst_op *op;
        CHECK_STATUS(tryst_key_make(rank->group, 0, 1, "layer", i, &key), TRYST_OK);
        CHECK_STATUS(tryst_key_build(rank->group, 0, 1, "layer", 0, i, text, sizeof text),
                     TRYST_OK);
        CHECK(strcmp(tryst_key_string(key), text) == 0);
        CHECK_STATUS(rank->rank ? tryst_recv_key(step, key, &tensor, NULL, &op)
                                : tryst_send_key(step, key, &tensor, NULL, &op),
                     TRYST_OK);
        tryst_key_release(key);
        harness_end(op, TRYST_OK);
        CHECK(memcmp(tensor.data, wanted, sizeof wanted) == 0);
    }
    harness_step_close(step);
}

static void test_made_keys(void **state)
{
    run_two(made_main, NULL);
}

/* The library reserves edges that begin with '~'; a '~' at another place is allowed. */
static void reserved_check(struct harness_rank *rank, tryst_step *step,
                           const tryst_tensor *tensor)
{
    char text[TRYST_KEY_MAX + 1];
    tryst_key *key = NULL;
    tryst_op *op = NULL;
    struct harness_key mine = harness_key(rank, rank->rank, 1 - rank->rank, "e~");
    const char *edge = "~c/x/0/u";
    CHECK_STATUS(tryst_key_build(rank->group, 0, 1, edge, 0, 0, text, sizeof text),
                 TRYST_E_KEY);
    why("the name \"~c/x/0/u\" begins with '~'");
    CHECK_STATUS(tryst_key_make(rank->group, 0, 1, edge, 0, &key), TRYST_E_KEY);
    why("begins with '~'");
    *strstr(mine.text, "e~") = '~';
    CHECK_STATUS(tryst_key_parse(mine.text, NULL, NULL), TRYST_OK);
    CHECK_STATUS(tryst_key_prepare(rank->group, mine.text, &key), TRYST_E_KEY);
    why("its edge begins with '~', at byte");
    CHECK_STATUS(tryst_send(step, mine.text, tensor, NULL, &op), TRYST_E_KEY);
    why("its edge begins with '~', at byte");
    CHECK(!key && !op);
}

/* A priority without its flag is refused, for a collective too. */
static void priority_check(const struct harness_rank *rank, tryst_step *step,
                           const char *key, const tryst_tensor *tensor)
{
    static const uint32_t flags[] = {0, TRYST_OP_BACKGROUND};
    tryst_op *op = NULL;
    for (size_t i = 0; i < COUNT_OF(flags); i++) {
        tryst_op_params params = {
            .struct_size = sizeof params, .flags = flags[i], .priority = i ? 5 : -5};
        CHECK_STATUS(tryst_send(step, key, tensor, &params, &op), TRYST_E_INVALID);
        why(i ? "params->priority is 5 without TRYST_OP_PRIORITY"
              : "params->priority is -5 without TRYST_OP_PRIORITY");
        CHECK_STATUS(tryst_barrier(step, "b", &params, &op), TRYST_E_INVALID);
        why("without TRYST_OP_PRIORITY");
    }
    CHECK(op == NULL && rank->size == 2);
}

static void arguments_main(struct harness_rank *rank)
{
    char data[8] = {0};
    tryst_op *op = NULL;
    tryst_step *step = harness_step(rank, 1), *again = NULL;
    tryst_tensor tensor = harness_tensor(data, sizeof data), bad = tensor;
    struct harness_key out = harness_key(rank, rank->rank, 1 - rank->rank, "e");
    char *incarnation = strchr(out.text, ';') + 1;
    CHECK_STATUS(tryst_send(step, "no key", &tensor, NULL, &op), TRYST_E_KEY);
    why("fewer than five parts");
    why("tryst_key_make");
    CHECK_STATUS(tryst_send(step, "/a;1;/b;e;0:0", &tensor, NULL, &op), TRYST_E_KEY);
    why("tryst_key_make");
    CHECK_STATUS(tryst_recv(step, out.text, &tensor, NULL, &op), TRYST_E_KEY);
    why(rank->rank ? "destination is rank 0, this is rank 1"
                   : "destination is rank 1, this is rank 0");
    reserved_check(rank, step, &tensor);
    CHECK_STATUS(tryst_send(step, out.text, NULL, NULL, &op), TRYST_E_INVALID);
    why("tensor is NULL");
    bad.dtype = (tryst_dtype)99;
    CHECK_STATUS(tryst_send(step, out.text, &bad, NULL, &op), TRYST_E_INVALID);
    why("dtype is 99; the dtypes are 1 (u8) to 12 (u64)");
    bad = tensor;
    bad.data = NULL;
    CHECK_STATUS(tryst_send(step, out.text, &bad, NULL, &op), TRYST_E_INVALID);
    why("data is NULL");
    tryst_op_params params = {.struct_size = 3};
    CHECK_STATUS(tryst_send(step, out.text, &tensor, &params, &op), TRYST_E_INVALID);
    why("struct_size is not set");
    params = (tryst_op_params){.struct_size = sizeof params, .flags = 1u << 20};
    CHECK_STATUS(tryst_send(step, out.text, &tensor, &params, &op), TRYST_E_INVALID);
    why("0x100000");
    priority_check(rank, step, out.text, &tensor);
    CHECK_STATUS(tryst_step_open(rank->group, 1, &again), TRYST_E_INVALID);
    why("id 1 is not above the newest, 1");
    tryst_key *made = NULL;
    CHECK_STATUS(tryst_key_make(rank->group, 0, 2, "e", 0, &made), TRYST_E_INVALID);
    why("destination is not a rank of the group: 2 (0 to 1)");
    CHECK_STATUS(tryst_key_make(rank->group, 0, 1, "a;b", 0, &made), TRYST_E_INVALID);
    why("a;b");
    CHECK(made == NULL);
    *incarnation = *incarnation == '1' ? '2' : '1';
    CHECK_STATUS(tryst_send(step, out.text, &tensor, NULL, &op), TRYST_E_INCARNATION);
    struct harness_key in = harness_key(rank, 1 - rank->rank, rank->rank, "e");
    incarnation = strchr(in.text, ';') + 1;
    *incarnation = *incarnation == '1' ? '2' : '1';
    CHECK_STATUS(tryst_recv(step, in.text, &tensor, NULL, &op), TRYST_E_INCARNATION);
    CHECK(op == NULL && again == NULL);
    harness_step_close(step);
}

static void test_arguments(void **state)
{
    run_two(arguments_main, NULL);
}

/* ---- texts of failed waits --------------------------------------------------------- */

enum { BY_WAIT, BY_WAIT_ALL, BY_WAIT_ANY, BY_TEST, WAYS };

static tryst_status wait_by(int way, tryst_op *op, uint64_t timeout_ns)
{
    tryst_op *ops[] = {NULL, op};
    size_t index;
    CHECK_STATUS(tryst_wait(NULL, 0), TRYST_E_INVALID); /* an earlier text */
    switch (way) {
    case BY_WAIT: return tryst_wait(op, timeout_ns);
    case BY_WAIT_ALL: return tryst_wait_all(ops, COUNT_OF(ops), timeout_ns);
    case BY_WAIT_ANY: return tryst_wait_any(ops, COUNT_OF(ops), timeout_ns, &index);
    default: return tryst_op_test(op);
    }
}

/* Check that the failed operation names itself, its key, the other rank and the step. */
static void titled_check(const struct harness_rank *rank, tryst_op *op, const char *key,
                         const char *reason)
{
    char title[TRYST_KEY_MAX + 64];
    tryst_error error = {.struct_size = sizeof error, .text = ""};
    (void)tryst_op_error(op, &error);
    (void)snprintf(title, sizeof title,
                   "%s %s %s rank %d in step 1: ", rank->rank ? "receive of" : "send of",
                   key, rank->rank ? "from" : "to", 1 - rank->rank);
    if (strncmp(error.text, title, strlen(title)) != 0 || !strstr(error.text, reason))
        harness_fail(__FILE__, __LINE__, "not \"%s\" with \"%s\": %s", title, reason,
                     error.text);
    CHECK_EQ(strcmp(tryst_last_error(), error.text), 0);
}

/* A wait that fails sets tryst_last_error, if its operation has failed or goes on. */
static void wait_texts_main(struct harness_rank *rank)
{
    char *data = calloc(1, LARGE + 1);
    tryst_step *step = harness_step(rank, 1);
    struct harness_key key = harness_key(rank, 0, 1, "size");
    for (int way = 0; way < 2 * WAYS; way++) {
        size_t bytes = sizes[way / WAYS];
        tryst_tensor tensor = harness_tensor(data, bytes + (size_t)rank->rank);
        tryst_op *op = submit(rank, step, "size", &tensor, NULL);
        CHECK_STATUS(wait_by(BY_WAIT, op, TRYST_FOREVER), TRYST_E_MISMATCH);
        titled_check(rank, op, key.text, "both ends must give the same dtype and count");
        CHECK_STATUS(wait_by(way % WAYS, op, 0), TRYST_E_MISMATCH);
        titled_check(rank, op, key.text, "both ends must give the same dtype and count");
        tryst_op_release(op);
    }
    struct harness_key own = harness_key(rank, rank->rank, 1 - rank->rank, "late");
    tryst_tensor tensor = harness_tensor(data, LARGE);
    tryst_op *op;
    CHECK_STATUS(tryst_send(step, own.text, &tensor, NULL, &op), TRYST_OK);
    for (int way = BY_WAIT; way < BY_TEST; way++) {
        CHECK_STATUS(wait_by(way, op, 2000000), TRYST_E_TIMEOUT);
        why("0.002 s");
        why(way == BY_WAIT_ANY ? "none of 2 operations is complete" : own.text);
    }
    CHECK_STATUS(tryst_op_cancel(op), TRYST_OK);
    harness_end(op, TRYST_E_CANCELED);
    harness_barrier(rank, rank->arg);
    harness_step_close(step);
    free(data);
}

static void test_wait_texts(void **state)
{
    run_two(wait_texts_main, NULL);
}

/* ---- steps with other ids ---------------------------------------------------------- */

/* Wait for the operation, which must end with `status` and a text that holds `reason`. */
static void reason_check(tryst_op *op, tryst_status status, const char *reason)
{
    CHECK_STATUS(tryst_wait(op, TRYST_FOREVER), status);
    if (!strstr(tryst_last_error(), reason))
        harness_fail(__FILE__, __LINE__, "\"%s\" is not part of: %s", reason,
                     tryst_last_error());
    tryst_op_release(op);
}

/* Submit sends, receives and a collective that rank 1 never joins, in rank 0's step. */
static void lonely_submit(struct harness_rank *rank, tryst_step *step, char *data,
                          tryst_op *ops[5])
{
    struct harness_key from = harness_key(rank, 1, 0, "lonely");
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        tryst_tensor tensor = harness_tensor(data, sizes[i]);
        ops[i] = submit(rank, step, i ? "large" : "small", &tensor, NULL);
        CHECK_STATUS(tryst_recv(step, from.text, &tensor, NULL, &ops[2 + i]), TRYST_OK);
    }
    CHECK_STATUS(tryst_barrier(step, "b", NULL, &ops[4]), TRYST_OK);
}

/* Rank 1 has skipped rank 0's step, or has closed or aborted it before rank 0's
 * operations: each text names the rank and why. */
static void other_ids_main(struct harness_rank *rank)
{
    static const char *const reasons[] = {
        "rank 1 is at step 1 and has passed step 0 without opening it; step ids must be "
        "equal on all ranks",
        "rank 1 has closed the step"};
    char *data = calloc(1, LARGE);
    tryst_op *ops[5];
    tryst_step *step = harness_step(rank, (uint64_t)rank->rank);
    for (int row = 0; row < 2; row++) {
        harness_barrier(rank, rank->arg);
        if (row == 1) {
            step = harness_step(rank, 3);
            harness_barrier(rank, rank->arg);
        }
        if (rank->rank == 1)
            harness_step_close(step);
        harness_barrier(rank, rank->arg);
        if (rank->rank == 0) {
            lonely_submit(rank, step, data, ops);
            for (int i = 0; i < 5; i++)
                reason_check(ops[i], TRYST_E_CLOSED, reasons[row]);
            harness_step_close(step);
        }
        harness_barrier(rank, rank->arg);
    }
    free(data);
}

static void test_other_ids(void **state)
{
    run_two(other_ids_main, NULL);
}

/* ---- receives of unknown shape ----------------------------------------------------- */

struct alloc_call {
    char *data;
    uint64_t count;
    tryst_dtype dtype;
    tryst_status answer;
    int calls;
};

static tryst_status on_alloc(void *arg, tryst_tensor *tensor)
{
    struct alloc_call *call = arg;
    call->count = tensor->count;
    call->dtype = tensor->dtype;
    call->calls++;
    tensor->data = call->data;
    return call->answer;
}

static void alloc_once(struct harness_rank *rank, tryst_step *step, size_t bytes,
                       bool send_first, tryst_status answer)
{
    struct alloc_call call = {.data = malloc(bytes + 1), .answer = answer};
    tryst_tensor tensor = harness_tensor(call.data, bytes / 4),
                 got = {.struct_size = sizeof got};
    tryst_op_params params = {.struct_size = sizeof params};
    tensor.dtype = TRYST_DTYPE_F32;
    if (rank->rank == 0)
        harness_fill(call.data, bytes, bytes);
    if (rank->rank == 1) {
        params.alloc = on_alloc;
        params.alloc_arg = &call;
    }
    if ((rank->rank == 0) == send_first)
        harness_barrier(rank, rank->arg);
    tryst_op *op = submit(rank, step, "shape", rank->rank == 0 ? &tensor : NULL, &params);
    if ((rank->rank == 0) != send_first)
        harness_barrier(rank, rank->arg);
    /* The waits would misread these statuses as their own, so they become
     * TRYST_E_INVALID. */
    bool none = answer != TRYST_OK &&
                (answer < 100 || answer == TRYST_E_TIMEOUT || answer == TRYST_E_FORKED ||
                 answer == TRYST_E_DEADLINE || answer == TRYST_E_CONTEXT ||
                 strcmp(tryst_status_name(answer), "TRYST_E_UNKNOWN") == 0);
    tryst_error error = {.struct_size = sizeof error, .text = ""};
    CHECK_STATUS(tryst_wait(op, TRYST_FOREVER), none ? TRYST_E_INVALID : answer);
    CHECK_STATUS(tryst_wait_all(&op, 1, TRYST_FOREVER), none ? TRYST_E_INVALID : answer);
    if (tryst_op_error(op, &error) != TRYST_OK) {
        char wanted[64];
        (void)snprintf(wanted, sizeof wanted, "%zu x f32", bytes / 4);
        CHECK(strstr(error.text, "the alloc callback of rank 1's receive") &&
              strstr(error.text, wanted));
    }
    if (rank->rank == 1) {
        CHECK_EQ(call.calls, 1);
        CHECK_EQ(call.count, bytes / 4);
        CHECK_EQ(call.dtype, TRYST_DTYPE_F32);
    }
    if (rank->rank == 1 && answer == TRYST_OK) {
        CHECK_STATUS(tryst_op_tensor(op, &got), TRYST_OK);
        CHECK(got.data == call.data && got.count == bytes / 4);
        CHECK_EQ(harness_mismatch(call.data, bytes, bytes), SIZE_MAX);
    }
    tryst_op_release(op);
    free(call.data);
}

static void alloc_main(struct harness_rank *rank)
{
    tryst_step *step = harness_step(rank, 1);
    for (int i = 0; i < 2; i++)
        for (int first = 0; first < 2; first++) {
            alloc_once(rank, step, sizes[i], first, TRYST_OK);
            alloc_once(rank, step, sizes[i], first, TRYST_E_UNSUPPORTED);
        }
    harness_step_close(step);
}

struct outcome_visit {
    struct harness_rank *rank;
    tryst_step *step;
};

/* Use each status as the callback's answer, and some numbers that are not a status. */
static int outcome_visit(void *arg, tryst_status status, const char *name,
                         const char *text)
{
    struct outcome_visit *self = arg;
    (void)name, (void)text;
    for (int i = 0; i < 2; i++)
        alloc_once(self->rank, self->step, sizes[i], i, status);
    return 0;
}

static void outcomes_main(struct harness_rank *rank)
{
    struct outcome_visit self = {rank, harness_step(rank, 1)};
    CHECK_EQ(tryst_status_visit(outcome_visit, &self), 0);
    outcome_visit(&self, -1, "", "");
    outcome_visit(&self, 9999, "", "");
    harness_step_close(self.step);
}

static void test_outcomes(void **state)
{
    run_two(outcomes_main, NULL);
}

static void test_alloc(void **state)
{
    run_two(alloc_main, NULL);
}

/* ---- cancel, deadline, close ------------------------------------------------------- */

/* One end cancels before the other has submitted; the other gets the outcome when it
 * submits. */
static void cancel_main(struct harness_rank *rank)
{
    char *data = calloc(1, LARGE);
    tryst_step *step = harness_step(rank, 1);
    for (int i = 0; i < 2; i++)
        for (int canceler = 0; canceler < 2; canceler++) {
            tryst_tensor tensor = harness_tensor(data, sizes[i]);
            if (rank->rank == canceler) {
                tryst_op *op = submit(rank, step, "c", &tensor, NULL);
                for (int k = 0; k < 10 * canceler; k++)
                    tryst_progress(rank->ctx); /* a parked or not yet announced receive */
                CHECK_STATUS(tryst_op_cancel(op), TRYST_OK);
                if (sizes[i] == LARGE || canceler == 1)
                    harness_end(op, TRYST_E_CANCELED);
                else
                    /* the bytes may have left, so the consumer decides */
                    tryst_op_release(op);
                harness_barrier(rank, rank->arg);
            } else {
                harness_barrier(rank, rank->arg);
                tryst_op *op = submit(rank, step, "c", &tensor, NULL);
                tryst_status status = tryst_wait(op, TRYST_FOREVER);
                if (sizes[i] == LARGE || canceler == 1 || status != TRYST_OK)
                    CHECK_STATUS(status, TRYST_E_CANCELED);
                tryst_op_release(op);
            }
            harness_barrier(rank, rank->arg);
        }
    /* both ends still count the same numbers */
    tryst_tensor tensor = harness_tensor(data, LARGE);
    harness_end(submit(rank, step, "c", &tensor, NULL), TRYST_OK);
    harness_step_close(step);
    free(data);
}

static void test_cancel(void **state)
{
    run_two(cancel_main, NULL);
}

/* A small send leaves at once. Where a receive never arrives, a cancel still ends the
 * send, and a receive that is posted later gets the cancel as its outcome. */
static void unreceived_main(struct harness_rank *rank)
{
    char data[SMALL] = {0};
    tryst_step *step = harness_step(rank, 1);
    tryst_tensor tensor = harness_tensor(data, SMALL);
    for (int i = 0; i < 2; i++) {
        const char *edge = i ? "late" : "never";
        if (rank->rank == 0) {
            tryst_op *op = submit(rank, step, edge, &tensor, NULL);
            CHECK_STATUS(tryst_wait(op, 50000000), TRYST_E_TIMEOUT);
            CHECK_STATUS(tryst_op_cancel(op), TRYST_OK);
            harness_end(op, TRYST_E_CANCELED);
        }
        harness_barrier(rank, rank->arg);
    }
    if (rank->rank == 1)
        harness_end(submit(rank, step, "late", &tensor, NULL), TRYST_E_CANCELED);
    harness_end(submit(rank, step, "late", &tensor, NULL), TRYST_OK);
    harness_step_close(step);
}

static void test_cancel_unreceived(void **state)
{
    run_two(unreceived_main, NULL);
}

static void deadline_main(struct harness_rank *rank)
{
    char *data = calloc(1, LARGE);
    tryst_step *step = harness_step(rank, 1);
    tryst_tensor tensor = harness_tensor(data, LARGE);
    tryst_op_params params = {.struct_size = sizeof params, .deadline_ns = 300000000};
    tryst_error error = {.struct_size = sizeof error};
    /* Connect first, because that may take longer than the deadline. */
    harness_end(submit(rank, step, "connect", &tensor, NULL), TRYST_OK);
    /* A wait that ends before the deadline returns TRYST_E_TIMEOUT, and the operation
     * goes on. */
    tryst_op_params hour = {.struct_size = sizeof hour,
                            .deadline_ns = 3600 * 1000000000ull};
    tryst_op *op =
        submit(rank, step, rank->rank ? "not sent" : "not received", &tensor, &hour);
    CHECK_STATUS(tryst_wait(op, 1000000), TRYST_E_TIMEOUT);
    CHECK_STATUS(tryst_op_cancel(op), TRYST_OK);
    harness_end(op, TRYST_E_CANCELED);
    uint64_t begin_ns = harness_now_ns();
    op = submit(rank, step, rank->rank ? "nobody sends" : "nobody receives", &tensor,
                &params);
    CHECK_STATUS(tryst_wait(op, TRYST_FOREVER), TRYST_E_DEADLINE);
    CHECK(harness_now_ns() - begin_ns >= params.deadline_ns);
    CHECK_STATUS(tryst_op_error(op, &error), TRYST_E_DEADLINE);
    if (!strstr(error.text, rank->rank ? "send" : "receive") ||
        !strstr(error.key, "nobody"))
        harness_fail(__FILE__, __LINE__, "the error does not name the operation: %s (%s)",
                     error.text, error.key);
    CHECK_EQ(error.step, 1);
    tryst_op_release(op);
    harness_barrier(rank, rank->arg);
    harness_step_close(step);
    free(data);
}

static void test_deadline(void **state)
{
    run_two(deadline_main, NULL);
}

/* The deadline of one end ends both ends, and each names the rank that had the
 * deadline. */
static void deadline_met_main(struct harness_rank *rank)
{
    char *data = calloc(1, LARGE);
    tryst_step *step = harness_step(rank, 1);
    tryst_op_params soon = {.struct_size = sizeof soon, .deadline_ns = 1000000};
    tryst_error error = {.struct_size = sizeof error};
    tryst_tensor tensor = harness_tensor(data, LARGE);
    harness_end(submit(rank, step, "connect", &tensor, NULL), TRYST_OK);
    for (int i = 0; i < 4; i++) {
        int owner = i % 2;
        tensor = harness_tensor(data, sizes[i / 2]);
        if (rank->rank != owner)
            harness_barrier(rank, rank->arg);
        tryst_op *op =
            submit(rank, step, "d", &tensor, rank->rank == owner ? &soon : NULL);
        CHECK_STATUS(tryst_wait(op, TRYST_FOREVER), TRYST_E_DEADLINE);
        CHECK_STATUS(tryst_op_error(op, &error), TRYST_E_DEADLINE);
        CHECK_EQ(error.origin_rank, owner);
        CHECK_EQ(error.origin_status, TRYST_E_DEADLINE);
        tryst_op_release(op);
        if (rank->rank == owner)
            harness_barrier(rank, rank->arg);
        harness_barrier(rank, rank->arg);
    }
    harness_step_close(step);
    free(data);
}

static void test_deadline_at_both_ends(void **state)
{
    run_two(deadline_met_main, NULL);
}

static void close_pending_main(struct harness_rank *rank)
{
    char *data = calloc(1, LARGE);
    tryst_step *step = harness_step(rank, 1);
    tryst_tensor small = harness_tensor(data, SMALL), large = harness_tensor(data, LARGE);
    tryst_op *ops[2] = {submit(rank, step, rank->rank ? "a" : "b", &small, NULL),
                        submit(rank, step, rank->rank ? "c" : "d", &large, NULL)};
    harness_barrier(rank, rank->arg);
    harness_step_close(step);
    for (int i = 0; i < 2; i++) {
        tryst_status status = tryst_op_test(ops[i]);
        CHECK(status == TRYST_E_CANCELED || status == TRYST_E_CLOSED);
        tryst_op_release(ops[i]);
    }
    harness_barrier(rank, rank->arg); /* a rank that has left ends them otherwise */
    free(data);
}

static void test_close_with_pending(void **state)
{
    run_two(close_pending_main, NULL);
}

/* The consumer closes its step without a matched receive: the sends end with that status
 * although none of their bytes has left. One receive was posted, and cancelled before it
 * was announced. */
static void unwanted_main(struct harness_rank *rank)
{
    char *data = calloc(1, LARGE);
    tryst_step *step = harness_step(rank, 1);
    tryst_tensor large = harness_tensor(data, LARGE);
    tryst_error error = {.struct_size = sizeof error};
    tryst_op *ops[2] = {NULL};
    /* Connect first, so that the consumer's next frame can only concern the step. */
    harness_end(submit(rank, step, "first", &large, NULL), TRYST_OK);
    if (rank->rank == 0)
        for (int i = 0; i < 2; i++)
            ops[i] = submit(rank, step, i ? "given up" : "never", &large, NULL);
    harness_barrier(rank, rank->arg);
    if (rank->rank == 1) {
        ops[1] = submit(rank, step, "given up", &large, NULL);
        CHECK_STATUS(tryst_op_cancel(ops[1]), TRYST_OK);
        harness_step_close(step);
        harness_end(ops[1], TRYST_E_CANCELED);
    }
    for (int i = 0; i < 2 && rank->rank == 0; i++) {
        tryst_status status = tryst_wait(ops[i], TRYST_FOREVER);
        CHECK(status == TRYST_E_CLOSED || (i == 1 && status == TRYST_E_CANCELED));
        CHECK_STATUS(tryst_op_error(ops[i], &error), status);
        CHECK_EQ(error.origin_rank, 1);
        tryst_op_release(ops[i]);
    }
    harness_barrier(rank, rank->arg);
    if (rank->rank == 0)
        harness_step_close(step);
    free(data);
}

static void test_close_unreceived(void **state)
{
    run_two(unwanted_main, NULL);
}

/* The producer is one step ahead; its data waits until the consumer opens the step. */
static void early_main(struct harness_rank *rank)
{
    char *data = calloc(1, LARGE);
    tryst_tensor small = harness_tensor(data, SMALL), large = harness_tensor(data, LARGE);
    if (rank->rank == 1)
        harness_barrier(rank, rank->arg);
    tryst_step *step = harness_step(rank, 9);
    tryst_op *ops[2] = {submit(rank, step, "s", &small, NULL),
                        submit(rank, step, "l", &large, NULL)};
    for (int i = 0; i < 50; i++)
        tryst_progress(rank->ctx);
    if (rank->rank == 0)
        harness_barrier(rank, rank->arg);
    harness_end(ops[0], TRYST_OK);
    harness_end(ops[1], TRYST_OK);
    harness_step_close(step);
    free(data);
}

static void test_early(void **state)
{
    run_two(early_main, NULL);
}

/* ---- abort ------------------------------------------------------------------------- */

static void abort_main(struct harness_rank *rank)
{
    char data[SMALL] = {0};
    char *large = calloc(1, LARGE);
    tryst_step *step = harness_step(rank, 1), *other = harness_step(rank, 2);
    tryst_error error = {.struct_size = sizeof error};
    tryst_op *op = NULL, *ops[2];
    int from = (rank->rank + 2) % 3;
    ops[0] = harness_recv(rank, step, from, "never", data, sizeof data);
    ops[1] = harness_recv(rank, step, from, "never2", large, LARGE);
    tryst_op *kept = harness_recv(rank, other, from, "x", data, sizeof data);
    harness_barrier(rank, rank->arg);
    if (rank->rank == 1) {
        /* armed: the abort is queued, and its details are readable before it runs */
        while (tryst_progress(rank->ctx) != 0 || tryst_arm(rank->ctx) != TRYST_OK)
            continue;
        CHECK_STATUS(tryst_step_abort(step, TRYST_E_IO, "the disk is on fire"), TRYST_OK);
        CHECK_STATUS(tryst_step_status(step, &error), TRYST_E_ABORTED);
        CHECK_EQ(error.origin_rank, 1);
        CHECK_EQ(error.origin_status, TRYST_E_IO);
        CHECK(strstr(error.text, "the disk is on fire"));
    }
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(tryst_wait(ops[i], TRYST_FOREVER), TRYST_E_ABORTED);
        CHECK_STATUS(tryst_op_error(ops[i], &error), TRYST_E_ABORTED);
        CHECK_EQ(error.origin_rank, 1);
        CHECK_EQ(error.origin_status, TRYST_E_IO);
        CHECK(strstr(error.text, "the disk is on fire"));
        tryst_op_release(ops[i]);
    }
    CHECK_STATUS(tryst_step_status(step, &error), TRYST_E_ABORTED);
    CHECK_EQ(error.origin_rank, 1);
    tryst_tensor tensor = harness_tensor(data, sizeof data);
    struct harness_key key = harness_key(rank, from, rank->rank, "later");
    CHECK_STATUS(tryst_recv(step, key.text, &tensor, NULL, &op), TRYST_E_ABORTED);
    /* the other step is unaffected */
    tryst_op *send = harness_send(rank, other, (rank->rank + 1) % 3, "x", large, SMALL);
    harness_end(kept, TRYST_OK);
    harness_end(send, TRYST_OK);
    harness_barrier(rank, rank->arg);
    harness_step_close(step);
    harness_step_close(other);
    free(large);
}

static void test_abort(void **state)
{
    _Atomic(uint32_t) *counter = harness_share(sizeof *counter);
    struct harness_params params = {.size = 3, .main = abort_main, .arg = counter};
    int failed = harness_run(&params);
    harness_unshare(counter, sizeof *counter);
    assert_int_equal(failed, 0);
}

/* ---- handles and callbacks --------------------------------------------------------- */

struct chain {
    struct harness_rank *rank;
    tryst_step *step;
    char data[SMALL];
    int left;
    _Atomic(int) ended;
    bool waited;
};

/* Submit the next operation from each completion; a wait from a callback is refused. */
static void on_link(void *arg, tryst_op *op, tryst_status status)
{
    struct chain *chain = arg;
    CHECK_STATUS(status, TRYST_OK);
    CHECK_STATUS(tryst_wait(op, 0), TRYST_E_INVALID);
    if (chain->left-- > 0) {
        tryst_tensor tensor = harness_tensor(chain->data, SMALL);
        tryst_op_params params = {
            .struct_size = sizeof params, .callback = on_link, .arg = chain};
        tryst_op_release(submit(chain->rank, chain->step, "chain", &tensor, &params));
    }
    atomic_fetch_add(&chain->ended, 1);
}

static void callbacks_main(struct harness_rank *rank)
{
    struct chain chain = {.rank = rank, .step = harness_step(rank, 1), .left = 200};
    tryst_tensor tensor = harness_tensor(chain.data, SMALL);
    tryst_op_params params = {
        .struct_size = sizeof params, .callback = on_link, .arg = &chain};
    tryst_op_release(submit(rank, chain.step, "chain", &tensor, &params));
    CHECK_EQ(atomic_load(&chain.ended), 0); /* callbacks never run inside a submission */
    while (atomic_load(&chain.ended) < 201)
        if (!tryst_progress(rank->ctx))
            usleep(100);
    harness_step_close(chain.step);
}

static void test_callbacks(void **state)
{
    run_two(callbacks_main, NULL);
}

/* Use only poll, on the context's descriptor. */
static void event_loop_main(struct harness_rank *rank)
{
    char *data = calloc(1, LARGE);
    tryst_step *step = harness_step(rank, 1);
    for (int i = 0; i < 20; i++) {
        tryst_tensor tensor = harness_tensor(data, sizes[i % 2]);
        if (rank->rank == i % 2)
            harness_sleep_ms(3);
        tryst_op *op = submit(rank, step, "loop", &tensor, NULL);
        while (tryst_op_test(op) == TRYST_IN_PROGRESS) {
            struct pollfd fd = {.fd = tryst_event_fd(rank->ctx), .events = POLLIN};
            if (tryst_progress(rank->ctx) == 0 && tryst_arm(rank->ctx) == TRYST_OK)
                CHECK(poll(&fd, 1, 10000) == 1);
        }
        harness_end(op, TRYST_OK);
    }
    harness_step_close(step);
    free(data);
}

static void test_event_loop(void **state)
{
    run_two(event_loop_main, NULL);
}

static void fork_main(struct harness_rank *rank)
{
    char data[SMALL] = {0};
    int status;
    tryst_step *step = harness_step(rank, 1);
    tryst_tensor tensor = harness_tensor(data, SMALL);
    tryst_op *op = submit(rank, step, "f", &tensor, NULL), *child_op;
    struct harness_key key = harness_key(rank, 0, 1, "f");
    pid_t pid = fork();
    if (pid == 0) {
        bool ok = tryst_wait(op, 0) == TRYST_E_FORKED && tryst_progress(rank->ctx) == 0 &&
                  tryst_event_fd(rank->ctx) == -1 &&
                  tryst_op_cancel(op) == TRYST_E_FORKED;
        tryst_status said = rank->rank == 0
                                ? tryst_send(step, key.text, &tensor, NULL, &child_op)
                                : tryst_recv(step, key.text, &tensor, NULL, &child_op);
        tryst_close(rank->ctx); /* has no effect after the fork */
        _exit(ok && said == TRYST_E_FORKED ? 0 : 1);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    harness_end(op, TRYST_OK);
    harness_end(submit(rank, step, "f", &tensor, NULL), TRYST_OK);
    harness_step_close(step);
}

static void test_fork(void **state)
{
    if (!harness_has_processes())
        skip(); /* threads of one process would fork each other */
    run_two(fork_main, NULL);
}

/* ---- memory ------------------------------------------------------------------------ */

static void memory_main(struct harness_rank *rank)
{
    void *own, *data = aligned_alloc(4096, LARGE + 4096);
    tryst_mem *allocated, *registered;
    tryst_step *step = harness_step(rank, 1);
    CHECK_STATUS(
        tryst_mem_alloc(rank->ctx, LARGE, TRYST_MEMORY_HOST, 0, &own, &allocated),
        TRYST_OK);
    CHECK((uintptr_t)own % 64 == 0);
    CHECK_STATUS(tryst_mem_register(rank->ctx, data, LARGE + 4096, TRYST_MEMORY_HOST, 0,
                                    &registered),
                 TRYST_OK);
    for (int i = 0; i < 8; i++) {
        void *at = i % 2 ? own : (char *)data + 1;
        tryst_tensor tensor = harness_tensor(at, LARGE);
        tensor.mem = i % 4 < 2 ? (i % 2 ? allocated : registered) : NULL;
        if (rank->rank == 0)
            harness_fill(at, LARGE, (uint64_t)i);
        harness_end(submit(rank, step, "m", &tensor, NULL), TRYST_OK);
        CHECK_EQ(harness_mismatch(at, LARGE, (uint64_t)i), SIZE_MAX);
    }
    harness_step_close(step);
    tryst_mem_release(allocated);
    tryst_mem_release(registered);
    free(data);
}

static void test_memory(void **state)
{
    run_two(memory_main, NULL);
}

/* ---- memory that does not cover the tensor ----------------------------------------- */

struct cover {
    char *data;
    size_t bytes;
    tryst_mem *mem;
};

static tryst_status on_alloc_cover(void *arg, tryst_tensor *tensor)
{
    const struct cover *cover = arg;
    tensor->data = cover->data;
    tensor->mem = cover->mem;
    return TRYST_OK;
}

/* Let rank 1 receive with an alloc callback that answers with `cover`. */
static void cover_request(struct harness_rank *rank, tryst_step *step, char *data,
                          struct cover *cover, tryst_status wanted)
{
    tryst_tensor tensor = harness_tensor(data, cover->bytes);
    tryst_op_params params = {
        .struct_size = sizeof params, .alloc = on_alloc_cover, .alloc_arg = cover};
    harness_end(rank->rank == 0 ? submit(rank, step, "asked", &tensor, NULL)
                                : submit(rank, step, "asked", NULL, &params),
                wanted);
}

static void cover_check(struct harness_rank *rank, tryst_step *step, char *data,
                        struct cover *cover)
{
    tryst_op *op = NULL;
    struct harness_key key = harness_key(rank, 0, 1, "refused");
    tryst_tensor tensor = harness_tensor(cover->data, cover->bytes);
    tensor.mem = cover->mem;
    CHECK_STATUS(rank->rank == 0 ? tryst_send(step, key.text, &tensor, NULL, &op)
                                 : tryst_recv(step, key.text, &tensor, NULL, &op),
                 TRYST_E_INVALID);
    CHECK(op == NULL);
    cover_request(rank, step, data, cover, TRYST_E_INVALID);
}

static tryst_ctx *other_context(const struct harness_rank *rank)
{
    tryst_config *config = harness_config(rank);
    tryst_open_params params = {.struct_size = sizeof params, .config = config};
    tryst_ctx *ctx;
    CHECK_STATUS(tryst_open(&params, &ctx), TRYST_OK);
    tryst_config_close(config);
    return ctx;
}

static void cover_main(struct harness_rank *rank)
{
    char *own, *data = calloc(1, LARGE + 2), *at = data + 1;
    tryst_mem *allocated, *registered, *other;
    tryst_ctx *ctx = other_context(rank);
    tryst_step *step = harness_step(rank, 1);
    CHECK_STATUS(tryst_mem_alloc(rank->ctx, LARGE, TRYST_MEMORY_HOST, 0, (void **)&own,
                                 &allocated),
                 TRYST_OK);
    CHECK_STATUS(
        tryst_mem_register(rank->ctx, at, LARGE, TRYST_MEMORY_HOST, 0, &registered),
        TRYST_OK);
    CHECK_STATUS(tryst_mem_register(ctx, data, LARGE + 2, TRYST_MEMORY_HOST, 0, &other),
                 TRYST_OK);
    struct cover wrong[] = {{at - 1, LARGE, registered},
                            {at + 1, LARGE, registered},
                            {at, LARGE + 1, registered},
                            {at - 1, SMALL, registered},
                            {at + LARGE, 1, registered},
                            {own + 1, LARGE, allocated},
                            {own + LARGE, 64, allocated},
                            {at, LARGE, allocated},
                            {own, SMALL, registered},
                            {at, LARGE, other},
                            {at, SMALL, other}};
    struct cover right[] = {{at, LARGE, registered},     {at, SMALL, registered},
                            {own, LARGE, allocated},     {own + 1, LARGE - 1, allocated},
                            {at + LARGE, 0, registered}, {data, LARGE, NULL}};
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        cover_check(rank, step, data, &wrong[i]);
    for (size_t i = 0; i < COUNT_OF(right); i++) {
        tryst_tensor tensor = harness_tensor(right[i].data, right[i].bytes);
        tensor.mem = right[i].mem;
        harness_end(submit(rank, step, "taken", &tensor, NULL), TRYST_OK);
        cover_request(rank, step, data, &right[i], TRYST_OK);
    }
    harness_step_close(step);
    tryst_mem_release(allocated);
    tryst_mem_release(registered);
    tryst_mem_release(other);
    tryst_close(ctx);
    free(data);
}

static void test_memory_covers(void **state)
{
    run_two(cover_main, NULL);
}

/* ---- no random bytes --------------------------------------------------------------- */

static bool random_fails;

/* In place of libc's function, for the library too. */
__attribute__((visibility("default"))) ssize_t getrandom(void *buffer, size_t bytes,
                                                         unsigned flags)
{
    if (!random_fails)
        return syscall(SYS_getrandom, buffer, bytes, flags);
    errno = ENOSYS;
    return -1;
}

static void test_no_random(void **state)
{
    tryst_ctx *ctx = NULL;
    random_fails = true;
    tryst_status status = tryst_open(NULL, &ctx);
    random_fails = false;
    assert_int_equal(status, TRYST_E_SYSTEM);
    assert_null(ctx);
    assert_non_null(strstr(tryst_last_error(), "random bytes"));
    assert_non_null(strstr(tryst_last_error(), strerror(ENOSYS)));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_dead),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_wait_texts),
        cmocka_unit_test(test_other_ids),
        cmocka_unit_test(test_made_keys),
        cmocka_unit_test(test_alloc),
        cmocka_unit_test(test_outcomes),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_cancel_unreceived),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_deadline_at_both_ends),
        cmocka_unit_test(test_early),
        cmocka_unit_test(test_close_with_pending),
        cmocka_unit_test(test_close_unreceived),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_callbacks),
        cmocka_unit_test(test_event_loop),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_memory_covers),
        cmocka_unit_test(test_no_random),
    };
    return HARNESS_MAIN(argc, argv, tests);
}
