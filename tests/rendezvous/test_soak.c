/* SPDX-License-Identifier: Apache-2.0 */
/* Three engines with narrow quotas, at random: all directions, sizes, shapes, cancels,
 * deadlines, mismatches and failing allocations, in several steps. Sides open the steps
 * late, pass them over, close them with operations pending and DATA unread, or abort
 * them, while queues are held and released. In the end nothing may hang, nothing may be
 * left, successful operations have the right bytes, and both ends of each pair report
 * what the manual allows (support/outcomes.h).
 *
 * Short lives end while the sides still connect: candidates for endpoints are refused, or
 * never become ready, and sides leave the group at any moment after their first
 * submissions, in any order. Then all submitted operations must end, and no endpoint may
 * be left.
 *
 * TRYST_TEST_SEED replays. */
#include "support/outcomes.h"
#include "world.h"
#include <inttypes.h>

enum { SIDES = 3, KEYS = 6, STEPS = 3, OPS = 60, BYTES_MAX = 40000 };

static struct world world;
static struct random rng;

struct end {
    tryst_op *op; /* NULL: not submitted */
    uint8_t *data;
    size_t bytes;
    bool alloc;
    uint32_t facts, calls;
    struct pair *pair;
};

/* The i-th send and the i-th receive of a key in a step. */
struct pair {
    struct end send, recv;
    int key, step;
    bool dead, refused;
};

/* How a side treats a step. */
enum manner { STAYS, CLOSES, ABORTS, ABORTS_AND_CLOSES, SKIPS };

struct visit {
    enum manner manner;
    int leaves_at; /* the side closes or aborts after this many submissions */
    int submitted, next;
    bool came, left;
    tryst_step *step; /* NULL: not open */
    tryst_op *close_op;
};

static struct pair pairs[OPS];
static struct visit visits[SIDES][STEPS];

static bool one_in(uint64_t n)
{
    return random_range(&rng, n) == 0;
}

/* The keys, in order: from each side to each other. */
static int key_src(int key)
{
    return key / 2;
}

static int key_dst(int key)
{
    return (key / 2 + 1 + key % 2) % SIDES;
}

static struct end *end_of(struct pair *pair, int side)
{
    return side == key_src(pair->key)   ? &pair->send
           : side == key_dst(pair->key) ? &pair->recv
                                        : NULL;
}

/* ---- operations -------------------------------------------------------------------- */

static void on_done(void *arg, tryst_op *op, tryst_status status)
{
    struct end *end = arg;
    end->calls++;
}

static tryst_status shape_alloc(void *arg, tryst_tensor *tensor)
{
    struct end *end = arg;
    if (one_in(16)) {
        end->pair->refused = true;
        return TRYST_E_UNSUPPORTED;
    }
    end->bytes = tensor->count;
    end->data = malloc(tensor->count + 1);
    tensor->data = end->data;
    return TRYST_OK;
}

/* A number that was lost for want of memory has aborted the step. */
static void submit(struct end *end, int side, tryst_step *step)
{
    struct pair *pair = end->pair;
    bool is_send = end == &pair->send;
    char edge[16];
    snprintf(edge, sizeof edge, "k%d", pair->key);
    const char *key = world_key(&world, key_src(pair->key), key_dst(pair->key), edge);
    tryst_op_params params = {
        .struct_size = sizeof params, .callback = on_done, .arg = end};
    if (tryst_step_status(step, NULL) != TRYST_OK)
        return;
    end->facts |= OUTCOME_SUBMITTED;
    if (one_in(12)) {
        params.deadline_ns = 1 + random_range(&rng, 3 * NS_PER_S);
        end->facts |= OUTCOME_DEADLINE;
    }
    if (is_send && pair->dead)
        params.flags |= TRYST_OP_DEAD;
    if (one_in(2))
        params.flags |= TRYST_OP_PRIORITY;
    if (one_in(6))
        params.flags |= TRYST_OP_BACKGROUND;
    int32_t priority = (int32_t)random_range(&rng, 5);
    params.priority = params.flags & TRYST_OP_PRIORITY ? priority : 0;
    if (end->alloc) {
        params.alloc = shape_alloc;
        params.alloc_arg = end;
    }
    end->op = is_send
                  ? world_send(&world, side, step, key, end->data, end->bytes, &params)
                  : world_recv(&world, side, step, key, end->data, end->bytes, &params);
}

static size_t random_bytes(void)
{
    switch (random_range(&rng, 4)) {
    case 0: return random_range(&rng, 100);
    case 1: return 2040 + random_range(&rng, 16);
    default: return random_range(&rng, BYTES_MAX);
    }
}

static void pairs_make(void)
{
    memset(pairs, 0, sizeof pairs);
    for (int i = 0; i < OPS; i++) {
        struct pair *pair = &pairs[i];
        pair->key = (int)random_range(&rng, KEYS);
        pair->step = (int)random_range(&rng, STEPS);
        pair->dead = one_in(20);
        pair->send.pair = pair->recv.pair = pair;
        pair->send.bytes = pair->recv.bytes = random_bytes();
        if (one_in(16))
            pair->recv.bytes = random_bytes();
        pair->recv.alloc = one_in(5);
        pair->send.data = malloc(pair->send.bytes + 1);
        for (size_t j = 0; j < pair->send.bytes; j++)
            pair->send.data[j] = (uint8_t)(j * 7 + (size_t)i);
        pair->recv.data = pair->recv.alloc ? NULL : calloc(1, pair->recv.bytes + 1);
    }
}

static void pairs_free(void)
{
    for (int i = 0; i < OPS; i++) {
        tryst_op_release(pairs[i].send.op);
        tryst_op_release(pairs[i].recv.op);
        free(pairs[i].send.data);
        free(pairs[i].recv.data);
    }
}

/* ---- steps ------------------------------------------------------------------------- */

/* No side skips the last step: opening it closes the steps that were passed over. */
static void visits_make(void)
{
    memset(visits, 0, sizeof visits);
    for (int step = 0; step < STEPS; step++) {
        bool calm = one_in(3);
        for (int side = 0; side < SIDES; side++) {
            uint64_t at = calm ? 0 : random_range(&rng, 10);
            enum manner manner = at < 5 ? STAYS : (enum manner)(at - 5);
            if (step == STEPS - 1 && manner == SKIPS)
                manner = CLOSES;
            visits[side][step].manner = manner;
            visits[side][step].leaves_at = (int)random_range(&rng, 10);
        }
    }
}

static bool step_is_aborted(int step)
{
    for (int side = 0; side < SIDES; side++)
        if (visits[side][step].manner == ABORTS ||
            visits[side][step].manner == ABORTS_AND_CLOSES)
            return true;
    return false;
}

static void visit_close(struct visit *visit)
{
    assert_int_equal(tryst_step_close(visit->step, one_in(4) ? NULL : &visit->close_op),
                     TRYST_OK);
    visit->step = NULL;
}

/* The side has made its submissions: close or abort by its manner. */
static void visit_leave(struct visit *visit)
{
    visit->left = true;
    if (visit->manner == ABORTS || visit->manner == ABORTS_AND_CLOSES)
        assert_int_equal(tryst_step_abort(visit->step, TRYST_E_IO, "enough"), TRYST_OK);
    if (visit->manner == CLOSES || visit->manner == ABORTS_AND_CLOSES)
        visit_close(visit);
}

/* Let the side open its next step, or pass over it. */
static void visit_next(int side)
{
    for (int i = 0; i < STEPS; i++) {
        struct visit *visit = &visits[side][i];
        if (visit->came)
            continue;
        visit->came = true;
        if (visit->manner == SKIPS)
            visit->next = OPS;
        else
            visit->step = world_step(&world, side, (uint64_t)i + 1);
        return;
    }
}

/* Make the side's next submission in a step. */
static void visit_submit(int side, int step)
{
    struct visit *visit = &visits[side][step];
    if (!visit->step)
        return;
    if (!visit->left && visit->manner != STAYS &&
        (visit->submitted == visit->leaves_at || visit->next == OPS)) {
        visit_leave(visit);
        return;
    }
    while (visit->next < OPS) {
        struct pair *pair = &pairs[visit->next++];
        struct end *end = end_of(pair, side);
        if (pair->step != step || !end)
            continue;
        submit(end, side, visit->step);
        visit->submitted++;
        return;
    }
}

static bool visit_is_finished(const struct visit *visit)
{
    return visit->came && (!visit->step || (visit->next == OPS &&
                                            (visit->left || visit->manner == STAYS)));
}

static bool visits_are_finished(void)
{
    for (int side = 0; side < SIDES; side++)
        for (int step = 0; step < STEPS; step++)
            if (!visit_is_finished(&visits[side][step]))
                return false;
    return true;
}

/* ---- knobs ------------------------------------------------------------------------- */

static void knobs_randomize(struct side *side)
{
    bool *const knobs[] = {&side->hold_frames,  &side->hold_bulk,  &side->hold_sent,
                           &side->hold_cancels, &side->hold_sched, &side->still};
    for (size_t i = 0; i < COUNT_OF(knobs); i++)
        *knobs[i] = one_in(4);
    side->frames_max = (uint32_t)random_range(&rng, 3);
    side->recv_again = one_in(8) ? 3 : 0;
    side->send_again = one_in(8) ? 3 : 0;
    world.hold_links = one_in(8);
}

static void knobs_release(struct side *side)
{
    side->hold_frames = side->hold_bulk = side->hold_sent = side->hold_cancels = false;
    side->hold_sched = side->still = false;
    side->frames_max = side->recv_again = side->send_again = 0;
    side->unready = side->refuses = 0;
    side->hold_close = false;
    side->no_kind = 0;
}

/* ---- the end ----------------------------------------------------------------------- */

static void end_judge(const struct end *end, int side, struct outcome_end *judged)
{
    const struct visit *visit = &visits[side][end->pair->step];
    judged->facts = end->facts;
    if (visit->manner == CLOSES)
        judged->facts |= OUTCOME_CLOSE;
    if (visit->manner != STAYS && visit->manner != ABORTS)
        judged->facts |= OUTCOME_PASSED;
    if (step_is_aborted(end->pair->step))
        judged->facts |= OUTCOME_ABORT;
    judged->status = end->op ? tryst_op_test(end->op) : OUTCOME_UNSEEN;
    judged->calls = end->calls;
}

static void check(const struct pair *pair, bool failing)
{
    bool fits = pair->recv.alloc || pair->recv.bytes == pair->send.bytes;
    struct outcome_pair both = {.met = pair->dead      ? TRYST_E_DEAD
                                       : pair->refused ? TRYST_E_UNSUPPORTED
                                       : fits          ? TRYST_OK
                                                       : TRYST_E_MISMATCH,
                                .refused = pair->refused};
    end_judge(&pair->send, key_src(pair->key), &both.send);
    end_judge(&pair->recv, key_dst(pair->key), &both.recv);
    const char *fault = outcome_fault(&both);
    if (failing && both.send.status != TRYST_IN_PROGRESS &&
        both.recv.status != TRYST_IN_PROGRESS)
        fault = NULL; /* without memory either end may fail */
    if (fault)
        fail_msg(
            "%s: pair %d of key %d (%d to %d), step %d%s, %zu bytes, meets as %s: send "
            "%d (manner %d, facts %x), receive %d (manner %d, facts %x)%s",
            fault, (int)(pair - pairs), pair->key, key_src(pair->key), key_dst(pair->key),
            pair->step + 1, step_is_aborted(pair->step) ? " (aborted)" : "",
            pair->send.bytes, tryst_status_name(both.met), both.send.status,
            visits[key_src(pair->key)][pair->step].manner, both.send.facts,
            both.recv.status, visits[key_dst(pair->key)][pair->step].manner,
            both.recv.facts, pair->recv.alloc ? ", alloc" : "");
    if (both.recv.status == TRYST_OK) {
        assert_int_equal(pair->recv.bytes, pair->send.bytes);
        assert_memory_equal(pair->recv.data, pair->send.data, pair->send.bytes);
    }
}

/* Check that a side with the step still open sees the abort, if there was one. */
static void visit_check(const struct visit *visit, int step, bool failing)
{
    tryst_error error = {.struct_size = sizeof error};
    if (visit->close_op)
        assert_int_equal(tryst_op_test(visit->close_op), TRYST_OK);
    if (!visit->step || failing)
        return;
    tryst_status status = tryst_step_status(visit->step, &error);
    assert_int_equal(status, step_is_aborted(step) ? TRYST_E_ABORTED : TRYST_OK);
    if (status == TRYST_OK)
        return;
    assert_in_range(error.origin_rank, 0, SIDES - 1);
    enum manner manner = visits[error.origin_rank][step].manner;
    assert_true(manner == ABORTS || manner == ABORTS_AND_CLOSES);
    assert_int_equal(error.origin_status, TRYST_E_IO);
    assert_non_null(strstr(error.text, "enough"));
}

static void pending_ops_dump(void)
{
    for (int i = 0; i < OPS; i++)
        if ((pairs[i].send.op && tryst_op_test(pairs[i].send.op) == TRYST_IN_PROGRESS) ||
            (pairs[i].recv.op && tryst_op_test(pairs[i].recv.op) == TRYST_IN_PROGRESS)) {
            for (int side = 0; side < SIDES; side++)
                rendezvous_dump(world.sides[side].rdv, 2);
            return;
        }
}

static void life_end(bool failing)
{
    world.hold_links = false;
    for (int i = 0; i < SIDES; i++)
        knobs_release(&world.sides[i]);
    for (int i = 0; i < 2 * OPS; i++)
        world_advance(&world, NS_PER_S); /* deferred receives come again one a tick */
    pending_ops_dump();
    for (int i = 0; i < OPS; i++)
        check(&pairs[i], failing);
    for (int side = 0; side < SIDES; side++)
        for (int step = 0; step < STEPS; step++) {
            struct visit *visit = &visits[side][step];
            visit_check(visit, step, failing);
            if (visit->step)
                visit_close(visit);
        }
    world_settle(&world);
    for (int side = 0; side < SIDES; side++)
        for (int step = 0; step < STEPS; step++)
            tryst_op_release(visits[side][step].close_op);
    for (int i = 0; i < SIDES; i++) {
        assert_true(list_empty(&world.sides[i].rdv->scopes.all));
        for (int j = 0; j < SIDES; j++)
            if (i != j) {
                assert_int_equal(world_peer(&world, i, j)->life, PEER_ALIVE);
                assert_int_equal(world_peer(&world, i, j)->out.eager_used, 0);
            }
    }
}

/* ---- lives ------------------------------------------------------------------------- */

static void life_step(bool failing)
{
    int side = (int)random_range(&rng, SIDES);
    if (one_in(6))
        visit_next(side);
    visit_submit(side, (int)random_range(&rng, STEPS));
    if (one_in(4))
        knobs_randomize(&world.sides[random_range(&rng, SIDES)]);
    if (failing && one_in(6))
        alloc_fail_at(1 + random_range(&rng, 4));
    for (uint64_t n = random_range(&rng, 4); n > 0; n--)
        world_pass(&world);
    alloc_fail_off();
    struct pair *other = &pairs[random_range(&rng, OPS)];
    struct end *end = one_in(2) ? &other->send : &other->recv;
    if (end->op && one_in(8)) {
        tryst_op_cancel(end->op);
        end->facts |= OUTCOME_CANCEL;
    }
    if (end->op && one_in(8)) {
        int32_t priority = (int32_t)random_range(&rng, 6) - 3;
        assert_int_equal(tryst_op_reprioritize(end->op, priority), TRYST_OK);
    }
    if (one_in(4))
        clock_fake_advance(&world.clock, random_range(&rng, NS_PER_S));
}

/* Run one life. Each side submits the pairs of one key in order; the sides do not wait
 * for each other. */
static void life(bool failing)
{
    const struct world_setting settings[] = {{"slice_bytes", "4K"},
                                             {"parked_max", "2"},
                                             {"wants_max", "2"},
                                             {"frame_credits", "2"},
                                             {"posted_slices", "2"},
                                             {"eager_credit", one_in(2) ? "4K" : "8K"},
                                             {"early_max", one_in(2) ? "1" : "4096"},
                                             /* frames are held for longer than usual */
                                             {"peer_timeout", "1h"},
                                             {0}};
    world_open(&world, SIDES, settings);
    for (int i = 0; i < SIDES; i++)
        world.sides[i].rail.base.posted_max = 4;
    world.sides[0].window_bytes = 8192;
    /* an endpoint for which memory is missing ends the peer */
    if (failing || one_in(2))
        for (int i = 0; i < SIDES; i++)
            world_join(&world, i, (i + 1) % SIDES);
    pairs_make();
    visits_make();
    while (!visits_are_finished())
        life_step(failing);
    life_end(failing);
    world_close(&world);
    pairs_free();
}

/* ---- short lives ------------------------------------------------------------------- */

/* Turn the knobs that keep two sides from connecting at once. */
static void contact_step(struct side *side)
{
    side->refuses = (uint32_t)random_range(&rng, 3);
    side->unready = one_in(6);
    side->no_kind = one_in(6) ? TRANSPORT_SHM + (int)random_range(&rng, 3) : 0;
    side->hold_close = one_in(3);
    world.hold_links = one_in(3);
}

/* Take the side one state further on its way out. */
static void leave_step(int side)
{
    struct rendezvous *rdv = world.sides[side].rdv;
    if (rdv->leave.state == LEAVE_NONE) {
        pass_run(rdv); /* runs earlier submissions */
        for (int step = 0; step < STEPS; step++) {
            visits[side][step].step = NULL; /* the group's close closes it */
            visits[side][step].came = true;
        }
    }
    world_leave_next(rdv);
}

static void short_check(const struct end *end)
{
    if (!end->op)
        return;
    tryst_status status = tryst_op_test(end->op);
    if (status == TRYST_IN_PROGRESS || end->calls != 1)
        fail_msg("an operation has status %d and %u callbacks", status, end->calls);
}

static void short_life_end(void)
{
    for (int i = 0; i < SIDES; i++)
        assert_int_equal(rendezvous_leave_poll(world.sides[i].rdv), LEAVE_DONE);
    for (int i = 0; i < OPS; i++) {
        short_check(&pairs[i].send);
        short_check(&pairs[i].recv);
        if (pairs[i].send.op && tryst_op_test(pairs[i].send.op) == TRYST_OK)
            assert_true(pairs[i].recv.op && tryst_op_test(pairs[i].recv.op) == TRYST_OK);
    }
}

static void short_life(void)
{
    const struct world_setting settings[] = {{"connect_timeout", "5s"}, {0}};
    int turns = (int)random_range(&rng, 120);
    world_open(&world, SIDES, settings);
    world_ways(&world, 1 + (int)random_range(&rng, 3));
    pairs_make();
    memset(visits, 0, sizeof visits);
    for (int i = 0; i < turns; i++) {
        int side = (int)random_range(&rng, SIDES);
        if (one_in(3))
            visit_next(side);
        visit_submit(side, (int)random_range(&rng, STEPS));
        if (one_in(4))
            contact_step(&world.sides[random_range(&rng, SIDES)]);
        if (one_in(4))
            clock_fake_advance(&world.clock, random_range(&rng, 3 * NS_PER_S));
        if (one_in(8))
            leave_step(side);
        for (uint64_t n = random_range(&rng, 4); n > 0; n--)
            world_pass(&world);
    }
    for (int i = 0; i < SIDES; i++)
        knobs_release(&world.sides[i]);
    world.hold_links = false;
    for (int n = 0; n < 3 * SIDES; n++) {
        leave_step(n % SIDES);
        world_settle(&world);
    }
    short_life_end();
    world_close(&world);
    pairs_free();
}

/* ---- tests ------------------------------------------------------------------------- */

static void soak(bool failing)
{
    const char *wanted = getenv("TRYST_TEST_LIVES");
    uint64_t lives = wanted ? strtoull(wanted, NULL, 0) : 200;
    uint64_t seed = unit_seed();
    for (uint64_t i = 0; i < lives; i++) {
        random_seed(&rng, seed + i); /* one life replays with TRYST_TEST_LIVES=1 */
        if (wanted)
            print_message("life %" PRIu64 "\n", seed + i);
        life(failing);
    }
}

static void test_soak(void **state)
{
    soak(false);
}

static void test_soak_no_memory(void **state)
{
    soak(true);
}

static void test_soak_leaving(void **state)
{
    const char *wanted = getenv("TRYST_TEST_LIVES");
    uint64_t lives = wanted ? strtoull(wanted, NULL, 0) : 1000;
    uint64_t seed = unit_seed();
    for (uint64_t i = 0; i < lives; i++) {
        random_seed(&rng, seed + i);
        if (wanted)
            print_message("life %" PRIu64 "\n", seed + i);
        short_life();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_soak_leaving),
        cmocka_unit_test(test_soak),
        cmocka_unit_test(test_soak_no_memory),
    };
    const char *only = getenv("TRYST_TEST_ONLY"); /* for use in a debugger */
    if (only)
        cmocka_set_test_filter(only);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
