/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <string.h>

#include "core/memory/list.h"
#include "core/os/random.h"

struct thing {
    int value;
    struct list_node node;
};

static struct thing *thing_of(struct list_node *node)
{
    return container_of(node, struct thing, node);
}

/* Check that the list holds exactly these elements, forwards and backwards. */
static void assert_holds(const struct list *list, const int *values, size_t count)
{
    const struct list_node *node = list->head.next;
    for (size_t i = 0; i < count; i++, node = node->next)
        assert_int_equal(thing_of((struct list_node *)node)->value, values[i]);
    assert_ptr_equal(node, &list->head);
    node = list->head.prev;
    for (size_t i = count; i-- > 0; node = node->prev)
        assert_int_equal(thing_of((struct list_node *)node)->value, values[i]);
    assert_ptr_equal(node, &list->head);
}

static void both_ends_take_and_the_front_gives(void **state)
{
    struct list list;
    struct thing a = {.value = 1}, b = {.value = 2}, c = {.value = 3};
    list_init(&list);
    assert_true(list_empty(&list));
    assert_null(list_first(&list));
    assert_null(list_pop_front(&list));
    list_push_back(&list, &b.node);
    list_push_back(&list, &c.node);
    list_push_front(&list, &a.node);
    assert_holds(&list, (int[]){1, 2, 3}, 3);
    assert_ptr_equal(list_first(&list), &a.node);
    assert_ptr_equal(thing_of(list_pop_front(&list)), &a);
    assert_holds(&list, (int[]){2, 3}, 2);
}

static void a_node_knows_whether_it_is_listed(void **state)
{
    struct list list;
    struct thing a = {0};
    list_init(&list);
    assert_false(list_linked(&a.node));
    assert_false(list_remove(&a.node));
    list_push_back(&list, &a.node);
    assert_true(list_linked(&a.node));
    assert_true(list_remove(&a.node));
    assert_false(list_linked(&a.node));
    assert_false(list_remove(&a.node));
    assert_true(list_empty(&list));
}

static void insert_before_keeps_an_order(void **state)
{
    struct list list;
    struct thing a = {.value = 1}, b = {.value = 2}, c = {.value = 3};
    list_init(&list);
    list_push_back(&list, &a.node);
    list_push_back(&list, &c.node);
    list_insert_before(&c.node, &b.node);
    assert_holds(&list, (int[]){1, 2, 3}, 3);
}

static void append_moves_all(void **state)
{
    struct list list, other;
    struct thing things[4] = {{.value = 0}, {.value = 1}, {.value = 2}, {.value = 3}};
    list_init(&list);
    list_init(&other);
    list_append(&list, &other);
    assert_true(list_empty(&list));
    for (int i = 0; i < 4; i++)
        list_push_back(i < 2 ? &list : &other, &things[i].node);
    list_append(&list, &other);
    assert_holds(&list, (int[]){0, 1, 2, 3}, 4);
    assert_true(list_empty(&other));
    list_append(&other, &list);
    assert_holds(&other, (int[]){0, 1, 2, 3}, 4);
}

static void a_walk_may_remove_where_it_stands(void **state)
{
    struct list list;
    struct thing things[6];
    list_init(&list);
    for (int i = 0; i < 6; i++) {
        things[i].value = i;
        list_node_init(&things[i].node);
        list_push_back(&list, &things[i].node);
    }
    int seen = 0;
    list_for_each_safe (&list, node, after) {
        assert_int_equal(thing_of(node)->value, seen++);
        if (thing_of(node)->value % 2 == 0)
            list_remove(node);
    }
    assert_int_equal(seen, 6);
    assert_holds(&list, (int[]){1, 3, 5}, 3);
}

enum { THINGS = 40 };

struct model {
    int values[THINGS];
    size_t count;
};

static void model_insert(struct model *model, size_t at, int value)
{
    memmove(&model->values[at + 1], &model->values[at],
            (model->count - at) * sizeof(int));
    model->values[at] = value;
    model->count++;
}

static void model_remove(struct model *model, int value)
{
    size_t at = 0;
    while (model->values[at] != value)
        at++;
    model->count--;
    memmove(&model->values[at], &model->values[at + 1],
            (model->count - at) * sizeof(int));
}

static void it_behaves_as_an_array_does(void **state)
{
    struct random random;
    struct list list;
    struct thing things[THINGS];
    struct model model = {.count = 0};
    random_seed(&random, unit_seed());
    list_init(&list);
    for (int i = 0; i < THINGS; i++) {
        things[i].value = i;
        list_node_init(&things[i].node);
    }
    for (int round = 0; round < 5000; round++) {
        int i = (int)random_range(&random, THINGS);
        if (list_linked(&things[i].node)) {
            list_remove(&things[i].node);
            model_remove(&model, i);
        } else if (random_range(&random, 2)) {
            list_push_back(&list, &things[i].node);
            model_insert(&model, model.count, i);
        } else {
            list_push_front(&list, &things[i].node);
            model_insert(&model, 0, i);
        }
        assert_holds(&list, model.values, model.count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends_take_and_the_front_gives),
        cmocka_unit_test(a_node_knows_whether_it_is_listed),
        cmocka_unit_test(insert_before_keeps_an_order),
        cmocka_unit_test(append_moves_all),
        cmocka_unit_test(a_walk_may_remove_where_it_stands),
        cmocka_unit_test(it_behaves_as_an_array_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
