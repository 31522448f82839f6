/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned slots: contents, limits, and behaviour without memory. */
#include "support/unit.h"

#include <string.h>

#include "core/memory/alloc.h"
#include "core/os/random.h"
#include "hand_device.h"
#include "transports/memory/slots.h"

enum { KIB = 1024, MIB = 1024 * KIB };

static struct slot *get(struct slots *slots, enum copy_way way, size_t bytes)
{
    return slots_get(slots, &hand_row, 0, way, bytes);
}

static void test_sizes(void **state)
{
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 65536, MIB, MIB + 1, 3 * MIB};
    struct slot *taken[COUNT_OF(sizes)];
    struct slots slots;
    slots_init(&slots, NULL, 64 * MIB);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        taken[i] = get(&slots, COPY_OUT, sizes[i]);
        assert_non_null(taken[i]);
        assert_true(taken[i]->bytes >= sizes[i]);
        assert_true(taken[i]->bytes < 2 * sizes[i] || taken[i]->bytes == 4096);
        memset(taken[i]->data, (int)i, taken[i]->bytes);
    }
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        const unsigned char *data = taken[i]->data;
        assert_int_equal(data[0], i);
        assert_int_equal(data[taken[i]->bytes - 1], i);
        assert_null(taken[i]->mem); /* not registered, for want of a cache */
    }
    unsigned calls = hand.pinned_calls;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) { /* pinned memory is kept */
        slots_put(&slots, COPY_OUT, taken[i]);
        assert_ptr_equal(get(&slots, COPY_OUT, sizes[i]), taken[i]);
    }
    assert_int_equal(hand.pinned_calls, calls);
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        slots_put(&slots, COPY_OUT, taken[i]);
    slots_end(&slots);
    hand_check();
}

/* Small slots come by 16, and no limit applies to them. */
static void test_small(void **state)
{
    enum { COUNT = 100 };
    struct slot *taken[COUNT];
    struct slots slots;
    slots_init(&slots, NULL, 4096);
    for (int i = 0; i < COUNT; i++) {
        taken[i] = get(&slots, COPY_IN, 1 + (size_t)i * 40);
        assert_non_null(taken[i]);
        for (int k = 0; k < i; k++)
            assert_true((char *)taken[k]->data + 4096 <= (char *)taken[i]->data ||
                        (char *)taken[i]->data + 4096 <= (char *)taken[k]->data);
    }
    assert_int_equal(hand.pinned_calls, (COUNT + 15) / 16);
    for (int i = 0; i < COUNT; i++)
        slots_put(&slots, COPY_IN, taken[i]);
    slots_end(&slots);
    hand_check();
}

/* While a gate is closed nothing is pinned; slots come all the same, and what is plain
 * memory goes with its last slot. */
static void test_closed_gate(void **state)
{
    static const size_t sizes[] = {100, 100, 100000, MIB};
    struct slot *taken[COUNT_OF(sizes)];
    struct closed_gates gates;
    struct slots slots;
    closed_gates_open(&gates);
    slots_init(&slots, NULL, 64 * MIB);
    slots.closed = &gates;
    unsigned calls = hand.pinned_calls;
    for (int is_coll = 0; is_coll < 2; is_coll++) {
        closed_gates_add(&gates, is_coll);
        for (size_t i = 0; i < COUNT_OF(sizes); i++) {
            taken[i] = get(&slots, COPY_OUT, sizes[i]);
            assert_non_null(taken[i]);
            memset(taken[i]->data, 1, taken[i]->bytes);
        }
        for (size_t i = 0; i < COUNT_OF(sizes); i++)
            slots_put(&slots, COPY_OUT, taken[i]);
        assert_int_equal(hand.pinned_calls, calls);
        closed_gates_remove(&gates, is_coll);
    }
    struct slot *pinned = get(&slots, COPY_OUT, MIB);
    assert_int_equal(hand.pinned_calls, calls + 1);
    assert_true(list_empty(&slots.sides[COPY_OUT].free[12]));
    slots_put(&slots, COPY_OUT, pinned);
    closed_gates_add(&gates, true); /* what is pinned serves further */
    assert_ptr_equal(get(&slots, COPY_OUT, MIB), pinned);
    slots_put(&slots, COPY_OUT, pinned);
    closed_gates_remove(&gates, true);
    slots_end(&slots);
    closed_gates_close(&gates);
    hand_check();
}

/* A small tensor takes no idle slot of a larger size. A slice may need that one. */
static void test_small_apart(void **state)
{
    enum { COUNT = 17 }; /* more than the first chunk has */
    struct slot *small[COUNT], *large[2];
    struct slots slots;
    slots_init(&slots, NULL, 64 * KIB);
    for (int i = 0; i < 2; i++)
        assert_non_null(large[i] = get(&slots, COPY_OUT, MIB));
    for (int i = 0; i < 2; i++)
        slots_put(&slots, COPY_OUT, large[i]);
    for (int i = 0; i < COUNT; i++) {
        assert_non_null(small[i] = get(&slots, COPY_OUT, SLOT_SMALL_BYTES));
        assert_int_equal(small[i]->bytes, SLOT_SMALL_BYTES);
    }
    for (int i = 0; i < 2; i++)
        assert_non_null(large[i] = get(&slots, COPY_OUT, MIB));
    for (int i = 0; i < 2; i++)
        slots_put(&slots, COPY_OUT, large[i]);
    for (int i = 0; i < COUNT; i++)
        slots_put(&slots, COPY_OUT, small[i]);
    slots_end(&slots);
    hand_check();
}

/* Slots are limited in bytes, but each size may have two beyond the limit; the directions
 * are counted separately. */
static void test_limit(void **state)
{
    struct slot *taken[16], *large[2];
    struct slots slots;
    slots_init(&slots, NULL, MIB);
    for (int i = 0; i < 16; i++)
        assert_non_null(taken[i] = get(&slots, COPY_IN, 64 * KIB));
    assert_null(get(&slots, COPY_IN, 64 * KIB));
    slots_put(&slots, COPY_IN, taken[3]);
    assert_ptr_equal(get(&slots, COPY_IN, 50 * KIB), taken[3]);
    assert_null(get(&slots, COPY_IN, 64 * KIB));
    for (int i = 0; i < 2; i++) /* slots of COPY_IN starve neither another size, */
        assert_non_null(large[i] = get(&slots, COPY_IN, 2 * MIB));
    assert_null(get(&slots, COPY_IN, 2 * MIB));
    struct slot *out = get(&slots, COPY_OUT, 64 * KIB); /* nor COPY_OUT */
    assert_non_null(out);
    slots_put(&slots, COPY_OUT, out);
    for (int i = 0; i < 16; i++)
        slots_put(&slots, COPY_IN, taken[i]);
    for (int i = 0; i < 2; i++)
        slots_put(&slots, COPY_IN, large[i]);
    slots_end(&slots);
    hand_check();
}

/* Pinned memory is kept until the end. A size that has two slots uses an idle larger slot
 * before a third is pinned; slots in use stay as they are. */
static void test_room(void **state)
{
    struct slot *small[16], *large[2];
    struct slots slots;
    slots_init(&slots, NULL, MIB);
    for (int i = 0; i < 16; i++)
        assert_non_null(small[i] = get(&slots, COPY_OUT, 64 * KIB));
    memset(small[15]->data, 0x5a, 64 * KIB);
    slots_put(&slots, COPY_OUT, small[0]);
    for (int i = 0; i < 2; i++) /* two slots of a size are always allowed */
        assert_non_null(large[i] = get(&slots, COPY_OUT, 256 * KIB));
    assert_null(get(&slots, COPY_OUT, 256 * KIB)); /* the idle slot is too small */
    assert_int_equal(hand.pinned, 18);
    slots_put(&slots, COPY_OUT, large[1]);
    assert_ptr_equal(get(&slots, COPY_OUT, 64 * KIB), small[0]);
    assert_ptr_equal(get(&slots, COPY_OUT, 64 * KIB), large[1]);
    assert_null(get(&slots, COPY_OUT, 64 * KIB));
    assert_int_equal(hand.pinned, 18);
    assert_int_equal(slots.sides[COPY_OUT].bytes, MIB + 512 * KIB);
    for (size_t i = 0; i < 64 * KIB; i += 4096)
        assert_int_equal(((unsigned char *)small[15]->data)[i], 0x5a);
    for (int i = 0; i < 16; i++)
        slots_put(&slots, COPY_OUT, small[i]);
    for (int i = 0; i < 2; i++)
        slots_put(&slots, COPY_OUT, large[i]);
    slots_end(&slots);
    hand_check();
}

/* No memory: no slot, and the attempt leaves no memory behind; the next attempt may
 * succeed. */
static void test_no_memory(void **state)
{
    struct slots slots;
    struct slot *slot;
    slots_init(&slots, NULL, 64 * MIB);
    /* the system has no piece of this size */
    assert_null(get(&slots, COPY_IN, (size_t)1 << 47));
    assert_null(get(&slots, COPY_IN, SIZE_MAX));
    hand.fail_pinned = 2;
    assert_null(get(&slots, COPY_IN, 100));
    assert_null(get(&slots, COPY_IN, 100 * KIB));
    assert_int_equal(slots.sides[COPY_IN].bytes, 0);
    assert_non_null(slot = get(&slots, COPY_IN, 100 * KIB));
    slots_put(&slots, COPY_IN, slot);
    uint64_t live = alloc_live_count();
    alloc_fail_at(1);
    assert_null(get(&slots, COPY_OUT, 100));
    assert_true(alloc_fail_off());
    assert_int_equal(alloc_live_count(), live);
    assert_int_equal(hand.pinned, 1);
    slots_end(&slots);
    hand_check();
}

/* A slot is registered where there is a cache; without memory for the registration the
 * slot works unregistered. */
static void test_registered(void **state)
{
    struct memory_cache *cache;
    struct slots slots;
    assert_int_equal(memory_cache_open(NULL, NULL, &cache), TRYST_OK);
    slots_init(&slots, cache, 64 * MIB);
    struct slot *slot = get(&slots, COPY_IN, 100 * KIB);
    assert_non_null(slot->mem);
    assert_ptr_equal(memory_find(cache, slot->data, slot->bytes), slot->mem);
    alloc_fail_at(2); /* the first allocation is the chunk's record */
    struct slot *without = get(&slots, COPY_IN, 300 * KIB);
    assert_true(alloc_fail_off());
    assert_non_null(without);
    assert_null(without->mem);
    slots_put(&slots, COPY_IN, slot);
    slots_put(&slots, COPY_IN, without);
    slots_end(&slots);
    assert_int_equal(memory_cache_close(cache), 0);
    hand_check();
}

/* ---- at random, against the invariants ---- */

enum { LIVE_MAX = 60, ROUNDS = 20000 };

struct live {
    struct slot *slot;
    size_t bytes;
    unsigned mark;
    enum copy_way way;
};

static void live_put(struct slots *slots, struct live *live)
{
    const unsigned char *data = live->slot->data;
    assert_int_equal(data[0], live->mark & 0xff); /* the slot was not shared */
    assert_int_equal(data[live->bytes - 1], live->mark & 0xff);
    slots_put(slots, live->way, live->slot);
    live->slot = NULL;
}

static void live_get(struct slots *slots, struct live *live, struct random *random,
                     unsigned mark)
{
    uint64_t bytes = UINT64_C(1) << random_range(random, 19);
    live->bytes = bytes + random_range(random, bytes);
    live->way = (enum copy_way)random_range(random, COPY_WAYS);
    live->mark = mark;
    live->slot = get(slots, live->way, live->bytes);
    if (!live->slot)
        return;
    assert_true(live->slot->bytes >= live->bytes);
    memset(live->slot->data, (int)(mark & 0xff), live->bytes);
}

/* Two slots of a size are allowed beyond the limit: of the sizes that are not small, at
 * most 2 × 512 KiB plus two of each smaller size. */
static void bounds_check(const struct slots *slots)
{
    for (int way = 0; way < COPY_WAYS; way++)
        assert_true(slots->sides[way].bytes <= slots->limit_bytes + 2 * (1 << 20));
}

static void test_random(void **state)
{
    struct live lives[LIVE_MAX] = {{0}};
    struct random random;
    struct slots slots;
    unsigned refused = 0;
    random_seed(&random, unit_seed());
    slots_init(&slots, NULL, MIB);
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct live *live = &lives[random_range(&random, LIVE_MAX)];
        hand.fail_pinned = random_range(&random, 50) == 0;
        if (live->slot) {
            live_put(&slots, live);
        } else {
            live_get(&slots, live, &random, i);
            refused += !live->slot;
        }
        bounds_check(&slots);
    }
    assert_true(refused > 0);
    for (int i = 0; i < LIVE_MAX; i++)
        if (lives[i].slot)
            live_put(&slots, &lives[i]);
    slots_end(&slots);
    hand_check();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),     cmocka_unit_test(test_closed_gate),
        cmocka_unit_test(test_small),     cmocka_unit_test(test_small_apart),
        cmocka_unit_test(test_limit),     cmocka_unit_test(test_room),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_registered),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
