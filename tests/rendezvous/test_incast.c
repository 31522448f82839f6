/* SPDX-License-Identifier: Apache-2.0 */
/* Several senders and one receiver: the bulk that is posted for all senders together is
 * one window of the receiver's rail. */
#include "rendezvous/protocol/recv_run.h"
#include "world.h"

#include "rendezvous/protocol/flow.h"

#define SLICE 4096u

enum { SENDERS = 3, RANKS = SENDERS + 1, SLICES = 40, WINDOW_SLICES = 12 };

struct edge {
    struct flow flow;
    uint8_t data[SLICES * SLICE];
    bool ended;
};

static struct world world;
static struct edge in[SENDERS], out[SENDERS];

static void on_announced(struct flow *flow)
{
}

static void on_slice(struct flow *flow, uint32_t index)
{
}

static tryst_status on_place(struct flow *flow, uint32_t index, void **data_p,
                             struct tryst_mem **mem_p)
{
    *data_p = container_of(flow, struct edge, flow)->data + (size_t)index * SLICE;
    return TRYST_OK;
}

static void on_ended(struct flow *flow, struct cause cause, const char *text)
{
    assert_int_equal(cause.status, TRYST_OK);
    container_of(flow, struct edge, flow)->ended = true;
}

static const struct flow_ops ops = {.place = on_place,
                                    .slices_announced = on_announced,
                                    .arrived = on_slice,
                                    .sent = on_slice,
                                    .ended = on_ended};

/* Start one end, at rank `rank`, of the flow of rank i + 1 to rank 0. */
static void start(struct edge *edge, int i, int rank)
{
    struct rendezvous *rdv = world.sides[rank].rdv;
    tryst_key *key;
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .dtype = TRYST_DTYPE_U8,
                           .count = sizeof edge->data,
                           .data = edge->data};
    assert_int_equal(tryst_key_prepare(&world.sides[rank].group,
                                       world_key(&world, i + 1, 0, "f"), &key),
                     TRYST_OK);
    struct flow_params params = {
        .scope = scope_find(&rdv->scopes, 1),
        .step_id = 1,
        .key = key,
        .urgency = {.sort_key = urgency_sort_key(URGENCY_TRAINING, 0), .step = 1},
        .tensor = &tensor};
    *edge = (struct edge){.flow = {.ops = &ops, .slice_bytes = SLICE}};
    assert_int_equal(rank ? flow_send(rdv, &edge->flow, &params)
                          : flow_recv(rdv, &edge->flow, &params),
                     TRYST_OK);
    tryst_key_release(key);
}

static uint32_t posted_for(int i)
{
    return world_peer(&world, 0, i + 1)->in.slots_ready;
}

static void ready_all(uint32_t slices)
{
    for (int i = 0; i < SENDERS; i++)
        flow_ready(&out[i].flow, slices);
    world_settle(&world);
}

/* Senders with ready slices get equal parts. A sender without any leaves its part to the
 * others. */
static void test_incast(void **state)
{
    static const struct world_setting settings[] = {{"rail_window_bytes", "48K"}, {0}};
    tryst_step *steps[RANKS];
    world_open(&world, RANKS, settings);
    for (int i = 0; i < SENDERS; i++)
        world_join(&world, 0, i + 1);
    for (int rank = 0; rank < RANKS; rank++)
        steps[rank] = world_step(&world, rank, 1);
    world_settle(&world);
    world.sides[0].hold_bulk = true;
    for (int i = 0; i < SENDERS; i++) {
        start(&in[i], i, 0);
        start(&out[i], i, i + 1);
    }
    ready_all(1);
    for (int i = 0; i < SENDERS; i++)
        assert_int_equal(posted_for(i), 1);
    ready_all(SLICES);
    for (int i = 0; i < SENDERS; i++)
        assert_int_equal(posted_for(i), WINDOW_SLICES / SENDERS);
    world.sides[0].hold_bulk = false;
    world_settle(&world);
    for (int i = 0; i < SENDERS; i++) {
        assert_true(in[i].ended && out[i].ended);
        assert_int_equal(posted_for(i), 0);
    }
    /* A single sender gets the whole window. */
    world.sides[0].hold_bulk = true;
    start(&in[0], 0, 0);
    start(&out[0], 0, 1);
    flow_ready(&out[0].flow, SLICES);
    world_settle(&world);
    assert_int_equal(posted_for(0), WINDOW_SLICES);
    world.sides[0].hold_bulk = false;
    world_settle(&world);
    assert_true(in[0].ended);
    for (int rank = 0; rank < RANKS; rank++)
        assert_int_equal(tryst_step_close(steps[rank], NULL), TRYST_OK);
    world_settle(&world);
    world_close(&world);
}

/* An urgent tensor beside a long one of the same peer, both larger than the window. The
 * slots must go to the urgent tensor, though the sender has both ready and its scheduler
 * prefers the long one. */
static void test_urgent_beside(void **state)
{
    static const struct world_setting settings[] = {
        {"rail_window_bytes", "16K"}, {"slice_bytes", "4K"}, {0}};
    static uint8_t from[2][1 << 20], to[2][1 << 20];
    const tryst_op_params params[2] = {
        {.struct_size = sizeof params[0], .flags = TRYST_OP_PRIORITY, .priority = 5},
        {.struct_size = sizeof params[0], .flags = TRYST_OP_PRIORITY, .priority = 0}};
    tryst_step *steps[2];
    tryst_op *sends[2], *recvs[2];
    world_open(&world, 2, settings);
    world_join(&world, 0, 1);
    for (int i = 0; i < 2; i++)
        steps[i] = world_step(&world, i, 1);
    for (int i = 0; i < 2; i++) {
        const char *key = world_key(&world, 1, 0, i ? "urgent" : "long");
        size_t bytes = sizeof to[0] >> i;
        recvs[i] = world_recv(&world, 0, steps[0], key, to[i], bytes, &params[i]);
        sends[i] = world_send(&world, 1, steps[1], key, from[i], bytes, &params[i]);
        for (int pass = 0; pass < 4 && !i; pass++)
            world_pass(&world);
    }
    uint32_t before = recvs[0]->run->upto;
    for (int pass = 0; pass < 1000 && tryst_op_test(recvs[1]) == TRYST_IN_PROGRESS;
         pass++)
        world_pass(&world);
    assert_int_equal(tryst_op_test(recvs[1]), TRYST_OK);
    assert_int_equal(tryst_op_test(recvs[0]), TRYST_IN_PROGRESS);
    /* of 256 slices, while 128 urgent ones came */
    assert_true(recvs[0]->run->upto <= before + 32);
    world_settle(&world);
    for (int i = 0; i < 2; i++) {
        world_done(recvs[i], TRYST_OK);
        world_done(sends[i], TRYST_OK);
        assert_int_equal(tryst_step_close(steps[i], NULL), TRYST_OK);
    }
    world_settle(&world);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_incast),
        cmocka_unit_test(test_urgent_beside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
