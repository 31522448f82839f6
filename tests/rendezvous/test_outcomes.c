/* SPDX-License-Identifier: Apache-2.0 */
/* The outcomes at both ends of a pair when one of them gives up: every kind of tensor,
 * every way to give up and every moment, against the manual (tryst.h, "Outcomes at both
 * ends"); and which rank both name as the origin.
 *
 * Idea: a moment is defined by the operations submitted so far and by the queues that are
 * held: records towards either side, bulk, the links, the producer's scheduler. All
 * combinations are tried, so every crossing that two ranks can meet with one key is among
 * them. A sanitizer's run draws a quarter of them. */
#include "world.h"

#include <inttypes.h>

/* The third rank takes no part. Relayed failures name it, but only at their own end: what
 * a peer reports about a third rank is no cause of a transfer (test_third_rank.c). */
enum { PRODUCER, CONSUMER, ELSEWHERE, RANKS };
enum action {
    CANCEL,
    DEADLINE,
    ABORT,
    CLOSE,
    ABORT_CLOSE,
    RELAY,
    RELAY_DEADLINE,
    ACTIONS
};
/* The operations submitted before one end gives up, in this order. */
enum order { SEND_ONLY, RECV_ONLY, SEND_RECV, RECV_SEND, ORDERS };
/* The fate of number 0 of the key, before the pair under test. */
enum prior { NO_PRIOR, PRIOR_RECV_CANCELED, PRIOR_SEND_CANCELED, PRIORS };
enum hold {
    HOLD_TO_PRODUCER = 1,
    HOLD_TO_CONSUMER = 2,
    HOLD_BULK = 4,
    HOLD_SCHED = 8,
    HOLD_LINKS = 16,
    HOLDS = 32
};

enum { PASSES = 4, SLICE = 4096, BYTES_MAX = 3 * SLICE };
/* Inline; bulk that leaves at once; bulk with more slices than are posted. */
static const size_t sizes[] = {8, 2 * SLICE, BYTES_MAX};
#define DEADLINE_NS (10 * NS_PER_MS)

struct life {
    size_t bytes;
    enum action action;
    int who; /* the end that gives up */
    enum order order;
    enum prior prior;
    unsigned holds;
    bool credit; /* the producer has eager credit */
    bool dead;   /* the tensor is dead */
    bool lone;   /* the counterpart never comes */
    /* passes that run before the queues are held; 0: the queues are held from the
     * beginning */
    int passes;
    /* the world settles after each submission, as far as the held queues allow */
    bool settled;
};

static struct world world;
static struct random drawn;
static uint8_t out[BYTES_MAX], in[2][BYTES_MAX];

/* Operations by number of the key (0 and 1), then by side: send, receive. NULL: never
 * submitted. */
static tryst_op *ops[2][2];
static tryst_step *steps[2];

static void hold(unsigned holds)
{
    world.sides[PRODUCER].hold_frames = holds & HOLD_TO_PRODUCER;
    world.sides[CONSUMER].hold_frames = holds & HOLD_TO_CONSUMER;
    world.sides[CONSUMER].hold_bulk = holds & HOLD_BULK;
    world.sides[PRODUCER].hold_sched = holds & HOLD_SCHED;
    world.hold_links = holds & HOLD_LINKS;
}

static void submit(const struct life *life, int side, int number, bool deadline)
{
    tryst_op_params params = {.struct_size = sizeof params};
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .dtype = TRYST_DTYPE_U8,
                           .count = life->bytes,
                           .data = side == PRODUCER ? out : in[number]};
    const char *key = world_key(&world, PRODUCER, CONSUMER, "k");
    if (!steps[side])
        return;
    params.deadline_ns = deadline ? DEADLINE_NS : 0;
    params.flags = life->dead && side == PRODUCER ? TRYST_OP_DEAD : 0;
    tryst_status status =
        side == PRODUCER
            ? tryst_send(steps[side], key, &tensor, &params, &ops[number][side])
            : tryst_recv(steps[side], key, &tensor, &params, &ops[number][side]);
    if (status != TRYST_OK) {
        assert_int_equal(status, TRYST_E_ABORTED);
        ops[number][side] = NULL;
    }
}

static void submit_next(const struct life *life, int side)
{
    int number = life->prior != NO_PRIOR;
    submit(life, side, number, life->action == DEADLINE && life->who == side);
    if (life->settled)
        world_settle(&world);
}

static void step_close(int side)
{
    if (!steps[side])
        return;
    assert_int_equal(tryst_step_close(steps[side], NULL), TRYST_OK);
    steps[side] = NULL;
}

/* Fail an operation from the layer above, in the progress domain. */
static struct {
    struct submission submission;
    tryst_op *op;
} relay;

static void relay_peer_run(struct rendezvous *rdv, struct submission *submission)
{
    if (relay.op && !relay.op->reported)
        op_fail_from(relay.op, (struct cause){TRYST_E_PEER, ELSEWHERE, TRYST_E_SYSTEM},
                     "rank 2 is gone");
}

static void relay_deadline_run(struct rendezvous *rdv, struct submission *submission)
{
    if (relay.op && !relay.op->reported)
        op_fail_from(relay.op,
                     (struct cause){TRYST_E_DEADLINE, ELSEWHERE, TRYST_E_DEADLINE},
                     "rank 2 had a deadline");
}

static void give_up(const struct life *life)
{
    tryst_op *op = ops[life->prior != NO_PRIOR][life->who];
    switch (life->action) {
    case CANCEL:
        if (op)
            assert_int_equal(tryst_op_cancel(op), TRYST_OK);
        break;
    case DEADLINE: clock_fake_advance(&world.clock, 2 * DEADLINE_NS); break;
    case CLOSE: step_close(life->who); break;
    case RELAY:
    case RELAY_DEADLINE:
        relay.op = op;
        relay.submission.run =
            life->action == RELAY ? relay_peer_run : relay_deadline_run;
        rendezvous_submit(world.sides[life->who].rdv, &relay.submission);
        break;
    default:
        assert_int_equal(tryst_step_abort(steps[life->who], TRYST_E_PEER, "enough"),
                         TRYST_OK);
        if (life->action == ABORT_CLOSE)
            step_close(life->who);
        break;
    }
}

static void prior_make(const struct life *life)
{
    if (life->prior == NO_PRIOR)
        return;
    int who = life->prior == PRIOR_RECV_CANCELED ? CONSUMER : PRODUCER;
    submit(life, PRODUCER, 0, false);
    submit(life, CONSUMER, 0, false);
    assert_int_equal(tryst_op_cancel(ops[0][who]), TRYST_OK);
}

/* ---- the manual -------------------------------------------------------------------- */

static bool is_one_of(const struct life *life, tryst_status status,
                      const tryst_status *legal)
{
    for (; *legal; legal++)
        if (status == *legal)
            return true;
    return status == (life->dead ? TRYST_E_DEAD : TRYST_OK);
}

/* The statuses, besides OK, that the end which gives up may report, and those that its
 * counterpart may. */
static const tryst_status legal[ACTIONS][2][3] = {
    [CANCEL] = {{TRYST_E_CANCELED}, {TRYST_E_CANCELED}},
    [DEADLINE] = {{TRYST_E_DEADLINE}, {TRYST_E_DEADLINE}},
    [ABORT] = {{TRYST_E_ABORTED}, {TRYST_E_ABORTED}},
    [CLOSE] = {{TRYST_E_CANCELED}, {TRYST_E_CANCELED, TRYST_E_CLOSED}},
    [ABORT_CLOSE] = {{TRYST_E_ABORTED}, {TRYST_E_ABORTED}},
    [RELAY] = {{TRYST_E_PEER}, {TRYST_E_PEER}},
    [RELAY_DEADLINE] = {{TRYST_E_DEADLINE}, {TRYST_E_DEADLINE}},
};

/* True if this end may name `rank` where the pair failed with `status`. */
static bool is_origin(const struct life *life, int side, tryst_status status,
                      int32_t rank)
{
    if (status == TRYST_E_DEAD)
        return rank == PRODUCER;
    bool relayed = life->action >= RELAY && side == life->who;
    return rank == life->who || (relayed && rank == ELSEWHERE);
}

static tryst_status origin_status(const struct life *life, tryst_status status)
{
    if (status == TRYST_E_ABORTED)
        return TRYST_E_PEER;
    return status == TRYST_E_PEER ? TRYST_E_SYSTEM : status;
}

static const char *origin_wrong(const struct life *life, int number, int side)
{
    tryst_error error = {.struct_size = sizeof error};
    bool prior = life->prior != NO_PRIOR && number == 0;
    int32_t gave_up = life->prior == PRIOR_RECV_CANCELED ? CONSUMER : PRODUCER;
    tryst_status status =
        ops[number][side] ? tryst_op_error(ops[number][side], &error) : TRYST_OK;
    if (status == TRYST_OK || (prior && error.origin_rank == gave_up))
        return NULL;
    if (!is_origin(life, side, status, error.origin_rank))
        return "not the rank where the failure began";
    bool unknown = life->holds & HOLD_LINKS && error.origin_status == TRYST_E_ABORTED;
    return unknown || error.origin_status == origin_status(life, status)
               ? NULL
               : "not the status of the rank where the failure began";
}

/* True if one end may have its tensor, or its bytes, while the other reports a
 * failure. */
static bool is_torn(const struct life *life)
{
    return life->action == ABORT || life->action == ABORT_CLOSE || life->action == RELAY;
}

static const char *pair_wrong(const struct life *life, int number)
{
    static const tryst_status canceled[] = {TRYST_E_CANCELED, 0};
    bool prior = life->prior != NO_PRIOR && number == 0;
    tryst_status status[2];
    for (int side = 0; side < 2; side++) {
        status[side] = tryst_op_test(ops[number][side]);
        if (!ops[number][side])
            status[side] = TRYST_E_CANCELED; /* never submitted */
        else if (status[side] == TRYST_IN_PROGRESS)
            return "one end hangs";
        else if (!is_one_of(life, status[side], legal[life->action][side != life->who]) &&
                 !(prior && is_one_of(life, status[side], canceled)))
            return "a status that the manual does not list here";
    }
    if (status[PRODUCER] == TRYST_OK && status[CONSUMER] != TRYST_OK)
        return "the send reports OK, the receive does not";
    if (status[CONSUMER] == TRYST_OK && status[PRODUCER] != TRYST_OK && !is_torn(life))
        return "the receive reports OK, the send does not";
    if (life->dead && !is_torn(life) &&
        (status[PRODUCER] == TRYST_E_DEAD) != (status[CONSUMER] == TRYST_E_DEAD))
        return "only one end reports that the tensor is dead";
    if (status[CONSUMER] == TRYST_OK && memcmp(in[number], out, life->bytes) != 0)
        return "the bytes are not the sender's";
    return NULL;
}

static void check(const struct life *life, const char *wrong)
{
    if (!wrong)
        return;
    for (int side = 0; side < 2; side++)
        print_error("%s", world.sides[side].log_text);
    for (int side = 0; side < 2; side++)
        rendezvous_dump(world.sides[side].rdv, 2);
    fail_msg("%s: %zu bytes%s, action %d by %d, order %d, prior %d, holds %u, credit %d, "
             "settled %d, lone %d, passes %d; number 0: %d %d, number 1: %d %d",
             wrong, life->bytes, life->dead ? ", dead" : "", life->action, life->who,
             life->order, life->prior, life->holds, life->credit, life->settled,
             life->lone, life->passes, tryst_op_test(ops[0][0]), tryst_op_test(ops[0][1]),
             tryst_op_test(ops[1][0]), tryst_op_test(ops[1][1]));
}

/* ---- one life ---------------------------------------------------------------------- */

static void submit_first(const struct life *life)
{
    static const int first[ORDERS] = {PRODUCER, CONSUMER, PRODUCER, CONSUMER};
    submit_next(life, first[life->order]);
    if (life->order >= SEND_RECV)
        submit_next(life, !first[life->order]);
    for (int i = 0; i < life->passes; i++)
        world_pass(&world);
}

static void submit_rest(const struct life *life)
{
    if (life->order < SEND_RECV && !life->lone)
        submit_next(life, life->order == SEND_ONLY ? CONSUMER : PRODUCER);
}

static void life_end(const struct life *life)
{
    int numbers = life->prior == NO_PRIOR ? 1 : 2;
    hold(0);
    for (int i = 0; i < 3; i++)
        world_advance(&world, NS_PER_S);
    for (int number = 0; number < numbers; number++)
        check(life, pair_wrong(life, number));
    for (int i = 0; i < 2 * numbers; i++)
        check(life, origin_wrong(life, i / 2, i % 2));
    for (int side = 0; side < 2; side++)
        step_close(side);
    world_settle(&world);
    for (int side = 0; side < 2; side++) {
        check(life,
              list_empty(&world.sides[side].rdv->scopes.all) ? NULL : "a step is left");
        for (int number = 0; number < numbers; number++)
            tryst_op_release(ops[number][side]);
    }
}

static void life_run(const struct life *life, uint64_t id)
{
    memset(ops, 0, sizeof ops);
    memset(in, 0, sizeof in);
    for (int side = 0; side < 2; side++)
        steps[side] = world_step(&world, side, id);
    hold(life->passes ? 0 : life->holds);
    prior_make(life);
    submit_first(life);
    hold(life->holds);
    give_up(life);
    world_settle(&world);
    submit_rest(life);
    world_settle(&world);
    life_end(life);
}

/* True if the action ends one operation only, and only if that operation exists. */
static bool gives_up_one(const struct life *life)
{
    return life->action <= DEADLINE || life->action >= RELAY;
}

/* Decode combination `draw`; return false if one of its knobs has no effect, or an
 * operation would never end. */
static bool life_draw(struct life *life, unsigned draw)
{
    bool aborts = life->action == ABORT || life->action == ABORT_CLOSE;
    life->holds = draw % HOLDS, draw /= HOLDS;
    life->prior = draw % PRIORS, draw /= PRIORS;
    life->order = draw % ORDERS, draw /= ORDERS;
    life->settled = draw % 2, draw /= 2;
    life->dead = draw % 2, draw /= 2;
    life->lone = draw % 2, draw /= 2;
    life->passes = (int)(draw % PASSES), draw /= PASSES;
    life->bytes = sizes[draw];
    bool bulk = life->bytes > 8;
    int first = life->order == SEND_ONLY ? PRODUCER : CONSUMER;
    if (life->lone &&
        (life->order >= SEND_RECV || (gives_up_one(life) && life->who != first)))
        return false; /* not alone, or an operation would never end */
    if (life->passes && (life->settled || life->order < SEND_RECV))
        return false; /* the passes would change nothing */
    return (bulk ? !life->credit : !(life->holds & (HOLD_BULK | HOLD_SCHED))) &&
           (aborts || !(life->holds & HOLD_LINKS));
}

/* Run all combinations in one world: a life leaves nothing behind. */
static void lives_run(enum action action, int who, bool credit)
{
    static const struct world_setting settings[] = {
        {"slice_bytes", "4K"}, {"posted_slices", "2"}, {"eager_credit", "64K"}, {0}};
    struct life life = {.action = action, .who = who, .credit = credit};
    uint64_t used = credit ? 0 : 64 << 10;
    uint64_t id = 0;
    world_open(&world, RANKS, settings);
    world_join(&world, PRODUCER, CONSUMER);
    peer_out(world_peer(&world, PRODUCER, CONSUMER))->eager_used = used;
    for (size_t i = 0; i < BYTES_MAX; i++)
        out[i] = (uint8_t)(i * 7 + 1);
    for (unsigned i = 0; i < COUNT_OF(sizes) * 8 * PASSES * ORDERS * PRIORS * HOLDS; i++)
        if (random_range(&drawn, 4) < unit_cases(4) && life_draw(&life, i))
            life_run(&life, ++id);
    assert_int_equal(peer_out(world_peer(&world, PRODUCER, CONSUMER))->eager_used, used);
    peer_out(world_peer(&world, PRODUCER, CONSUMER))->eager_used = 0;
    world_close(&world);
}

static void action_run(enum action action)
{
    for (int i = 0; i < 4; i++)
        lives_run(action, i / 2, i % 2);
}

static void test_cancel(void **state)
{
    action_run(CANCEL);
}

static void test_deadline(void **state)
{
    action_run(DEADLINE);
}

static void test_abort(void **state)
{
    action_run(ABORT);
}

static void test_close(void **state)
{
    action_run(CLOSE);
}

static void test_abort_then_close(void **state)
{
    action_run(ABORT_CLOSE);
}

/* The layer above fails one end for a cause of a third rank. */
static void test_relay(void **state)
{
    action_run(RELAY);
}

static void test_relay_deadline(void **state)
{
    action_run(RELAY_DEADLINE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_close),
        cmocka_unit_test(test_abort_then_close),
        cmocka_unit_test(test_relay),
        cmocka_unit_test(test_relay_deadline),
    };
    random_seed(&drawn, unit_seed());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
