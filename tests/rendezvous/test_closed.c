/* SPDX-License-Identifier: Apache-2.0 */
/* One rank has closed a step while the other still waits in it. The waiting operations
 * must end. */
#include "world.h"

#define LARGE (64u << 10) /* beyond eager_max */
#define TICKS (2 * NS_PER_S)

static struct world world;
static uint8_t out[1 << 16], in[1 << 16];

static void begin(const struct world_setting *settings)
{
    world_open(&world, 2, settings);
    world_join(&world, 0, 1);
}

static const char *key_named(const char *edge)
{
    return world_key(&world, 0, 1, edge);
}

static tryst_op *send0(tryst_step *step, const char *edge, size_t bytes)
{
    return world_send(&world, 0, step, key_named(edge), out, bytes, NULL);
}

static tryst_op *recv1(tryst_step *step, const char *edge, size_t bytes)
{
    return world_recv(&world, 1, step, key_named(edge), in, bytes, NULL);
}

static void step_close(tryst_step *step)
{
    assert_int_equal(tryst_step_close(step, NULL), TRYST_OK);
    world_settle(&world);
}

static void error_check(tryst_op *send, const char *text)
{
    tryst_error error = {.struct_size = sizeof error};
    assert_int_equal(tryst_op_error(send, &error), TRYST_E_CLOSED);
    assert_int_equal(error.origin_rank, 1);
    if (!strstr(error.text, text))
        fail_msg("no \"%s\" in: %s", text, error.text);
    tryst_op_release(send);
}

/* Check that the send ended because rank 1 closed its step. */
static void closed_error_check(tryst_op *send)
{
    error_check(send, ": rank 1 has closed the step");
}

/* A receive never comes for a large send, nor for small sends beyond the credit. */
static void test_never_received(void **state)
{
    static const struct world_setting settings[] = {{"eager_credit", "4K"}, {0}};
    enum { SMALL = 2000 };
    tryst_op *sends[3];
    begin(settings);
    tryst_step *steps[2] = {world_step(&world, 0, 1), world_step(&world, 1, 1)};
    for (int i = 0; i < 2; i++)
        sends[i] = send0(steps[0], "small", SMALL);
    sends[2] = send0(steps[0], "large", LARGE);
    world_advance(&world, TICKS);
    for (int i = 0; i < 3; i++)
        assert_int_equal(tryst_op_test(sends[i]), TRYST_IN_PROGRESS);
    step_close(steps[1]);
    world_done(sends[0], TRYST_E_CLOSED); /* its DATA was there, and is answered */
    world_advance(&world, TICKS);
    closed_error_check(sends[1]);
    closed_error_check(sends[2]);
    tryst_op *late = send0(steps[0], "late", LARGE);
    world_advance(&world, TICKS);
    closed_error_check(late);
    step_close(steps[0]);
    world_close(&world);
}

/* The sends end without a tick: the clock stands still. */
static void test_told_at_once(void **state)
{
    begin(NULL);
    tryst_step *steps[2] = {world_step(&world, 0, 1), world_step(&world, 1, 1)};
    tryst_op *early = send0(steps[0], "early", LARGE);
    world_settle(&world);
    tryst_op *recv = recv1(steps[1], "other", LARGE);
    world_settle(&world);
    /* the WANT's CANCEL is held: the step goes on closing */
    world.sides[0].hold_frames = true;
    step_close(steps[1]);
    assert_int_equal(tryst_op_test(early), TRYST_IN_PROGRESS);
    world.sides[0].hold_frames = false;
    world_settle(&world);
    world_done(recv, TRYST_E_CANCELED);
    closed_error_check(early);
    tryst_op *late = send0(steps[0], "late", LARGE);
    world_settle(&world);
    closed_error_check(late);
    step_close(steps[0]);
    world_close(&world);
}

/* The producer closes its step while a small send has no receive. The send and the close
 * must end, whatever the consumer does. */
static void test_close_of_unreceived(void **state)
{
    tryst_op *close_op;
    begin(NULL);
    tryst_step *steps[2] = {world_step(&world, 0, 1), world_step(&world, 1, 1)};
    tryst_op *send = send0(steps[0], "small", 100);
    world_settle(&world);
    assert_int_equal(tryst_step_close(steps[0], &close_op), TRYST_OK);
    world_settle(&world);
    world_done(send, TRYST_E_CANCELED);
    world_done(close_op, TRYST_OK);
    assert_false(
        /* The send still holds its credit. */
        list_empty(&world.sides[0].rdv->scopes.all));
    tryst_op *recv = recv1(steps[1], "small", 100);
    world_settle(&world);
    world_done(recv, TRYST_E_CANCELED);
    assert_true(list_empty(&world.sides[0].rdv->scopes.all));
    assert_int_equal(peer_out(world_peer(&world, 0, 1))->eager_used, 0);
    step_close(steps[1]);
    world_close(&world);
}

/* A posted receive ends before its WANT has left: with its step, by a cancel, or while
 * the OFFER of the shape that it requested is in flight. */
static void test_given_up_unannounced(void **state)
{
    for (int canceled = 0; canceled < 2; canceled++) {
        begin(NULL);
        tryst_step *steps[2] = {world_step(&world, 0, 1), world_step(&world, 1, 1)};
        tryst_op *send = send0(steps[0], "a", LARGE);
        world_settle(&world);
        tryst_op *recv = recv1(steps[1], "a", LARGE);
        if (canceled)
            tryst_op_cancel(recv);
        step_close(steps[1]);
        world_advance(&world, TICKS);
        world_done(recv, TRYST_E_CANCELED);
        tryst_status status = tryst_op_test(send);
        assert_true(status == TRYST_E_CANCELED || status == TRYST_E_CLOSED);
        tryst_op_release(send);
        step_close(steps[0]);
        world_close(&world);
    }
}

static tryst_status on_alloc(void *arg, tryst_tensor *tensor)
{
    tensor->data = arg;
    return TRYST_OK;
}

static void test_shape_crosses_close(void **state)
{
    tryst_op_params params = {
        .struct_size = sizeof params, .alloc = on_alloc, .alloc_arg = in};
    begin(NULL);
    tryst_step *steps[2] = {world_step(&world, 0, 1), world_step(&world, 1, 1)};
    tryst_op *recv = world_recv(&world, 1, steps[1], key_named("a"), NULL, 0, &params);
    world_settle(&world);
    world.sides[1].hold_frames = true;
    tryst_op *send = send0(steps[0], "a", LARGE);
    world_settle(&world); /* the OFFER is in flight */
    step_close(steps[1]);
    world.sides[1].hold_frames = false;
    world_advance(&world, TICKS);
    world_done(recv, TRYST_E_CANCELED);
    tryst_status status = tryst_op_test(send);
    assert_true(status == TRYST_E_CANCELED || status == TRYST_E_CLOSED);
    tryst_op_release(send);
    step_close(steps[0]);
    world_close(&world);
}

/* The consumer never opens the step, but opens a later one. Until then the send must
 * wait. */
static void test_passed_over(void **state)
{
    begin(NULL);
    tryst_step *first = world_step(&world, 0, 1), *second = world_step(&world, 0, 2);
    tryst_op *lost = send0(first, "a", LARGE), *met = send0(second, "a", LARGE);
    world_advance(&world, 5 * NS_PER_S);
    assert_int_equal(tryst_op_test(lost), TRYST_IN_PROGRESS);
    tryst_step *theirs = world_step(&world, 1, 2);
    world_advance(&world, TICKS);
    error_check(lost, "rank 1 is at step 2 and has passed step 1 without opening it");
    assert_int_equal(tryst_op_test(met), TRYST_IN_PROGRESS);
    tryst_op *recv = recv1(theirs, "a", LARGE);
    world_settle(&world);
    world_done(met, TRYST_OK);
    world_done(recv, TRYST_OK);
    step_close(first);
    step_close(second);
    step_close(theirs);
    world_close(&world);
}

/* The answer to ASK must not overtake the answer to a WANT: while the consumer's step
 * still closes, ASK gets no answer. */
static void test_asked_while_closing(void **state)
{
    begin(NULL);
    tryst_step *steps[2] = {world_step(&world, 0, 1), world_step(&world, 1, 1)};
    tryst_op *never = send0(steps[0], "never", LARGE);
    tryst_op *recv = recv1(steps[1], "a", LARGE);
    world_settle(&world);
    world.sides[0].hold_frames = true; /* CANCEL is held */
    step_close(steps[1]);
    world_advance(&world, TICKS);
    assert_int_equal(tryst_op_test(recv), TRYST_IN_PROGRESS);
    assert_int_equal(tryst_op_test(never), TRYST_IN_PROGRESS);
    world.sides[0].hold_frames = false;
    world_advance(&world, TICKS);
    world_done(recv, TRYST_E_CANCELED);
    closed_error_check(never);
    step_close(steps[0]);
    world_close(&world);
}

/* So it is if the log has warned about the receive, which waits for its own answer. */
static void test_asked_after_a_warning(void **state)
{
    static const struct world_setting settings[] = {{"stall_warn", "5s"}, {0}};
    begin(settings);
    tryst_step *steps[2] = {world_step(&world, 0, 1), world_step(&world, 1, 1)};
    tryst_op *never = send0(steps[0], "never", LARGE);
    tryst_op *recv = recv1(steps[1], "a", LARGE);
    for (int i = 0; i < 6; i++)
        world_advance(&world, NS_PER_S);
    assert_false(list_empty(&recv->scope->warned));
    world.sides[1].hold_frames = true; /* ASK has come, the answer to CANCEL is held */
    step_close(steps[1]);
    world_advance(&world, TICKS);
    assert_int_equal(tryst_op_test(recv), TRYST_IN_PROGRESS);
    assert_int_equal(tryst_op_test(never), TRYST_IN_PROGRESS);
    world.sides[1].hold_frames = false;
    world_advance(&world, TICKS);
    world_done(recv, TRYST_E_CANCELED);
    closed_error_check(never);
    step_close(steps[0]);
    world_close(&world);
}

/* Sends begin to wait in one step more than is noted between two ticks, and the receiver
 * has closed all of these steps: the sends of the newest ones end without a tick, those
 * of the oldest at the tick. */
static void test_told_at_once_many(void **state)
{
    enum { STEPS = REQUESTS_NEW_MAX + 1 };
    tryst_step *steps[2][STEPS];
    tryst_op *sends[STEPS];
    begin(NULL);
    for (uint64_t i = 0; i < STEPS; i++)
        for (int rank = 0; rank < 2; rank++)
            steps[rank][i] = world_step(&world, rank, i + 1);
    for (int i = 0; i < STEPS; i++)
        step_close(steps[1][i]);
    for (int i = 0; i < STEPS; i++)
        sends[i] = send0(steps[0][i], "a", LARGE);
    world_settle(&world);
    assert_int_equal(tryst_op_test(sends[0]), TRYST_IN_PROGRESS);
    for (int i = 1; i < STEPS; i++)
        closed_error_check(sends[i]);
    world_advance(&world, TICKS);
    closed_error_check(sends[0]);
    for (int i = 0; i < STEPS; i++)
        step_close(steps[0][i]);
    world_close(&world);
}

/* The closing rank has a small send left. ASK must be answered all the same. */
static void test_asked_while_a_send_is_left(void **state)
{
    begin(NULL);
    tryst_step *steps[2] = {world_step(&world, 0, 1), world_step(&world, 1, 1)};
    tryst_op *small =
        world_send(&world, 1, steps[1], world_key(&world, 1, 0, "small"), in, 100, NULL);
    tryst_op *large = send0(steps[0], "large", LARGE);
    world_settle(&world);
    step_close(steps[1]);
    world_advance(&world, TICKS);
    world_done(small, TRYST_E_CANCELED);
    closed_error_check(large);
    step_close(steps[0]);
    world_close(&world);
}

/* More answers than all frame credits hold: the rest leaves when credit returns. */
static void test_answers_beyond_credit(void **state)
{
    static const struct world_setting settings[] = {
        {"frame_credits", "2"}, {"wants_max", "1024"}, {0}};
    enum { RECVS = 600 };
    static tryst_op *recvs[RECVS];
    begin(settings);
    tryst_step *steps[2] = {world_step(&world, 0, 1), world_step(&world, 1, 1)};
    for (int i = 0; i < RECVS; i++)
        recvs[i] = recv1(steps[1], "a", LARGE);
    world_settle(&world);
    step_close(steps[0]);
    for (int i = 0; i < RECVS; i++)
        world_done(recvs[i], TRYST_E_CLOSED);
    step_close(steps[1]);
    world_close(&world);
}

/* More open steps than one frame holds ASK records: every step gets its ASK within one
 * tick. */
static void test_many_steps(void **state)
{
    enum { STEPS = 1001 };
    static tryst_step *steps[2][STEPS];
    static tryst_op *sends[STEPS];
    begin(NULL);
    for (uint64_t i = 0; i < STEPS; i++)
        for (int rank = 0; rank < 2; rank++)
            steps[rank][i] = world_step(&world, rank, i + 1);
    for (int i = 0; i < STEPS; i++)
        sends[i] = send0(steps[0][i], "a", LARGE);
    for (int i = 1; i < STEPS; i += 2)
        step_close(steps[1][i]);
    world_advance(&world, NS_PER_S);
    for (int i = 1; i < STEPS; i += 2)
        closed_error_check(sends[i]);
    for (int i = 0; i < STEPS; i += 2)
        assert_int_equal(tryst_op_test(sends[i]), TRYST_IN_PROGRESS);
    for (int i = 0; i < STEPS; i++) {
        step_close(steps[0][i]);
        if (i % 2 == 0) {
            step_close(steps[1][i]);
            world_done(sends[i], TRYST_E_CANCELED);
        }
    }
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never_received),
        cmocka_unit_test(test_told_at_once),
        cmocka_unit_test(test_close_of_unreceived),
        cmocka_unit_test(test_given_up_unannounced),
        cmocka_unit_test(test_shape_crosses_close),
        cmocka_unit_test(test_passed_over),
        cmocka_unit_test(test_asked_while_closing),
        cmocka_unit_test(test_asked_after_a_warning),
        cmocka_unit_test(test_told_at_once_many),
        cmocka_unit_test(test_asked_while_a_send_is_left),
        cmocka_unit_test(test_answers_beyond_credit),
        cmocka_unit_test(test_many_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
