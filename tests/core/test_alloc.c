/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <pthread.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "tryst/status.h"

static void counters_return_to_where_they_were(void **state)
{
    uint64_t count = alloc_live_count(), bytes = alloc_live_bytes();
    uint64_t seen = alloc_seen_count();
    void *mem[] = {mem_alloc(100), mem_zalloc(1000), mem_alloc_aligned(4096, 10),
                   mem_strdup("text"), mem_zalloc_array(10, 10)};
    for (size_t i = 0; i < COUNT_OF(mem); i++)
        assert_non_null(mem[i]);
    mem[0] = mem_resize(mem[0], 100000);
    assert_non_null(mem[0]);
    assert_int_equal(alloc_live_count(), count + COUNT_OF(mem));
    assert_true(alloc_live_bytes() >= bytes + 100000 + 1000 + 10 + 5 + 100);
    assert_int_equal(alloc_seen_count(), seen + COUNT_OF(mem) + 1);
    for (size_t i = 0; i < COUNT_OF(mem); i++)
        mem_free(mem[i]);
    mem_free(NULL);
    assert_int_equal(alloc_live_count(), count);
    assert_int_equal(alloc_live_bytes(), bytes);
}

static void contents_are_as_promised(void **state)
{
    unsigned char *zeroed = mem_zalloc(4096);
    unsigned char zeros[4096] = {0};
    assert_memory_equal(zeroed, zeros, sizeof zeros);
    memset(zeroed, 'x', 4096);
    zeroed = mem_resize(zeroed, 8192);
    for (int i = 0; i < 4096; i++)
        assert_int_equal(zeroed[i], 'x');
    char *copy = mem_strdup("a tryst");
    assert_string_equal(copy, "a tryst");
    mem_free(copy);
    mem_free(zeroed);
}

static void alignment_is_as_asked(void **state)
{
    for (size_t align = 1; align <= 65536; align *= 2) {
        void *mem = mem_alloc_aligned(align, 3);
        assert_int_equal((uintptr_t)mem % align, 0);
        mem_free(mem);
    }
}

static void nothing_is_something(void **state)
{
    void *a = mem_alloc(0), *b = mem_zalloc(0), *c = mem_resize(NULL, 0);
    void *d = mem_zalloc_array(0, 8), *e = mem_alloc_aligned(64, 0);
    assert_true(a && b && c && d && e && a != b);
    c = mem_resize(c, 0);
    assert_non_null(c);
    mem_free(a);
    mem_free(b);
    mem_free(c);
    mem_free(d);
    mem_free(e);
}

static void an_array_too_large_to_count_is_refused(void **state)
{
    assert_null(mem_zalloc_array(SIZE_MAX / 2, 4));
}

static void the_nth_fails_once(void **state)
{
    alloc_fail_at(2);
    void *first = mem_alloc(1), *second = mem_alloc(1), *third = mem_alloc(1);
    assert_true(first && !second && third);
    assert_true(alloc_fail_off());
    assert_false(alloc_fail_off());
    mem_free(first);
    mem_free(third);
}

static void every_way_to_allocate_can_fail(void **state)
{
    void *kept = mem_alloc(8);
    void *got[6];
    for (size_t i = 0; i < COUNT_OF(got); i++) {
        alloc_fail_at(1);
        got[i] = i == 0   ? mem_alloc(8)
                 : i == 1 ? mem_zalloc(8)
                 : i == 2 ? mem_alloc_aligned(64, 8)
                 : i == 3 ? mem_resize(kept, 800)
                 : i == 4 ? mem_zalloc_array(2, 8)
                          : (void *)mem_strdup("x");
        assert_null(got[i]);
        assert_true(alloc_fail_off());
    }
    mem_free(kept); /* a failed resize leaves the old block */
}

static void a_failure_that_never_came_is_told(void **state)
{
    alloc_fail_at(3);
    mem_free(mem_alloc(1));
    assert_false(alloc_fail_off());
    mem_free(mem_alloc(1));
    void *mem = mem_alloc(1);
    assert_non_null(mem); /* alloc_fail_off withdrew the failure */
    mem_free(mem);
}

enum { THREADS = 4, ROUNDS = 2000 };

static void *allocate_a_lot(void *arg)
{
    _Atomic int *failures = arg;
    for (int i = 0; i < ROUNDS; i++) {
        void *mem = mem_alloc((size_t)i);
        *failures += mem == NULL;
        mem_free(mem);
    }
    return NULL;
}

static void of_many_threads_exactly_one_meets_the_failure(void **state)
{
    uint64_t count = alloc_live_count(), bytes = alloc_live_bytes();
    pthread_t threads[THREADS];
    _Atomic int failures = 0;
    alloc_fail_at(THREADS * ROUNDS / 2);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_a_lot, &failures), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_true(alloc_fail_off());
    assert_int_equal(failures, 1);
    assert_int_equal(alloc_live_count(), count);
    assert_int_equal(alloc_live_bytes(), bytes);
}

/* Undo the first of two steps when the second fails; a subject for the walk itself. */
static tryst_status two_steps(void)
{
    void *first = mem_alloc(1);
    if (!first)
        return TRYST_E_NOMEM;
    void *second = mem_alloc(1);
    tryst_status status = second ? TRYST_OK : TRYST_E_NOMEM;
    mem_free(second);
    mem_free(first);
    return status;
}

static void a_walk_meets_every_allocation(void **state)
{
    uint64_t seen = alloc_seen_count();
    WALK_ALLOCATIONS(two_steps());
    assert_int_equal(alloc_seen_count() - seen, 1 + 2 + 2);
}

static void an_array_grows_by_doubling_or_not_at_all(void **state)
{
    (void)state;
    uint64_t live = alloc_live_count(), seen = alloc_seen_count();
    uint32_t *items = NULL;
    size_t room = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        assert_true(mem_reserve(&items, &room, i + 1, sizeof *items));
        assert_true(room > i);
        items[i] = i;
    }
    assert_in_range(alloc_seen_count() - seen, 1, 10);
    uint32_t *before = items;
    size_t room_before = room;
    alloc_fail_at(1);
    assert_false(mem_reserve(&items, &room, room + 1, sizeof *items));
    assert_true(alloc_fail_off());
    assert_false(mem_reserve(&items, &room, SIZE_MAX / 2, sizeof *items));
    assert_ptr_equal(items, before);
    assert_int_equal(room, room_before);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(items[i], i);
    mem_free(items);
    assert_int_equal(alloc_live_count(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_return_to_where_they_were),
        cmocka_unit_test(contents_are_as_promised),
        cmocka_unit_test(alignment_is_as_asked),
        cmocka_unit_test(nothing_is_something),
        cmocka_unit_test(an_array_too_large_to_count_is_refused),
        cmocka_unit_test(an_array_grows_by_doubling_or_not_at_all),
        cmocka_unit_test(the_nth_fails_once),
        cmocka_unit_test(every_way_to_allocate_can_fail),
        cmocka_unit_test(a_failure_that_never_came_is_told),
        cmocka_unit_test(of_many_threads_exactly_one_meets_the_failure),
        cmocka_unit_test(a_walk_meets_every_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
