/* SPDX-License-Identifier: Apache-2.0 */
/* The candidates for an endpoint, tried one after the other: some never become ready,
 * some are refused by either rank, some break. Peers leave, die or are given up at each
 * of these moments; from then on no endpoint to them may be opened.
 *
 * TRYST_TEST_SEED replays test_walk, TRYST_TEST_LIVES sets its lives. */
#include "world.h"

#include "rendezvous/peer/tree.h"

#include <inttypes.h>

#define LARGE (64u << 10) /* beyond eager_max */

static struct world world;
static uint8_t out[1 << 16], in[1 << 16];

static const struct world_setting impatient[] = {{"connect_timeout", "5s"}, {0}};

static tryst_op *send_to(int dst, tryst_step *step)
{
    return world_send(&world, dst == 0, step, world_key(&world, dst == 0, dst, "a"), out,
                      LARGE, NULL);
}

/* ---- endpoints that never become ready --------------------------------------------- */

static void advance_ms(int ms)
{
    for (; ms > 0; ms -= 100)
        world_advance(&world, NS_PER_S / 10);
}

/* A candidate never becomes ready at one rank, or at both. The operations of both ends
 * must fail with a text that names the candidate. */
static void test_never_ready(void **state)
{
    for (int both = 0; both < 2; both++) {
        world_open(&world, 2, impatient);
        world.sides[0].unready = 100;
        world.sides[1].unready = both ? 100 : 0;
        tryst_step *steps[2] = {world_step(&world, 0, 1), world_step(&world, 1, 1)};
        const char *key = world_key(&world, 0, 1, "a");
        tryst_op *ops[2] = {world_send(&world, 0, steps[0], key, out, LARGE, NULL),
                            world_recv(&world, 1, steps[1], key, in, LARGE, NULL)};
        advance_ms(4000);
        assert_int_equal(tryst_op_test(ops[0]), TRYST_IN_PROGRESS);
        assert_int_equal(tryst_op_test(ops[1]), TRYST_IN_PROGRESS);
        advance_ms(4000);
        for (int i = 0; i < 2; i++) {
            tryst_error error = {.struct_size = sizeof error};
            if (tryst_op_error(ops[i], &error) == TRYST_IN_PROGRESS)
                fail_msg("rank %d still waits", i);
            assert_int_equal(error.origin_rank, 1 - i);
            assert_non_null(strstr(error.text, "shm did not connect within "
                                               "TRYST_CONNECT_TIMEOUT"));
            tryst_op_release(ops[i]);
            tryst_step_close(steps[i], NULL);
        }
        world_close(&world);
    }
}

/* The next candidate may work, also where only one rank saw the first ones fail. */
static void test_never_ready_but_the_next(void **state)
{
    for (unsigned who = 1; who <= 3; who++) {
        world_open(&world, 2, impatient);
        world_ways(&world, 3);
        world.sides[0].unready = who & 1 ? 2 : 0;
        world.sides[1].unready = who & 2 ? 2 : 0;
        world_settle(&world);
        peer_connect_start(world_peer(&world, 0, 1));
        advance_ms(14000);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(world_peer(&world, i, 1 - i)->endpoint.state, PEER_EP_READY);
            assert_int_equal(world_peer(&world, i, 1 - i)->endpoint.candidate, 2);
        }
        world_close(&world);
    }
}

/* A rank that makes no pass for a minute is not silent, and then goes on. Times in which
 * only one of the two ranks made passes must not add up either. */
static void test_never_looked(void **state)
{
    world_open(&world, 2, impatient);
    tryst_step *step = world_step(&world, 0, 1);
    peer_connect_start(world_peer(&world, 0, 1));
    while (world_peer(&world, 0, 1)->link.state != PEER_LINK_UP)
        world_pass(&world);
    struct peer *peer = world_peer(&world, 0, 1);
    world.sides[0].unready = 1;
    tryst_op *send = send_to(1, step);
    for (int turn = 0; turn < 6; turn++) {
        world.sides[turn % 2].still = true;
        advance_ms(20000);
        world.sides[turn % 2].still = false;
        world_settle(&world);
    }
    assert_int_equal(peer->life, PEER_ALIVE);
    assert_int_equal(tryst_op_test(send), TRYST_IN_PROGRESS);
    tryst_step_close(step, NULL);
    world_settle(&world);
    world_done(send, TRYST_E_CANCELED);
    world_close(&world);
}

/* A rank refuses the next candidate before the other rank has closed the last one. */
static void test_refused_ahead(void **state)
{
    world_open(&world, 2, impatient);
    world_ways(&world, 3);
    world.sides[0].unready = 1;
    world.sides[0].hold_close = true;
    world.sides[1].no_kind = TRANSPORT_UCX;
    tryst_step *step = world_step(&world, 0, 1);
    tryst_op *send = send_to(1, step);
    advance_ms(8000);
    assert_int_equal(world_peer(&world, 0, 1)->endpoint.state, PEER_EP_REFUSED);
    assert_int_equal(world_peer(&world, 1, 0)->endpoint.candidate, 2);
    world.sides[0].hold_close = false;
    advance_ms(1000);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(world_peer(&world, i, 1 - i)->endpoint.state, PEER_EP_READY);
        assert_int_equal(world_peer(&world, i, 1 - i)->endpoint.candidate, 2);
    }
    tryst_step_close(step, NULL);
    world_settle(&world);
    world_done(send, TRYST_E_CANCELED);
    world_close(&world);
}

/* ---- the end of a peer, between two candidates ------------------------------------- */

/* Let rank 0 refuse its first candidate, which is not closed yet. */
static struct peer *begin_refused(tryst_step **step_p, tryst_op **send_p)
{
    world_open(&world, 2, NULL);
    world_ways(&world, 3);
    world_settle(&world);
    world.sides[0].refuses = 1;
    world.sides[0].hold_close = true;
    *step_p = world_step(&world, 0, 1);
    *send_p = send_to(1, *step_p);
    world_settle(&world);
    struct peer *peer = world_peer(&world, 0, 1);
    assert_int_equal(peer->endpoint.state, PEER_EP_REFUSED);
    assert_int_equal(peer->endpoint.candidate, 0);
    assert_non_null(peer->endpoint.ep);
    return peer;
}

/* Let the candidate close, and check that no endpoint was opened since the count was
 * `ids`. */
static void end_refused(struct peer *peer, tryst_step *step, tryst_op *send, uint64_t ids)
{
    world.sides[0].hold_close = false;
    world_settle(&world);
    assert_int_equal(peer->life, PEER_GONE);
    assert_int_equal(peer->endpoint.state, PEER_EP_NONE);
    assert_null(peer->endpoint.ep);
    pass_reap(world.sides[0].rdv); /* the last call that tryst_group_close makes */
    assert_null(peer->endpoint.ep);
    assert_int_equal(world.ep_ids, ids);
    world_done(send, peer->left ? TRYST_E_LEFT : TRYST_E_PEER);
    tryst_step_close(step, NULL);
    world_close(&world);
}

static void test_given_up_while_refused(void **state)
{
    tryst_step *step;
    tryst_op *send;
    struct peer *peer = begin_refused(&step, &send);
    uint64_t ids = world.ep_ids;
    peer_give_up(peer, TRYST_E_PEER, "is not needed any more");
    assert_int_equal(peer->endpoint.state, PEER_EP_CLOSING);
    end_refused(peer, step, send, ids);
}

/* The peer's refusal, and its connect messages, arrive while the peer is given up. */
static void test_refused_while_given_up(void **state)
{
    tryst_step *step;
    tryst_op *send;
    struct peer *peer = begin_refused(&step, &send);
    uint64_t ids = world.ep_ids;
    peer_give_up(peer, TRYST_E_PEER, "is not needed any more");
    for (uint32_t candidate = 0; candidate < 3; candidate++) {
        peer_ep_refused(peer, candidate, "no", 2);
        peer_ep_message(peer, candidate, "x", 1, -1);
        assert_int_equal(peer->endpoint.state, PEER_EP_CLOSING);
    }
    assert_int_equal(peer->endpoint.held_count, 0);
    end_refused(peer, step, send, ids);
}

/* The candidate's time-out passes in the tick that gives the peer up for another
 * reason. */
static void test_late_while_given_up(void **state)
{
    world_open(&world, 2, impatient);
    world_ways(&world, 2);
    world.sides[0].unready = 1;
    world_settle(&world);
    tryst_step *step = world_step(&world, 0, 1);
    tryst_op *send = send_to(1, step);
    world_settle(&world);
    struct peer *peer = world_peer(&world, 0, 1);
    uint64_t ids = world.ep_ids;
    peer_give_up(peer, TRYST_E_PEER, "is not needed any more");
    peer_ep_tick(peer, 10 * NS_PER_S);
    end_refused(peer, step, send, ids);
}

/* The closed candidate was the last thing that kept a peer which has left. No other
 * candidate may be opened. */
static void test_left_while_refused(void **state)
{
    tryst_step *step;
    tryst_op *send;
    struct peer *peer = begin_refused(&step, &send);
    uint64_t ids = world.ep_ids;
    peer_left_note(peer);
    world.sides[0].hold_close = false;
    pass_run(world.sides[0].rdv);
    pass_reap(world.sides[0].rdv);
    assert_int_equal(world.ep_ids, ids);
    world_advance(&world, NS_PER_S);
    end_refused(peer, step, send, ids);
}

/* A submission between the end of one candidate and the opening of the next must not
 * start again with the first candidate, which was refused. */
static void test_needed_while_refused(void **state)
{
    tryst_step *step;
    tryst_op *send;
    struct peer *peer = begin_refused(&step, &send);
    world.sides[0].hold_close = false;
    (void)world.sides[0].rail.base.ops->progress(&world.sides[0].rail.base);
    assert_null(peer->endpoint.ep); /* closed, and the reap has not come */
    peer_connect_start(peer);
    assert_null(peer->endpoint.ep);
    world_settle(&world);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(world_peer(&world, i, 1 - i)->endpoint.state, PEER_EP_READY);
        assert_int_equal(world_peer(&world, i, 1 - i)->endpoint.candidate, 1);
    }
    tryst_step_close(step, NULL);
    world_settle(&world);
    world_done(send, TRYST_E_CANCELED);
    world_close(&world);
}

/* A candidate that breaks while it closes proves nothing about the peer. The next
 * candidate must be opened. */
static void test_broken_while_refused(void **state)
{
    tryst_step *step;
    tryst_op *send;
    struct peer *peer = begin_refused(&step, &send);
    peer_rail_events.failed(peer->endpoint.ep, TRYST_E_PEER, "reset");
    world.sides[0].hold_close = false;
    world_advance(&world, 2 * NS_PER_S);
    assert_int_equal(peer->life, PEER_ALIVE);
    assert_int_equal(peer->endpoint.state, PEER_EP_READY);
    assert_int_equal(peer->endpoint.candidate, 1);
    tryst_step_close(step, NULL);
    world_settle(&world);
    world_done(send, TRYST_E_CANCELED);
    world_close(&world);
}

/* A candidate that was ready at this rank, and is refused at the other, takes no frame
 * from then on: the frame would be lost with the candidate. */
static void test_no_frame_after_refusal(void **state)
{
    world_open(&world, 2, NULL);
    world_ways(&world, 2);
    world_join(&world, 0, 1);
    struct peer *peer = world_peer(&world, 0, 1);
    tryst_step *step = world_step(&world, 0, 1);
    peer_ep_refused(peer, 0, "no", 2);
    tryst_op *send = send_to(1, step);
    peer_flush_later(peer);
    assert_false(list_linked(&peer->out.flush_node));
    assert_int_equal(peer->out.frames_sent, 0);
    world_settle(&world);
    assert_int_equal(peer->endpoint.candidate, 1);
    tryst_step_close(step, NULL);
    world_settle(&world);
    world_done(send, TRYST_E_CANCELED);
    world_close(&world);
}

/* ---- a walk ------------------------------------------------------------------------ */

static struct random rng;

static bool one_in(uint64_t n)
{
    return random_range(&rng, n) == 0;
}

/* Check the peer against the drawing in peer.h. */
static void check_peer(const struct peer *peer)
{
    const struct peer_endpoint *endpoint = &peer->endpoint;
    assert_int_equal(peer->life == PEER_GIVING_UP, endpoint->state == PEER_EP_CLOSING);
    if (peer->life == PEER_GONE || endpoint->state == PEER_EP_NONE)
        assert_null(endpoint->ep);
    if (peer->life == PEER_GONE)
        assert_int_equal(endpoint->state, PEER_EP_NONE);
    if (endpoint->closing)
        assert_true(endpoint->ep && (endpoint->state == PEER_EP_CLOSING ||
                                     endpoint->state == PEER_EP_REFUSED));
    if (endpoint->state != PEER_EP_READY)
        assert_false(list_linked(&peer->out.flush_node));
}

static void walk_step(int rank)
{
    struct side *side = &world.sides[rank];
    struct peer *peer = world_peer(&world, rank, 1 - rank);
    uint32_t candidate = (uint32_t)random_range(&rng, 4);
    switch (random_range(&rng, 12)) {
    case 0: peer_connect_start(peer); break;
    case 1: side->refuses = (uint32_t)random_range(&rng, 3); break;
    case 2: side->unready = (uint32_t)random_range(&rng, 2); break;
    case 3: side->hold_close = one_in(2); break;
    case 4: world.hold_links = one_in(2); break;
    case 5:
        if (one_in(4) && peer->out.frames_sent == 0)
            peer_ep_refused(peer, candidate, "no", 2);
        break;
    case 6:
        if (one_in(4))
            peer_ep_message(peer, candidate, "x", 1, -1);
        break;
    case 7:
        if (one_in(8) && peer->endpoint.ep && !peer->endpoint.closing)
            peer_rail_events.failed(peer->endpoint.ep, TRYST_E_PEER, "reset");
        break;
    case 8: clock_fake_advance(&world.clock, random_range(&rng, 6 * NS_PER_S)); break;
    default: world_pass(&world); break;
    }
}

/* Take rank `rank` one state further on its way out of the group. */
static void walk_leave(int rank)
{
    struct rendezvous *rdv = world.sides[rank].rdv;
    if (rdv->leave.state == LEAVE_BEGUN && one_in(8))
        peer_give_up(world_peer(&world, rank, 1 - rank), TRYST_E_PEER, "is not needed");
    if (rdv->leave.state < LEAVE_CUT)
        world_leave_next(rdv);
    else
        pass_reap(rdv);
}

/* Two ranks meet, and leave at any moment of the meeting, or never. Both state machines
 * must follow their drawing, and in the end no endpoint is left (world_close). */
static void walk(void)
{
    int turns = (int)random_range(&rng, 60);
    world_open(&world, 2, impatient);
    world_ways(&world, 1 + (int)random_range(&rng, 3));
    for (int i = 0; i < turns; i++) {
        int rank = (int)random_range(&rng, 2);
        walk_step(rank);
        if (i > turns / 2 && one_in(6))
            walk_leave(rank);
        for (int k = 0; k < 2; k++)
            check_peer(world_peer(&world, k, 1 - k));
    }
    world_close(&world);
}

static void test_walk(void **state)
{
    const char *wanted = getenv("TRYST_TEST_LIVES");
    uint64_t lives = wanted ? strtoull(wanted, NULL, 0) : 2000;
    uint64_t seed = unit_seed();
    for (uint64_t i = 0; i < lives; i++) {
        random_seed(&rng, seed + i);
        if (wanted)
            print_message("life %" PRIu64 "\n", seed + i);
        walk();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never_ready),
        cmocka_unit_test(test_never_ready_but_the_next),
        cmocka_unit_test(test_never_looked),
        cmocka_unit_test(test_refused_ahead),
        cmocka_unit_test(test_given_up_while_refused),
        cmocka_unit_test(test_refused_while_given_up),
        cmocka_unit_test(test_late_while_given_up),
        cmocka_unit_test(test_left_while_refused),
        cmocka_unit_test(test_needed_while_refused),
        cmocka_unit_test(test_broken_while_refused),
        cmocka_unit_test(test_no_frame_after_refusal),
        cmocka_unit_test(test_walk),
    };
    return cmocka_run_group_tests_name("candidates", tests, NULL, NULL);
}
