/* SPDX-License-Identifier: Apache-2.0 */
/* tryst/pool.h through the public API: memory of a device (over the fake driver), pinned
 * and registered memory. The text of a refusal names the amount, the memory and the
 * amount that would fit. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <tryst/pool.h>
#include <tryst/tryst.h>

#include "support/fake_cuda/fake_cuda.h"

enum { MIB = 1 << 20 };

struct seen {
    int made, dropped;
    size_t bytes;
};

static struct fixture {
    tryst_ctx *ctx;
    tryst_device *device;
    struct seen seen;
} fixture;

static int setup(void **state)
{
    struct fixture *self = *state = &fixture;
    *self = (struct fixture){0};
    if (tryst_open(NULL, &self->ctx) != TRYST_OK)
        return -1;
    return tryst_device_open(self->ctx, TRYST_MEMORY_CUDA, 1, &self->device) == TRYST_OK
               ? 0
               : -1;
}

static int teardown(void **state)
{
    struct fixture *self = *state;
    tryst_device_close(self->device);
    tryst_close(self->ctx);
    fake_cuda_drain();
    return fake_cuda_check();
}

static void region_seen(void *arg, void *data, size_t bytes, bool made)
{
    struct seen *seen = arg;
    assert_non_null(data);
    seen->made += made;
    seen->dropped += !made;
    seen->bytes = bytes;
}

static tryst_pool *pool_open(struct fixture *self, tryst_pool_kind kind, uint64_t limit)
{
    tryst_pool *pool = NULL;
    tryst_pool_params params = {.struct_size = sizeof params,
                                .kind = kind,
                                .device =
                                    kind == TRYST_POOL_REGISTERED ? NULL : self->device,
                                .name = "activations",
                                .limit_bytes = limit,
                                .region_fn = region_seen,
                                .region_arg = &self->seen};
    assert_int_equal(tryst_pool_open(self->ctx, &params, &pool), TRYST_OK);
    return pool;
}

static void test_kinds(void **state)
{
    struct fixture *self = *state;
    for (int kind = TRYST_POOL_DEVICE; kind <= TRYST_POOL_REGISTERED; kind++) {
        tryst_pool *pool = pool_open(self, (tryst_pool_kind)kind, 0);
        tryst_pool_counts counts = {.struct_size = sizeof counts};
        void *data, *more;
        self->seen = (struct seen){0};
        assert_int_equal(tryst_pool_alloc(pool, 1000, &data), TRYST_OK);
        assert_int_equal(tryst_pool_alloc(pool, 3 * MIB, &more), TRYST_OK);
        assert_int_equal((uintptr_t)data % 256, 0);
        if (kind == TRYST_POOL_DEVICE)
            fake_cuda_write(data, "of a device", 12);
        else
            memset(data, 1, 1000);
        assert_int_equal(tryst_pool_count(pool, &counts), TRYST_OK);
        assert_int_equal(counts.in_use, 2);
        assert_int_equal(counts.in_use_bytes, 1024 + 3 * MIB);
        assert_int_equal(counts.reserved_bytes, 6 * MIB); /* pieces of 2 and 4 MiB */
        assert_int_equal(self->seen.made, 2);
        assert_int_equal(tryst_pool_free(pool, data), TRYST_OK);
        assert_int_equal(tryst_pool_free(pool, data), TRYST_E_INVALID);
        assert_int_equal(tryst_pool_trim(pool), 2 * MIB);
        assert_int_equal(self->seen.dropped, 1);
        /* `more` is still allocated: a mistake of the caller */
        assert_int_equal(tryst_pool_close(pool), 1);
        assert_int_equal(self->seen.dropped, 2);
    }
}

/* While a stream copies from a freed piece, the pool gives that piece to the same stream
 * only. */
static void test_streams(void **state)
{
    struct fixture *self = *state;
    tryst_pool *pool = pool_open(self, TRYST_POOL_DEVICE, 2 * MIB);
    void *streams[2], *event, *data, *other;
    for (int i = 0; i < 2; i++)
        assert_int_equal(tryst_stream_open(self->device, i, &streams[i]), TRYST_OK);
    assert_int_equal(tryst_event_open(self->device, &event), TRYST_OK);
    static char bytes[2 * MIB];
    for (int round = 0; round < 20; round++) {
        assert_int_equal(tryst_pool_alloc_on(pool, streams[0], 2 * MIB, &data), TRYST_OK);
        for (int i = 0; i < 4; i++)
            assert_int_equal(
                tryst_copy_async(self->device, streams[0], data, bytes, sizeof bytes),
                TRYST_OK);
        assert_int_equal(tryst_event_record(self->device, streams[0], event), TRYST_OK);
        assert_int_equal(tryst_pool_free_after(pool, streams[0], data), TRYST_OK);
        /* the other stream gets the piece only after the copies */
        while (tryst_pool_alloc_on(pool, streams[1], MIB, &other) != TRYST_OK)
            sched_yield();
        assert_int_equal(tryst_event_test(self->device, event), TRYST_OK);
        assert_int_equal(tryst_pool_free(pool, other), TRYST_OK);
    }
    for (int i = 0; i < 2; i++) {
        tryst_pool_stream_forget(pool, streams[i]);
        tryst_stream_close(self->device, streams[i]);
    }
    tryst_event_close(self->device, event);
    assert_int_equal(tryst_pool_close(pool), 0);
}

/* tryst_pool_test reports a piece readable on the host only after the stream's copies. */
static void test_read_now(void **state)
{
    struct fixture *self = *state;
    static char bytes[MIB];
    tryst_pool *pool = pool_open(self, TRYST_POOL_PINNED, 0);
    void *stream, *data, *device_data;
    tryst_mem *mem;
    tryst_status status;
    assert_int_equal(tryst_stream_open(self->device, 0, &stream), TRYST_OK);
    assert_int_equal(
        tryst_mem_alloc(self->ctx, MIB, TRYST_MEMORY_CUDA, 1, &device_data, &mem),
        TRYST_OK);
    assert_int_equal(tryst_pool_alloc(pool, MIB, &data), TRYST_OK);
    assert_int_equal(tryst_pool_test(pool, data), TRYST_OK);
    for (int round = 0; round < 20; round++) {
        memset(bytes, round + 1, MIB);
        assert_int_equal(tryst_copy_async(self->device, stream, device_data, bytes, MIB),
                         TRYST_OK);
        assert_int_equal(tryst_copy_async(self->device, stream, data, device_data, MIB),
                         TRYST_OK);
        assert_int_equal(tryst_pool_use(pool, stream, data), TRYST_OK);
        while ((status = tryst_pool_test(pool, data)) == TRYST_IN_PROGRESS)
            sched_yield();
        assert_int_equal(status, TRYST_OK);
        assert_memory_equal(data, bytes, MIB);
    }
    assert_int_equal(tryst_pool_use(pool, stream, bytes), TRYST_E_INVALID);
    assert_int_equal(tryst_pool_test(pool, bytes), TRYST_E_INVALID);
    /* The device fails, so the pool cannot report the state of the piece. */
    fake_cuda_fail("cuEventRecord", 1, 719);
    assert_int_equal(tryst_pool_use(pool, stream, data), TRYST_OK);
    assert_int_equal(tryst_pool_test(pool, data), TRYST_E_SYSTEM);
    fake_cuda_fail(NULL, 0, 0);
    assert_int_equal(tryst_pool_free(pool, data), TRYST_OK);
    tryst_pool_stream_forget(pool, stream);
    tryst_stream_close(self->device, stream);
    tryst_mem_release(mem);
    assert_int_equal(tryst_pool_close(pool), 0);
    /* a registered pool has no device and no streams */
    pool = pool_open(self, TRYST_POOL_REGISTERED, 0);
    assert_int_equal(tryst_pool_alloc(pool, 100, &data), TRYST_OK);
    assert_int_equal(tryst_pool_use(pool, NULL, data), TRYST_E_INVALID);
    assert_int_equal(tryst_pool_test(pool, data), TRYST_OK);
    assert_int_equal(tryst_pool_free(pool, data), TRYST_OK);
    assert_int_equal(tryst_pool_close(pool), 0);
    assert_int_equal(tryst_pool_use(NULL, NULL, NULL), TRYST_E_INVALID);
    assert_int_equal(tryst_pool_test(NULL, NULL), TRYST_E_INVALID);
}

static void test_out_of_memory(void **state)
{
    struct fixture *self = *state;
    tryst_pool *pool = pool_open(self, TRYST_POOL_DEVICE, 8 * MIB);
    void *data, *more = NULL;
    assert_int_equal(tryst_pool_alloc(pool, 3 * MIB, &data), TRYST_OK);
    assert_int_equal(tryst_pool_alloc(pool, 6 * MIB, &more), TRYST_E_NOMEM);
    assert_null(more);
    assert_string_equal(
        tryst_last_error(),
        "activations: cannot allocate 6291456 bytes of memory of cuda device 1: 3145728 "
        "are in use, of 3145728 in the pool (a limit of 8388608); at most 5242880 would "
        "fit: raise the limit, or use less at a time");
    assert_int_equal(tryst_pool_free(pool, data), TRYST_OK);
    assert_int_equal(tryst_pool_close(pool), 0);
    /* the device itself is out of memory */
    pool = pool_open(self, TRYST_POOL_DEVICE, 0);
    assert_int_equal(tryst_pool_alloc(pool, (size_t)1 << 40, &more), TRYST_E_NOMEM);
    assert_non_null(
        strstr(tryst_last_error(), "CUDA driver, mem_alloc: CUDA_ERROR_OUT_OF_MEMORY"));
    assert_int_equal(tryst_pool_close(pool), 0);
    /* the driver fails for another reason */
    pool = pool_open(self, TRYST_POOL_DEVICE, 0);
    fake_cuda_fail("cuMemAlloc", 1, 719);
    assert_int_equal(tryst_pool_alloc(pool, 100, &more), TRYST_E_SYSTEM);
    assert_non_null(strstr(tryst_last_error(), "(719)"));
    assert_non_null(strstr(tryst_device_error(self->device), "(719)"));
    fake_cuda_fail(NULL, 0, 0);
    assert_int_equal(tryst_pool_close(pool), 0);
}

static void test_refused(void **state)
{
    struct fixture *self = *state;
    tryst_pool *pool = NULL;
    tryst_pool_params params = {.struct_size = sizeof params, .kind = TRYST_POOL_DEVICE};
    assert_int_equal(tryst_pool_open(self->ctx, &params, &pool), TRYST_E_INVALID);
    assert_non_null(strstr(tryst_last_error(), "need a device"));
    params.kind = (tryst_pool_kind)0;
    assert_int_equal(tryst_pool_open(self->ctx, &params, &pool), TRYST_E_INVALID);
    assert_non_null(strstr(tryst_last_error(), "kind must be"));
    params.struct_size = 3;
    assert_int_equal(tryst_pool_open(self->ctx, &params, &pool), TRYST_E_INVALID);
    assert_int_equal(tryst_pool_open(NULL, &params, &pool), TRYST_E_INVALID);
    assert_int_equal(tryst_pool_close(NULL), 0);
    assert_null(pool);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_kinds), TEST(test_streams),
                                       TEST(test_read_now), TEST(test_out_of_memory),
                                       TEST(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
