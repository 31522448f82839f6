/* SPDX-License-Identifier: Apache-2.0 */
/* Two engines with the narrowest quotas, at random: both directions, sizes, shapes, cancels,
 * deadlines, mismatches and failing allocations, while queues are held and let go. In the end every
 * send has met its receive: nothing may hang, nothing may be left, and what succeeded is right.
 *
 * TRYST_TEST_SEED replays. */
#include "world.h"
#include <inttypes.h>

enum { KEYS = 6, OPS = 60, BYTES_MAX = 40000 };

static struct world world;
static struct random rng;

struct end {
    tryst_op *op;
    uint8_t *data;
    size_t bytes;
    bool alloc;
    struct pair *pair;
};

/* The i-th send and the i-th receive of a key. */
struct pair {
    struct end send, recv;
    int key;
};

static struct pair pairs[OPS];

static bool one_in(uint64_t n)
{
    return random_range(&rng, n) == 0;
}

static tryst_status shape_take(void *arg, tryst_tensor *tensor)
{
    struct end *end = arg;
    if (one_in(16))
        return TRYST_E_NOMEM;
    end->bytes = tensor->count;
    end->data = malloc(tensor->count + 1);
    tensor->data = end->data;
    return TRYST_OK;
}

/* (A number that was lost for want of memory has aborted the step.) */
static void submit(struct end *end, tryst_step *const *steps, bool is_send)
{
    struct pair *pair = end->pair;
    int src = pair->key % 2;
    char edge[16];
    snprintf(edge, sizeof edge, "k%d", pair->key);
    const char *key = world_key(&world, src, !src, edge);
    tryst_op_params params = {.struct_size = sizeof params};
    if (one_in(12))
        params.deadline_ns = 1 + random_range(&rng, 3 * NS_PER_S);
    if (is_send && one_in(20))
        params.flags |= TRYST_OP_DEAD;
    if (tryst_step_status(steps[is_send ? src : !src], NULL) != TRYST_OK)
        return;
    if (is_send) {
        end->op =
            world_send(&world, src, steps[src], key, end->data, end->bytes, &params);
        return;
    }
    if (end->alloc) {
        params.alloc = shape_take;
        params.alloc_arg = end;
    }
    end->op = world_recv(&world, !src, steps[!src], key, end->data, end->bytes, &params);
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

static void knobs_turn(struct side *side)
{
    bool *const knobs[] = {&side->hold_frames,  &side->hold_bulk,     &side->hold_sent,
                           &side->hold_cancels, &side->hold_dispatch, &side->still};
    for (size_t i = 0; i < COUNT_OF(knobs); i++)
        *knobs[i] = one_in(4);
    side->frames_max = (uint32_t)random_range(&rng, 3);
    side->recv_again = one_in(8) ? 3 : 0;
    side->send_again = one_in(8) ? 3 : 0;
}

static void knobs_release(struct side *side)
{
    side->hold_frames = side->hold_bulk = side->hold_sent = side->hold_cancels = false;
    side->hold_dispatch = side->still = false;
    side->frames_max = side->recv_again = side->send_again = 0;
}

static void check(const struct pair *pair)
{
    tryst_status send = tryst_op_test(pair->send.op);
    tryst_status recv = tryst_op_test(pair->recv.op);
    if (send == TRYST_IN_PROGRESS || recv == TRYST_IN_PROGRESS) {
        rendezvous_dump(world.sides[0].rdv, 2);
        rendezvous_dump(world.sides[1].rdv, 2);
        fail_msg("pair %d of key %d: send %d, receive %d", (int)(pair - pairs), pair->key,
                 send, recv);
    }
    if (recv == TRYST_OK) {
        assert_int_equal(pair->recv.bytes, pair->send.bytes);
        assert_memory_equal(pair->recv.data, pair->send.data, pair->send.bytes);
    }
}

/* `order`: pairs of one key are submitted in order on each side; the two sides are not. */
static void life(bool failing)
{
    static const struct world_setting settings[] = {{"slice_bytes", "4K"},
                                                    {"parked_max", "2"},
                                                    {"wants_max", "2"},
                                                    {"frame_credits", "2"},
                                                    {"posted_slices", "2"},
                                                    {"eager_credit", "4K"},
                                                    {0}};
    tryst_step *steps[2];
    int next[2] = {0, 0};
    uint64_t aborted = 0;
    world_open(&world, 2, settings);
    world.sides[0].rail.base.posted_max = world.sides[1].rail.base.posted_max = 4;
    world.sides[0].window_bytes = 8192;
    for (int i = 0; i < 2; i++)
        steps[i] = world_step(&world, i, 1);
    if (failing || one_in(2))
        world_join(&world, 0,
                   1); /* (an endpoint for which there is no memory ends the peer) */
    pairs_make();
    while (next[0] < OPS || next[1] < OPS) {
        int which = (int)random_range(&rng, 2);
        int i = next[which];
        if (i < OPS) {
            submit(which ? &pairs[i].recv : &pairs[i].send, steps, !which);
            next[which]++;
        }
        if (one_in(4))
            knobs_turn(&world.sides[random_range(&rng, 2)]);
        if (failing && one_in(6))
            alloc_fail_at(1 + random_range(&rng, 4));
        for (uint64_t n = random_range(&rng, 4); n > 0; n--)
            world_pass(&world);
        alloc_fail_off();
        struct pair *other = &pairs[random_range(&rng, OPS)];
        aborted += tryst_step_status(steps[0], NULL) != TRYST_OK;
        tryst_op *op = one_in(2) ? other->send.op : other->recv.op;
        if (op && one_in(8))
            tryst_op_cancel(op);
        if (one_in(4))
            clock_fake_advance(&world.clock, random_range(&rng, NS_PER_S));
    }
    for (int i = 0; i < 2; i++)
        knobs_release(&world.sides[i]);
    for (int i = 0; i < 2 * OPS; i++)
        world_advance(&world, NS_PER_S); /* deferred ones come one a tick */
    assert_true(failing || !aborted);
    for (int i = 0; i < OPS; i++)
        check(&pairs[i]);
    for (int i = 0; i < 2; i++)
        assert_int_equal(world_peer(&world, i, !i)->life, PEER_ALIVE);
    for (int i = 0; i < 2; i++)
        assert_int_equal(world_peer(&world, i, !i)->eager_used, 0);
    for (int i = 0; i < OPS; i++) {
        tryst_op_release(pairs[i].send.op);
        tryst_op_release(pairs[i].recv.op);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(tryst_step_close(steps[i], NULL), TRYST_OK);
    world_settle(&world);
    for (int i = 0; i < 2; i++)
        assert_true(list_empty(&world.sides[i].rdv->scopes));
    world_close(&world);
    for (int i = 0; i < OPS; i++) {
        free(pairs[i].send.data);
        free(pairs[i].recv.data);
    }
}

static void soak(bool failing)
{
    const char *wanted = getenv("TRYST_TEST_LIVES");
    uint64_t lives = wanted ? strtoull(wanted, NULL, 0) : 60;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_soak),
        cmocka_unit_test(test_soak_no_memory),
    };
    const char *only = getenv("TRYST_TEST_ONLY"); /* for a debugger */
    if (only)
        cmocka_set_test_filter(only);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
