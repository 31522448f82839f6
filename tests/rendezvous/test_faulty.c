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
    } frame = {.header = {.records = (uint16_t)count}};
    const struct peer *peer = world_peer(&world, HONEST, FAULTY);
    assert_true(count <= COUNT_OF(frame.answers));
    frame.header.frames_read = peer->frames.acked;
    frame.header.wants_taken = peer_out(peer)->wants_acked;
    frame.header.done_base = (uint32_t)peer_out(peer)->stream.acked;
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

/* ---- aborts ------------------------------------------------------------------------ */

/* Let FAULTY report to HONEST that `count` steps from `step` on were aborted by `origin`,
 * a few in each pass. Return the number of reports that left. */
static uint64_t abort_many(uint64_t step, uint64_t count, int32_t origin)
{
    enum { EACH = 50 };
    static const char text[] = "a reason that takes some room in the socket";
    struct {
        struct link_abort head;
        char text[sizeof text];
    } message = {.head = {.status = TRYST_E_SYSTEM,
                          .origin_rank = origin,
                          .text_bytes = sizeof text}};
    uint64_t left = 0;
    memcpy(message.text, text, sizeof text);
    for (uint64_t i = 0; i < count; i++) {
        struct link *link = world_peer(&world, FAULTY, HONEST)->link.link;
        message.head.step = step + i;
        message.head.time_ns = 1000 + i;
        if (link)
            left += link_send(link, LINK_ABORT, &message,
                              sizeof message.head + sizeof text, -1) == TRYST_OK;
        if (i % EACH == 0)
            world_settle(&world);
    }
    world_settle(&world);
    return left;
}

static void check_step_aborted(int rank, uint64_t id, tryst_status status)
{
    tryst_step *step = world_step(&world, rank, id);
    world_settle(&world);
    assert_int_equal(tryst_step_status(step, NULL), status);
    assert_int_equal(tryst_step_close(step, NULL), TRYST_OK);
    world_settle(&world);
}

/* FAULTY aborts more steps than the others have opened, while FRIEND computes and reads
 * nothing. HONEST gives FAULTY up, and keeps FRIEND: what FRIEND does not read waits in
 * no queue. FRIEND gets the aborts when it reads again. */
static void test_aborts_without_end(void **state)
{
    enum { ROOM = 20, ABORTS = EARLY_ABORTS_MAX + 4000 };
    begin(NULL);
    world.links_room = ROOM;
    world.sides[FRIEND].away = true;
    uint64_t reports = abort_many(1, ABORTS, FAULTY);
    const struct peer *faulty = world_peer(&world, HONEST, FAULTY);
    assert_int_equal(faulty->life, PEER_GONE);
    assert_non_null(strstr(faulty->liveness.gone_text, "aborted more than 1024 steps"));
    assert_in_range(world.links_sent[LINK_ABORT] - reports, ROOM, ROOM + 1);
    world.sides[FRIEND].away = false;
    for (int i = 0; i < EARLY_ABORTS_MAX / ROOM + 2; i++)
        world_advance(&world, NS_PER_S);
    assert_int_equal(world.sides[FRIEND].group.passed_aborts[FAULTY], EARLY_ABORTS_MAX);
    check_step_aborted(FRIEND, 1, TRYST_E_ABORTED);
    check_step_aborted(FRIEND, EARLY_ABORTS_MAX, TRYST_E_ABORTED);
    check_step_aborted(FRIEND, EARLY_ABORTS_MAX + 1, TRYST_OK);
    assert_int_equal(world.sides[FRIEND].group.passed_aborts[FAULTY], 0);
    assert_int_equal(world_peer(&world, FRIEND, HONEST)->passed_aborts, 0);
    check_friends(ABORTS + 1);
    world_close(&world);
}

/* HONEST has opened all the steps that FAULTY aborts, and FRIEND has opened none. HONEST
 * passes all aborts on, and is not to blame for them. */
static void test_aborts_passed_on(void **state)
{
    enum { STEPS = EARLY_ABORTS_MAX + 100 };
    static tryst_step *steps[STEPS];
    begin(NULL);
    for (uint64_t i = 0; i < STEPS; i++)
        steps[i] = world_step(&world, HONEST, i);
    assert_int_equal(abort_many(0, STEPS, FAULTY), STEPS);
    assert_int_equal(world.links_sent[LINK_ABORT], 2 * STEPS);
    assert_int_equal(world.sides[FRIEND].group.passed_aborts[FAULTY], EARLY_ABORTS_MAX);
    assert_non_null(strstr(world.sides[FRIEND].log_text, "cannot keep an abort of rank"));
    assert_int_equal(world_peer(&world, HONEST, FAULTY)->life, PEER_ALIVE);
    for (int i = 0; i < STEPS; i++) {
        assert_int_equal(tryst_step_status(steps[i], NULL), TRYST_E_ABORTED);
        assert_int_equal(tryst_step_close(steps[i], NULL), TRYST_OK);
    }
    check_friends(STEPS);
    world_close(&world);
}

/* FAULTY passes on aborts of every rank of a large group: their number is bounded, and
 * the bound of one origin leaves room for another's. */
static void test_aborts_of_others(void **state)
{
    enum { BIG = 8 };
    world_open(&world, BIG, NULL);
    world_join(&world, HONEST, FAULTY);
    world.sides[FAULTY].still = true;
    const struct peer *faulty = world_peer(&world, HONEST, FAULTY);
    for (int origin = 3; origin < BIG; origin++) {
        (void)abort_many((uint64_t)origin << 32, 2 * EARLY_ABORTS_MAX, origin);
        int kept = origin - 2 < 4 ? origin - 2 : 4;
        assert_int_equal(faulty->passed_aborts, kept * EARLY_ABORTS_MAX);
    }
    assert_int_equal(faulty->passed_aborts, PASSED_ABORTS_MAX);
    assert_int_equal(faulty->early_aborts, 0);
    assert_int_equal(faulty->life, PEER_ALIVE);
    world_close(&world);
}

/* Ever earlier causes of one step, in one pass: one of them is passed on. This rank's own
 * abort leaves at once, without a pass. */
static void test_causes_of_one_step(void **state)
{
    enum { CAUSES = 100 };
    begin(NULL);
    tryst_step *steps[3] = {world_step(&world, HONEST, 1), world_step(&world, HONEST, 2)};
    world_settle(&world);
    struct link_abort abort = {
        .step = 1, .status = TRYST_E_SYSTEM, .origin_rank = FAULTY};
    for (uint64_t i = 0; i < CAUSES; i++) {
        abort.time_ns = 1000 - i;
        (void)link_send(world_peer(&world, FAULTY, HONEST)->link.link, LINK_ABORT, &abort,
                        sizeof abort, -1);
    }
    world_settle(&world);
    assert_int_equal(world.links_sent[LINK_ABORT], CAUSES + 1);
    assert_int_equal(scope_find(&world.sides[FRIEND].rdv->scopes, 1)->abort_time_ns,
                     1000 - CAUSES + 1);
    steps[2] = world_step(&world, FRIEND, 2);
    world_settle(&world);
    rendezvous_abort(world.sides[HONEST].rdv, 2, TRYST_E_IO, HONEST, 1, "mine", NULL);
    world_links_run(&world);
    assert_int_equal(tryst_step_status(steps[2], NULL), TRYST_E_ABORTED);
    for (int i = 0; i < 3; i++)
        assert_int_equal(tryst_step_close(steps[i], NULL), TRYST_OK);
    check_friends(3);
    world_close(&world);
}

/* What a peer that is being given up still sends aborts nothing. */
static void test_abort_of_given_up(void **state)
{
    begin(NULL);
    tryst_step *step = world_step(&world, HONEST, 1);
    world_settle(&world);
    peer_give_up(world_peer(&world, HONEST, FAULTY), TRYST_E_PROTOCOL, "lies");
    struct link_abort abort = {
        .step = 1, .status = TRYST_E_SYSTEM, .origin_rank = FAULTY};
    (void)link_send(world_peer(&world, FAULTY, HONEST)->link.link, LINK_ABORT, &abort,
                    sizeof abort, -1);
    world_settle(&world);
    assert_int_equal(tryst_step_status(step, NULL), TRYST_OK);
    assert_int_equal(tryst_step_close(step, NULL), TRYST_OK);
    check_friends(2);
    world_close(&world);
}

/* ---- LEFT -------------------------------------------------------------------------- */

/* Ranks 1 and 2 are linked to rank 0 alone, which lies. */
enum { LIAR, NEAR, MAIN };

static void lie_begin(void)
{
    world_open(&world, RANKS, NULL);
    world_settle(&world);
    world.sides[LIAR].still = true;
}

/* Send LEFT from LIAR to NEAR: MAIN has left the group. */
static void lie(void)
{
    struct link_left left = {.rank = MAIN};
    (void)link_send(world_peer(&world, LIAR, NEAR)->link.link, LINK_LEFT, &left,
                    sizeof left, -1);
    world_settle(&world);
    assert_true(group_has_left(&world.sides[NEAR].group, MAIN));
}

/* Check that a tensor moves from rank `src` to the other of the two, in their step 1. */
static void lie_end(int src, tryst_step *steps[RANKS])
{
    int dst = NEAR + MAIN - src;
    const char *key = world_key(&world, src, dst, "a");
    tryst_op *send = world_send(&world, src, steps[src], key, out, LARGE, NULL);
    tryst_op *recv = world_recv(&world, dst, steps[dst], key, in, LARGE, NULL);
    for (int i = 0; i < 4; i++)
        world_advance(&world, NS_PER_S);
    world_done(send, TRYST_OK);
    world_done(recv, TRYST_OK);
    assert_false(group_has_left(&world.sides[NEAR].group, MAIN));
    for (int i = NEAR; i <= MAIN; i++)
        assert_int_equal(tryst_step_close(steps[i], NULL), TRYST_OK);
    world_close(&world);
}

/* A report that a living rank has left ends nothing, whichever of the two connects. The
 * report comes before the connection, or while the rank, which computes, does not answer
 * it. */
static void test_left_is_hearsay(void **state)
{
    for (int src = NEAR; src <= MAIN; src++) {
        for (int late = 0; late < 2; late++) {
            lie_begin();
            tryst_step *steps[RANKS] = {NULL, world_step(&world, NEAR, 1),
                                        world_step(&world, MAIN, 1)};
            tryst_op *op = NULL;
            if (late) {
                world.sides[MAIN].away = true;
                op = world_send(&world, NEAR, steps[NEAR],
                                world_key(&world, NEAR, MAIN, "early"), out, LARGE, NULL);
                world_settle(&world);
            }
            lie();
            for (int i = 0; late && i < 20; i++)
                world_advance(&world, NS_PER_S);
            world.sides[MAIN].away = false;
            if (op) {
                assert_int_equal(tryst_op_test(op), TRYST_IN_PROGRESS);
                assert_int_equal(tryst_op_cancel(op), TRYST_OK);
                world_settle(&world);
                world_done(op, TRYST_E_CANCELED);
            }
            lie_end(src, steps);
        }
    }
}

/* The listener of the living rank drops the connection, as it does with too many silent
 * ones: that is no refusal, and the connection is tried again. */
static void test_left_and_dropped(void **state)
{
    lie_begin();
    tryst_step *steps[RANKS] = {NULL, world_step(&world, NEAR, 1),
                                world_step(&world, MAIN, 1)};
    lie();
    world.link_drops = 2;
    lie_end(NEAR, steps);
}

/* What a peer that is being given up still reports counts for nothing. */
static void test_left_from_given_up(void **state)
{
    lie_begin();
    struct link_left left = {.rank = MAIN};
    peer_give_up(world_peer(&world, NEAR, LIAR), TRYST_E_PROTOCOL, "lies");
    (void)link_send(world_peer(&world, LIAR, NEAR)->link.link, LINK_LEFT, &left,
                    sizeof left, -1);
    world_settle(&world);
    assert_false(group_has_left(&world.sides[NEAR].group, MAIN));
    world_close(&world);
}

/* ---- HELLO ------------------------------------------------------------------------- */

static void stranger_message(void *arg, struct link *link, uint8_t type, const void *data,
                             size_t bytes, int fd)
{
    bool *answered = arg;
    *answered = true;
}

static void stranger_closed(void *arg, struct link *link, tryst_status status,
                            const char *text)
{
    link_close(link);
}

static const struct link_events stranger_events = {.message = stranger_message,
                                                   .closed = stranger_closed};

/* Connect from LIAR to NEAR with a HELLO of MAIN and this proof; true if NEAR answers. */
static bool main_is_played(const uint8_t proof[RANK_PROOF_BYTES])
{
    const struct tryst_group *group = &world.sides[LIAR].group;
    const struct link_address *address = &group->roster.ranks[NEAR].link;
    struct link_hello hello = {.magic = HELLO_MAGIC,
                               .wire_version = WIRE_VERSION,
                               .rank = MAIN,
                               .size = RANKS,
                               .incarnation = group->roster.ranks[MAIN].incarnation};
    struct link *link;
    bool answered = false;
    memcpy(hello.cookie, group->cookie, sizeof hello.cookie);
    memcpy(hello.proof, proof, sizeof hello.proof);
    assert_int_equal(link_connect(&world.sides[LIAR].poller, NULL, address, NULL, true, 0,
                                  &stranger_events, &answered, &link),
                     TRYST_OK);
    (void)link_send(link, LINK_HELLO, &hello, sizeof hello, -1);
    world_settle(&world);
    return answered;
}

/* LIAR has the cookie and the roster, and names another rank in its HELLO: without a
 * proof, with the proofs that LIAR sends or receives elsewhere, and with all that LIAR's
 * secret can compute. NEAR refuses these, and MAIN has its link. */
static void test_hello_of_another(void **state)
{
    lie_begin();
    const struct tryst_group *group = &world.sides[LIAR].group;
    struct rendezvous *near = world.sides[NEAR].rdv;
    tryst_step *steps[RANKS] = {NULL, world_step(&world, NEAR, 1),
                                world_step(&world, MAIN, 1)};
    const struct {
        int of, from, to; /* the other rank of LIAR's key; the ranks in the proof */
    } proofs[] = {{NEAR, LIAR, NEAR}, {NEAR, NEAR, LIAR}, {NEAR, MAIN, NEAR},
                  {MAIN, MAIN, NEAR}, {MAIN, MAIN, LIAR}, {MAIN, LIAR, MAIN}};
    uint8_t proof[RANK_PROOF_BYTES] = {0}, pair[RANK_KEY_BYTES];
    assert_false(main_is_played(proof));
    for (size_t i = 0; i < COUNT_OF(proofs); i++) {
        assert_true(
            rank_key_pair(group->secret, group->roster.ranks[proofs[i].of].key, pair));
        rank_proof(pair, group->cookie, proofs[i].from, proofs[i].to, proof);
        assert_false(main_is_played(proof));
    }
    assert_int_equal(near->counters.links_refused, 1 + COUNT_OF(proofs));
    assert_non_null(
        strstr(world.sides[NEAR].log_text, "did not prove to be the rank that it names"));
    lie_end(MAIN, steps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_aborts_without_end),
        cmocka_unit_test(test_aborts_passed_on),
        cmocka_unit_test(test_aborts_of_others),
        cmocka_unit_test(test_causes_of_one_step),
        cmocka_unit_test(test_abort_of_given_up),
        cmocka_unit_test(test_left_is_hearsay),
        cmocka_unit_test(test_left_and_dropped),
        cmocka_unit_test(test_left_from_given_up),
        cmocka_unit_test(test_hello_of_another),
        cmocka_unit_test(test_closed_again_and_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
