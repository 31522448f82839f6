/* SPDX-License-Identifier: Apache-2.0 */
/* Small tensors in device memory between two engines, with a device that copies only on
 * the test's command (transports/memory/hand_device.h): what is sent, and when. */
#include "transports/memory/hand_device.h"
#include "world.h"

static struct world world;
static uint8_t out[2][4096], in[2][4096];

/* The linker puts this function in place of the one of transports/memory/memory_ops.c. */
const struct memory_ops *__wrap_memory_ops_get(tryst_memory_kind kind);
const struct memory_ops *__wrap_memory_ops_get(tryst_memory_kind kind)
{
    return kind == TRYST_MEMORY_CUDA ? &hand_row : NULL;
}

static tryst_op *device_send(tryst_step *step, const char *edge, void *data, size_t bytes)
{
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .dtype = TRYST_DTYPE_U8,
                           .count = bytes,
                           .data = data,
                           .memory = TRYST_MEMORY_CUDA};
    tryst_op *op;
    assert_int_equal(tryst_send(step, world_key(&world, 0, 1, edge), &tensor, NULL, &op),
                     TRYST_OK);
    return op;
}

static tryst_op *host_recv(tryst_step *step, const char *edge, void *data, size_t bytes)
{
    return world_recv(&world, 1, step, world_key(&world, 0, 1, edge), data, bytes, NULL);
}

static void passes(int count)
{
    for (int i = 0; i < count; i++)
        world_pass(&world);
}

/* Run the device's copies and the engines until neither has anything left to do. */
static void settle(void)
{
    for (int i = 0; i < 10; i++) {
        hand_run_all();
        world_settle(&world);
    }
}

/* An OFFER waits for room in the transport when the WANT that it would request comes. The
 * send's bytes are fetched then, and the DATA leaves when the copy has ended, not when
 * the OFFER would have left. */
static void test_offer_waits_want_comes(void **state)
{
    enum { BYTES = 1600, FILL = 3800 };
    static const struct world_setting settings[] = {
        {"parked_max", "1"}, {"eager_credit", "4K"}, {0}};
    tryst_step *steps[2];
    (void)state;
    world_open(&world, 2, settings);
    world_join(&world, 0, 1);
    for (int i = 0; i < 2; i++) {
        steps[i] = world_step(&world, i, 1);
        memset(out[i], i + 1, sizeof out[i]);
    }
    /* rank 1 has a WANT deferred, so rank 0 sends an OFFER for what it cannot send at
     * once */
    tryst_op *parked = host_recv(steps[1], "parked", in[0], 64);
    tryst_op *refused = host_recv(steps[1], "refused", in[0], 64);
    world_settle(&world);
    assert_true(world.sides[0].rdv->counters.wants_deferred > 0);
    /* one frame is in flight to rank 1 and takes all credit, another is built and waits
     * for room */
    world.sides[1].hold_frames = true;
    world.sides[0].frames_max = 1;
    tryst_op *fill = world_send(&world, 0, steps[0], world_key(&world, 0, 1, "fill"),
                                out[0], FILL, NULL);
    passes(20);
    tryst_op *built = world_send(&world, 0, steps[0], world_key(&world, 0, 1, "built"),
                                 out[0], BYTES, NULL);
    passes(20);
    tryst_op *send = device_send(steps[0], "small", out[1], BYTES);
    passes(20);
    assert_true(urgent_queued(&send->pending_node)); /* the OFFER */
    tryst_op *recv = host_recv(steps[1], "small", in[1], BYTES);
    passes(1);
    world_doze(&world); /* the receive is announced */
    passes(20);
    /* the WANT has come, and the bytes are being fetched */
    assert_int_equal(hand.copy_calls, 1);
    world.sides[1].hold_frames = false;
    world.sides[0].frames_max = 0;
    passes(20);
    assert_int_equal(tryst_op_test(recv), TRYST_IN_PROGRESS);
    settle();
    world_done(recv, TRYST_OK);
    world_done(send, TRYST_OK);
    assert_memory_equal(in[1], out[1], BYTES);
    tryst_op_release(fill);
    tryst_op_release(built);
    tryst_op_release(parked);
    tryst_op_release(refused);
    for (int i = 0; i < 2; i++)
        assert_int_equal(tryst_step_close(steps[i], NULL), TRYST_OK);
    settle();
    world_close(&world);
    hand_check();
}

static tryst_op *device_recv(tryst_step *step, const char *key, void *data, size_t bytes)
{
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .dtype = TRYST_DTYPE_U8,
                           .count = bytes,
                           .data = data,
                           .memory = TRYST_MEMORY_CUDA};
    tryst_op *op;
    assert_int_equal(tryst_recv(step, key, &tensor, NULL, &op), TRYST_OK);
    return op;
}

/* More DATA than the credit admits wait for a slow device, each requested by a WANT, when
 * the other rank stops making passes. Every end must complete, and neither rank may be
 * given up. */
static void test_placed_late(void **state)
{
    enum { N = 1200, FILL = 3800 };
    static const struct world_setting settings[] = {
        {"eager_credit", "4K"}, {"frame_credits", "2"}, {"wants_max", "4"}, {0}};
    static uint64_t data_out[N], data_in[N];
    static tryst_op *sends[N], *recvs[N];
    tryst_step *steps[2];
    (void)state;
    world_open(&world, 2, settings);
    world_join(&world, 0, 1);
    for (int i = 0; i < 2; i++)
        steps[i] = world_step(&world, i, 1);
    tryst_op *fill = world_send(&world, 0, steps[0], world_key(&world, 0, 1, "fill"),
                                out[0], FILL, NULL);
    world_settle(&world);
    const char *key = world_key(&world, 0, 1, "small");
    for (uint64_t i = 0; i < N; i++) {
        data_out[i] = i + 1;
        sends[i] = world_send(&world, 0, steps[0], key, &data_out[i], 8, NULL);
        recvs[i] = device_recv(steps[1], key, &data_in[i], 8);
        passes(2);
    }
    world_settle(&world);
    assert_true(peer_out(world_peer(&world, 0, 1))->stream.next == N + 1);
    world.sides[0].hold_frames = true; /* rank 1 may send two frames */
    settle();
    world.sides[0].hold_frames = false;
    settle();
    for (int i = 0; i < N; i++) {
        world_done(recvs[i], TRYST_OK);
        world_done(sends[i], TRYST_OK);
    }
    assert_memory_equal(data_in, data_out, sizeof data_in);
    for (int i = 0; i < 2; i++)
        assert_int_equal(tryst_step_close(steps[i], NULL), TRYST_OK);
    settle();
    tryst_op_release(fill);
    world_close(&world);
    hand_check();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_offer_waits_want_comes),
                                       cmocka_unit_test(test_placed_late)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
