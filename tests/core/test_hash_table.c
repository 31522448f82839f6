/* SPDX-License-Identifier: Apache-2.0 */
/* The hash table against a plain, slower array. */
#include "core/memory/alloc.h"
#include "core/memory/hash_table.h"
#include "core/memory/list.h"
#include "core/os/random.h"
#include "support/unit.h"

enum { ITEMS = 600 };

struct item {
    uint64_t id;
    struct hash_node node;
    bool there;
    unsigned met;
};

static struct item items[ITEMS];

/* Return ids as they occur: consecutive, far apart, around a wrap, and with equal low or
 * high bits. */
static uint64_t id_at(size_t shape, uint64_t i)
{
    switch (shape) {
    case 0: return i;
    case 1: return i * 0x9e3779b97f4a7c15u;
    case 2: return 0xfffffffffffffff0u + i;
    case 3: return i << 20;
    case 4: return i << 48;
    default: return i << 32 | i;
    }
}

static uint64_t one_hash(uint64_t id)
{
    (void)id;
    return 42;
}

static uint64_t few_hashes(uint64_t id)
{
    return id % 7;
}

static struct item *item_find(const struct hash_table *table, uint64_t hash, uint64_t id)
{
    hash_table_for_each (table, hash, node)
        if (container_of(node, struct item, node)->id == id)
            return container_of(node, struct item, node);
    return NULL;
}

/* Check that a walk visits each element exactly once, and no other. */
static void walk_check(const struct hash_table *table)
{
    size_t count = 0;
    for (struct hash_node *node = NULL; (node = hash_table_next(table, node)) != NULL;) {
        container_of(node, struct item, node)->met++;
        count++;
    }
    assert_int_equal(table->count, count);
    for (size_t i = 0; i < ITEMS; i++) {
        assert_int_equal(items[i].met, items[i].there);
        items[i].met = 0;
    }
}

static void random_ops_check(struct hash_table *table, uint64_t (*hash_of)(uint64_t id))
{
    struct random random;
    random_seed(&random, unit_seed());
    for (int step = 0; step < 6000; step++) {
        struct item *item =
            &items[random_range(&random, step % 3000 < 1500 ? ITEMS : 20)];
        uint64_t hash = hash_of(item->id);
        assert_ptr_equal(item_find(table, hash, item->id), item->there ? item : NULL);
        if (item->there)
            hash_table_remove(table, &item->node);
        else
            hash_table_add(table, &item->node, hash);
        item->there = !item->there;
        if (step % 500 == 0)
            walk_check(table);
    }
    walk_check(table);
}

static void test_against_array(void **state)
{
    static uint64_t (*const hashes[])(uint64_t id) = {hash_of_id, one_hash, few_hashes};
    for (size_t row = 0; row < COUNT_OF(hashes); row++)
        for (size_t shape = 0; shape < 6; shape++) {
            struct hash_table table;
            hash_table_init(&table);
            for (uint64_t i = 0; i < ITEMS; i++)
                items[i] = (struct item){.id = id_at(shape, i)};
            random_ops_check(&table, hashes[row]);
            hash_table_close(&table);
            assert_null(hash_table_next(&table, NULL));
        }
}

/* Different ids must have different hashes: the table takes equal hashes for one id. */
static void test_ids_differ(void **state)
{
    for (size_t shape = 0; shape < 6; shape++)
        for (uint64_t i = 0; i < ITEMS; i++)
            for (uint64_t j = 0; j < i; j++)
                assert_true(hash_of_id(id_at(shape, i)) != hash_of_id(id_at(shape, j)));
}

/* With memory there are as many buckets as nodes. Without memory all nodes are found in
 * the existing buckets. */
static void test_growth(void **state)
{
    uint64_t before = alloc_live_count();
    for (int starved = 0; starved < 2; starved++) {
        struct hash_table table;
        hash_table_init(&table);
        for (uint64_t i = 0; i < ITEMS; i++) {
            items[i] = (struct item){.id = i};
            if (starved)
                alloc_fail_at(1);
            hash_table_add(&table, &items[i].node, hash_of_id(i));
            alloc_fail_off();
        }
        assert_int_equal(table.mask + 1, starved ? HASH_TABLE_FIRST : 1024);
        for (uint64_t i = 0; i < ITEMS; i++)
            assert_ptr_equal(item_find(&table, hash_of_id(i), i), &items[i]);
        assert_null(hash_table_find(&table, hash_of_id(ITEMS)));
        hash_table_close(&table);
        assert_int_equal(alloc_live_count(), before);
    }
}

/* Clearing removes the nodes and keeps the buckets: adding them again needs no memory. */
static void test_clear(void **state)
{
    struct hash_table table;
    uint64_t seen = 0;
    hash_table_init(&table);
    for (int round = 0; round < 3; round++) {
        for (uint64_t i = 0; i < ITEMS; i++) {
            items[i] = (struct item){.id = i};
            assert_null(item_find(&table, hash_of_id(i), i));
            hash_table_add(&table, &items[i].node, hash_of_id(i));
        }
        seen = round ? seen : alloc_seen_count();
        hash_table_clear(&table);
        assert_int_equal(table.count, 0);
        assert_null(hash_table_next(&table, NULL));
    }
    assert_int_equal(alloc_seen_count(), seen);
    hash_table_close(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_array),
        cmocka_unit_test(test_ids_differ),
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
