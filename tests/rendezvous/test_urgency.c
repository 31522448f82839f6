/* SPDX-License-Identifier: Apache-2.0 */
/* The most urgent operation leaves first wherever operations wait: for frames, for
 * credit, for WANTs, for posted slots. An operation may become urgent while it waits; and
 * a transfer can be given up between two slices. */
#include "world.h"

#include <stdlib.h>

#include "rendezvous/protocol/want.h"

#define LARGE (64u << 10)

enum { MANY = 40 };

static struct world world;
static uint8_t out[LARGE], in[LARGE];
static int order[MANY + 1]; /* the receives in the order in which they completed */
static int order_count;

static const struct world_setting small_slices[] = {{"slice_bytes", "4K"}, {0}};
static const struct world_setting few_wants[] = {{"wants_max", "4"}, {0}};
static const struct world_setting fifo[] = {{"sched", "fifo"}, {0}};
static const struct world_setting little_credit[] = {{"eager_credit", "8K"}, {0}};

static void begin(tryst_step *steps[2], const struct world_setting *settings)
{
    for (size_t i = 0; i < sizeof out; i++)
        out[i] = (uint8_t)(i * 7);
    memset(in, 0, sizeof in);
    order_count = 0;
    world_open(&world, 2, settings);
    world_join(&world, 0, 1);
    for (int i = 0; i < 2; i++)
        steps[i] = world_step(&world, i, 1);
}

static void end(tryst_step *steps[2])
{
    for (int i = 0; i < 2; i++)
        assert_int_equal(tryst_step_close(steps[i], NULL), TRYST_OK);
    world_settle(&world);
    world_close(&world);
}

static const char *key_of(int n)
{
    char edge[16];
    snprintf(edge, sizeof edge, "t%d", n);
    return world_key(&world, 0, 1, edge);
}

static tryst_op *send_n(tryst_step *step, int n, size_t bytes, int32_t priority)
{
    tryst_op_params params = {.struct_size = sizeof params,
                              .flags = priority ? TRYST_OP_PRIORITY : 0,
                              .priority = priority};
    return world_send(&world, 0, step, key_of(n), out, bytes, &params);
}

static void received(void *arg, tryst_op *op, tryst_status status)
{
    (void)op;
    assert_int_equal(status, TRYST_OK);
    order[order_count++] = (int)(intptr_t)arg;
}

static tryst_op *recv_n(tryst_step *step, int n, size_t bytes, int32_t priority)
{
    tryst_op_params params = {.struct_size = sizeof params,
                              .flags = priority ? TRYST_OP_PRIORITY : 0,
                              .priority = priority,
                              .callback = received,
                              .arg = (void *)(intptr_t)n};
    return world_recv(&world, 1, step, key_of(n), in, bytes, &params);
}

/* Return the place at which the last operation, the only urgent one, was received. Check
 * that all others kept their order. */
static int place_of_last(int count)
{
    int place = -1;
    assert_int_equal(order_count, count);
    for (int i = 0, next = 0; i < count; i++)
        if (order[i] == count - 1)
            place = i;
        else
            assert_int_equal(order[i], next++);
    return place;
}

/* ---- small tensors ----------------------------------------------------------------- */

/* Let small sends wait for a frame, or for credit. The last is urgent, or becomes urgent
 * while it waits. */
static int small_last(const struct world_setting *settings, bool raise)
{
    tryst_step *steps[2];
    tryst_op *sends[MANY];
    tryst_op *recvs[MANY];
    begin(steps, settings);
    for (int i = 0; i < MANY; i++)
        recvs[i] = recv_n(steps[1], i, 1000, 0);
    world_settle(&world);
    world.sides[1].hold_frames = true;
    world.sides[0].frames_max = 1;
    for (int i = 0; i < MANY; i++)
        sends[i] = send_n(steps[0], i, 1000, i == MANY - 1 && !raise ? -1 : 0);
    if (raise)
        assert_int_equal(tryst_op_reprioritize(sends[MANY - 1], -1), TRYST_OK);
    world.sides[1].hold_frames = false;
    world_settle(&world);
    for (int i = 0; i < MANY; i++) {
        world_done(sends[i], TRYST_OK);
        world_done(recvs[i], TRYST_OK);
    }
    end(steps);
    return place_of_last(MANY);
}

static void test_small(void **state)
{
    assert_int_equal(small_last(NULL, false), 0);
    assert_int_equal(small_last(NULL, true), 0);
    assert_int_equal(small_last(fifo, false), MANY - 1);
    assert_int_equal(small_last(fifo, true), MANY - 1);
    /* sends with credit were packed before it */
    assert_true(small_last(little_credit, false) <= 8);
    assert_true(small_last(little_credit, true) <= 8);
}

/* ---- receives that announce themselves --------------------------------------------- */

/* Return the number of WANTs that leave before the WANT of an urgent receive behind
 * `count` others. */
static uint32_t wants_before(const struct world_setting *settings, int count)
{
    tryst_step *steps[2];
    struct peer *peer;
    uint32_t sent = 0;
    begin(steps, settings);
    peer = world_peer(&world, 1, 0);
    tryst_op_params urgent = {
        .struct_size = sizeof urgent, .flags = TRYST_OP_PRIORITY, .priority = -1};
    for (int i = 0; i < count; i++)
        tryst_op_release(world_recv(&world, 1, steps[1], key_of(0), in, LARGE, NULL));
    sent = peer_out(peer)->wants_sent;
    tryst_op *op = world_recv(&world, 1, steps[1], key_of(1), in, LARGE, &urgent);
    for (int i = 0; i < count && !op->id; i++) {
        sent = peer_out(peer)->wants_sent;
        world_pass(&world);
    }
    assert_true(op->id != 0);
    tryst_op_release(op);
    end(steps);
    return sent;
}

/* The urgent WANT leaves with the next frame that may carry a WANT at all. */
static void test_wants(void **state)
{
    const char *text = getenv("TRYST_TEST_COUNT");
    int count = text ? atoi(text) : 20000;
    assert_true(wants_before(few_wants, 1000) <= 4);
    assert_true(wants_before(NULL, count) <= 256);
}

/* ---- an end is raised -------------------------------------------------------------- */

struct raised {
    uint32_t flags;
    int32_t priority;
    int32_t raises[2];
    uint32_t other_flags;
    int32_t other;
    int32_t moves; /* priority of the transfer, in the training class */
};

enum moment { UNSENT, PARKED, MATCHED, MOMENTS };

static tryst_op *end_open(tryst_step *const *steps, bool sends, uint32_t flags,
                          int32_t priority)
{
    tryst_op_params params = {
        .struct_size = sizeof params, .flags = flags, .priority = priority};
    return sends ? world_send(&world, 0, steps[0], key_of(0), out, LARGE, &params)
                 : world_recv(&world, 1, steps[1], key_of(0), in, LARGE, &params);
}

/* Raise one end at once, while it waits for the other end, or while the transfer
 * waits. */
static void raise_run(const struct raised *row, bool sends, enum moment moment)
{
    tryst_step *steps[2];
    tryst_op *ends[2] = {NULL, NULL}; /* the receive, the send */
    begin(steps, small_slices);
    world.sides[0].hold_sched = true;
    ends[sends] = end_open(steps, sends, row->flags, row->priority);
    for (int i = 0; i < 3; i++) {
        if (i == (moment == MATCHED ? 0 : 2))
            ends[!sends] = end_open(steps, !sends, row->other_flags, row->other);
        if (i == 2 || moment != UNSENT)
            world_settle(&world);
        if (i < 2)
            assert_int_equal(tryst_op_reprioritize(ends[sends], row->raises[i]),
                             TRYST_OK);
    }
    assert_non_null(ends[1]->want);
    const struct transfer *transfer = &ends[1]->want->transfer;
    assert_int_equal(urgency_class(&transfer->urgency), URGENCY_TRAINING);
    assert_int_equal(urgency_priority(&transfer->urgency), row->moves);
    world.sides[0].hold_sched = false;
    world_settle(&world);
    world_done(ends[1], TRYST_OK);
    world_done(ends[0], TRYST_OK);
    assert_memory_equal(in, out, LARGE);
    end(steps);
}

/* A raise of either end reaches the transfer: of an end without a priority, with one, or
 * of the background class. A raise to a less urgent priority has no effect: a transfer
 * without any priority has the middle one. */
static void test_raise(void **state)
{
    enum { P = TRYST_OP_PRIORITY, B = TRYST_OP_BACKGROUND };
    static const struct raised rows[] = {
        {0, 0, {-7, 3}, P, 5, -7},
        {0, 0, {3, 3}, P, 5, 3},
        {0, 0, {8, 6}, P, 5, 5},
        {0, 0, {3, 3}, 0, 0, 0},
        {0, 0, {INT32_MAX, 1}, 0, 0, 0},
        {0, 0, {4, -2}, 0, 0, -2},
        {0, 0, {6, 5}, B, 0, 5},
        {P, 5, {7, 2}, 0, 0, 2},
        {P, 5, {-2, 9}, P, 9, -2},
        {P, -4, {2, 0}, P, 9, -4},
        {P, 4, {4, 1}, P, 9, 1},
        {P, 5, {-2, -2}, 0, 0, -2},
        {P, 7, {3, 2}, P, 1, 1},
        {B, 0, {6, 7}, P, 9, 6},
        {B, 0, {6, 7}, 0, 0, 6},
        {B | P, 2, {8, 8}, P, 9, 8},
        {B | P, 2, {8, 5}, B | P, 1, 5},
        {P, 7, {3, -1}, B | P, 1, -1},
        {P, INT32_MAX, {INT32_MIN, 0}, P, 0, INT32_MIN},
    };
    for (size_t i = 0; i < 2 * COUNT_OF(rows); i++)
        for (int moment = 0; moment < MOMENTS; moment++)
            raise_run(&rows[i / 2], i % 2, (enum moment)moment);
}

/* The class and priority of a transfer, by the values of both ends. */
static void test_both_ends(void **state)
{
    enum { P = TRYST_OP_PRIORITY, B = TRYST_OP_BACKGROUND };
    static const struct {
        uint32_t send_flags;
        int32_t send;
        uint32_t recv_flags;
        int32_t recv;
        enum urgency_class kind;
        int32_t priority;
    } table[] = {
        {0, 0, 0, 0, URGENCY_TRAINING, 0},   {P, 3, 0, 0, URGENCY_TRAINING, 3},
        {0, 0, P, 3, URGENCY_TRAINING, 3},   {P, 3, P, -2, URGENCY_TRAINING, -2},
        {P, -4, P, 2, URGENCY_TRAINING, -4}, {B, 0, 0, 0, URGENCY_BACKGROUND, 0},
        {0, 0, B, 0, URGENCY_BACKGROUND, 0}, {B, 0, P, 9, URGENCY_TRAINING, 9},
        {P, 9, B, 0, URGENCY_TRAINING, 9},   {B | P, 4, B | P, 2, URGENCY_BACKGROUND, 2},
    };
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        tryst_step *steps[2];
        tryst_op_params send_params = {.struct_size = sizeof send_params,
                                       .flags = table[i].send_flags,
                                       .priority = table[i].send};
        tryst_op_params recv_params = {.struct_size = sizeof recv_params,
                                       .flags = table[i].recv_flags,
                                       .priority = table[i].recv};
        begin(steps, small_slices);
        world.sides[0].hold_sched = true;
        tryst_op *recv =
            world_recv(&world, 1, steps[1], key_of(0), in, LARGE, &recv_params);
        tryst_op *send =
            world_send(&world, 0, steps[0], key_of(0), out, LARGE, &send_params);
        world_settle(&world);
        assert_int_equal(urgency_class(&send->want->transfer.urgency), table[i].kind);
        assert_int_equal(urgency_priority(&send->want->transfer.urgency),
                         table[i].priority);
        world.sides[0].hold_sched = false;
        world_settle(&world);
        world_done(send, TRYST_OK);
        world_done(recv, TRYST_OK);
        end(steps);
    }
}

/* ---- given up between two slices --------------------------------------------------- */

/* The receiver gives up with slices in flight: it must wait for those, no other slice
 * starts, and window, slots and buffers come back. The cancel may cross the slices'
 * DONE. */
static void test_cancel_between_slices(void **state)
{
    for (int crossing = 0; crossing < 2; crossing++) {
        tryst_step *steps[2];
        begin(steps, small_slices);
        world.sides[0].window_bytes = 8192;
        tryst_op *recv = world_recv(&world, 1, steps[1], key_of(0), in, LARGE, NULL);
        world_settle(&world);
        world.sides[1].hold_bulk = true;
        tryst_op *send = send_n(steps[0], 0, LARGE, 0);
        world_settle(&world);
        assert_int_equal(world.sides[0].in_flight_bytes, 8192);
        world.sides[0].hold_frames = crossing;
        assert_int_equal(tryst_op_cancel(recv), TRYST_OK);
        world_settle(&world);
        /* slices are in flight */
        assert_int_equal(tryst_op_test(recv), TRYST_IN_PROGRESS);
        world.sides[1].hold_bulk = false;
        world_settle(&world);
        world.sides[0].hold_frames = false;
        world_settle(&world);
        world_done(send, TRYST_E_CANCELED);
        world_done(recv, TRYST_E_CANCELED);
        assert_int_equal(world.sides[0].in_flight_bytes, 0);
        assert_int_equal(world.sides[1].unexpected, 0);
        assert_int_equal(world.sides[1].posted_now, 0);
        end(steps);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_wants),
        cmocka_unit_test(test_raise),
        cmocka_unit_test(test_both_ends),
        cmocka_unit_test(test_cancel_between_slices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
