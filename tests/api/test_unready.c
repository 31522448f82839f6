/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints that never become ready (TRYST_FAULT=rank=1,mute=1), between living ranks
 * that make progress. Operations that wait for such an endpoint fail at both ends after
 * TRYST_CONNECT_TIMEOUT, with that cause in the text; a third rank goes on with rank
 * 0. */
#include "harness.h"

#include "support/unit.h"

#include <stdatomic.h>
#include <string.h>

enum { RANKS = 3, MUTE = 1, BYTES = 300000 };

static const char *const config[] = {"connect_timeout", "1s", NULL};

static void check_ended(tryst_op *op, int peer)
{
    tryst_error error = {.struct_size = sizeof error};
    char name[24];
    tryst_status status = tryst_wait(op, TRYST_FOREVER);
    snprintf(name, sizeof name, "rank %d", peer);
    CHECK(status == TRYST_E_UNREACHABLE || status == TRYST_E_PEER);
    CHECK_STATUS(tryst_op_error(op, &error), status);
    CHECK_EQ(error.origin_rank, peer);
    if (!strstr(error.text, name) || !strstr(error.text, "TRYST_CONNECT_TIMEOUT"))
        harness_fail(__FILE__, __LINE__, "the text does not name the missing answer: %s",
                     error.text);
    tryst_op_release(op);
}

static void unready_main(struct harness_rank *rank)
{
    char *data = calloc(2, BYTES);
    tryst_step *step = harness_step(rank, 1);
    tryst_op *ops[2 * RANKS] = {NULL};
    CHECK(data);
    for (int i = 0; i < RANKS; i++)
        if (i != rank->rank && (i == MUTE || rank->rank == MUTE)) {
            ops[2 * i] = harness_send(rank, step, i, "large", data, BYTES);
            ops[2 * i + 1] = harness_recv(rank, step, i, "small", data + BYTES, 8);
        }
    for (int i = 0; i < 2 * RANKS; i++)
        if (ops[i])
            check_ended(ops[i], i / 2);
    if (rank->rank != MUTE) {
        int peer = RANKS - 1 - rank->rank;
        tryst_op *recv = harness_recv(rank, step, peer, "after", data + BYTES, 8);
        harness_end(harness_send(rank, step, peer, "after", data, 8), TRYST_OK);
        harness_end(recv, TRYST_OK);
    }
    harness_step_close(step);
    harness_barrier(rank, rank->arg);
    free(data);
}

static void test_unready(void **state)
{
    _Atomic(uint32_t) *counter = harness_share(sizeof *counter);
    struct harness_params params = {.size = RANKS,
                                    .main = unready_main,
                                    .arg = counter,
                                    .config = config,
                                    .timeout_s = 40};
    int failed = harness_run(&params);
    harness_unshare((void *)counter, sizeof *counter);
    assert_int_equal(failed, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_unready)};
    return HARNESS_MAIN(argc, argv, tests);
}
