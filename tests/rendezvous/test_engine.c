/* SPDX-License-Identifier: Apache-2.0 */
/* Two engines against each other, and every crossing of records, bulk and failures that
 * the protocol allows. Each crossing is arranged by holding one of the world's queues. */
#include "world.h"

#define LARGE (64u << 10) /* beyond eager_max */
#define SLICE "4K"

static struct world world;
static uint8_t out[4][1 << 18], in[4][1 << 18];

static const struct world_setting small_slices[] = {{"slice_bytes", SLICE}, {0}};

static void begin(const struct world_setting *settings)
{
    struct random random;
    random_seed(&random, 1);
    for (size_t i = 0; i < sizeof out; i++)
        ((uint8_t *)out)[i] = (uint8_t)random_u64(&random);
    memset(in, 0, sizeof in);
    world_open(&world, 2, settings);
    world_join(&world, 0, 1);
}

static void steps_open(tryst_step *steps[2], uint64_t id)
{
    for (int i = 0; i < 2; i++)
        steps[i] = world_step(&world, i, id);
}

static void end(tryst_step *steps[2])
{
    for (int i = 0; i < 2 && steps; i++)
        assert_int_equal(tryst_step_close(steps[i], NULL), TRYST_OK);
    world_settle(&world);
    world_close(&world);
}

static const char *key_named(const char *edge)
{
    return world_key(&world, 0, 1, edge);
}

static tryst_op *send0(tryst_step *steps[2], const char *edge, int n, size_t bytes,
                       const tryst_op_params *params)
{
    return world_send(&world, 0, steps[0], key_named(edge), out[n], bytes, params);
}

static tryst_op *recv1(tryst_step *steps[2], const char *edge, int n, size_t bytes,
                       const tryst_op_params *params)
{
    return world_recv(&world, 1, steps[1], key_named(edge), in[n], bytes, params);
}

/* ---- meeting ----------------------------------------------------------------------- */

/* Either end comes first, with any size: the bytes arrive, and both ends report OK. */
static void test_meet(void **state)
{
    static const size_t sizes[] = {0,    1,    2048,      2049,   4095,
                                   4096, 4097, LARGE + 1, 1 << 18};
    tryst_step *steps[2];
    begin(small_slices);
    steps_open(steps, 1);
    for (size_t i = 0; i < 2 * COUNT_OF(sizes); i++) {
        size_t bytes = sizes[i / 2];
        tryst_op *send = NULL;
        if (i % 2 == 0) {
            send = send0(steps, "a", 0, bytes, NULL);
            world_settle(&world);
        }
        tryst_op *recv = recv1(steps, "a", 0, bytes, NULL);
        world_settle(&world);
        assert_int_equal(tryst_op_test(recv), send ? TRYST_OK : TRYST_IN_PROGRESS);
        if (!send)
            send = send0(steps, "a", 0, bytes, NULL);
        world_settle(&world);
        world_done(send, TRYST_OK);
        world_done(recv, TRYST_OK);
        assert_memory_equal(in[0], out[0], bytes);
        memset(in, 0, sizeof in);
    }
    end(steps);
}

/* A WANT and eager DATA cross: the WANT is dropped, nothing is left over. */
static void test_want_crosses_data(void **state)
{
    tryst_step *steps[2];
    begin(NULL);
    steps_open(steps, 1);
    world.sides[0].hold_frames = world.sides[1].hold_frames = true;
    tryst_op *send = send0(steps, "a", 0, 100, NULL);
    tryst_op *recv = recv1(steps, "a", 0, 100, NULL);
    world_settle(&world);
    world.sides[0].hold_frames = world.sides[1].hold_frames = false;
    world_settle(&world);
    world_done(send, TRYST_OK);
    world_done(recv, TRYST_OK);
    assert_int_equal(peer_out(world_peer(&world, 0, 1))->eager_used, 0);
    end(steps);
}

/* Receives of several numbers meet their sends by number, also when records pass one
 * another. */
static void test_numbers(void **state)
{
    tryst_step *steps[2];
    tryst_op *sends[4];
    tryst_op *recvs[4];
    static const size_t sizes[] = {6000, 10, 5000, 20}; /* large and eager in turn */
    begin(small_slices);
    steps_open(steps, 1);
    for (int i = 0; i < 4; i++)
        sends[i] = send0(steps, "a", i, sizes[i], NULL);
    world_settle(&world);
    for (int i = 0; i < 4; i++)
        recvs[i] = recv1(steps, "a", i, sizes[i], NULL);
    world_settle(&world);
    for (int i = 0; i < 4; i++) {
        world_done(sends[i], TRYST_OK);
        world_done(recvs[i], TRYST_OK);
        assert_memory_equal(in[i], out[i], sizes[i]);
    }
    end(steps);
}

/* Send one small tensor; return the size of its frame. */
static size_t send0_bytes(tryst_step *steps[2], int n, tryst_op **op_p)
{
    *op_p = send0(steps, "a", n, 100, NULL);
    world_settle(&world);
    return world.sides[0].frame_bytes;
}

/* The key travels once, whatever the step; later DATA carry its name. */
static void test_key_named_once(void **state)
{
    begin(NULL);
    for (uint64_t id = 1; id <= 2; id++) {
        tryst_step *steps[2];
        tryst_op *sends[3];
        size_t bytes[3];
        steps_open(steps, id);
        for (int i = 0; i < 3; i++)
            bytes[i] = send0_bytes(steps, i, &sends[i]);
        if (id == 1)
            assert_true(bytes[0] > bytes[1] + strlen(key_named("a")));
        else
            assert_int_equal(bytes[0], bytes[1]);
        assert_int_equal(bytes[1], bytes[2]);
        for (int i = 0; i < 3; i++) {
            tryst_op *recv = recv1(steps, "a", i, 100, NULL);
            world_settle(&world);
            world_done(recv, TRYST_OK);
            world_done(sends[i], TRYST_OK);
            assert_memory_equal(in[i], out[i], 100);
        }
        for (int i = 0; i < 2; i++)
            assert_int_equal(tryst_step_close(steps[i], NULL), TRYST_OK);
        world_settle(&world);
    }
    end(NULL);
}

/* Without memory to learn the key, that DATA and later DATA that carry only its name end
 * with TRYST_E_NOMEM, until the key is declared again. Without memory for the entry, only
 * the DATA that needed the entry fails. */
static void test_key_not_learned(void **state)
{
    enum {
        KEY_FAILS = 1,
        ENTRY_FAILS = 3
    }; /* 2: the table of keys, which may be missing */
    for (int fails = KEY_FAILS; fails <= ENTRY_FAILS; fails += 2) {
        tryst_step *steps[2];
        tryst_op *sends[3];
        begin(NULL);
        steps_open(steps, 1);
        world.sides[1].hold_frames = true;
        size_t first = send0_bytes(steps, 0, &sends[0]);
        assert_true(send0_bytes(steps, 1, &sends[1]) < first);
        world.sides[1].hold_frames = false;
        alloc_fail_at(fails);
        world_settle(&world);
        assert_true(alloc_fail_off());
        int lost = fails == KEY_FAILS ? 2 : 1;
        for (int i = 0; i < lost; i++)
            world_done(sends[i], TRYST_E_NOMEM);
        assert_int_equal(send0_bytes(steps, 2, &sends[2]), first);
        for (int i = 0; i < 3; i++) {
            tryst_op *recv = recv1(steps, "a", i, 100, NULL);
            world_settle(&world);
            world_done(recv, i < lost ? TRYST_E_NOMEM : TRYST_OK);
        }
        for (int i = lost; i < 2; i++)
            world_done(sends[i], TRYST_OK);
        world_done(sends[2], TRYST_OK);
        assert_memory_equal(in[2], out[2], 100);
        end(steps);
    }
}

/* A declared key comes in a step that gets no memory: the number ends at both ends, and
 * the next number meets. */
static void test_key_learned_no_step(void **state)
{
    tryst_step *steps[2], *next[2];
    tryst_op *sends[2], *recv;
    begin(NULL);
    steps_open(steps, 1);
    size_t first = send0_bytes(steps, 0, &sends[0]);
    recv = recv1(steps, "a", 0, 100, NULL);
    world_settle(&world);
    world_done(sends[0], TRYST_OK);
    world_done(recv, TRYST_OK);
    next[0] = world_step(&world, 0, 2);
    world.sides[1].hold_frames = true;
    assert_true(send0_bytes(next, 0, &sends[0]) < first);
    world.sides[1].hold_frames = false;
    alloc_fail_at(1);
    world_settle(&world);
    assert_true(alloc_fail_off());
    world_done(sends[0], TRYST_E_NOMEM);
    next[1] = world_step(&world, 1, 2);
    assert_int_equal(send0_bytes(next, 1, &sends[1]), first); /* declared anew */
    for (int i = 0; i < 2; i++) {
        recv = recv1(next, "a", i, 100, NULL);
        world_settle(&world);
        world_done(recv, i ? TRYST_OK : TRYST_E_NOMEM);
    }
    world_done(sends[1], TRYST_OK);
    assert_memory_equal(in[1], out[1], 100);
    assert_int_equal(tryst_step_close(next[0], NULL), TRYST_OK);
    assert_int_equal(tryst_step_close(next[1], NULL), TRYST_OK);
    end(steps);
}

/* Between the DATA whose declaration failed and the DATA that carries only the name, the
 * receive was posted and its WANT ignored. */
static void test_key_not_learned_want_crosses(void **state)
{
    tryst_step *steps[2];
    tryst_op *sends[2], *recvs[2];
    begin(NULL);
    steps_open(steps, 1);
    world.sides[1].hold_frames = true;
    for (int i = 0; i < 2; i++)
        send0_bytes(steps, i, &sends[i]);
    struct list *frames = &world_ep_find(&world, 0, 1)->frames;
    struct list_node *second = frames->head.prev;
    list_remove(second);
    world.sides[1].hold_frames = false;
    alloc_fail_at(1);
    world_settle(&world);
    assert_true(alloc_fail_off());
    world.sides[1].hold_frames = true;
    list_push_back(frames, second);
    for (int i = 0; i < 2; i++)
        recvs[i] = recv1(steps, "a", i, 100, NULL);
    world_settle(&world);
    world.sides[1].hold_frames = false;
    world_settle(&world);
    for (int i = 0; i < 2; i++) {
        world_done(sends[i], TRYST_E_NOMEM);
        world_done(recvs[i], TRYST_E_NOMEM);
    }
    end(steps);
}

/* Check that the error at one end names both shapes. */
static void shapes_named(const tryst_op *op, const size_t sizes[2])
{
    char wanted[128];
    tryst_error error = {.struct_size = sizeof error};
    assert_int_equal(tryst_op_error(op, &error), TRYST_E_MISMATCH);
    (void)snprintf(wanted, sizeof wanted, "the receive has %zu x u8, the send %zu x u8",
                   sizes[1], sizes[0]);
    if (!strstr(error.text, wanted))
        fail_msg("\"%s\" is not in \"%s\"", wanted, error.text);
}

static void test_mismatch(void **state)
{
    static const size_t sizes[][2] = {{10, 11}, {10, LARGE}, {LARGE, 10}, {LARGE, 9000}};
    for (size_t i = 0; i < 2 * COUNT_OF(sizes); i++) {
        tryst_step *steps[2];
        tryst_op *recv = NULL;
        begin(small_slices);
        steps_open(steps, 1);
        if (i % 2) {
            recv = recv1(steps, "a", 0, sizes[i / 2][1], NULL);
            world_settle(&world);
        }
        tryst_op *send = send0(steps, "a", 0, sizes[i / 2][0], NULL);
        world_settle(&world);
        if (!recv)
            recv = recv1(steps, "a", 0, sizes[i / 2][1], NULL);
        world_settle(&world);
        shapes_named(send, sizes[i / 2]);
        shapes_named(recv, sizes[i / 2]);
        world_done(send, TRYST_E_MISMATCH);
        world_done(recv, TRYST_E_MISMATCH);
        end(steps);
    }
}

/* ---- deferral ---------------------------------------------------------------------- */

static const struct world_setting one_parked[] = {
    {"slice_bytes", SLICE}, {"parked_max", "1"}, {0}};

/* With room for one WANT, all others are DEFERRED and come again after an OFFER. */
static void test_deferred(void **state)
{
    tryst_step *steps[2];
    tryst_op *sends[4];
    tryst_op *recvs[4];
    static const char *const edges[] = {"a", "b", "c", "d"};
    begin(one_parked);
    steps_open(steps, 1);
    for (int i = 0; i < 4; i++)
        recvs[i] = recv1(steps, edges[i], i, LARGE, NULL);
    world_settle(&world);
    assert_int_equal(world.sides[0].rdv->counters.wants_deferred, 3);
    assert_int_equal(peer_in(world_peer(&world, 0, 1))->parked_count, 1);
    for (int i = 3; i >= 0; i--)
        sends[i] = send0(steps, edges[i], i, LARGE, NULL);
    world_settle(&world);
    for (int i = 0; i < 4; i++) {
        world_done(sends[i], TRYST_OK);
        world_done(recvs[i], TRYST_OK);
        assert_memory_equal(in[i], out[i], LARGE);
    }
    end(steps);
}

/* An OFFER comes while the slices of the deferred WANT are still being withdrawn. */
static void test_deferred_withdrawing(void **state)
{
    tryst_step *steps[2];
    begin(one_parked);
    steps_open(steps, 1);
    world.sides[1].hold_cancels = true;
    tryst_op *recv_a = recv1(steps, "a", 0, LARGE, NULL);
    tryst_op *recv_b = recv1(steps, "b", 1, LARGE, NULL);
    world_settle(&world);
    tryst_op *send_b = send0(steps, "b", 1, LARGE, NULL);
    world_settle(&world);
    assert_int_equal(tryst_op_test(recv_b), TRYST_IN_PROGRESS);
    world.sides[1].hold_cancels = false;
    world_settle(&world);
    world_done(send_b, TRYST_OK);
    world_done(recv_b, TRYST_OK);
    assert_int_equal(tryst_op_cancel(recv_a), TRYST_OK);
    world_settle(&world);
    world_done(recv_a, TRYST_E_CANCELED);
    end(steps);
}

/* As above, but the receive is cancelled meanwhile: its number is still consumed. */
static void test_deferred_withdrawing_canceled(void **state)
{
    tryst_step *steps[2];
    begin(one_parked);
    steps_open(steps, 1);
    world.sides[1].hold_cancels = true;
    tryst_op *recv_a = recv1(steps, "a", 0, LARGE, NULL);
    tryst_op *recv_b = recv1(steps, "b", 1, LARGE, NULL);
    world_settle(&world);
    tryst_op *send_b = send0(steps, "b", 1, LARGE, NULL);
    world_settle(&world);
    assert_int_equal(tryst_op_cancel(recv_b), TRYST_OK);
    world_settle(&world);
    /* slices are still posted in its buffer */
    assert_int_equal(tryst_op_test(recv_b), TRYST_IN_PROGRESS);
    world.sides[1].hold_cancels = false;
    world_settle(&world);
    world_done(recv_b, TRYST_E_CANCELED);
    world_done(send_b, TRYST_E_CANCELED);
    tryst_op_release(recv_a);
    end(steps);
}

/* A dead tensor comes for a receive whose slices are being withdrawn. */
static void test_deferred_withdrawing_dead(void **state)
{
    tryst_step *steps[2];
    tryst_op_params dead = {.struct_size = sizeof dead, .flags = TRYST_OP_DEAD};
    begin(one_parked);
    steps_open(steps, 1);
    world.sides[1].hold_cancels = true;
    tryst_op *recv_a = recv1(steps, "a", 0, LARGE, NULL);
    tryst_op *recv_b = recv1(steps, "b", 1, LARGE, NULL);
    world_settle(&world);
    tryst_op *send_b = send0(steps, "b", 1, LARGE, &dead);
    world_settle(&world);
    assert_int_equal(tryst_op_test(recv_b), TRYST_IN_PROGRESS);
    world.sides[1].hold_cancels = false;
    world_settle(&world);
    world_done(recv_b, TRYST_E_DEAD);
    world_done(send_b, TRYST_E_DEAD);
    tryst_op_release(recv_a);
    end(steps);
}

/* DEFERRED is in flight while the consumer closes its step: the close must end. */
static void test_deferred_crosses_close(void **state)
{
    tryst_step *steps[2];
    tryst_op *closing;
    begin(one_parked);
    steps_open(steps, 1);
    tryst_op *recv_a = recv1(steps, "a", 0, LARGE, NULL);
    tryst_op *recv_b = recv1(steps, "b", 1, LARGE, NULL);
    world.sides[1].hold_frames = true;
    world_settle(&world);
    assert_int_equal(tryst_step_close(steps[1], &closing), TRYST_OK);
    world_settle(&world);
    world.sides[1].hold_frames = false;
    world_settle(&world);
    world_done(recv_a, TRYST_E_CANCELED);
    world_done(recv_b, TRYST_E_CANCELED);
    world_done(closing, TRYST_OK);
    assert_int_equal(tryst_step_close(steps[0], NULL), TRYST_OK);
    end(NULL);
}

/* ---- void numbers ------------------------------------------------------------------ */

/* A receive is cancelled before its send exists: the send of that number ends too, and
 * the next number meets. */
static void test_void_recv(void **state)
{
    for (int order = 0; order < 3; order++) {
        tryst_step *steps[2];
        begin(small_slices);
        steps_open(steps, 1);
        tryst_op *recv0 = recv1(steps, "a", 0, LARGE, NULL);
        if (order)
            world_settle(&world); /* the WANT is parked */
        tryst_op_cancel(recv0);
        if (order == 2)
            world_settle(&world);
        tryst_op *recv = recv1(steps, "a", 1, LARGE, NULL);
        world_settle(&world);
        tryst_op *send_lost = send0(steps, "a", 0, LARGE, NULL);
        tryst_op *send = send0(steps, "a", 1, LARGE, NULL);
        world_settle(&world);
        world_done(recv0, TRYST_E_CANCELED);
        world_done(send_lost, TRYST_E_CANCELED);
        world_done(send, TRYST_OK);
        world_done(recv, TRYST_OK);
        assert_memory_equal(in[1], out[1], LARGE);
        end(steps);
    }
}

/* A send is cancelled before its receive exists. */
static void test_void_send(void **state)
{
    tryst_step *steps[2];
    begin(small_slices);
    steps_open(steps, 1);
    tryst_op *send_lost = send0(steps, "a", 0, LARGE, NULL);
    world_settle(&world);
    tryst_op_cancel(send_lost);
    world_settle(&world);
    world_done(send_lost, TRYST_E_CANCELED);
    tryst_op *recv_lost = recv1(steps, "a", 0, LARGE, NULL);
    tryst_op *recv = recv1(steps, "a", 1, LARGE, NULL);
    tryst_op *send = send0(steps, "a", 1, LARGE, NULL);
    world_settle(&world);
    world_done(recv_lost, TRYST_E_CANCELED);
    world_done(recv, TRYST_OK);
    world_done(send, TRYST_OK);
    assert_memory_equal(in[1], out[1], LARGE);
    end(steps);
}

/* ---- cancel ------------------------------------------------------------------------ */

/* CANCEL comes after the last slice has left: too late, the bytes are the answer. */
static void test_cancel_crosses_bulk(void **state)
{
    tryst_step *steps[2];
    begin(small_slices);
    steps_open(steps, 1);
    size_t bytes = 16384; /* four slices, all posted */
    tryst_op *recv = recv1(steps, "a", 0, bytes, NULL);
    world.sides[1].hold_bulk = true;
    world_settle(&world);
    tryst_op *send = send0(steps, "a", 0, bytes, NULL);
    world_settle(&world);
    tryst_op_cancel(recv);
    world_settle(&world);
    assert_int_equal(tryst_op_test(recv), TRYST_IN_PROGRESS);
    world.sides[1].hold_bulk = false;
    world_settle(&world);
    world_done(recv, TRYST_OK);
    world_done(send, TRYST_OK);
    assert_memory_equal(in[0], out[0], bytes);
    end(steps);
}

/* The producer's deadline passes with slices in flight: CANCELED{upto}. The consumer
 * waits for those slices, withdraws the others, and its receive ends with the deadline
 * too. Window comes back once, no slice is unexpected. DONE may cross. */
static void test_canceled_with_slices(void **state)
{
    for (int crossing = 0; crossing < 2; crossing++) {
        tryst_step *steps[2];
        tryst_op_params soon = {.struct_size = sizeof soon, .deadline_ns = NS_PER_S};
        begin(small_slices);
        steps_open(steps, 1);
        tryst_op *recv = recv1(steps, "a", 0, LARGE, NULL);
        world_settle(&world);
        world.sides[0].window_bytes = 8192; /* two slices of four posted */
        world.sides[0].hold_sent = true;
        world.sides[0].hold_frames = crossing != 0;
        world.sides[1].hold_bulk = crossing == 0;
        tryst_op *send = send0(steps, "a", 0, LARGE, &soon);
        world_settle(&world);
        world_advance(&world, 2 * NS_PER_S);
        assert_int_equal(tryst_op_test(send), TRYST_IN_PROGRESS);
        world.sides[0].hold_frames = false;
        world_settle(&world);
        world.sides[1].hold_bulk = false;
        world_settle(&world);
        world_done(recv, TRYST_E_DEADLINE);
        /* the transport still reads its slices */
        assert_int_equal(tryst_op_test(send), TRYST_IN_PROGRESS);
        world.sides[0].hold_sent = false;
        world_settle(&world);
        world_done(send, TRYST_E_DEADLINE);
        assert_int_equal(world.sides[0].in_flight_bytes, 0);
        assert_int_equal(world.sides[1].unexpected, 0);
        end(steps);
    }
}

/* DONE for slices comes in the very pass in which the send fails: the window of those
 * slices comes back once, when the transport has completed them. */
static void test_done_crosses_failure(void **state)
{
    tryst_step *steps[2];
    begin(small_slices);
    steps_open(steps, 1);
    tryst_op *recv = recv1(steps, "a", 0, LARGE, NULL);
    world_settle(&world);
    world.sides[0].window_bytes = 8192;
    world.sides[0].hold_sent = true;
    world.sides[0].hold_frames = true;
    tryst_op *send = send0(steps, "a", 0, LARGE, NULL);
    world_settle(&world);
    assert_int_equal(world.sides[0].in_flight_bytes, 8192);
    world.sides[0].hold_frames = false;
    assert_int_equal(tryst_step_abort(steps[0], TRYST_E_ABORTED, "enough"), TRYST_OK);
    world_settle(&world);
    assert_int_equal(world.sides[0].in_flight_bytes, 8192);
    world.sides[0].hold_sent = false;
    world_settle(&world);
    assert_int_equal(world.sides[0].in_flight_bytes, 0);
    world_done(send, TRYST_E_ABORTED);
    world_done(recv, TRYST_E_ABORTED);
    end(steps);
}

/* ---- allocating receives ----------------------------------------------------------- */

struct shape {
    tryst_status answer;
    uint64_t count;
    int calls;
};

static tryst_status shape_alloc(void *arg, tryst_tensor *tensor)
{
    struct shape *shape = arg;
    shape->calls++;
    shape->count = tensor->count;
    tensor->data = in[0];
    return shape->answer;
}

static void test_alloc(void **state)
{
    static const size_t sizes[] = {0, 100, LARGE};
    static const tryst_status answers[] = {TRYST_OK, TRYST_E_NOMEM, TRYST_AGAIN};
    for (size_t i = 0; i < 2 * COUNT_OF(sizes) * COUNT_OF(answers); i++) {
        size_t bytes = sizes[i / 2 % COUNT_OF(sizes)];
        struct shape shape = {answers[i / 2 / COUNT_OF(sizes)], 0, 0};
        tryst_status wanted =
            shape.answer == TRYST_AGAIN ? TRYST_E_INVALID : shape.answer;
        tryst_op_params params = {
            .struct_size = sizeof params, .alloc = shape_alloc, .alloc_arg = &shape};
        tryst_step *steps[2];
        tryst_op *recv = NULL;
        tryst_op *closing;
        begin(small_slices);
        steps_open(steps, 1);
        if (i % 2) {
            recv = recv1(steps, "a", 0, 0, &params);
            world_settle(&world);
        }
        tryst_op *send = send0(steps, "a", 0, bytes, NULL);
        world_settle(&world);
        if (!recv)
            recv = recv1(steps, "a", 0, 0, &params);
        world_settle(&world);
        assert_int_equal(shape.calls, 1);
        assert_int_equal(shape.count, bytes);
        world_done(recv, wanted);
        world_done(send, wanted);
        if (wanted == TRYST_OK)
            assert_memory_equal(in[0], out[0], bytes);
        assert_int_equal(world_peer(&world, 0, 1)->life, PEER_ALIVE);
        assert_int_equal(tryst_step_close(steps[0], &closing), TRYST_OK);
        assert_int_equal(tryst_step_close(steps[1], NULL), TRYST_OK);
        world_settle(&world);
        world_done(closing, TRYST_OK);
        end(NULL);
    }
}

static void origin_check(const tryst_op *op, tryst_status status, int32_t rank)
{
    tryst_error error = {.struct_size = sizeof error};
    assert_int_equal(tryst_op_error(op, &error), status);
    assert_int_equal(error.origin_rank, rank);
    assert_int_equal(error.origin_status, status);
}

/* Both ends name one origin: the rank that found the difference, had no memory, or has
 * the dead tensor. */
static void test_origins(void **state)
{
    const struct {
        size_t send, recv;
        uint32_t flags;
        tryst_status alloc, status;
        int32_t origin;
        /* either rank, by the order of arrival */
    } rows[] = {{100, 101, 0, 0, TRYST_E_MISMATCH, -1},
                {LARGE, LARGE + 1, 0, 0, TRYST_E_MISMATCH, 0},
                {100, LARGE, 0, 0, TRYST_E_MISMATCH, -1}, /* either rank */
                {LARGE, 100, 0, 0, TRYST_E_MISMATCH, 0},
                {100, 100, TRYST_OP_DEAD, 0, TRYST_E_DEAD, 0},
                {LARGE, LARGE, TRYST_OP_DEAD, 0, TRYST_E_DEAD, 0},
                {100, 0, 0, TRYST_E_NOMEM, TRYST_E_NOMEM, 1},
                {LARGE, 0, 0, TRYST_E_NOMEM, TRYST_E_NOMEM, 1},
                {LARGE, 0, 0, TRYST_E_DEADLINE, TRYST_E_INVALID, 1}};
    for (size_t i = 0; i < 2 * COUNT_OF(rows); i++) {
        struct shape shape = {rows[i / 2].alloc, 0, 0};
        tryst_op_params give = {.struct_size = sizeof give, .flags = rows[i / 2].flags};
        tryst_op_params take = {.struct_size = sizeof take, .alloc_arg = &shape};
        tryst_step *steps[2];
        tryst_op *ops[2];
        take.alloc = shape.answer != TRYST_OK ? shape_alloc : NULL;
        begin(small_slices);
        steps_open(steps, 1);
        for (int k = 0; k < 2; k++) {
            int side = (int)(i + (size_t)k) % 2;
            ops[side] = side ? recv1(steps, "a", 0, rows[i / 2].recv, &take)
                             : send0(steps, "a", 0, rows[i / 2].send, &give);
            world_settle(&world);
        }
        world_advance(&world, NS_PER_S);
        for (int k = 0; k < 2; k++) {
            int32_t origin = rows[i / 2].origin;
            origin_check(ops[k], rows[i / 2].status,
                         origin < 0 ? (int32_t)i % 2 == 0 : origin);
            tryst_op_release(ops[k]);
        }
        end(steps);
    }
}

/* The producer closes its step while the OFFER of a shape has not left: the WANT that the
 * OFFER would answer must get an answer all the same. */
static void test_alloc_offer_closed(void **state)
{
    struct shape shape = {TRYST_OK, 0, 0};
    tryst_op_params params = {
        .struct_size = sizeof params, .alloc = shape_alloc, .alloc_arg = &shape};
    tryst_step *steps[2];
    begin(small_slices);
    steps_open(steps, 1);
    tryst_op *recv = recv1(steps, "a", 0, 0, &params);
    world_settle(&world);
    tryst_op *send = send0(steps, "a", 0, LARGE, NULL);
    assert_int_equal(tryst_step_close(steps[0], NULL), TRYST_OK); /* in the same pass */
    world_settle(&world);
    world_done(send, TRYST_E_CANCELED);
    assert_int_not_equal(tryst_op_test(recv), TRYST_IN_PROGRESS);
    tryst_op_release(recv);
    assert_int_equal(tryst_step_close(steps[1], NULL), TRYST_OK);
    end(NULL);
}

/* ---- quotas ------------------------------------------------------------------------ */

static void test_wants_max(void **state)
{
    static const struct world_setting settings[] = {{"wants_max", "2"}, {0}};
    tryst_step *steps[2];
    tryst_op *recvs[10];
    tryst_op *sends[10];
    char edge[16];
    begin(settings);
    steps_open(steps, 1);
    world.sides[0].hold_frames = true;
    for (int i = 0; i < 10; i++) {
        snprintf(edge, sizeof edge, "e%d", i);
        recvs[i] = recv1(steps, edge, i % 4, 4000, NULL);
    }
    world_settle(&world);
    struct peer *peer = world_peer(&world, 1, 0);
    assert_int_equal(peer_out(peer)->wants_sent, 2);
    world.sides[0].hold_frames = false;
    world_settle(&world);
    assert_int_equal(peer_out(peer)->wants_sent, 10);
    for (int i = 9; i >= 0; i--) {
        snprintf(edge, sizeof edge, "e%d", i);
        sends[i] = send0(steps, edge, i % 4, 4000, NULL);
    }
    world_settle(&world);
    for (int i = 0; i < 10; i++) {
        world_done(sends[i], TRYST_OK);
        world_done(recvs[i], TRYST_OK);
    }
    end(steps);
}

/* Receives are announced before a frame is packed, and not all their WANTs fit. A cancel
 * and DATA then meet WANTs that have not left. */
static void test_announced_and_not_packed(void **state)
{
    enum { COUNT = 120, CANCELED = 100, TAKEN = 110 };
    tryst_step *steps[2];
    tryst_op *recvs[COUNT], *sends[COUNT];
    char edge[16];
    struct shape shapes[COUNT] = {{TRYST_OK, 0, 0}};
    begin(NULL);
    steps_open(steps, 1);
    world.sides[0].hold_frames = true;
    world.sides[1].frames_max = 1;
    for (int i = 0; i < COUNT; i++) {
        tryst_op_params params = {
            .struct_size = sizeof params, .alloc = shape_alloc, .alloc_arg = &shapes[i]};
        snprintf(edge, sizeof edge, "e%d", i);
        recvs[i] = recv1(steps, edge, 0, 0, &params);
    }
    world_settle(&world);
    struct peer *peer = world_peer(&world, 1, 0);
    assert_int_equal(peer_out(peer)->wants_sent, COUNT);
    assert_false(urgent_empty(&peer_out(peer)->pending));
    tryst_op_cancel(recvs[CANCELED]);
    sends[TAKEN] = send0(steps, "e110", 0, 100, NULL);
    world_settle(&world);
    assert_int_equal(peer_out(peer)->wants_sent, COUNT - 1);
    world_done(recvs[TAKEN], TRYST_OK);
    world.sides[0].hold_frames = false;
    world.sides[1].frames_max = 0;
    world_settle(&world);
    assert_int_equal(peer_out(peer)->wants_acked, COUNT - 1);
    for (int i = 0; i < COUNT; i++) {
        snprintf(edge, sizeof edge, "e%d", i);
        if (i != TAKEN)
            sends[i] = send0(steps, edge, 0, 4000, NULL);
    }
    world_settle(&world);
    for (int i = 0; i < COUNT; i++) {
        tryst_status status = i == CANCELED ? TRYST_E_CANCELED : TRYST_OK;
        world_done(sends[i], status);
        if (i != TAKEN)
            world_done(recvs[i], status);
    }
    end(steps);
}

static void test_frame_credits(void **state)
{
    static const struct world_setting settings[] = {{"frame_credits", "2"}, {0}};
    tryst_step *steps[2];
    enum { COUNT = 40 };
    tryst_op *sends[COUNT];
    tryst_op *recvs[COUNT];
    begin(settings);
    steps_open(steps, 1);
    world.sides[1].hold_frames = true;
    for (int i = 0; i < COUNT; i++)
        sends[i] = send0(steps, "a", 0, 1500, NULL);
    world_settle(&world);
    struct peer *peer = world_peer(&world, 0, 1);
    assert_int_equal(peer->frames.sent - peer->frames.acked, 2);
    world.sides[1].hold_frames = false;
    for (int i = 0; i < COUNT; i++)
        recvs[i] = recv1(steps, "a", 0, 1500, NULL);
    world_settle(&world);
    for (int i = 0; i < COUNT; i++) {
        world_done(sends[i], TRYST_OK);
        world_done(recvs[i], TRYST_OK);
    }
    assert_int_equal(peer_out(peer)->eager_used, 0);
    end(steps);
}

/* The transport has room for one frame at a time. */
static void test_frames_again(void **state)
{
    tryst_step *steps[2];
    begin(NULL);
    steps_open(steps, 1);
    world.sides[0].frames_max = world.sides[1].frames_max = 1;
    tryst_op *sends[20];
    tryst_op *recvs[20];
    for (int i = 0; i < 20; i++) {
        sends[i] = send0(steps, "a", 0, 2000, NULL);
        recvs[i] = recv1(steps, "a", 0, 2000, NULL);
    }
    world_settle(&world);
    for (int i = 0; i < 20; i++) {
        world_done(sends[i], TRYST_OK);
        world_done(recvs[i], TRYST_OK);
    }
    end(steps);
}

/* Many more receives than slots, and sends become ready in the opposite order. */
static void test_slots(void **state)
{
    enum { COUNT = 100 };
    tryst_step *steps[2];
    tryst_op *sends[COUNT];
    tryst_op *recvs[COUNT];
    char edge[16];
    begin(small_slices);
    steps_open(steps, 1);
    for (int i = 0; i < COUNT; i++) {
        snprintf(edge, sizeof edge, "e%d", i);
        recvs[i] = recv1(steps, edge, i % 4, LARGE, NULL);
    }
    world_settle(&world);
    assert_int_equal(world.sides[1].posted_high, 32); /* half of the slots */
    for (int i = COUNT - 1; i >= 0; i--) {
        snprintf(edge, sizeof edge, "e%d", i);
        sends[i] = send0(steps, edge, i % 4, LARGE, NULL);
        if (i % 3 == 0)
            world_settle(&world);
        if (i % 3 == 0)
            world_done(sends[i], TRYST_OK);
    }
    world_settle(&world);
    for (int i = 0; i < COUNT; i++) {
        if (i % 3)
            world_done(sends[i], TRYST_OK);
        world_done(recvs[i], TRYST_OK);
    }
    assert_true(world.sides[1].posted_high <= 64);
    end(steps);
}

/* A rail with slices smaller than the user's setting gets such slices, with as many bytes
 * posted. Each slice has its own id, also where ids wrap. */
static void test_slices_of_the_rail(void **state)
{
    static const struct world_setting settings[] = {
        {"slice_bytes", "8K"}, {"posted_slices", "2"}, {0}};
    tryst_step *steps[2];
    begin(settings);
    struct rendezvous *rdv = world.sides[1].rdv;
    world.sides[1].rail.base.slice_bytes = 4096;
    steps_open(steps, 1);
    rdv->ids.next = 2;
    tryst_op *recv_old = recv1(steps, "old", 0, LARGE, NULL); /* ids 2 to 17 */
    world_settle(&world);
    assert_int_equal(world.sides[1].posted_high, 4);
    rdv->ids.next = rdv->ids.mask;
    tryst_op *recv = recv1(steps, "a", 1, LARGE, NULL);
    world_settle(&world);
    assert_true(recv->id >= 18 && recv->id < 100);
    tryst_op *send = send0(steps, "a", 1, LARGE, NULL);
    tryst_op *send_old = send0(steps, "old", 0, LARGE, NULL);
    world_settle(&world);
    world_done(send, TRYST_OK);
    world_done(recv, TRYST_OK);
    world_done(send_old, TRYST_OK);
    world_done(recv_old, TRYST_OK);
    assert_memory_equal(in[0], out[0], LARGE);
    assert_memory_equal(in[1], out[1], LARGE);
    assert_int_equal(world.sides[0].rdv->counters.slices_started, 2 * LARGE / 4096);
    end(steps);
}

/* The transport refuses to post in the middle of a transfer, with nothing else posted:
 * the next pass tries again, and the context naps until then. */
static void test_post_again(void **state)
{
    tryst_step *steps[2];
    static const struct world_setting settings[] = {
        {"slice_bytes", SLICE}, {"posted_slices", "1"}, {0}};
    begin(settings);
    steps_open(steps, 1);
    tryst_op *recv = recv1(steps, "a", 0, LARGE, NULL);
    world_settle(&world);
    world.sides[1].recv_again = 100;
    tryst_op *send = send0(steps, "a", 0, LARGE, NULL);
    for (int i = 0; i < 8; i++)
        world_pass(&world);
    assert_int_equal(pass_arm(world.sides[1].rdv), TRYST_E_UNSUPPORTED);
    pass_awake(world.sides[1].rdv);
    world.sides[1].recv_again = 3;
    world_settle(&world);
    world_done(recv, TRYST_OK);
    world_done(send, TRYST_OK);
    assert_memory_equal(in[0], out[0], LARGE);
    end(steps);
}

/* The transport has no room for a slice: the context may nap, but not sleep. */
static void test_start_again(void **state)
{
    tryst_step *steps[2];
    begin(small_slices);
    steps_open(steps, 1);
    tryst_op *recv = recv1(steps, "a", 0, LARGE, NULL);
    world_settle(&world);
    assert_int_equal(pass_arm(world.sides[0].rdv), TRYST_OK);
    world.sides[0].send_again = 100;
    tryst_op *send = send0(steps, "a", 0, LARGE, NULL);
    for (int i = 0; i < 4; i++)
        world_pass(&world);
    assert_int_equal(pass_arm(world.sides[0].rdv), TRYST_E_UNSUPPORTED);
    world.sides[0].send_again = 0;
    world_settle(&world);
    assert_int_equal(pass_arm(world.sides[0].rdv), TRYST_OK);
    world_done(recv, TRYST_OK);
    world_done(send, TRYST_OK);
    end(steps);
}

/* The transport refuses a slice to one rank and takes one to another in the same pass:
 * the context may not sleep. */
static void test_start_again_beside(void **state)
{
    tryst_step *steps[3];
    tryst_op *sends[2], *recvs[2];
    world_open(&world, 3, small_slices);
    for (int i = 0; i < 3; i++)
        steps[i] = world_step(&world, i, 1);
    for (int i = 0; i < 2; i++) {
        world_join(&world, 0, i + 1);
        const char *key = world_key(&world, 0, i + 1, "a");
        recvs[i] = world_recv(&world, i + 1, steps[i + 1], key, in[i], LARGE, NULL);
    }
    world_settle(&world);
    world.sides[0].send_again = 1;
    for (int i = 0; i < 2; i++) {
        const char *key = world_key(&world, 0, i + 1, "a");
        sends[i] = world_send(&world, 0, steps[0], key, out[i], LARGE, NULL);
    }
    pass_run(world.sides[0].rdv);
    assert_int_equal(world.sides[0].send_again, 0);
    assert_int_equal(pass_arm(world.sides[0].rdv), TRYST_E_UNSUPPORTED);
    pass_awake(world.sides[0].rdv);
    world_settle(&world);
    for (int i = 0; i < 2; i++) {
        world_done(recvs[i], TRYST_OK);
        world_done(sends[i], TRYST_OK);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(tryst_step_close(steps[i], NULL), TRYST_OK);
    world_settle(&world);
    world_close(&world);
}

/* Ids wrap: the ids of a live receive are skipped, whichever of them the new run would
 * touch. */
static void test_id_wrap(void **state)
{
    tryst_step *steps[2];
    begin(small_slices);
    steps_open(steps, 1);
    struct rendezvous *rdv = world.sides[1].rdv;
    rdv->ids.next = 2;
    tryst_op *recv_old = recv1(steps, "old", 0, LARGE, NULL); /* ids 2 to 17 */
    world_settle(&world);
    assert_int_equal(recv_old->id, 2);
    rdv->ids.next = rdv->ids.mask - 3;
    tryst_op *recvs[3];
    for (int i = 0; i < 3; i++)
        recvs[i] = recv1(steps, "a", 1 + i, LARGE, NULL);
    world_settle(&world);
    for (int i = 0; i < 3; i++)
        assert_true(recvs[i]->id >= 18 && recvs[i]->id < 100);
    tryst_op *sends[3];
    for (int i = 0; i < 3; i++)
        sends[i] = send0(steps, "a", 1 + i, LARGE, NULL);
    tryst_op *send_old = send0(steps, "old", 0, LARGE, NULL);
    world_settle(&world);
    for (int i = 0; i < 3; i++) {
        world_done(sends[i], TRYST_OK);
        world_done(recvs[i], TRYST_OK);
        assert_memory_equal(in[1 + i], out[1 + i], LARGE);
    }
    world_done(send_old, TRYST_OK);
    world_done(recv_old, TRYST_OK);
    end(steps);
}

/* ---- no memory --------------------------------------------------------------------- */

/* Without memory to keep early DATA, DONE(NOMEM) ends the send. The receive that comes
 * later consumes its number, and a step that is closing meanwhile must end. */
static void test_early_nomem(void **state)
{
    for (int closing_first = 0; closing_first < 2; closing_first++) {
        tryst_step *steps[2];
        tryst_op *closing;
        begin(NULL);
        steps_open(steps, 1);
        tryst_op *send = send0(steps, "a", 0, 100, NULL);
        world.sides[1].hold_frames = true;
        world.sides[0].hold_frames = true;
        world_settle(&world);
        world.sides[1].hold_frames = false;
        alloc_fail_at(3); /* key, entry, early */
        world_settle(&world);
        assert_true(alloc_fail_off());
        if (closing_first) {
            assert_int_equal(tryst_step_close(steps[0], &closing), TRYST_OK);
            world_settle(&world);
        }
        world.sides[0].hold_frames = false;
        world_settle(&world);
        world_done(send, TRYST_E_NOMEM);
        if (closing_first) {
            world_done(closing, TRYST_OK);
            assert_int_equal(tryst_step_close(steps[1], NULL), TRYST_OK);
            end(NULL);
            continue;
        }
        tryst_op *recv = recv1(steps, "a", 0, 100, NULL);
        world_settle(&world);
        world_done(recv, TRYST_E_NOMEM);
        assert_true(list_empty(&world.sides[0].rdv->scopes.all) == false);
        struct scope *scope = scope_find(&world.sides[0].rdv->scopes, 1);
        assert_true(list_empty(&scope->ops)); /* no tombstone is left */
        end(steps);
    }
}

/* Make a short exchange, called once for each allocation in it. Check the statuses, and
 * that nothing hangs or leaks. */
static tryst_status exchange(void)
{
    tryst_status status = world_try_open(&world, 2, small_slices);
    if (status != TRYST_OK)
        return status;
    tryst_step *steps[2] = {NULL, NULL};
    tryst_op *ops[4] = {NULL};
    for (int i = 0; i < 2 && status == TRYST_OK; i++)
        status = tryst_step_open(&world.sides[i].group, 1, &steps[i]);
    static const size_t sizes[] = {LARGE, 100};
    for (int i = 0; i < 4 && status == TRYST_OK; i++) {
        tryst_tensor tensor = {.struct_size = sizeof tensor,
                               .dtype = TRYST_DTYPE_U8,
                               .count = sizes[i / 2],
                               .data = i % 2 ? in[i / 2] : out[i / 2]};
        const char *key = key_named(i / 2 ? "b" : "a");
        tryst_op_params params = {.struct_size = sizeof params, .deadline_ns = NS_PER_S};
        status = i % 2 ? tryst_recv(steps[1], key, &tensor, &params, &ops[i])
                       : tryst_send(steps[0], key, &tensor, &params, &ops[i]);
    }
    world_settle(&world);
    for (int i = 0; i < 4; i++)
        world_advance(&world, NS_PER_S);
    for (int i = 0; i < 4; i++) {
        if (!ops[i])
            continue;
        tryst_status outcome = tryst_op_test(ops[i]);
        assert_int_not_equal(outcome, TRYST_IN_PROGRESS);
        if (status == TRYST_OK && outcome != TRYST_OK)
            status = TRYST_E_NOMEM;
        tryst_op_release(ops[i]);
    }
    bool come_to_pass = alloc_fail_off();
    for (int i = 0; i < 2; i++)
        if (steps[i])
            assert_int_equal(tryst_step_close(steps[i], NULL), TRYST_OK);
    world_settle(&world);
    world_close(&world);
    if (come_to_pass)
        /* so that the caller's alloc_fail_off reports the failure too */
        alloc_fail_at(1);
    if (come_to_pass)
        mem_free(mem_alloc(1));
    return status;
}

static void test_no_memory(void **state)
{
    uint64_t before = alloc_live_count();
    bool came_to_pass = true;
    for (uint64_t nth = 1; came_to_pass; nth++) {
        alloc_fail_at(nth);
        tryst_status status = exchange();
        came_to_pass = alloc_fail_off();
        if (!came_to_pass)
            assert_int_equal(status, TRYST_OK);
        assert_int_equal(alloc_live_count(), before);
    }
}

/* ---- a peer is given up ------------------------------------------------------------ */

/* The link breaks with operations in every state. They must fail when the endpoint has
 * closed, not before, and no byte is written into a buffer afterwards. */
static void test_peer_gone(void **state)
{
    for (int held = 0; held < 6; held++) {
        tryst_step *steps[2];
        tryst_op *ops[10];
        int count = 0;
        begin(one_parked);
        steps_open(steps, 1);
        world.sides[0].hold_frames = held == 1;
        world.sides[1].hold_frames = held == 2;
        world.sides[1].hold_bulk = held == 3;
        world.sides[0].hold_sent = held == 4;
        world.sides[1].hold_cancels = held == 5;
        ops[count++] = recv1(steps, "wanted", 0, LARGE, NULL);
        ops[count++] = recv1(steps, "deferred", 1, LARGE, NULL);
        ops[count++] = send0(steps, "posted", 0, LARGE, NULL);
        ops[count++] = send0(steps, "early", 0, 10, NULL);
        world_settle(&world);
        ops[count++] = recv1(steps, "matched", 2, LARGE, NULL);
        ops[count++] = send0(steps, "matched", 2, LARGE, NULL);
        ops[count++] = recv1(steps, "inline", 3, 10, NULL);
        world_settle(&world);
        ops[count++] = send0(steps, "inline", 3, 10, NULL);
        world_settle(&world);
        tryst_status before[10];
        for (int i = 0; i < count; i++)
            before[i] = tryst_op_test(ops[i]);
        world.sides[0].hold_close = world.sides[1].hold_close = true;
        world.sides[0].hold_frames = world.sides[1].hold_frames = true;
        world.sides[1].hold_bulk = true;
        world_link_cut(&world, 0, 1);
        world_settle(&world);
        for (int i = 0; i < count; i++)
            assert_int_equal(tryst_op_test(ops[i]), before[i]);
        world.sides[0].hold_close = world.sides[1].hold_close = false;
        world_settle(&world);
        for (int i = 0; i < count; i++)
            world_done(ops[i], before[i] != TRYST_IN_PROGRESS ? before[i]
                               : held == 4 && i == 5          ? TRYST_OK
                                                              : TRYST_E_PEER);
        /* (With i == 5 and held == 4, all bytes of the send had been acknowledged.) */
        end(steps);
    }
}

/* An operation that failed for another cause before the peer went keeps that cause. */
static void test_cause_outlives_peer(void **state)
{
    tryst_step *steps[2];
    tryst_error error = {.struct_size = sizeof error};
    begin(small_slices);
    steps_open(steps, 1);
    tryst_op *recv = recv1(steps, "a", 0, LARGE, NULL);
    world_settle(&world);
    world.sides[0].hold_frames = true; /* its CANCEL is not read */
    assert_int_equal(tryst_step_abort(steps[1], TRYST_E_MISMATCH, "a stage failed"),
                     TRYST_OK);
    world.sides[0].still = true;
    world_settle(&world);
    assert_int_equal(tryst_op_test(recv), TRYST_IN_PROGRESS);
    world_link_cut(&world, 0, 1);
    world_settle(&world);
    assert_int_equal(tryst_op_error(recv, &error), TRYST_E_ABORTED);
    assert_int_equal(error.origin_rank, 1);
    assert_non_null(strstr(error.text, " from rank 0 in step 1: a stage failed"));
    tryst_op_release(recv);
    end(steps);
}

/* ---- abort ------------------------------------------------------------------------- */

static void test_abort(void **state)
{
    tryst_step *steps[2];
    tryst_error error = {.struct_size = sizeof error};
    begin(small_slices);
    steps_open(steps, 1);
    tryst_op *recv = recv1(steps, "a", 0, LARGE, NULL);
    tryst_op *send = send0(steps, "b", 0, LARGE, NULL);
    world_settle(&world);
    assert_int_equal(tryst_step_abort(steps[0], TRYST_E_DEADLINE, "too slow"), TRYST_OK);
    world_settle(&world);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tryst_op_error(i ? recv : send, &error), TRYST_E_ABORTED);
        assert_int_equal(error.origin_rank, 0);
        assert_int_equal(tryst_step_status(steps[i], &error), TRYST_E_ABORTED);
        assert_int_equal(error.origin_status, TRYST_E_DEADLINE);
        assert_string_equal(error.text, "too slow");
    }
    tryst_op_release(recv);
    tryst_op_release(send);
    end(steps);
}

/* A rank aborts and closes a step while its message on the link is late. Records for the
 * step must be answered with the abort, not only with the close. */
static void test_abort_then_close(void **state)
{
    static const size_t sizes[] = {10, LARGE};
    for (size_t i = 0; i < 2 * COUNT_OF(sizes); i++) {
        tryst_step *steps[2];
        tryst_error error = {.struct_size = sizeof error};
        size_t bytes = sizes[i / 2];
        begin(small_slices);
        steps_open(steps, 1);
        world.hold_links = true;
        int by = (int)(i % 2);
        assert_int_equal(tryst_step_abort(steps[by], TRYST_E_DEADLINE, "too slow"),
                         TRYST_OK);
        assert_int_equal(tryst_step_close(steps[by], NULL), TRYST_OK);
        world_settle(&world);
        tryst_op *op =
            by ? send0(steps, "a", 0, bytes, NULL) : recv1(steps, "a", 0, bytes, NULL);
        world_settle(&world);
        world.hold_links = false;
        world_settle(&world);
        assert_int_equal(tryst_op_error(op, &error), TRYST_E_ABORTED);
        assert_int_equal(error.origin_rank, by);
        tryst_op_release(op);
        assert_int_equal(tryst_step_close(steps[1 - by], NULL), TRYST_OK);
        end(NULL);
    }
}

/* Of two causes the earlier counts, in whichever order they arrive; equal times go by
 * rank. */
static void test_abort_earliest(void **state)
{
    static const struct {
        uint64_t time_ns;
        int32_t rank;
        bool news;
    } causes[] = {{100, 1, true}, {200, 0, false}, {100, 2, false},
                  {100, 0, true}, {50, 2, true},   {50, 2, false}};
    struct scope *scope;
    int32_t rank = -1;
    uint64_t time_ns = 0;
    begin(NULL);
    assert_int_equal(scope_open(&world.sides[0].rdv->scopes, 9, &scope), TRYST_OK);
    scope_add(scope);
    for (size_t i = 0; i < COUNT_OF(causes); i++) {
        rendezvous_abort(world.sides[0].rdv, 9, TRYST_E_ABORTED, causes[i].rank,
                         causes[i].time_ns, "why", NULL);
        if (causes[i].news) {
            rank = causes[i].rank;
            time_ns = causes[i].time_ns;
        }
        assert_int_equal(scope->abort_rank, rank);
        assert_int_equal(scope->abort_time_ns, time_ns);
    }
    end(NULL);
}

/* ---- steps ------------------------------------------------------------------------- */

/* A record for a step that was closed or passed over is answered CLOSED. */
static void test_closed(void **state)
{
    tryst_step *steps[2];
    begin(small_slices);
    steps_open(steps, 1);
    tryst_step *skipped = world_step(&world, 1, 2);
    tryst_op *early = world_recv(&world, 1, skipped, key_named("e"), in[1], LARGE, NULL);
    world_settle(&world); /* WANT for step 2, which rank 0 does not have yet */
    assert_int_equal(tryst_step_close(steps[0], NULL), TRYST_OK);
    world_settle(&world);
    tryst_op *recv = recv1(steps, "a", 0, LARGE, NULL);
    tryst_op *recv_small = recv1(steps, "b", 0, 10, NULL);
    world_settle(&world);
    world_done(recv, TRYST_E_CLOSED);
    world_done(recv_small, TRYST_E_CLOSED);
    tryst_step *third = world_step(&world, 0, 3); /* rank 0 leaves step 2 out */
    world_settle(&world);
    world_done(early, TRYST_E_CLOSED);
    assert_int_equal(tryst_step_close(third, NULL), TRYST_OK);
    assert_int_equal(tryst_step_close(skipped, NULL), TRYST_OK);
    assert_int_equal(tryst_step_close(steps[1], NULL), TRYST_OK);
    end(NULL);
}

static void test_stall_and_deadline_text(void **state)
{
    static const struct world_setting settings[] = {{"stall_warn", "5s"}, {0}};
    tryst_step *steps[2];
    tryst_error error = {.struct_size = sizeof error};
    tryst_op_params params = {.struct_size = sizeof params, .deadline_ns = 20 * NS_PER_S};
    begin(settings);
    steps_open(steps, 1);
    tryst_op *recv = recv1(steps, "late", 0, LARGE, &params);
    tryst_op *never = recv1(
        steps, "never", 1, LARGE,
        &(tryst_op_params){.struct_size = sizeof params, .deadline_ns = UINT64_MAX});
    world_settle(&world);
    world_advance(&world, 6 * NS_PER_S);
    const char *text = world.sides[1].log_text;
    assert_non_null(strstr(text, "stalled: receive of /job:worker/replica:0/task:0"));
    assert_non_null(strstr(text, ";late;"));
    assert_non_null(
        strstr(text, "step 1, number 0, 65536 bytes, wanted) has waited 6.000 s"));
    assert_non_null(
        strstr(text, "the send: the producer has not posted it; peer: rank 0"));
    size_t length = strlen(text);
    world_advance(&world, 6 * NS_PER_S);
    assert_int_equal(strlen(text), length); /* the warning is logged once */
    world_advance(&world, 10 * NS_PER_S);
    assert_int_equal(tryst_op_error(recv, &error), TRYST_E_DEADLINE);
    assert_memory_equal(error.text, "receive of /job", 15);
    assert_non_null(strstr(error.text, " from rank 0 in step 1: its deadline passed: "));
    assert_non_null(strstr(error.text, "has waited 22.000 s for the send"));
    tryst_op_release(recv);
    assert_int_equal(tryst_op_test(never), TRYST_IN_PROGRESS);
    tryst_op_release(never);
    end(steps);
}

/* Of many operations that stall together, the three oldest are named, and the others
 * counted. */
static void test_many_stalls(void **state)
{
    enum { MANY = 40 };
    static const struct world_setting settings[] = {{"stall_warn", "5s"}, {0}};
    tryst_step *steps[2];
    tryst_op *recvs[MANY];
    begin(settings);
    steps_open(steps, 1);
    for (int i = 0; i < MANY; i++) {
        char edge[16];
        snprintf(edge, sizeof edge, "late%d", i);
        recvs[i] = recv1(steps, edge, 0, LARGE, NULL);
    }
    world_settle(&world);
    world_advance(&world, 6 * NS_PER_S);
    const char *text = world.sides[1].log_text;
    int named = 0;
    for (const char *at = text; (at = strstr(at, "stalled: receive of ")) != NULL; at++)
        named++;
    assert_int_equal(named, 3);
    assert_non_null(strstr(text, ";late2;"));
    assert_null(strstr(text, ";late3;"));
    assert_non_null(strstr(text, "stalled: 37 more operations of step 1, too"));
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(tryst_op_cancel(recvs[i]), TRYST_OK);
        world_settle(&world);
        world_done(recvs[i], TRYST_E_CANCELED);
    }
    end(steps);
}

/* A clock that advances 1 ms with each reading. */
static uint64_t passing_ns(void *arg)
{
    struct clock_fake *fake = arg;
    clock_fake_advance(fake, NS_PER_MS);
    return atomic_load(&fake->now_ns);
}

/* A pass reads the clock once, first for an operation with a deadline. An operation that
 * is submitted later in the pass reads the clock itself, so its time lies after the
 * pass's. It has not stalled. */
static void test_stall_of_the_future(void **state)
{
    static const struct world_setting settings[] = {{"stall_warn", "5s"}, {0}};
    tryst_op_params params = {.struct_size = sizeof params, .deadline_ns = 60 * NS_PER_S};
    tryst_step *steps[2], *others[2];
    char text[1400];
    begin(settings);
    steps_open(steps, 1);
    steps_open(others, 2);
    world_settle(&world);
    struct rendezvous *rdv = world.sides[1].rdv;
    uint64_t (*standing_ns)(void *) = world.clock.clock.now_ns;
    world.clock.clock.now_ns = passing_ns;
    tryst_op *first = recv1(others, "first", 0, LARGE, &params);
    tryst_op *second = recv1(steps, "second", 1, LARGE, NULL);
    rdv->times.tick_ns = 1; /* housekeeping is due in the same pass */
    pass_clock_due(rdv);
    pass_run(rdv);
    assert_true(second->submitted_ns > first->submitted_ns);
    assert_null(strstr(world.sides[1].log_text, "stalled"));
    op_describe(second, first->submitted_ns, text, sizeof text);
    assert_non_null(strstr(text, "has waited 0.000 s"));
    clock_fake_advance(&world.clock, 6 * NS_PER_S);
    pass_clock_due(rdv);
    pass_run(rdv);
    assert_non_null(strstr(world.sides[1].log_text, "has waited 6."));
    world.clock.clock.now_ns = standing_ns;
    assert_int_equal(tryst_op_cancel(first), TRYST_OK);
    assert_int_equal(tryst_op_cancel(second), TRYST_OK);
    world_settle(&world);
    world_done(first, TRYST_E_CANCELED);
    world_done(second, TRYST_E_CANCELED);
    for (int i = 0; i < 2; i++)
        assert_int_equal(tryst_step_close(others[i], NULL), TRYST_OK);
    end(steps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_meet),
        cmocka_unit_test(test_want_crosses_data),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_key_named_once),
        cmocka_unit_test(test_key_not_learned),
        cmocka_unit_test(test_key_learned_no_step),
        cmocka_unit_test(test_key_not_learned_want_crosses),
        cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_deferred),
        cmocka_unit_test(test_deferred_withdrawing),
        cmocka_unit_test(test_deferred_withdrawing_canceled),
        cmocka_unit_test(test_deferred_withdrawing_dead),
        cmocka_unit_test(test_deferred_crosses_close),
        cmocka_unit_test(test_void_recv),
        cmocka_unit_test(test_void_send),
        cmocka_unit_test(test_cancel_crosses_bulk),
        cmocka_unit_test(test_canceled_with_slices),
        cmocka_unit_test(test_done_crosses_failure),
        cmocka_unit_test(test_alloc),
        cmocka_unit_test(test_origins),
        cmocka_unit_test(test_alloc_offer_closed),
        cmocka_unit_test(test_wants_max),
        cmocka_unit_test(test_announced_and_not_packed),
        cmocka_unit_test(test_frame_credits),
        cmocka_unit_test(test_frames_again),
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_slices_of_the_rail),
        cmocka_unit_test(test_post_again),
        cmocka_unit_test(test_start_again),
        cmocka_unit_test(test_start_again_beside),
        cmocka_unit_test(test_id_wrap),
        cmocka_unit_test(test_early_nomem),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_peer_gone),
        cmocka_unit_test(test_cause_outlives_peer),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_abort_then_close),
        cmocka_unit_test(test_abort_earliest),
        cmocka_unit_test(test_closed),
        cmocka_unit_test(test_stall_and_deadline_text),
        cmocka_unit_test(test_many_stalls),
        cmocka_unit_test(test_stall_of_the_future),
    };
    const char *only = getenv("TRYST_TEST_ONLY"); /* for use in a debugger */
    if (only)
        cmocka_set_test_filter(only);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
