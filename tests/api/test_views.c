/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that another rank reads in place: what its owner writes before a send is seen
 * behind the receive; a view outlives the region, and the owner's process. Where a pair
 * of ranks cannot map memory, both calls report it. */
#include "harness.h"

#include "support/unit.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 3 * 4096 + 64, ROUNDS = 20 };

static bool maps(void)
{
    const char *mode = harness_mode();
    return strcmp(mode, "shm") == 0 || strcmp(mode, "auto") == 0 ||
           strcmp(mode, "shm-map") == 0;
}

/* Send a number to the peer, or receive its number. */
static uint64_t number_pass(struct harness_rank *rank, tryst_step *step, int from,
                            uint64_t number)
{
    int peer = 1 - rank->rank;
    harness_end(rank->rank == from
                    ? harness_send(rank, step, peer, "number", &number, sizeof number)
                    : harness_recv(rank, step, peer, "number", &number, sizeof number),
                TRYST_OK);
    return number;
}

static tryst_mem *region_make(struct harness_rank *rank, void **data_p)
{
    tryst_mem *mem;
    CHECK_STATUS(tryst_mem_alloc(rank->ctx, BYTES, TRYST_MEMORY_HOST, 0, data_p, &mem),
                 TRYST_OK);
    return mem;
}

static const void *view_open(struct harness_rank *rank, uint64_t id)
{
    const void *data = NULL;
    size_t bytes = 0;
    tryst_status status;
    while ((status = tryst_mem_view(rank->group, 1 - rank->rank, id, &data, &bytes)) ==
           TRYST_AGAIN)
        tryst_progress(rank->ctx);
    CHECK_STATUS(status, TRYST_OK);
    CHECK_EQ(bytes, BYTES);
    return data;
}

/* ---- a view of a region that changes, and goes ------------------------------------- */

static void owner(struct harness_rank *rank, tryst_step *step)
{
    void *data;
    tryst_mem *mem = region_make(rank, &data);
    uint64_t id;
    CHECK_STATUS(tryst_mem_share(rank->group, 1, mem, &id), TRYST_AGAIN);
    (void)number_pass(rank, step, 1, 0);
    tryst_status shared = tryst_mem_share(rank->group, 1, mem, &id);
    CHECK_STATUS(shared, maps() ? TRYST_OK : TRYST_E_UNSUPPORTED);
    CHECK(maps() || strstr(tryst_last_error(), "maps memory"));
    (void)number_pass(rank, step, 0, id);
    for (uint64_t round = 0; maps() && round < ROUNDS; round++) {
        harness_fill(data, BYTES, round);
        (void)number_pass(rank, step, 0, round);
        (void)number_pass(rank, step, 1, 0);
    }
    tryst_mem_release(mem);
    (void)number_pass(rank, step, 0, 0);
    (void)number_pass(rank, step, 1, 0);
}

static void reader(struct harness_rank *rank, tryst_step *step)
{
    const void *data = NULL;
    size_t bytes;
    (void)number_pass(rank, step, 1, 0);
    uint64_t id = number_pass(rank, step, 0, 0);
    CHECK_STATUS(tryst_mem_view(rank->group, 0, id + 1, &data, &bytes),
                 maps() ? TRYST_AGAIN : TRYST_E_UNSUPPORTED);
    if (maps())
        data = view_open(rank, id);
    for (uint64_t round = 0; maps() && round < ROUNDS; round++) {
        CHECK_EQ(number_pass(rank, step, 0, 0), round);
        CHECK_EQ(harness_mismatch(data, BYTES, round), SIZE_MAX);
        (void)number_pass(rank, step, 1, 0);
    }
    (void)number_pass(rank, step, 0, 0); /* the region is released */
    (void)number_pass(rank, step, 1, 0);
    for (int i = 0; i < 10; i++)
        tryst_progress(rank->ctx);
    if (maps())
        CHECK_EQ(harness_mismatch(data, BYTES, ROUNDS - 1), SIZE_MAX);
    tryst_mem_view_close(data, BYTES);
    tryst_mem_view_close(NULL, 0);
}

static void view_main(struct harness_rank *rank)
{
    tryst_step *step = harness_step(rank, 1);
    if (rank->rank == 0)
        owner(rank, step);
    else
        reader(rank, step);
    harness_step_close(step);
}

static void test_view(void **state)
{
    struct harness_params params = {.size = 2, .main = view_main};
    assert_int_equal(harness_run(&params), 0);
}

/* ---- an owner that dies ------------------------------------------------------------ */

static void death_main(struct harness_rank *rank)
{
    tryst_step *step = harness_step(rank, 1);
    void *own;
    if (rank->rank == 1) {
        uint64_t id;
        tryst_mem *mem = region_make(rank, &own);
        harness_fill(own, BYTES, 7);
        (void)number_pass(rank, step, 0, 0);
        CHECK_STATUS(tryst_mem_share(rank->group, 0, mem, &id), TRYST_OK);
        (void)number_pass(rank, step, 1, id);
        (void)number_pass(rank, step, 0, 0);
        kill(getpid(), SIGKILL);
    }
    (void)number_pass(rank, step, 0, 0);
    const void *data = view_open(rank, number_pass(rank, step, 1, 0));
    uint64_t number = 0;
    tryst_error error;
    tryst_op *last = harness_send(rank, step, 1, "number", &number, sizeof number);
    (void)harness_outcome(last, &error); /* it kills the peer, perhaps unacknowledged */
    harness_end(harness_recv(rank, step, 1, "number", &number, sizeof number),
                TRYST_E_PEER);
    CHECK_EQ(harness_mismatch(data, BYTES, 7), SIZE_MAX);
    size_t bytes;
    const void *none;
    CHECK_STATUS(tryst_mem_view(rank->group, 1, 1, &none, &bytes), TRYST_E_PEER);
    tryst_mem_view_close(data, BYTES);
    harness_step_close(step);
}

static void test_death(void **state)
{
    struct harness_params params = {.size = 2, .main = death_main, .killed = 1};
    if (!maps() || !harness_has_processes())
        skip();
    assert_int_equal(harness_run(&params), 0);
}

/* ---- what is refused --------------------------------------------------------------- */

static void refusals_main(struct harness_rank *rank)
{
    char plain[64];
    void *data;
    const void *view;
    size_t bytes;
    uint64_t id;
    tryst_mem *mem = region_make(rank, &data), *registered;
    tryst_step *step = harness_step(rank, 1);
    (void)number_pass(rank, step, 0, 0);
    (void)number_pass(rank, step, 1, 0);
    CHECK_STATUS(tryst_mem_share(NULL, 0, mem, &id), TRYST_E_INVALID);
    CHECK_STATUS(tryst_mem_share(rank->group, 0, NULL, &id), TRYST_E_INVALID);
    CHECK_STATUS(tryst_mem_share(rank->group, 0, mem, NULL), TRYST_E_INVALID);
    CHECK_STATUS(tryst_mem_share(rank->group, -1, mem, &id), TRYST_E_INVALID);
    CHECK_STATUS(tryst_mem_share(rank->group, 2, mem, &id), TRYST_E_INVALID);
    CHECK(strstr(tryst_last_error(), "rank 2") && strstr(tryst_last_error(), "0 to 1"));
    CHECK_STATUS(tryst_mem_share(rank->group, rank->rank, mem, &id), TRYST_E_UNSUPPORTED);
    CHECK_STATUS(tryst_mem_view(rank->group, 2, 1, &view, &bytes), TRYST_E_INVALID);
    CHECK_STATUS(tryst_mem_view(rank->group, 0, 1, NULL, &bytes), TRYST_E_INVALID);
    CHECK_STATUS(tryst_mem_view(rank->group, 0, 1, &view, NULL), TRYST_E_INVALID);
    /* memory of the caller's own has no descriptor that a peer could map */
    CHECK_STATUS(tryst_mem_register(rank->ctx, plain, sizeof plain, TRYST_MEMORY_HOST, 0,
                                    &registered),
                 TRYST_OK);
    CHECK_STATUS(tryst_mem_share(rank->group, 1 - rank->rank, registered, &id),
                 TRYST_E_UNSUPPORTED);
    tryst_mem_release(registered);
    tryst_mem_release(mem);
    (void)number_pass(rank, step, 0, 0); /* neither leaves before the other is done */
    (void)number_pass(rank, step, 1, 0);
    harness_step_close(step);
}

static void test_refusals(void **state)
{
    struct harness_params params = {.size = 2, .main = refusals_main};
    assert_int_equal(harness_run(&params), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_view),
        cmocka_unit_test(test_death),
        cmocka_unit_test(test_refusals),
    };
    return HARNESS_MAIN(argc, argv, tests);
}
