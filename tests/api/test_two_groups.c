/* SPDX-License-Identifier: Apache-2.0 */
/* Two groups, one after the other, on one context: the same keys are declared in each,
 * and prepared keys of a closed group are refused. */
#include "harness.h"

#include <stdatomic.h>
#include <string.h>
#include <tryst/coll.h>

#include "support/unit.h"

enum { RANKS = 2, GROUPS = 2, STEPS = 2, SMALL = 64, LARGE = 100000, BLOB_MAX = 65536 };

/* Shared memory for an all-gather, two turns at a time. */
struct meeting {
    _Atomic(uint32_t) given, turns;
    char blobs[2][RANKS][BLOB_MAX];
};

static int gather(void *arg, const void *mine, void *all, size_t bytes)
{
    struct harness_rank *rank = arg;
    struct meeting *meeting = rank->arg;
    uint32_t turn = atomic_load(&meeting->turns);
    char(*blobs)[BLOB_MAX] = meeting->blobs[turn % 2];
    CHECK(bytes <= BLOB_MAX);
    memcpy(blobs[rank->rank], mine, bytes);
    if (atomic_fetch_add(&meeting->given, 1) + 1 == RANKS * (turn + 1))
        atomic_store(&meeting->turns, turn + 1);
    while (atomic_load(&meeting->turns) == turn)
        harness_sleep_ms(1);
    for (int i = 0; i < RANKS; i++)
        memcpy((char *)all + (size_t)i * bytes, blobs[i], bytes);
    return 0;
}

static int gather_alone(void *arg, const void *mine, void *all, size_t bytes)
{
    (void)arg;
    memcpy(all, mine, bytes);
    return 0;
}

static void group_open(struct harness_rank *rank, int size)
{
    tryst_group_params params = {.struct_size = sizeof params,
                                 .allgather = size > 1 ? gather : gather_alone,
                                 .allgather_arg = rank,
                                 .rank = rank->rank,
                                 .size = size};
    CHECK_STATUS(tryst_group_open(rank->ctx, &params, &rank->group), TRYST_OK);
}

/* Prepare a key for each direction: keys[0] is that of this rank's sends. */
static void keys_make(const struct harness_rank *rank, tryst_key *keys[2])
{
    int other = 1 - rank->rank;
    CHECK_STATUS(tryst_key_make(rank->group, rank->rank, other, "x", 0, &keys[0]),
                 TRYST_OK);
    CHECK_STATUS(tryst_key_make(rank->group, other, rank->rank, "x", 0, &keys[1]),
                 TRYST_OK);
}

/* Exchange one size in both directions, by prepared key and by string. */
static void exchange(const struct harness_rank *rank, tryst_step *step,
                     tryst_key *const keys[2], size_t bytes, uint64_t seed)
{
    static _Thread_local char in[2][LARGE], out[LARGE];
    tryst_tensor from = harness_tensor(out, bytes), to = harness_tensor(in[0], bytes);
    int other = 1 - rank->rank;
    tryst_op *recvs[2], *sends[2];
    harness_fill(out, bytes, seed + (uint64_t)rank->rank);
    CHECK_STATUS(tryst_recv_key(step, keys[1], &to, NULL, &recvs[0]), TRYST_OK);
    CHECK_STATUS(tryst_send_key(step, keys[0], &from, NULL, &sends[0]), TRYST_OK);
    recvs[1] = harness_recv(rank, step, other, "y", in[1], bytes);
    sends[1] = harness_send(rank, step, other, "y", out, bytes);
    for (int i = 0; i < 2; i++) {
        harness_end(recvs[i], TRYST_OK);
        harness_end(sends[i], TRYST_OK);
        CHECK(harness_mismatch(in[i], bytes, seed + (uint64_t)other) == SIZE_MAX);
    }
}

/* Fail unless keys of a closed group are refused with a remedy in the text, and nothing
 * is submitted. */
static void stale_refused(tryst_step *step, tryst_key *const keys[2], tryst_status wanted)
{
    char byte = 0;
    tryst_tensor tensor = harness_tensor(&byte, 1);
    tryst_op *op = NULL;
    CHECK_STATUS(tryst_send_key(step, keys[0], &tensor, NULL, &op), wanted);
    CHECK(strstr(tryst_last_error(), "new keys for each group"));
    CHECK_STATUS(tryst_recv_key(step, keys[1], &tensor, NULL, &op), wanted);
    CHECK(strstr(tryst_last_error(), "new keys for each group"));
    CHECK(op == NULL);
}

/* One rank of the first group aborts a step; the step with the same number in the next
 * group is not aborted. */
static void barrier(const struct harness_rank *rank, bool aborts)
{
    tryst_step *step = harness_step(rank, STEPS);
    tryst_op *op;
    if (aborts && rank->rank == 0)
        CHECK_STATUS(tryst_step_abort(step, TRYST_E_IO, "no"), TRYST_OK);
    tryst_status status = tryst_barrier(step, "b", NULL, &op);
    if (status == TRYST_OK)
        harness_end(op, aborts ? TRYST_E_ABORTED : TRYST_OK);
    else
        CHECK(aborts && status == TRYST_E_ABORTED);
    harness_step_close(step);
}

static void groups_main(struct harness_rank *rank)
{
    tryst_key *keys[2], *stale[2] = {NULL, NULL};
    tryst_config *config = harness_config(rank);
    tryst_open_params params = {.struct_size = sizeof params, .config = config};
    CHECK_STATUS(tryst_open(&params, &rank->ctx), TRYST_OK);
    tryst_config_close(config);
    for (int g = 0; g < GROUPS; g++) {
        group_open(rank, RANKS);
        keys_make(rank, keys);
        for (int s = 0; s < STEPS; s++) {
            tryst_step *step = harness_step(rank, (uint64_t)s);
            if (stale[0])
                stale_refused(step, stale, TRYST_E_INCARNATION);
            exchange(rank, step, keys, SMALL, (uint64_t)g * 10 + (uint64_t)s);
            exchange(rank, step, keys, LARGE, (uint64_t)g * 10 + (uint64_t)s);
            harness_step_close(step);
        }
        barrier(rank, g == 0);
        for (int i = 0; i < 2; i++) {
            tryst_key_release(stale[i]);
            stale[i] = keys[i];
        }
        tryst_group_close(rank->group);
    }
    if (rank->rank == 0) { /* the keys name a rank that the current group lacks */
        group_open(rank, 1);
        tryst_step *step = harness_step(rank, 0);
        stale_refused(step, stale, TRYST_E_KEY);
        harness_step_close(step);
        tryst_group_close(rank->group);
    }
    for (int i = 0; i < 2; i++)
        tryst_key_release(stale[i]);
    tryst_close(rank->ctx);
    rank->ctx = NULL;
}

static void test_groups(void **state)
{
    struct meeting *meeting = harness_share(sizeof *meeting);
    const struct harness_params params = {
        .size = RANKS, .main = groups_main, .arg = meeting, .no_group = true};
    (void)state;
    int failed = harness_run(&params);
    harness_unshare(meeting, sizeof *meeting);
    assert_int_equal(failed, 0);
}

/* ---- two groups at the same time --------------------------------------------------- */

static void alone_open(const struct harness_rank *rank, struct harness_rank *own)
{
    *own = *rank;
    tryst_config *config = harness_config(rank);
    tryst_open_params params = {.struct_size = sizeof params, .config = config};
    CHECK_STATUS(tryst_open(&params, &own->ctx), TRYST_OK);
    tryst_config_close(config);
    group_open(own, 1);
}

/* A collective of one group does not start in a step of another. */
static void contexts_main(struct harness_rank *rank)
{
    struct harness_rank ranks[2];
    tryst_coll_params params = {
        .struct_size = sizeof params, .kind = TRYST_COLL_BARRIER, .name = "x"};
    tryst_coll *coll;
    tryst_op *op = NULL;
    for (int i = 0; i < 2; i++)
        alone_open(rank, &ranks[i]);
    CHECK_STATUS(tryst_coll_prepare(ranks[0].group, &params, &coll), TRYST_OK);
    tryst_step *step = harness_step(&ranks[1], 1);
    CHECK_STATUS(tryst_coll_start(step, coll, NULL, NULL, NULL, &op), TRYST_E_INVALID);
    CHECK(!op && strstr(tryst_last_error(), "two groups"));
    harness_step_close(step);
    tryst_coll_release(coll);
    for (int i = 0; i < 2; i++) {
        tryst_group_close(ranks[i].group);
        tryst_close(ranks[i].ctx);
    }
}

static void test_contexts(void **state)
{
    const struct harness_params params = {
        .size = 1, .main = contexts_main, .no_group = true};
    (void)state;
    assert_int_equal(harness_run(&params), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_groups),
                                       cmocka_unit_test(test_contexts)};
    return HARNESS_MAIN(argc, argv, tests);
}
