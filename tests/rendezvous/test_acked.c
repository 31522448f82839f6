/* SPDX-License-Identifier: Apache-2.0 */
/* Small tensors between engines, with acknowledgements on every special path: kept,
 * refused, cancelled, without credit, without memory, and at ranks that leave or die. */
#include "world.h"

enum { BYTES = 8, CHARGE = EAGER_OVERHEAD_BYTES + BYTES, MANY = 300 };

static struct world world;
static tryst_step *steps[2];
static uint64_t out[MANY], in[MANY];
static tryst_op *sends[MANY], *recvs[MANY];

static void begin(const struct world_setting *settings)
{
    world_open(&world, 2, settings);
    world_join(&world, 0, 1);
    for (int i = 0; i < 2; i++)
        steps[i] = world_step(&world, i, 1);
    world_settle(&world);
    for (uint64_t i = 0; i < MANY; i++)
        out[i] = 1000 + i;
    memset(in, 0, sizeof in);
}

/* Check that no small tensor is left between the two ranks. */
static void check_clear(void)
{
    for (int i = 0; i < 2; i++) {
        struct peer *peer = world_peer(&world, i, 1 - i);
        assert_int_equal(peer->life, PEER_ALIVE);
        assert_int_equal(peer->out.eager_used, 0);
        assert_int_equal(peer->in.unexpected_bytes, 0);
        assert_int_equal(peer->out.answers_count, 0);
        assert_true(urgent_empty(&peer->out.pending) &&
                    urgent_empty(&peer->out.blocked_sends) &&
                    urgent_empty(&peer->in.unannounced) &&
                    urgent_empty(&peer->out.wants_waiting));
        assert_true(peer->out.stream.acked == peer->out.stream.next &&
                    !peer->out.stream.mask);
        for (unsigned l = 0; l < STREAM_LATE_LISTS; l++)
            assert_true(list_empty(&peer->out.stream.ring->late[l]));
        for (unsigned n = 0; n < STREAM_RING; n++)
            assert_null(peer->out.stream.ring->sends[n]);
    }
}

static void steps_close(void)
{
    for (int i = 0; i < 2; i++)
        if (steps[i])
            assert_int_equal(tryst_step_close(steps[i], NULL), TRYST_OK);
    memset(steps, 0, sizeof steps);
    world_settle(&world);
}

static void end(void)
{
    steps_close();
    world_advance(&world, NS_PER_S);
    check_clear();
    world_close(&world);
}

static const char *key_of(int i)
{
    char edge[16];
    snprintf(edge, sizeof edge, "e%d", i);
    return world_key(&world, 0, 1, edge);
}

/* Send tensor i of rank 0, which has its own key. */
static void send_one(int i)
{
    sends[i] = world_send(&world, 0, steps[0], key_of(i), &out[i], BYTES, NULL);
}

static void recv_one(int i)
{
    recvs[i] = world_recv(&world, 1, steps[1], key_of(i), &in[i], BYTES, NULL);
}

static void both_done(int i, tryst_status sent, tryst_status received)
{
    world_done(sends[i], sent);
    world_done(recvs[i], received);
    if (received == TRYST_OK)
        assert_true(in[i] == out[i]);
}

/* Make `count` passes without a doze and without a tick. */
static void passes(int count)
{
    for (int i = 0; i < count; i++)
        world_pass(&world);
}

/* ---- kept -------------------------------------------------------------------------- */

/* The receives of the oldest tensors are missing, while later tensors have theirs. The
 * consumer must keep the old ones, no other tensor may wait for them, and in the end they
 * complete in reverse order. */
static void test_kept_reversed(void **state)
{
    enum { KEPT = 200 };
    begin(NULL);
    for (int i = 0; i < KEPT; i++)
        send_one(i);
    world_settle(&world);
    for (int i = KEPT; i < MANY; i++) {
        recv_one(i);
        send_one(i);
        world_settle(&world);
        both_done(i, TRYST_OK, TRYST_OK);
    }
    struct peer *peer = world_peer(&world, 0, 1);
    assert_true(peer->out.stream.next - peer->out.stream.acked <= STREAM_WINDOW);
    for (int i = KEPT - 1; i >= 0; i--) {
        assert_int_equal(tryst_op_test(sends[i]), TRYST_IN_PROGRESS);
        recv_one(i);
        world_settle(&world);
        both_done(i, TRYST_OK, TRYST_OK);
    }
    check_clear();
    end();
}

/* More tensors leave than the ring holds, one after the other, while one receive is
 * missing all the time. */
static void test_ring_goes_round(void **state)
{
    begin(NULL);
    send_one(0);
    for (int round = 0; round < 5; round++) {
        for (int i = 1; i < MANY; i++) {
            recv_one(i);
            send_one(i);
            passes(1);
        }
        world_settle(&world);
        for (int i = 1; i < MANY; i++)
            both_done(i, TRYST_OK, TRYST_OK);
    }
    assert_int_equal(tryst_op_test(sends[0]), TRYST_IN_PROGRESS);
    recv_one(0);
    world_settle(&world);
    both_done(0, TRYST_OK, TRYST_OK);
    end();
}

/* More unmatched DATA than the ring holds fill it in both directions at once, or towards
 * this rank itself. The records behind the DATA must still leave: a CANCEL, and the WANTs
 * of a transfer each way. */
static void ring_full(int other)
{
    enum { LARGE = 100000 };
    static uint8_t large[2][2][LARGE];
    const int ranks[2] = {0, other};
    tryst_op *small[2][MANY], *bulk[2][2];
    char edge[32];
    begin(NULL);
    for (int i = 0; i < MANY; i++)
        for (int end = 0; end < 2; end++) {
            snprintf(edge, sizeof edge, "%d.%d", end, i);
            small[end][i] = world_send(
                &world, ranks[end], steps[ranks[end]],
                world_key(&world, ranks[end], ranks[1 - end], edge), NULL, 0, NULL);
        }
    for (int end = 0; end < 2; end++) {
        const char *key =
            world_key(&world, ranks[1 - end], ranks[end], end ? "large1" : "large0");
        memset(large[end][1], end + 1, LARGE);
        bulk[end][0] = world_recv(&world, ranks[end], steps[ranks[end]], key,
                                  large[end][0], LARGE, NULL);
        bulk[end][1] = world_send(&world, ranks[1 - end], steps[ranks[1 - end]], key,
                                  large[end][1], LARGE, NULL);
    }
    world.sides[0].hold_frames = world.sides[1].hold_frames = true;
    passes(4);
    for (int end = 0; end < 2; end++) {
        const struct stream_out *stream =
            &world_peer(&world, ranks[end], ranks[1 - end])->out.stream;
        assert_int_equal(stream->next - stream->acked, STREAM_RING);
    }
    assert_int_equal(tryst_op_cancel(small[0][0]), TRYST_OK);
    world.sides[0].hold_frames = world.sides[1].hold_frames = false;
    world_settle(&world);
    assert_int_equal(tryst_op_test(small[0][0]), TRYST_E_CANCELED);
    for (int end = 0; end < 2; end++)
        for (int i = 0; i < 2; i++)
            world_done(bulk[end][i], TRYST_OK);
    assert_memory_equal(large[0][0], large[0][1], LARGE);
    assert_memory_equal(large[1][0], large[1][1], LARGE);
    for (int end = 0; end < 2; end++)
        for (int i = 0; i < MANY; i++)
            tryst_op_release(small[end][i]);
    steps_close();
    world_close(&world);
}

static void test_ring_full(void **state)
{
    ring_full(1);
    ring_full(0);
}

/* Let `kept` DATA wait at rank 1, which has sent KEPT for all but the newest
 * STREAM_WINDOW. */
static void keep(int kept)
{
    for (int i = 0; i < kept; i++)
        send_one(i);
    world_settle(&world);
    for (int i = 0; i < kept; i++)
        assert_int_equal(tryst_op_test(sends[i]), TRYST_IN_PROGRESS);
    assert_true(world_peer(&world, 0, 1)->out.stream.acked ==
                (uint64_t)(kept > (int)STREAM_WINDOW ? kept - (int)STREAM_WINDOW : 0));
}

static void test_cancel_kept(void **state)
{
    enum { KEPT = 100 };
    begin(NULL);
    keep(KEPT);
    assert_int_equal(tryst_op_cancel(sends[0]), TRYST_OK); /* KEPT has been sent for it */
    assert_int_equal(tryst_op_cancel(sends[KEPT - 1]), TRYST_OK); /* still in the ring */
    world_settle(&world);
    assert_int_equal(tryst_op_test(sends[0]), TRYST_E_CANCELED);
    assert_int_equal(tryst_op_test(sends[KEPT - 1]), TRYST_E_CANCELED);
    for (int i = 0; i < KEPT; i++)
        recv_one(i);
    world_settle(&world);
    for (int i = 0; i < KEPT; i++) {
        tryst_status status = i == 0 || i == KEPT - 1 ? TRYST_E_CANCELED : TRYST_OK;
        both_done(i, status, status);
    }
    check_clear();
    end();
}

/* A cancel crosses the record that ends the send: the record decides. */
static void test_cancel_kept_crosses(void **state)
{
    begin(NULL);
    keep(100);
    world.sides[0].hold_frames = world.sides[1].hold_frames = true;
    for (int i = 0; i < 100; i += 33)
        assert_int_equal(tryst_op_cancel(sends[i]), TRYST_OK);
    for (int i = 0; i < 100; i++)
        recv_one(i);
    world_settle(&world);
    world.sides[0].hold_frames = world.sides[1].hold_frames = false;
    world_settle(&world);
    for (int i = 0; i < 100; i++)
        both_done(i, TRYST_OK, TRYST_OK);
    check_clear();
    end();
}

static void test_recv_canceled(void **state)
{
    begin(NULL);
    /* The DATA has not come. */
    recv_one(0);
    passes(3);
    assert_int_equal(tryst_op_cancel(recvs[0]), TRYST_OK);
    world_settle(&world);
    assert_int_equal(tryst_op_test(recvs[0]), TRYST_E_CANCELED);
    send_one(0);
    world_settle(&world);
    both_done(0, TRYST_E_CANCELED, TRYST_E_CANCELED);
    /* The DATA is in flight. */
    recv_one(1);
    passes(3);
    world.sides[1].hold_frames = true;
    send_one(1);
    passes(3);
    assert_int_equal(tryst_op_cancel(recvs[1]), TRYST_OK);
    passes(3);
    world.sides[1].hold_frames = false;
    world_settle(&world);
    both_done(1, TRYST_E_CANCELED, TRYST_E_CANCELED);
    /* The DATA has come: the cancel is too late. */
    send_one(2);
    world_settle(&world);
    recv_one(2);
    assert_int_equal(tryst_op_cancel(recvs[2]), TRYST_OK);
    world_settle(&world);
    both_done(2, TRYST_OK, TRYST_OK);
    /* The next number of that key is not affected. */
    send_one(1);
    recv_one(1);
    world_settle(&world);
    both_done(1, TRYST_OK, TRYST_OK);
    check_clear();
    end();
}

/* DATA meets a cancelled receive, and waits so long that KEPT is sent for it. */
static void test_void_passed(void **state)
{
    begin(NULL);
    world.sides[0].hold_frames = true;
    recv_one(0);
    passes(2);
    assert_int_equal(tryst_op_cancel(recvs[0]), TRYST_OK);
    passes(2);
    for (int i = 0; i < 150; i++)
        send_one(i);
    passes(20);
    world.sides[0].hold_frames = false;
    world_settle(&world);
    both_done(0, TRYST_E_CANCELED, TRYST_E_CANCELED);
    for (int i = 1; i < 150; i++)
        recv_one(i);
    world_settle(&world);
    for (int i = 1; i < 150; i++)
        both_done(i, TRYST_OK, TRYST_OK);
    check_clear();
    end();
}

/* The consumer closes the step of 200 kept DATA and aborts another step. */
static void test_closed_with_kept(void **state)
{
    for (int aborts = 0; aborts < 2; aborts++) {
        begin(NULL);
        keep(200);
        world.sides[0].hold_frames = aborts; /* so that all answers wait */
        if (aborts)
            assert_int_equal(tryst_step_abort(steps[1], TRYST_E_SYSTEM, "no"), TRYST_OK);
        else
            assert_int_equal(tryst_step_close(steps[1], NULL), TRYST_OK);
        steps[1] = aborts ? steps[1] : NULL;
        world_settle(&world);
        world.sides[0].hold_frames = false;
        world_settle(&world);
        for (int i = 0; i < 200; i++)
            world_done(sends[i], aborts ? TRYST_E_ABORTED : TRYST_E_CLOSED);
        check_clear();
        end();
    }
}

static void test_dies_with_kept(void **state)
{
    begin(NULL);
    keep(150);
    recv_one(200);
    world_settle(&world);
    world_link_cut(&world, 0, 1);
    world_settle(&world);
    world_advance(&world, 2 * NS_PER_S);
    for (int i = 0; i < 150; i++)
        world_done(sends[i], TRYST_E_PEER);
    world_done(recvs[200], TRYST_E_PEER);
    steps_close();
    world_close(&world);
}

/* ---- credit ------------------------------------------------------------------------ */

static const struct world_setting small_credit[] = {{"eager_credit", "4K"}, {0}};
enum { FIT = 4096 / CHARGE };

/* Kept DATA hold all credit. Sends beyond the credit must meet receives that were posted
 * before them, after them, or while no thread sleeps. */
static void test_blocked(void **state)
{
    begin(small_credit);
    for (int i = 100; i < 110; i++)
        recv_one(i);
    passes(3);
    for (int i = 0; i < FIT; i++)
        send_one(i);
    passes(10);
    assert_false(world_peer(&world, 1, 0)->in.header_flags & FRAME_BLOCKED);
    for (int i = 100; i < 120; i++)
        send_one(i);
    passes(10);
    for (int i = 100; i < 110; i++) /* BLOCKED made rank 1 announce them, not a tick */
        both_done(i, TRYST_OK, TRYST_OK);
    assert_true(world_peer(&world, 1, 0)->in.header_flags & FRAME_BLOCKED);
    for (int i = 110; i < 120; i++) {
        recv_one(i);
        passes(4);
        both_done(i, TRYST_OK, TRYST_OK);
    }
    assert_int_equal(world_peer(&world, 0, 1)->out.eager_used, FIT * CHARGE);
    for (int i = FIT - 1; i >= 0; i--) {
        recv_one(i);
        passes(10);
        both_done(i, TRYST_OK, TRYST_OK);
    }
    /* The next frame withdraws BLOCKED. */
    send_one(120);
    recv_one(120);
    passes(10);
    both_done(120, TRYST_OK, TRYST_OK);
    assert_false(world_peer(&world, 1, 0)->in.header_flags & FRAME_BLOCKED);
    check_clear();
    end();
}

/* A record returns credit as a header does. */
static void test_credit_by_record(void **state)
{
    begin(small_credit);
    send_one(0);
    for (int i = 1; i <= (int)STREAM_WINDOW + 1; i++) {
        recv_one(i);
        send_one(i);
        passes(6);
        both_done(i, TRYST_OK, TRYST_OK);
    }
    for (int i = 100; i < 100 + FIT; i++) /* the last of these finds no credit */
        send_one(i);
    passes(10);
    struct peer *peer = world_peer(&world, 0, 1);
    assert_false(urgent_empty(&peer->out.blocked_sends));
    assert_true(sends[0]->number < peer->out.stream.acked); /* its DONE is a record */
    recv_one(0);
    passes(10);
    both_done(0, TRYST_OK, TRYST_OK);
    assert_true(urgent_empty(&peer->out.blocked_sends));
    for (int i = 100; i < 100 + FIT; i++)
        recv_one(i);
    world_settle(&world);
    for (int i = 100; i < 100 + FIT; i++)
        both_done(i, TRYST_OK, TRYST_OK);
    check_clear();
    end();
}

/* A send that waits for credit is cancelled, and so is a receive that such a send would
 * have met. */
static void test_blocked_canceled(void **state)
{
    begin(small_credit);
    for (int i = 0; i < FIT + 2; i++)
        send_one(i);
    passes(10);
    assert_int_equal(tryst_op_cancel(sends[FIT]), TRYST_OK);
    recv_one(FIT);
    recv_one(FIT + 1);
    assert_int_equal(tryst_op_cancel(recvs[FIT + 1]), TRYST_OK);
    world_settle(&world);
    assert_int_equal(tryst_op_test(sends[FIT]), TRYST_E_CANCELED);
    assert_int_equal(tryst_op_test(recvs[FIT]), TRYST_E_CANCELED);
    assert_int_equal(tryst_op_test(recvs[FIT + 1]), tryst_op_test(sends[FIT + 1]));
    tryst_op_release(sends[FIT]);
    tryst_op_release(recvs[FIT]);
    tryst_op_release(sends[FIT + 1]);
    tryst_op_release(recvs[FIT + 1]);
    for (int i = 0; i < FIT; i++)
        recv_one(i);
    world_settle(&world);
    for (int i = 0; i < FIT; i++)
        both_done(i, TRYST_OK, TRYST_OK);
    check_clear();
    end();
}

/* ---- many answers in few frames ---------------------------------------------------- */

static void test_few_frames(void **state)
{
    static const struct world_setting two[] = {
        {"frame_credits", "2"}, {"wants_max", "3"}, {0}};
    begin(two);
    world.sides[0].hold_frames = true;
    for (int i = 0; i < 240; i++) {
        send_one(i);
        passes(1);
    }
    world_settle(&world);
    for (int i = 239; i >= 0; i -= 2) {
        recv_one(i);
        passes(1);
    }
    world_settle(&world);
    assert_int_equal(tryst_step_abort(steps[1], TRYST_E_SYSTEM, "no"), TRYST_OK);
    world_settle(&world);
    world.sides[0].hold_frames = false;
    world_settle(&world);
    for (int i = 239; i >= 0; i--) {
        tryst_status status = tryst_op_test(sends[i]);
        assert_true(status == TRYST_OK || status == TRYST_E_ABORTED);
        tryst_op_release(sends[i]);
        if (i % 2)
            tryst_op_release(recvs[i]);
    }
    check_clear();
    end();
}

/* ---- names ------------------------------------------------------------------------- */

/* Use each of `keys` keys in turn, three times; return how many of the last turn were
 * declared anew. */
static uint64_t names_declared_last(int keys)
{
    enum { ROUNDS = 3 };
    uint64_t before = 0;
    begin(NULL);
    const uint64_t *declared = &world_peer(&world, 0, 1)->out.names.count;
    for (int round = 0; round < ROUNDS; round++) {
        before = *declared;
        for (int k = 0; k < keys; k++) {
            uint64_t sent = (uint64_t)round << 32 | (uint64_t)k, got = 0;
            char edge[16];
            snprintf(edge, sizeof edge, "k%d", k);
            bool recv_first = k % 2;
            const char *key = world_key(&world, 0, 1, edge);
            tryst_op *recv = NULL;
            if (recv_first)
                recv = world_recv(&world, 1, steps[1], key, &got, BYTES, NULL);
            tryst_op *send = world_send(&world, 0, steps[0], key, &sent, BYTES, NULL);
            passes(2);
            if (!recv_first)
                recv = world_recv(&world, 1, steps[1], key, &got, BYTES, NULL);
            passes(4);
            world_done(send, TRYST_OK);
            world_done(recv, TRYST_OK);
            assert_true(got == sent);
        }
        if (round == 0)
            assert_int_equal(*declared, keys);
    }
    uint64_t last = *declared - before;
    end();
    return last;
}

/* Up to NAMES_MAX keys keep their names from turn to turn; of more keys none does. */
static void test_many_names(void **state)
{
    assert_int_equal(names_declared_last(NAMES_FIRST / 2), 0);
    assert_int_equal(names_declared_last(1000), 0);
    assert_int_equal(names_declared_last(NAMES_MAX), 0);
    assert_int_equal(names_declared_last(NAMES_MAX + 1), NAMES_MAX + 1);
}

/* ---- memory ------------------------------------------------------------------------ */

/* Each allocation fails in turn. Both ends must report the same status, and nothing may
 * be left. */
static tryst_status one_exchange(void)
{
    tryst_step *mine[2] = {NULL};
    tryst_op *ops[4] = {NULL};
    uint64_t id = 100, got[2] = {0};
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .dtype = TRYST_DTYPE_U8,
                           .count = BYTES,
                           .data = &out[0]};
    tryst_status status = TRYST_OK;
    while (mine[0] == NULL || mine[1] == NULL) {
        for (int i = 0; i < 2; i++)
            if (!mine[i])
                (void)tryst_step_open(&world.sides[i].group, id, &mine[i]);
    }
    for (int i = 0; i < 4; i++) { /* a receive before its send, and one after */
        bool sends_now = i == 1 || i == 2;
        const char *key = world_key(&world, 0, 1, i < 2 ? "x" : "y");
        tensor.data = sends_now ? &out[0] : &got[i / 2];
        while (!ops[i]) {
            tryst_status made = sends_now
                                    ? tryst_send(mine[0], key, &tensor, NULL, &ops[i])
                                    : tryst_recv(mine[1], key, &tensor, NULL, &ops[i]);
            if (made == TRYST_E_ABORTED)
                break;
            assert_true(made == TRYST_OK || made == TRYST_E_NOMEM);
        }
        passes(3);
    }
    world_settle(&world);
    world_advance(&world, 2 * NS_PER_S);
    for (int i = 0; i < 4; i++) {
        tryst_status one = ops[i] ? tryst_op_test(ops[i]) : TRYST_E_ABORTED;
        tryst_op *other = ops[i ^ 1];
        assert_int_not_equal(one, TRYST_IN_PROGRESS);
        assert_int_equal(one == TRYST_OK, other && tryst_op_test(other) == TRYST_OK);
        status = one == TRYST_OK ? status : one;
        assert_true(!(i == 0 || i == 3) || one != TRYST_OK || got[i / 2] == out[0]);
    }
    for (int i = 0; i < 4; i++)
        tryst_op_release(ops[i]);
    for (int i = 0; i < 2; i++)
        assert_int_equal(tryst_step_close(mine[i], NULL), TRYST_OK);
    world_settle(&world);
    return status;
}

static void test_no_memory(void **state)
{
    bool failed = true;
    int tries = 0;
    for (uint64_t nth = 1; failed; nth++) {
        begin(NULL);
        alloc_fail_at(nth);
        tryst_status status = one_exchange();
        failed = alloc_fail_off();
        assert_true(failed || status == TRYST_OK);
        tries++;
        end();
    }
    print_message("%d allocations failed in turn\n", tries - 1);
    assert_true(tries > 8);
}

/* ---- leaving ----------------------------------------------------------------------- */

/* Rank 1 has received, and closes its group at once, as context/ does. The received
 * tensor must be acknowledged before LEAVE is sent. */
static void test_leaves_at_once(void **state)
{
    begin(NULL);
    recv_one(0);
    world_settle(&world);
    send_one(0);
    pass_run(world.sides[0].rdv);
    pass_run(world.sides[1].rdv); /* not idle: the acknowledgement waits */
    world_done(recvs[0], TRYST_OK);
    struct rendezvous *rdv = world.sides[1].rdv;
    assert_int_equal(tryst_step_close(steps[1], NULL), TRYST_OK);
    pass_run(rdv);
    world_leave_next(rdv);
    for (int i = 0; i < 10 && rendezvous_leave_poll(rdv) == LEAVE_BEGUN; i++)
        pass_run(rdv);
    assert_int_equal(rdv->leave.state, LEAVE_SENT);
    world.sides[1].still = true;
    world_settle(&world);
    world_advance(&world, 2 * NS_PER_S);
    world_done(sends[0], TRYST_OK);
    steps[1] = NULL;
    steps_close();
    world.sides[1].still = false;
    world_close(&world);
}

/* LEAVE, on another connection, overtakes the acknowledgement. The acknowledgement must
 * still count. */
static void test_leave_overtakes(void **state)
{
    begin(NULL);
    recv_one(0);
    send_one(0);
    world.sides[0].hold_frames = true;
    world_settle(&world);
    world_done(recvs[0], TRYST_OK);
    struct rendezvous *rdv = world.sides[1].rdv;
    assert_int_equal(tryst_step_close(steps[1], NULL), TRYST_OK);
    world_settle(&world);
    world_leave_next(rdv);
    for (int i = 0; i < 10 && rendezvous_leave_poll(rdv) == LEAVE_BEGUN; i++)
        pass_run(rdv);
    assert_int_equal(rdv->leave.state, LEAVE_SENT);
    rdv->leave.until_ns = UINT64_MAX; /* only what the peer has read decides */
    world_settle(&world);
    world_advance(&world, NS_PER_S);
    assert_int_equal(tryst_op_test(sends[0]), TRYST_IN_PROGRESS);
    /* so rank 1 does not cut its endpoint yet */
    assert_int_equal(rendezvous_leave_poll(rdv), LEAVE_SENT);
    world.sides[0].hold_frames = false;
    world_settle(&world);
    world_done(sends[0], TRYST_OK);
    world_advance(&world, NS_PER_S);
    assert_int_equal(rendezvous_leave_poll(rdv), LEAVE_CUT);
    steps[1] = NULL;
    steps_close();
    world_close(&world);
}

/* ---- at random --------------------------------------------------------------------- */

enum { WAYS = 2, KEYS = 7, EACH = 90, PAIRS = WAYS * KEYS * EACH };

/* The i-th send and the i-th receive of a key. */
struct pair {
    tryst_op *ends[2]; /* the send, the receive */
    uint64_t out[4], in[4];
};

static struct pair pairs[WAYS][KEYS][EACH];
static int submitted[WAYS][KEYS][2];
static struct random rng;

static bool one_in(uint64_t n)
{
    return random_range(&rng, n) == 0;
}

/* Submit the next operation of key k: way 0 from rank 0, way 1 from rank 1; end 0
 * sends. */
static void submit_next(int way, int k, int end)
{
    int i = submitted[way][k][end];
    if (i == EACH)
        return;
    struct pair *pair = &pairs[way][k][i];
    char edge[16];
    snprintf(edge, sizeof edge, "r%d", k);
    const char *key = world_key(&world, way, 1 - way, edge);
    size_t bytes = k == 0 ? 0 : k < 4 ? BYTES : sizeof pair->out;
    int rank = end == 0 ? way : 1 - way;
    pair->ends[end] =
        end == 0 ? world_send(&world, rank, steps[rank], key, pair->out, bytes, NULL)
                 : world_recv(&world, rank, steps[rank], key, pair->in, bytes, NULL);
    submitted[way][k][end]++;
}

static void cancel_some(void)
{
    int way = (int)random_range(&rng, WAYS), k = (int)random_range(&rng, KEYS);
    int end = (int)random_range(&rng, 2);
    int count = submitted[way][k][end];
    if (count)
        (void)tryst_op_cancel(
            pairs[way][k][random_range(&rng, (uint64_t)count)].ends[end]);
}

/* Make a pass in which an allocation fails. No submission runs here, because a submission
 * that fails aborts its step. */
static void pass_without_memory(void)
{
    passes(1);
    alloc_fail_at(1 + random_range(&rng, 4));
    passes(1);
    (void)alloc_fail_off();
}

static void random_step_run(int lag)
{
    int way = (int)random_range(&rng, WAYS), k = (int)random_range(&rng, KEYS);
    struct side *side = &world.sides[random_range(&rng, 2)];
    switch (random_range(&rng, 16)) {
    case 0: side->hold_frames = one_in(2); break;
    case 1: side->frames_max = (uint32_t)random_range(&rng, 3); break;
    case 2: side->still = one_in(3); break;
    case 3:
        if (one_in(4))
            world_doze(&world);
        break;
    case 4:
        if (one_in(8))
            clock_fake_advance(&world.clock, 600 * NS_PER_MS);
        break;
    case 5:
        if (one_in(4))
            pass_without_memory();
        break;
    case 6: passes((int)random_range(&rng, 4)); break;
    case 7:
        if (one_in(3))
            cancel_some();
        break;
    case 8:
    case 9:
    case 10: /* receives of the first keys are slower than the rest */
        if (k >= 3 || one_in((uint64_t)lag))
            submit_next(way, k, 1);
        break;
    default: submit_next(way, k, 0); break;
    }
}

static void check_pair(const struct pair *pair, size_t bytes)
{
    tryst_status sent = tryst_op_test(pair->ends[0]);
    tryst_status received = tryst_op_test(pair->ends[1]);
    if (sent != TRYST_E_NOMEM && received != TRYST_E_NOMEM)
        assert_int_equal(sent, received);
    else /* an earlier one may have been cancelled */
        assert_true(sent >= 100 && received >= 100);
    assert_true(sent == TRYST_OK || sent == TRYST_E_CANCELED || sent == TRYST_E_NOMEM);
    if (sent == TRYST_OK)
        assert_memory_equal(pair->in, pair->out, bytes);
    tryst_op_release(pair->ends[0]);
    tryst_op_release(pair->ends[1]);
}

static void random_life(uint64_t seed)
{
    static const char *credits[] = {"4K", "8K", "64K"}, *frames[] = {"2", "5", "64"},
                      *wants[] = {"1", "7", "256"}, *parked[] = {"1", "20", "65536"};
    random_seed(&rng, seed);
    const struct world_setting settings[] = {
        {"eager_credit", credits[random_range(&rng, COUNT_OF(credits))]},
        {"frame_credits", frames[random_range(&rng, COUNT_OF(frames))]},
        {"wants_max", wants[random_range(&rng, COUNT_OF(wants))]},
        {"parked_max", parked[random_range(&rng, COUNT_OF(parked))]},
        {0}};
    begin(settings);
    memset(pairs, 0, sizeof pairs);
    memset(submitted, 0, sizeof submitted);
    for (size_t i = 0; i < PAIRS; i++)
        memset((&pairs[0][0][0] + i)->out, 1 + (int)i % 255, sizeof pairs[0][0][0].out);
    int lag = 1 + (int)random_range(&rng, 20);
    for (int i = 0; i < 8 * PAIRS; i++)
        random_step_run(lag);
    for (int i = 0; i < 2; i++) {
        world.sides[i].hold_frames = world.sides[i].still = false;
        world.sides[i].frames_max = 0;
    }
    for (int at = 0; at < PAIRS * 2; at++)
        submit_next(at % WAYS, at / 2 % KEYS, at / (WAYS * KEYS * EACH));
    for (int i = 0; i < 10; i++)
        world_advance(&world, 600 * NS_PER_MS);
    for (int way = 0; way < WAYS; way++)
        for (int k = 0; k < KEYS; k++)
            for (int i = 0; i < EACH; i++)
                check_pair(&pairs[way][k][i], k == 0 ? 0 : BYTES);
    check_clear();
    end();
}

/* Traffic in both directions with narrow quotas, slow receives, cancels at both ends,
 * and held frames. Both ends of each pair must report the same status, and nothing may
 * hang. */
static void test_random(void **state)
{
    const char *lives = getenv("TRYST_TEST_LIVES");
    uint64_t seed = unit_seed();
    for (int i = 0; i < (lives ? atoi(lives) : 20); i++) {
        random_life(seed + (uint64_t)i);
        random_life((uint64_t)i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept_reversed),
        cmocka_unit_test(test_ring_goes_round),
        cmocka_unit_test(test_ring_full),
        cmocka_unit_test(test_cancel_kept),
        cmocka_unit_test(test_cancel_kept_crosses),
        cmocka_unit_test(test_recv_canceled),
        cmocka_unit_test(test_void_passed),
        cmocka_unit_test(test_closed_with_kept),
        cmocka_unit_test(test_dies_with_kept),
        cmocka_unit_test(test_blocked),
        cmocka_unit_test(test_credit_by_record),
        cmocka_unit_test(test_blocked_canceled),
        cmocka_unit_test(test_few_frames),
        cmocka_unit_test(test_many_names),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_leaves_at_once),
        cmocka_unit_test(test_leave_overtakes),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests_name("acked", tests, NULL, NULL);
}
