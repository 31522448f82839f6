/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns that hang in libraries that match point-to-point calls by order. */
#include "harness.h"

#include "support/unit.h"

#include <stdatomic.h>
#include <string.h>

/* Both ranks send before they receive, 16 MiB each. */
static void both_send_first(struct harness_rank *rank)
{
    enum { BYTES = 16 << 20 };
    int peer = 1 - rank->rank;
    char *out = malloc(BYTES), *in = malloc(BYTES);
    tryst_step *step = harness_step(rank, 1);
    harness_fill(out, BYTES, (uint64_t)rank->rank);
    tryst_op *send = harness_send(rank, step, peer, "x", out, BYTES);
    harness_barrier(rank, rank->arg); /* all sends are posted before the first receive */
    CHECK_EQ(tryst_op_test(send), TRYST_IN_PROGRESS);
    harness_barrier(rank, rank->arg);
    tryst_op *recv = harness_recv(rank, step, peer, "x", in, BYTES);
    harness_end(recv, TRYST_OK);
    harness_end(send, TRYST_OK);
    CHECK_EQ(harness_mismatch(in, BYTES, (uint64_t)peer), SIZE_MAX);
    harness_step_close(step);
    free(out);
    free(in);
}

static void test_both_send_first(void **state)
{
    _Atomic(uint32_t) *counter = harness_share(sizeof *counter);
    struct harness_params params = {.size = 2, .main = both_send_first, .arg = counter};
    int failed = harness_run(&params);
    harness_unshare(counter, sizeof *counter);
    assert_int_equal(failed, 0);
}

struct reverse {
    int count;
    size_t bytes;
    bool one_by_one;
    _Atomic(uint32_t) posted;
};

static void reverse_name(char *name, int i)
{
    snprintf(name, 16, "t%d", i);
}

/* Rank 0 posts all receives 0…n−1 before rank 1 posts any send; the sends are posted as
 * n−1…0. */
static void reverse_main(struct harness_rank *rank)
{
    struct reverse *reverse = rank->arg;
    int count = reverse->count;
    tryst_op **ops = calloc((size_t)count, sizeof *ops);
    char *data = malloc(reverse->bytes * (rank->rank == 0 ? (size_t)count : 1));
    char name[16];
    tryst_step *step = harness_step(rank, 7);
    CHECK(ops && data);
    if (rank->rank == 0) {
        for (int i = 0; i < count; i++) {
            reverse_name(name, i);
            ops[i] = harness_recv(rank, step, 1, name, data + (size_t)i * reverse->bytes,
                                  reverse->bytes);
        }
        for (int i = 0; i < 20; i++)
            tryst_progress(rank->ctx);
    }
    harness_barrier(rank, &reverse->posted);
    for (int i = count - 1; rank->rank == 1 && i >= 0; i--) {
        reverse_name(name, i);
        harness_fill(data, reverse->bytes, (uint64_t)i);
        tryst_op *op = harness_send(rank, step, 0, name, data, reverse->bytes);
        if (reverse->one_by_one)
            harness_end(op, TRYST_OK);
        else
            ops[i] = op;
        if (!reverse->one_by_one && i == 0)
            for (int k = 0; k < count; k++)
                harness_end(ops[k], TRYST_OK);
    }
    for (int i = 0; rank->rank == 0 && i < count; i++) {
        harness_end(ops[i], TRYST_OK);
        if (reverse->one_by_one)
            CHECK_EQ(harness_mismatch(data + (size_t)i * reverse->bytes, reverse->bytes,
                                      (uint64_t)i),
                     SIZE_MAX);
    }
    harness_step_close(step);
    free(ops);
    free(data);
}

static void reverse_run(int count, size_t bytes, bool one_by_one, unsigned timeout_s)
{
    struct reverse *reverse = harness_share(sizeof *reverse);
    reverse->count = count;
    reverse->bytes = bytes;
    reverse->one_by_one = one_by_one;
    struct harness_params params = {
        .size = 2, .main = reverse_main, .arg = reverse, .timeout_s = timeout_s};
    int failed = harness_run(&params);
    harness_unshare(reverse, sizeof *reverse);
    assert_int_equal(failed, 0);
}

static void test_reverse_small(void **state)
{
    reverse_run(300, 64, true, 0);
}

static void test_reverse_large(void **state)
{
    reverse_run(64, 1 << 20, true, 0);
}

/* Post more receives, all large, than any limit of posted receives or WANTs allows; then
 * post the sends one at a time, that of the last receive first. */
static void test_reverse_ten_thousand(void **state)
{
    reverse_run(10007, 8192, true, 60);
}

/* The order of actions of each rank in an interleaved 1F1B schedule that hangs elsewhere:
 *   rank 0: 2SEND_F1 0F2 0SEND_F2 2RECV_B0
 *   rank 1: 3RECV_F1 3SEND_B0 1RECV_F2 3SEND_B1
 * Stages 0 and 2 are on rank 0, 1 and 3 on rank 1; each action waits for the one before
 * it. */
static void interleaved_main(struct harness_rank *rank)
{
    enum { BYTES = 1 << 20 };
    char *buffer = malloc(4 * BYTES);
    char *f1 = buffer, *f2 = buffer + BYTES, *b0 = f2 + BYTES, *b1 = b0 + BYTES;
    tryst_step *step = harness_step(rank, 1);
    tryst_op *ops[4];
    if (rank->rank == 0) {
        harness_fill(f1, BYTES, 1);
        ops[0] = harness_send(rank, step, 1, "2to3F1", f1, BYTES);
        harness_fill(f2, BYTES, 2); /* action 0F2 */
        ops[1] = harness_send(rank, step, 1, "0to1F2", f2, BYTES);
        ops[2] = harness_recv(rank, step, 1, "3to2B0", b0, BYTES);
        harness_end(ops[2], TRYST_OK);
        CHECK_EQ(harness_mismatch(b0, BYTES, 3), SIZE_MAX);
        ops[3] = harness_recv(rank, step, 1, "3to2B1", b1, BYTES);
        harness_end(ops[3], TRYST_OK);
        CHECK_EQ(harness_mismatch(b1, BYTES, 4), SIZE_MAX);
        harness_end(ops[0], TRYST_OK);
        harness_end(ops[1], TRYST_OK);
    } else {
        ops[0] = harness_recv(rank, step, 0, "2to3F1", f1, BYTES);
        harness_end(ops[0], TRYST_OK);
        CHECK_EQ(harness_mismatch(f1, BYTES, 1), SIZE_MAX);
        harness_fill(b0, BYTES, 3);
        ops[1] = harness_send(rank, step, 0, "3to2B0", b0, BYTES);
        ops[2] = harness_recv(rank, step, 0, "0to1F2", f2, BYTES);
        harness_end(ops[2], TRYST_OK);
        CHECK_EQ(harness_mismatch(f2, BYTES, 2), SIZE_MAX);
        harness_fill(b1, BYTES, 4);
        ops[3] = harness_send(rank, step, 0, "3to2B1", b1, BYTES);
        harness_end(ops[1], TRYST_OK);
        harness_end(ops[3], TRYST_OK);
    }
    harness_step_close(step);
    free(buffer);
}

static void test_interleaved(void **state)
{
    struct harness_params params = {.size = 2, .main = interleaved_main};
    assert_int_equal(harness_run(&params), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_send_first),      cmocka_unit_test(test_reverse_small),
        cmocka_unit_test(test_reverse_large),        cmocka_unit_test(test_interleaved),
        cmocka_unit_test(test_reverse_ten_thousand),
    };
    return HARNESS_MAIN(argc, argv, tests);
}
