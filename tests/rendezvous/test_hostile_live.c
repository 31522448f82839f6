/* SPDX-License-Identifier: Apache-2.0 */
/* Records of an enemy about operations that are under way: each check of a handler has
 * the row that breaks it. The enemy is given up for its fault, or the record has no
 * effect. */
#include "core/text/hash.h"
#include "hostile_frame.h"
#include "rendezvous/protocol/want.h"

enum { SLICES = 3, SLICE = 4096, BULK = SLICES * SLICE - 100, SMALL = 8, MID = 4200 };
/* Ids and numbers of the enemy: WANTs that met a send, and that met none; a name; a DATA
 * without a receive. */
enum { MET = 900, PARKED = 950, NAME = 7 };

static struct world world;
static struct frame frame;
static uint8_t out[BULK], in[4][BULK];
static int allocs; /* calls of the alloc callback */

/* Operations of rank 0 with the enemy, rank 1. */
static struct {
    tryst_step *step;
    tryst_op *bulk_send; /* matched with MET; all slices but the last are sent */
    tryst_op *data;      /* DATA number 0, in flight */
    tryst_op *bulk_recv; /* announced, with slices posted */
    tryst_op *alloc;     /* announced, without memory */
    tryst_op *small;     /* announced */
    tryst_op *mid;       /* announced, with slices posted; fits a frame */
    uint32_t wants_got;
    uint64_t records_sent;
} live;

static struct peer *enemy(void)
{
    return world_peer(&world, 0, 1);
}

/* Return a key from rank 0 to the enemy, or from the enemy. */
static const char *to(const char *edge)
{
    return world_key(&world, 0, 1, edge);
}

static const char *from(const char *edge)
{
    return world_key(&world, 1, 0, edge);
}

static uint64_t hash_of(const char *key)
{
    return hash_bytes(key, strlen(key));
}

static void frame_comes(void)
{
    frame_inject(&frame, &world, 0, 1);
    frame_begin(&frame);
}

static tryst_status on_alloc(void *arg, tryst_tensor *tensor)
{
    allocs++;
    tensor->data = arg;
    return TRYST_OK;
}

static const tryst_op_params alloc_params = {
    .struct_size = sizeof alloc_params, .alloc = on_alloc, .alloc_arg = in[3]};

static void begin(const struct world_setting *settings)
{
    world_open(&world, 2, settings);
    world_join(&world, 0, 1);
    world.sides[1].still = true;
    live.step = world_step(&world, 0, 1);
    world_settle(&world);
    allocs = 0;
    frame_begin(&frame);
}

static void end(void)
{
    assert_int_equal(tryst_step_close(live.step, NULL), TRYST_OK);
    world_settle(&world);
    world_close(&world);
}

static void want_add(const char *edge, uint64_t id)
{
    frame_add_want(&frame, to(edge), id, 1, 0, BULK, 0)->key_hash = hash_of(to(edge));
}

static void live_begin(void)
{
    static const struct world_setting settings[] = {{"slice_bytes", "4K"}, {0}};
    begin(settings);
    live.bulk_send = world_send(&world, 0, live.step, to("bulk"), out, BULK, NULL);
    live.data = world_send(&world, 0, live.step, to("data"), out, SMALL, NULL);
    live.bulk_recv = world_recv(&world, 0, live.step, from("bulk"), in[0], BULK, NULL);
    live.alloc = world_recv(&world, 0, live.step, from("alloc"), NULL, 0, &alloc_params);
    live.small = world_recv(&world, 0, live.step, from("small"), in[1], SMALL, NULL);
    live.mid = world_recv(&world, 0, live.step, from("mid"), in[2], MID, NULL);
    world_settle(&world);
    want_add("bulk", MET);
    want_add("parked", PARKED);
    frame_comes();
    world_settle(&world);
    assert_int_equal(live.bulk_send->want->transfer.next, SLICES - 1);
    assert_int_equal(live.bulk_recv->state, OP_WANTED);
    assert_int_equal(live.alloc->state, OP_WANTED);
    assert_int_equal(live.small->state, OP_WANTED);
    live.wants_got = peer_in(enemy())->wants_got;
    live.records_sent = world.sides[0].rdv->counters.records_sent;
}

static void live_end(void)
{
    tryst_op *ops[] = {live.bulk_send, live.data,  live.bulk_recv,
                       live.alloc,     live.small, live.mid};
    assert_int_equal(tryst_step_close(live.step, NULL), TRYST_OK);
    for (size_t i = 0; i < COUNT_OF(ops); i++)
        tryst_op_release(ops[i]);
    world_settle(&world);
    world_close(&world);
}

static uint64_t records_answered(void)
{
    return world.sides[0].rdv->counters.records_sent - live.records_sent;
}

static struct record_answer *answer(uint8_t type, uint8_t flags, uint64_t id,
                                    tryst_status status)
{
    return frame_add_answer(&frame, type, flags, id, status, 0, 0);
}

/* Let a slice of the enemy come: bulk with this tag. */
static void bulk_done(struct bulk *bulk, tryst_status status, size_t bytes)
{
    (void)bulk, (void)status, (void)bytes;
}

static void bulk_comes(uint64_t tag, size_t bytes)
{
    static struct bulk bulks[SLICES];
    static unsigned next;
    struct bulk *bulk = &bulks[next++ % SLICES];
    struct world_ep *ep = world_ep_find(&world, 1, 0);
    *bulk = (struct bulk){.done = bulk_done, .tag = tag, .data = out, .bytes = bytes};
    assert_int_equal(ep->base.rail->ops->bulk_send(&ep->base, bulk), TRYST_OK);
    world_settle(&world);
}

/* ---- DONE -------------------------------------------------------------------------- */

static void done_add(uint32_t upto, uint32_t posted)
{
    frame_add_answer(&frame, RECORD_DONE, 0, MET, TRYST_OK, upto, posted);
}

static void make_done(void)
{
    done_add(1, SLICES - 1);
    done_add(SLICES - 1, SLICES);
}

static void check_done(void)
{
    assert_int_equal(live.bulk_send->want->transfer.upto, SLICES - 1);
    assert_int_equal(live.bulk_send->want->transfer.next, SLICES);
}

static void make_done_unsent(void)
{
    done_add(SLICES, SLICES);
}

static void make_done_backwards(void)
{
    done_add(2, 2);
    done_add(1, 2);
}

static void make_done_posted(void)
{
    done_add(1, SLICES + 1);
}

static void make_done_unposted(void)
{
    done_add(2, 1);
}

static void make_done_parked(void)
{
    frame_add_answer(&frame, RECORD_DONE, 0, PARKED, TRYST_OK, 1, 1);
}

/* ---- about DATA -------------------------------------------------------------------- */

static void make_data_answer(void)
{
    answer(RECORD_DEFERRED, RECORD_SEND, 0, TRYST_OK);
}

static void make_data_returned(void)
{
    answer(RECORD_CANCELED, RECORD_SEND, 0, TRYST_E_CANCELED);
}

static void make_data_returned_unknown(void)
{
    answer(RECORD_CANCELED, RECORD_SEND, 4242, TRYST_E_CANCELED);
}

static void check_data(void)
{
    assert_int_equal(tryst_op_test(live.data), TRYST_IN_PROGRESS);
}

static void make_acks_behind_a_fault(void)
{
    make_data_answer();
    frame.acks = 1;
}

static void check_data_failed(void)
{
    assert_int_equal(tryst_op_test(live.data), TRYST_E_PROTOCOL);
}

static void data_add(const char *edge, uint64_t seq, uint32_t bytes)
{
    frame_add_data(&frame, NAME, 1, seq, bytes, from(edge), hash_of(from(edge)));
}

static void make_data_canceled_twice(void)
{
    data_add("none", 0, SMALL);
    for (int i = 0; i < 2; i++)
        answer(RECORD_CANCEL, RECORD_SEND, 0, TRYST_E_CANCELED);
}

static void check_one_answer(void)
{
    assert_int_equal(records_answered(), 1);
}

static void make_data_over(void)
{
    data_add("small", 0, SMALL);
    data_add("small", 0, SMALL);
}

static void check_data_over(void)
{
    assert_int_equal(tryst_op_test(live.small), TRYST_OK);
    assert_int_equal(peer_in(enemy())->unexpected_bytes, 0);
}

static void make_data_dtype(void)
{
    data_add("small", 0, SMALL);
    struct record_data *data = (void *)(frame.data + sizeof(struct frame_header));
    data->dtype = TRYST_DTYPE_F32;
}

static void make_data_large(void)
{
    data_add("small", 0, 4000);
}

static void make_raise_unknown(void)
{
    answer(RECORD_RAISE, 0, 4242, TRYST_OK);
}

static void make_data_instead_of_bulk(void)
{
    data_add("mid", 0, MID);
}

static void check_mid(void)
{
    assert_int_equal(tryst_op_test(live.mid), TRYST_E_PROTOCOL);
    assert_null(live.mid->run);
    for (size_t i = 0; i < sizeof in[2]; i++)
        assert_int_equal(in[2][i], 0);
}

/* The DATA is of another size, as if the user's send was. */
static void make_small_data_instead_of_bulk(void)
{
    data_add("mid", 0, SMALL);
}

static void check_mid_mismatch(void)
{
    assert_int_equal(tryst_op_test(live.mid), TRYST_E_MISMATCH);
    assert_null(live.mid->run);
    assert_int_equal(world.sides[0].posted_now, SLICES); /* of bulk_recv */
}

static void check_mismatch(void)
{
    assert_int_equal(tryst_op_test(live.small), TRYST_E_MISMATCH);
    for (size_t i = 0; i < sizeof in[1]; i++)
        assert_int_equal(in[1][i], 0);
}

/* ---- about WANTs, and behind faults ------------------------------------------------ */

static void make_want_malformed(void)
{
    frame_add_want(&frame, to("late"), 5, 1, 0, BULK, 0)->posted = SLICES + 1;
}

static void make_want_behind_a_fault(void)
{
    make_data_answer();
    want_add("late", 5);
}

static void check_no_want(void)
{
    assert_int_equal(peer_in(enemy())->wants_got, live.wants_got);
}

static void make_want_stale(void)
{
    char key[TRYST_KEY_MAX + 1];
    strcpy(key, to("stale"));
    char *incarnation = strchr(key, ';') + 1;
    incarnation[strcspn(incarnation, ";") - 1] = '7'; /* of abc0 */
    frame_add_want(&frame, key, 5, 1, 0, BULK, 0)->key_hash = hash_of(key);
}

static void check_not_parked(void)
{
    assert_int_equal(peer_in(enemy())->parked_count, 1); /* PARKED */
    assert_int_equal(records_answered(), 1);
}

/* ---- OFFER ------------------------------------------------------------------------- */

static struct record_offer *offer(const tryst_op *op, uint64_t bytes)
{
    return frame_add_offer(&frame, op->id, 1, 0, bytes, NULL);
}

static void make_offer_small(void)
{
    offer(live.small, BULK);
}

static void make_offer_of_little(void)
{
    offer(live.alloc, SMALL);
}

static void make_offer_malformed(void)
{
    offer(live.alloc, BULK)->key_bytes = 100;
}

static void check_no_alloc(void)
{
    assert_int_equal(allocs, 0);
}

static void make_offer_shaped(void)
{
    struct {
        struct record_offer offer;
        struct flow_shape shape;
    } record = {.offer = {.header = {RECORD_OFFER, RECORD_SHAPE, 0, 0},
                          .want = live.bulk_recv->id,
                          .bytes = BULK,
                          .dtype = TRYST_DTYPE_U8}};
    frame_add(&frame, &record, sizeof record, NULL, 0);
}

static void check_receive_fails(void)
{
    assert_int_equal(live.bulk_recv->fail, TRYST_E_MISMATCH);
}

static void make_offer_dtype(void)
{
    offer(live.alloc, BULK)->dtype = 200;
}

static void make_offer_element(void)
{
    offer(live.alloc, BULK + 1)->dtype = TRYST_DTYPE_F32;
}

static void make_offer_huge(void)
{
    offer(live.alloc, UINT64_MAX - 7);
}

static void check_alloc_fails(void)
{
    assert_int_equal(allocs, 0);
    assert_int_equal(tryst_op_test(live.alloc), TRYST_E_MISMATCH);
}

/* ---- all rows ---------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*make)(void);
    const char *reason; /* part of the text; NULL: the enemy stays */
    void (*check)(void);
} rows[] = {
    {"DONE", make_done, NULL, check_done},
    {"DONE for a slice that was not sent", make_done_unsent,
     "acknowledged slices that were not sent", NULL},
    {"DONE that takes a slice back", make_done_backwards,
     "acknowledged slices that were not sent", NULL},
    {"DONE with more slices posted than there are", make_done_posted,
     "acknowledged slices that were not sent", NULL},
    {"DONE with fewer slices posted than have come", make_done_unposted,
     "acknowledged slices that were not sent", NULL},
    {"DONE of a slice for a WANT without a send", make_done_parked,
     "acknowledged slices that were not sent", NULL},
    {"an answer to a WANT, about DATA", make_data_answer,
     "a record about DATA that is not", NULL},
    {"CANCELED for DATA without CANCEL", make_data_returned,
     "returned DATA that no CANCEL requested", NULL},
    {"CANCELED for unknown DATA", make_data_returned_unknown, NULL, check_data},
    {"acknowledgements behind a fault", make_acks_behind_a_fault,
     "a record about DATA that is not", check_data_failed},
    {"DATA that is canceled twice", make_data_canceled_twice, NULL, check_one_answer},
    {"DATA for a number that is over", make_data_over, NULL, check_data_over},
    {"DATA of another dtype", make_data_dtype, NULL, check_mismatch},
    {"DATA that is larger than its receive", make_data_large, NULL, check_mismatch},
    {"DATA for a receive of bulk", make_data_instead_of_bulk,
     "sent DATA for a receive of bulk", check_mid},
    {"small DATA for a receive of bulk", make_small_data_instead_of_bulk, NULL,
     check_mid_mismatch},
    {"RAISE for no WANT", make_raise_unknown, NULL, NULL},
    {"a malformed WANT", make_want_malformed, "more slices posted", check_no_want},
    {"a WANT behind a fault", make_want_behind_a_fault, "a record about DATA that is not",
     check_no_want},
    {"a WANT with an old incarnation", make_want_stale, NULL, check_not_parked},
    {"OFFER for a small receive", make_offer_small, "that cannot take bulk", NULL},
    {"OFFER of a small tensor", make_offer_of_little, "a tensor that fits a frame",
     check_no_alloc},
    {"a malformed OFFER", make_offer_malformed, "OFFER: key does not fit",
     check_no_alloc},
    {"OFFER of a collective", make_offer_shaped, NULL, check_receive_fails},
    {"OFFER of no dtype", make_offer_dtype, NULL, check_alloc_fails},
    {"OFFER of half an element", make_offer_element, NULL, check_alloc_fails},
    {"OFFER of all memory", make_offer_huge, NULL, check_alloc_fails},
};

static void test_rows(void **state)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        memset(in, 0, sizeof in);
        live_begin();
        rows[i].make();
        frame_comes();
        world_settle(&world);
        bool given_up = enemy()->life >= PEER_GIVING_UP;
        const char *text = enemy()->liveness.gone_text;
        if (given_up != (rows[i].reason != NULL) ||
            (given_up && !strstr(text, rows[i].reason)))
            fail_msg("%s: %s", rows[i].name, text);
        if (rows[i].check)
            rows[i].check();
        live_end();
    }
}

/* ---- moments ----------------------------------------------------------------------- */

/* The enemy guesses the id of a receive before the WANT has left: such an answer has no
 * effect. */
static void test_answer_before_want(void **state)
{
    begin(NULL);
    world.sides[0].frames_max = 1;
    tryst_op *data = world_send(&world, 0, live.step, to("d"), out, SMALL, NULL);
    world_settle(&world); /* its frame is in flight: no other one can leave */
    tryst_op *recv = world_recv(&world, 0, live.step, from("a"), in[0], BULK, NULL);
    for (int i = 0; i < 4; i++)
        world_pass(&world);
    assert_true(recv->id && recv->records);
    answer(RECORD_CANCELED, 0, recv->id, TRYST_E_CANCELED);
    answer(RECORD_DEFERRED, 0, recv->id, TRYST_OK);
    frame_comes();
    assert_int_equal(recv->state, OP_WANTED);
    assert_int_equal(tryst_op_test(recv), TRYST_IN_PROGRESS);
    world.sides[0].frames_max = 0;
    end();
    tryst_op_release(data);
    tryst_op_release(recv);
}

/* A receive has failed before it was announced, and its WANT only consumes its number: an
 * OFFER gets no memory. */
static void test_offer_for_void(void **state)
{
    begin(NULL);
    tryst_op *recv = world_recv(&world, 0, live.step, from("a"), NULL, 0, &alloc_params);
    assert_int_equal(tryst_op_cancel(recv), TRYST_OK);
    world_settle(&world);
    assert_int_equal(recv->state, OP_VOID);
    assert_true(recv->id != 0);
    frame_add_offer(&frame, recv->id, 1, 0, BULK, NULL);
    frame_comes();
    world_settle(&world);
    assert_int_equal(allocs, 0);
    assert_int_equal(recv->state, OP_VOID);
    end();
    world_done(recv, TRYST_E_CANCELED);
}

/* Slices come with another size than was posted. */
static void test_slice_size(void **state)
{
    live_begin();
    bulk_comes(live.bulk_recv->id, SLICE);
    assert_int_equal(enemy()->life, PEER_ALIVE);
    bulk_comes(live.bulk_recv->id + 1, SLICE - 1);
    assert_non_null(strstr(enemy()->liveness.gone_text, "a slice of the wrong size"));
    live_end();
}

/* DATA comes for a receive that has got a slice. */
static void test_data_after_bulk(void **state)
{
    live_begin();
    bulk_comes(live.bulk_recv->id, SLICE);
    data_add("bulk", 0, SMALL);
    frame_comes();
    assert_non_null(strstr(enemy()->liveness.gone_text, "that got slices before"));
    live_end();
}

/* All slices of a receive have come, and its DONE cannot leave yet: it takes neither an
 * answer nor DATA. */
static void test_answer_after_end(void **state)
{
    live_begin();
    uint64_t id = live.bulk_recv->id;
    for (uint32_t i = 0; i < SLICES; i++) {
        world.sides[0].frames_max = i == SLICES - 1;
        bulk_comes(id + i, i == SLICES - 1 ? BULK - i * SLICE : SLICE);
    }
    assert_int_equal(tryst_op_test(live.bulk_recv), TRYST_OK);
    assert_int_equal(live.bulk_recv->state, OP_TAKEN);
    answer(RECORD_CANCELED, 0, id, TRYST_E_CANCELED);
    answer(RECORD_DEFERRED, 0, id, TRYST_OK);
    data_add("bulk", 0, SMALL);
    frame_comes();
    assert_int_equal(live.bulk_recv->state, OP_TAKEN);
    assert_int_equal(enemy()->life, PEER_ALIVE);
    assert_int_equal(peer_in(enemy())->unexpected_bytes, 0);
    world.sides[0].frames_max = 0;
    world_settle(&world);
    live_end();
}

/* A receive fails while its slices are withdrawn: it takes no DATA. */
static void test_data_while_ending(void **state)
{
    live_begin();
    world.sides[0].hold_cancels = true;
    answer(RECORD_CANCELED, 0, live.bulk_recv->id, TRYST_E_CANCELED);
    frame_comes();
    assert_int_equal(live.bulk_recv->state, OP_ENDING);
    data_add("bulk", 0, SMALL);
    frame_comes();
    world_settle(&world);
    assert_int_equal(live.bulk_recv->state, OP_ENDING);
    assert_int_equal(peer_in(enemy())->unexpected_bytes, 0);
    world.sides[0].hold_cancels = false;
    world_settle(&world);
    assert_int_equal(tryst_op_test(live.bulk_recv), TRYST_E_CANCELED);
    live_end();
}

/* DATA without end: the enemy is given up before its numbers overflow the ring of its
 * sends. */
static void test_data_beyond_ring(void **state)
{
    static const struct world_setting settings[] = {{"eager_credit", "1M"}, {0}};
    enum { FRAME_DATA = 25 };
    uint64_t count = 0;
    begin(settings);
    while (enemy()->life == PEER_ALIVE && count < 4 * STREAM_RING) {
        for (int i = 0; i < FRAME_DATA; i++)
            data_add("flood", count++, 0);
        frame_comes();
    }
    assert_true(count >= STREAM_RING && count <= STREAM_RING + FRAME_DATA);
    assert_non_null(strstr(enemy()->liveness.gone_text, "more DATA records"));
    end();
}

/* WANTs without end, which are all refused: the enemy is given up when their answers
 * exceed what its credit allows. */
static void test_answers_beyond_credit(void **state)
{
    enum { FRAME_WANTS = 20 };
    uint64_t count = 0;
    begin(NULL);
    uint32_t most = peer_answers_max(enemy());
    while (enemy()->life == PEER_ALIVE && count < 2 * most) {
        for (int i = 0; i < FRAME_WANTS; i++)
            frame_add_want(&frame, to("old"), ++count, 0, 0, BULK, 0);
        frame_comes();
    }
    assert_true(count > most && count <= most + FRAME_WANTS);
    assert_non_null(strstr(enemy()->liveness.gone_text, "exceeded its credit"));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_answer_before_want),
        cmocka_unit_test(test_offer_for_void),
        cmocka_unit_test(test_slice_size),
        cmocka_unit_test(test_data_after_bulk),
        cmocka_unit_test(test_answer_after_end),
        cmocka_unit_test(test_data_while_ending),
        cmocka_unit_test(test_data_beyond_ring),
        cmocka_unit_test(test_answers_beyond_credit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
