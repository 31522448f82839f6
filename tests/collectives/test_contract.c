/* SPDX-License-Identifier: Apache-2.0 */
/* Contracted plans: random plans of a group for random members. */
#include <string.h>

#include "collectives/tree/contract.h"
#include "core/memory/alloc.h"
#include "support/unit.h"

enum { SIZE = 12, TREES = 5, CLASSES = 3, ROUNDS = 3000 };

static uint64_t random_state = 0x9e3779b97f4a7c15;

static int32_t draw(uint64_t below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int32_t)((random_state >> 33) % below);
}

/* ---- a plan of a group ------------------------------------------------------------- */

static struct {
    /* parents in the reduction tree (up) and in the broadcast tree (down) */
    int32_t parents[TREES][2][SIZE];
    int32_t roots[TREES];
    struct coll_tree_plan trees[CLASSES][TREES];
    struct coll_class classes[CLASSES];
    struct coll_plan plan;
} from;

/* Return a random order of the numbers below `count`. */
static void order_draw(int32_t *order, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        int32_t j = draw((uint64_t)i + 1);
        order[i] = order[j];
        order[j] = i;
    }
}

static void parents_draw(int32_t *parents, int32_t size, int32_t root)
{
    int32_t order[SIZE];
    order_draw(order, size);
    for (int32_t i = 0; i < size; i++)
        if (order[i] == root) {
            order[i] = order[0];
            order[0] = root;
        }
    parents[root] = -1;
    for (int32_t i = 1; i < size; i++)
        parents[order[i]] = order[draw((uint64_t)i)];
}

/* Draw a class. Each class has tree 0 and some others; shares may be zero. Children stay
 * unset, because the code under test does not read them. */
static void class_draw(int at)
{
    struct coll_class *class = &from.classes[at];
    uint64_t share = 0;
    *class = (struct coll_class){
        .bytes_max = 100u << at, .slice_bytes = 4096, .trees = from.trees[at]};
    for (int t = 0; t < TREES; t++) {
        if (t && draw(3) == 0)
            continue;
        share += draw(3) ? (UINT64_C(1) << 32) / TREES - 1 : 0;
        class->trees[class->trees_count++] =
            (struct coll_tree_plan){.cum_share = (uint32_t)share,
                                    .root = from.roots[t],
                                    .up_parents = from.parents[t][0],
                                    .down_parents = from.parents[t][1]};
    }
    class->trees[class->trees_count - 1].cum_share = UINT32_MAX;
}

static void plan_draw(int32_t size)
{
    for (int t = 0; t < TREES; t++) {
        from.roots[t] = draw((uint64_t)size);
        for (int half = 0; half < 2; half++)
            parents_draw(from.parents[t][half], size, from.roots[t]);
    }
    for (int c = 0; c < CLASSES; c++)
        class_draw(c);
    from.plan = (struct coll_plan){
        .size = (uint32_t)size, .classes_count = CLASSES, .classes = from.classes};
}

/* ---- checks ------------------------------------------------------------------------ */

static bool is_below(const int32_t *parents, int32_t at, int32_t root, uint32_t count)
{
    for (uint32_t steps = 0; at >= 0 && steps <= count; steps++, at = parents[at])
        if (at == root)
            return true;
    return false;
}

static void half_check(struct coll_plan *const *plans, uint32_t class, uint32_t t,
                       bool up)
{
    uint32_t count = plans[0]->size, edges = 0;
    const struct coll_tree_plan *first = &plans[0]->classes[class].trees[t];
    const int32_t *parents = up ? first->up_parents : first->down_parents;
    assert_int_equal(parents[first->root], -1);
    for (uint32_t rank = 0; rank < count; rank++) {
        const struct coll_tree_plan *tree = &plans[rank]->classes[class].trees[t];
        const int32_t *children = up ? tree->up_children : tree->down_children;
        uint32_t children_count =
            up ? tree->up_children_count : tree->down_children_count;
        assert_int_equal(tree->root, first->root);
        assert_memory_equal(up ? tree->up_parents : tree->down_parents, parents,
                            count * sizeof *parents);
        assert_int_equal(up ? tree->up_parent : tree->down_parent, parents[rank]);
        assert_true(is_below(parents, (int32_t)rank, first->root, count));
        for (uint32_t i = 0; i < children_count; i++)
            assert_int_equal(parents[children[i]], rank);
        edges += children_count;
    }
    assert_int_equal(edges, count - 1);
}

/* Fail unless all members have the same shares, which rise to the last share, which means
 * all. */
static void shares_check(struct coll_plan *const *plans, uint32_t class)
{
    const struct coll_class *first = &plans[0]->classes[class];
    assert_true(first->trees_count > 0);
    for (uint32_t t = 0; t < first->trees_count; t++) {
        for (uint32_t rank = 0; rank < plans[0]->size; rank++)
            assert_int_equal(plans[rank]->classes[class].trees[t].cum_share,
                             first->trees[t].cum_share);
        assert_true(!t || first->trees[t].cum_share >= first->trees[t - 1].cum_share);
    }
    assert_int_equal(first->trees[first->trees_count - 1].cum_share, UINT32_MAX);
}

/* Fail unless tree 0 has the same edges in all classes. */
static void tree_0_check(const struct coll_plan *plan)
{
    const struct coll_tree_plan *first = &plan->classes[0].trees[0];
    for (uint32_t c = 1; c < plan->classes_count; c++) {
        const struct coll_tree_plan *tree = &plan->classes[c].trees[0];
        assert_memory_equal(tree->up_parents, first->up_parents,
                            plan->size * sizeof(int32_t));
        assert_memory_equal(tree->down_parents, first->down_parents,
                            plan->size * sizeof(int32_t));
    }
}

/* The trees of the reduction and of the broadcast differ, and both keep their form. */
static void test_halves(void **state)
{
    static const int32_t members[] = {0, 1, 2, 3};
    static const int32_t halves[2][4] = {{-1, 0, 1, 2}, {-1, 0, 0, 0}};
    plan_draw(4);
    for (int half = 0; half < 2; half++)
        memcpy(from.parents[0][half], halves[half], sizeof halves[half]);
    for (int c = 0; c < CLASSES; c++)
        from.trees[c][0].root = 0;
    struct coll_plan *plan = coll_plan_contract(&from.plan, members, 4, 1);
    assert_non_null(plan);
    const struct coll_tree_plan *tree = &plan->classes[0].trees[0];
    assert_memory_equal(tree->up_parents, halves[0], sizeof halves[0]);
    assert_memory_equal(tree->down_parents, halves[1], sizeof halves[1]);
    assert_int_equal(tree->up_children_count, 1);
    assert_int_equal(tree->down_children_count, 0);
    mem_free(plan);
}

static void test_random(void **state)
{
    uint64_t before = alloc_live_count();
    for (int round = 0; round < ROUNDS; round++) {
        struct coll_plan *plans[SIZE];
        int32_t size = 1 + draw(SIZE), members[SIZE];
        uint32_t count = 1 + (uint32_t)draw((uint64_t)size);
        plan_draw(size);
        order_draw(members, size);
        for (uint32_t rank = 0; rank < count; rank++) {
            plans[rank] = coll_plan_contract(&from.plan, members, count, rank);
            assert_non_null(plans[rank]);
            assert_int_equal(plans[rank]->size, count);
            assert_int_equal(plans[rank]->rank, rank);
            tree_0_check(plans[rank]);
        }
        for (uint32_t c = 0; c < CLASSES; c++) {
            shares_check(plans, c);
            for (uint32_t t = 0; t < plans[0]->classes[c].trees_count; t++)
                for (int up = 0; up < 2; up++)
                    half_check(plans, c, t, up);
        }
        for (uint32_t rank = 0; rank < count; rank++)
            mem_free(plans[rank]);
    }
    assert_int_equal(alloc_live_count(), before);
}

/* Each of four ranks is the root of a star. For two members their own stars remain, with
 * half the bytes each. Tree 0 is the star at rank 0, which is not a member, so only the
 * edges of tree 0 are used. */
static void test_stars(void **state)
{
    static const int32_t members[] = {3, 1};
    struct coll_class *class = &from.classes[0];
    for (int t = 0; t < 4; t++) {
        for (int i = 0; i < 8; i++)
            from.parents[t][i % 2][i / 2] = i / 2 == t ? -1 : t;
        from.trees[0][t] = (struct coll_tree_plan){
            .cum_share = t == 3 ? UINT32_MAX : ((uint32_t)t + 1) << 30,
            .root = t,
            .up_parents = from.parents[t][0],
            .down_parents = from.parents[t][1]};
    }
    *class = (struct coll_class){.bytes_max = UINT64_MAX,
                                 .slice_bytes = 64,
                                 .trees = from.trees[0],
                                 .trees_count = 4};
    from.plan = (struct coll_plan){.size = 4, .classes_count = 1, .classes = class};
    struct coll_plan *plan = coll_plan_contract(&from.plan, members, 2, 0);
    assert_non_null(plan);
    assert_int_equal(plan->classes[0].trees_count, 3);
    const struct coll_tree_plan *trees = plan->classes[0].trees;
    assert_int_equal(trees[0].cum_share, 0);
    assert_int_equal(trees[1].root, 1); /* rank 1 of the group */
    assert_int_equal(trees[1].cum_share, UINT32_C(1) << 31);
    assert_int_equal(trees[2].root, 0);
    assert_int_equal(trees[2].up_children_count, 1);
    mem_free(plan);
}

/* In the chain 0 - 1 - 2 - 3 the nearest member is the parent. */
static void test_chain(void **state)
{
    static const int32_t members[] = {3, 0, 2};
    static const int32_t parents[] = {-1, 0, 1, 2};
    struct coll_tree_plan tree = {
        .cum_share = UINT32_MAX, .up_parents = parents, .down_parents = parents};
    struct coll_class class = {.bytes_max = UINT64_MAX, .trees = &tree, .trees_count = 1};
    struct coll_plan chain = {.size = 4, .classes_count = 1, .classes = &class};
    struct coll_plan *plan = coll_plan_contract(&chain, members, 3, 2);
    assert_non_null(plan);
    const struct coll_tree_plan *out = &plan->classes[0].trees[0];
    assert_int_equal(out->root, 1);
    assert_int_equal(out->up_parents[0], 2);
    assert_int_equal(out->up_parents[1], -1);
    assert_int_equal(out->up_parents[2], 1);
    assert_int_equal(out->up_children[0], 0);
    mem_free(plan);
}

static void test_no_memory(void **state)
{
    static const int32_t member = 0;
    plan_draw(2);
    uint64_t before = alloc_live_count();
    for (int i = 1; i <= 2; i++) {
        alloc_fail_at((uint64_t)i);
        assert_null(coll_plan_contract(&from.plan, &member, 1, 0));
    }
    alloc_fail_off();
    assert_int_equal(alloc_live_count(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_halves),    cmocka_unit_test(test_random),
        cmocka_unit_test(test_stars),     cmocka_unit_test(test_chain),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
