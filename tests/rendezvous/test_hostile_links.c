/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of an enemy over links: each check of HELLO and of the other messages has the
 * row that breaks it. The enemy's connection is refused, or the message has no effect. */
#include "rendezvous/bootstrap/roster/rank_key.h"
#include "rendezvous/peer/link.h"
#include "world.h"

/* Rank 1 is the enemy of rank 0; rank 3 has no link to rank 0. */
enum { US, ENEMY, OTHER, FAR, RANKS = 5 };

static struct world world;
static tryst_step *step;

static struct peer *enemy(void)
{
    return world_peer(&world, US, ENEMY);
}

static void begin(void)
{
    world_open(&world, RANKS, NULL);
    world_join(&world, US, ENEMY);
    step = world_step(&world, US, 1);
    world_settle(&world);
    assert_int_equal(enemy()->link.state, PEER_LINK_UP);
}

static void end(void)
{
    assert_int_equal(tryst_step_close(step, NULL), TRYST_OK);
    world_settle(&world);
    world_close(&world);
}

/* ---- HELLO ------------------------------------------------------------------------- */

struct hello {
    uint8_t type;
    size_t bytes;
    struct link_hello hello;
    uint64_t more;
};

static void hello_plain(struct hello *hello)
{
}

static void hello_type(struct hello *hello)
{
    hello->type = LINK_HEARTBEAT;
}

static void hello_short(struct hello *hello)
{
    hello->bytes -= 8;
}

static void hello_long(struct hello *hello)
{
    hello->bytes += 8;
}

static void hello_magic(struct hello *hello)
{
    hello->hello.magic ^= 1;
}

static void hello_version(struct hello *hello)
{
    hello->hello.wire_version++;
}

static void hello_cookie(struct hello *hello)
{
    hello->hello.cookie[15] ^= 1;
}

static void hello_rank_below(struct hello *hello)
{
    hello->hello.rank = -1;
}

static void hello_rank_beyond(struct hello *hello)
{
    hello->hello.rank = RANKS;
}

static void hello_rank_own(struct hello *hello)
{
    hello->hello.rank = US;
    hello->hello.incarnation = world.sides[US].group.roster.ranks[US].incarnation;
}

static void hello_incarnation(struct hello *hello)
{
    hello->hello.incarnation++;
}

static void hello_proof(struct hello *hello)
{
    hello->hello.proof[0] ^= 1;
}

static const struct {
    void (*make)(struct hello *hello);
    const char *reason; /* NULL: the connection is not refused */
} hellos[] = {
    {hello_plain, NULL},
    {hello_type, "its first message is not a HELLO"},
    {hello_short, "its first message is not a HELLO"},
    {hello_long, "its first message is not a HELLO"},
    {hello_magic, "its first message is not a HELLO"},
    {hello_version, "its wire version differs"},
    {hello_cookie, "did not show this session's cookie"},
    {hello_rank_below, "not a rank of this group"},
    {hello_rank_beyond, "not a rank of this group"},
    {hello_rank_own, "not a rank of this group"},
    {hello_incarnation, "not a rank of this group"},
    {hello_proof, "did not prove to be the rank that it names"},
};

static void on_message(void *arg, struct link *link, uint8_t type, const void *data,
                       size_t bytes, int fd)
{
}

static void on_closed(void *arg, struct link *link, tryst_status status, const char *text)
{
    link_close(link);
}

static const struct link_events events = {.message = on_message, .closed = on_closed};

/* Make a HELLO that the enemy itself could send. */
static struct hello hello_make(void)
{
    const struct tryst_group *group = &world.sides[ENEMY].group;
    uint8_t pair[RANK_KEY_BYTES];
    struct hello hello = {
        .type = LINK_HELLO,
        .bytes = sizeof hello.hello,
        .hello = {.magic = HELLO_MAGIC,
                  .wire_version = WIRE_VERSION,
                  .rank = ENEMY,
                  .size = RANKS,
                  .incarnation = group->roster.ranks[ENEMY].incarnation}};
    memcpy(hello.hello.cookie, group->cookie, sizeof hello.hello.cookie);
    assert_true(rank_key_pair(group->secret, group->roster.ranks[US].key, pair));
    rank_proof(pair, group->cookie, ENEMY, US, hello.hello.proof);
    return hello;
}

static void test_hello(void **state)
{
    for (size_t i = 0; i < COUNT_OF(hellos); i++) {
        struct link *link;
        begin();
        struct hello hello = hello_make();
        const char *log = world.sides[US].log_text;
        hellos[i].make(&hello);
        assert_int_equal(link_connect(&world.sides[ENEMY].poller, NULL,
                                      &world.sides[ENEMY].group.roster.ranks[US].link,
                                      NULL, true, 0, &events, NULL, &link),
                         TRYST_OK);
        (void)link_send(link, hello.type, &hello.hello, hello.bytes, -1);
        world_settle(&world);
        if (world.sides[US].rdv->counters.links_refused != (hellos[i].reason != NULL) ||
            (hellos[i].reason && !strstr(log, hellos[i].reason)))
            fail_msg("row %zu: %s", i, log);
        assert_int_equal(enemy()->life, PEER_ALIVE);
        end();
    }
}

/* ---- other messages ---------------------------------------------------------------- */

static void say(uint8_t type, const void *data, size_t bytes)
{
    struct link *link = world_peer(&world, ENEMY, US)->link.link;
    assert_int_equal(link_send(link, type, data, bytes, -1), TRYST_OK);
}

static void abort_say(int32_t status, uint32_t text_bytes, size_t bytes)
{
    struct {
        struct link_abort abort;
        char text[8];
    } message = {.abort = {.step = 1,
                           .time_ns = 1,
                           .status = status,
                           .origin_rank = ENEMY,
                           .text_bytes = text_bytes},
                 .text = "because"};
    say(LINK_ABORT, &message, bytes);
}

static void say_abort_ok(void)
{
    abort_say(TRYST_OK, 8, sizeof(struct link_abort) + 8);
}

static void say_abort_again(void)
{
    abort_say(TRYST_AGAIN, 8, sizeof(struct link_abort) + 8);
}

static void say_abort_long(void)
{
    abort_say(TRYST_E_IO, 4096, sizeof(struct link_abort) + 8);
}

static void say_abort_ragged(void)
{
    abort_say(TRYST_E_IO, 7, sizeof(struct link_abort) + 8);
}

static void say_abort_short(void)
{
    abort_say(TRYST_E_IO, 0, sizeof(struct link_abort) - 8);
}

static void left_say(int32_t rank, uint32_t more)
{
    struct link_left run = {.rank = rank, .more = more};
    say(LINK_LEFT, &run, sizeof run);
}

static void say_left_below(void)
{
    left_say(-1, FAR + 1);
}

static void say_left_far_below(void)
{
    left_say(INT32_MIN, 0);
}

static void say_left_beyond(void)
{
    left_say(FAR, RANKS);
}

static void say_left_all(void)
{
    left_say(FAR, UINT32_MAX);
}

static void say_left_own(void)
{
    left_say(US, 0);
}

static void say_left_linked(void)
{
    left_say(OTHER, 0);
}

static void say_left_ragged(void)
{
    struct link_left runs[2] = {{.rank = FAR}};
    say(LINK_LEFT, runs, sizeof runs - 4);
}

static const struct link_heartbeat forged = {.sent = 77, .read = 88};

static void say_heartbeat_short(void)
{
    say(LINK_HEARTBEAT, &forged, sizeof forged - 8);
}

static void say_heartbeat_long(void)
{
    uint64_t counts[3] = {77, 88, 99};
    say(LINK_HEARTBEAT, counts, sizeof counts);
}

static void say_leave_short(void)
{
    say(LINK_LEAVE, &forged, sizeof forged - 8);
}

static void say_leave_empty(void)
{
    say(LINK_LEAVE, NULL, 0);
}

static void say_ep_short(void)
{
    for (int type = LINK_EP_OPEN; type <= LINK_EP_REFUSED; type++)
        say((uint8_t)type, &forged, sizeof(struct link_ep) - 1);
}

static void say_refused_beyond(void)
{
    struct link_ep head = {.candidate = 1000};
    say(LINK_EP_REFUSED, &head, sizeof head);
}

static void say_unknown(void)
{
    say(200, &forged, sizeof forged);
}

static void (*const messages[])(void) = {
    say_abort_ok,        say_abort_again,    say_abort_long,     say_abort_ragged,
    say_abort_short,     say_left_below,     say_left_far_below, say_left_beyond,
    say_left_all,        say_left_own,       say_left_linked,    say_left_ragged,
    say_heartbeat_short, say_heartbeat_long, say_leave_short,    say_leave_empty,
    say_ep_short,        say_refused_beyond, say_unknown,
};

/* Check that no message has aborted the step, or changed what is known of any rank. */
static void unchanged_check(size_t row)
{
    const struct tryst_group *group = &world.sides[US].group;
    bool changed = tryst_step_status(step, NULL) != TRYST_OK ||
                   enemy()->liveness.peer_sent >= forged.sent ||
                   enemy()->endpoint.refused_ahead != 0 ||
                   enemy()->endpoint.state != PEER_EP_READY;
    for (int rank = 0; rank < RANKS; rank++) {
        const struct peer *peer = group->peers[rank];
        changed |= group_has_left(group, rank) || (peer && peer->life != PEER_ALIVE);
    }
    if (changed)
        fail_msg("row %zu has changed something", row);
}

static void test_messages(void **state)
{
    for (size_t i = 0; i < COUNT_OF(messages); i++) {
        begin();
        messages[i]();
        world_settle(&world);
        unchanged_check(i);
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hello),
        cmocka_unit_test(test_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
