/* SPDX-License-Identifier: Apache-2.0 */
/* The path between two ranks, as they report it to each other: the sender's slice size,
 * and pauses of a rank while bulk is in flight. */
#include "world.h"

#include "rendezvous/protocol/recv_run.h"

#define LARGE (1u << 20)

static struct world world;
static tryst_step *steps[2];
static uint8_t out[LARGE], in[LARGE];

static void begin(const struct world_setting *settings)
{
    memset(out, 7, sizeof out);
    memset(in, 0, sizeof in);
    world_open(&world, 2, settings);
    world_join(&world, 0, 1);
    for (int i = 0; i < 2; i++)
        steps[i] = world_step(&world, i, 1);
}

static void end(void)
{
    assert_memory_equal(in, out, sizeof in);
    for (int i = 0; i < 2; i++)
        assert_int_equal(tryst_step_close(steps[i], NULL), TRYST_OK);
    world_settle(&world);
    world_close(&world);
}

static tryst_op *send_of(const char *edge)
{
    return world_send(&world, 0, steps[0], world_key(&world, 0, 1, edge), out, LARGE,
                      NULL);
}

static tryst_op *recv_of(const char *edge)
{
    return world_recv(&world, 1, steps[1], world_key(&world, 0, 1, edge), in, LARGE,
                      NULL);
}

static struct path *path_to_1(void)
{
    return &world_peer(&world, 0, 1)->lane.path;
}

/* Move one tensor; return the slice size of its receive. */
static uint32_t cut_of(const char *edge)
{
    tryst_op *recv = recv_of(edge);
    world_pass(&world);
    assert_non_null(recv->run);
    uint32_t slice_bytes = recv->run->slice_bytes;
    tryst_op *send = send_of(edge);
    world_settle(&world);
    world_done(send, TRYST_OK);
    world_done(recv, TRYST_OK);
    return slice_bytes;
}

/* The receiver cuts by the sender's slice size, once it has received that. A sender
 * without other traffic announces the size in a frame without records. */
static void test_wish(void **state)
{
    static const struct {
        uint64_t wish, cut;
    } table[] = {{64 << 10, 64 << 10},
                 {1 << 20, 1 << 20},
                 {128 << 10, 128 << 10},
                 {4 << 20, 1 << 20}, /* more than the receiver ever follows */
                 {512 << 10, 512 << 10}};
    (void)state;
    begin(NULL);
    assert_int_equal(cut_of("first"), SCHED_SLICE_FIRST);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char edge[8];
        snprintf(edge, sizeof edge, "a%zu", i);
        path_to_1()->slice_bytes = table[i].wish;
        /* cut before the sender's size has arrived; its DONEs make the sender announce
         * the size */
        (void)cut_of(edge);
        snprintf(edge, sizeof edge, "b%zu", i);
        assert_int_equal(cut_of(edge), table[i].cut);
        assert_int_equal(path_to_1()->slice_bytes, table[i].wish);
    }
    end();
}

/* For a receive with no known send, eight slices are posted, however small they are. Once
 * the send is known, as many bytes are posted as with large slices. */
static void test_ahead(void **state)
{
    (void)state;
    begin(NULL);
    path_to_1()->slice_bytes = 64 << 10;
    (void)cut_of("first");
    tryst_op *recv = recv_of("a");
    world_settle(&world);
    assert_int_equal(recv->run->slices, 16);
    assert_int_equal(recv->run->next, 8);
    world.sides[0].window_bytes = 64 << 10;
    tryst_op *send = send_of("a");
    for (int i = 0; i < 100 && recv->run->upto == 0; i++)
        world_pass(&world);
    assert_int_equal(recv->run->next, 16);
    world_settle(&world);
    world_done(send, TRYST_OK);
    world_done(recv, TRYST_OK);
    end();
}

/* The user's slice size counts, and so does the rail's. */
static void test_set(void **state)
{
    static const struct world_setting settings[] = {{"slice_bytes", "32K"}, {0}};
    (void)state;
    begin(settings);
    path_to_1()->slice_bytes = 512 << 10;
    (void)cut_of("a");
    assert_int_equal(cut_of("b"), 32 << 10);
    end();
    begin(NULL);
    world.sides[1].rail.base.slice_bytes = 96 << 10;
    path_to_1()->slice_bytes = 512 << 10;
    (void)cut_of("a");
    assert_int_equal(cut_of("b"), 96 << 10);
    end();
}

/* A rank that pauses while bulk is in flight reports the pause to its own scheduler, and
 * its next frame reports it to the peer's. */
static void test_pause(void **state)
{
    (void)state;
    begin(NULL);
    struct side *sender = &world.sides[0], *receiver = &world.sides[1];
    tryst_op *recv = recv_of("a"), *send = send_of("a");
    receiver->hold_bulk = true;
    for (int i = 0; i < 20; i++) {
        world_pass(&world);
        world_advance(&world, PAUSE_NS / 2); /* shorter than a pause */
    }
    assert_int_equal(sender->pauses_here + sender->pauses_there, 0);
    assert_int_equal(receiver->pauses_here + receiver->pauses_there, 0);
    receiver->away = true;
    for (int i = 0; i < 4; i++) {
        world_pass(&world);
        world_advance(&world, PAUSE_NS / 2);
    }
    receiver->away = false;
    receiver->hold_bulk = false;
    world_settle(&world);
    assert_int_equal(receiver->pauses_here, 1);
    assert_int_equal(sender->pauses_here, 0);
    assert_int_equal(sender->pauses_there, 1);
    world_done(send, TRYST_OK);
    world_done(recv, TRYST_OK);
    assert_int_equal(sender->rdv->bulk.moving, 0);
    assert_int_equal(receiver->rdv->bulk.moving, 0);
    /* With nothing in flight, a pause is not reported. */
    world_advance(&world, 100 * PAUSE_NS);
    world_settle(&world);
    assert_int_equal(receiver->pauses_here, 1);
    end();
}

/* A rank that sleeps until an event has not paused. */
static void test_sleep(void **state)
{
    (void)state;
    begin(NULL);
    tryst_op *recv = recv_of("a"), *send = send_of("a");
    world.sides[1].hold_bulk = true;
    for (int i = 0; i < 4; i++) {
        world_pass(&world);
        world_doze(&world);
        world_advance(&world, 10 * PAUSE_NS);
    }
    world.sides[1].hold_bulk = false;
    world_settle(&world);
    assert_int_equal(world.sides[0].pauses_here + world.sides[0].pauses_there, 0);
    assert_int_equal(world.sides[1].pauses_here + world.sides[1].pauses_there, 0);
    world_done(send, TRYST_OK);
    world_done(recv, TRYST_OK);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wish),  cmocka_unit_test(test_ahead),
        cmocka_unit_test(test_set),   cmocka_unit_test(test_pause),
        cmocka_unit_test(test_sleep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
