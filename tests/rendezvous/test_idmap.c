/* SPDX-License-Identifier: Apache-2.0 */
/* The map of ids against a plain array that does the same slowly. */
#include "core/alloc.h"
#include "core/random.h"
#include "rendezvous/numbers/idmap.h"
#include "support/unit.h"

static void *value_of(uint64_t id)
{
    return (void *)(uintptr_t)(id * 16 + 1);
}

/* Ids as they are used: consecutive, far apart, around a wrap, and with equal low bits. */
static uint64_t id_at(int shape, uint64_t i)
{
    switch (shape) {
    case 0: return 1 + i;
    case 1: return 1 + i * 0x9e3779b97f4a7c15u;
    case 2: return (0xfffffffffff0u + i) % 0xffffffffffffu + 1;
    default: return (i + 1) << 20;
    }
}

enum { IDS = 600 };

static void test_against_array(void **state)
{
    struct random random;
    random_seed(&random, unit_seed());
    for (int shape = 0; shape < 4; shape++) {
        struct idmap map;
        bool there[IDS] = {false};
        size_t count = 0;
        idmap_init(&map);
        for (int step = 0; step < 30000; step++) {
            uint64_t i = random_range(&random, step % 5000 < 2500 ? IDS : 20);
            uint64_t id = id_at(shape, i);
            assert_ptr_equal(idmap_find(&map, id), there[i] ? value_of(id) : NULL);
            if (there[i])
                assert_ptr_equal(idmap_remove(&map, id), value_of(id));
            else
                assert_int_equal(idmap_insert(&map, id, value_of(id)), TRYST_OK);
            there[i] = !there[i];
            count = there[i] ? count + 1 : count - 1;
            assert_int_equal(map.count, count);
            assert_true(2 * map.count <= map.mask + 1);
        }
        for (uint64_t i = 0; i < IDS; i++)
            assert_ptr_equal(idmap_find(&map, id_at(shape, i)),
                             there[i] ? value_of(id_at(shape, i)) : NULL);
        idmap_free(&map);
    }
}

static void test_empty(void **state)
{
    struct idmap map;
    idmap_init(&map);
    assert_null(idmap_find(&map, 1));
    assert_null(idmap_remove(&map, 1));
    assert_int_equal(idmap_insert(&map, 5, value_of(5)), TRYST_OK);
    assert_null(idmap_find(&map, 0));
    assert_null(idmap_remove(&map, 0));
    assert_null(idmap_remove(&map, 6));
    idmap_free(&map);
    assert_null(idmap_find(&map, 5));
}

/* Growing fails: nothing has changed, and the next try may succeed. */
static void test_no_memory(void **state)
{
    struct idmap map;
    idmap_init(&map);
    uint64_t id = 1;
    for (int failures = 0; failures < 4;) {
        size_t count = map.count;
        alloc_fail_at(1);
        tryst_status status = idmap_insert(&map, id, value_of(id));
        if (alloc_fail_off()) {
            assert_int_equal(status, TRYST_E_NOMEM);
            assert_int_equal(map.count, count);
            assert_null(idmap_find(&map, id));
            failures++;
            assert_int_equal(idmap_insert(&map, id, value_of(id)), TRYST_OK);
        }
        assert_ptr_equal(idmap_find(&map, id), value_of(id));
        id++;
    }
    for (uint64_t i = 1; i < id; i++)
        assert_ptr_equal(idmap_find(&map, i), value_of(i));
    idmap_free(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_array),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
