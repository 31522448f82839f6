/* SPDX-License-Identifier: Apache-2.0 */
/* Records that leave at once and records that wait: submissions by a thread that finds
 * the lock free, and acknowledgements that wait for a frame to carry them. The tests call
 * each pass, and each leave of a thread, one by one. */
#include "rendezvous/progress/progress.h"
#include "world.h"

enum { BYTES = 100, TURNS_IDLE = 2 };

static struct world world;
static tryst_step *steps[2];
static uint8_t out[BYTES] = {1, 2, 3}, in[BYTES];
static struct progress progress; /* of one side */
static bool timer_can;
static int timer_calls;

static void begin(void)
{
    world_open(&world, 2, NULL);
    world_join(&world, 0, 1);
    for (int i = 0; i < 2; i++)
        steps[i] = world_step(&world, i, 1);
    world_settle(&world);
}

static void end(void)
{
    for (int i = 0; i < 2; i++)
        assert_int_equal(tryst_step_close(steps[i], NULL), TRYST_OK);
    world_settle(&world);
    world_close(&world);
}

static tryst_op *send_from(int rank)
{
    const char *key = world_key(&world, rank, 1 - rank, "e");
    return world_send(&world, rank, steps[rank], key, out, BYTES, NULL);
}

static tryst_op *recv_at(int rank)
{
    const char *key = world_key(&world, 1 - rank, rank, "e");
    return world_recv(&world, rank, steps[rank], key, in, BYTES, NULL);
}

static int pass(int rank)
{
    return pass_run(world.sides[rank].rdv);
}

static void leave(int rank)
{
    pass_flush(world.sides[rank].rdv);
}

static uint64_t frames_from(int rank)
{
    return world.sides[rank].rdv->counters.frames_sent;
}

/* ---- acknowledgements -------------------------------------------------------------- */

/* Send from rank 0 to rank 1 and back; return the number of frames that rank 1 needed. */
static uint64_t round_trip(bool leaves)
{
    uint64_t before = frames_from(1);
    tryst_op *ask_recv = recv_at(1);
    tryst_op *answer_recv = recv_at(0);
    tryst_op *ask = send_from(0);
    pass(1);
    pass(0);
    pass(1);
    assert_int_equal(tryst_op_test(ask_recv), TRYST_OK);
    if (leaves)
        leave(1);
    tryst_op *answer = send_from(1);
    pass(1);
    uint64_t frames = frames_from(1) - before;
    world_settle(&world);
    world_done(ask, TRYST_OK);
    world_done(answer, TRYST_OK);
    world_done(answer_recv, TRYST_OK);
    world_done(ask_recv, TRYST_OK);
    assert_memory_equal(in, out, BYTES);
    return frames;
}

/* A reply by a busy engine carries the acknowledgement. */
static void test_goes_along(void **state)
{
    begin();
    for (int i = 0; i < 5; i++)
        assert_int_equal(round_trip(false), 1);
    end();
}

/* Open the progress of `side`, with a free or a taken lock. */
static void progress_begin(int side, bool taken)
{
    memset(&progress, 0, sizeof progress);
    assert_int_equal(progress_lock_open(&progress.lock), TRYST_OK);
    atomic_store(&progress.lock.held, taken);
    world.sides[side].rdv->progress = &progress;
}

/* In the place of the timer's (-Wl,--wrap). */
bool __wrap_ack_timer_call(struct rendezvous *rdv);
bool __wrap_ack_timer_call(struct rendezvous *rdv)
{
    (void)rdv;
    timer_calls++;
    return timer_can;
}

/* Open a world in which rank 1's acknowledgement timer can start, if `can`. */
static void begin_with_timer(bool can)
{
    begin();
    timer_calls = 0;
    timer_can = can;
    progress_begin(1, true);
}

/* Make an acknowledgement wait at rank 1 with no reply to come: rank 1 replies once,
 * receives again, and its thread leaves. Return the send that waits for the
 * acknowledgement. */
static tryst_op *stay_behind(void)
{
    (void)round_trip(true);
    tryst_op *recv = recv_at(1);
    pass(1);
    tryst_op *send = send_from(0);
    pass(0);
    pass(1);
    world_done(recv, TRYST_OK);
    leave(1);
    pass(0);
    assert_int_equal(tryst_op_test(send), TRYST_IN_PROGRESS);
    return send;
}

/* Where one rank replies to the other, the acknowledgement and the reply share one
 * frame. */
static void test_stays_for_answer(void **state)
{
    begin_with_timer(true);
    assert_int_equal(round_trip(true), 2);
    for (int i = 0; i < 5; i++)
        assert_int_equal(round_trip(true), 1);
    assert_int_equal(timer_calls, 1);
    end();
}

/* The reply does not leave: the timer sends the acknowledgement. */
static void test_timer(void **state)
{
    begin_with_timer(true);
    tryst_op *send = stay_behind();
    assert_true(acks_send(world.sides[1].rdv));
    pass(0);
    world_done(send, TRYST_OK);
    end();
}

/* With nothing to do the timer stops, and is started again when needed. */
static void test_timer_rests(void **state)
{
    int turns = 0;
    begin_with_timer(true);
    tryst_op *send = stay_behind();
    while (acks_send(world.sides[1].rdv))
        assert_true(++turns <= TURNS_IDLE);
    pass(0);
    world_done(send, TRYST_OK);
    assert_int_equal(timer_calls, 1);
    send = stay_behind();
    assert_int_equal(timer_calls, 2);
    assert_true(acks_send(world.sides[1].rdv));
    pass(0);
    world_done(send, TRYST_OK);
    end();
}

/* A thread that comes back without a reply sends the acknowledgement in its first pass
 * without an event. */
static void test_back_without_answer(void **state)
{
    begin_with_timer(true);
    tryst_op *send = stay_behind();
    assert_int_equal(pass(1), 1); /* the frame */
    pass(0);
    world_done(send, TRYST_OK);
    end();
}

/* The timer thread cannot be created: no acknowledgement may wait when a thread
 * leaves. */
static void test_no_timer(void **state)
{
    begin_with_timer(false);
    tryst_op *recv = recv_at(1);
    tryst_op *answer = send_from(1);
    pass(1);
    tryst_op *send = send_from(0);
    pass(0);
    pass(1);
    leave(1);
    pass(0);
    assert_int_equal(timer_calls, 1);
    world_done(send, TRYST_OK);
    world_done(recv, TRYST_OK);
    recv = recv_at(0);
    world_settle(&world);
    world_done(recv, TRYST_OK);
    world_done(answer, TRYST_OK);
    end();
}

/* An engine that is busy in every pass must read its clock all the same. */
static void test_busy_engine(void **state)
{
    enum { MANY = 300 };
    begin_with_timer(true);
    tryst_op *send = stay_behind();
    int passes = 0;
    world.sides[1].busy_sched = true;
    while (tryst_op_test(send) == TRYST_IN_PROGRESS && passes++ < MANY) {
        assert_true(pass(1) > 0);
        pass(0);
    }
    assert_true(passes < MANY);
    world.sides[1].busy_sched = false;
    world_done(send, TRYST_OK);
    end();
}

/* A rank that only receives may compute next, or wait elsewhere for the sender: it must
 * acknowledge before its thread leaves. */
static void test_leaves_first(void **state)
{
    begin_with_timer(true);
    for (int i = 0; i < 5; i++) {
        tryst_op *recv = recv_at(1);
        pass(1);
        tryst_op *send = send_from(0);
        pass(0);
        pass(1);
        leave(1);
        pass(0);
        world_done(send, TRYST_OK);
        world_done(recv, TRYST_OK);
    }
    assert_int_equal(timer_calls, 0);
    end();
}

/* Many receives in busy passes: acknowledgements gather, up to ACK_MAX. */
static void test_gathered(void **state)
{
    tryst_op *sends[ACK_MAX], *recvs[ACK_MAX];
    begin();
    for (int i = 0; i < ACK_MAX; i++) {
        recvs[i] = recv_at(1);
        pass(1);
    }
    pass_clock_due(world.sides[1].rdv);
    pass(1); /* so that the engine does not read the clock for a while */
    uint64_t before = frames_from(1);
    for (int i = 0; i < ACK_MAX; i++) {
        assert_int_equal(frames_from(1), before);
        sends[i] = send_from(0);
        pass(0);
        assert_true(pass(1) > 0); /* never idle */
    }
    assert_int_equal(frames_from(1), before + 1);
    pass(0);
    for (int i = 0; i < ACK_MAX; i++) {
        world_done(sends[i], TRYST_OK);
        world_done(recvs[i], TRYST_OK);
    }
    end();
}

/* Before a thread sleeps, every acknowledgement has left. */
static void test_sleep(void **state)
{
    begin_with_timer(true);
    tryst_op *send = stay_behind();
    pass(1); /* what was submitted since */
    pass_arm(world.sides[1].rdv);
    pass_awake(world.sides[1].rdv);
    pass(0);
    world_done(send, TRYST_OK);
    end();
}

/* The peer dies while an acknowledgement waits to leave for it. */
static void test_gone(void **state)
{
    begin();
    tryst_op *recv = recv_at(1);
    pass(1);
    tryst_op *send = send_from(0);
    pass(0);
    pass(1);
    world_done(recv, TRYST_OK);
    world_link_cut(&world, 0, 1);
    world_settle(&world);
    world_advance(&world, 2 * NS_PER_S);
    world_done(send, TRYST_E_PEER);
    end();
}

/* ---- submissions ------------------------------------------------------------------- */

/* Open a world in which rank 0's submissions may find the lock free. */
static void begin_with_lock(void)
{
    begin();
    progress_begin(0, false);
}

static void end_with_lock(void)
{
    assert_false(atomic_load(&progress.lock.held));
    atomic_store(&progress.lock.held, true);
    end();
}

/* The first send leaves without a pass; the next ones wait for a pass, and leave
 * together. */
static void test_leaves_at_once(void **state)
{
    tryst_op *sends[4];
    begin_with_lock();
    uint64_t before = frames_from(0);
    for (int i = 0; i < 4; i++) {
        sends[i] = send_from(0);
        assert_int_equal(frames_from(0), before + 1);
    }
    pass(0);
    assert_int_equal(frames_from(0), before + 2);
    for (int i = 0; i < 4; i++) {
        tryst_op *recv = recv_at(1);
        world_settle(&world);
        world_done(recv, TRYST_OK);
        world_done(sends[i], TRYST_OK);
    }
    end_with_lock();
}

/* A submission that finds the lock taken is queued, and queued submissions run first. */
static void test_queued_goes_first(void **state)
{
    begin_with_lock();
    atomic_store(&progress.lock.held, true);
    tryst_op *first = send_from(0);
    atomic_store(&progress.lock.held, false);
    /* the lock is free, but `first` is queued before it */
    tryst_op *second = send_from(0);
    assert_int_equal(first->state, OP_SUBMITTED);
    pass(0);
    assert_int_equal(first->queued.seq, 0);
    assert_int_equal(second->queued.seq, 1);
    tryst_op *recvs[2] = {recv_at(1), recv_at(1)};
    world_settle(&world);
    for (int i = 0; i < 2; i++)
        world_done(recvs[i], TRYST_OK);
    world_done(first, TRYST_OK);
    world_done(second, TRYST_OK);
    end_with_lock();
}

/* While a host sleeps on the descriptor, a submission is queued, so that the host is
 * woken. */
static void test_sleeper_is_woken(void **state)
{
    begin_with_lock();
    pass_arm(world.sides[0].rdv);
    uint64_t before = frames_from(0);
    tryst_op *send = send_from(0);
    assert_int_equal(frames_from(0), before);
    assert_false(mpsc_empty(&world.sides[0].rdv->submissions));
    pass_awake(world.sides[0].rdv);
    tryst_op *recv = recv_at(1);
    world_settle(&world);
    world_done(send, TRYST_OK);
    world_done(recv, TRYST_OK);
    end_with_lock();
}

/* Work that a submission leaves for a pass must keep the host from sleeping. */
static void test_arm_asks_for_a_pass(void **state)
{
    begin_with_lock();
    tryst_op *send = send_from(0);
    assert_int_equal(pass_arm(world.sides[0].rdv), TRYST_AGAIN);
    pass_awake(world.sides[0].rdv);
    pass(0);
    assert_int_not_equal(pass_arm(world.sides[0].rdv), TRYST_AGAIN);
    pass_awake(world.sides[0].rdv);
    tryst_op *recv = recv_at(1);
    world_settle(&world);
    world_done(send, TRYST_OK);
    world_done(recv, TRYST_OK);
    end_with_lock();
}

static void count_call(void *arg, tryst_op *op, tryst_status status)
{
    (void)op;
    (void)status;
    ++*(int *)arg;
}

/* An operation that completes inside a submission is reported by the next pass, never by
 * the submission. */
static void test_no_callback_inside(void **state)
{
    int calls = 0;
    tryst_op_params params = {
        .struct_size = sizeof params, .callback = count_call, .arg = &calls};
    begin_with_lock();
    tryst_op *send = send_from(1);
    world_settle(&world); /* its bytes wait at rank 0 */
    tryst_op *recv =
        world_recv(&world, 0, steps[0], world_key(&world, 1, 0, "e"), in, BYTES, &params);
    assert_memory_equal(in, out, BYTES);
    assert_int_equal(calls, 0);
    assert_int_equal(tryst_op_test(recv), TRYST_IN_PROGRESS);
    pass(0);
    assert_int_equal(calls, 1);
    world_settle(&world);
    world_done(recv, TRYST_OK);
    world_done(send, TRYST_OK);
    end_with_lock();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goes_along),
        cmocka_unit_test(test_stays_for_answer),
        cmocka_unit_test(test_timer),
        cmocka_unit_test(test_timer_rests),
        cmocka_unit_test(test_back_without_answer),
        cmocka_unit_test(test_no_timer),
        cmocka_unit_test(test_busy_engine),
        cmocka_unit_test(test_leaves_first),
        cmocka_unit_test(test_gathered),
        cmocka_unit_test(test_sleep),
        cmocka_unit_test(test_gone),
        cmocka_unit_test(test_leaves_at_once),
        cmocka_unit_test(test_queued_goes_first),
        cmocka_unit_test(test_sleeper_is_woken),
        cmocka_unit_test(test_arm_asks_for_a_pass),
        cmocka_unit_test(test_no_callback_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
