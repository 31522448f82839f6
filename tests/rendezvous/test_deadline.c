/* SPDX-License-Identifier: Apache-2.0 */
/* The heap of deadlines: order, removal from anywhere, and failed allocations. */
#include <string.h>

#include "core/memory/alloc.h"
#include "core/os/random.h"
#include "rendezvous/op/deadline.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/progress/overdue.h"
#include "support/unit.h"

enum { OPS = 300 };

static struct rendezvous rdv;
static tryst_op ops[OPS];

static int failed_count;

static void note_failed(tryst_op *op, struct cause cause, const char *text)
{
    assert_int_equal(op->heap_index, SIZE_MAX);
    assert_int_equal(cause.status, TRYST_E_DEADLINE);
    assert_int_equal(cause.origin_rank, -1);
    assert_memory_equal(text, "its deadline passed: ", 21);
    failed_count++;
}

static const struct op_events op_events = {.fail = note_failed};

static int begin(void **state)
{
    memset(&rdv, 0, sizeof rdv);
    memset(ops, 0, sizeof ops);
    rdv.op_events = &op_events;
    failed_count = 0;
    for (int i = 0; i < OPS; i++) {
        ops[i].heap_index = SIZE_MAX;
        ops[i].rdv = &rdv;
        ops[i].kind = OP_STEP_CLOSE;
    }
    return 0;
}

static int end(void **state)
{
    mem_free(rdv.deadlines.items);
    return 0;
}

static void heap_check(void)
{
    for (size_t i = 0; i < rdv.deadlines.count; i++) {
        const tryst_op *op = rdv.deadlines.items[i];
        assert_int_equal(op->heap_index, i);
        if (i)
            assert_true(rdv.deadlines.items[(i - 1) / 2]->deadline_at_ns <=
                        op->deadline_at_ns);
    }
}

static uint64_t least(void)
{
    uint64_t at_ns = 0;
    for (int i = 0; i < OPS; i++)
        if (ops[i].heap_index != SIZE_MAX && (!at_ns || ops[i].deadline_at_ns < at_ns))
            at_ns = ops[i].deadline_at_ns;
    return at_ns;
}

static void test_random(void **state)
{
    struct random random;
    random_seed(&random, unit_seed());
    for (int step = 0; step < 20000; step++) {
        tryst_op *op = &ops[random_range(&random, OPS)];
        if (op->heap_index == SIZE_MAX) {
            /* many deadlines are equal */
            op->deadline_at_ns = 1 + random_range(&random, 500);
            assert_int_equal(deadline_add(&rdv, op), TRYST_OK);
        } else {
            deadline_remove(&rdv, op);
            assert_int_equal(op->heap_index, SIZE_MAX);
        }
        assert_int_equal(deadline_next(&rdv), least());
        if (step % 16 == 0)
            heap_check();
    }
}

/* The heap ends the operations that are past their deadline, no others, and each once. */
static void test_run(void **state)
{
    for (int i = 0; i < OPS; i++) {
        ops[i].deadline_at_ns = 1000 - (uint64_t)i;
        assert_int_equal(deadline_add(&rdv, &ops[i]), TRYST_OK);
    }
    assert_int_equal(deadlines_run(&rdv, 1000 - OPS), 0);
    assert_int_equal(deadlines_run(&rdv, 1000 - OPS + 10), 10);
    for (int i = 0; i < OPS; i++)
        assert_int_equal(ops[i].heap_index == SIZE_MAX, i >= OPS - 10);
    assert_int_equal(deadlines_run(&rdv, UINT64_MAX), OPS - 10);
    assert_int_equal(deadlines_run(&rdv, UINT64_MAX), 0);
    assert_int_equal(failed_count, OPS);
    assert_int_equal(deadline_next(&rdv), 0);
}

static void test_remove_absent(void **state)
{
    deadline_remove(&rdv, &ops[0]);
    ops[0].deadline_at_ns = 5;
    assert_int_equal(deadline_add(&rdv, &ops[0]), TRYST_OK);
    deadline_remove(&rdv, &ops[0]);
    deadline_remove(&rdv, &ops[0]);
    assert_int_equal(rdv.deadlines.count, 0);
}

/* Where the heap cannot grow, nothing may have changed. */
static void test_no_memory(void **state)
{
    int refused = 0;
    for (int i = 0; i < OPS; i++) {
        ops[i].deadline_at_ns = 1 + (uint64_t)i;
        alloc_fail_at(1);
        tryst_status status = deadline_add(&rdv, &ops[i]);
        bool failed = alloc_fail_off();
        assert_int_equal(status, failed ? TRYST_E_NOMEM : TRYST_OK);
        assert_int_equal(ops[i].heap_index == SIZE_MAX, failed);
        refused += failed;
        if (failed)
            assert_int_equal(deadline_add(&rdv, &ops[i]), TRYST_OK);
    }
    assert_true(refused >= 3); /* the sizes 64, 128, 256 */
    heap_check();
    assert_int_equal(rdv.deadlines.count, OPS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_random, begin, end),
        cmocka_unit_test_setup_teardown(test_run, begin, end),
        cmocka_unit_test_setup_teardown(test_remove_absent, begin, end),
        cmocka_unit_test_setup_teardown(test_no_memory, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
