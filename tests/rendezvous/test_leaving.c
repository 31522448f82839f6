/* SPDX-License-Identifier: Apache-2.0 */
/* A data path breaks, and the next event of the link decides: LEAVE; the end of the
 * process; or none, which means that only the path was lost. Path and link use separate
 * connections, so any order may come. */
#include "world.h"

static struct world world;
static tryst_step *steps[2];
static uint8_t in[20000]; /* large, so that its receive is announced at once */
static uint8_t out[sizeof in];

/* Break rank 0's path while one of its receives waits for rank 1. */
static tryst_op *begin_broken(void)
{
    world_open(&world, 2, NULL);
    world_join(&world, 0, 1);
    for (int i = 0; i < 2; i++)
        steps[i] = world_step(&world, i, 1);
    tryst_op *recv = world_recv(&world, 0, steps[0], world_key(&world, 1, 0, "a"), in,
                                sizeof in, NULL);
    world_settle(&world);
    peer_rail_events.failed(&world_ep_find(&world, 0, 1)->base, TRYST_E_PEER, "reset");
    world_settle(&world);
    assert_int_equal(tryst_op_test(recv), TRYST_IN_PROGRESS);
    assert_int_equal(world.sides[0].rdv->counters.peers_given_up, 0);
    return recv;
}

static void expect_peer_error(tryst_op *recv, const char *text, uint64_t given_up)
{
    tryst_error error = {.struct_size = sizeof error};
    world_settle(&world);
    bool left = strcmp(text, "has left the group") == 0;
    assert_int_equal(tryst_op_error(recv, &error), left ? TRYST_E_LEFT : TRYST_E_PEER);
    if (!strstr(error.text, text))
        fail_msg("'%s' instead of '%s'", error.text, text);
    assert_int_equal(world.sides[0].rdv->counters.peers_given_up, given_up);
    tryst_op_release(recv);
}

/* Close the steps of the `count` ranks that have not left (leaving closes the steps). */
static void end(int count)
{
    for (int i = 0; i < count; i++)
        assert_int_equal(tryst_step_close(steps[i], NULL), TRYST_OK);
    world_settle(&world);
    world_close(&world);
}

static void test_leave_comes(void **state)
{
    tryst_op *recv = begin_broken();
    world_leave_next(world.sides[1].rdv);
    world_leave_next(world.sides[1].rdv);
    expect_peer_error(recv, "has left the group", 0);
    assert_null(strstr(world.sides[0].log_text, "was lost"));
    /* The transport of a rank that has left is still reported. */
    tryst_peer_info info = {.struct_size = sizeof info};
    assert_int_equal(rendezvous_group_peer(&world.sides[0].group, 1, &info), TRYST_OK);
    assert_int_equal(info.alive, 0);
    assert_true(info.transport[0] && info.mechanism[0]);
    end(1);
}

/* One status, whether the answer to a record comes before LEAVE or after: of a receive
 * with a parked WANT, of one that both ends have posted, and of a later one. */
static void test_answers_come(void **state)
{
    world_open(&world, 2, NULL);
    world_join(&world, 0, 1);
    for (int i = 0; i < 2; i++)
        steps[i] = world_step(&world, i, 1);
    world.sides[1].hold_sched = true;
    tryst_op *recvs[3],
        *send = world_send(&world, 1, steps[1], world_key(&world, 1, 0, "met"), out,
                           sizeof out, NULL);
    static const char *const edges[] = {"parked", "met", "later"};
    for (int i = 0; i < 2; i++)
        recvs[i] = world_recv(&world, 0, steps[0], world_key(&world, 1, 0, edges[i]), in,
                              sizeof in, NULL);
    world_settle(&world);
    world_leave_next(world.sides[1].rdv);
    world_settle(&world);
    recvs[2] = world_recv(&world, 0, steps[0], world_key(&world, 1, 0, edges[2]), in,
                          sizeof in, NULL);
    world_settle(&world);
    for (int i = 0; i < 3; i++)
        expect_peer_error(recvs[i], "has left the group", 0);
    world_done(send, TRYST_E_CONTEXT);
    world_leave_next(world.sides[1].rdv);
    world.sides[1].hold_sched = false;
    world_advance(&world, NS_PER_S);
    expect_peer_error(world_recv(&world, 0, steps[0], world_key(&world, 1, 0, "last"), in,
                                 sizeof in, NULL),
                      "has left the group", 0);
    end(1);
}

static void test_nothing_comes(void **state)
{
    tryst_op *recv = begin_broken();
    world_advance(&world, 900 * NS_PER_MS);
    world_settle(&world);
    assert_int_equal(tryst_op_test(recv), TRYST_IN_PROGRESS);
    world_advance(&world, 600 * NS_PER_MS);
    expect_peer_error(recv, "was lost: reset", 1);
    end(2);
}

static void test_death_comes(void **state)
{
    tryst_op *recv = begin_broken();
    world_link_cut(&world, 0, 1);
    expect_peer_error(recv, "died", 1);
    end(2);
}

/* The first sign is a message that fails, not the transport's event. LEAVE, or its
 * absence, decides as well. */
static void failing_run(int which, bool leaves)
{
    static const char *const names[] = {"frame", "send", "receive"};
    world_open(&world, 2, NULL);
    world_join(&world, 0, 1);
    for (int i = 0; i < 2; i++)
        steps[i] = world_step(&world, i, 1);
    struct side *side = &world.sides[0];
    bool *const knobs[] = {&side->frames_fail, &side->sends_fail, &side->recvs_fail};
    *knobs[which] = true;
    bool sends = which == 1;
    const char *key = world_key(&world, sends ? 0 : 1, sends ? 1 : 0, "a");
    tryst_op *ops[2];
    for (int i = 0; i < 2; i++)
        ops[i] = (i == 0) == sends
                     ? world_send(&world, i, steps[i], key, in, sizeof in, NULL)
                     : world_recv(&world, i, steps[i], key, out, sizeof out, NULL);
    for (int i = 0; i < 20; i++)
        pass_run(world.sides[i % 2].rdv);
    assert_int_equal(side->rdv->counters.peers_given_up, 0);
    if (tryst_op_test(ops[0]) != TRYST_IN_PROGRESS)
        fail_msg("a %s failed, and the peer was given up at once", names[which]);
    if (leaves) {
        world_leave_next(world.sides[1].rdv);
        world_leave_next(world.sides[1].rdv);
        expect_peer_error(ops[0], "has left the group", 0);
    } else {
        world_advance(&world, 1500 * NS_PER_MS);
        expect_peer_error(ops[0], "was lost: a message did not get through", 1);
    }
    world_settle(&world);
    tryst_op_release(ops[1]);
    end(leaves ? 1 : 2);
}

static void test_message_fails(void **state)
{
    for (int which = 0; which < 3; which++)
        for (int leaves = 0; leaves < 2; leaves++)
            failing_run(which, leaves);
}

/* Operations that are submitted meanwhile wait for the verdict with the rest, and nothing
 * is sent. */
static void test_meanwhile(void **state)
{
    tryst_op *recv = begin_broken();
    uint64_t frames = world.sides[0].rdv->counters.frames_sent;
    tryst_op *send = world_send(&world, 0, steps[0], world_key(&world, 0, 1, "b"), in,
                                sizeof in, NULL);
    world_settle(&world);
    assert_int_equal(tryst_op_test(send), TRYST_IN_PROGRESS);
    assert_int_equal(world.sides[0].rdv->counters.frames_sent, frames);
    world_advance(&world, 1500 * NS_PER_MS);
    expect_peer_error(recv, "was lost: reset", 1);
    world_done(send, TRYST_E_PEER);
    end(2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leave_comes),   cmocka_unit_test(test_answers_come),
        cmocka_unit_test(test_nothing_comes), cmocka_unit_test(test_death_comes),
        cmocka_unit_test(test_message_fails), cmocka_unit_test(test_meanwhile),
    };
    return cmocka_run_group_tests_name("leaving", tests, NULL, NULL);
}
