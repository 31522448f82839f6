/* SPDX-License-Identifier: Apache-2.0 */
/* A receive of unknown shape calls its alloc callback once, whatever its producer
 * offers. Rank 1 is the producer, and faulty; rank 2 shows that ranks go on without
 * it. */
#include "hostile_frame.h"

enum { EAGER_MAX = 4096, OFFERS = 1000 };

static struct world world;
static uint8_t bytes[1 << 16], other[1 << 16];
static int calls;

static tryst_status on_alloc(void *arg, tryst_tensor *tensor)
{
    calls++;
    tensor->data = tensor->count ? arg : NULL;
    return TRYST_OK;
}

/* Offer the shape for the WANT of `op` again and again. */
static void offers(const tryst_op *op, uint64_t offer_bytes)
{
    for (int i = 0; i < OFFERS && world_peer(&world, 0, 1)->life == PEER_ALIVE; i++) {
        struct frame frame;
        frame_begin(&frame);
        frame_add_offer(&frame, op->id, 1, 0, offer_bytes, NULL)->dtype = TRYST_DTYPE_U8;
        frame_inject(&frame, &world, 0, 1);
        world_peer(&world, 0, 1)->frames.acked =
            (uint32_t)world_peer(&world, 0, 1)->frames.sent;
        peer_out(world_peer(&world, 0, 1))->wants_acked =
            peer_out(world_peer(&world, 0, 1))->wants_sent;
        world_pass(&world);
    }
}

static void honest_check(tryst_step *step)
{
    tryst_step *theirs = world_step(&world, 2, 1);
    tryst_op *recv = world_recv(&world, 0, step, world_key(&world, 2, 0, "e"), other,
                                sizeof other, NULL);
    tryst_op *send = world_send(&world, 2, theirs, world_key(&world, 2, 0, "e"), bytes,
                                sizeof bytes, NULL);
    world_settle(&world);
    world_done(recv, TRYST_OK);
    world_done(send, TRYST_OK);
    assert_int_equal(tryst_step_close(theirs, NULL), TRYST_OK);
}

static void offers_check(uint64_t offer_bytes, int calls_wanted)
{
    const tryst_op_params params = {
        .struct_size = sizeof params, .alloc = on_alloc, .alloc_arg = bytes};
    world_open(&world, 3, NULL);
    world_join(&world, 0, 1);
    world_join(&world, 0, 2);
    world.sides[1].still = true;
    calls = 0;
    tryst_step *step = world_step(&world, 0, 1);
    tryst_op *op =
        world_recv(&world, 0, step, world_key(&world, 1, 0, "e"), NULL, 0, &params);
    world_settle(&world);
    assert_int_not_equal(op->id, 0);
    offers(op, offer_bytes);
    world_settle(&world);
    assert_int_equal(calls, calls_wanted);
    if (offer_bytes <= EAGER_MAX) {
        assert_int_equal(world_peer(&world, 0, 1)->liveness.gone_status,
                         TRYST_E_PROTOCOL);
        assert_non_null(strstr(world_peer(&world, 0, 1)->liveness.gone_text,
                               "offered a tensor that fits a frame"));
        assert_int_equal(tryst_op_test(op), TRYST_E_PROTOCOL);
    } else {
        assert_int_equal(world_peer(&world, 0, 1)->life, PEER_ALIVE);
    }
    honest_check(step);
    assert_int_equal(tryst_step_close(step, NULL), TRYST_OK);
    tryst_op_release(op);
    world_close(&world);
}

static void test_offers(void **state)
{
    offers_check(0, 0);
    offers_check(1, 0);
    offers_check(EAGER_MAX, 0);
    offers_check(EAGER_MAX + 1, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_offers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
