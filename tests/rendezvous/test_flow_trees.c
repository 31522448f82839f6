/* SPDX-License-Identifier: Apache-2.0 */
/* Trees of flows. Every rank is the root of one tree (a star): it sums its children's
 * slices as they come, and sends the sums back. Several tensors run at once, which the
 * ranks submit in different orders. With few posted slots and little scratch all must
 * complete. If readiness counted per run, not per slice, downward slices that wait for
 * upward ones would fill the slots of both ranks, and the first test would deadlock. */
#include "world.h"

#include <stdlib.h>

#include "rendezvous/protocol/flow.h"

#define SLICE 4096u

enum { RANKS_MAX = 4, TENSORS_MAX = 16, SLICES_MAX = 24, SCRATCH_MAX = 16, SEEDS = 4 };

/* One tensor's share of one tree, at one rank. */
struct piece;
struct edge {
    struct flow flow;
    struct piece *piece;
    uint32_t added; /* root, upward: slices that are in the sum */
    /* root, upward: scratch of slices that are granted and not yet added */
    uint8_t *held[SLICES_MAX];
    bool here[SLICES_MAX]; /* root, upward: which of the held slices have arrived */
    bool ended;
};
struct piece {
    int rank, tree;
    uint32_t ready; /* root: slices summed over all children */
    /* indexed by the other rank at the root, by the tree at a leaf */
    struct edge up[RANKS_MAX], down[RANKS_MAX];
    uint8_t in[SLICES_MAX * SLICE], out[SLICES_MAX * SLICE];
};

struct engine {
    int rank;
    bool marked;
    uint32_t scratch_free;
    uint8_t *scratch[SCRATCH_MAX];
    struct piece *order[RANKS_MAX * TENSORS_MAX]; /* most urgent first */
    int count;
};

static struct {
    int ranks, tensors;
    uint32_t slices, slots, scratch;
} trees;
static struct world world;
static struct engine engines[RANKS_MAX];
/* indexed by rank, tensor, tree */
static struct piece pieces[RANKS_MAX][TENSORS_MAX][RANKS_MAX];
static uint8_t scratch_memory[RANKS_MAX][SCRATCH_MAX][SLICE];
static int ended_count;

/* ---- hooks: they only mark --------------------------------------------------------- */

static struct edge *edge_of(struct flow *flow)
{
    return container_of(flow, struct edge, flow);
}

static void mark(struct flow *flow)
{
    engines[edge_of(flow)->piece->rank].marked = true;
}

/* Return the number of slices of child `c` that a root may add: those that it has added
 * of the child before `c`. */
static uint32_t added_before(const struct piece *piece, int c)
{
    while (--c >= 0)
        if (c != piece->rank)
            return piece->up[c].added;
    return trees.slices;
}

static tryst_status on_place(struct flow *flow, uint32_t index, void **data_p,
                             struct tryst_mem **mem_p)
{
    struct edge *edge = edge_of(flow);
    struct piece *piece = edge->piece;
    struct engine *engine = &engines[piece->rank];
    if (!engine->scratch_free || index >= added_before(piece, (int)(edge - piece->up)))
        return TRYST_AGAIN;
    edge->held[index] = engine->scratch[--engine->scratch_free];
    *data_p = edge->held[index];
    return TRYST_OK;
}

static void on_arrived(struct flow *flow, uint32_t index)
{
    edge_of(flow)->here[index] = true;
    mark(flow);
}

static void on_take(struct flow *flow, const void *payload, size_t bytes)
{
    struct edge *edge = edge_of(flow);
    struct engine *engine = &engines[edge->piece->rank];
    uint8_t *to = edge->piece->out;
    if (edge->piece->rank == edge->piece->tree) {
        assert_true(engine->scratch_free > 0);
        to = edge->held[0] = engine->scratch[--engine->scratch_free];
        edge->here[0] = true;
    }
    memcpy(to, payload, bytes);
    mark(flow);
}

static void on_ended(struct flow *flow, struct cause cause, const char *text)
{
    assert_int_equal(cause.status, TRYST_OK);
    assert_false(edge_of(flow)->ended);
    edge_of(flow)->ended = true;
    ended_count++;
}

static const struct flow_ops up_ops = {
    .place = on_place, .arrived = on_arrived, .take = on_take, .ended = on_ended};
static const struct flow_ops other_ops = {
    .arrived = on_arrived, .take = on_take, .ended = on_ended};

/* ---- the engine -------------------------------------------------------------------- */

/* Add the slices of child `c` that may be added. Return true if there were any. */
static bool child_add(struct engine *engine, struct piece *piece, int c)
{
    struct edge *edge = &piece->up[c];
    bool first = c == (piece->rank == 0);
    uint32_t before = edge->added;
    while (edge->added < added_before(piece, c) && edge->here[edge->added]) {
        size_t at = (size_t)edge->added * SLICE;
        const uint8_t *own = first ? piece->in : piece->out;
        for (size_t i = 0; i < SLICE; i++)
            piece->out[at + i] = (uint8_t)(own[at + i] + edge->held[edge->added][i]);
        engine->scratch[engine->scratch_free++] = edge->held[edge->added++];
    }
    return edge->added != before;
}

static bool root_run(struct engine *engine, struct piece *piece)
{
    int last = trees.ranks - 1 - (piece->rank == trees.ranks - 1);
    bool moved = false;
    for (int c = 0; c < trees.ranks; c++)
        moved |= c != piece->rank && child_add(engine, piece, c);
    if (piece->up[last].added == piece->ready)
        return moved;
    piece->ready = piece->up[last].added;
    for (int c = 0; c < trees.ranks; c++)
        if (c != piece->rank)
            flow_ready(&piece->down[c].flow, piece->ready);
    return moved;
}

static int engine_run(void *arg, uint64_t copied_bytes)
{
    struct engine *engine = arg;
    bool moved = engine->marked;
    if (!moved)
        return 0;
    engine->marked = false;
    for (int i = 0; i < engine->count; i++)
        if (engine->order[i]->tree == engine->rank)
            moved |= root_run(engine, engine->order[i]);
    for (int i = 0; i < engine->count && engine->scratch_free; i++)
        for (int c = 0; c < trees.ranks && engine->order[i]->tree == engine->rank; c++)
            if (c != engine->rank)
                flow_place_again(&engine->order[i]->up[c].flow);
    return 1;
}

/* ---- setting ----------------------------------------------------------------------- */

static void start(struct piece *piece, int tensor, bool up, int other, uint64_t number,
                  size_t bytes)
{
    bool root = piece->rank == piece->tree;
    bool send = root != up;
    struct side *side = &world.sides[piece->rank];
    struct edge *edge = up ? &piece->up[other] : &piece->down[other];
    char name[32];
    tryst_key *key;
    tryst_tensor memory = {.dtype = TRYST_DTYPE_U8,
                           .count = bytes,
                           .data = root || !up ? piece->out : piece->in};
    snprintf(name, sizeof name, "t%d.%d.%c", tensor, piece->tree, up ? 'u' : 'd');
    assert_int_equal(tryst_key_prepare(&side->group,
                                       world_key(&world, send ? piece->rank : other,
                                                 send ? other : piece->rank, name),
                                       &key),
                     TRYST_OK);
    const struct flow_params params = {
        .scope = scope_find(&side->rdv->scopes, 1),
        .step_id = 1,
        .key = key,
        .urgency = {urgency_sort_key(URGENCY_TRAINING, 0), 1, number},
        .tensor = &memory};
    *edge = (struct edge){.piece = piece, .flow = {.slice_bytes = SLICE}};
    edge->flow.ops = up && root ? &up_ops : &other_ops;
    edge->flow.ready = up && !root ? trees.slices : 0;
    assert_int_equal(send ? flow_send(side->rdv, &edge->flow, &params)
                          : flow_recv(side->rdv, &edge->flow, &params),
                     TRYST_OK);
    tryst_key_release(key);
}

/* Submit a tensor at one rank, in all trees. */
static void submit(int rank, int tensor, size_t bytes)
{
    struct engine *engine = &engines[rank];
    for (int tree = 0; tree < trees.ranks; tree++) {
        struct piece *piece = &pieces[rank][tensor][tree];
        uint64_t number = (uint64_t)engine->count;
        piece->rank = rank;
        piece->tree = tree;
        piece->ready = 0;
        for (size_t i = 0; i < sizeof piece->in; i++)
            piece->in[i] =
                (uint8_t)(i * 3 + i / SLICE + (size_t)(rank * 50 + tensor + tree));
        engine->order[engine->count++] = piece;
        for (int other = 0; other < trees.ranks; other++)
            for (int up = 1; up >= 0; up--)
                if (other != rank && (tree == rank || other == tree))
                    start(piece, tensor, up, other, number, bytes);
    }
}

static void begin(void)
{
    tryst_step *steps[RANKS_MAX];
    world_open(&world, trees.ranks, NULL);
    memset(engines, 0, sizeof engines);
    ended_count = 0;
    for (int i = 0; i < trees.ranks; i++) {
        struct engine *engine = &engines[i];
        struct side *side = &world.sides[i];
        for (int other = 0; other < i; other++)
            world_join(&world, other, i);
        steps[i] = world_step(&world, i, 1);
        engine->rank = i;
        engine->scratch_free = trees.scratch;
        for (uint32_t n = 0; n < trees.scratch; n++)
            engine->scratch[n] = scratch_memory[i][n];
        side->rail.base.posted_max = trees.slots;
        side->window_bytes = 3 * SLICE;
        side->rdv->coll_calls = (struct coll_calls){.arg = engine, .run = engine_run};
    }
    world_settle(&world);
    (void)steps; /* the steps are closed with their group */
}

static void check(size_t bytes)
{
    int edges = trees.tensors * trees.ranks * (trees.ranks - 1) * 4;
    if (ended_count != edges)
        fail_msg(
            "deadlock: %d of %d flows have ended (%d ranks, %d tensors of %u slices, "
            "%u slots, %u slices of scratch)",
            ended_count, edges, trees.ranks, trees.tensors, trees.slices, trees.slots,
            trees.scratch);
    for (int rank = 0; rank < trees.ranks; rank++)
        for (int tensor = 0; tensor < trees.tensors; tensor++)
            for (int tree = 0; tree < trees.ranks; tree++)
                for (size_t i = 0; i < bytes; i++) {
                    uint8_t sum = 0;
                    for (int k = 0; k < trees.ranks; k++)
                        sum = (uint8_t)(sum + pieces[k][tensor][tree].in[i]);
                    if (pieces[rank][tensor][tree].out[i] != sum)
                        fail_msg("rank %d, tensor %d, tree %d, byte %zu", rank, tensor,
                                 tree, i);
                }
    for (int i = 0; i < trees.ranks; i++)
        assert_int_equal(engines[i].scratch_free, trees.scratch);
}

static void end(size_t bytes)
{
    for (int i = 0; i < 4; i++)
        world_advance(&world, TICK_NS);
    check(bytes);
    world_close(&world);
}

/* ---- tests ------------------------------------------------------------------------- */

/* Two ranks, each the root of a tree, run four and sixteen tensors in opposite orders.
 * Frames and bulk are delayed independently. The seeds are fixed: with them, counting
 * readiness per run deadlocks. */
static void test_opposite_orders(void **state)
{
    static const int tensors[] = {4, 16};
    static const uint32_t slots[] = {1, 2, 4, 8};
    for (unsigned i = 0; i < 8 * SEEDS; i++) {
        struct random random;
        random_seed(&random, i);
        trees.ranks = 2;
        trees.tensors = tensors[i % 2];
        trees.slices = SLICES_MAX;
        trees.slots = slots[i / 2 % 4];
        trees.scratch = i / 8 % 2 ? 4 : 1;
        begin();
        for (int n = 0; n < trees.tensors; n++) {
            submit(0, n, SLICES_MAX * SLICE);
            submit(1, trees.tensors - 1 - n, SLICES_MAX * SLICE);
        }
        for (int turn = 0; turn < 300; turn++) {
            struct side *side = &world.sides[random_range(&random, 2)];
            side->hold_frames = random_range(&random, 2);
            side->hold_bulk = random_range(&random, 2);
            world_pass(&world);
        }
        for (int rank = 0; rank < 2; rank++)
            world.sides[rank].hold_frames = world.sides[rank].hold_bulk = false;
        end(SLICES_MAX * SLICE);
    }
}

static void shuffle(struct random *random, int *order, int count)
{
    for (int i = 0; i < count; i++)
        order[i] = i;
    for (int i = count - 1; i > 0; i--) {
        int other = (int)random_range(random, (uint64_t)i + 1), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

/* Orders, slots, scratch and the network at random. One slice of scratch must be
 * enough. */
static void random_round(struct random *random)
{
    int orders[RANKS_MAX][TENSORS_MAX], next[RANKS_MAX] = {0};
    bool small = random_range(random, 6) == 0;
    trees.ranks = 2 + (int)random_range(random, RANKS_MAX - 1);
    trees.tensors = 1 + (int)random_range(random, TENSORS_MAX);
    trees.slices = small ? 1 : 2 + (uint32_t)random_range(random, SLICES_MAX - 1);
    trees.slots = 1 + (uint32_t)random_range(random, 12);
    trees.scratch = small ? SCRATCH_MAX : 1 + (uint32_t)random_range(random, 4);
    if (small)
        trees.tensors = 1 + (int)random_range(random, SCRATCH_MAX / (RANKS_MAX - 1));
    size_t bytes = small ? random_range(random, 100) : trees.slices * SLICE;
    begin();
    for (int i = 0; i < trees.ranks; i++)
        shuffle(random, orders[i], trees.tensors);
    for (int turns = 0; turns < 60 || turns < 40 * trees.tensors; turns++) {
        int rank = (int)random_range(random, (uint64_t)trees.ranks);
        struct side *side = &world.sides[rank];
        side->hold_frames = random_range(random, 2);
        side->hold_bulk = random_range(random, 2);
        side->bulk_backwards = random_range(random, 2);
        side->still = random_range(random, 4) == 0;
        if (random_range(random, 3) == 0 && next[rank] < trees.tensors)
            submit(rank, orders[rank][next[rank]++], bytes);
        world_pass(&world);
    }
    for (int i = 0; i < trees.ranks; i++) {
        world.sides[i].hold_frames = world.sides[i].hold_bulk = world.sides[i].still =
            false;
        while (next[i] < trees.tensors)
            submit(i, orders[i][next[i]++], bytes);
    }
    end(bytes);
}

static void test_random(void **state)
{
    const char *text = getenv("TRYST_TEST_COUNT");
    int rounds = text ? atoi(text) : 40;
    struct random random;
    random_seed(&random, unit_seed());
    for (int i = 0; i < rounds; i++)
        random_round(&random);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opposite_orders),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
