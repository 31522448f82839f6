/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <string.h>

#include "core/memory/urgent.h"
#include "core/os/random.h"

struct thing {
    struct urgency urgency;
    struct urgent_node node;
};

static struct thing *thing_of(struct urgent_node *node)
{
    return node ? container_of(node, struct thing, node) : NULL;
}

static void push(struct urgent_queue *queue, struct thing *thing)
{
    urgent_push(queue, &thing->node, &thing->urgency);
}

static struct thing *pop(struct urgent_queue *queue)
{
    struct urgent_node *first = urgent_first(queue);
    if (first)
        assert_true(urgent_remove(first));
    return thing_of(first);
}

/* Check the order of urgency.h for every pair of a list, written from the most urgent
 * on. */
static void class_then_priority_then_step_then_number(void **state)
{
    struct urgency order[] = {
        {urgency_sort_key(URGENCY_TRAINING, INT32_MIN), 9, 9},
        {urgency_sort_key(URGENCY_TRAINING, -1), 0, 5},
        {urgency_sort_key(URGENCY_TRAINING, -1), 7, 1},
        {urgency_sort_key(URGENCY_TRAINING, 0), 2, 0},
        {urgency_sort_key(URGENCY_TRAINING, 0), 2, 1},
        {urgency_sort_key(URGENCY_TRAINING, 1), 0, 0},
        {urgency_sort_key(URGENCY_TRAINING, INT32_MAX), 0, 0},
        {urgency_sort_key(URGENCY_BACKGROUND, INT32_MIN), 0, 0},
        {urgency_sort_key(URGENCY_BACKGROUND, 0), 0, 0},
    };
    size_t count = sizeof order / sizeof order[0];
    for (size_t a = 0; a < count; a++)
        for (size_t b = 0; b < count; b++)
            assert_int_equal(urgency_before(&order[a], &order[b]), a < b);
    assert_int_equal(urgency_priority(&order[1]), -1);
    assert_int_equal(urgency_class(&order[1]), URGENCY_TRAINING);
    assert_int_equal(urgency_class(&order[7]), URGENCY_BACKGROUND);
    assert_int_equal(urgency_priority(&order[7]), INT32_MIN);
}

static void what_is_equal_stays_in_order(void **state)
{
    enum { COUNT = 100 };
    static struct thing things[COUNT];
    struct urgent_queue queue;
    urgent_init(&queue);
    assert_true(urgent_empty(&queue));
    for (int i = 0; i < COUNT; i++)
        push(&queue, &things[i]);
    for (int i = 0; i < COUNT; i++)
        assert_ptr_equal(pop(&queue), &things[i]);
    assert_null(pop(&queue));
    assert_true(urgent_empty(&queue));
}

static void an_urgent_one_overtakes_and_the_rest_goes_on(void **state)
{
    struct thing plain[3] = {
        {.urgency = {5, 0, 0}}, {.urgency = {5, 0, 1}}, {.urgency = {5, 0, 2}}};
    struct thing urgent = {.urgency = {4, 0, 3}};
    struct urgent_queue queue;
    urgent_init(&queue);
    for (int i = 0; i < 3; i++)
        push(&queue, &plain[i]);
    push(&queue, &urgent);
    assert_true(urgent_queued(&urgent.node));
    assert_ptr_equal(pop(&queue), &urgent);
    assert_false(urgent_queued(&urgent.node));
    assert_false(urgent_remove(&urgent.node));
    push(&queue, &urgent); /* a node may be pushed again */
    assert_ptr_equal(pop(&queue), &urgent);
    for (int i = 0; i < 3; i++)
        assert_ptr_equal(pop(&queue), &plain[i]);
}

enum { THINGS = 300, ROUNDS = 20000 };

/* Check that no queued element is more urgent than the first. */
static void first_check(struct urgent_queue *queue, struct thing *things)
{
    struct thing *first = thing_of(urgent_first(queue));
    bool any = false;
    for (int i = 0; i < THINGS; i++) {
        if (!urgent_queued(&things[i].node))
            continue;
        any = true;
        assert_non_null(first);
        assert_false(urgency_before(&things[i].urgency, &first->urgency));
    }
    assert_int_equal(first != NULL, any);
    assert_int_equal(urgent_empty(queue), !any);
}

/* Push, pop and remove at random; the draws are mostly in order, as programs submit. */
static void random_use(void **state)
{
    struct thing things[THINGS];
    struct random random;
    struct urgent_queue queue;
    memset(things, 0, sizeof things);
    random_seed(&random, 7);
    urgent_init(&queue);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        struct thing *thing = &things[random_range(&random, THINGS)];
        if (urgent_queued(&thing->node)) {
            assert_true(urgent_remove(&thing->node));
        } else {
            bool overtakes = random_range(&random, 3) == 0;
            thing->urgency = (struct urgency){overtakes ? random_range(&random, 9) : 9,
                                              round / 1000, round};
            push(&queue, thing);
        }
        if (random_range(&random, 4) == 0)
            (void)pop(&queue);
        first_check(&queue, things);
    }
    struct thing *before = pop(&queue);
    for (struct thing *next; (next = pop(&queue)) != NULL; before = next)
        assert_false(urgency_before(&next->urgency, &before->urgency));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(class_then_priority_then_step_then_number),
        cmocka_unit_test(what_is_equal_stays_in_order),
        cmocka_unit_test(an_urgent_one_overtakes_and_the_rest_goes_on),
        cmocka_unit_test(random_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
