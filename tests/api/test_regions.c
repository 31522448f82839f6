/* SPDX-License-Identifier: Apache-2.0 */
/* Regions are opened and released while another thread makes progress over the same
 * rails. Every rail releases a region before the region's memory is freed, also in a
 * callback. A callback may allocate from a pool whose regions are being released. With
 * TSan the test shows that only the engine's thread uses a rail. */
#include "harness.h"

#include "support/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <tryst/pool.h>

enum { BYTES = 96 * 1024, TRAFFIC = 20000 };

static int rounds_of(const struct harness_rank *rank)
{
    (void)rank;
    return harness_is_sanitized() ? 20 : 60;
}

/* ---- steady traffic by another thread ---------------------------------------------- */

struct traffic {
    struct harness_rank *rank;
    tryst_step *step;
    pthread_t thread;
};

static void *traffic_run(void *arg)
{
    struct traffic *self = arg;
    int peer = 1 - self->rank->rank;
    char *out = malloc(TRAFFIC), *in = malloc(TRAFFIC);
    for (int i = 0; i < 4 * rounds_of(self->rank); i++) {
        harness_fill(out, TRAFFIC, (uint64_t)i);
        tryst_op *recv =
            harness_recv(self->rank, self->step, peer, "traffic", in, TRAFFIC);
        harness_end(harness_send(self->rank, self->step, peer, "traffic", out, TRAFFIC),
                    TRYST_OK);
        harness_end(recv, TRYST_OK);
        CHECK_EQ(harness_mismatch(in, TRAFFIC, (uint64_t)i), SIZE_MAX);
    }
    free(out);
    free(in);
    return NULL;
}

static void traffic_start(struct traffic *self, struct harness_rank *rank)
{
    self->rank = rank;
    self->step = harness_step(rank, 1);
    CHECK(pthread_create(&self->thread, NULL, traffic_run, self) == 0);
}

static void traffic_end(struct traffic *self)
{
    pthread_join(self->thread, NULL);
    harness_step_close(self->step);
}

/* ---- regions ----------------------------------------------------------------------- */

static void on_sent(void *arg, tryst_op *op, tryst_status status)
{
    (void)op;
    CHECK_STATUS(status, TRYST_OK);
    tryst_mem_release(arg);
}

/* Send to the peer and receive from the peer with new regions; the callback releases the
 * region of the send. */
static void region_round(struct harness_rank *rank, tryst_step *step, uint64_t seed)
{
    int peer = 1 - rank->rank;
    void *out, *in;
    tryst_mem *out_mem, *in_mem;
    CHECK_STATUS(tryst_mem_alloc(rank->ctx, BYTES, TRYST_MEMORY_HOST, 0, &out, &out_mem),
                 TRYST_OK);
    CHECK_STATUS(tryst_mem_alloc(rank->ctx, BYTES, TRYST_MEMORY_HOST, 0, &in, &in_mem),
                 TRYST_OK);
    harness_fill(out, BYTES, seed);
    tryst_tensor tensor = harness_tensor(out, BYTES);
    tryst_op_params params = {
        .struct_size = sizeof params, .callback = on_sent, .arg = out_mem};
    struct harness_key key = harness_key(rank, rank->rank, peer, "region");
    tryst_op *send, *recv = harness_recv(rank, step, peer, "region", in, BYTES);
    CHECK_STATUS(tryst_send(step, key.text, &tensor, &params, &send), TRYST_OK);
    harness_end(recv, TRYST_OK);
    CHECK_EQ(harness_mismatch(in, BYTES, seed), SIZE_MAX);
    tryst_mem_release(in_mem);
    harness_end(send, TRYST_OK);
}

static void regions_main(struct harness_rank *rank)
{
    struct traffic traffic;
    traffic_start(&traffic, rank);
    tryst_step *step = harness_step(rank, 2);
    for (int i = 0; i < rounds_of(rank); i++)
        region_round(rank, step, (uint64_t)i);
    harness_step_close(step);
    traffic_end(&traffic);
}

/* ---- a pool ------------------------------------------------------------------------ */

/* Allocate and free in a callback, while another thread frees pieces of the same pool. */
static void on_received(void *arg, tryst_op *op, tryst_status status)
{
    void *data;
    (void)op;
    CHECK_STATUS(status, TRYST_OK);
    CHECK_STATUS(tryst_pool_alloc(arg, BYTES, &data), TRYST_OK);
    CHECK_STATUS(tryst_pool_free(arg, data), TRYST_OK);
}

static void pool_round(struct harness_rank *rank, tryst_step *step, tryst_pool *pool,
                       uint64_t seed)
{
    int peer = 1 - rank->rank;
    void *out, *in;
    CHECK_STATUS(tryst_pool_alloc(pool, BYTES, &out), TRYST_OK);
    CHECK_STATUS(tryst_pool_alloc(pool, BYTES, &in), TRYST_OK);
    harness_fill(out, BYTES, seed);
    tryst_tensor tensor = harness_tensor(in, BYTES);
    tryst_op_params params = {
        .struct_size = sizeof params, .callback = on_received, .arg = pool};
    struct harness_key key = harness_key(rank, peer, rank->rank, "pool");
    tryst_op *recv;
    CHECK_STATUS(tryst_recv(step, key.text, &tensor, &params, &recv), TRYST_OK);
    harness_end(harness_send(rank, step, peer, "pool", out, BYTES), TRYST_OK);
    CHECK_STATUS(tryst_pool_free(pool, out), TRYST_OK);
    (void)tryst_pool_trim(pool);
    harness_end(recv, TRYST_OK);
    CHECK_EQ(harness_mismatch(in, BYTES, seed), SIZE_MAX);
    CHECK_STATUS(tryst_pool_free(pool, in), TRYST_OK);
    (void)tryst_pool_trim(pool);
}

static void pool_main(struct harness_rank *rank)
{
    struct traffic traffic;
    tryst_pool *pool;
    tryst_pool_params params = {.struct_size = sizeof params,
                                .kind = TRYST_POOL_REGISTERED,
                                .region_bytes = BYTES};
    CHECK_STATUS(tryst_pool_open(rank->ctx, &params, &pool), TRYST_OK);
    traffic_start(&traffic, rank);
    tryst_step *step = harness_step(rank, 2);
    for (int i = 0; i < rounds_of(rank); i++)
        pool_round(rank, step, pool, (uint64_t)i);
    harness_step_close(step);
    traffic_end(&traffic);
    CHECK_EQ(tryst_pool_close(pool), 0);
}

static void ranks_run(void (*main)(struct harness_rank *rank))
{
    static const char *const config[] = {"progress_thread", "1", NULL};
    struct harness_params params = {
        .size = 2, .main = main, .config = config, .timeout_s = 60};
    assert_int_equal(harness_run(&params), 0);
}

static void test_regions(void **state)
{
    ranks_run(regions_main);
}

static void test_pool(void **state)
{
    ranks_run(pool_main);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_regions),
                                       cmocka_unit_test(test_pool)};
    return HARNESS_MAIN(argc, argv, tests);
}
