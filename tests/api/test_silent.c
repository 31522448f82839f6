/* SPDX-License-Identifier: Apache-2.0 */
/* A data path that stops without an error (TRYST_FAULT=rank=1,silent=60) between two
 * living ranks whose link is open: both declare each other lost within
 * TRYST_PEER_TIMEOUT, by rank, and a third rank goes on with both. */
#include "harness.h"

#include "support/patience.h"
#include "support/unit.h"

#include <stdatomic.h>
#include <string.h>

enum { RANKS = 3, BYTES = 300000, TIMEOUT_MS = 1000, ROUNDS_MAX = 1000 };

static const char *const config[] = {"peer_timeout", "1s", NULL};

/* Fail unless the operation failed with `peer` as its origin, and the text names that
 * rank. */
static void check_named(tryst_op *op, int peer)
{
    tryst_error error = {.struct_size = sizeof error};
    char text[24];
    CHECK_STATUS(tryst_op_error(op, &error), TRYST_E_PEER);
    CHECK_EQ(error.origin_rank, peer);
    snprintf(text, sizeof text, "rank %d", peer);
    if (!strstr(error.text, text))
        harness_fail(__FILE__, __LINE__, "does not name rank %d: %s", peer, error.text);
}

/* Run one round between the two ranks; false if the path has stopped. */
static bool round_pass(struct harness_rank *rank, tryst_step *step, int round, char *data)
{
    int peer = 1 - rank->rank;
    char edge[24];
    tryst_op *ops[4];
    bool passed = true;
    snprintf(edge, sizeof edge, "large %d", round);
    ops[0] = harness_recv(rank, step, peer, edge, data, BYTES);
    ops[1] = harness_send(rank, step, peer, edge, data + BYTES, BYTES);
    snprintf(edge, sizeof edge, "small %d", round);
    ops[2] = harness_recv(rank, step, peer, edge, data + 2 * (size_t)BYTES, 8);
    ops[3] = harness_send(rank, step, peer, edge, data + 2 * (size_t)BYTES + 8, 8);
    for (int i = 0; i < 4; i++)
        passed = tryst_wait(ops[i], TRYST_FOREVER) == TRYST_OK && passed;
    for (int i = 0; i < 4; i++) {
        if (tryst_op_test(ops[i]) != TRYST_OK)
            check_named(ops[i], peer);
        tryst_op_release(ops[i]);
    }
    return passed;
}

static void exchange(struct harness_rank *rank, tryst_step *step, int peer)
{
    char in[100], out[100] = {0};
    tryst_op *recv = harness_recv(rank, step, peer, "after", in, sizeof in);
    harness_end(harness_send(rank, step, peer, "after", out, sizeof out), TRYST_OK);
    harness_end(recv, TRYST_OK);
}

static void silent_main(struct harness_rank *rank)
{
    char *data = calloc(3, BYTES);
    tryst_step *step = harness_step(rank, 1);
    CHECK(data);
    if (rank->rank < 2) {
        int round = 0;
        uint64_t begin_ns = 0;
        do
            begin_ns = harness_now_ns();
        while (round < ROUNDS_MAX && round_pass(rank, step, round++, data));
        uint64_t took_ms = (harness_now_ns() - begin_ns) / 1000000;
        dprintf(2, "rank %d had the error after %llu ms, in round %d\n", rank->rank,
                (unsigned long long)took_ms, round);
        CHECK(round > 1 && round < ROUNDS_MAX);
        CHECK(took_ms < patience_ns(TIMEOUT_MS + 10000));
        memset(data, 1, 3 * (size_t)BYTES); /* the buffer belongs to the caller again */
    }
    harness_barrier(rank, rank->arg);
    for (int peer = 0; peer < RANKS; peer++)
        if (peer != rank->rank && (peer == 2 || rank->rank == 2))
            exchange(rank, step, peer);
    harness_step_close(step);
    harness_barrier(rank, rank->arg);
    free(data);
}

static void test_silent(void **state)
{
    _Atomic(uint32_t) *counter = harness_share(sizeof *counter);
    struct harness_params params = {.size = RANKS,
                                    .main = silent_main,
                                    .arg = counter,
                                    .config = config,
                                    .timeout_s = 40};
    int failed = harness_run(&params);
    harness_unshare((void *)counter, sizeof *counter);
    assert_int_equal(failed, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_silent)};
    return HARNESS_MAIN(argc, argv, tests);
}
