/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of collectives' edges. Ends with different shapes, or of which only one has a
 * shape, must end with TRYST_E_MISMATCH and texts that name both ranks and both shapes,
 * whichever end comes first and however the bytes travel. The next number of the key must
 * meet as usual. */
#include "world.h"

#include "rendezvous/protocol/outcome/shape.h"

enum { SMALL = 64, LARGE = 20000 };

static const struct flow_shape sum = {
    .count = 5001, .root = -1, .operation = 1, .dtype = TRYST_DTYPE_F32, .op = 2};
static const struct flow_shape shorter = {
    .count = 4001, .root = -1, .operation = 1, .dtype = TRYST_DTYPE_F32, .op = 2};
static const struct flow_shape other_op = {
    .count = 5001, .root = -1, .operation = 1, .dtype = TRYST_DTYPE_F32, .op = 3};
static const struct flow_shape rooted = {
    .count = 5001, .root = 1, .operation = 1, .dtype = TRYST_DTYPE_F32, .op = 2};

#define SUM   "collective 1 (op 2) of 5001 x f32, root -1"
#define PLAIN " x u8"

static const struct {
    const struct flow_shape *send, *recv;
    /* part of the shape in the error, by end: send, receive; NULL: the ends match */
    const char *says[2];
} rows[] = {
    {&sum, &sum, {NULL, NULL}},
    {NULL, NULL, {NULL, NULL}},
    {&sum, &shorter, {SUM, "of 4001 x f32"}},
    {&other_op, &sum, {"(op 3)", SUM}},
    {&rooted, &sum, {"root 1", SUM}},
    {&sum, NULL, {SUM, PLAIN}},
    {NULL, &sum, {PLAIN, SUM}},
};

static struct world world;
static tryst_step *steps[2];
static uint8_t out[2 * LARGE], in[2 * LARGE];

/* Give an operation its shape, as the layer that makes flows does. */
static tryst_op *with_shape(tryst_op *op, const struct flow_shape *shape)
{
    op->shaped = shape; /* in time: the next pass submits the operation */
    if (shape)
        op->shape = *shape;
    return op;
}

static tryst_op *send_one(size_t bytes, const struct flow_shape *shape)
{
    const char *key = world_key(&world, 0, 1, "e");
    return with_shape(world_send(&world, 0, steps[0], key, out, bytes, NULL), shape);
}

static tryst_op *recv_one(size_t bytes, const struct flow_shape *shape)
{
    const char *key = world_key(&world, 0, 1, "e");
    return with_shape(world_recv(&world, 1, steps[1], key, in, bytes, NULL), shape);
}

/* Either end comes first, or a small receive whose WANT crosses the DATA. */
enum order { SEND_FIRST, RECV_FIRST, RECV_ANNOUNCED, ORDERS };

static void meet(enum order order, size_t send_bytes, size_t recv_bytes, size_t row,
                 tryst_op *ops[2])
{
    if (order != SEND_FIRST) {
        ops[1] = recv_one(recv_bytes, rows[row].recv);
        world_pass(&world);
        if (order == RECV_ANNOUNCED)
            world_settle(&world);
    }
    ops[0] = send_one(send_bytes, rows[row].send);
    world_settle(&world);
    if (order == SEND_FIRST) {
        ops[1] = recv_one(recv_bytes, rows[row].recv);
        world_settle(&world);
    }
    world_advance(&world, NS_PER_S);
}

static void check_text(tryst_op *op, size_t row)
{
    tryst_error error = {.struct_size = sizeof error};
    assert_int_equal(tryst_op_error(op, &error), TRYST_E_MISMATCH);
    const char *const parts[] = {"rank 0 has ", "rank 1 has ", rows[row].says[0],
                                 rows[row].says[1]};
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        if (!strstr(error.text, parts[i]))
            fail_msg("row %zu: no \"%s\" in: %s", row, parts[i], error.text);
    assert_true(strstr(error.text, parts[2]) < strstr(error.text, parts[1]) ||
                strstr(error.text, parts[3]) < strstr(error.text, parts[0]));
}

static void try_row(size_t row, enum order order, size_t send_bytes, size_t recv_bytes)
{
    tryst_op *ops[2];
    memset(in, 0, sizeof in);
    meet(order, send_bytes, recv_bytes, row, ops);
    for (int end = 0; end < 2; end++) {
        if (rows[row].says[0])
            check_text(ops[end], row);
        world_done(ops[end], rows[row].says[0] ? TRYST_E_MISMATCH : TRYST_OK);
    }
    assert_int_equal(memcmp(in, out, recv_bytes) == 0, !rows[row].says[0]);
}

static void test_rows(void **state)
{
    static const size_t sizes[][2] = {
        {SMALL, SMALL}, {LARGE, LARGE}, {SMALL, LARGE}, {LARGE, SMALL}};
    memset(out, 7, sizeof out);
    world_open(&world, 2, NULL);
    world_join(&world, 0, 1);
    for (int i = 0; i < 2; i++)
        steps[i] = world_step(&world, i, 1);
    for (int order = 0; order < ORDERS; order++)
        for (size_t row = 0; row < COUNT_OF(rows); row++)
            for (size_t size = 0; size < COUNT_OF(sizes); size++) {
                if (!rows[row].says[0] && size >= 2)
                    continue;
                try_row(row, (enum order)order, sizes[size][0], sizes[size][1]);
                try_row(0, SEND_FIRST, SMALL, SMALL); /* the key can still be used */
                try_row(1, RECV_FIRST, SMALL, SMALL);
                try_row(0, RECV_FIRST, LARGE, LARGE);
            }
    for (int i = 0; i < 2; i++)
        assert_int_equal(tryst_step_close(steps[i], NULL), TRYST_OK);
    world_close(&world);
}

/* The text at the sender has the whole count of a receive of more than 4 GiB. */
static void test_large_count(void **state)
{
    tryst_error error = {.struct_size = sizeof error};
    world_open(&world, 2, NULL);
    world_join(&world, 0, 1);
    for (int i = 0; i < 2; i++)
        steps[i] = world_step(&world, i, 1);
    tryst_op *send = send_one(SMALL, NULL);
    world_settle(&world);
    tryst_op *recv = recv_one((1ul << 32) + SMALL, NULL);
    world_settle(&world);
    world_advance(&world, NS_PER_S);
    assert_int_equal(tryst_op_error(send, &error), TRYST_E_MISMATCH);
    if (!strstr(error.text, "the receive has 4294967360 x u8, the send 64 x u8"))
        fail_msg("%s", error.text);
    world_done(send, TRYST_E_MISMATCH);
    world_done(recv, TRYST_E_MISMATCH);
    for (int i = 0; i < 2; i++)
        assert_int_equal(tryst_step_close(steps[i], NULL), TRYST_OK);
    world_close(&world);
}

static tryst_status alloc_any(void *arg, tryst_tensor *tensor)
{
    tensor->data = in;
    return TRYST_OK;
}

/* A receive that takes any shape of an ordinary send must not take a collective's. */
static void test_alloc(void **state)
{
    static const size_t sizes[] = {SMALL, LARGE};
    world_open(&world, 2, NULL);
    world_join(&world, 0, 1);
    for (int i = 0; i < 2; i++)
        steps[i] = world_step(&world, i, 1);
    for (int try = 0; try < 4; try++) {
        const tryst_op_params params = {.struct_size = sizeof params, .alloc = alloc_any};
        const char *key = world_key(&world, 0, 1, "e");
        tryst_op *send = NULL, *recv;
        if (try % 2)
            send = send_one(sizes[try / 2], &sum);
        world_settle(&world);
        recv = world_recv(&world, 1, steps[1], key, NULL, 0, &params);
        world_settle(&world);
        if (!send)
            send = send_one(sizes[try / 2], &sum);
        world_settle(&world);
        world_advance(&world, NS_PER_S);
        world_done(send, TRYST_E_MISMATCH);
        world_done(recv, TRYST_E_MISMATCH);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(tryst_step_close(steps[i], NULL), TRYST_OK);
    world_close(&world);
}

/* A key with a shape keeps its name from step to step as long as the shape stays. */
static void test_names(void **state)
{
    static const struct flow_shape *const uses[] = {&sum, &sum, &shorter, &shorter,
                                                    NULL, NULL, &sum};
    static const uint64_t names[] = {1, 1, 2, 2, 3, 3, 4};
    world_open(&world, 2, NULL);
    world_join(&world, 0, 1);
    for (size_t i = 0; i < COUNT_OF(uses); i++) {
        for (int end = 0; end < 2; end++)
            steps[end] = world_step(&world, end, 1 + i);
        world_settle(&world);
        for (int n = 0; n < 2; n++) {
            tryst_op *send = send_one(SMALL, uses[i]);
            world_settle(&world);
            tryst_op *recv = recv_one(SMALL, uses[i]);
            world_settle(&world);
            world_done(send, TRYST_OK);
            world_done(recv, TRYST_OK);
        }
        assert_int_equal(peer_out(world_peer(&world, 0, 1))->names.count, names[i]);
        for (int end = 0; end < 2; end++)
            assert_int_equal(tryst_step_close(steps[end], NULL), TRYST_OK);
        world_settle(&world);
    }
    world_close(&world);
}

/* Steps with ids that differ in the upper half, and numbers beyond 32 bits, must not be
 * confused. */
static void test_halves(void **state)
{
    static const uint64_t ids[] = {
        1, UINT32_MAX, 1ull << 32, (1ull << 32) + 1, 7ull << 40, (7ull << 40) + 1};
    static const uint64_t names[] = {1, 1, 2, 2, 3, 3};
    world_open(&world, 2, NULL);
    world_join(&world, 0, 1);
    for (size_t i = 0; i < COUNT_OF(ids); i++) {
        for (int end = 0; end < 2; end++)
            steps[end] = world_step(&world, end, ids[i]);
        world_settle(&world);
        for (uint64_t n = 0; n < 2; n++) {
            memset(out, (int)(10 * i + n + 1), SMALL);
            tryst_op *send = send_one(SMALL, NULL);
            world_pass(&world);
            tryst_op *recv = recv_one(SMALL, NULL);
            world_settle(&world);
            world_done(send, TRYST_OK);
            world_done(recv, TRYST_OK);
            assert_memory_equal(in, out, SMALL);
        }
        assert_int_equal(peer_out(world_peer(&world, 0, 1))->names.count, names[i]);
        for (int end = 0; end < 2; end++)
            assert_int_equal(tryst_step_close(steps[end], NULL), TRYST_OK);
        world_settle(&world);
    }
    world_close(&world);
}

/* Numbers pass 2^32 within a step: the key is declared anew, once. */
static void test_numbers(void **state)
{
    world_open(&world, 2, NULL);
    world_join(&world, 0, 1);
    for (int end = 0; end < 2; end++)
        steps[end] = world_step(&world, end, 1);
    world_settle(&world);
    for (uint64_t n = 0; n < 8; n++) {
        memset(out, (int)n + 1, SMALL);
        tryst_op *ops[2] = {send_one(SMALL, NULL), NULL};
        world_pass(&world);
        ops[1] = recv_one(SMALL, NULL);
        world_settle(&world);
        if (n == 0) {
            const tryst_key *key = ops[0]->key;
            for (int end = 0; end < 2; end++) {
                struct scope *scope = scope_find(&world.sides[end].rdv->scopes, 1);
                struct entry *entry = entry_known(scope, key);
                entry->send_next = entry->recv_next = UINT32_MAX - 2;
            }
        }
        for (int end = 0; end < 2; end++)
            world_done(ops[end], TRYST_OK);
        assert_memory_equal(in, out, SMALL);
    }
    assert_int_equal(peer_out(world_peer(&world, 0, 1))->names.count, 2);
    for (int end = 0; end < 2; end++)
        assert_int_equal(tryst_step_close(steps[end], NULL), TRYST_OK);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),    cmocka_unit_test(test_alloc),
        cmocka_unit_test(test_names),   cmocka_unit_test(test_halves),
        cmocka_unit_test(test_numbers), cmocka_unit_test(test_large_count),
    };
    return cmocka_run_group_tests_name("shapes", tests, NULL, NULL);
}
