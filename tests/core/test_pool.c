/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/memory/mpsc.h"
#include "core/memory/pool.h"
#include "core/os/random.h"

static struct pool *pool_of(size_t item_bytes, size_t align)
{
    struct pool *pool;
    assert_int_equal(pool_open(item_bytes, align, &pool), TRYST_OK);
    return pool;
}

static void what_comes_back_is_handed_out_again(void **state)
{
    struct pool *pool = pool_of(24, 8);
    void *first = pool_get(pool);
    void *second = pool_get(pool);
    assert_true(first && second && first != second);
    pool_put(pool, first);
    assert_ptr_equal(pool_get(pool), first); /* the most recently freed object first */
    assert_int_equal(pool_in_use(pool), 2);
    assert_true(pool_is_valid(pool));
    pool_put(pool, first);
    pool_put(pool, second);
    pool_put(pool, NULL);
    assert_int_equal(pool_in_use(pool), 0);
    assert_int_equal(pool_close(pool), 0);
    assert_int_equal(pool_close(NULL), 0);
}

static void a_warm_pool_allocates_nothing(void **state)
{
    enum { COUNT = 1000 }; /* several chunks of objects */
    struct pool *pool = pool_of(100, 16);
    void *items[COUNT];
    uint64_t seen = alloc_seen_count(), warm = 0;
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < COUNT; i++)
            assert_non_null(items[i] = pool_get(pool));
        for (int i = 0; i < COUNT; i++)
            pool_put(pool, items[i]);
        warm = round == 0 ? alloc_seen_count() : warm;
    }
    assert_in_range(warm - seen, 2, COUNT / 10);
    assert_int_equal(alloc_seen_count(), warm);
    assert_int_equal(pool_close(pool), 0);
}

static void objects_are_aligned_and_apart(void **state)
{
    static const struct {
        size_t item_bytes, align;
    } table[] = {{1, 1}, {1, 16}, {7, 8}, {24, 16}, {65, 64}, {100, 4096}, {5000, 16}};
    for (size_t t = 0; t < COUNT_OF(table); t++) {
        size_t bytes = table[t].item_bytes, align = table[t].align;
        struct pool *pool = pool_of(bytes, align);
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
    static const struct {
        size_t item_bytes, align;
    } table[] = {{0, 8}, {8, 0}, {8, 24}, {SIZE_MAX, 8}};
    struct pool *pool = NULL;
    for (size_t t = 0; t < COUNT_OF(table); t++)
        assert_int_equal(pool_open(table[t].item_bytes, table[t].align, &pool),
                         TRYST_E_INVALID);
    assert_null(pool);
}

static void closing_early_says_so_and_keeps_the_memory(void **state)
{
    struct pool *pool = pool_of(32, 16);
    char *item = pool_get(pool);
    assert_int_equal(pool_close(pool), 1);
    memset(item, 1, 32); /* the object is still allocated */
    pool_put(pool, item);
    assert_int_equal(pool_close(pool), 0);
}

static tryst_status open_get(void)
{
    enum { COUNT = 20 }; /* each object in a separate chunk */
    struct pool *pool;
    void *items[COUNT] = {NULL};
    tryst_status status = pool_open(20000, 16, &pool);
    if (status != TRYST_OK)
        return status;
    for (int i = 0; i < COUNT && status == TRYST_OK; i++)
        if (!(items[i] = pool_get(pool)))
            status = TRYST_E_NOMEM;
    assert_true(pool_is_valid(pool));
    for (int i = 0; i < COUNT; i++)
        pool_put(pool, items[i]);
    assert_int_equal(pool_close(pool), 0);
    return status;
}

static void no_memory_is_a_status(void **state)
{
    WALK_ALLOCATIONS(open_get());
}

/* Threads take objects, mark them, and release them through another thread. An object
 * that two threads held at once would carry the wrong mark. */
enum { THREADS = 4, ROUNDS = 20000 };

struct owned {
    struct mpsc_node node; /* used while the object is handed to another thread */
    uint64_t owner, number;
};

struct market {
    struct pool *pool;
    /* objects handed over, waiting for the thread that releases them */
    struct mpsc hands;
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
        assert_non_null(item);
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
        /* read before the queue is drained, so that nothing comes after the last drain */
        bool last = market->trading == 0;
        struct mpsc_node *node = mpsc_drain(&market->hands);
        if (!node && last)
            return;
        if (!node)
            sched_yield();
        while (node) {
            struct mpsc_node *next = node->next;
            pool_put(market->pool, node); /* node is the first member */
            node = next;
        }
    }
}

static void threads_never_share_an_object(void **state)
{
    struct market market = {.trading = THREADS, .seed = unit_seed()};
    pthread_t threads[THREADS];
    market.pool = pool_of(sizeof(struct owned), _Alignof(struct owned));
    mpsc_init(&market.hands);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, trade, &market), 0);
    put_what_others_got(&market);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_true(pool_is_valid(market.pool));
    assert_int_equal(pool_close(market.pool), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_comes_back_is_handed_out_again),
        cmocka_unit_test(a_warm_pool_allocates_nothing),
        cmocka_unit_test(objects_are_aligned_and_apart),
        cmocka_unit_test(bad_sizes_are_refused),
        cmocka_unit_test(closing_early_says_so_and_keeps_the_memory),
        cmocka_unit_test(no_memory_is_a_status),
        cmocka_unit_test(threads_never_share_an_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
