/* SPDX-License-Identifier: Apache-2.0 */
/* A rank of the group meddles with what two other ranks exchange: records that name their
 * keys or the ids of their operations. The operations of the two ranks end as if the
 * third rank had sent nothing. */
#include "core/text/hash.h"
#include "hostile_frame.h"
#include "rendezvous/match/prepared.h"
#include "rendezvous/protocol/wire/wire_decode.h"

enum { SMALL = 8, LARGE = 64 << 10 };

static struct world world;
static struct frame frame;
static tryst_step *steps[2];
static char key[TRYST_KEY_MAX + 1];
static uint8_t out[LARGE], in[LARGE];

/* Ranks 0 and 1 are honest, rank 0 is under test, and rank 2 is the third rank. */
static void begin(const struct world_setting *settings)
{
    for (size_t i = 0; i < sizeof out; i++)
        out[i] = (uint8_t)(i * 11 + 1);
    memset(in, 0, sizeof in);
    world_open(&world, 3, settings);
    world_join(&world, 0, 1);
    world_join(&world, 0, 2);
    world.sides[2].still = true;
    for (int i = 0; i < 2; i++)
        steps[i] = world_step(&world, i, 1);
    frame_begin(&frame);
}

static void end(void)
{
    for (int i = 0; i < 2; i++)
        assert_int_equal(tryst_step_close(steps[i], NULL), TRYST_OK);
    world_settle(&world);
    world_close(&world);
}

static uint64_t key_set(int src, int dst)
{
    strcpy(key, world_key(&world, src, dst, "e"));
    return hash_bytes(key, strlen(key));
}

static struct peer *third(void)
{
    return world_peer(&world, 0, 2);
}

/* Let rank 2's frame come, and return how many records rank 0 has answered. */
static uint64_t meddle(void)
{
    uint64_t before = world.sides[0].rdv->counters.records_sent;
    frame_inject(&frame, &world, 0, 2);
    frame_begin(&frame);
    world_settle(&world);
    assert_int_equal(third()->life, PEER_ALIVE);
    assert_int_equal(world_peer(&world, 0, 1)->life, PEER_ALIVE);
    return world.sides[0].rdv->counters.records_sent - before;
}

/* ---- keys -------------------------------------------------------------------------- */

/* A WANT names a key of two ranks, of which one is the asker or the asked. Rank 0 cancels
 * the WANT, and keeps nothing of it; its own send of that key waits for its receiver. */
static void test_want_of_others(void **state)
{
    static const int keys[][2] = {{0, 1}, {1, 2}, {2, 0}, {1, 0}, {2, 1}, {0, 0}};
    for (size_t i = 0; i < 2 * COUNT_OF(keys); i++) {
        bool posted = i % 2;
        begin(NULL);
        uint64_t hash = key_set(0, 1);
        tryst_op *send =
            posted ? world_send(&world, 0, steps[0], key, out, LARGE, NULL) : NULL;
        world_settle(&world);
        hash = key_set(keys[i / 2][0], keys[i / 2][1]);
        frame_add_want(&frame, key, 77, 1, 0, LARGE, 0)->key_hash = hash;
        assert_int_equal(meddle(), 1);
        assert_int_equal(peer_in(third())->parked_count, 0);
        assert_int_equal(peer_in(third())->wants.count, 0);
        assert_true(!send || send->state == OP_POSTED);
        key_set(0, 1);
        tryst_op *recv = world_recv(&world, 1, steps[1], key, in, LARGE, NULL);
        if (!send)
            send = world_send(&world, 0, steps[0], key, out, LARGE, NULL);
        world_settle(&world);
        world_done(send, TRYST_OK);
        world_done(recv, TRYST_OK);
        assert_memory_equal(in, out, LARGE);
        end();
    }
}

/* A DATA declares a key of two ranks, of which one is its sender or its receiver. Rank 0
 * refuses the DATA, whether or not it has a receive of that key; the receives get what
 * their own sender has sent. */
static void test_data_of_others(void **state)
{
    static const int keys[][2] = {{1, 0}, {2, 1}, {0, 2}, {0, 1}, {1, 2}, {0, 0}};
    for (size_t i = 0; i < 2 * COUNT_OF(keys); i++) {
        tryst_op *recvs[2] = {0}, *sends[2];
        begin(NULL);
        key_set(1, 0);
        if (i % 2)
            recvs[0] = world_recv(&world, 0, steps[0], key, in, SMALL, NULL);
        world_settle(&world); /* the receive's WANT leaves */
        uint64_t hash = key_set(keys[i / 2][0], keys[i / 2][1]);
        for (uint64_t seq = 0; seq < 2; seq++)
            frame_add_data(&frame, 1 + (uint32_t)seq, 1, seq, SMALL, key, hash);
        assert_int_equal(meddle(), 2);
        assert_int_equal(peer_in(third())->unexpected_bytes, 0);
        key_set(1, 0);
        for (int n = 0; n < 2; n++) {
            uint8_t *bytes = out + n * SMALL;
            sends[n] = world_send(&world, 1, steps[1], key, bytes, SMALL, NULL);
            world_settle(&world);
            if (!recvs[n])
                recvs[n] =
                    world_recv(&world, 0, steps[0], key, in + n * SMALL, SMALL, NULL);
        }
        world_settle(&world);
        for (int n = 0; n < 2; n++) {
            world_done(sends[n], TRYST_OK);
            world_done(recvs[n], TRYST_OK);
        }
        assert_memory_equal(in, out, 2 * SMALL);
        assert_int_equal(world_peer(&world, 0, 1)->life, PEER_ALIVE);
        end();
    }
}

/* ---- ids --------------------------------------------------------------------------- */

static tryst_status on_alloc(void *arg, tryst_tensor *tensor)
{
    tensor->data = arg;
    return TRYST_OK;
}

static void answer(uint8_t type, uint8_t flags, uint64_t id, tryst_status status)
{
    frame_add_answer(&frame, type, flags, id, status, 0, 0);
}

/* Add every record that could end a receive, or change it, by its id. */
static void receive_records_add(const tryst_op *recv)
{
    answer(RECORD_CANCELED, 0, recv->id, TRYST_E_CANCELED);
    answer(RECORD_CLOSED, 0, recv->id, TRYST_E_CLOSED);
    answer(RECORD_DEFERRED, 0, recv->id, TRYST_OK);
    frame_add_offer(&frame, recv->id, 1, 0, LARGE, NULL);
}

/* A receive that has announced its id, with memory or without, takes no answer from
 * another rank than its sender. */
static void test_receive_of_others(void **state)
{
    tryst_op_params alloc = {
        .struct_size = sizeof alloc, .alloc = on_alloc, .alloc_arg = in};
    for (int i = 0; i < 2; i++) {
        begin(NULL);
        key_set(1, 0);
        tryst_op *recv = world_recv(&world, 0, steps[0], key, i ? NULL : in,
                                    i ? 0 : LARGE, i ? &alloc : NULL);
        world_settle(&world);
        uint64_t id = recv->id;
        receive_records_add(recv);
        assert_int_equal(meddle(), 0);
        assert_int_equal(recv->state, OP_WANTED);
        assert_int_equal(recv->id, id);
        tryst_op *send = world_send(&world, 1, steps[1], key, out, LARGE, NULL);
        world_settle(&world);
        world_done(send, TRYST_OK);
        world_done(recv, TRYST_OK);
        assert_memory_equal(in, out, LARGE);
        end();
    }
}

/* A receive that its sender has deferred is announced again for its sender's OFFER
 * alone. */
static void test_deferred_of_others(void **state)
{
    static const struct world_setting settings[] = {{"parked_max", "1"}, {0}};
    begin(settings);
    uint64_t hash = key_set(1, 0);
    tryst_op *parked =
        world_recv(&world, 0, steps[0], world_key(&world, 1, 0, "p"), in, LARGE, NULL);
    world_settle(&world);
    tryst_op *recv = world_recv(&world, 0, steps[0], key, in, LARGE, NULL);
    world_settle(&world);
    assert_int_equal(recv->state, OP_DEFERRED);
    frame_add_offer(&frame, 0, 1, 0, LARGE, key)->key_hash = hash;
    assert_int_equal(meddle(), 0);
    assert_int_equal(recv->state, OP_DEFERRED);
    tryst_op *send = world_send(&world, 1, steps[1], key, out, LARGE, NULL);
    world_settle(&world);
    world_done(send, TRYST_OK);
    world_done(recv, TRYST_OK);
    assert_int_equal(tryst_op_cancel(parked), TRYST_OK);
    world_settle(&world);
    world_done(parked, TRYST_E_CANCELED);
    end();
}

/* A send ends with none of the answers to its WANT, its DATA or its ASK that another rank
 * than its receiver gives. */
static void test_send_of_others(void **state)
{
    begin(NULL);
    world.sides[0].hold_sched = true;
    key_set(0, 1);
    tryst_op *recv = world_recv(&world, 1, steps[1], key, in, LARGE, NULL);
    tryst_op *sends[2];
    for (int i = 0; i < 2; i++)
        sends[i] = world_send(&world, 0, steps[0], key, out, LARGE, NULL);
    world_settle(&world);
    assert_int_equal(sends[0]->state, OP_MATCHED);
    assert_int_equal(sends[1]->state, OP_POSTED);
    uint64_t id = sends[0]->want_id ? sends[0]->want_id : recv->id;
    answer(RECORD_DONE, 0, id, TRYST_OK);
    answer(RECORD_CANCEL, 0, id, TRYST_E_ABORTED);
    answer(RECORD_RAISE, 0, id, TRYST_OK);
    answer(RECORD_CLOSED, RECORD_STEP, 1, TRYST_E_CLOSED);
    assert_int_equal(meddle(), 0);
    assert_int_equal(sends[0]->state, OP_MATCHED);
    assert_int_equal(sends[1]->state, OP_POSTED);
    world.sides[0].hold_sched = false;
    tryst_op *second = world_recv(&world, 1, steps[1], key, in, LARGE, NULL);
    world_settle(&world);
    for (int i = 0; i < 2; i++)
        world_done(sends[i], TRYST_OK);
    world_done(recv, TRYST_OK);
    world_done(second, TRYST_OK);
    end();
}

/* ---- blame ------------------------------------------------------------------------- */

/* Let rank 2 fail an operation with rank 0, by a record that names rank 1 as the origin;
 * then the error names rank 2. */
static void blamed(tryst_op *op, tryst_status status)
{
    tryst_error error = {.struct_size = sizeof error};
    frame_inject(&frame, &world, 0, 2);
    frame_begin(&frame);
    world_settle(&world);
    assert_int_equal(tryst_op_test(op), status);
    assert_int_equal(tryst_op_error(op, &error), status);
    assert_int_equal(error.origin_rank, 2);
    tryst_op_release(op);
}

static tryst_op *blame_recv(size_t bytes)
{
    key_set(2, 0);
    tryst_op *op = world_recv(&world, 0, steps[0], key, in, bytes, NULL);
    world_settle(&world);
    return op;
}

static tryst_op *blame_send(size_t bytes)
{
    key_set(0, 2);
    tryst_op *op = world_send(&world, 0, steps[0], key, out, bytes, NULL);
    world_settle(&world);
    return op;
}

/* A transfer fails at one of its two ends, whichever rank a record names: each kind of
 * record that carries an origin. */
static void test_blame(void **state)
{
    struct record_failure failure = {.origin_rank = 1, .origin_status = TRYST_E_DEAD};
    begin(NULL);
    tryst_op *op = blame_recv(LARGE);
    answer(RECORD_CANCELED, 0, op->id, TRYST_E_DEADLINE);
    blamed(op, TRYST_E_DEADLINE);

    op = blame_recv(SMALL);
    uint64_t hash = key_set(2, 0);
    struct record_data *data = frame_add_data(&frame, 1, 1, 1, sizeof failure, key, hash);
    data->header.status = TRYST_E_DEAD;
    memcpy((uint8_t *)wire_data_payload(data), &failure, sizeof failure);
    blamed(op, TRYST_E_DEAD);

    op = blame_send(SMALL); /* DATA 0 */
    answer(RECORD_DONE, RECORD_SEND, 0, TRYST_E_DEADLINE);
    blamed(op, TRYST_E_DEADLINE);

    world.sides[0].hold_sched = true;
    op = blame_send(LARGE);
    hash = key_set(0, 2);
    frame_add_want(&frame, key, 77, 1, 1, LARGE, 0)->key_hash = hash;
    answer(RECORD_CANCEL, 0, 77, TRYST_E_DEADLINE);
    blamed(op, TRYST_E_DEADLINE);
    world.sides[0].hold_sched = false;

    op = blame_send(LARGE);
    hash = key_set(0, 2);
    struct record_want *want =
        frame_add_want(&frame, key, 78, 1, 2, TRYST_E_DEADLINE, RECORD_VOID);
    want->key_hash = hash;
    want->posted = 0;
    want->priority = 1;
    blamed(op, TRYST_E_CANCELED);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_want_of_others),
        cmocka_unit_test(test_data_of_others),
        cmocka_unit_test(test_receive_of_others),
        cmocka_unit_test(test_deferred_of_others),
        cmocka_unit_test(test_send_of_others),
        cmocka_unit_test(test_blame),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
