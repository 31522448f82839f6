/* SPDX-License-Identifier: Apache-2.0 */
/* Every function of the cuda memory ops, over the fake driver: its effect, and that the
 * caller's context stays current. Runs again over a driver without cuGetProcAddress, and
 * over one without cuStreamWaitValue32. */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "row.h"

static const struct memory_ops *row;

/* The caller has a current context throughout. */
static int setup(void **state)
{
    *state = fake_cuda_context(1);
    row = row_get();
    return cuCtxSetCurrent(*state) == CUDA_SUCCESS ? 0 : -1;
}

static int teardown(void **state)
{
    CUcontext now;
    CHECK(cuCtxGetCurrent(&now) == CUDA_SUCCESS && now == *state);
    CHECK(cuCtxSetCurrent(NULL) == CUDA_SUCCESS);
    fake_cuda_drain();
    return fake_cuda_check();
}

/* Before any use of a device: describing memory creates no context. */
static void test_describe_first(void **state)
{
    tryst_device_info info = {.struct_size = sizeof info};
    assert_int_equal(row->describe(1, &info), TRYST_OK);
    assert_string_equal(info.bus_id, "0000:1c:00.0");
    assert_int_equal(info.bytes, UINT64_C(1) << 30);
    assert_int_equal(info.bytes_free, 0);
    assert_int_equal(fake_cuda_calls("cuDevicePrimaryCtxRetain"), 0);
}

static void test_devices(void **state)
{
    tryst_device_info info = {.struct_size = sizeof info};
    char text[TRANSPORT_TEXT_MAX];
    int32_t count = 0;
    for (size_t at = offsetof(struct memory_ops, devices); at < sizeof *row; at += 8)
        assert_non_null(*(void *const *)((const char *)row + at));
    assert_true(row->on_device);
    assert_int_equal(row->devices(&count, text), TRYST_OK);
    assert_int_equal(count, 2);
    assert_string_equal(text, "2: Fake GPU A, Fake GPU B; driver for CUDA 13.0");
    assert_int_equal(row->describe(1, &info), TRYST_OK);
    assert_string_equal(info.name, "Fake GPU B");
    assert_string_equal(info.bus_id, "0000:1c:00.0");
    assert_int_equal(info.bytes, UINT64_C(1) << 30);
    assert_int_equal(info.bytes_free, info.bytes);
    assert_int_equal(info.version_major, 9);
    assert_int_equal(row->describe(2, &info), TRYST_E_INVALID);
    assert_non_null(strstr(row->error_text(), "no CUDA device 2: there are 2"));
    assert_int_equal(row->describe(-1, &info), TRYST_E_INVALID);
    assert_int_equal(row->describe(64, &info), TRYST_E_INVALID);
}

static void test_memory(void **state)
{
    void *data = NULL, *pinned = NULL, *other = NULL;
    int32_t device = -5;
    int fd = 7;
    tryst_device_info info = {.struct_size = sizeof info};
    assert_int_equal(row->alloc(1, 10000, &data, &fd), TRYST_OK);
    assert_int_equal(fd, -1);
    assert_int_equal(row->describe(1, &info), TRYST_OK);
    assert_true(info.bytes_free > 0 && info.bytes_free < info.bytes);
    assert_int_equal((uintptr_t)data % 256, 0);
    assert_int_equal(row->locate((char *)data + 9999, &device), TRYST_OK);
    assert_int_equal(device, 1);
    assert_int_equal(row->locate(&fd, &device), TRYST_E_INVALID);
    assert_int_equal(row->pinned_alloc(0, 100, &pinned), TRYST_OK);
    memset(pinned, 1, 100);
    assert_int_equal(row->locate(pinned, &device), TRYST_E_INVALID);
    assert_int_equal(row->alloc(0, SIZE_MAX / 2, &other, &fd), TRYST_E_NOMEM);
    assert_non_null(strstr(row->error_text(), "OUT_OF_MEMORY"));
    assert_null(other);
    row->pinned_free(0, pinned, 100);
    row->free(1, data, 10000, -1);
    assert_int_equal(row->locate(data, &device), TRYST_E_INVALID);
}

/* Memory of the program is pinned and unpinned, and a copy takes it. */
static void test_pin(void **state)
{
    enum { BYTES = 8192 };
    char *data = aligned_alloc(4096, BYTES);
    void *on_device, *stream;
    int32_t device;
    int fd;
    struct fake_cuda_counts counts;
    assert_non_null(data);
    memset(data, 3, BYTES);
    assert_int_equal(row->pin(0, data, BYTES), TRYST_OK);
    assert_int_equal(row->pin(1, data + 4096, 4096), TRYST_E_SYSTEM);
    assert_non_null(strstr(row->error_text(), "(712)"));
    fake_cuda_counts(&counts);
    assert_int_equal(counts.pinned, 1);
    assert_int_equal(row->locate(data, &device), TRYST_E_INVALID);
    assert_int_equal(row->alloc(0, BYTES, &on_device, &fd), TRYST_OK);
    assert_int_equal(row->stream_open(0, true, &stream), TRYST_OK);
    assert_int_equal(row->copy_async(0, stream, on_device, data, BYTES), TRYST_OK);
    fake_cuda_drain();
    memset(data, 0, BYTES);
    fake_cuda_read(on_device, data, BYTES);
    assert_int_equal(data[BYTES - 1], 3);
    row->stream_close(0, stream);
    row->free(0, on_device, BYTES, -1);
    row->unpin(0, data, BYTES);
    fake_cuda_counts(&counts);
    assert_int_equal(counts.pinned, 0);
    free(data);
}

static void test_priorities(void **state)
{
    void *plain, *urgent;
    assert_int_equal(row->stream_open(0, false, &plain), TRYST_OK);
    assert_int_equal(row->stream_open(0, true, &urgent), TRYST_OK);
    assert_true(fake_cuda_stream_priority(urgent) < fake_cuda_stream_priority(plain));
    row->stream_close(0, plain);
    row->stream_close(0, urgent);
}

/* Copy from host to device 0, to device 1, to the host, in three streams that wait for
 * each other. */
static void test_copies(void **state)
{
    enum { BYTES = 100000 };
    static unsigned char from[BYTES], to[BYTES];
    void *streams[3], *events[3], *a, *b;
    const int32_t devices[3] = {0, 0, 1};
    int fd;
    for (unsigned i = 0; i < BYTES; i++)
        from[i] = (unsigned char)(i * 7);
    assert_int_equal(row->alloc(0, BYTES, &a, &fd), TRYST_OK);
    assert_int_equal(row->alloc(1, BYTES, &b, &fd), TRYST_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(row->stream_open(devices[i], false, &streams[i]), TRYST_OK);
        assert_int_equal(row->event_open(devices[i], &events[i]), TRYST_OK);
        assert_int_equal(row->event_query(devices[i], events[i]), TRYST_OK);
    }
    void *const targets[3] = {a, b, to}, *const sources[3] = {from, a, b};
    for (int i = 0; i < 3; i++) {
        if (i > 0)
            assert_int_equal(row->stream_wait(devices[i], streams[i], events[i - 1]),
                             TRYST_OK);
        assert_int_equal(
            row->copy_async(devices[i], streams[i], targets[i], sources[i], BYTES),
            TRYST_OK);
        assert_int_equal(row->event_record(devices[i], streams[i], events[i]), TRYST_OK);
    }
    assert_int_equal(row_wait(row, 1, events[2]), TRYST_OK);
    assert_memory_equal(from, to, BYTES);
    assert_int_equal(fake_cuda_calls("cuCtxEnablePeerAccess"), 1);
    for (int i = 0; i < 3; i++) {
        row->event_close(devices[i], events[i]);
        row->stream_close(devices[i], streams[i]);
    }
    row->free(0, a, BYTES, -1);
    row->free(1, b, BYTES, -1);
}

/* The stream continues when the word has the value, not before; so does the default
 * stream of the caller's context. */
static void wait_word(void *stream)
{
    uint32_t *word;
    void *event;
    assert_int_equal(row->pinned_alloc(0, 8, (void **)&word), TRYST_OK);
    assert_int_equal(row->event_open(0, &event), TRYST_OK);
    *word = UINT32_MAX; /* two before 1 */
    assert_int_equal(row->stream_wait_word(0, stream, word, 1), TRYST_OK);
    assert_int_equal(row->event_record(0, stream, event), TRYST_OK);
    for (uint32_t value = 0; value < 2; value++) {
        for (int i = 0; i < 1000; i++)
            assert_int_equal(row->event_query(0, event), TRYST_IN_PROGRESS);
        __atomic_store_n(word, value, __ATOMIC_RELEASE);
    }
    assert_int_equal(row_wait(row, 0, event), TRYST_OK);
    /* already passed */
    assert_int_equal(row->stream_wait_word(0, stream, word, 0), TRYST_OK);
    assert_int_equal(row->event_record(0, stream, event), TRYST_OK);
    assert_int_equal(row_wait(row, 0, event), TRYST_OK);
    row->event_close(0, event);
    row->pinned_free(0, word, 8);
}

/* The word is written behind the copies before it, and not earlier. */
static void write_word(void *stream)
{
    enum { BYTES = 1 << 20 };
    uint32_t *word;
    char *from, *to;
    assert_int_equal(row->pinned_alloc(0, 8, (void **)&word), TRYST_OK);
    assert_int_equal(row->pinned_alloc(0, BYTES, (void **)&from), TRYST_OK);
    assert_int_equal(row->pinned_alloc(0, BYTES, (void **)&to), TRYST_OK);
    memset(to, 0, BYTES);
    for (uint32_t value = 1; value < 5; value++) {
        memset(from, (int)value, BYTES);
        word[0] = word[1] = 0;
        assert_int_equal(row->stream_wait_word(0, stream, &word[1], value), TRYST_OK);
        assert_int_equal(row->copy_async(0, stream, to, from, BYTES), TRYST_OK);
        assert_int_equal(row->stream_write_word(0, stream, word, value), TRYST_OK);
        usleep(1000);
        assert_int_equal(__atomic_load_n(word, __ATOMIC_ACQUIRE), 0);
        __atomic_store_n(&word[1], value, __ATOMIC_RELEASE);
        while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value)
            usleep(10);
        assert_memory_equal(from, to, BYTES);
    }
    row->pinned_free(0, to, BYTES);
    row->pinned_free(0, from, BYTES);
    row->pinned_free(0, word, 8);
}

static void test_write_word(void **state)
{
    void *stream;
    assert_int_equal(row->stream_open(0, false, &stream), TRYST_OK);
    write_word(stream);
    write_word(NULL);
    fake_cuda_fail("cuStreamWriteValue32", 0, CUDA_ERROR_NOT_SUPPORTED);
    write_word(stream);
    fake_cuda_fail(NULL, 0, 0);
    row->stream_close(0, stream);
}

/* A stream that is being captured is refused, and nothing is queued in it. */
static void test_capture(void **state)
{
    void *stream;
    uint32_t *word;
    assert_int_equal(row->stream_open(0, false, &stream), TRYST_OK);
    assert_int_equal(row->pinned_alloc(0, 8, (void **)&word), TRYST_OK);
    *word = 0;
    fake_cuda_capture(stream, true);
    assert_int_equal(row->stream_wait_word(0, stream, word, 1), TRYST_E_UNSUPPORTED);
    assert_non_null(strstr(row->error_text(), "captured"));
    assert_int_equal(row->stream_write_word(0, stream, word, 1), TRYST_E_UNSUPPORTED);
    fake_cuda_drain();
    assert_int_equal(*word, 0);
    fake_cuda_capture(stream, false);
    assert_int_equal(row->stream_write_word(0, stream, word, 1), TRYST_OK);
    fake_cuda_drain();
    assert_int_equal(*word, 1);
    row->pinned_free(0, word, 8);
    row->stream_close(0, stream);
}

static void test_wait_word(void **state)
{
    const char *lacks = getenv("FAKE_CUDA_LACKS");
    bool by_kernel = lacks && strstr(lacks, "cuStreamWaitValue32");
    void *stream;
    assert_int_equal(row->stream_open(0, false, &stream), TRYST_OK);
    wait_word(stream);
    wait_word(NULL);
    row->stream_close(0, stream);
    assert_int_equal(fake_cuda_calls("cuLaunchKernel") > 0, by_kernel);
    if (by_kernel)
        return;
    /* The driver has the function, and the device does not support it. */
    fake_cuda_fail("cuStreamWaitValue32", 0, CUDA_ERROR_NOT_SUPPORTED);
    wait_word(NULL);
    assert_int_equal(fake_cuda_calls("cuLaunchKernel"), 2);
    assert_int_equal(fake_cuda_calls("cuModuleLoadData"), 1); /* the module is kept */
    fake_cuda_fail(NULL, 0, 0);
}

/* Several threads are the first to use a device and its kernel; each gets an error text
 * of its failure. */
static void *first_use(void *arg)
{
    int32_t device = (int32_t)(uintptr_t)arg % 2;
    tryst_device_info info = {.struct_size = sizeof info};
    char wanted[40];
    void *data, *stream;
    int fd;
    for (int i = 0; i < 50; i++) {
        CHECK(row->alloc(device, 100, &data, &fd) == TRYST_OK);
        CHECK(row->stream_open(device, false, &stream) == TRYST_OK);
        CHECK(row->describe(10 + (int)(uintptr_t)arg, &info) == TRYST_E_INVALID);
        snprintf(wanted, sizeof wanted, "device %d:", 10 + (int)(uintptr_t)arg);
        CHECK(strstr(row->error_text(), wanted));
        row->stream_close(device, stream);
        row->free(device, data, 100, -1);
    }
    return NULL;
}

static void test_threads(void **state)
{
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, first_use, (void *)i), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_describe_first), TEST(test_threads),   TEST(test_devices),
        TEST(test_memory),         TEST(test_pin),       TEST(test_priorities),
        TEST(test_copies),         TEST(test_wait_word), TEST(test_write_word),
        TEST(test_capture)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
