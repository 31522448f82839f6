/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that is ahead: its records for steps that its peers have not opened wait for
 * them, however many steps there are, and take no other rank's room. */
#include "world.h"

#include <time.h>

enum { BYTES = 8, STEPS = 12 };
static const struct world_setting one_early[] = {{"early_max", "1"}, {0}};

static struct world world;
static uint8_t out[STEPS][BYTES], in[STEPS][BYTES];

static void begin(int size, const struct world_setting *settings)
{
    world_open(&world, size, settings);
    for (int a = 0; a < size; a++)
        for (int b = 0; b < a; b++)
            world_join(&world, b, a);
    for (int i = 0; i < STEPS; i++)
        memset(out[i], i + 1, BYTES);
    memset(in, 0, sizeof in);
}

static void end(tryst_step **steps, int count)
{
    for (int i = 0; i < count; i++)
        if (steps[i])
            assert_int_equal(tryst_step_close(steps[i], NULL), TRYST_OK);
    world_settle(&world);
    for (int i = 0; i < world.size; i++)
        assert_true(list_empty(&world.sides[i].rdv->scopes.all));
    world_close(&world);
}

/* Small sends in more steps than WANTs may open early scopes for: none may fail. */
static void test_sends_ahead(void **state)
{
    tryst_step *steps[2 * STEPS];
    tryst_op *sends[STEPS], *recvs[STEPS];
    begin(2, one_early);
    for (int i = 0; i < STEPS; i++) {
        steps[i] = world_step(&world, 0, (uint64_t)i);
        sends[i] = world_send(&world, 0, steps[i], world_key(&world, 0, 1, "a"), out[i],
                              BYTES, NULL);
        world_settle(&world);
    }
    for (int i = 0; i < STEPS; i++) {
        assert_int_equal(tryst_op_test(sends[i]), TRYST_IN_PROGRESS);
        steps[STEPS + i] = world_step(&world, 1, (uint64_t)i);
        recvs[i] = world_recv(&world, 1, steps[STEPS + i], world_key(&world, 0, 1, "a"),
                              in[i], BYTES, NULL);
        world_settle(&world);
        world_done(sends[i], TRYST_OK);
        world_done(recvs[i], TRYST_OK);
    }
    assert_memory_equal(in, out, sizeof in);
    end(steps, 2 * STEPS);
}

/* Receives of a rank that is ahead: WANTs that find no room come again. */
static void test_receives_ahead(void **state)
{
    static uint8_t large_in[STEPS][1 << 14], large_out[1 << 14] = "large";
    tryst_step *steps[2 * STEPS];
    tryst_op *sends[STEPS], *recvs[STEPS];
    begin(2, one_early);
    for (int i = 0; i < STEPS; i++) {
        steps[i] = world_step(&world, 1, (uint64_t)i);
        recvs[i] = world_recv(&world, 1, steps[i], world_key(&world, 0, 1, "a"),
                              large_in[i], sizeof large_in[i], NULL);
        world_settle(&world);
    }
    assert_true(world.sides[0].rdv->counters.wants_deferred > 0);
    for (int i = 0; i < STEPS; i++) {
        steps[STEPS + i] = world_step(&world, 0, (uint64_t)i);
        sends[i] = world_send(&world, 0, steps[STEPS + i], world_key(&world, 0, 1, "a"),
                              large_out, sizeof large_out, NULL);
        world_settle(&world);
        world_done(sends[i], TRYST_OK);
        world_done(recvs[i], TRYST_OK);
        assert_memory_equal(large_in[i], large_out, sizeof large_out);
    }
    end(steps, 2 * STEPS);
}

/* A rank that is ahead takes no other rank's room. */
static void test_others(void **state)
{
    tryst_step *steps[STEPS + 2] = {0};
    tryst_op *ahead[STEPS];
    begin(3, one_early);
    for (int i = 1; i < STEPS; i++) {
        steps[i] = world_step(&world, 0, (uint64_t)i);
        ahead[i] = world_send(&world, 0, steps[i], world_key(&world, 0, 1, "a"), out[i],
                              BYTES, NULL);
    }
    world_settle(&world);
    steps[0] = world_step(&world, 2, 1000);
    tryst_op *send = world_send(&world, 2, steps[0], world_key(&world, 2, 1, "b"), out[0],
                                BYTES, NULL);
    world_settle(&world);
    steps[STEPS] = world_step(&world, 1, 1000);
    tryst_op *recv = world_recv(&world, 1, steps[STEPS], world_key(&world, 2, 1, "b"),
                                in[0], BYTES, NULL);
    world_settle(&world);
    world_done(send, TRYST_OK);
    world_done(recv, TRYST_OK);
    for (int i = 1; i < STEPS; i++)
        world_done(ahead[i], TRYST_E_CLOSED); /* rank 1 has passed them over */
    end(steps, STEPS + 1);
}

static void check_aborted(tryst_step *step)
{
    tryst_error error = {.struct_size = sizeof error};
    assert_int_equal(tryst_step_status(step, &error), TRYST_E_ABORTED);
    assert_int_equal(error.origin_rank, 0);
    assert_int_equal(error.origin_status, TRYST_E_SYSTEM);
    assert_string_equal(error.text, "the disk is full");
}

/* No abort is lost, whether the close followed it or not. */
static void test_aborts_ahead(void **state)
{
    tryst_step *steps[2 * STEPS] = {0};
    begin(2, one_early);
    for (int i = 0; i < STEPS; i++) {
        steps[i] = world_step(&world, 0, (uint64_t)i);
        assert_int_equal(tryst_step_abort(steps[i], TRYST_E_SYSTEM, "the disk is full"),
                         TRYST_OK);
        if (i % 2 == 0) {
            assert_int_equal(tryst_step_close(steps[i], NULL), TRYST_OK);
            steps[i] = NULL;
        }
        world_settle(&world);
    }
    assert_int_equal(world_peer(&world, 1, 0)->early_aborts, STEPS);
    for (int i = 0; i < STEPS; i++) {
        steps[STEPS + i] = world_step(&world, 1, (uint64_t)i);
        world_settle(&world);
        check_aborted(steps[STEPS + i]);
    }
    assert_int_equal(world_peer(&world, 1, 0)->early_aborts, 0);
    end(steps, 2 * STEPS);
}

/* Without memory for the step, a note keeps the abort until the step opens. */
static void test_abort_without_memory(void **state)
{
    tryst_step *steps[2];
    begin(2, NULL);
    steps[0] = world_step(&world, 0, 5);
    world.hold_links = true;
    assert_int_equal(tryst_step_abort(steps[0], TRYST_E_SYSTEM, "the disk is full"),
                     TRYST_OK);
    world_settle(&world);
    world.hold_links = false;
    alloc_fail_at(1);
    world_settle(&world);
    assert_true(alloc_fail_off());
    assert_null(scope_find(&world.sides[1].rdv->scopes, 5));
    steps[1] = world_step(&world, 1, 5);
    world_settle(&world);
    check_aborted(steps[1]);
    end(steps, 2);
}

/* Early aborts are bounded: a rank that sends more is given up, and the log gives the
 * reason. */
static void test_aborts_without_end(void **state)
{
    begin(2, NULL);
    struct peer *peer = world_peer(&world, 1, 0);
    for (uint64_t id = 0; id < EARLY_ABORTS_MAX; id++)
        rendezvous_abort(peer->rdv, id, TRYST_E_SYSTEM, 0, 1, "again", peer);
    world_settle(&world);
    assert_int_equal(peer->life, PEER_ALIVE);
    rendezvous_abort(peer->rdv, EARLY_ABORTS_MAX, TRYST_E_SYSTEM, 0, 1, "again", peer);
    world_settle(&world);
    assert_int_equal(peer->life, PEER_GONE);
    assert_non_null(strstr(world.sides[1].log_text, "aborted more than 1024 steps"));
    tryst_step *step = world_step(&world, 1, EARLY_ABORTS_MAX);
    end(&step, 1);
}

static double processor_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Open, use and close n steps that are all open at once; return the processor time. */
static double steps_cost_s(int n)
{
    static uint8_t byte_out, byte_in;
    tryst_step **steps = calloc(2 * (size_t)n, sizeof *steps);
    tryst_op **ops = calloc(2 * (size_t)n, sizeof *ops);
    double begin_s = processor_s();
    begin(2, NULL);
    for (int i = 0; i < n; i++)
        for (int side = 0; side < 2; side++)
            steps[2 * i + side] = world_step(&world, side, (uint64_t)i);
    for (int i = 0; i < n; i++) {
        const char *key = world_key(&world, 0, 1, "a");
        ops[2 * i] = world_send(&world, 0, steps[2 * i], key, &byte_out, 1, NULL);
        ops[2 * i + 1] = world_recv(&world, 1, steps[2 * i + 1], key, &byte_in, 1, NULL);
        world_pass(&world);
    }
    world_settle(&world);
    for (int i = 0; i < 2 * n; i++)
        world_done(ops[i], TRYST_OK);
    end(steps, 2 * n);
    free(steps);
    free(ops);
    return processor_s() - begin_s;
}

/* A step costs the same whether hundreds or thousands of steps are open beside it. */
static void test_many_open(void **state)
{
    enum { FEW = 500, TIMES = 16, TRIES = 3 };
    double best = 1e9;
    for (int i = 0; i < TRIES && best > 4 * TIMES; i++) {
        double ratio = steps_cost_s(FEW * TIMES) / steps_cost_s(FEW);
        best = ratio < best ? ratio : best;
    }
    print_message("%d times as many open steps cost %.1f times as much\n", TIMES, best);
    assert_true(best < 4 * TIMES); /* quadratic cost would be 256 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sends_ahead),
        cmocka_unit_test(test_receives_ahead),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_aborts_ahead),
        cmocka_unit_test(test_abort_without_memory),
        cmocka_unit_test(test_aborts_without_end),
        cmocka_unit_test(test_many_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
