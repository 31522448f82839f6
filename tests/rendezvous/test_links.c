/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that join, leave and die before all their links are up. A rank that left must not
 * be reported as dead, a rank that died must be, and an abort must reach ranks that join
 * late. */
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "world.h"

#include "rendezvous/peer/link.h"
#include "rendezvous/peer/loss.h"
#include "rendezvous/peer/tree.h"

#define LARGE (64u << 10) /* beyond eager_max */

static struct world world;
static uint8_t out[1 << 16], in[1 << 16];

static bool said(int rank, const char *text)
{
    return strstr(world.sides[rank].log_text, text) != NULL;
}

/* Let `rank` leave as tryst_group_close does, while no other rank makes a pass. */
static void leave(int rank)
{
    struct rendezvous *rdv = world.sides[rank].rdv;
    while (rdv->leave.state < LEAVE_CUT) {
        world_leave_next(rdv);
        if (world.links_slow)
            world_links_run(&world);
        for (int k = 0; k < 20; k++)
            pass_run(rdv);
    }
    assert_int_equal(rendezvous_leave_poll(rdv), LEAVE_DONE);
    rendezvous_listen_stop(rdv);
}

static tryst_op *send_to(int dst, tryst_step *step)
{
    return world_send(&world, dst == 0, step, world_key(&world, dst == 0, dst, "a"), out,
                      LARGE, NULL);
}

/* Check that the operation failed with `status` and origin `rank`, and that its error
 * contains `text`. */
static void check_status(tryst_op *op, tryst_status status, int rank, const char *text)
{
    tryst_error error = {.struct_size = sizeof error};
    assert_int_equal(tryst_op_error(op, &error), status);
    assert_int_equal(error.origin_rank, rank);
    if (!strstr(error.text, text))
        fail_msg("%s", error.text);
    tryst_op_release(op);
}

static void check_failed(tryst_op *op, int rank, const char *text)
{
    bool left = strstr(text, "has left") != NULL;
    check_status(op, left ? TRYST_E_LEFT : TRYST_E_PEER, rank, text);
}

/* Rank 1 has left: before rank 0 has read its link; while rank 0 was connecting too; or
 * after rank 0 had read that its own link would close, but before it accepted the link
 * that stays. */
static void test_left_before_link(void **state)
{
    for (int crossing = 0; crossing < 3; crossing++) {
        world_open(&world, 2, NULL);
        world.hold_links = true;
        tryst_step *step = world_step(&world, 0, 1);
        tryst_op *send = send_to(1, step);
        if (crossing)
            for (int i = 0; i < 5; i++)
                pass_run(world.sides[0].rdv);
        world.hold_links = crossing < 2;
        world.sides[1].hold_accepts = true;
        world_settle(&world);
        world.hold_links = world.sides[0].still = true;
        leave(1);
        world.hold_links = world.sides[0].still = false;
        world_settle(&world);
        world_advance(&world, 3 * NS_PER_S);
        check_failed(send, 1, "rank 1 has left the group");
        assert_false(said(0, "died"));
        assert_int_equal(world.sides[0].rdv->counters.peers_given_up, 0);
        tryst_step_close(step, NULL);
        world_close(&world);
    }
}

/* HELLO and LEAVE come together. Both must be read before an endpoint is opened: some
 * fabrics take so long to open one that other ranks would stop waiting for this rank's
 * report of departed ranks. */
static void test_left_before_endpoint(void **state)
{
    world_open(&world, 2, NULL);
    world.hold_links = true;
    tryst_step *step = world_step(&world, 0, 1);
    tryst_op *send = send_to(1, step);
    world_settle(&world);
    world.hold_links = false;
    world_links_run(&world); /* this rank's HELLO, which rank 1 answers */
    world.hold_links = world.sides[0].still = true;
    leave(1);
    world.hold_links = world.sides[0].still = false;
    world_links_run(&world); /* rank 1's HELLO, and LEAVE */
    assert_true(world_peer(&world, 0, 1)->left);
    assert_null(world_peer(&world, 0, 1)->endpoint.ep);
    world_settle(&world);
    world_advance(&world, NS_PER_S);
    check_failed(send, 1, "rank 1 has left the group");
    tryst_step_close(step, NULL);
    world_close(&world);
}

/* As above, but rank 1 dies. */
static void test_died_before_link(void **state)
{
    for (int crossing = 0; crossing < 2; crossing++) {
        world_open(&world, 2, NULL);
        world.hold_links = true;
        tryst_step *step = world_step(&world, 0, 1);
        tryst_op *send = send_to(1, step);
        if (crossing)
            for (int i = 0; i < 5; i++)
                pass_run(world.sides[0].rdv);
        world_kill(&world, 1);
        world.hold_links = false;
        world_settle(&world);
        for (int i = 0; i < 3; i++) /* a connection that was up is tried once more */
            world_advance(&world, 500 * NS_PER_MS);
        check_failed(send, 1, "rank 1 died: ");
        assert_true(said(0, "rank 1 died"));
        tryst_step_close(step, NULL);
        world_close(&world);
    }
}

/* Ranks 1 and 2 have no link to each other. Rank 1 must learn through rank 0 that rank 2
 * has left, also when its own link to rank 0 comes up only afterwards. */
static void test_left_is_passed_on(void **state)
{
    for (int late = 0; late < 2; late++) {
        world_open(&world, 3, NULL);
        /* rank 2's link comes up first */
        world.hold_links = world.links_backwards = late;
        world_settle(&world);
        tryst_step *step = world_step(&world, 1, 1);
        leave(2);
        world.hold_links = false;
        world_settle(&world);
        world_advance(&world, NS_PER_S);
        assert_true(group_has_left(&world.sides[1].group, 2));
        tryst_op *send =
            world_send(&world, 1, step, world_key(&world, 1, 2, "a"), out, LARGE, NULL);
        world_settle(&world);
        check_failed(send, 2, "rank 2 has left the group");
        for (int i = 0; i < 2; i++) {
            assert_false(said(i, "died"));
            assert_int_equal(world.sides[i].rdv->counters.peers_given_up, 0);
        }
        tryst_step_close(step, NULL);
        world_close(&world);
    }
}

/* Rank 1 has made no pass since it opened its group, so none of its messages has left,
 * and no rank has a link to it. Both others leave, rank 2 through rank 0. Rank 1 must
 * learn of both at its next pass. */
static void test_left_before_it_looked(void **state)
{
    world_open(&world, 3, NULL);
    world.links_slow = world.sides[1].away = true;
    tryst_step *step = world_step(&world, 1, 1);
    world_settle(&world);
    leave(2);
    world_settle(&world);
    leave(0);
    world.sides[1].away = false;
    for (int peer = 0; peer < 3; peer += 2) {
        tryst_op *send = world_send(&world, 1, step, world_key(&world, 1, peer, "a"), out,
                                    LARGE, NULL);
        world_settle(&world);
        world_advance(&world, 3 * NS_PER_S);
        check_failed(send, peer, "has left the group");
    }
    assert_false(said(1, "died"));
    assert_int_equal(world.sides[1].rdv->counters.peers_given_up, 0);
    tryst_step_close(step, NULL);
    world_close(&world);
}

/* Rank 2 makes its first pass when rank 0, its parent, is about to close its group:
 * before rank 0 has sent LEAVE, or after. Rank 2 must learn that rank 1 has left, which
 * only rank 0 can report, and then that rank 0 has left. */
static void test_parent_is_leaving(void **state)
{
    for (int told = 0; told < 2; told++) {
        world_open(&world, 3, NULL);
        world.links_slow = world.sides[2].away = true;
        tryst_step *step = world_step(&world, 2, 1);
        world_settle(&world);
        leave(1);
        world_settle(&world);
        struct rendezvous *parent = world.sides[0].rdv;
        world_leave_next(parent);
        if (told)
            world_leave_next(parent);
        world.sides[2].away = false;
        pass_run(world.sides[2].rdv);
        world_links_run(&world);
        if (!told)
            world_leave_next(parent);
        world.sides[2].away = true;
        leave(0);
        world.sides[2].away = false;
        for (int peer = 0; peer < 2; peer++) {
            tryst_op *send = world_send(&world, 2, step, world_key(&world, 2, peer, "a"),
                                        out, LARGE, NULL);
            world_settle(&world);
            world_advance(&world, 3 * NS_PER_S);
            check_failed(send, peer, "has left the group");
        }
        assert_false(said(2, "died"));
        assert_int_equal(world.sides[2].rdv->counters.peers_given_up, 0);
        tryst_step_close(step, NULL);
        world_close(&world);
    }
}

/* The report that a rank has left comes after the connection to it was refused, but
 * within the grace. */
static void test_left_is_heard_late(void **state)
{
    world_open(&world, 3, NULL);
    world_settle(&world);
    tryst_step *step = world_step(&world, 1, 1);
    leave(2);
    world.sides[0].still = true;
    world.hold_links = true; /* rank 0 has not read LEAVE yet */
    tryst_op *send =
        world_send(&world, 1, step, world_key(&world, 1, 2, "a"), out, LARGE, NULL);
    world_settle(&world);
    assert_int_equal(world_peer(&world, 1, 2)->link.state, PEER_LINK_CONNECTING);
    world_peer(&world, 1, 2)->rdv->times.tick_ns =
        UINT64_MAX; /* nor has rank 1 run a tick */
    world.hold_links = world.sides[0].still = false;
    world_settle(&world);
    world_advance(&world, 100 * NS_PER_MS);
    check_failed(send, 2, "rank 2 has left the group");
    assert_false(said(1, "died"));
    tryst_step_close(step, NULL);
    world_close(&world);
}

/* The parent in the control tree has not joined yet (it loads its modules, say) while
 * rank 2 comes and leaves. Rank 1 must not judge rank 2 before the parent has reported
 * which ranks have left or, where the parent never comes, before
 * TRYST_CONNECT_TIMEOUT. */
static void test_left_before_the_parent_came(void **state)
{
    for (int never = 0; never < 2; never++) {
        static const struct world_setting settings[] = {{"connect_timeout", "5s"}, {0}};
        world_open(&world, 3, settings);
        world.sides[0].still = world.sides[0].hold_accepts = true;
        world_settle(&world);
        tryst_step *step = world_step(&world, 1, 1);
        leave(2);
        tryst_op *send =
            world_send(&world, 1, step, world_key(&world, 1, 2, "a"), out, LARGE, NULL);
        for (int i = 0; i < (never ? 60 : 30); i++)
            world_advance(&world, NS_PER_S / 10);
        if (!never) {
            assert_int_equal(tryst_op_test(send), TRYST_IN_PROGRESS);
            world.sides[0].still = world.sides[0].hold_accepts = false;
            world_settle(&world);
            world_advance(&world, NS_PER_S / 10);
            check_failed(send, 2, "rank 2 has left the group");
            assert_false(said(1, "died"));
            assert_int_equal(world.sides[1].rdv->counters.peers_given_up, 0);
        } else {
            check_failed(send, 2, "rank 2 ");
        }
        tryst_step_close(step, NULL);
        world_close(&world);
    }
}

/* A rank that has made no pass for long finds that another refuses connections. The grace
 * for a report that the other has left must start at the pass, not before. */
static void test_refused_after_a_pause(void **state)
{
    world_open(&world, 3, NULL);
    world_settle(&world);
    tryst_step *step = world_step(&world, 1, 1);
    world_kill(&world, 2);
    world.hold_links = true;
    tryst_op *send =
        world_send(&world, 1, step, world_key(&world, 1, 2, "a"), out, LARGE, NULL);
    world_settle(&world);
    do /* the last pass is one that reads the clock */
        pass_run(world.sides[1].rdv);
    while (world.sides[1].rdv->times.passes % 64);
    clock_fake_advance(&world.clock, 10 * NS_PER_S);
    world.hold_links = false;
    world_settle(&world);
    assert_int_equal(tryst_op_test(send), TRYST_IN_PROGRESS);
    world_advance(&world, NS_PER_S);
    check_failed(send, 2, "rank 2 died: ");
    tryst_step_close(step, NULL);
    world_close(&world);
}

/* This rank's connection to a peer was refused, then it submits a send, and then the
 * peer's own connection comes. The send must still get an endpoint. */
static void test_needed_while_refused(void **state)
{
    world_open(&world, 2, NULL);
    world.hold_links = true; /* rank 1 connects to its parent, and has not arrived yet */
    tryst_step *step = world_step(&world, 0, 1);
    struct peer *peer = world_peer(&world, 0, 1);
    peer->link.state = PEER_LINK_CONNECTING;
    peer_link_refused(peer, "refused");
    tryst_op *send = send_to(1, step);
    world_settle(&world);
    assert_int_equal(peer->endpoint.state, PEER_EP_NONE);
    world.hold_links = false;
    world_settle(&world);
    assert_int_equal(peer->link.state, PEER_LINK_UP);
    assert_int_equal(peer->endpoint.state, PEER_EP_READY);
    assert_int_equal(tryst_op_cancel(send), TRYST_OK);
    world_settle(&world);
    tryst_op_release(send);
    tryst_step_close(step, NULL);
    world_close(&world);
}

/* The parent in the control tree has left, so no report comes through it. The rank that
 * takes the parent's place must report it. */
static void test_parent_left(void **state)
{
    world_open(&world, 3, NULL);
    world.hold_links = true;
    struct peer *peer = world_peer(&world, 2, 0);
    link_close(peer->link.link); /* for example, its listener was full */
    peer->link.link = NULL;
    peer->link.again = true;
    world.hold_links = false;
    world.sides[2].still = true;
    world_settle(&world);
    leave(0);
    world_settle(&world);
    world.sides[2].still = false;
    world_advance(&world, NS_PER_S / 2);
    world_advance(&world, 3 * NS_PER_S);
    assert_int_equal(peer->life, PEER_GONE);
    assert_string_equal(peer->liveness.gone_text, "rank 0 has left the group");
    assert_false(said(2, "died"));
    world_close(&world);
}

/* The step is aborted and closed at rank 0 before any link is up. The others must learn
 * of the abort. */
static void test_abort_before_link(void **state)
{
    tryst_error error = {.struct_size = sizeof error};
    world_open(&world, 3, NULL);
    world.hold_links = true;
    tryst_step *steps[3];
    for (int i = 0; i < 3; i++)
        steps[i] = world_step(&world, i, 1);
    tryst_op *recv =
        world_recv(&world, 1, steps[1], world_key(&world, 2, 1, "a"), in, LARGE, NULL);
    assert_int_equal(tryst_step_abort(steps[0], TRYST_E_IO, "the disk is on fire"),
                     TRYST_OK);
    assert_int_equal(tryst_step_close(steps[0], NULL), TRYST_OK);
    world_settle(&world);
    assert_int_equal(tryst_op_test(recv), TRYST_IN_PROGRESS);
    world.hold_links = false;
    world_advance(&world, NS_PER_S);
    assert_int_equal(tryst_op_error(recv, &error), TRYST_E_ABORTED);
    assert_int_equal(error.origin_rank, 0);
    assert_non_null(strstr(error.text, "the disk is on fire"));
    tryst_op_release(recv);
    for (int i = 1; i < 3; i++) {
        assert_int_equal(tryst_step_status(steps[i], NULL), TRYST_E_ABORTED);
        tryst_step_close(steps[i], NULL);
    }
    world_close(&world);
}

/* The rank between two others has closed the step. It must still pass the abort on. */
static void test_abort_through_closed(void **state)
{
    world_open(&world, 3, NULL);
    world_settle(&world);
    tryst_step *steps[3];
    for (int i = 0; i < 3; i++)
        steps[i] = world_step(&world, i, 1);
    assert_int_equal(tryst_step_close(steps[0], NULL), TRYST_OK);
    world_settle(&world);
    assert_int_equal(tryst_step_abort(steps[1], TRYST_E_IO, "the disk is on fire"),
                     TRYST_OK);
    world_settle(&world);
    assert_int_equal(tryst_step_status(steps[2], NULL), TRYST_E_ABORTED);
    for (int i = 1; i < 3; i++)
        tryst_step_close(steps[i], NULL);
    world_close(&world);
}

static void aborted_late(uint64_t step, int32_t origin, uint64_t time_ns)
{
    rendezvous_abort(world.sides[0].rdv, step, TRYST_E_IO, origin, time_ns, "once more",
                     world_peer(&world, 0, 1));
}

static tryst_status refused(uint64_t step, int32_t *origin_p)
{
    struct rendezvous *rdv = world.sides[0].rdv;
    const struct cause cause = step_refuses(rdv, scope_find(&rdv->scopes, step), step);
    *origin_p = cause.origin_rank;
    return cause.status;
}

/* Of two causes of one step the earlier stays, whichever arrives first, also after the
 * step was closed. Causes of old steps must not replace those of newer steps. */
static void test_abort_notes(void **state)
{
    enum { STEPS = 20, KEPT = 8 };
    int32_t origin = -1;
    world_open(&world, 3, NULL);
    world_settle(&world);
    for (uint64_t i = 1; i <= STEPS; i++) {
        tryst_step *step = world_step(&world, 0, i);
        rendezvous_abort(world.sides[0].rdv, i, TRYST_E_IO, 1, 100, "first", NULL);
        tryst_step_close(step, NULL);
        world_settle(&world);
    }
    aborted_late(STEPS, 2, 99);
    assert_int_equal(refused(STEPS, &origin), TRYST_E_ABORTED);
    assert_int_equal(origin, 2);
    aborted_late(STEPS, 0, 100); /* later than that */
    assert_int_equal(refused(STEPS, &origin), TRYST_E_ABORTED);
    assert_int_equal(origin, 2);
    aborted_late(STEPS, 0, 99); /* as early, a lower rank */
    assert_int_equal(refused(STEPS, &origin), TRYST_E_ABORTED);
    assert_int_equal(origin, 0);
    for (uint64_t i = 1; i <= KEPT; i++)
        aborted_late(i, 2, 50 + i);
    for (uint64_t i = STEPS - KEPT + 1; i <= STEPS; i++)
        assert_int_equal(refused(i, &origin), TRYST_E_ABORTED);
    assert_int_equal(refused(1, &origin), TRYST_E_CLOSED);
    world_close(&world);
}

/* ---- a peer that has not made a pass yet ------------------------------------------- */

static const struct world_setting impatient[] = {{"connect_timeout", "5s"}, {0}};

/* Advance the clock by `s` seconds, one tick at a time. */
static void advance_s(int s)
{
    for (int i = 0; i < 2 * s; i++)
        world_advance(&world, NS_PER_S / 2);
}

/* A rank computes for long, and only its kernel accepts connections, or its listener's
 * queue is full. Then the rank makes passes, and all goes on; or it dies, which must be
 * detected as usual. */
static void test_computes_before_contact(void **state)
{
    for (int way = 0; way < 4; way++) {
        bool full = way & 1, dies = way & 2;
        world_open(&world, 3, impatient);
        world_settle(&world);
        world.sides[2].away = true;
        world.link_again = full ? UINT32_MAX : 0;
        tryst_step *step = world_step(&world, 1, 1);
        tryst_op *send =
            world_send(&world, 1, step, world_key(&world, 1, 2, "a"), out, LARGE, NULL);
        advance_s(60);
        assert_int_equal(world_peer(&world, 1, 2)->link.state, PEER_LINK_CONNECTING);
        assert_int_equal(tryst_op_test(send), TRYST_IN_PROGRESS);
        world.link_again = 0;
        if (dies) {
            world_kill(&world, 2);
            advance_s(2);
            check_failed(send, 2, "rank 2 died: ");
        } else {
            world.sides[2].away = false;
            advance_s(1);
            assert_int_equal(world_peer(&world, 1, 2)->endpoint.state, PEER_EP_READY);
            assert_int_equal(world.sides[1].rdv->counters.peers_given_up, 0);
        }
        tryst_step_close(step, NULL);
        world_settle(&world);
        if (!dies)
            world_done(send, TRYST_E_CANCELED);
        world_close(&world);
    }
}

/* A kernel that does not answer counts as silent, but only in the time in which this rank
 * makes passes. */
static void test_kernel_is_silent(void **state)
{
    for (int comes = 0; comes < 2; comes++) {
        world_open(&world, 3, impatient);
        world_settle(&world);
        world.sides[2].silent = true;
        tryst_step *step = world_step(&world, 1, 1);
        tryst_op *send =
            world_send(&world, 1, step, world_key(&world, 1, 2, "a"), out, LARGE, NULL);
        advance_s(2);
        world.sides[1].away = true;
        advance_s(60);
        world.sides[1].away = false;
        advance_s(1);
        assert_int_equal(tryst_op_test(send), TRYST_IN_PROGRESS);
        world.sides[2].silent = !comes;
        advance_s(3);
        if (comes)
            assert_int_equal(world_peer(&world, 1, 2)->endpoint.state, PEER_EP_READY);
        else
            check_status(send, TRYST_E_UNREACHABLE, 2,
                         "rank 2 cannot be reached: no Unix link for shm: no answer "
                         "within TRYST_CONNECT_TIMEOUT; ");
        assert_false(said(1, "died"));
        tryst_step_close(step, NULL);
        world_settle(&world);
        if (comes)
            world_done(send, TRYST_E_CANCELED);
        world_close(&world);
    }
}

/* Large packets to rank 1 are lost: both ranks know the sizes while the bulk waits, and
 * not once it has arrived. Without an end the peer is given up. */
static void test_large_packets_are_lost(void **state)
{
    static const char lost[] =
        "packets of 9000 bytes from rank 0 to rank 1 (MTU of its eth0: 4000) are lost on "
        "the way, those of 1280 arrive";
    for (int ends = 0; ends < 2; ends++) {
        char text[PEER_LOSS_TEXT_MAX];
        world_open(&world, 2, NULL);
        world_settle(&world);
        tryst_step *steps[2] = {world_step(&world, 0, 1), world_step(&world, 1, 1)};
        const char *key = world_key(&world, 0, 1, "a");
        world.sides[1].hold_bulk = true;
        tryst_op *ops[2] = {world_send(&world, 0, steps[0], key, out, LARGE, NULL),
                            world_recv(&world, 1, steps[1], key, in, LARGE, NULL)};
        advance_s(1);
        world.loss = (struct tcp_loss){
            .mtu = 9000, .retransmits = 3, .interface_mtu = 4000, .interface = "eth0"};
        assert_false(peer_loss_text(world_peer(&world, 0, 1), "", text, sizeof text));
        advance_s(3);
        assert_false(said(0, lost)); /* after an outage a packet is repeated no more */
        world.loss.retransmits++;
        advance_s(3);
        assert_true(said(0, lost));
        for (int i = 0; i < 2; i++) {
            assert_true(
                peer_loss_text(world_peer(&world, i, 1 - i), "", text, sizeof text));
            assert_non_null(strstr(text, lost));
        }
        if (ends)
            world.sides[1].hold_bulk = false;
        else
            advance_s(40);
        advance_s(1);
        for (int i = 0; i < 2; i++) {
            if (ends)
                world_done(ops[i], TRYST_OK);
            else
                check_status(ops[i], TRYST_E_PEER, 1 - i, lost);
            tryst_step_close(steps[i], NULL);
        }
        assert_int_equal(peer_loss_text(world_peer(&world, 1, 0), "", text, sizeof text),
                         !ends);
        world_close(&world);
    }
}

/* Both ranks connect at once, and one of them makes no pass for a minute, after any
 * number of passes of the two. The other must not call it dead, and both must go on
 * afterwards. */
static void test_stops_looking(void **state)
{
    enum { MOMENTS = 24 };
    for (int moment = 0; moment < 2 * MOMENTS; moment++) {
        int who = moment % 2;
        world_open(&world, 2, impatient);
        tryst_step *steps[2] = {world_step(&world, 0, 1), world_step(&world, 1, 1)};
        const char *key = world_key(&world, 0, 1, "a");
        tryst_op *ops[2] = {world_send(&world, 0, steps[0], key, out, LARGE, NULL),
                            world_recv(&world, 1, steps[1], key, in, LARGE, NULL)};
        for (int i = 0; i < moment / 2; i++)
            world_pass(&world);
        world.sides[who].away = true;
        advance_s(60);
        assert_int_equal(world_peer(&world, 1 - who, who)->life, PEER_ALIVE);
        world.sides[who].away = false;
        advance_s(2);
        for (int i = 0; i < 2; i++) {
            world_done(ops[i], TRYST_OK);
            assert_int_equal(world.sides[i].rdv->counters.peers_given_up, 0);
            tryst_step_close(steps[i], NULL);
        }
        world_close(&world);
    }
}

/* The path dies when all frames have been read. Only what no frame counts is lost:
 * acknowledgements in frames without records, or bulk. */
static void test_path_dies_between_frames(void **state)
{
    for (int bulk = 0; bulk < 2; bulk++) {
        world_open(&world, 2, NULL);
        world_join(&world, 0, 1);
        tryst_step *steps[2] = {world_step(&world, 0, 1), world_step(&world, 1, 1)};
        const char *key = world_key(&world, 0, 1, "a");
        size_t bytes = bulk ? LARGE : 8;
        tryst_op *recv = NULL;
        if (bulk)
            recv = world_recv(&world, 1, steps[1], key, in, bytes, NULL);
        tryst_op *send =
            bulk ? NULL : world_send(&world, 0, steps[0], key, out, bytes, NULL);
        world_settle(&world);
        advance_s(30); /* nothing is wrong yet */
        assert_int_equal(world_peer(&world, 1, 0)->life, PEER_ALIVE);
        assert_int_equal(world_peer(&world, 0, 1)->out.frames_sent,
                         world_peer(&world, 1, 0)->in.frames_read);
        world.sides[bulk].hold_frames = world.sides[bulk].hold_bulk = true;
        if (bulk)
            send = world_send(&world, 0, steps[0], key, out, bytes, NULL);
        else
            recv = world_recv(&world, 1, steps[1], key, in, bytes, NULL);
        world_settle(&world);
        advance_s(30);
        assert_int_equal(world_peer(&world, bulk, !bulk)->life, PEER_GONE);
        assert_true(said(bulk, "its data path is dead"));
        world.sides[bulk].hold_frames = world.sides[bulk].hold_bulk = false;
        world_settle(&world);
        check_failed(send, 1, "rank 1 ");
        if (bulk)
            check_failed(recv, 0, "rank 0 ");
        else
            world_done(recv, TRYST_OK);
        for (int i = 0; i < 2; i++)
            tryst_step_close(steps[i], NULL);
        world_close(&world);
    }
}

/* The peer reports a frame as sent, but its transport still holds the frame when the peer
 * is stopped. */
static void test_stops_before_its_frames_left(void **state)
{
    for (int we = 0; we < 2; we++) { /* or this rank is stopped */
        world_open(&world, 2, NULL);
        world_join(&world, 0, 1);
        world.sides[0].hold_frames = true;
        tryst_step *step = world_step(&world, 1, 1);
        tryst_op *send =
            world_send(&world, 1, step, world_key(&world, 1, 0, "a"), out, LARGE, NULL);
        advance_s(2);
        assert_true(world_peer(&world, 0, 1)->liveness.peer_sent >
                    world_peer(&world, 0, 1)->in.frames_read);
        world.sides[1 - we].away = true;
        advance_s(60);
        world.sides[1 - we].away = false;
        advance_s(2);
        assert_int_equal(world_peer(&world, 0, 1)->life, PEER_ALIVE);
        advance_s(15); /* both make passes: the path is given up in the end */
        assert_int_equal(world_peer(&world, 0, 1)->life, PEER_GONE);
        assert_true(said(0, "its data path is dead"));
        world.sides[0].hold_frames = false;
        world_settle(&world);
        check_failed(send, 0, "rank 0 ");
        tryst_step_close(step, NULL);
        world_close(&world);
    }
}

/* Frames come late again and again, for longer than the time-out in all, and each time
 * they come in the end: the path is slow, not dead. */
static void test_late_again_and_again(void **state)
{
    enum { TIMES = 30 };
    const struct peer *peer;
    world_open(&world, 2, NULL);
    world_join(&world, 0, 1);
    peer = world_peer(&world, 0, 1);
    tryst_step *steps[2] = {world_step(&world, 0, 1), world_step(&world, 1, 1)};
    for (int i = 0; i < TIMES; i++) {
        const char *key = world_key(&world, 1, 0, "a");
        tryst_op *recv = world_recv(&world, 0, steps[0], key, in, 8, NULL);
        world.sides[0].hold_frames = true;
        tryst_op *send = world_send(&world, 1, steps[1], key, out, 8, NULL);
        advance_s(3);
        assert_true(peer->liveness.behind && peer->liveness.behind_ns > NS_PER_S);
        world.sides[0].hold_frames = false;
        advance_s(1);
        assert_int_equal(peer->life, PEER_ALIVE);
        world_done(recv, TRYST_OK);
        world_done(send, TRYST_OK);
    }
    for (int i = 0; i < 2; i++)
        tryst_step_close(steps[i], NULL);
    world_close(&world);
}

/* A connection to a listener with a full queue is tried again. */
static void test_connect_again(void **state)
{
    world_open(&world, 3, impatient);
    world_settle(&world);
    tryst_step *step = world_step(&world, 1, 1);
    tryst_op *send =
        world_send(&world, 1, step, world_key(&world, 1, 2, "a"), out, LARGE, NULL);
    world.link_again = 3;
    world_settle(&world);
    assert_int_equal(world_peer(&world, 1, 2)->link.state, PEER_LINK_CONNECTING);
    advance_s(2);
    assert_int_equal(world_peer(&world, 1, 2)->endpoint.state, PEER_EP_READY);
    tryst_step_close(step, NULL);
    world_settle(&world);
    world_done(send, TRYST_E_CANCELED);
    world_close(&world);
}

/* A listener that is flooded by unauthenticated connections drops connections that it has
 * not read yet. A dropped connection proves no death. */
static void test_dropped(void **state)
{
    for (int ever = 0; ever < 2; ever++) {
        world_open(&world, 3, impatient);
        world_settle(&world);
        tryst_step *step = world_step(&world, 1, 1);
        world.link_drops = ever ? UINT32_MAX : 30;
        tryst_op *send =
            world_send(&world, 1, step, world_key(&world, 1, 2, "a"), out, LARGE, NULL);
        for (int i = 0; i < 60; i++)
            world_advance(&world, NS_PER_S / 10);
        assert_int_equal(world_peer(&world, 1, 2)->life, ever ? PEER_GONE : PEER_ALIVE);
        if (ever)
            check_failed(send, 2,
                         "could not be connected to within TRYST_CONNECT_TIMEOUT");
        else
            assert_int_equal(world_peer(&world, 1, 2)->endpoint.state, PEER_EP_READY);
        assert_false(said(1, "died"));
        tryst_step_close(step, NULL);
        world_settle(&world);
        if (!ever)
            world_done(send, TRYST_E_CANCELED);
        world_close(&world);
    }
}

/* Let rank 1 reach rank 2 by TCP only, with no connection made yet. */
static void only_by_tcp(void)
{
    for (int i = 0; i < 3; i++) {
        struct roster *roster = &world.sides[i].group.roster;
        struct link_address *at = &roster->ranks[2].link;
        roster->hosts[0].rails_count = 1;
        roster->hosts[0].rails[0] =
            (struct rail_address){.family = 4, .prefix_bits = 24, .ip = {10, 0, 0, 2}};
        *at = (struct link_address){.listener_id = at->listener_id,
                                    .family = 4,
                                    .port = 4567,
                                    .ip = {10, 0, 0, 2}};
    }
    world_peer(&world, 1, 2)->link.via_tcp = true;
}

/* No TCP connection ever came about, whatever error the kernel gives: not a death. The
 * other rank, which does reach this one, must receive that verdict. A listener that had
 * accepted before is dead. */
static void test_never_reached(void **state)
{
    static const tryst_status fails[] = {TRYST_E_UNREACHABLE, TRYST_E_PEER};
    for (size_t i = 0; i < COUNT_OF(fails); i++) {
        for (int met = 0; met < 2; met++) {
            world_open(&world, 3, impatient);
            world_settle(&world);
            only_by_tcp();
            world.link_drops = (uint32_t)met;
            world.link_fails = met ? TRYST_OK : fails[i];
            tryst_step *step = world_step(&world, 1, 1);
            tryst_op *send = world_send(&world, 1, step, world_key(&world, 1, 2, "a"),
                                        out, LARGE, NULL);
            world_settle(&world);
            world.link_fails = fails[i];
            world_advance(&world, NS_PER_S / 10);
            assert_int_equal(tryst_op_test(send), TRYST_IN_PROGRESS);
            advance_s(2);
            if (met)
                check_failed(send, 2, "rank 2 died: cannot connect: no way");
            else
                check_status(
                    send, TRYST_E_UNREACHABLE, 2,
                    "rank 2 cannot be reached: no TCP link to listener 3 for shm: "
                    "cannot connect: no way; if its process runs, check "
                    "TRYST_NET, TRYST_PORT_RANGE and the firewall");
            assert_int_equal(said(1, "rank 2 died"), met);
            assert_int_equal(said(1, "rank 2 cannot be reached"), !met);
            world.link_fails = TRYST_OK;
            tryst_step *there = world_step(&world, 2, 1);
            send = world_send(&world, 2, there, world_key(&world, 2, 1, "b"), out, LARGE,
                              NULL);
            world_settle(&world);
            check_status(send, met ? TRYST_E_PEER : TRYST_E_UNREACHABLE, 1,
                         "rank 1 gave up: rank 2 ");
            assert_false(said(2, "rank 1 died"));
            tryst_step_close(there, NULL);
            tryst_step_close(step, NULL);
            world_close(&world);
        }
    }
}

/* The Unix socket is refused, since the peer has ended, or since it is on another machine
 * with the same boot id: the outcome of TCP decides. */
static void test_unix_refused(void **state)
{
    static const tryst_status tcp[] = {TRYST_E_UNREACHABLE, TRYST_E_PEER};
    for (size_t i = 0; i < COUNT_OF(tcp); i++) {
        world_open(&world, 3, impatient);
        world_settle(&world);
        only_by_tcp();
        world_peer(&world, 1, 2)->link.via_tcp = false;
        world.unix_fails = TRYST_E_PEER;
        world.link_fails = tcp[i];
        tryst_step *step = world_step(&world, 1, 1);
        tryst_op *send =
            world_send(&world, 1, step, world_key(&world, 1, 2, "a"), out, LARGE, NULL);
        world_settle(&world);
        advance_s(2);
        if (tcp[i] == TRYST_E_PEER)
            check_failed(send, 2, "rank 2 died: cannot connect: no way");
        else
            check_status(send, TRYST_E_UNREACHABLE, 2,
                         "rank 2 cannot be reached: no TCP link to listener 3 for shm: "
                         "cannot connect: no way; if its process runs, check "
                         "TRYST_NET, TRYST_PORT_RANGE and the firewall");
        tryst_step_close(step, NULL);
        world_close(&world);
    }
}

/* The poller reads the links. */
static void links_read(struct poller_source *source, uint32_t events)
{
    (void)events;
    (void)poller_modify(&world.sides[0].poller, source, 0);
    world.hold_links = false;
    world_links_run(&world);
}

/* No transport reaches the peer. A peer that has died meanwhile must be reported as
 * dead. */
static void test_unreached(void **state)
{
    enum { ALIVE, DEAD, DEAD_READ_LATE };
    for (int dead = ALIVE; dead <= DEAD_READ_LATE; dead++) {
        struct poller_source end = {.events = EPOLLIN, .fn = links_read};
        tryst_error error = {.struct_size = sizeof error};
        world_open(&world, 2, NULL);
        world_settle(&world);
        world.sides[0].no_rails = true;
        tryst_step *step = world_step(&world, 0, 1);
        tryst_op *send = send_to(1, step);
        if (dead)
            world.hold_links = true;
        for (int i = 0; i < 20; i++)
            world_pass(&world);
        assert_int_equal(tryst_op_test(send), TRYST_IN_PROGRESS);
        if (dead)
            world_kill(&world, 1);
        world.hold_links = dead == DEAD_READ_LATE;
        if (dead == DEAD_READ_LATE) { /* this rank makes no pass during the grace */
            struct poller *poller = &world.sides[0].poller;
            end.fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
            assert_int_equal(poller_open(poller), TRYST_OK);
            assert_int_equal(poller_add(poller, &end), TRYST_OK);
            world_advance(&world, 3 * NS_PER_S / 10);
            poller_remove(poller, &end);
            poller_close(poller);
            close(end.fd);
        }
        world_settle(&world);
        world_advance(&world, NS_PER_S);
        assert_int_equal(tryst_op_error(send, &error),
                         dead ? TRYST_E_PEER : TRYST_E_UNREACHABLE);
        assert_non_null(
            strstr(error.text, dead ? "rank 1 died"
                                    : "rank 1 cannot be reached by any transport: "
                                      "shm: no such thing here"));
        tryst_op_release(send);
        tryst_step_close(step, NULL);
        world_close(&world);
    }
}

/* Connect messages for later candidates are kept, up to a bound. */
static void test_held_bound(void **state)
{
    world_open(&world, 2, NULL);
    world_join(&world, 0, 1);
    struct peer *peer = world_peer(&world, 0, 1);
    for (int i = 0; i < 1000 && peer->life == PEER_ALIVE; i++)
        peer_ep_message(peer, 5, "x", 1, -1);
    assert_int_equal(peer->life, PEER_GIVING_UP);
    assert_int_equal(peer->liveness.gone_status, TRYST_E_PROTOCOL);
    assert_true(peer->endpoint.held_count <= 64);
    world_close(&world);
}

/* While a rank closes its endpoints by force, another rank that it never met connects,
 * and then makes no pass. The close must not wait for that rank. */
static void test_met_while_cut(void **state)
{
    world_open(&world, 3, NULL);
    world_join(&world, 0, 1);
    world.sides[0].away = true; /* rank 0 would pass on that rank 1 leaves */
    world.sides[1].hold_close = true;
    struct rendezvous *rdv = world.sides[1].rdv;
    while (rdv->leave.state < LEAVE_CUT)
        world_leave_next(rdv);
    world_settle(&world);
    assert_int_equal(rendezvous_leave_poll(rdv), LEAVE_CUT);
    tryst_step *step = world_step(&world, 2, 1);
    tryst_op *send =
        world_send(&world, 2, step, world_key(&world, 2, 1, "a"), out, LARGE, NULL);
    for (int i = 0; i < 10 && !world.sides[1].group.peers[2]; i++)
        world_pass(&world);
    assert_non_null(world.sides[1].group.peers[2]);
    world.sides[2].away = true;
    world.sides[1].hold_close = false;
    world_settle(&world);
    assert_int_equal(rendezvous_leave_poll(rdv), LEAVE_DONE);
    world.sides[0].away = world.sides[2].away = false;
    world_settle(&world);
    world_advance(&world, 2 * NS_PER_S);
    check_failed(send, 1, "rank 1 has left the group");
    tryst_step_close(step, NULL);
    world_close(&world);
}

/* A rank makes no pass, and the socket to it is full. LEAVE waits behind earlier
 * messages, and the close must wait for LEAVE. */
static void test_leave_behind_a_full_socket(void **state)
{
    world_open(&world, 2, NULL);
    world_join(&world, 0, 1);
    struct rendezvous *rdv = world.sides[1].rdv;
    tryst_step *step = world_step(&world, 0, 1);
    tryst_op *send = send_to(1, step);
    world.sides[0].away = true;
    world.links_room = 4;
    for (int i = 0; i < 6; i++)
        peer_heartbeat_answer(world_peer(&world, 1, 0));
    world_leave_next(rdv);
    world_settle(&world);
    world_leave_next(rdv);
    world_settle(&world);
    assert_int_equal(rendezvous_leave_poll(rdv), LEAVE_SENT);
    world.sides[0].away = false;
    for (int i = 0; i < 10 && rendezvous_leave_poll(rdv) == LEAVE_SENT; i++)
        world_pass(&world);
    assert_int_equal(rdv->leave.state, LEAVE_CUT);
    world_settle(&world);
    world_advance(&world, NS_PER_S);
    check_failed(send, 1, "rank 1 has left the group");
    assert_false(said(0, "died"));
    tryst_step_close(step, NULL);
    world_close(&world);
}

/* The ranks that left before a rank joins are reported in one message, however many they
 * are, and so are those that it passes on. A run that is not one of ranks of this group
 * is ignored. */
static void test_left_in_one_message(void **state)
{
    const struct link_left strange[] = {
        {-1, 3}, {12, 0}, {11, 1}, {0, UINT32_MAX}, {INT32_MAX, UINT32_MAX}};
    world_open(&world, 12, NULL);
    world_settle(&world); /* the control tree is up */
    for (size_t i = 0; i < COUNT_OF(strange); i++)
        peer_left_read(world_peer(&world, 0, 1), &strange[i], sizeof strange[i]);
    peer_left_read(world_peer(&world, 0, 1), strange, sizeof *strange - 1);
    for (int i = 1; i < 12; i++)
        assert_false(group_has_left(&world.sides[0].group, i));
    world.links_room = 1;
    world.hold_links = true;
    /* sent by rank 2, though 5 is its child */
    struct link_left left[] = {{5, 2}, {9, 0}, {11, 0}};
    peer_left_read(world_peer(&world, 0, 2), left, sizeof left);
    assert_true(link_is_flushed(world_peer(&world, 0, 1)->link.link));
    world.hold_links = false;
    world_links_run(&world);
    for (int i = 1; i < 12; i++) {
        bool gone = (i >= 5 && i <= 7) || i == 9 || i == 11;
        assert_int_equal(group_has_left(&world.sides[0].group, i), gone);
        if (i != 9 && i != 7) /* rank 1's own neighbours report that themselves */
            assert_int_equal(group_has_left(&world.sides[1].group, i), gone);
    }
    world_close(&world);
}

/* ---- giving up --------------------------------------------------------------------- */

/* A rank that is given up must learn so, and from which rank. No rank has died. */
static void test_given_up_is_told(void **state)
{
    world_open(&world, 2, NULL);
    world_settle(&world);
    world.sides[0].no_rails = true;
    world.sides[1].unready = 1; /* a real transport gets no message from the other side */
    tryst_step *steps[2] = {world_step(&world, 0, 1), world_step(&world, 1, 1)};
    const char *key = world_key(&world, 0, 1, "a");
    tryst_op *send = world_send(&world, 0, steps[0], key, out, LARGE, NULL);
    tryst_op *recv = world_recv(&world, 1, steps[1], key, in, LARGE, NULL);
    advance_s(2);
    tryst_error error = {.struct_size = sizeof error};
    assert_int_equal(tryst_op_error(send, &error), TRYST_E_UNREACHABLE);
    assert_int_not_equal(tryst_op_error(recv, &error), TRYST_IN_PROGRESS);
    assert_int_equal(error.origin_rank, 0);
    if (!strstr(error.text, "no such thing here") || strstr(error.text, "died"))
        fail_msg("%s", error.text);
    tryst_op_release(send);
    tryst_op_release(recv);
    for (int i = 0; i < 2; i++)
        tryst_step_close(steps[i], NULL);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_left_before_link),
        cmocka_unit_test(test_left_before_endpoint),
        cmocka_unit_test(test_died_before_link),
        cmocka_unit_test(test_left_is_passed_on),
        cmocka_unit_test(test_left_before_it_looked),
        cmocka_unit_test(test_parent_is_leaving),
        cmocka_unit_test(test_left_is_heard_late),
        cmocka_unit_test(test_left_before_the_parent_came),
        cmocka_unit_test(test_refused_after_a_pause),
        cmocka_unit_test(test_needed_while_refused),
        cmocka_unit_test(test_parent_left),
        cmocka_unit_test(test_abort_before_link),
        cmocka_unit_test(test_abort_through_closed),
        cmocka_unit_test(test_abort_notes),
        cmocka_unit_test(test_computes_before_contact),
        cmocka_unit_test(test_kernel_is_silent),
        cmocka_unit_test(test_large_packets_are_lost),
        cmocka_unit_test(test_stops_looking),
        cmocka_unit_test(test_path_dies_between_frames),
        cmocka_unit_test(test_stops_before_its_frames_left),
        cmocka_unit_test(test_late_again_and_again),
        cmocka_unit_test(test_connect_again),
        cmocka_unit_test(test_dropped),
        cmocka_unit_test(test_never_reached),
        cmocka_unit_test(test_unix_refused),
        cmocka_unit_test(test_unreached),
        cmocka_unit_test(test_held_bound),
        cmocka_unit_test(test_met_while_cut),
        cmocka_unit_test(test_leave_behind_a_full_socket),
        cmocka_unit_test(test_left_in_one_message),
        cmocka_unit_test(test_given_up_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
