/* SPDX-License-Identifier: Apache-2.0 */
/* A step that repeats the one before must allocate nothing, at either end: small tensors
 * before and after their receives, large ones, WANTs that wait for their send or for
 * their step, by string and by prepared key. A key that was declared is not declared
 * again. */
#include "world.h"

enum { KEYS = 40, WARM = 50, REPEATS = 50, SMALL = 64, LARGE = 20000, KINDS = 6 };

struct kind {
    const char *edge;
    size_t bytes;
    bool recv_first, prepared;
};
static const struct kind kinds[KINDS] = {
    {"posted", SMALL, true, true}, {"unexpected", SMALL, false, false},
    {"early", SMALL, false, true}, {"large", LARGE, true, false},
    {"parked", LARGE, true, true}, {"empty", 0, true, false}};
/* Kinds of which one end is submitted before the other rank has opened the step. */
enum { EARLY_DATA = 2, EARLY_WANT = 4 };

static struct world world;
static uint8_t out[KINDS][LARGE], in[KINDS][KEYS][LARGE];
static tryst_key *keys[KINDS][KEYS][2]; /* by end: the sender's handle, the receiver's */
static char strings[KINDS][KEYS][TRYST_KEY_MAX + 1];
static tryst_op *ops[KINDS][KEYS][2], *closes[2];
static tryst_step *steps[2];
static int from, to;

static void keys_prepare(void)
{
    for (int kind = 0; kind < KINDS; kind++)
        for (int k = 0; k < KEYS; k++) {
            char edge[32];
            snprintf(edge, sizeof edge, "%s%d", kinds[kind].edge, k);
            strcpy(strings[kind][k], world_key(&world, from, to, edge));
            for (int end = 0; end < 2; end++)
                assert_int_equal(tryst_key_prepare(&world.sides[end ? to : from].group,
                                                   strings[kind][k], &keys[kind][k][end]),
                                 TRYST_OK);
        }
}

static void keys_release(void)
{
    for (int kind = 0; kind < KINDS; kind++)
        for (int k = 0; k < KEYS; k++)
            for (int end = 0; end < 2; end++)
                tryst_key_release(keys[kind][k][end]);
}

/* Submit one end (0: the send) of all tensors of a kind. */
static void submit(int kind, int end)
{
    for (int k = 0; k < KEYS; k++) {
        tryst_tensor tensor = {.struct_size = sizeof tensor,
                               .dtype = TRYST_DTYPE_U8,
                               .count = kinds[kind].bytes,
                               .data = end ? in[kind][k] : out[kind]};
        const tryst_key *key = keys[kind][k][end];
        const char *string = strings[kind][k];
        tryst_step *step = steps[end];
        tryst_op **op = &ops[kind][k][end];
        tryst_status status;
        if (kinds[kind].prepared)
            status = end ? tryst_recv_key(step, key, &tensor, NULL, op)
                         : tryst_send_key(step, key, &tensor, NULL, op);
        else
            status = end ? tryst_recv(step, string, &tensor, NULL, op)
                         : tryst_send(step, string, &tensor, NULL, op);
        assert_int_equal(status, TRYST_OK);
    }
}

static void step_open(int end, uint64_t id)
{
    steps[end] =
        from == to && steps[!end] ? steps[!end] : world_step(&world, end ? to : from, id);
}

static void kind_end(int kind)
{
    submit(kind, !kinds[kind].recv_first);
    for (int i = 0; i < 3; i++)
        world_pass(&world);
}

static void check(void)
{
    for (int kind = 0; kind < KINDS; kind++)
        for (int k = 0; k < KEYS; k++) {
            for (int end = 0; end < 2; end++)
                world_done(ops[kind][k][end], TRYST_OK);
            assert_memory_equal(in[kind][k], out[kind], kinds[kind].bytes);
        }
}

static void steps_close(void)
{
    int count = from == to ? 1 : 2;
    for (int end = 0; end < count; end++)
        assert_int_equal(tryst_step_close(steps[end], &closes[end]), TRYST_OK);
    world_settle(&world);
    for (int end = 0; end < count; end++)
        world_done(closes[end], TRYST_OK);
}

/* Run a step in which one end of the tensors of kind `early` is submitted before the
 * other rank opens the step. */
static void step_run(uint64_t id, int early)
{
    bool first = kinds[early].recv_first;
    memset(out, (int)id, sizeof out);
    memset(steps, 0, sizeof steps);
    step_open(first, id);
    submit(early, first);
    world_settle(&world);
    step_open(!first, id);
    world_settle(&world);
    for (int kind = 0; kind < KINDS; kind++)
        if (kind != early)
            submit(kind, kinds[kind].recv_first);
    world_settle(&world);
    for (int kind = 0; kind < KINDS; kind++)
        kind_end(kind);
    world_settle(&world);
    check();
    steps_close();
}

static void repeat(int src, int dst)
{
    uint64_t seen = 0, names = 0;
    from = src;
    to = dst;
    world_open(&world, 2, NULL);
    world_join(&world, 0, 1);
    keys_prepare();
    for (uint64_t i = 0; i < WARM + REPEATS; i++) {
        if (i == WARM) {
            seen = alloc_seen_count();
            names = peer_out(world_peer(&world, from, to))->names.count;
        }
        step_run(10 + i, i % 2 ? EARLY_DATA : EARLY_WANT);
    }
    assert_int_equal(alloc_seen_count() - seen, 0);
    assert_int_equal(peer_out(world_peer(&world, from, to))->names.count, names);
    keys_release();
    world_close(&world);
}

static void test_two_ranks(void **state)
{
    repeat(0, 1);
}

static void test_one_rank(void **state)
{
    repeat(1, 1);
}

/* Tensors before their receives, of sizes around those of the pools. */
static void test_unexpected_sizes(void **state)
{
    static const size_t sizes[] = {0, 1, 63, 64, 65, 128, 129, 1000, 4095, 4096};
    tryst_op *sends[COUNT_OF(sizes)];
    uint64_t seen = 0;
    world_open(&world, 2, NULL);
    world_join(&world, 0, 1);
    for (uint64_t id = 1; id <= 5; id++) {
        for (int end = 0; end < 2; end++)
            steps[end] = world_step(&world, end, id);
        memset(out, (int)id, sizeof out);
        for (size_t i = 0; i < COUNT_OF(sizes); i++)
            sends[i] = world_send(&world, 0, steps[0], world_key(&world, 0, 1, "e"),
                                  out[0], sizes[i], NULL);
        world_settle(&world);
        for (size_t i = 0; i < COUNT_OF(sizes); i++) {
            tryst_op *recv = world_recv(&world, 1, steps[1], world_key(&world, 0, 1, "e"),
                                        in[0][i], sizes[i], NULL);
            world_settle(&world);
            world_done(recv, TRYST_OK);
            world_done(sends[i], TRYST_OK);
            assert_memory_equal(in[0][i], out[0], sizes[i]);
        }
        for (int end = 0; end < 2; end++)
            assert_int_equal(tryst_step_close(steps[end], NULL), TRYST_OK);
        world_settle(&world);
        seen = id <= 2 ? alloc_seen_count() : seen;
    }
    assert_int_equal(alloc_seen_count() - seen, 0);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_ranks),
        cmocka_unit_test(test_one_rank),
        cmocka_unit_test(test_unexpected_sizes),
    };
    return cmocka_run_group_tests_name("repeat", tests, NULL, NULL);
}
