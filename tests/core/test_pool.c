/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "core/alloc.h"
#include "core/mpsc.h"
#include "core/pool.h"
#include "core/random.h"

static struct pool *pool_of(struct pool_params params)
{
    struct pool *pool;
    params.name = "test";
    assert_int_equal(pool_open(&params, &pool), TRYST_OK);
    return pool;
}

static void what_comes_back_is_handed_out_again(void **state)
{
    struct pool *pool = pool_of((struct pool_params){.item_bytes = 24});
    void *first = pool_get(pool);
    void *second = pool_get(pool);
    assert_true(first && second && first != second);
    pool_put(pool, first);
    assert_ptr_equal(pool_get(pool), first); /* the warmest first */
    struct pool_counters counters = pool_counters(pool);
    assert_int_equal(counters.in_use, 2);
    assert_int_equal(counters.high_water, 2);
    assert_true(pool_is_valid(pool));
    pool_put(pool, first);
    pool_put(pool, second);
    pool_put(pool, NULL);
    assert_int_equal(pool_counters(pool).in_use, 0);
    assert_int_equal(pool_counters(pool).high_water, 2);
    assert_int_equal(pool_close(pool), 0);
    assert_int_equal(pool_close(NULL), 0);
}

static void a_warm_pool_allocates_nothing(void **state)
{
    struct pool *pool =
        pool_of((struct pool_params){.item_bytes = 100, .chunk_items = 3});
    void *items[100];
    assert_int_equal(pool_warm(pool, 100), TRYST_OK);
    uint64_t seen = alloc_seen_count();
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 100; i++)
            assert_non_null(items[i] = pool_get(pool));
        for (int i = 0; i < 100; i++)
            pool_put(pool, items[i]);
    }
    assert_int_equal(alloc_seen_count(), seen);
    assert_int_equal(pool_warm(pool, 50), TRYST_OK); /* there are more already */
    assert_int_equal(pool_counters(pool).items, 100);
    assert_int_equal(pool_close(pool), 0);
}

static void the_maximum_holds(void **state)
{
    struct pool *pool =
        pool_of((struct pool_params){.item_bytes = 8, .chunk_items = 4, .items_max = 10});
    void *items[10];
    assert_int_equal(pool_warm(pool, 11), TRYST_E_NOMEM);
    for (int i = 0; i < 10; i++)
        assert_non_null(items[i] = pool_get(pool));
    assert_null(pool_get(pool));
    pool_put(pool, items[3]);
    assert_ptr_equal(pool_get(pool), items[3]);
    assert_int_equal(pool_counters(pool).items, 10);
    for (int i = 0; i < 10; i++)
        pool_put(pool, items[i]);
    assert_int_equal(pool_close(pool), 0);
}

static void objects_are_aligned_and_apart(void **state)
{
    static const struct {
        size_t item_bytes, align;
    } table[] = {{1, 0}, {1, 1}, {7, 8}, {24, 16}, {65, 64}, {100, 4096}, {5000, 0}};
    for (size_t t = 0; t < COUNT_OF(table); t++) {
        size_t bytes = table[t].item_bytes, align = table[t].align ? table[t].align : 16;
        struct pool *pool = pool_of((struct pool_params){
            .item_bytes = bytes, .align = table[t].align, .chunk_items = 5});
        unsigned char *items[23];
        for (size_t i = 0; i < COUNT_OF(items); i++) {
            assert_non_null(items[i] = pool_get(pool));
            assert_int_equal((uintptr_t)items[i] % align, 0);
            memset(items[i], (int)i, bytes);
        }
        for (size_t i = 0; i < COUNT_OF(items); i++) {
            for (size_t b = 0; b < bytes; b++)
                assert_int_equal(items[i][b], i);
            pool_put(pool, items[i]);
        }
        assert_true(pool_is_valid(pool));
        assert_int_equal(pool_close(pool), 0);
    }
}

static void bad_sizes_are_refused(void **state)
{
    struct pool *pool = NULL;
    assert_int_equal(pool_open(&(struct pool_params){.item_bytes = 0}, &pool),
                     TRYST_E_INVALID);
    assert_int_equal(
        pool_open(&(struct pool_params){.item_bytes = 8, .align = 24}, &pool),
        TRYST_E_INVALID);
    assert_int_equal(pool_open(&(struct pool_params){.item_bytes = SIZE_MAX}, &pool),
                     TRYST_E_INVALID);
    assert_null(pool);
}

static void closing_early_says_so_and_keeps_the_memory(void **state)
{
    struct pool *pool = pool_of((struct pool_params){.item_bytes = 32});
    char *item = pool_get(pool);
    assert_int_equal(pool_close(pool), 1);
    memset(item, 1, 32); /* still ours */
    pool_put(pool, item);
    assert_int_equal(pool_close(pool), 0);
}

static tryst_status open_warm_get(void)
{
    struct pool *pool;
    tryst_status status = pool_open(&(struct pool_params){.item_bytes = 40}, &pool);
    if (status != TRYST_OK)
        return status;
    void *item = pool_get(pool);
    if (!item)
        status = TRYST_E_NOMEM;
    else
        status = pool_warm(pool, 10000);
    assert_true(pool_is_valid(pool));
    pool_put(pool, item);
    assert_int_equal(pool_close(pool), 0);
    return status;
}

static void no_memory_is_a_status(void **state)
{
    WALK_ALLOCATIONS(open_warm_get());
}

/* Threads take objects, mark them, and give them back through another thread's hands: an
 * object that two held at once would carry the wrong mark. */
enum { THREADS = 4, ROUNDS = 20000 };

struct owned {
    struct mpsc_node node; /* once it is in other hands */
    uint64_t owner, number;
};

struct market {
    struct pool *pool;
    struct mpsc hands; /* objects on their way to the thread that puts */
    uint64_t seed;
    _Atomic int next_owner, trading;
};

static void *trade(void *arg)
{
    struct market *market = arg;
    struct random random;
    uint64_t owner = (uint64_t)market->next_owner++;
    random_seed(&random, market->seed + owner);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        struct owned *item = pool_get(market->pool);
        if (!item) { /* at the maximum */
            sched_yield();
            continue;
        }
        *item = (struct owned){.owner = owner, .number = i};
        if (random_range(&random, 4) == 0)
            sched_yield();
        assert_true(item->owner == owner && item->number == i);
        if (random_range(&random, 2))
            pool_put(market->pool, item);
        else
            mpsc_push(&market->hands, &item->node);
    }
    market->trading--;
    return NULL;
}

static void put_what_others_got(struct market *market)
{
    for (;;) {
        bool last = market->trading == 0; /* before the look: nothing comes after it */
        struct mpsc_node *node = mpsc_drain(&market->hands);
        if (!node && last)
            return;
        if (!node)
            sched_yield();
        while (node) {
            struct mpsc_node *next = node->next;
            pool_put(market->pool, node); /* its first member */
            node = next;
        }
    }
}

static void threads_never_share_an_object(void **state)
{
    struct market market = {.trading = THREADS, .seed = unit_seed()};
    pthread_t threads[THREADS];
    market.pool = pool_of((struct pool_params){
        .item_bytes = sizeof(struct owned), .chunk_items = 7, .items_max = 50});
    mpsc_init(&market.hands);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, trade, &market), 0);
    put_what_others_got(&market);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_true(pool_is_valid(market.pool));
    assert_in_range(pool_counters(market.pool).high_water, 1, 50);
    assert_int_equal(pool_close(market.pool), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_comes_back_is_handed_out_again),
        cmocka_unit_test(a_warm_pool_allocates_nothing),
        cmocka_unit_test(the_maximum_holds),
        cmocka_unit_test(objects_are_aligned_and_apart),
        cmocka_unit_test(bad_sizes_are_refused),
        cmocka_unit_test(closing_early_says_so_and_keeps_the_memory),
        cmocka_unit_test(no_memory_is_a_status),
        cmocka_unit_test(threads_never_share_an_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
