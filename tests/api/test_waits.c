/* SPDX-License-Identifier: Apache-2.0 */
/* A wait uses its time-out once, whichever thread drives the engine meanwhile and however
 * long that thread stays inside. tryst_wait_all returns the first failure by index, and
 * tryst_wait_any the index of a complete operation. */
#include "harness.h"

#include "support/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { TIMEOUT_MS = 150, SLACK_MS = 10, TRIES = 20, OPS = 3 };
#define NS_PER_MS UINT64_C(1000000)

static void run_two(void (*main)(struct harness_rank *rank))
{
    _Atomic(uint32_t) *counter = harness_share(sizeof *counter);
    struct harness_params params = {
        .size = 2, .main = main, .arg = counter, .timeout_s = 60};
    int failed = harness_run(&params);
    harness_unshare(counter, sizeof *counter);
    assert_int_equal(failed, 0);
}

/* ---- time-outs --------------------------------------------------------------------- */

static tryst_status wait_one(tryst_op **ops, uint64_t timeout_ns)
{
    return tryst_wait(ops[0], timeout_ns);
}

static tryst_status wait_all(tryst_op **ops, uint64_t timeout_ns)
{
    return tryst_wait_all(ops, OPS, timeout_ns);
}

static tryst_status wait_any(tryst_op **ops, uint64_t timeout_ns)
{
    size_t index;
    tryst_status status = tryst_wait_any(ops, OPS, timeout_ns, &index);
    CHECK_EQ(index, OPS);
    return status;
}

static const struct {
    const char *name;
    tryst_status (*wait)(tryst_op **ops, uint64_t timeout_ns);
} waits[] = {
    {"tryst_wait", wait_one}, {"tryst_wait_all", wait_all}, {"tryst_wait_any", wait_any}};

/* A second thread of the rank, which disturbs the waiting thread. */
struct other {
    struct harness_rank *rank;
    tryst_step *step;
    tryst_op *_Atomic never;
    _Atomic(bool) inside;
};

/* Take the progress lock from the driver after two thirds of the time-out. */
static void *take_lock(void *arg)
{
    struct other *other = arg;
    tryst_peer_info info = {.struct_size = sizeof info};
    atomic_store(&other->inside, true);
    harness_sleep_ms(TIMEOUT_MS * 2 / 3);
    CHECK_STATUS(tryst_group_peer(other->rank->group, 0, &info), TRYST_OK);
    return NULL;
}

static void stall(void *arg, tryst_op *op, tryst_status status)
{
    struct other *other = arg;
    (void)op, (void)status;
    atomic_store(&other->inside, true);
    harness_sleep_ms(2 * TIMEOUT_MS);
}

/* Drive the engine, and stay in a callback for twice the time-out. */
static void *stall_engine(void *arg)
{
    struct other *other = arg;
    int me = other->rank->rank;
    char byte[2];
    tryst_tensor tensor = harness_tensor(&byte[0], 1);
    tryst_op_params params = {
        .struct_size = sizeof params, .callback = stall, .arg = other};
    struct harness_key key = harness_key(other->rank, me, me, "stall");
    tryst_op *recv,
        *send = harness_send(other->rank, other->step, me, "stall", byte + 1, 1);
    CHECK_STATUS(tryst_recv(other->step, key.text, &tensor, &params, &recv), TRYST_OK);
    harness_end(recv, TRYST_OK);
    harness_end(send, TRYST_OK);
    return NULL;
}

/* Return the duration of one wait beside `thread`. */
static uint64_t wait_beside(struct other *other, void *(*thread)(void *arg), size_t which,
                            tryst_op **ops)
{
    pthread_t id;
    atomic_store(&other->inside, false);
    CHECK_EQ(pthread_create(&id, NULL, thread, other), 0);
    while (!atomic_load(&other->inside))
        harness_sleep_ms(1);
    uint64_t begin_ns = harness_now_ns();
    CHECK_STATUS(waits[which].wait(ops, TIMEOUT_MS * NS_PER_MS), TRYST_E_TIMEOUT);
    uint64_t took_ns = harness_now_ns() - begin_ns;
    pthread_join(id, NULL);
    return took_ns;
}

/* Fail if a wait ends early, or if all tries end late. A busy machine only adds time, so
 * one try within the slack shows that a wait can end in time. */
static void wait_in_time(struct other *other, void *(*thread)(void *arg), size_t which,
                         tryst_op **ops)
{
    uint64_t least_ns = UINT64_MAX;
    for (int i = 0; i < TRIES && least_ns > (TIMEOUT_MS + SLACK_MS) * NS_PER_MS; i++) {
        uint64_t took_ns = wait_beside(other, thread, which, ops);
        CHECK(took_ns >= TIMEOUT_MS * NS_PER_MS);
        least_ns = took_ns < least_ns ? took_ns : least_ns;
    }
    if (least_ns > (TIMEOUT_MS + SLACK_MS) * NS_PER_MS)
        harness_fail(__FILE__, __LINE__, "%s of %d ms took %.1f ms at best",
                     waits[which].name, TIMEOUT_MS, (double)least_ns / 1e6);
}

static void timeouts_main(struct harness_rank *rank)
{
    tryst_step *step = harness_step(rank, 1);
    struct other other = {.rank = rank, .step = step};
    tryst_op *never[OPS];
    char byte[OPS];
    for (int i = 0; i < OPS; i++)
        never[i] = harness_recv(rank, step, 1 - rank->rank, "never", &byte[i], 1);
    for (size_t i = 0; i < COUNT_OF(waits) && rank->rank == 0; i++) {
        wait_in_time(&other, take_lock, i, never);
        wait_in_time(&other, stall_engine, i, never);
    }
    harness_barrier(rank, rank->arg);
    for (int i = 0; i < OPS; i++) {
        tryst_op_cancel(never[i]);
        harness_end(never[i], TRYST_E_CANCELED);
    }
    harness_barrier(rank, rank->arg);
    harness_step_close(step);
}

static void test_timeouts(void **state)
{
    (void)state;
    run_two(timeouts_main);
}

/* ---- all of several ---------------------------------------------------------------- */

/* How an operation of a wait ends: well, canceled, with a mismatch, not in time, or there
 * is none. */
enum kind { WELL, CANCELED, MISMATCH, NEVER, NONE };
enum { ALL = 4 };

/* Begin an operation that ends so, and the sends that meet it. */
static tryst_op *begin_kind(struct harness_rank *rank, tryst_step *step, enum kind kind,
                            char *bytes, tryst_op **send_p)
{
    static _Atomic(int) count;
    char edge[24];
    if (kind == NONE)
        return NULL;
    (void)snprintf(edge, sizeof edge, "all%d", atomic_fetch_add(&count, 1));
    tryst_op *op = harness_recv(rank, step, rank->rank, edge, bytes, 4);
    if (kind == WELL || kind == MISMATCH)
        *send_p =
            harness_send(rank, step, rank->rank, edge, bytes + 4, kind == WELL ? 4 : 8);
    if (kind == CANCELED)
        CHECK_STATUS(tryst_op_cancel(op), TRYST_OK);
    return op;
}

static void all_check(struct harness_rank *rank, tryst_step *step,
                      const enum kind kinds[ALL], bool backwards, tryst_status wanted)
{
    tryst_op *ops[ALL] = {0}, *sends[ALL] = {0};
    char bytes[ALL][12] = {{0}};
    for (int i = 0; i < ALL; i++) {
        int at = backwards ? ALL - 1 - i : i;
        ops[at] = begin_kind(rank, step, kinds[at], bytes[at], &sends[at]);
    }
    uint64_t timeout_ns = wanted == TRYST_E_TIMEOUT ? NS_PER_MS : TRYST_FOREVER;
    CHECK_STATUS(tryst_wait_all(ops, ALL, timeout_ns), wanted);
    for (int i = 0; i < ALL; i++) {
        static const tryst_status ends[] = {TRYST_OK, TRYST_E_CANCELED, TRYST_E_MISMATCH,
                                            TRYST_E_CANCELED};
        if (!ops[i])
            continue;
        if (wanted != TRYST_E_TIMEOUT) /* it waits for all, past failures */
            CHECK_STATUS(tryst_op_test(ops[i]), ends[kinds[i]]);
        if (kinds[i] == NEVER)
            CHECK_STATUS(tryst_op_cancel(ops[i]), TRYST_OK);
        harness_end(ops[i], ends[kinds[i]]);
        if (sends[i])
            harness_end(sends[i], ends[kinds[i]]);
    }
}

static void all_main(struct harness_rank *rank)
{
    static const struct {
        enum kind kinds[ALL];
        tryst_status status;
    } rows[] = {
        {{WELL, WELL, WELL, WELL}, TRYST_OK},
        {{NONE, NONE, NONE, NONE}, TRYST_OK},
        {{CANCELED, WELL, MISMATCH, WELL}, TRYST_E_CANCELED},
        {{MISMATCH, WELL, CANCELED, WELL}, TRYST_E_MISMATCH},
        {{WELL, MISMATCH, MISMATCH, CANCELED}, TRYST_E_MISMATCH},
        {{WELL, WELL, WELL, CANCELED}, TRYST_E_CANCELED},
        {{NONE, CANCELED, NONE, MISMATCH}, TRYST_E_CANCELED},
        {{CANCELED, NEVER, MISMATCH, WELL}, TRYST_E_TIMEOUT},
        {{NEVER, CANCELED, WELL, NEVER}, TRYST_E_TIMEOUT},
    };
    tryst_step *step = harness_step(rank, 1);
    for (size_t i = 0; i < 2 * COUNT_OF(rows); i++)
        all_check(rank, step, rows[i / 2].kinds, i % 2, rows[i / 2].status);
    CHECK_STATUS(tryst_wait_all(NULL, 0, TRYST_FOREVER), TRYST_OK);
    CHECK_STATUS(tryst_wait_all(NULL, 1, TRYST_FOREVER), TRYST_E_INVALID);
    harness_step_close(step);
}

static void test_all(void **state)
{
    (void)state;
    run_two(all_main);
}

/* ---- any of several ---------------------------------------------------------------- */

enum { MANY = 500 };

/* Rank 0 sends in another order than rank 1 receives; rank 1 gets each operation once, in
 * the order of completion. */
static void any_main(struct harness_rank *rank)
{
    tryst_step *step = harness_step(rank, 1);
    tryst_op *ops[MANY] = {0};
    uint32_t values[MANY] = {0};
    size_t index, taken = 0;
    char edge[16];
    for (int i = 0; i < MANY; i++) {
        int which = rank->rank == 0 ? (i * 7 + 3) % MANY : i;
        (void)snprintf(edge, sizeof edge, "e%d", which);
        if (rank->rank == 0) {
            values[which] = (uint32_t)which + 1;
            ops[which] = harness_send(rank, step, 1, edge, &values[which], 4);
        } else {
            ops[which] = harness_recv(rank, step, 0, edge, &values[which], 4);
        }
    }
    while (tryst_wait_any(ops, MANY, TRYST_FOREVER, &index) == TRYST_OK && index < MANY) {
        CHECK_STATUS(tryst_op_test(ops[index]), TRYST_OK);
        CHECK_EQ(values[index], index + 1);
        tryst_op_release(ops[index]);
        ops[index] = NULL;
        taken++;
    }
    CHECK_EQ(taken, MANY);
    harness_step_close(step);
}

static void test_any(void **state)
{
    (void)state;
    run_two(any_main);
}

static void any_in_callback(void *arg, tryst_op *op, tryst_status status)
{
    size_t index;
    (void)status;
    *(tryst_status *)arg = tryst_wait_any(&op, 1, TRYST_FOREVER, &index);
}

static void any_edges_main(struct harness_rank *rank)
{
    int me = rank->rank;
    tryst_step *step = harness_step(rank, 1);
    char byte[4];
    tryst_op *ops[3] = {0}, *self;
    size_t index = 7;
    CHECK_STATUS(tryst_wait_any(NULL, 0, 0, &index), TRYST_OK);
    CHECK_EQ(index, 0);
    CHECK_STATUS(tryst_wait_any(ops, 3, TRYST_FOREVER, &index), TRYST_OK);
    CHECK_EQ(index, 3);
    CHECK_STATUS(tryst_wait_any(ops, 3, 0, NULL), TRYST_E_INVALID);
    ops[1] = harness_recv(rank, step, me, "never", byte, 1);
    CHECK_STATUS(tryst_wait_any(ops, 3, 0, &index), TRYST_E_TIMEOUT);
    CHECK_EQ(index, 3);
    tryst_op_cancel(ops[1]);
    CHECK_STATUS(tryst_wait_any(ops, 3, TRYST_FOREVER, &index), TRYST_E_CANCELED);
    CHECK_EQ(index, 1);
    tryst_op_release(ops[1]);
    tryst_status said = TRYST_OK;
    tryst_op_params params = {
        .struct_size = sizeof params, .callback = any_in_callback, .arg = &said};
    tryst_tensor tensor = harness_tensor(byte, 1);
    struct harness_key key = harness_key(rank, me, me, "self");
    CHECK_STATUS(tryst_recv(step, key.text, &tensor, &params, &self), TRYST_OK);
    harness_end(harness_send(rank, step, me, "self", byte + 1, 1), TRYST_OK);
    harness_end(self, TRYST_OK);
    CHECK_STATUS(said, TRYST_E_INVALID);
    harness_step_close(step);
}

static void test_any_edges(void **state)
{
    (void)state;
    run_two(any_edges_main);
}

/* Let another thread drive, so that a completion wakes the waiting thread, not the
 * lock. */
static void *drive(void *arg)
{
    struct other *other = arg;
    char byte;
    tryst_op *never =
        harness_recv(other->rank, other->step, other->rank->rank, "never", &byte, 1);
    atomic_store(&other->never, never);
    harness_end(never, TRYST_E_CANCELED);
    return NULL;
}

static void any_woken_main(struct harness_rank *rank)
{
    tryst_step *step = harness_step(rank, 1);
    struct other other = {.rank = rank, .step = step};
    int me = rank->rank;
    pthread_t id;
    char byte[4];
    CHECK_EQ(pthread_create(&id, NULL, drive, &other), 0);
    while (!atomic_load(&other.never))
        harness_sleep_ms(1);
    for (int i = 0; i < 100; i++) {
        tryst_op *ops[2] = {harness_recv(rank, step, me, "b", byte, 1),
                            harness_recv(rank, step, 1 - me, "x", byte + 1, 1)};
        size_t index;
        tryst_op *send = harness_send(rank, step, 1 - me, "x", byte + 2, 1);
        CHECK_STATUS(tryst_wait_any(ops, 2, TRYST_FOREVER, &index), TRYST_OK);
        CHECK_EQ(index, 1);
        harness_end(ops[1], TRYST_OK);
        harness_end(send, TRYST_OK);
        send = harness_send(rank, step, me, "b", byte + 3, 1);
        harness_end(ops[0], TRYST_OK);
        harness_end(send, TRYST_OK);
    }
    harness_barrier(rank, rank->arg);
    CHECK_STATUS(tryst_op_cancel(other.never), TRYST_OK);
    pthread_join(id, NULL);
    harness_step_close(step);
}

static void test_any_woken(void **state)
{
    (void)state;
    run_two(any_woken_main);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timeouts),  cmocka_unit_test(test_all),
        cmocka_unit_test(test_any),       cmocka_unit_test(test_any_edges),
        cmocka_unit_test(test_any_woken),
    };
    return HARNESS_MAIN(argc, argv, tests);
}
