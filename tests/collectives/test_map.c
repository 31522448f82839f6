/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges, slices, neighbours in trees with any root, and scratch. */
#include <string.h>

#include "collectives/tree/edges.h"
#include "collectives/tree/map.h"
#include "collectives/tree/scratch.h"
#include "core/memory/alloc.h"
#include "support/unit.h"

enum { TREES = 5, SIZE_MAX_TESTED = 17 };

static uint64_t random_state = 0x9e3779b97f4a7c15;

static uint64_t draw(uint64_t below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 11) % below;
}

/* ---- ranges ------------------------------------------------------------------------ */

static void ranges_check(const struct coll_class *class, uint64_t count, size_t element)
{
    uint64_t next = 0;
    for (uint32_t t = 0; t < class->trees_count; t++) {
        struct coll_range range = coll_range_of(class, t, count, element);
        assert_int_equal(range.begin, next);
        assert_true(range.begin * element % COLL_LINE_BYTES == 0 || !range.count ||
                    range.begin == count);
        next = range.begin + range.count;
    }
    assert_true(next == count);
}

static void test_ranges_cover(void **state)
{
    static const size_t elements[] = {1, 2, 4, 8};
    struct coll_tree_plan trees[TREES] = {0};
    for (int i = 0; i < 2000; i++) {
        struct coll_class class = {.trees = trees,
                                   .trees_count = 1 + (uint32_t)draw(TREES)};
        uint32_t share = 0;
        for (uint32_t t = 0; t < class.trees_count; t++) {
            share += (uint32_t)draw((UINT32_MAX - share) / 2 + 1);
            trees[t].cum_share = t + 1 == class.trees_count ? UINT32_MAX : share;
        }
        size_t element = elements[draw(4)];
        ranges_check(&class, draw(300), element);
        ranges_check(&class, UINT64_C(1) << draw(60), element);
        ranges_check(&class, UINT64_MAX / 2 / element - draw(100), element);
    }
}

/* Slices are in the proportion of the shares, so that all trees have equally many, in
 * whole lines, and the least slice of a flow at least. */
static void test_slices_of_trees(void **state)
{
    struct coll_tree_plan trees[4] = {
        {.cum_share = 0x80000000}, {.cum_share = 0xc0000000}, {.cum_share = 0xff000000}};
    struct coll_class class = {
        .trees = trees, .trees_count = COUNT_OF(trees), .slice_bytes = 65536};
    assert_int_equal(coll_slice_bytes(&class, 0), 65536);
    assert_int_equal(coll_slice_bytes(&class, 1), 32768);
    assert_int_equal(coll_slice_bytes(&class, 2), 32256);
    assert_int_equal(coll_slice_bytes(&class, 3), COLL_SLICE_BYTES_MIN);
    trees[0].cum_share = 0; /* a tree without a share */
    assert_int_equal(coll_slice_bytes(&class, 0), COLL_SLICE_BYTES_MIN);
    assert_int_equal(coll_slice_bytes(&class, 1), 65536);
    for (uint32_t t = 0; t < 3; t++) /* thirds, rounded */
        trees[t].cum_share = UINT32_MAX / 3 * (t + 1);
    class.trees_count = 3;
    for (uint32_t t = 0; t < 3; t++)
        assert_int_equal(coll_slice_bytes(&class, t), 65536);
}

/* With a count above 2^32 and exact shares, the product loses no bit. */
static void test_range_of_much(void **state)
{
    struct coll_tree_plan trees[2] = {{.cum_share = 0x40000000},
                                      {.cum_share = UINT32_MAX}};
    struct coll_class class = {.trees = trees, .trees_count = 2};
    struct coll_range range = coll_range_of(&class, 0, UINT64_C(1) << 62, 1);
    assert_true(range.begin == 0 && range.count == UINT64_C(1) << 60);
}

static void test_slices(void **state)
{
    assert_int_equal(coll_slices_of(0, 65536, 0), 1);
    assert_int_equal(coll_slices_of(4096, 4096, 0), 1);
    assert_int_equal(coll_slices_of(4097, 4096, 0), 2);
    assert_int_equal(coll_slices_of(8192, 4096, 8192), 1);
    assert_int_equal(coll_slices_of(8193, 4096, 8192), 3);
    /* flow.c refuses more than 2^31 - 1 slices, and a WANT for that number of whole
     * slices. */
    uint64_t most = (UINT64_C(1) << 31) - 2;
    assert_int_equal(coll_slices_of(most * 4096, 4096, 0), most);
    assert_int_equal(coll_slices_of(most * 4096 + 1, 4096, 0), 0);
    assert_int_equal(coll_slices_of(UINT64_C(4096) << 31, 4096, 0), 0);
    assert_true(coll_bytes(UINT64_MAX / 2, 8) == UINT64_MAX);
}

static void test_classes(void **state)
{
    struct coll_class classes[] = {
        {.bytes_max = 100}, {.bytes_max = 200}, {.bytes_max = 300}};
    struct coll_plan plan = {.classes = classes, .classes_count = 3};
    assert_ptr_equal(coll_class_of(&plan, 0), &classes[0]);
    assert_ptr_equal(coll_class_of(&plan, 100), &classes[0]);
    assert_ptr_equal(coll_class_of(&plan, 101), &classes[1]);
    assert_ptr_equal(coll_class_of(&plan, UINT64_MAX), &classes[2]);
}

/* Up to eight ranks exchange tensors that travel as DATA, in classes with the flag. */
static void test_exchanges(void **state)
{
    static const struct {
        uint32_t size;
        uint64_t bytes, eager_max;
        bool exchange, wanted;
    } rows[] = {{2, 8, 4096, true, true},      {2, 4096, 4096, true, true},
                {2, 0, 4096, true, true},      {2, 8, 4096, false, false},
                {3, 8, 4096, true, true},      {1, 8, 4096, true, false},
                {2, 4097, 4096, true, false},  {8, 8, 4096, true, true},
                {9, 8, 4096, true, false},     {8, 8, 4096, false, false},
                {2, 65536, 65536, true, true}, {3, 4096, 65536, true, true},
                {3, 4097, 65536, true, false}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct coll_class class = {.exchange = rows[i].exchange};
        struct coll_plan plan = {
            .size = rows[i].size, .classes = &class, .classes_count = 1};
        assert_int_equal(coll_exchanges(&plan, &class, rows[i].bytes, rows[i].eager_max),
                         rows[i].wanted);
    }
}

/* ---- neighbours -------------------------------------------------------------------- */

/* Fail unless the neighbours that the ranks find agree, all ranks are below `root`, and
 * the order of children changed only on the path. */
static void root_check(struct coll_plan *const *plans, uint32_t size, uint32_t tree,
                       bool up, int32_t root)
{
    int32_t parents[SIZE_MAX_TESTED];
    int32_t children[SIZE_MAX_TESTED][3];
    uint32_t counts[SIZE_MAX_TESTED];
    for (uint32_t rank = 0; rank < size; rank++) {
        struct coll_edges edges = {.children = children[rank]};
        const struct coll_tree_plan *of = &plans[rank]->classes[1].trees[tree];
        assert_true(coll_edges_max(of) <= 3);
        coll_edges_find(plans[rank], of, up, root, &edges);
        assert_true(edges.children_count <= coll_edges_max(of));
        parents[rank] = edges.parent;
        counts[rank] = edges.children_count;
    }
    int32_t found[SIZE_MAX_TESTED];
    coll_parents_find(plans[0], &plans[0]->classes[1].trees[tree], up, root, found);
    assert_memory_equal(found, parents, size * sizeof *parents);
    uint32_t children_all = 0;
    for (uint32_t rank = 0; rank < size; rank++) {
        children_all += counts[rank];
        for (uint32_t i = 0; i < counts[rank]; i++)
            assert_int_equal(parents[children[rank][i]], rank);
        uint32_t steps = 0;
        int32_t at = (int32_t)rank;
        while (parents[at] >= 0 && steps++ < size)
            at = parents[at];
        assert_int_equal(at, root >= 0 ? root : plans[0]->classes[1].trees[tree].root);
    }
    assert_int_equal(children_all, size - 1);
}

static void test_any_root(void **state)
{
    struct coll_plan *plans[SIZE_MAX_TESTED];
    for (uint32_t size = 1; size <= SIZE_MAX_TESTED; size++) {
        for (uint32_t rank = 0; rank < size; rank++)
            assert_non_null(plans[rank] = coll_plan_make(size, (int32_t)rank));
        for (int32_t root = -1; root < (int32_t)size; root++)
            for (uint32_t tree = 0; tree < 2; tree++)
                for (int up = 0; up < 2; up++)
                    root_check(plans, size, tree, up, root);
        for (uint32_t rank = 0; rank < size; rank++)
            mem_free(plans[rank]);
    }
}

/* Without a plan, the trees of a large tensor move equal parts of it. */
static void test_equal_shares(void **state)
{
    struct coll_plan *plan = coll_plan_make(5, 0);
    assert_non_null(plan);
    const struct coll_class *class = coll_class_of(plan, 1 << 20);
    for (uint32_t tree = 0; tree < class->trees_count; tree++)
        assert_in_range(coll_range_of(class, tree, 1 << 20, 1).count,
                        (1 << 20) / class->trees_count - COLL_LINE_BYTES,
                        (1 << 20) / class->trees_count + COLL_LINE_BYTES);
    mem_free(plan);
}

/* ---- scratch ----------------------------------------------------------------------- */

static void test_scratch_is_bounded(void **state)
{
    struct scratch scratch;
    void *buffers[5];
    uint64_t before = alloc_live_count();
    scratch_init(&scratch, 64 << 10);
    for (int i = 0; i < 4; i++)
        assert_int_equal(scratch_get(&scratch, 16000, &buffers[i]), TRYST_OK);
    assert_false(scratch_has(&scratch, 4096));
    assert_int_equal(scratch_get(&scratch, 4096, &buffers[4]), TRYST_AGAIN);
    scratch_put(&scratch, 16000, buffers[3]);
    /* a buffer of another size */
    assert_int_equal(scratch_get(&scratch, 4096, &buffers[4]), TRYST_OK);
    assert_true(scratch.bytes <= scratch.limit_bytes);
    scratch_put(&scratch, 4096, buffers[4]);
    assert_int_equal(scratch_get(&scratch, 16000, &buffers[3]), TRYST_OK);
    assert_true(scratch.bytes <= scratch.limit_bytes);
    for (int i = 0; i < 4; i++)
        scratch_put(&scratch, 16000, buffers[i]);
    uint64_t seen = alloc_seen_count();
    assert_int_equal(scratch_get(&scratch, 16000, &buffers[0]), TRYST_OK); /* warms up */
    assert_int_equal(alloc_seen_count(), seen);
    scratch_put(&scratch, 16000, buffers[0]);
    scratch_close(&scratch);
    assert_int_equal(alloc_live_count(), before);
}

/* A slice that exceeds the bound gets a buffer if no other buffer is lent. In that case a
 * failed allocation returns TRYST_E_NOMEM instead of a wait. */
static void test_scratch_has_one(void **state)
{
    struct scratch scratch;
    void *buffer, *other;
    scratch_init(&scratch, 4096);
    assert_int_equal(scratch_get(&scratch, 1 << 20, &buffer), TRYST_OK);
    assert_int_equal(scratch_get(&scratch, 4096, &other), TRYST_AGAIN);
    scratch_put(&scratch, 1 << 20, buffer);
    scratch_close(&scratch);
    alloc_fail_at(1);
    assert_int_equal(scratch_get(&scratch, 4096, &other), TRYST_E_NOMEM);
    alloc_fail_off();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges_cover),
        cmocka_unit_test(test_slices_of_trees),
        cmocka_unit_test(test_range_of_much),
        cmocka_unit_test(test_slices),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_exchanges),
        cmocka_unit_test(test_any_root),
        cmocka_unit_test(test_equal_shares),
        cmocka_unit_test(test_scratch_is_bounded),
        cmocka_unit_test(test_scratch_has_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
