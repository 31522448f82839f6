/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of shadows, with a hand device's pinning and the test's clock: plain memory
 * first and pinned memory later, the limit, failures at each point, no call of the driver
 * and no wait in shadow_get, and a random run in which no two shadows share a byte. */
#include "support/unit.h"

#include <string.h>

#include "../transports/memory/hand_device.h"
#include "core/log/log.h"
#include "core/memory/alloc.h"
#include "core/os/clock.h"
#include "core/os/random.h"
#include "rendezvous/copier/shadows.h"

#define MIB (UINT64_C(1) << 20)

static struct memory_cache *cache;
static struct shadows *shadows;
static uint64_t now_ns;
static int warnings;

static void on_line(void *arg, tryst_log_level level, const char *line)
{
    warnings += level <= TRYST_LOG_WARN && strstr(line, "cannot pin") != NULL;
}

static struct log log_lines = LOG_INIT;

static void pool_open(uint64_t limit_bytes)
{
    assert_int_equal(shadows_open(cache, &log_lines, limit_bytes, &shadows), TRYST_OK);
}

static void pool_close(void)
{
    shadows_unpin(shadows);
    assert_int_equal(hand.pinned, 0);
    shadows_close(shadows);
    shadows = NULL;
}

static int setup(void **state)
{
    assert_int_equal(memory_cache_open(NULL, NULL, &cache), TRYST_OK);
    log_lines.sink = on_line;
    now_ns = NS_PER_S;
    warnings = 0;
    return 0;
}

static int teardown(void **state)
{
    assert_int_equal(memory_cache_close(cache), 0);
    hand_check();
    return 0;
}

static struct shadow get(uint64_t bytes)
{
    struct shadow shadow;
    unsigned calls = hand.pinned_calls;
    assert_int_equal(shadow_get(shadows, &hand_row, 0, bytes, &shadow), TRYST_OK);
    assert_int_equal(hand.pinned_calls, calls);
    assert_int_equal(shadow.bytes, bytes);
    assert_int_equal((uintptr_t)shadow.data % 256, 0);
    if (bytes)
        memset(shadow.data, 1, bytes);
    return shadow;
}

static void put(struct shadow shadow)
{
    unsigned calls = hand.pinned_calls;
    shadow_put(shadows, &shadow);
    assert_null(shadow.data);
    assert_int_equal(hand.pinned_calls, calls);
}

static void get_is(uint64_t bytes, bool pinned)
{
    struct shadow shadow = get(bytes);
    assert_int_equal(shadow.mem != NULL, pinned);
    if (pinned) {
        assert_true(
            memory_covers(cache, shadow.mem, TRYST_MEMORY_HOST, 0, shadow.data, bytes));
        assert_true(shadow.mem->fd >= 0); /* peers can map it */
    }
    put(shadow);
}

/* The first shadow is plain; then the copier's thread pins, and later ones are pinned. */
static void test_plain_then_pinned(void **state)
{
    pool_open(1024 * MIB);
    shadows_pin(shadows, true, now_ns);
    assert_int_equal(hand.pinned_calls, 0);
    get_is(0, false);
    shadows_pin(shadows, true, now_ns);
    assert_int_equal(hand.pinned_calls, 0);
    get_is(5 * MIB, false);
    shadows_pin(shadows, true, now_ns);
    assert_int_equal(hand.pinned_bytes, 16 * MIB);
    get_is(5 * MIB, true);
    get_is(16 * MIB, true);
    get_is(16 * MIB + 1, false);
    shadows_pin(shadows, true, now_ns);
    assert_int_equal(hand.pinned_bytes, 48 * MIB);
    get_is(16 * MIB + 1, true);
    shadows_pin(shadows, true, now_ns);
    assert_int_equal(hand.pinned_calls, 2);
    pool_close();
}

/* As much as is out stays free, without a shadow that missed it. */
static void test_reserve(void **state)
{
    pool_open(1024 * MIB);
    shadows_reserve(shadows, &hand_row, 0);
    shadows_pin(shadows, true, now_ns);
    assert_int_equal(hand.pinned_bytes, 16 * MIB);
    struct shadow out = get(10 * MIB);
    for (int i = 0; i < 2; i++) {
        shadows_reserve(shadows, &hand_row, 0);
        shadows_pin(shadows, true, now_ns);
        assert_int_equal(hand.pinned_bytes, 32 * MIB);
    }
    get_is(10 * MIB, true);
    put(out);
    pool_close();
}

/* All that is out at a time fits the next time. */
static void test_many_at_a_time(void **state)
{
    enum { JOBS = 20 };
    struct shadow out[JOBS];
    pool_open(1024 * MIB);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < JOBS; i++) {
            out[i] = get(3 * MIB);
            assert_int_equal(out[i].mem != NULL, round);
        }
        shadows_pin(shadows, true, now_ns);
        assert_int_equal(hand.pinned_bytes, 64 * MIB);
        assert_int_equal(hand.pinned_calls, 1);
        for (int i = JOBS - 1; i >= 0; i--)
            put(out[i]);
    }
    pool_close();
}

/* 40 sizes, twice, in other orders: the second time nothing is pinned or freed. */
static void test_second_round(void **state)
{
    pool_open(1024 * MIB);
    for (unsigned i = 1; i <= 40; i++) {
        put(get(i * i * 40000));
        shadows_pin(shadows, true, now_ns);
    }
    unsigned calls = hand.pinned_calls;
    assert_true(hand.pinned_bytes <= 2 * 64 * MIB);
    for (unsigned i = 40; i >= 1; i--) {
        get_is(i * i * 40000, true);
        shadows_pin(shadows, true, now_ns);
    }
    assert_int_equal(hand.pinned_calls, calls);
    pool_close();
}

/* Copies in flight go before pinning, for 20 ms. */
static void test_busy(void **state)
{
    pool_open(1024 * MIB);
    put(get(MIB));
    shadows_pin(shadows, false, now_ns);
    shadows_pin(shadows, false, now_ns + 20 * NS_PER_MS - 1);
    assert_int_equal(hand.pinned_calls, 0);
    shadows_pin(shadows, false, now_ns + 20 * NS_PER_MS);
    assert_int_equal(hand.pinned_calls, 1);
    pool_close();
}

static uint64_t missed_bytes; /* of a second shadow, during a pin */

static tryst_status pin_slowly(int32_t device, void *data, size_t bytes)
{
    struct shadow first = get(10 * MIB), second = get(missed_bytes);
    assert_true(!first.mem && !second.mem);
    put(first);
    put(second);
    return hand_row.pin(device, data, bytes);
}

/* Shadows that are missed during a pin count only as far as its arena has no room. */
static void test_miss_during_pin(void **state)
{
    struct memory_ops slow = hand_row;
    struct shadow shadow;
    slow.pin = pin_slowly;
    for (uint64_t i = 0; i < 2; i++) {
        missed_bytes = (6 + i) * MIB; /* fits beside the first, or just does not */
        pool_open(1024 * MIB);
        assert_int_equal(shadow_get(shadows, &slow, 0, 10 * MIB, &shadow), TRYST_OK);
        put(shadow);
        for (int j = 0; j < 3; j++)
            shadows_pin(shadows, true, now_ns);
        assert_int_equal(hand.pinned_bytes, (1 + i) * 16 * MIB);
        pool_close();
    }
}

/* The limit holds; a shadow beyond it stays plain, and a larger shadow may replace
 * free arenas once. */
static void test_limit(void **state)
{
    pool_open(40 * MIB + 100);
    for (int i = 0; i < 3; i++) {
        struct shadow out[3] = {get(10 * MIB), get(10 * MIB), get(50 * MIB)};
        shadows_pin(shadows, true, now_ns);
        assert_true(hand.pinned_bytes <= 40 * MIB);
        assert_null(out[2].mem);
        for (int j = 0; j < 3; j++)
            put(out[j]);
    }
    assert_int_equal(hand.pinned_bytes, 32 * MIB); /* not for the 50 MiB */
    pool_close();
    pool_open(40 * MIB);
    put(get(10 * MIB));
    shadows_pin(shadows, true, now_ns);
    assert_int_equal(hand.pinned_bytes, 16 * MIB);
    struct shadow held = get(MIB);
    for (int i = 0; i < 3; i++) { /* an arena in use is not replaced */
        put(get(30 * MIB));
        shadows_pin(shadows, true, now_ns);
        assert_int_equal(hand.pinned_bytes, 16 * MIB);
    }
    put(held);
    put(get(30 * MIB));
    shadows_pin(shadows, true, now_ns);
    assert_int_equal(hand.pinned_bytes, 32 * MIB);
    unsigned calls = hand.pinned_calls;
    for (int i = 0; i < 3; i++) { /* a smaller shadow replaces nothing */
        struct shadow a = get(20 * MIB), b = get(20 * MIB);
        assert_true(a.mem && !b.mem);
        put(a);
        put(b);
        shadows_pin(shadows, true, now_ns);
    }
    assert_int_equal(hand.pinned_calls, calls);
    pool_close();
    pool_open(0);
    get_is(10, false);
    shadows_pin(shadows, true, now_ns);
    assert_int_equal(hand.pinned_calls, calls);
    pool_close();
}

/* A pool that holds one of two shadows: operations in crossing orders get theirs at once,
 * without waiting. */
static void test_crossing(void **state)
{
    pool_open(16 * MIB);
    put(get(10 * MIB));
    shadows_pin(shadows, true, now_ns);
    struct shadow a = get(10 * MIB), b = get(10 * MIB);
    assert_true(a.mem && !b.mem);
    put(b);
    b = get(10 * MIB);
    put(a);
    put(b);
    pool_close();
}

/* Plain memory is pinned alone, within the limit, and freed at the close. */
static void test_pin_one(void **state)
{
    struct shadow first, second, third;
    pool_open(4 * MIB);
    first = get(3 * MIB - 5);
    second = get(MIB);
    third = get(100);
    assert_false(shadow_is_pinned(&first));
    assert_int_equal(shadow_pin(shadows, &hand_row, 0, &first), TRYST_OK);
    assert_true(shadow_is_pinned(&first) && !first.mem);
    assert_int_equal(hand.pinned_bytes, 3 * MIB);
    hand.fail_pinned = 1;
    assert_int_equal(shadow_pin(shadows, &hand_row, 0, &second), TRYST_E_NOMEM);
    assert_int_equal(shadow_pin(shadows, &hand_row, 0, &second), TRYST_OK);
    assert_int_equal(shadow_pin(shadows, &hand_row, 0, &third), TRYST_E_NOMEM);
    assert_false(shadow_is_pinned(&third));
    put(third);
    put(first);
    assert_int_equal(hand.pinned, 2); /* until the close */
    put(second);
    pool_close();
}

/* A pin that fails leaves plain memory, one warning, and another attempt later. */
static void test_pin_fails(void **state)
{
    pool_open(1024 * MIB);
    hand.fail_pinned = 2;
    for (int i = 0; i < 2; i++) {
        put(get(MIB));
        shadows_pin(shadows, true, now_ns);
        assert_int_equal(hand.pinned_calls, i + 1);
        get_is(MIB, false);
        shadows_pin(shadows, true, now_ns + 10 * NS_PER_S - 1);
        assert_int_equal(hand.pinned_calls, i + 1);
        now_ns += 10 * NS_PER_S;
    }
    assert_int_equal(warnings, 1);
    shadows_pin(shadows, true, now_ns);
    get_is(MIB, true);
    pool_close();
}

static tryst_status open_and_close(void)
{
    tryst_status status = shadows_open(cache, NULL, MIB, &shadows);
    if (status == TRYST_OK)
        shadows_close(shadows);
    return status;
}

/* Each allocation fails once, in shadow_get and in shadows_pin: plain memory serves. */
static void test_no_memory(void **state)
{
    struct memory_cache *whole = cache;
    bool came_to_pass = true;
    WALK_ALLOCATIONS(open_and_close());
    for (uint64_t nth = 1; came_to_pass; nth++) {
        uint64_t live = alloc_live_count();
        struct shadow shadow;
        assert_int_equal(memory_cache_open(NULL, NULL, &cache), TRYST_OK);
        pool_open(1024 * MIB);
        put(get(MIB));
        alloc_fail_at(nth);
        shadows_pin(shadows, true, now_ns);
        tryst_status status = shadow_get(shadows, &hand_row, 0, MIB, &shadow);
        came_to_pass = alloc_fail_off();
        if (status == TRYST_OK)
            put(shadow);
        else
            assert_int_equal(status, TRYST_E_NOMEM);
        pool_close();
        assert_int_equal(memory_cache_close(cache), 0);
        assert_int_equal(alloc_live_count(), live);
    }
    cache = whole;
    pool_open(MIB);
    struct shadow shadow;
    assert_int_equal(shadow_get(shadows, &hand_row, 0, UINT64_MAX, &shadow),
                     TRYST_E_NOMEM);
    pool_close();
}

/* Random gets, puts and pins: every shadow keeps its own bytes. */
static void test_random(void **state)
{
    enum { OUT_MAX = 24 };
    struct shadow out[OUT_MAX] = {{0}};
    struct random random;
    uint64_t pinned = 0;
    random_seed(&random, unit_seed());
    pool_open(24 * MIB);
    for (uint64_t step = 0; step < unit_cases(4000); step++) {
        uint64_t i = random_range(&random, OUT_MAX);
        if (out[i].data) {
            const unsigned char *bytes = out[i].data;
            for (uint64_t j = 0; j < out[i].bytes; j += 997)
                assert_int_equal(bytes[j], i + 1);
            assert_int_equal(bytes[out[i].bytes - 1], i + 1);
            put(out[i]);
            out[i].data = NULL;
        } else {
            out[i] = get(1 + random_range(&random, MIB << random_range(&random, 3)));
            memset(out[i].data, (int)i + 1, out[i].bytes);
            pinned += out[i].mem != NULL;
        }
        if (random_range(&random, 8) == 0)
            shadows_pin(shadows, random_range(&random, 2) == 0, now_ns);
        now_ns += NS_PER_MS;
        assert_true(hand.pinned_bytes <= 24 * MIB);
    }
    assert_true(pinned > 0);
    for (int i = 0; i < OUT_MAX; i++)
        if (out[i].data)
            put(out[i]);
    pool_close();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_plain_then_pinned),
                                       TEST(test_reserve),
                                       TEST(test_many_at_a_time),
                                       TEST(test_second_round),
                                       TEST(test_busy),
                                       TEST(test_miss_during_pin),
                                       TEST(test_limit),
                                       TEST(test_crossing),
                                       TEST(test_pin_one),
                                       TEST(test_pin_fails),
                                       TEST(test_no_memory),
                                       TEST(test_random)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
