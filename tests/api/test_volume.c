/* SPDX-License-Identifier: Apache-2.0 */
/* Large numbers of sends before any receive, of steps and of contexts, and the resources
 * that must stay bounded. TRYST_TEST_SENDS and TRYST_TEST_STEPS set the numbers. */
#include "harness.h"

#include "support/unit.h"

#include <stdatomic.h>
#include <string.h>

struct volume {
    _Atomic(uint32_t) counter;
    uint64_t count;
};

static void volume_run(int size, void (*main)(struct harness_rank *rank), uint64_t count,
                       const char *const *config, bool no_group)
{
    struct volume *volume = harness_share(sizeof *volume);
    volume->count = count;
    struct harness_params params = {
        .size = size,
        .main = main,
        .arg = volume,
        .config = config,
        .no_group = no_group,
        .timeout_s = (unsigned)harness_setting("TRYST_TEST_SECONDS", 50)};
    int failed = harness_run(&params);
    harness_unshare(volume, sizeof *volume);
    assert_int_equal(failed, 0);
}

static tryst_key *key_prepare(struct harness_rank *rank, int src, int dst)
{
    tryst_key *prepared;
    struct harness_key key = harness_key(rank, src, dst, "volume");
    CHECK_STATUS(tryst_key_prepare(rank->group, key.text, &prepared), TRYST_OK);
    return prepared;
}

/* Each rank posts all its sends before its first receive. */
static void sends_first_main(struct harness_rank *rank)
{
    struct volume *volume = rank->arg;
    int peer = 1 - rank->rank;
    uint64_t count = volume->count;
    tryst_op **ops = calloc(count, sizeof *ops);
    uint32_t *out = calloc(count, sizeof *out), in = 0;
    tryst_key *there = key_prepare(rank, rank->rank, peer);
    tryst_key *back = key_prepare(rank, peer, rank->rank);
    tryst_step *step = harness_step(rank, 1);
    CHECK(ops && out);
    for (uint64_t i = 0; i < count; i++) {
        out[i] = (uint32_t)i;
        tryst_tensor tensor = harness_tensor(&out[i], sizeof out[i]);
        CHECK_STATUS(tryst_send_key(step, there, &tensor, NULL, &ops[i]), TRYST_OK);
    }
    harness_barrier(rank, &volume->counter);
    for (uint64_t i = 0; i < count; i++) {
        tryst_op *op;
        tryst_tensor tensor = harness_tensor(&in, sizeof in);
        CHECK_STATUS(tryst_recv_key(step, back, &tensor, NULL, &op), TRYST_OK);
        harness_end(op, TRYST_OK);
        CHECK_EQ(in, i);
    }
    for (uint64_t i = 0; i < count; i++)
        harness_end(ops[i], TRYST_OK);
    harness_step_close(step);
    tryst_key_release(there);
    tryst_key_release(back);
    free(out);
    free(ops);
}

static void test_sends_before_receives(void **state)
{
    volume_run(2, sends_first_main, harness_setting("TRYST_TEST_SENDS", 100000), NULL,
               false);
}

/* Open and close many steps, some of them with traffic; a closed step leaves no memory
 * behind. */
static void steps_main(struct harness_rank *rank)
{
    struct volume *volume = rank->arg;
    char data[64] = {0};
    size_t warm_bytes = 0;
    tryst_key *key = key_prepare(rank, 0, 1);
    for (uint64_t i = 1; i <= volume->count; i++) {
        tryst_step *step = harness_step(rank, i);
        if (i % 16 == 0) {
            tryst_op *op;
            tryst_tensor tensor = harness_tensor(data, sizeof data);
            CHECK_STATUS(rank->rank == 0 ? tryst_send_key(step, key, &tensor, NULL, &op)
                                         : tryst_recv_key(step, key, &tensor, NULL, &op),
                         TRYST_OK);
            harness_end(op, TRYST_OK);
        }
        harness_step_close(step);
        if (i == volume->count / 10)
            warm_bytes = harness_heap_bytes();
    }
    harness_barrier(rank, &volume->counter);
    if (harness_has_processes() && !harness_is_sanitized()) {
        size_t bytes = harness_heap_bytes();
        if (bytes > warm_bytes + volume->count + 65536)
            harness_fail(__FILE__, __LINE__, "the heap grew from %zu to %zu bytes",
                         warm_bytes, bytes);
    }
    tryst_key_release(key);
}

static void test_steps(void **state)
{
    volume_run(2, steps_main, harness_setting("TRYST_TEST_STEPS", 10000), NULL, false);
}

/* The bytes in flight to a rank that makes no progress stay within the window. */
static void window_main(struct harness_rank *rank)
{
    enum { COUNT = 24, BYTES = 1 << 20 };
    struct volume *volume = rank->arg;
    tryst_op *ops[COUNT];
    char *data = malloc((size_t)COUNT * BYTES);
    tryst_step *step = harness_step(rank, 1);
    for (int i = 0; i < COUNT; i++)
        ops[i] = rank->rank == 0
                     ? harness_send(rank, step, 1, "w", data + (size_t)i * BYTES, BYTES)
                     : harness_recv(rank, step, 0, "w", data + (size_t)i * BYTES, BYTES);
    if (rank->rank == 1)
        for (int i = 0; i < 2000 && harness_counter(rank->ctx, "frames_sent") == 0; i++) {
            /* sends the announcement; no progress after that */
            tryst_progress(rank->ctx);
            harness_sleep_ms(1);
        }
    if (rank->rank == 0) {
        uint64_t until_ns = harness_now_ns() + 300000000;
        while (harness_now_ns() < until_ns) {
            tryst_progress(rank->ctx);
            uint64_t started = harness_counter(rank->ctx, "bulk_bytes_sent");
            CHECK(started <= (size_t)COUNT * BYTES);
            if (atomic_load(&volume->counter) < 1 && started > 512 * 1024)
                harness_fail(__FILE__, __LINE__, "%llu bytes under way, window 512 KiB",
                             (unsigned long long)started);
        }
        atomic_fetch_add(&volume->counter, 1);
    }
    while (rank->rank == 1 && atomic_load(&volume->counter) < 1)
        harness_sleep_ms(1);
    for (int i = 0; i < COUNT; i++)
        harness_end(ops[i], TRYST_OK);
    harness_step_close(step);
    free(data);
}

static void test_window(void **state)
{
    static const char *const config[] = {"window_bytes", "512K", "slice_bytes", "128K",
                                         NULL};
    volume_run(2, window_main, 0, config, false);
}

/* Two independent contexts of one process, each a job of one rank. */
static void contexts_main(struct harness_rank *rank)
{
    struct volume *volume = rank->arg;
    int warm_fds = 0;
    size_t warm_bytes = 0;
    (void)rank;
    for (uint64_t i = 0; i < volume->count; i++) {
        tryst_ctx *ctx[2];
        tryst_group *group[2];
        for (int k = 0; k < 2; k++) {
            char data[2][32] = {"", "through itself"};
            tryst_op *ops[2];
            tryst_step *step;
            CHECK_STATUS(tryst_open(NULL, &ctx[k]), TRYST_OK);
            CHECK_STATUS(tryst_group_open(ctx[k], NULL, &group[k]), TRYST_OK);
            CHECK_EQ(tryst_group_size(group[k]), 1);
            CHECK_STATUS(tryst_step_open(group[k], 5, &step), TRYST_OK);
            struct harness_rank self = {.rank = 0, .group = group[k], .ctx = ctx[k]};
            ops[0] = harness_recv(&self, step, 0, "me", data[0], 32);
            ops[1] = harness_send(&self, step, 0, "me", data[1], 32);
            harness_end(ops[0], TRYST_OK);
            harness_end(ops[1], TRYST_OK);
            CHECK(strcmp(data[0], data[1]) == 0);
            harness_step_close(step);
        }
        for (int k = 0; k < 2; k++) {
            tryst_group_close(group[k]);
            tryst_close(ctx[k]);
        }
        if (i == volume->count / 4) {
            warm_fds = harness_fds();
            warm_bytes = harness_heap_bytes();
        }
    }
    CHECK_EQ(harness_fds(), warm_fds);
    if (!harness_is_sanitized() && harness_heap_bytes() > warm_bytes + 64 * volume->count)
        harness_fail(__FILE__, __LINE__, "the heap grew from %zu to %zu bytes",
                     warm_bytes, harness_heap_bytes());
}

static void test_contexts(void **state)
{
    volume_run(1, contexts_main, 200, NULL, true);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sends_before_receives),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_contexts),
    };
    return HARNESS_MAIN(argc, argv, tests);
}
