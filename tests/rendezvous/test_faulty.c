/* SPDX-License-Identifier: Apache-2.0 */
/* One rank breaks the protocol, or lies. It must hurt itself alone: the honest ranks do
 * not give each other up, and the work that the faulty rank causes at an honest one is
 * bounded. Work is counted, since clocks of a loaded machine prove nothing. */
#include "world.h"

#define LARGE (64u << 10) /* beyond eager_max */

enum { HONEST, FRIEND, FAULTY, RANKS };

static struct world world;
static uint8_t out[1 << 16], in[1 << 16];

/* Open a world in which HONEST is under test, and FAULTY makes no pass by itself. */
static void begin(const struct world_setting *settings)
{
    world_open(&world, RANKS, settings);
    world_join(&world, HONEST, FRIEND);
    world_join(&world, HONEST, FAULTY);
    world_join(&world, FRIEND, FAULTY);
    world.sides[FAULTY].still = true;
}

static tryst_op *send_to(int dst, tryst_step *step, const char *edge)
{
    return world_send(&world, HONEST, step, world_key(&world, HONEST, dst, edge), out,
                      LARGE, NULL);
}

/* Check that the friends have not given each other up, and still move a tensor. */
static void check_friends(uint64_t step_id)
{
    tryst_step *steps[] = {world_step(&world, HONEST, step_id),
                           world_step(&world, FRIEND, step_id)};
    tryst_op *send = send_to(FRIEND, steps[0], "friends");
    tryst_op *recv =
        world_recv(&world, FRIEND, steps[1], world_key(&world, HONEST, FRIEND, "friends"),
                   in, LARGE, NULL);
    world_settle(&world);
    world_done(send, TRYST_OK);
    world_done(recv, TRYST_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(tryst_step_close(steps[i], NULL), TRYST_OK);
    assert_int_equal(world_peer(&world, HONEST, FRIEND)->life, PEER_ALIVE);
    assert_int_equal(world_peer(&world, FRIEND, HONEST)->life, PEER_ALIVE);
}

/* ---- CLOSED ------------------------------------------------------------------------ */

/* Let FAULTY report `count` times, in one frame, that it has closed the step. */
static void inject_closed(uint64_t step, unsigned count)
{
    struct {
        struct frame_header header;
        struct record_answer answers[64];
    } frame = {.header = {.cookie = world.sides[HONEST].rdv->cookie,
                          .records = (uint16_t)count}};
    const struct peer *peer = world_peer(&world, HONEST, FAULTY);
    assert_true(count <= COUNT_OF(frame.answers));
    frame.header.frames_read = peer->out.frames_acked;
    frame.header.wants_taken = peer->out.wants_acked;
    frame.header.done_base = (uint32_t)peer->out.stream.acked;
    for (unsigned i = 0; i < count; i++)
        frame.answers[i] =
            (struct record_answer){.header = {RECORD_CLOSED, RECORD_STEP,
                                              sizeof frame.answers[i], TRYST_E_CLOSED},
                                   .id = step,
                                   .origin_rank = FAULTY};
    world_inject(&world, HONEST, FAULTY, &frame,
                 sizeof frame.header + count * sizeof frame.answers[0]);
}

/* CLOSED fails the sends that wait for its sender, once, and costs nothing else: neither
 * for sends to other ranks, nor for the same record once more, nor for a step in which no
 * send waits for its sender. A later send is failed by the next answer. */
static void test_closed_again_and_again(void **state)
{
    enum { FRIENDS = 2000, WAITING = 20, OWN = 3, FRAMES = 50, EACH = 64 };
    static tryst_op *sends[FRIENDS];
    tryst_op *waiting[WAITING], *own[OWN];
    tryst_step *steps[3];
    begin(NULL);
    const struct rendezvous_counters *counters = &world.sides[HONEST].rdv->counters;
    for (int i = 0; i < 3; i++)
        steps[i] = world_step(&world, HONEST, (uint64_t)i);
    for (int i = 0; i < FRIENDS; i++)
        sends[i] = send_to(FRIEND, steps[i % 3], "a");
    for (int i = 0; i < WAITING; i++)
        waiting[i] = send_to(FAULTY, steps[2], "b");
    for (uint64_t round = 1; round <= 2; round++) {
        for (int i = 0; i < FRAMES; i++)
            inject_closed(0, EACH);
        for (int i = 0; i < OWN; i++)
            own[i] = send_to(FAULTY, steps[1], "c");
        world_settle(&world);
        for (int i = 0; i < FRAMES; i++)
            inject_closed(1, EACH);
        world_settle(&world);
        for (int i = 0; i < OWN; i++)
            world_done(own[i], TRYST_E_CLOSED);
        assert_in_range(counters->closed_walked, OWN, round * (WAITING + 2 * OWN));
    }
    for (int i = 0; i < FRIENDS; i++)
        assert_int_equal(tryst_op_test(sends[i]), TRYST_IN_PROGRESS);
    for (int i = 0; i < WAITING; i++)
        assert_int_equal(tryst_op_test(waiting[i]), TRYST_IN_PROGRESS);
    assert_int_equal(world_peer(&world, HONEST, FAULTY)->life, PEER_ALIVE);
    for (int i = 0; i < 3; i++)
        assert_int_equal(tryst_step_close(steps[i], NULL), TRYST_OK);
    world_settle(&world);
    for (int i = 0; i < FRIENDS; i++)
        world_done(sends[i], TRYST_E_CANCELED);
    for (int i = 0; i < WAITING; i++)
        world_done(waiting[i], TRYST_E_CANCELED);
    check_friends(3);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_closed_again_and_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
