/* SPDX-License-Identifier: Apache-2.0 */
/* Regions: found by address where they nest and overlap, allocated without a later
 * SIGBUS, freed completely, registered once per rail. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/memory/alloc.h"
#include "core/os/random.h"
#include "pair_pump.h"
#include "support/descriptors.h"
#include "transports/device.h"
#include "transports/memory/memory.h"
#include "transports/module.h"
#include "transports/transport.h"

static int setup(void **state)
{
    struct memory_cache *cache;
    CHECK(memory_cache_open(NULL, NULL, &cache) == TRYST_OK);
    *state = cache;
    return 0;
}

static int teardown(void **state)
{
    return memory_cache_close(*state) == 0 ? 0 : -1;
}

static struct tryst_mem *add(struct memory_cache *cache, void *data, size_t bytes)
{
    struct tryst_mem *mem;
    assert_int_equal(memory_register(cache, data, bytes, TRYST_MEMORY_HOST, 0, &mem),
                     TRYST_OK);
    return mem;
}

static void test_host_row(void **state)
{
    const struct memory_ops *host = memory_ops_get(TRYST_MEMORY_HOST);
    char to[4] = "";
    (void)state;
    assert_non_null(host);
    assert_string_equal(host->name, "host");
    assert_null(memory_ops_get((tryst_memory_kind)7));
    assert_int_equal(host->copy_async(0, NULL, to, "abc", 4), TRYST_OK);
    assert_string_equal(to, "abc");
    assert_int_equal(host->event_record(0, NULL, NULL), TRYST_OK);
    assert_int_equal(host->event_query(0, NULL), TRYST_OK);
    assert_int_equal(host->stream_wait(0, NULL, NULL), TRYST_OK);
}

/* Each function of the host's memory ops except ipc is set, and returns at once. */
static void test_host_row_devices(void **state)
{
    const struct memory_ops *host = memory_ops_get(TRYST_MEMORY_HOST), *again;
    tryst_device_info info = {.struct_size = sizeof info};
    char text[TRANSPORT_TEXT_MAX];
    int32_t count, device = 7;
    uint32_t word = 5;
    void *pinned = NULL, *stream = text, *event = text;
    (void)state;
    for (size_t at = offsetof(struct memory_ops, devices);
         at < offsetof(struct memory_ops, ipc_export); at += 8)
        assert_non_null(*(void *const *)((const char *)host + at));
    assert_int_equal(host->struct_size, sizeof *host);
    assert_false(host->on_device);
    assert_int_equal(host->devices(&count, text), TRYST_OK);
    assert_int_equal(count, 1);
    assert_int_equal(host->describe(0, &info), TRYST_OK);
    assert_true(info.bytes >= info.bytes_free && info.bytes > 0);
    assert_int_equal(host->describe(1, &info), TRYST_E_INVALID);
    assert_int_equal(host->locate(text, &device), TRYST_OK);
    assert_int_equal(device, 0);
    assert_int_equal(host->pinned_alloc(0, 5000, &pinned), TRYST_OK);
    assert_int_equal((uintptr_t)pinned % 4096, 0);
    memset(pinned, 1, 5000);
    host->pinned_free(0, pinned, 5000);
    assert_int_equal(host->pinned_alloc(0, SIZE_MAX, &pinned), TRYST_E_NOMEM);
    assert_int_equal(host->stream_open(0, true, &stream), TRYST_OK);
    assert_null(stream);
    assert_int_equal(host->event_open(0, &event), TRYST_OK);
    assert_null(event);
    host->event_close(0, event);
    host->stream_close(0, stream);
    assert_int_equal(host->stream_wait_word(0, NULL, &word, 5), TRYST_OK);
    assert_int_equal(host->stream_wait_word(0, NULL, &word, 6), TRYST_E_UNSUPPORTED);
    assert_int_equal(host->stream_wait_word(0, NULL, &word, UINT32_MAX), TRYST_OK);
    assert_int_equal(host->stream_write_word(0, NULL, &word, 7), TRYST_OK);
    assert_int_equal(word, 7);
    assert_true(!host->ipc_export && !host->ipc_import && !host->ipc_close);
    assert_int_equal(memory_ops_load(NULL, TRYST_MEMORY_HOST, &again, text), TRYST_OK);
    assert_ptr_equal(again, host);
    assert_int_equal(memory_ops_load(NULL, (tryst_memory_kind)7, &again, text),
                     TRYST_E_UNSUPPORTED);
    assert_non_null(strstr(text, "kind: 7"));
}

static void test_bad_arguments(void **state)
{
    struct tryst_mem *mem = NULL;
    char byte;
    assert_int_equal(memory_register(*state, NULL, 1, TRYST_MEMORY_HOST, 0, &mem),
                     TRYST_E_INVALID);
    assert_int_equal(memory_register(*state, &byte, 0, TRYST_MEMORY_HOST, 0, &mem),
                     TRYST_E_INVALID);
    assert_int_equal(memory_register(*state, &byte, SIZE_MAX, TRYST_MEMORY_HOST, 0, &mem),
                     TRYST_E_INVALID);
    assert_int_equal(memory_register(*state, &byte, 1, (tryst_memory_kind)9, 0, &mem),
                     TRYST_E_UNSUPPORTED);
    assert_int_equal(memory_alloc(*state, 1, (tryst_memory_kind)9, 0, &mem),
                     TRYST_E_UNSUPPORTED);
    assert_int_equal(memory_alloc(*state, 0, TRYST_MEMORY_HOST, 0, &mem),
                     TRYST_E_INVALID);
    assert_int_equal(memory_alloc(*state, SIZE_MAX, TRYST_MEMORY_HOST, 0, &mem),
                     TRYST_E_NOMEM);
    assert_null(mem);
    memory_release(NULL);
}

static void test_alloc(void **state)
{
    struct tryst_mem *mem, *next;
    assert_int_equal(memory_alloc(*state, 10000, TRYST_MEMORY_HOST, 0, &mem), TRYST_OK);
    assert_int_equal((uintptr_t)mem->data % 4096, 0);
    assert_int_equal(mem->bytes, 10000);
    assert_true(mem->fd >= 0);
    int seals = fcntl(mem->fd, F_GET_SEALS);
    assert_true(seals & F_SEAL_SHRINK);
    assert_true(seals & F_SEAL_GROW);
    memset(mem->data, 7, 10000); /* writable here, */
    const char *peer = mmap(NULL, 10000, PROT_READ, MAP_SHARED, mem->fd, 0);
    assert_true(peer != MAP_FAILED); /* readable by another process, */
    assert_int_equal(peer[9999], 7);
    munmap((void *)(uintptr_t)peer, 10000);
    if (seals & 0x10) /* F_SEAL_FUTURE_WRITE: but not writable there. */
        assert_true(mmap(NULL, 10000, PROT_WRITE, MAP_SHARED, mem->fd, 0) == MAP_FAILED);
    assert_int_equal(memory_alloc(*state, 1, TRYST_MEMORY_HOST, 0, &next), TRYST_OK);
    assert_true(next->id != mem->id);
    uint64_t last = next->id;
    memory_release(mem);
    memory_release(next);
    assert_int_equal(memory_alloc(*state, 1, TRYST_MEMORY_HOST, 0, &mem), TRYST_OK);
    assert_true(mem->id > last); /* an id is never reused */
    memory_release(mem);
}

/* In a child, because a limit cannot be raised again: plain memory without a descriptor,
 * and no signal. */
static void test_alloc_without_file(void **state)
{
    for (unsigned kind = 0; kind < 2; kind++) {
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0) {
            struct rlimit none = {kind ? 0 : 4096, kind ? 0 : 4096};
            struct tryst_mem *mem;
            CHECK(setrlimit(kind ? RLIMIT_NOFILE : RLIMIT_FSIZE, &none) == 0);
            CHECK(memory_alloc(*state, 100000, TRYST_MEMORY_HOST, 0, &mem) == TRYST_OK);
            CHECK(mem->fd == -1);
            memset(mem->data, 1, 100000);
            memory_release(mem);
            _exit(0);
        }
        assert_int_equal(child_wait(pid), 0);
    }
}

static void test_find_nested(void **state)
{
    /* so that data - 1 is inside the array */
    static char room[1001], *const data = room + 1;
    struct tryst_mem *outer = add(*state, data, 1000),
                     *inner = add(*state, data + 100, 50),
                     *twin = add(*state, data + 100, 50),
                     *tail = add(*state, data + 900, 100);
    assert_ptr_equal(memory_find(*state, data, 1000), outer);
    assert_ptr_equal(memory_find(*state, data + 120, 100), outer);
    assert_ptr_equal(memory_find(*state, data + 950, 50), tail);
    assert_ptr_equal(memory_find(*state, data + 899, 101), outer);
    assert_non_null(memory_find(*state, data + 120, 10));
    assert_null(memory_find(*state, data + 950, 51));
    assert_null(memory_find(*state, data - 1, 2));
    assert_null(memory_find(*state, data + 1, SIZE_MAX));
    memory_release(outer);
    assert_null(memory_find(*state, data, 1000));
    assert_null(memory_find(*state, data + 120, 100));
    assert_non_null(memory_find(*state, data + 100, 50));
    memory_release(inner);
    assert_ptr_equal(memory_find(*state, data + 149, 1), twin);
    memory_release(twin);
    memory_release(tail);
    assert_null(memory_find(*state, data + 149, 1));
}

/* Compare with a linear search. */
static void test_find_random(void **state)
{
    enum { REGIONS = 60 };
    static char data[4000];
    struct tryst_mem *mems[REGIONS] = {0};
    struct random random;
    const char *text = getenv("TRYST_TEST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 0) : now_ns();
    print_message("TRYST_TEST_SEED=%llu\n", (unsigned long long)seed);
    random_seed(&random, seed);
    for (unsigned round = 0; round < 20000; round++) {
        unsigned i = (unsigned)random_range(&random, REGIONS);
        size_t at = random_range(&random, 3900), bytes = 1 + random_range(&random, 100);
        bool covered = false;
        if (mems[i]) {
            memory_release(mems[i]);
            mems[i] = NULL;
        } else {
            mems[i] = add(*state, data + at, bytes);
        }
        at = random_range(&random, 3900);
        bytes = random_range(&random, 40);
        for (unsigned k = 0; k < REGIONS; k++)
            covered =
                covered || (mems[k] && (char *)mems[k]->data <= data + at &&
                            (char *)mems[k]->data + mems[k]->bytes >= data + at + bytes);
        const struct tryst_mem *found = memory_find(*state, data + at, bytes);
        assert_int_equal(found != NULL, covered);
        if (found) {
            assert_true((char *)found->data <= data + at);
            assert_true((char *)found->data + found->bytes >= data + at + bytes);
        }
    }
    for (unsigned i = 0; i < REGIONS; i++)
        memory_release(mems[i]);
}

static void test_close_releases_all(void **state)
{
    struct memory_cache *cache;
    struct tryst_mem *mem;
    static char data[10];
    int descriptors = descriptors_open();
    uint64_t alive = alloc_live_count();
    (void)state;
    assert_int_equal(memory_cache_open(NULL, NULL, &cache), TRYST_OK);
    (void)add(cache, data, 10);
    assert_int_equal(memory_alloc(cache, 5, TRYST_MEMORY_HOST, 0, &mem), TRYST_OK);
    assert_int_equal(memory_cache_close(cache), 2);
    assert_int_equal(alloc_live_count(), alive);
    assert_int_equal(descriptors_open(), descriptors);
}

static void test_allocation_failures(void **state)
{
    for (uint64_t nth = 1;; nth++) {
        uint64_t alive = alloc_live_count();
        struct memory_cache *cache;
        struct tryst_mem *mems[40];
        unsigned count = 0;
        alloc_fail_at(nth);
        if (memory_cache_open(NULL, NULL, &cache) == TRYST_OK) {
            for (unsigned i = 0; i < 40; i++)
                count += memory_alloc(cache, 100, TRYST_MEMORY_HOST, 0, &mems[count]) ==
                         TRYST_OK;
            assert_true(count >= 39);
            assert_int_equal(memory_cache_close(cache), count);
        }
        assert_int_equal(alloc_live_count(), alive);
        if (!alloc_fail_off())
            break;
    }
    (void)state;
}

/* --- registrations --- */

static unsigned registered, unregistered;

static tryst_status fake_register(struct rail *rail, struct tryst_mem *mem,
                                  void **handle_p)
{
    registered++;
    if (rail->posted_max == 0)
        return TRYST_E_NOMEM;
    *handle_p = mem;
    return TRYST_OK;
}

static void fake_unregister(struct rail *rail, void *handle)
{
    (void)rail;
    assert_non_null(handle);
    unregistered++;
}

static tryst_status rail_handle(struct tryst_mem *mem, struct rail *rail, void **handle_p)
{
    struct tryst_host host;
    module_host_init(&host, NULL, NULL);
    return host.mem_handle(mem, rail, handle_p);
}

static void test_registrations(void **state)
{
    static const struct transport_ops with = {.mem_register = fake_register,
                                              .mem_unregister = fake_unregister};
    static const struct transport_ops without = {0};
    static char data[10];
    struct rail one = {.ops = &with, .index = 0, .posted_max = 1};
    struct rail two = {.ops = &without, .index = 15};
    struct rail full = {.ops = &with, .index = 3, .posted_max = 0};
    struct rail beyond = {.ops = &with, .index = MEMORY_RAILS_MAX};
    struct tryst_mem *mem = add(*state, data, 10);
    void *handle = NULL;
    registered = unregistered = 0;
    assert_int_equal(rail_handle(mem, &one, &handle), TRYST_OK);
    assert_int_equal(rail_handle(mem, &one, &handle), TRYST_OK);
    assert_ptr_equal(handle, mem);
    assert_int_equal(registered, 1);
    assert_int_equal(rail_handle(mem, &two, &handle), TRYST_OK);
    assert_null(handle);
    assert_int_equal(rail_handle(mem, &full, &handle), TRYST_E_NOMEM);
    assert_int_equal(rail_handle(mem, &beyond, &handle), TRYST_E_UNSUPPORTED);
    memory_rail_forget(*state, &one);
    assert_int_equal(unregistered, 1);
    memory_rail_forget(*state, &one);
    assert_int_equal(unregistered, 1);
    assert_int_equal(rail_handle(mem, &one, &handle), TRYST_OK);
    memory_release(mem);
    assert_int_equal(unregistered, 2);
}

static void *churn(void *arg)
{
    char data[64];
    for (unsigned i = 0; i < 3000; i++) {
        struct tryst_mem *mem;
        CHECK(memory_register(arg, data, 64, TRYST_MEMORY_HOST, 0, &mem) == TRYST_OK);
        CHECK(memory_find(arg, data + 5, 10) == mem);
        memory_release(mem);
    }
    return NULL;
}

static void test_threads(void **state)
{
    pthread_t threads[3];
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, *state), 0);
    for (unsigned i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_host_row),
        TEST(test_host_row_devices),
        TEST(test_bad_arguments),
        TEST(test_alloc),
        TEST(test_alloc_without_file),
        TEST(test_find_nested),
        TEST(test_find_random),
        TEST(test_close_releases_all),
        TEST(test_allocation_failures),
        TEST(test_registrations),
        TEST(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
