/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of blocks through the public API: their results, the calls that are
 * refused, and the failure of one rank, which ends the collective on all ranks that
 * depend on it. Random plans and blocks: tests/collectives/test_blocks.c. */
#include "twins.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/coll.h>
#include <unistd.h>

#include "support/unit.h"

enum { RANKS = 5, LARGE = 300001, MISSING = 3, VICTIM = 4, KINDS = 5 };
#define NS_PER_MS UINT64_C(1000000)

static uint64_t seed; /* draws the memory of tensors */

static void run_ranks(void (*main)(struct harness_rank *rank), int killed)
{
    _Atomic(uint32_t) *counter = harness_share(sizeof *counter);
    struct harness_params params = {.size = RANKS,
                                    .main = main,
                                    .opened = twins_open,
                                    .closing = twins_close,
                                    .arg = counter,
                                    .timeout_s = 60,
                                    .killed = killed};
    int failed = harness_run(&params);
    harness_unshare(counter, sizeof *counter);
    assert_int_equal(failed, 0);
}

static tryst_tensor tensor_of(void *data, uint64_t count)
{
    return (tryst_tensor){.struct_size = sizeof(tryst_tensor),
                          .data = data,
                          .count = count,
                          .dtype = TRYST_DTYPE_I64};
}

/* Memory for the blocks of all ranks; with TRYST_TEST_DEVICE on a device, or late. */
struct memory {
    int64_t *in, *out;
    struct twin in_twin, out_twin;
};

static struct memory memory_open(const struct harness_rank *rank, uint64_t count)
{
    static _Thread_local uint64_t random; /* a rank is a thread or a process */
    size_t bytes = RANKS * count * sizeof(int64_t);
    struct memory memory = {.in = calloc(1, bytes + 1), .out = calloc(1, bytes + 1)};
    CHECK(memory.in && memory.out);
    if (!random)
        random = seed * 64 + (uint64_t)rank->rank + 1;
    twin_open(&memory.in_twin, rank, memory.in, bytes, &random);
    twin_open(&memory.out_twin, rank, memory.out, bytes, &random);
    return memory;
}

static void memory_close(struct memory *memory)
{
    twin_close(&memory->in_twin);
    twin_close(&memory->out_twin);
    free(memory->in);
    free(memory->out);
}

static void memory_begin(struct memory *memory, tryst_tensor *in, tryst_tensor *out)
{
    twin_begin(&memory->in_twin, in->count * sizeof(int64_t));
    twin_begin(&memory->out_twin, out->count * sizeof(int64_t));
    twin_tensor(&memory->in_twin, false, in);
    twin_tensor(&memory->out_twin, false, out);
}

static void memory_pull(struct memory *memory)
{
    twin_pull(&memory->in_twin);
    twin_pull(&memory->out_twin);
}

/* Start collective `kind` with blocks of `count`, rooted at 0. */
static tryst_status start(tryst_step *step, const char *name, int kind,
                          struct memory *memory, uint64_t count,
                          const tryst_op_params *params, tryst_op **op_p)
{
    tryst_coll_kind of = (tryst_coll_kind)(TRYST_COLL_ALLGATHER + kind);
    bool in_one = of == TRYST_COLL_ALLGATHER || of == TRYST_COLL_GATHER;
    bool out_one = of == TRYST_COLL_REDUCE_SCATTER || of == TRYST_COLL_SCATTER;
    tryst_tensor in = tensor_of(memory->in, in_one ? count : RANKS * count);
    tryst_tensor out = tensor_of(memory->out, out_one ? count : RANKS * count);
    memory_begin(memory, &in, &out);
    switch (of) {
    case TRYST_COLL_ALLGATHER:
        return tryst_allgather(step, name, &in, &out, params, op_p);
    case TRYST_COLL_REDUCE_SCATTER:
        return tryst_reduce_scatter(step, name, &in, &out, TRYST_REDUCE_SUM, params,
                                    op_p);
    case TRYST_COLL_ALLTOALL: return tryst_alltoall(step, name, &in, &out, params, op_p);
    case TRYST_COLL_GATHER: return tryst_gather(step, name, &in, &out, 0, params, op_p);
    default: return tryst_scatter(step, name, &in, &out, 0, params, op_p);
    }
}

static tryst_op *started(tryst_step *step, const char *name, int kind,
                         struct memory *memory, uint64_t count,
                         const tryst_op_params *params)
{
    tryst_op *op;
    if (start(step, name, kind, memory, count, params, &op) != TRYST_OK)
        harness_fail(__FILE__, __LINE__, "%s", tryst_last_error());
    return op;
}

/* ---- results ----------------------------------------------------------------------- */

static int64_t element(int from, int to, uint64_t index)
{
    return from * INT64_C(1000000007) + to * INT64_C(100003) + (int64_t)index;
}

static void in_fill(struct memory *memory, int rank, uint64_t count)
{
    for (int to = 0; to < RANKS; to++)
        for (uint64_t i = 0; i < count; i++)
            memory->in[(uint64_t)to * count + i] = element(rank, to, i);
    memset(memory->out, 0x5a, RANKS * count * sizeof *memory->out);
}

/* Return element i of block b of the result at `rank`. */
static int64_t expected(int kind, int rank, int block, uint64_t i)
{
    switch (TRYST_COLL_ALLGATHER + kind) {
    case TRYST_COLL_REDUCE_SCATTER:
        return RANKS * (RANKS - 1) / 2 * INT64_C(1000000007) +
               RANKS * (rank * INT64_C(100003) + (int64_t)i);
    case TRYST_COLL_ALLTOALL: return element(block, rank, i);
    case TRYST_COLL_SCATTER: return element(0, rank, i);
    default: return element(block, 0, i);
    }
}

static void yield_check(const struct memory *memory, int kind, int rank, uint64_t count)
{
    tryst_coll_kind of = (tryst_coll_kind)(TRYST_COLL_ALLGATHER + kind);
    bool one = of == TRYST_COLL_REDUCE_SCATTER || of == TRYST_COLL_SCATTER;
    for (int b = 0; b < (one ? 1 : RANKS); b++)
        for (uint64_t i = 0; i < count; i++)
            if (of != TRYST_COLL_GATHER || rank == 0)
                CHECK_EQ(memory->out[(uint64_t)b * count + i],
                         expected(kind, rank, b, i));
}

static void yield_main(struct harness_rank *rank)
{
    static const uint64_t counts[] = {0, 1, 7, 1001, LARGE};
    for (unsigned c = 0; c < COUNT_OF(counts); c++) {
        tryst_step *step = harness_step(rank, c + 1);
        for (int kind = 0; kind < KINDS; kind++) {
            struct memory memory = memory_open(rank, counts[c]);
            in_fill(&memory, rank->rank, counts[c]);
            harness_end(started(step, "x", kind, &memory, counts[c], NULL), TRYST_OK);
            memory_pull(&memory);
            yield_check(&memory, kind, rank->rank, counts[c]);
            memory_close(&memory);
        }
        harness_step_close(step);
    }
}

static void test_results(void **state)
{
    run_ranks(yield_main, HARNESS_NO_RANK);
}

/* Use floats that round: the block of a small reduce-scatter is equal bit by bit to that
 * part of the all-reduce, and each repetition has the bits of the first. */
static void bits_main(struct harness_rank *rank)
{
    enum { SMALL = 500, MUCH = 50000 };
    float *in = malloc(RANKS * MUCH * sizeof *in),
          *all = malloc(RANKS * MUCH * sizeof *all);
    float *outs[2] = {malloc(MUCH * sizeof(float)), malloc(MUCH * sizeof(float))};
    tryst_step *step = harness_step(rank, 1);
    for (int i = 0; i < RANKS * MUCH; i++)
        in[i] = (float)((i * 7919 + rank->rank * 104729) % 100003) / 977.0f;
    for (int much = 0; much < 2; much++) {
        uint64_t count = much ? MUCH : SMALL;
        tryst_tensor from = tensor_of(in, RANKS * count),
                     to = tensor_of(all, RANKS * count);
        tryst_op *op;
        from.dtype = to.dtype = TRYST_DTYPE_F32;
        CHECK_STATUS(tryst_allreduce(step, "a", &from, &to, TRYST_REDUCE_SUM, NULL, &op),
                     TRYST_OK);
        harness_end(op, TRYST_OK);
        for (int i = 0; i < 2; i++) {
            to = tensor_of(outs[i], count);
            to.dtype = TRYST_DTYPE_F32;
            CHECK_STATUS(
                tryst_reduce_scatter(step, "r", &from, &to, TRYST_REDUCE_SUM, NULL, &op),
                TRYST_OK);
            harness_end(op, TRYST_OK);
        }
        CHECK(memcmp(outs[0], outs[1], count * sizeof(float)) == 0);
        const float *block = all + (uint64_t)rank->rank * count;
        CHECK(much || memcmp(outs[0], block, count * sizeof(float)) == 0);
    }
    harness_step_close(step);
    free(in);
    free(all);
    free(outs[0]);
    free(outs[1]);
}

static void test_bits(void **state)
{
    run_ranks(bits_main, HARNESS_NO_RANK);
}

/* Three calls with one name and the same counts differ in their offsets. An empty block
 * may be outside of the tensor or inside of another block. */
static void offsets_main(struct harness_rank *rank)
{
    static const uint64_t counts[RANKS] = {2, 2, 0, 2, 2};
    static const uint64_t offsets[][RANKS] = {
        {8, 6, 100, 2, 0}, {8, 6, 3, 2, 0}, {0, 2, 4, 4, 6}};
    int64_t own[2] = {rank->rank, -rank->rank}, all[2 * RANKS];
    tryst_tensor in = tensor_of(own, counts[rank->rank]);
    tryst_tensor out = tensor_of(all, 2 * RANKS);
    tryst_step *step = harness_step(rank, 1);
    for (unsigned i = 0; i < COUNT_OF(offsets); i++) {
        bool dense = i + 1 == COUNT_OF(offsets);
        tryst_op *op;
        memset(all, 0x5a, sizeof all);
        CHECK_STATUS(tryst_allgatherv(step, "x", &in, &out, counts,
                                      dense ? NULL : offsets[i], NULL, &op),
                     TRYST_OK);
        harness_end(op, TRYST_OK);
        for (int r = 0; r < RANKS; r++)
            for (uint64_t j = 0; j < counts[r]; j++)
                CHECK_EQ(all[offsets[i][r] + j], j ? -r : r);
    }
    harness_step_close(step);
}

static void test_offsets(void **state)
{
    run_ranks(offsets_main, HARNESS_NO_RANK);
}

/* ---- refused calls ----------------------------------------------------------------- */

static void refuse_check(tryst_status got, const char *word)
{
    CHECK_EQ(got, TRYST_E_INVALID);
    if (!strstr(tryst_last_error(), word))
        harness_fail(__FILE__, __LINE__, "\"%s\" does not contain \"%s\"",
                     tryst_last_error(), word);
}

static void blocks_refuse(tryst_step *step, const tryst_tensor *one,
                          const tryst_tensor *all)
{
    static const uint64_t counts[RANKS] = {2, 2, 2, 2, 2};
    static const uint64_t own[RANKS] = {3, 3, 3, 3, 3};
    static const uint64_t crossed[RANKS] = {0, 1, 4, 6, 8};
    static const uint64_t huge[RANKS] = {2, UINT64_MAX, 2, 2, 2};
    refuse_check(tryst_allgatherv(step, "x", one, all, NULL, NULL, NULL, NULL),
                 "out_counts");
    refuse_check(tryst_allgatherv(step, "x", one, all, counts, crossed, NULL, NULL),
                 "overlap");
    refuse_check(tryst_allgatherv(step, "x", one, all, huge, NULL, NULL, NULL), "beyond");
    refuse_check(tryst_allgatherv(step, "x", one, all, own, NULL, NULL, NULL), "has 3");
    refuse_check(
        tryst_alltoallv(step, "x", all, counts, NULL, all, NULL, NULL, NULL, NULL),
        "out_counts");
    refuse_check(
        tryst_alltoallv(step, "x", all, counts, NULL, all, own, NULL, NULL, NULL),
        "own block");
    refuse_check(
        tryst_alltoallv(step, "x", all, own, NULL, all, counts, NULL, NULL, NULL),
        "own block");
    /* the bytes of one block fit 63 bits, and those of all blocks do not */
    tryst_tensor most = *one;
    most.count = UINT64_MAX / 2 / 16;
    refuse_check(tryst_allgather(step, "x", &most, all, NULL, NULL), "beyond");
}

static void refuse_main(struct harness_rank *rank)
{
    int64_t data[2 * RANKS], others[2 * RANKS];
    tryst_step *step = harness_step(rank, 1);
    tryst_tensor one = tensor_of(others, 2), all = tensor_of(data, 2 * RANKS);
    tryst_tensor odd = tensor_of(data, 2 * RANKS - 1);
    tryst_tensor wrong = tensor_of(data + 2 * ((rank->rank + 1) % RANKS), 2);
    tryst_reduce_op sum = TRYST_REDUCE_SUM;
    refuse_check(tryst_allgather(step, "x", &one, &odd, NULL, NULL), "elements");
    refuse_check(tryst_allgather(step, "x", NULL, &odd, NULL, NULL), "elements");
    refuse_check(tryst_allgather(step, "x", &one, NULL, NULL, NULL), "NULL");
    refuse_check(tryst_allgather(step, "x", &wrong, &all, NULL, NULL), "overlap");
    refuse_check(tryst_reduce_scatter(step, "x", NULL, &one, sum, NULL, NULL), "NULL");
    refuse_check(tryst_reduce_scatter(step, "x", &all, &wrong, sum, NULL, NULL),
                 "overlap");
    refuse_check(tryst_alltoall(step, "x", &all, &all, NULL, NULL), "overlap");
    refuse_check(tryst_gather(step, "x", &one, &all, RANKS, NULL, NULL), "root");
    refuse_check(tryst_gather(step, "x", rank->rank ? NULL : &one, NULL, 0, NULL, NULL),
                 "NULL");
    refuse_check(tryst_scatter(step, "x", NULL, rank->rank ? NULL : &one, 0, NULL, NULL),
                 "NULL");
    refuse_check(tryst_scatter(NULL, "x", &all, &one, 0, NULL, NULL), "step");
    blocks_refuse(step, &one, &all);
    harness_step_close(step);
}

static void test_refusals(void **state)
{
    run_ranks(refuse_main, HARNESS_NO_RANK);
}

/* ---- failures: each kind ----------------------------------------------------------- */

/* True if every rank's part depends on each other rank's. */
static bool involves_all(int kind)
{
    return TRYST_COLL_ALLGATHER + kind <= TRYST_COLL_ALLTOALL;
}

/* One rank has another count. In a tree or an all-to-all, all ranks fail; in a gather or
 * a scatter, that rank and the root fail. */
static void mismatch_main(struct harness_rank *rank)
{
    static const uint64_t pairs[][2] = {{LARGE, LARGE - 1}, {LARGE, 3}, {7, 8}, {0, 5}};
    struct memory memory = memory_open(rank, LARGE);
    for (unsigned i = 0; i < COUNT_OF(pairs) * KINDS; i++) {
        tryst_step *step = harness_step(rank, i + 1);
        int kind = (int)i % KINDS;
        tryst_error error;
        tryst_op *op =
            started(step, "x", kind, &memory, pairs[i / KINDS][rank->rank == 1], NULL);
        tryst_status status = harness_outcome(op, &error);
        if (involves_all(kind) || rank->rank < 2)
            CHECK_STATUS(status, TRYST_E_MISMATCH);
        /* an earlier close would end the others with its own status */
        harness_barrier(rank, rank->arg);
        harness_step_close(step);
    }
    memory_close(&memory);
}

static void test_mismatch(void **state)
{
    run_ranks(mismatch_main, HARNESS_NO_RANK);
}

/* The two ends of a pair give different counts, one of them 0. */
static void pair_mismatch_main(struct harness_rank *rank)
{
    struct memory memory = memory_open(rank, LARGE);
    tryst_step *step = harness_step(rank, 1);
    uint64_t in_counts[RANKS] = {0}, out_counts[RANKS] = {0};
    tryst_tensor in = tensor_of(memory.in, 9), out = tensor_of(memory.out, 9);
    tryst_error error;
    tryst_op *op;
    memory_begin(&memory, &in, &out);
    in_counts[2] = rank->rank == 1 ? 4 : 0; /* rank 2 expects none */
    CHECK_STATUS(tryst_alltoallv(step, "x", &in, in_counts, NULL, &out, out_counts, NULL,
                                 NULL, &op),
                 TRYST_OK);
    tryst_status status = harness_outcome(op, &error);
    if (rank->rank == 1 || rank->rank == 2)
        CHECK_STATUS(status, TRYST_E_MISMATCH);
    harness_barrier(rank, rank->arg);
    harness_step_close(step);
    memory_close(&memory);
}

static void test_pair_mismatch(void **state)
{
    run_ranks(pair_mismatch_main, HARNESS_NO_RANK);
}

/* Rank 1 has other counts of blocks with the same total. Both sizes are tried: few bytes,
 * which are packed, and many. */
static void counts_main(struct harness_rank *rank)
{
    static const uint64_t counts[][RANKS] = {
        {1, 2, 3, 4, 5},     {2, 2, 2, 4, 5},         {3, 3, 3, 3, 3},
        {9000, 1, 0, 0, 40}, {9000, 1, 20, 10, 10},   {1, 1, 1, 1, 11},
        {11, 1, 1, 1, 1},    {40001, 3, 3, 3, 40001}, {3, 3, 40001, 3, 40001}};
    static const int pairs[][2] = {{0, 1}, {0, 2}, {2, 0}, {5, 6}, {3, 4}, {7, 8}};
    struct memory memory = memory_open(rank, LARGE);
    for (unsigned i = 0; i < 2 * COUNT_OF(pairs); i++) {
        const uint64_t *mine = counts[pairs[i / 2][rank->rank == 1]];
        tryst_step *step = harness_step(rank, i + 1);
        uint64_t total = 0;
        for (int r = 0; r < RANKS; r++)
            total += mine[r];
        tryst_error error = {.struct_size = sizeof error};
        tryst_tensor in = tensor_of(memory.in, i % 2 ? total : mine[rank->rank]);
        tryst_tensor out = tensor_of(memory.out, i % 2 ? mine[rank->rank] : total);
        tryst_op *op;
        memory_begin(&memory, &in, &out);
        if (i % 2)
            CHECK_STATUS(tryst_reduce_scatterv(step, "x", &in, mine, NULL, &out,
                                               TRYST_REDUCE_SUM, NULL, &op),
                         TRYST_OK);
        else
            CHECK_STATUS(tryst_allgatherv(step, "x", &in, &out, mine, NULL, NULL, &op),
                         TRYST_OK);
        CHECK_STATUS(tryst_wait(op, TRYST_FOREVER), TRYST_E_MISMATCH);
        (void)tryst_op_error(op, &error);
        if (rank->rank == 1 && !strstr(error.text, "unequal blocks"))
            harness_fail(__FILE__, __LINE__, "\"%s\" does not name blocks", error.text);
        tryst_op_release(op);
        harness_barrier(rank, rank->arg);
        harness_step_close(step);
    }
    memory_close(&memory);
}

static void test_counts(void **state)
{
    run_ranks(counts_main, HARNESS_NO_RANK);
}

/* Explicit counts that are equal mean the same as no counts. */
static void equal_counts_main(struct harness_rank *rank)
{
    static const uint64_t twos[RANKS] = {2, 2, 2, 2, 2};
    int64_t own[2] = {rank->rank, -rank->rank}, all[2 * RANKS];
    tryst_tensor in = tensor_of(own, 2), out = tensor_of(all, 2 * RANKS);
    tryst_step *step = harness_step(rank, 1);
    tryst_op *op;
    CHECK_STATUS(rank->rank % 2
                     ? tryst_allgatherv(step, "x", &in, &out, twos, NULL, NULL, &op)
                     : tryst_allgather(step, "x", &in, &out, NULL, &op),
                 TRYST_OK);
    harness_end(op, TRYST_OK);
    for (int i = 0; i < RANKS; i++)
        CHECK(all[2 * i] == i && all[2 * i + 1] == -i);
    harness_step_close(step);
}

static void test_equal_counts(void **state)
{
    run_ranks(equal_counts_main, HARNESS_NO_RANK);
}

/* Two kinds that share no transfer; tryst/coll.h lists such pairs. */
static const struct apart {
    tryst_coll_kind kinds[2];
    int32_t roots[2];
} aparts[] = {
    {{TRYST_COLL_BROADCAST, TRYST_COLL_REDUCE}, {0, 0}},
    {{TRYST_COLL_BROADCAST, TRYST_COLL_BROADCAST}, {0, 1}},
    {{TRYST_COLL_REDUCE, TRYST_COLL_REDUCE}, {0, 1}},
    {{TRYST_COLL_ALLGATHER, TRYST_COLL_REDUCE_SCATTER}, {0, 0}},
    {{TRYST_COLL_ALLGATHER, TRYST_COLL_REDUCE}, {0, 0}},
    {{TRYST_COLL_BROADCAST, TRYST_COLL_REDUCE_SCATTER}, {0, 0}},
    {{TRYST_COLL_ALLTOALL, TRYST_COLL_ALLREDUCE}, {0, 0}},
    {{TRYST_COLL_GATHER, TRYST_COLL_SCATTER}, {0, 0}},
    {{TRYST_COLL_SCATTER, TRYST_COLL_BROADCAST}, {0, 0}},
};

static tryst_op *apart_start(const struct harness_rank *rank, tryst_step *step,
                             const struct apart *apart, struct memory *memory)
{
    enum { COUNT = 9 };
    tryst_coll_kind kind = apart->kinds[rank->rank];
    bool reduces = kind == TRYST_COLL_ALLREDUCE || kind == TRYST_COLL_REDUCE ||
                   kind == TRYST_COLL_REDUCE_SCATTER;
    bool in_all = kind == TRYST_COLL_REDUCE_SCATTER || kind == TRYST_COLL_ALLTOALL ||
                  kind == TRYST_COLL_SCATTER;
    bool out_all = kind == TRYST_COLL_ALLGATHER || kind == TRYST_COLL_ALLTOALL ||
                   kind == TRYST_COLL_GATHER;
    tryst_tensor in = tensor_of(memory->in, in_all ? 2 * COUNT : COUNT);
    tryst_tensor out = tensor_of(memory->out, out_all ? 2 * COUNT : COUNT);
    tryst_op_params params = {.struct_size = sizeof params,
                              .deadline_ns = 100 * NS_PER_MS};
    tryst_coll_params what = {.struct_size = sizeof what,
                              .kind = kind,
                              .reduce = reduces ? TRYST_REDUCE_SUM : TRYST_REDUCE_INVALID,
                              .count = COUNT,
                              .dtype = TRYST_DTYPE_I64,
                              .root = apart->roots[rank->rank],
                              .name = "x"};
    tryst_coll *coll;
    tryst_op *op;
    memory_begin(memory, &in, &out);
    CHECK_STATUS(tryst_coll_prepare(rank->group, &what, &coll), TRYST_OK);
    CHECK_STATUS(tryst_coll_start(step, coll, &in, &out, &params, &op), TRYST_OK);
    tryst_coll_release(coll);
    return op;
}

/* Two such kinds end by their deadlines, and the next step succeeds. */
static void apart_main(struct harness_rank *rank)
{
    struct memory memory = memory_open(rank, LARGE);
    for (unsigned i = 0; i < COUNT_OF(aparts); i++) {
        tryst_error error;
        tryst_step *step = harness_step(rank, i + 1);
        tryst_status status =
            harness_outcome(apart_start(rank, step, &aparts[i], &memory), &error);
        if (status != TRYST_E_DEADLINE)
            harness_fail(__FILE__, __LINE__, "row %u: %s", i, tryst_status_name(status));
        harness_barrier(rank, rank->arg);
        harness_step_close(step);
    }
    memory_close(&memory);
}

static void test_apart(void **state)
{
    _Atomic(uint32_t) *counter = harness_share(sizeof *counter);
    struct harness_params params = {.size = 2,
                                    .main = apart_main,
                                    .opened = twins_open,
                                    .closing = twins_close,
                                    .arg = counter,
                                    .timeout_s = 30};
    int failed = harness_run(&params);
    harness_unshare(counter, sizeof *counter);
    assert_int_equal(failed, 0);
}

/* True if the kind runs over trees, so that the failure of one rank reaches all ranks. */
static bool spreads(int kind)
{
    return TRYST_COLL_ALLGATHER + kind <= TRYST_COLL_REDUCE_SCATTER;
}

/* A rank never joins. Over trees, the deadline of one rank ends the collective on all
 * ranks; in lists, each rank that needs the missing rank has a deadline. The next
 * collective succeeds. */
static void deadline_main(struct harness_rank *rank)
{
    struct memory memory = memory_open(rank, LARGE);
    for (int kind = 0; kind < KINDS; kind++) {
        tryst_step *step = harness_step(rank, (uint64_t)kind * 2 + 1);
        bool needs = involves_all(kind) || rank->rank == 0; /* rank 0 is the root */
        bool has_deadline = spreads(kind) ? rank->rank == 1 : needs;
        tryst_op_params params = {.struct_size = sizeof params,
                                  .deadline_ns = has_deadline ? 300 * NS_PER_MS : 0};
        tryst_error error;
        harness_end(started(step, "first", kind, &memory, LARGE, NULL), TRYST_OK);
        if (rank->rank != MISSING) {
            tryst_op *op = started(step, "x", kind, &memory, LARGE, &params);
            tryst_status status = harness_outcome(op, &error);
            if (needs)
                CHECK_STATUS(status, TRYST_E_DEADLINE);
            CHECK(!spreads(kind) || error.origin_rank == 1);
        }
        harness_barrier(rank, rank->arg);
        harness_step_close(step);
        step = harness_step(rank, (uint64_t)kind * 2 + 2);
        harness_end(started(step, "x", kind, &memory, LARGE, NULL), TRYST_OK);
        harness_step_close(step);
    }
    memory_close(&memory);
}

static void test_deadline(void **state)
{
    run_ranks(deadline_main, HARNESS_NO_RANK);
}

/* Ranks cancel their parts while a rank is missing. Over trees one cancel ends all
 * parts. */
static void cancel_main(struct harness_rank *rank)
{
    struct memory memory = memory_open(rank, LARGE);
    for (int kind = 0; kind < KINDS; kind++) {
        tryst_step *step = harness_step(rank, (uint64_t)kind + 1);
        tryst_error error;
        if (rank->rank != MISSING) {
            tryst_op *op = started(step, "x", kind, &memory, LARGE, NULL);
            bool needs = involves_all(kind) || rank->rank == 0;
            if (spreads(kind) ? rank->rank == 0 : needs)
                CHECK_STATUS(tryst_op_cancel(op), TRYST_OK);
            tryst_status status = harness_outcome(op, &error);
            if (needs)
                CHECK_STATUS(status, TRYST_E_CANCELED);
            CHECK(!spreads(kind) || error.origin_rank == 0);
        }
        harness_barrier(rank, rank->arg);
        harness_step_close(step);
    }
    memory_close(&memory);
}

static void test_cancel(void **state)
{
    run_ranks(cancel_main, HARNESS_NO_RANK);
}

/* A rank dies; each part that depends on the dead rank ends with that cause, and the
 * group can be closed. */
static void death_main(struct harness_rank *rank)
{
    struct memory memory = memory_open(rank, LARGE);
    int kind = *(int *)((char *)rank->arg + 64);
    tryst_step *step = harness_step(rank, 1);
    tryst_error error;
    harness_end(started(step, "first", kind, &memory, 3, NULL), TRYST_OK);
    harness_barrier(rank, rank->arg);
    if (rank->rank == VICTIM)
        kill(getpid(), SIGKILL);
    for (int i = 0; i < 2; i++) {
        uint64_t begin_ns = harness_now_ns();
        tryst_op *op = started(step, "x", kind, &memory, i ? 3 : LARGE, NULL);
        tryst_status status = harness_outcome(op, &error);
        CHECK(harness_now_ns() - begin_ns < 5000 * NS_PER_MS);
        if (involves_all(kind) || rank->rank == 0) {
            CHECK_STATUS(status, TRYST_E_PEER);
            CHECK_EQ(error.origin_rank, VICTIM);
        }
    }
    harness_step_close(step);
    memory_close(&memory);
}

static void test_death(void **state)
{
    for (int kind = 0; kind < KINDS && harness_has_processes(); kind++) {
        char *shared = harness_share(128); /* the barrier's counter; the kind */
        memcpy(shared + 64, &kind, sizeof kind);
        struct harness_params params = {.size = RANKS,
                                        .main = death_main,
                                        .opened = twins_open,
                                        .closing = twins_close,
                                        .arg = shared,
                                        .timeout_s = 60,
                                        .killed = VICTIM};
        int failed = harness_run(&params);
        harness_unshare(shared, 128);
        assert_int_equal(failed, 0);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results),      cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_bits),         cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_mismatch),     cmocka_unit_test(test_pair_mismatch),
        cmocka_unit_test(test_counts),       cmocka_unit_test(test_apart),
        cmocka_unit_test(test_equal_counts), cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_cancel),       cmocka_unit_test(test_death)};
    seed = unit_seed();
    return HARNESS_MAIN(argc, argv, tests);
}
