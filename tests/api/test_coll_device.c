/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives over device memory and over tensors with ready events, where the programs
 * that host tensors share (twins.h) do not reach: every kind with blocks, counts and
 * places of their own; kernels that still use an output; ends while copies are in flight;
 * refusals; urgent copies; a lost device; and which thread calls the driver.
 *
 * The driver is tests/support/fake_cuda. Its device memory kills a process that touches
 * it from the host, a copy of memory that is gone ends the process, and a leak at exit
 * fails the run.
 *
 * TRYST_TEST_SEED replays a run; TRYST_TEST_ROUNDS sets the rounds of each ending, and
 * TRYST_TEST_KILLS the kills. */
#include "twins.h"

#include "support/unit.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/coll.h>
#include <unistd.h>

#include "device_mapped.h"
#include "support/fake_cuda/fake_cuda.h"

enum { RANKS_MAX = 8, CUDA_LOST = 719 };
#define NS_PER_MS UINT64_C(1000000)

static uint64_t seed;

static int ranks_try(int size, void (*main)(struct harness_rank *rank), int killed)
{
    return devices_run(size, main, devices_open_all, killed);
}

static void ranks_run(int size, void (*main)(struct harness_rank *rank))
{
    assert_int_equal(ranks_try(size, main, HARNESS_NO_RANK), 0);
}

static uint64_t below(uint64_t *random, uint64_t n)
{
    return (harness_random(random) >> 8) % n;
}

static tryst_tensor tensor_of(void *data, uint64_t count)
{
    return (tryst_tensor){.struct_size = sizeof(tryst_tensor),
                          .data = data,
                          .count = count,
                          .dtype = TRYST_DTYPE_I64};
}

static tryst_tensor device_tensor(void *data, uint64_t count, int device)
{
    tryst_tensor tensor = tensor_of(data, count);
    tensor.memory = TRYST_MEMORY_CUDA;
    tensor.device = device;
    return tensor;
}

/* ---- every kind, with counts, offsets and places ----------------------------------- */

enum { ROUNDS = 24, AT_ONCE = 6, GAP = 3, UNUSED = -77 };

/* A collective, the same on all ranks but for its places. Ranks are members' numbers. */
struct drawn {
    tryst_coll_kind kind;
    int size, root;
    bool varied; /* the blocks have different counts, and offsets with gaps */
    bool in_place;
    uint64_t counts[RANKS_MAX], offsets[RANKS_MAX];
    uint64_t extent; /* elements that hold all blocks */
    char name[16];
};

static bool in_has_blocks(const struct drawn *drawn)
{
    return drawn->kind == TRYST_COLL_REDUCE_SCATTER ||
           drawn->kind == TRYST_COLL_ALLTOALL || drawn->kind == TRYST_COLL_SCATTER;
}

static bool out_has_blocks(const struct drawn *drawn)
{
    return drawn->kind == TRYST_COLL_ALLGATHER || drawn->kind == TRYST_COLL_ALLTOALL ||
           drawn->kind == TRYST_COLL_GATHER;
}

static bool reduces(const struct drawn *drawn)
{
    return drawn->kind == TRYST_COLL_ALLREDUCE || drawn->kind == TRYST_COLL_REDUCE ||
           drawn->kind == TRYST_COLL_REDUCE_SCATTER;
}

/* True if the root alone has all blocks, or the result. */
static bool is_rooted(const struct drawn *drawn)
{
    return drawn->kind == TRYST_COLL_GATHER || drawn->kind == TRYST_COLL_SCATTER ||
           drawn->kind == TRYST_COLL_REDUCE;
}

static void drawn_draw(struct drawn *drawn, int size, uint64_t *random, int place)
{
    static const tryst_coll_kind kinds[] = {
        TRYST_COLL_ALLREDUCE,      TRYST_COLL_REDUCE,    TRYST_COLL_BROADCAST,
        TRYST_COLL_ALLGATHER,      TRYST_COLL_ALLGATHER, TRYST_COLL_REDUCE_SCATTER,
        TRYST_COLL_REDUCE_SCATTER, TRYST_COLL_ALLTOALL,  TRYST_COLL_GATHER,
        TRYST_COLL_SCATTER};
    static const uint64_t counts[] = {0, 1, 5, 300, 2500, 20000, 90000};
    *drawn = (struct drawn){.kind = kinds[below(random, COUNT_OF(kinds))],
                            .size = size,
                            .root = (int)below(random, (uint64_t)size),
                            .in_place = below(random, 2)};
    bool has_blocks = in_has_blocks(drawn) || out_has_blocks(drawn);
    uint64_t count = counts[below(random, COUNT_OF(counts))];
    drawn->varied = has_blocks && below(random, 2);
    /* an all-to-all in place does not exist; its counts are those of the destination */
    drawn->in_place &= drawn->kind != TRYST_COLL_ALLTOALL;
    for (int i = size - 1; i >= 0; i--) { /* the last block comes first */
        drawn->counts[i] = drawn->varied ? below(random, count + 1) : count;
        drawn->offsets[i] = drawn->extent;
        drawn->extent += drawn->counts[i] + (drawn->varied ? below(random, GAP) : 0);
    }
    for (int i = 0; i < size && !drawn->varied; i++)
        drawn->offsets[i] = (uint64_t)i * count;
    snprintf(drawn->name, sizeof drawn->name, "d%d", place);
}

/* Return the offset of block `b` in a tensor of blocks of `rank`. */
static uint64_t block_at(const struct drawn *drawn, bool of_out, int rank, int b)
{
    /* the blocks of an all-to-all's output all have this rank's count */
    bool equal = of_out && drawn->kind == TRYST_COLL_ALLTOALL;
    return equal ? (uint64_t)b * drawn->counts[rank] : drawn->offsets[b];
}

static uint64_t block_count(const struct drawn *drawn, bool of_out, int rank, int b)
{
    bool equal = of_out && drawn->kind == TRYST_COLL_ALLTOALL;
    return drawn->counts[equal ? rank : b];
}

static uint64_t tensor_count(const struct drawn *drawn, bool of_out, int rank)
{
    if (of_out ? !out_has_blocks(drawn) : !in_has_blocks(drawn))
        return drawn->counts[rank];
    if (of_out && drawn->kind == TRYST_COLL_ALLTOALL)
        return (uint64_t)drawn->size * drawn->counts[rank];
    return drawn->extent;
}

static int64_t element(int from, int to, uint64_t index)
{
    return from * INT64_C(1000000007) + to * INT64_C(100003) + (int64_t)index;
}

/* Return element `i` of block `b` of the result of `rank`. */
static int64_t expected(const struct drawn *drawn, int rank, int b, uint64_t i)
{
    int64_t sum = 0;
    int to = drawn->kind == TRYST_COLL_REDUCE_SCATTER ||
                     drawn->kind == TRYST_COLL_ALLTOALL ||
                     drawn->kind == TRYST_COLL_SCATTER
                 ? rank
                 : 0;
    if (!reduces(drawn))
        return element(out_has_blocks(drawn) ? b : drawn->root, to, i);
    for (int from = 0; from < drawn->size; from++)
        sum += element(from, to, i);
    return sum;
}

/* This rank's part: host memory with guards of one block, and twins. */
struct part {
    const struct drawn *drawn;
    int rank;
    bool has_in, has_out;
    int64_t *in, *out;             /* in place: one memory */
    int64_t *in_block, *out_block; /* this rank's own block, or the whole tensor */
    uint64_t in_count, out_count;
    struct twin in_twin, out_twin;
    tryst_op *op;
};

static int64_t *ints_new(uint64_t count)
{
    int64_t *ints = malloc((count + 1) * sizeof *ints);
    CHECK(ints);
    for (uint64_t i = 0; i <= count; i++)
        ints[i] = UNUSED;
    return ints;
}

static void in_fill(struct part *part)
{
    const struct drawn *drawn = part->drawn;
    for (int to = 0; in_has_blocks(drawn) && to < drawn->size; to++)
        for (uint64_t i = 0; i < drawn->counts[to]; i++)
            part->in[block_at(drawn, false, part->rank, to) + i] =
                element(part->rank, to, i);
    for (uint64_t i = 0; !in_has_blocks(drawn) && i < drawn->counts[part->rank]; i++)
        part->in_block[i] = element(part->rank, 0, i);
}

/* Set where input and output lie. In place both have this rank's own block. */
static void part_place(struct part *part)
{
    const struct drawn *drawn = part->drawn;
    uint64_t own = block_at(drawn, false, part->rank, part->rank);
    bool in_place = drawn->in_place && part->has_in && part->has_out;
    if (in_place && in_has_blocks(drawn)) { /* reduce-scatter, scatter */
        part->in_block = part->in = ints_new(part->in_count);
        part->out = part->out_block = part->in + own;
    } else {
        part->out = part->out_block = ints_new(part->out_count);
        if (!in_place)
            part->in = ints_new(part->in_count);
        else
            part->in = part->out + (out_has_blocks(drawn) ? own : 0);
        part->in_block = part->in;
    }
}

static bool part_is_in_place(const struct part *part)
{
    return part->drawn->in_place && part->has_in && part->has_out;
}

static void part_open(struct harness_rank *rank, struct part *part,
                      const struct drawn *drawn, int number, uint64_t *random)
{
    bool is_root = number == drawn->root,
         broadcasts = drawn->kind == TRYST_COLL_BROADCAST;
    *part = (struct part){.drawn = drawn, .rank = number};
    part->has_in = !broadcasts && (drawn->kind != TRYST_COLL_SCATTER || is_root);
    part->has_out = !is_rooted(drawn) || drawn->kind == TRYST_COLL_SCATTER || is_root;
    part->in_count = tensor_count(drawn, false, number);
    part->out_count = tensor_count(drawn, true, number);
    part_place(part);
    if (part->has_in || (broadcasts && is_root)) {
        if (broadcasts)
            part->in_block = part->out;
        in_fill(part);
    }
    bool out_is_within = part_is_in_place(part) && in_has_blocks(drawn);
    bool in_is_within = part_is_in_place(part) && !out_is_within;
    if (!out_is_within)
        twin_open(&part->out_twin, rank, part->out, part->out_count * sizeof(int64_t),
                  random);
    if (!in_is_within)
        twin_open(&part->in_twin, rank, part->in, part->in_count * sizeof(int64_t),
                  random);
}

static void part_close(struct part *part)
{
    bool within = part_is_in_place(part);
    twin_close(&part->in_twin);
    twin_close(&part->out_twin);
    if (!within || !in_has_blocks(part->drawn))
        free(part->out);
    if (!within || in_has_blocks(part->drawn))
        free(part->in);
}

static void part_start(struct harness_rank *rank, tryst_step *step, struct part *part,
                       const tryst_subgroup *subgroup, uint64_t *random)
{
    const struct drawn *drawn = part->drawn;
    bool out_is_within = part_is_in_place(part) && in_has_blocks(drawn);
    bool in_is_within = part_is_in_place(part) && !out_is_within;
    bool equal = drawn->kind == TRYST_COLL_ALLTOALL;
    uint64_t received[RANKS_MAX];
    for (int i = 0; i < drawn->size; i++)
        received[i] = drawn->counts[part->rank];
    tryst_coll_params params = {.struct_size = sizeof params,
                                .kind = drawn->kind,
                                .reduce = reduces(drawn) ? TRYST_REDUCE_SUM
                                                         : TRYST_REDUCE_INVALID,
                                .count = drawn->counts[part->rank],
                                .dtype = TRYST_DTYPE_I64,
                                .root = drawn->root,
                                .name = drawn->name,
                                .subgroup = subgroup};
    if (drawn->varied && in_has_blocks(drawn)) {
        params.in_counts = drawn->counts;
        params.in_offsets = drawn->offsets;
    }
    if (drawn->varied && out_has_blocks(drawn)) {
        params.out_counts = equal ? received : drawn->counts;
        params.out_offsets = equal ? NULL : drawn->offsets;
    }
    tryst_tensor in = tensor_of(part->in, part->in_count);
    tryst_tensor out = tensor_of(part->out, part->out_count);
    twin_begin(&part->in_twin, part->in_twin.bytes);
    twin_begin(&part->out_twin, part->out_twin.bytes);
    twin_tensor(in_is_within ? &part->out_twin : &part->in_twin, false, &in);
    twin_tensor(out_is_within ? &part->in_twin : &part->out_twin, false, &out);
    bool named = below(random, 2);
    tryst_op_params urgency = {.struct_size = sizeof urgency,
                               .flags = below(random, 2) ? TRYST_OP_PRIORITY : 0,
                               .priority = 0};
    tryst_coll *coll;
    CHECK_STATUS(tryst_coll_prepare(rank->group, &params, &coll), TRYST_OK);
    if (tryst_coll_start(step, coll,
                         part->has_in && (named || !in_is_within) ? &in : NULL,
                         part->has_out && (named || !out_is_within ||
                                           drawn->kind != TRYST_COLL_SCATTER)
                             ? &out
                             : NULL,
                         &urgency, &part->op) != TRYST_OK)
        harness_fail(__FILE__, __LINE__, "%s", tryst_last_error());
    tryst_coll_release(coll);
    twin_await(&part->in_twin, part->op);
    twin_await(&part->out_twin, part->op);
}

static _Noreturn void part_fail(const struct part *part, const char *what, int b,
                                uint64_t i, int64_t got)
{
    const struct drawn *drawn = part->drawn;
    harness_fail(
        __FILE__, __LINE__,
        "%s: kind %d of %d members, root %d, member %d, counts %llu %llu, %s, %s, "
        "memory %s %s: %s: element %llu of block %d is %lld",
        drawn->name, drawn->kind, drawn->size, drawn->root, part->rank,
        (unsigned long long)drawn->counts[0], (unsigned long long)drawn->counts[1],
        drawn->varied ? "varied" : "equal",
        part_is_in_place(part) ? "in place" : "not in place", twin_name(&part->in_twin),
        twin_name(&part->out_twin), what, (unsigned long long)i, b, (long long)got);
}

static void out_check(const struct part *part)
{
    const struct drawn *drawn = part->drawn;
    bool has_blocks = out_has_blocks(drawn);
    uint64_t whole = 0, unused = 0;
    for (int b = 0; b < (has_blocks ? drawn->size : 1); b++) {
        uint64_t at = has_blocks ? block_at(drawn, true, part->rank, b) : 0;
        uint64_t count =
            has_blocks ? block_count(drawn, true, part->rank, b) : part->out_count;
        whole += count;
        for (uint64_t i = 0; i < count; i++)
            if (part->out[at + i] != expected(drawn, part->rank, b, i))
                part_fail(part, "wrong result", b, i, part->out[at + i]);
    }
    for (uint64_t i = 0; i < part->out_count; i++)
        unused += part->out[i] == UNUSED;
    if (unused != part->out_count - whole)
        part_fail(part, "elements beside the blocks were written", -1, unused, UNUSED);
}

/* The input is unchanged, but for this rank's own block in place. */
static void in_check(const struct part *part)
{
    const struct drawn *drawn = part->drawn;
    bool has_blocks = in_has_blocks(drawn);
    uint64_t whole = 0, unused = 0;
    for (int b = 0; b < (has_blocks ? drawn->size : 1); b++) {
        uint64_t at = has_blocks ? block_at(drawn, false, part->rank, b) : 0;
        uint64_t count = has_blocks ? drawn->counts[b] : part->in_count;
        whole += count;
        if (part_is_in_place(part) && (!has_blocks || b == part->rank))
            continue;
        for (uint64_t i = 0; i < count; i++)
            if (part->in[at + i] != element(part->rank, has_blocks ? b : 0, i))
                part_fail(part, "the input was written", b, i, part->in[at + i]);
    }
    for (uint64_t i = 0; i < part->in_count; i++)
        unused += part->in[i] == UNUSED;
    if (unused != part->in_count - whole)
        part_fail(part, "elements beside the input's blocks were written", -1, unused,
                  UNUSED);
}

static void part_check(struct part *part)
{
    twin_pull(&part->in_twin);
    twin_pull(&part->out_twin);
    if (part->has_out)
        out_check(part);
    if (part->has_in)
        in_check(part);
}

/* The members of a subgroup are all ranks in reverse order. */
static tryst_subgroup *reversed_open(struct harness_rank *rank)
{
    int32_t members[RANKS_MAX];
    tryst_subgroup *subgroup;
    for (int i = 0; i < rank->size; i++)
        members[i] = rank->size - 1 - i;
    tryst_subgroup_params params = {.struct_size = sizeof params,
                                    .epoch = 3,
                                    .count = (uint32_t)rank->size,
                                    .members = members};
    CHECK_STATUS(tryst_subgroup_open(rank->group, &params, &subgroup), TRYST_OK);
    return subgroup;
}

static void kinds_main(struct harness_rank *rank)
{
    uint64_t shared = seed * 8 + (uint64_t)rank->size, own;
    struct drawn drawn[AT_ONCE];
    struct part parts[AT_ONCE];
    tryst_subgroup *subgroup = reversed_open(rank);
    own = shared * 16 + (uint64_t)rank->rank + 1;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        bool reversed = round % 3 == 0;
        tryst_step *step = harness_step(rank, round);
        for (int i = 0; i < AT_ONCE; i++) {
            drawn_draw(&drawn[i], rank->size, &shared, i);
            part_open(rank, &parts[i], &drawn[i],
                      reversed ? rank->size - 1 - rank->rank : rank->rank, &own);
        }
        for (int i = 0; i < AT_ONCE; i++)
            part_start(rank, step, &parts[(i + rank->rank) % AT_ONCE],
                       reversed ? subgroup : NULL, &own);
        for (int i = 0; i < AT_ONCE; i++) {
            harness_end(parts[i].op, TRYST_OK);
            part_check(&parts[i]);
            part_close(&parts[i]);
        }
        harness_step_close(step);
    }
    tryst_subgroup_close(subgroup);
}

static void test_kinds(void **state)
{
    static const int sizes[] = {1, 2, 3, 5, 8};
    setenv("TRYST_TEST_DEVICE", "50", 0); /* for twin_open */
    for (unsigned i = 0; i < COUNT_OF(sizes); i++)
        ranks_run(sizes[i], kinds_main);
}

/* ---- kernels that still use an output ---------------------------------------------- */

enum { KERNELS = 10, KERNEL_ROUNDS = 10, KERNEL_MS = 50, KERNEL_BYTE = 0x55 };

/* A kernel that writes the memory again and again. */
struct kernel {
    void *data;
    size_t bytes;
    atomic_bool ended;
};

static void kernel_run(void *arg)
{
    struct kernel *kernel = arg;
    uint64_t until_ns = harness_now_ns() + KERNEL_MS * NS_PER_MS;
    do {
        memset(fake_cuda_reach(kernel->data), KERNEL_BYTE, kernel->bytes);
        harness_sleep_ms(5);
    } while (harness_now_ns() < until_ns);
    memset(fake_cuda_reach(kernel->data), KERNEL_BYTE, kernel->bytes);
    atomic_store(&kernel->ended, true);
}

static size_t kernel_bytes(int i)
{
    static const size_t sizes[] = {8, 4000, 70000, 1 << 20, (3 << 20) + 8};
    return sizes[(size_t)i % COUNT_OF(sizes)];
}

/* In each round a kernel writes each output, on a device or of the host, for 50 ms. */
static void kernels_round(struct harness_rank *rank, uint64_t id, struct room *rooms,
                          void **streams)
{
    struct gpu *gpu = rank->gpu;
    struct kernel kernels[KERNELS];
    tryst_step *step = harness_step(rank, id);
    tryst_op *ops[KERNELS];
    for (int i = 0; i < KERNELS; i++) {
        char name[16];
        snprintf(name, sizeof name, "k%d", i);
        tryst_tensor tensor = room_tensor(&rooms[i], NULL);
        if (rank->rank == 0) {
            room_fill(gpu, &rooms[i], id * KERNELS + (uint64_t)i);
        } else {
            int device = rooms[i].device < 0 ? 0 : rooms[i].device;
            kernels[i] = (struct kernel){.data = rooms[i].data, .bytes = rooms[i].bytes};
            fake_cuda_call(streams[i], kernel_run, &kernels[i]);
            CHECK_STATUS(tryst_event_open(gpu->devices[device], &tensor.ready_event),
                         TRYST_OK);
            CHECK_STATUS(
                tryst_event_record(gpu->devices[device], streams[i], tensor.ready_event),
                TRYST_OK);
            rooms[i].ready = tensor.ready_event;
            tensor.device = device;
        }
        if (tryst_broadcast(step, name, &tensor, 0, NULL, &ops[i]) != TRYST_OK)
            harness_fail(__FILE__, __LINE__, "%s", tryst_last_error());
    }
    for (int i = 0; i < KERNELS; i++) {
        harness_end(ops[i], TRYST_OK);
        if (rank->rank) {
            CHECK(atomic_load(&kernels[i].ended));
            CHECK_EQ(room_mismatch(gpu, &rooms[i], id * KERNELS + (uint64_t)i), SIZE_MAX);
            tryst_event_close(gpu->devices[rooms[i].device < 0 ? 0 : rooms[i].device],
                              rooms[i].ready);
            rooms[i].ready = NULL;
        }
    }
    harness_step_close(step);
}

static void kernels_main(struct harness_rank *rank)
{
    struct room rooms[KERNELS];
    void *streams[KERNELS];
    for (int i = 0; i < KERNELS; i++) {
        int device = i % 5 == 4 ? -1 : i % GPU_DEVICES;
        rooms[i] = room_open(rank->gpu, device, ROOM_REGION, kernel_bytes(i));
        CHECK_STATUS(tryst_stream_open(rank->gpu->devices[device < 0 ? 0 : device], 0,
                                       &streams[i]),
                     TRYST_OK);
    }
    for (uint64_t id = 1; id <= KERNEL_ROUNDS; id++)
        kernels_round(rank, id, rooms, streams);
    for (int i = 0; i < KERNELS; i++) {
        int device = rooms[i].device < 0 ? 0 : rooms[i].device;
        tryst_stream_close(rank->gpu->devices[device], streams[i]);
        room_close(rank->gpu, &rooms[i]);
    }
}

static void test_kernels(void **state)
{
    ranks_run(2, kernels_main);
}

/* ---- ends while copies are in flight ----------------------------------------------- */

enum { END_RANKS = 3, QUITS = 1, END_COUNT = 700001 };

/* Start an all-reduce of device memory; rank QUITS has `deadline_ns`. */
static tryst_op *sum_start(tryst_step *step, const char *name, const struct mapped *in,
                           const struct mapped *out, uint64_t deadline_ns)
{
    tryst_op_params params = {.struct_size = sizeof params, .deadline_ns = deadline_ns};
    tryst_tensor from = device_tensor((void *)in->at, in->bytes / sizeof(int64_t), 0);
    tryst_tensor to = device_tensor((void *)out->at, out->bytes / sizeof(int64_t), 1);
    tryst_op *op;
    if (tryst_allreduce(step, name, in->at == out->at ? NULL : &from, &to,
                        TRYST_REDUCE_SUM, &params, &op) != TRYST_OK)
        harness_fail(__FILE__, __LINE__, "%s", tryst_last_error());
    return op;
}

/* Wait for the operation, unmap its tensors at once, and return its status. */
static tryst_status end_and_unmap(tryst_op *op, struct mapped *in, struct mapped *out,
                                  tryst_error *error)
{
    while (tryst_wait(op, TRYST_FOREVER) == TRYST_E_TIMEOUT)
        continue;
    mapped_close(in);
    mapped_close(out);
    tryst_status status = harness_outcome(op, error);
    return status;
}

static unsigned end_rounds(void)
{
    return (unsigned)harness_setting("TRYST_TEST_ROUNDS", unit_cases(40));
}

/* Of two rounds, one has a cancel and one a deadline, each after a random time. */
static void ends_main(struct harness_rank *rank)
{
    _Atomic(uint32_t) *counters = rank->arg, *failed = counters + 1;
    uint64_t random = seed * 16 + (uint64_t)rank->rank + 1;
    unsigned rounds = 2 * end_rounds();
    for (unsigned i = 0; i < rounds; i++) {
        tryst_step *step = harness_step(rank, i + 1);
        size_t bytes = (i / 2 % 4 == 3 ? 300 : END_COUNT) * sizeof(int64_t);
        struct mapped in = mapped_open(bytes, 0), out = mapped_open(bytes, 1);
        bool cancels = i % 2, quits = rank->rank == QUITS;
        uint64_t after_ns = 1 + below(&random, 20 * NS_PER_MS);
        tryst_error error = {.struct_size = sizeof error};
        harness_barrier(rank, counters);
        tryst_op *op = sum_start(step, "x", &in, &out, quits && !cancels ? after_ns : 0);
        if (quits && cancels) {
            (void)tryst_wait(op, (int64_t)after_ns);
            CHECK_STATUS(tryst_op_cancel(op), TRYST_OK);
        }
        tryst_status status = end_and_unmap(op, &in, &out, &error);
        if (status != TRYST_OK) {
            atomic_fetch_add(failed, 1);
            CHECK_STATUS(status, cancels ? TRYST_E_CANCELED : TRYST_E_DEADLINE);
            CHECK_EQ(error.origin_rank, QUITS);
            CHECK_STATUS(error.origin_status, status);
        }
        harness_barrier(rank, counters);
        fake_cuda_drain();
        mapped_forget(&in);
        mapped_forget(&out);
        harness_step_close(step);
    }
    harness_barrier(rank, counters);
    CHECK(atomic_load(failed) > rounds / 4);
}

static void test_ends(void **state)
{
    ranks_run(END_RANKS, ends_main);
}

static void *killer_main(void *arg)
{
    uint64_t random = seed + (uint64_t)getpid();
    for (int i = 0; i < 8; i++)
        harness_random(&random);
    usleep((useconds_t)below(&random, 20000));
    raise(SIGKILL);
    return NULL;
}

static void killed_main(struct harness_rank *rank)
{
    size_t bytes = END_COUNT * sizeof(int64_t);
    tryst_step *step = harness_step(rank, 1);
    bool died = false;
    for (int i = 0; i < 200 && !died; i++) {
        char name[16];
        struct mapped in = mapped_open(bytes, 0), out = mapped_open(bytes, 1);
        tryst_error error = {.struct_size = sizeof error};
        pthread_t thread;
        snprintf(name, sizeof name, "k%d", i);
        tryst_op *op = sum_start(step, name, &in, &out, 0);
        if (i == 1 && rank->rank == QUITS)
            CHECK(pthread_create(&thread, NULL, killer_main, NULL) == 0);
        tryst_status status = end_and_unmap(op, &in, &out, &error);
        died = status != TRYST_OK;
        if (died) {
            CHECK_STATUS(status, TRYST_E_PEER);
            CHECK_EQ(error.origin_rank, QUITS);
        }
        fake_cuda_drain();
        mapped_forget(&in);
        mapped_forget(&out);
    }
    CHECK(died);
    harness_step_close(step);
}

static void test_killed(void **state)
{
    unsigned kills = (unsigned)harness_setting("TRYST_TEST_KILLS", unit_cases(5));
    if (!harness_has_processes())
        skip();
    for (unsigned i = 0; i < kills; i++, seed++)
        assert_int_equal(ranks_try(END_RANKS, killed_main, QUITS), 0);
}

/* ---- refusals ---------------------------------------------------------------------- */

static void refused(tryst_step *step, tryst_tensor tensor, tryst_status status,
                    const char *word)
{
    int64_t host[8];
    tryst_tensor other = tensor_of(host, 8);
    tryst_op *op;
    tryst_status got =
        tryst_allreduce(step, "x", &other, &tensor, TRYST_REDUCE_SUM, NULL, &op);
    if (got != status)
        harness_fail(__FILE__, __LINE__, "memory %d, device %d, event %p: %s",
                     (int)tensor.memory, (int)tensor.device, tensor.ready_event,
                     tryst_status_name(got));
    if (!strstr(tryst_last_error(), word) || !strstr(tryst_last_error(), "out"))
        harness_fail(__FILE__, __LINE__, "\"%s\" does not contain \"%s\"",
                     tryst_last_error(), word);
    CHECK_STATUS(tryst_allreduce(step, "x", &tensor, &other, TRYST_REDUCE_SUM, NULL, &op),
                 status);
    CHECK(strstr(tryst_last_error(), "in") != NULL);
    CHECK_STATUS(tryst_broadcast(step, "x", &tensor, 0, NULL, &op), status);
}

static void refusals_main(struct harness_rank *rank)
{
    struct gpu *gpu = rank->gpu;
    struct room room = room_open(gpu, 0, ROOM_REGION, 64),
                other = room_open(gpu, 0, ROOM_REGION, 64);
    int64_t host[8] = {0}, start[8] = {0};
    tryst_step *step = harness_step(rank, 1);
    refused(step, device_tensor(room.data, 8, 1), TRYST_E_INVALID, "device");
    refused(step, device_tensor(host, 8, 0), TRYST_E_INVALID, "device");
    refused(step, device_tensor(room.data, 8, 7), TRYST_E_INVALID, "device");
    refused(step, device_tensor(room.data, 8, -1), TRYST_E_INVALID, "device");
    tryst_tensor wrong = device_tensor(room.data, 8, 0);
    wrong.memory = (tryst_memory_kind)7;
    refused(step, wrong, TRYST_E_UNSUPPORTED, "memory");
    wrong = device_tensor(room.data, 8, 0);
    wrong.mem = other.mem;
    refused(step, wrong, TRYST_E_INVALID, "mem");
    wrong = device_tensor((char *)room.data + 8, 8, 0); /* ends behind the region */
    wrong.mem = room.mem;
    refused(step, wrong, TRYST_E_INVALID, "mem");
    wrong = tensor_of(host, 8);
    wrong.device = 7;
    wrong.ready_event = gpu->events[0];
    refused(step, wrong, TRYST_E_INVALID, "device");

    /* the refused calls have taken no number of the name */
    gpu_copy(gpu, 0, room.data, start, sizeof start);
    tryst_tensor tensor = device_tensor(room.data, 8, 0);
    tryst_op *op;
    CHECK_STATUS(tryst_allreduce(step, "x", NULL, &tensor, TRYST_REDUCE_SUM, NULL, &op),
                 TRYST_OK);
    CHECK_STATUS(tryst_wait(op, TRYST_FOREVER), TRYST_OK);
    tryst_tensor result = {.struct_size = sizeof result};
    CHECK_STATUS(tryst_op_tensor(op, &result), TRYST_OK); /* the caller's */
    CHECK(result.data == room.data && result.memory == TRYST_MEMORY_CUDA);
    harness_end(op, TRYST_OK);
    harness_step_close(step);
    room_close(gpu, &room);
    room_close(gpu, &other);
}

static void test_refusals(void **state)
{
    ranks_run(2, refusals_main);
}

/* ---- urgency ----------------------------------------------------------------------- */

/* Elements of each large broadcast, which takes 12 ms by its copies alone. */
enum { LARGE_COUNT = 1500000, LARGE_OPS = 4, URGENT_TRIES = 5 };

/* Start a broadcast of rank 0's device memory to host memory of the other rank. */
static tryst_op *cast_start(const struct harness_rank *rank, tryst_step *step,
                            const char *name, const struct room *room, int64_t *host,
                            uint64_t count, uint32_t flags)
{
    tryst_op_params params = {.struct_size = sizeof params, .flags = flags};
    tryst_tensor tensor =
        rank->rank == 0 ? device_tensor(room->data, count, 0) : tensor_of(host, count);
    tryst_op *op;
    CHECK_STATUS(tryst_broadcast(step, name, &tensor, 0, &params, &op), TRYST_OK);
    return op;
}

/* Make progress for a moment, so that copies of what was submitted have begun. */
static void copies_begin_await(const struct harness_rank *rank)
{
    for (int i = 0; i < 3; i++) {
        tryst_progress(rank->ctx);
        harness_sleep_ms(1);
    }
}

/* Return the time of an urgent broadcast behind large ones, by the large ones' time. One
 * that is raised is as large as they are: equally urgent ones take turns. */
static double urgent_try(struct harness_rank *rank, tryst_step *step,
                         const struct room *room, int64_t *host, bool is_raised)
{
    tryst_op *large[LARGE_OPS];
    char name[] = "large 0";
    harness_barrier(rank, rank->arg);
    uint64_t begin_ns = harness_now_ns();
    for (int i = 0; i < LARGE_OPS; i++, name[sizeof name - 2]++)
        large[i] = cast_start(rank, step, name, room, host + i * LARGE_COUNT, LARGE_COUNT,
                              TRYST_OP_BACKGROUND);
    tryst_op *urgent = cast_start(
        rank, step, "urgent", room, host + LARGE_OPS * LARGE_COUNT,
        is_raised ? LARGE_COUNT : 1, is_raised ? TRYST_OP_BACKGROUND : TRYST_OP_PRIORITY);
    if (is_raised) {
        copies_begin_await(rank);
        CHECK_STATUS(tryst_op_reprioritize(urgent, -1), TRYST_OK);
    }
    harness_end(urgent, TRYST_OK);
    uint64_t urgent_ns = harness_now_ns() - begin_ns;
    for (int i = 0; i < LARGE_OPS; i++)
        harness_end(large[i], TRYST_OK);
    return (double)urgent_ns / (double)(harness_now_ns() - begin_ns);
}

/* Copies of an urgent collective overtake those of large ones. The best try counts, since
 * the machine may be busy. */
static void urgent_main(struct harness_rank *rank)
{
    struct room room =
        room_open(rank->gpu, 0, ROOM_REGION, LARGE_COUNT * sizeof(int64_t));
    int64_t *host = calloc((LARGE_OPS + 1) * LARGE_COUNT, sizeof *host);
    tryst_step *step = harness_step(rank, 1);
    CHECK(host);
    for (int is_raised = 0; is_raised < 2; is_raised++) {
        double best = 1;
        for (int i = 0; i < URGENT_TRIES; i++) {
            double ratio = urgent_try(rank, step, &room, host, is_raised);
            best = ratio < best ? ratio : best;
        }
        if (best > 0.45)
            harness_fail(__FILE__, __LINE__,
                         "an urgent collective%s takes %.2f of the "
                         "large ones' time",
                         is_raised ? ", raised," : "", best);
    }
    harness_step_close(step);
    free(host);
    room_close(rank->gpu, &room);
}

static void test_urgent(void **state)
{
    ranks_run(2, urgent_main);
}

/* ---- a kept run -------------------------------------------------------------------- */

enum { TURNS = 6, TURN_COUNT = 5000 };

/* Start a prepared collective with memory of a device and of the host by turns. */
static void turn(struct harness_rank *rank, tryst_coll *coll, int number,
                 const struct room *room, int64_t *host)
{
    bool on_device = number % 2 == 0;
    tryst_step *step = harness_step(rank, (uint64_t)number + 1);
    tryst_tensor tensor = on_device ? device_tensor(room->data, TURN_COUNT, 0)
                                    : tensor_of(host, TURN_COUNT);
    tryst_op *op;
    for (int i = 0; i < TURN_COUNT; i++)
        host[i] = number + i + rank->rank;
    if (on_device)
        gpu_copy(rank->gpu, 0, room->data, host, TURN_COUNT * sizeof *host);
    CHECK_STATUS(tryst_coll_start(step, coll, NULL, &tensor, NULL, &op), TRYST_OK);
    harness_end(op, TRYST_OK);
    if (on_device)
        gpu_copy(rank->gpu, 0, host, room->data, TURN_COUNT * sizeof *host);
    for (int i = 0; i < TURN_COUNT; i++)
        CHECK_EQ(host[i], 2 * (number + i) + 1);
    harness_step_close(step);
}

static void turns_main(struct harness_rank *rank)
{
    struct room room = room_open(rank->gpu, 0, ROOM_REGION, TURN_COUNT * sizeof(int64_t));
    int64_t *host = calloc(TURN_COUNT, sizeof *host);
    tryst_coll_params what = {.struct_size = sizeof what,
                              .kind = TRYST_COLL_ALLREDUCE,
                              .reduce = TRYST_REDUCE_SUM,
                              .count = TURN_COUNT,
                              .dtype = TRYST_DTYPE_I64,
                              .name = "turns"};
    tryst_coll *coll;
    CHECK(host);
    CHECK_STATUS(tryst_coll_prepare(rank->group, &what, &coll), TRYST_OK);
    for (int i = 0; i < TURNS; i++)
        turn(rank, coll, i, &room, host);
    tryst_coll_release(coll);
    free(host);
    room_close(rank->gpu, &room);
}

static void test_turns(void **state)
{
    ranks_run(2, turns_main);
}

/* ---- a lost device ----------------------------------------------------------------- */

enum { LOSES = 1, LOST_COUNT = 400000 };

static tryst_op *in_place_start(tryst_step *step, const char *name, tryst_tensor tensor)
{
    tryst_op *op;
    if (tryst_allreduce(step, name, NULL, &tensor, TRYST_REDUCE_SUM, NULL, &op) !=
        TRYST_OK)
        harness_fail(__FILE__, __LINE__, "%s", tryst_last_error());
    return op;
}

static void fails(tryst_op *op)
{
    tryst_error error = {.struct_size = sizeof error};
    CHECK_STATUS(harness_outcome(op, &error), TRYST_E_SYSTEM);
    CHECK_EQ(error.origin_rank, LOSES);
    CHECK_STATUS(error.origin_status, TRYST_E_SYSTEM);
}

/* Rank LOSES: the `function` fails, once (999) or for good. Collectives of device 0 fail,
 * with that origin on all ranks; those of device 1 and of the host do not. */
static void lost_round(struct harness_rank *rank, uint64_t id, const char *function,
                       int result)
{
    struct gpu *gpu = rank->gpu;
    bool loses = rank->rank == LOSES, is_lost = strcmp(function, "copy") == 0;
    size_t bytes = LOST_COUNT * sizeof(int64_t);
    struct room on_0 = room_open(gpu, 0, ROOM_REGION, bytes),
                on_1 = room_open(gpu, 1, ROOM_REGION, bytes);
    int64_t *host = calloc(LOST_COUNT, sizeof *host);
    CHECK(host);
    tryst_step *step = harness_step(rank, id);
    room_fill(gpu, &on_0, 1);
    room_fill(gpu, &on_1, 2);
    harness_barrier(rank, rank->arg);
    tryst_op *beside = in_place_start(step, "host", tensor_of(host, LOST_COUNT));
    if (loses)
        fake_cuda_fail(function, 1, result);
    fails(in_place_start(step, "lost", device_tensor(on_0.data, LOST_COUNT, 0)));
    harness_end(beside, TRYST_OK);
    harness_end(in_place_start(step, "good", device_tensor(on_1.data, LOST_COUNT, 1)),
                TRYST_OK);
    tryst_op *again =
        in_place_start(step, "again", device_tensor(on_0.data, LOST_COUNT, 0));
    if (is_lost)
        fails(again);
    else
        harness_end(again, TRYST_OK);
    fake_cuda_fail(NULL, 0, 0);
    harness_step_close(step);
    room_close(gpu, &on_0);
    room_close(gpu, &on_1);
    free(host);
}

static void lost_main(struct harness_rank *rank)
{
    lost_round(rank, 1, "cuMemcpyAsync", 999);
    lost_round(rank, 2, "copy", CUDA_LOST); /* the device is in error from here on */
}

static void test_lost(void **state)
{
    struct harness_params params = {.size = 3,
                                    .main = lost_main,
                                    .opened = devices_open,
                                    .closing = twins_close,
                                    .timeout_s = 30};
    if (!harness_has_processes())
        skip(); /* a failure is one of the process */
    params.arg = harness_share(sizeof(uint32_t));
    int failed = harness_run(&params);
    harness_unshare(params.arg, sizeof(uint32_t));
    assert_int_equal(failed, 0);
}

/* ---- what is left, and the threads that call the driver ---------------------------- */

static void none_left(void)
{
    struct fake_cuda_counts counts, none = {0};
    fake_cuda_counts(&counts);
    if (memcmp(&counts, &none, sizeof none) != 0)
        harness_fail(__FILE__, __LINE__,
                     "%d allocations, %d pinned, %d streams, %d events, %d imports, "
                     "%d handles, %d reserved, %d mapped, %d pushed are left",
                     counts.allocations, counts.pinned, counts.streams, counts.events,
                     counts.imports, counts.handles, counts.reserved, counts.mapped,
                     counts.pushed);
}

static uint64_t size_of_round(int i)
{
    return (uint64_t)1 << (i / 2) | (i % 2 ? (uint64_t)1 << (i / 4) : 0);
}

struct waiter {
    atomic_bool ended;
    _Atomic(pid_t) thread;
};

static void on_end(void *arg, tryst_op *op, tryst_status status)
{
    struct waiter *waiter = arg;
    (void)op;
    CHECK_STATUS(status, TRYST_OK);
    atomic_store(&waiter->thread, gettid());
    atomic_store(&waiter->ended, true);
}

/* The progress thread makes all progress: this thread waits without tryst_wait. */
static pid_t sum_run(const struct gpu *gpu, tryst_step *step, const struct room *room,
                     uint64_t count)
{
    struct waiter waiter = {false, 0};
    tryst_op_params params = {
        .struct_size = sizeof params, .callback = on_end, .arg = &waiter};
    tryst_tensor tensor = device_tensor(room->data, count, room->device);
    tensor.ready_event = gpu->events[room->device];
    CHECK_STATUS(tryst_event_record(gpu->devices[room->device],
                                    gpu->streams[room->device], tensor.ready_event),
                 TRYST_OK);
    if (tryst_allreduce(step, "x", NULL, &tensor, TRYST_REDUCE_SUM, &params, NULL) !=
        TRYST_OK)
        harness_fail(__FILE__, __LINE__, "%s", tryst_last_error());
    while (!atomic_load(&waiter.ended))
        usleep(100);
    return atomic_load(&waiter.thread);
}

/* Wait until the library has pinned what the collectives so far have missed. Return the
 * calls that pin or free. */
static unsigned memory_calls_settle(void)
{
    unsigned before, now = fake_cuda_memory_calls();
    do {
        before = now;
        harness_sleep_ms(100);
        now = fake_cuda_memory_calls();
    } while (now != before);
    return now;
}

enum { SIZES = 40 };

static void calls_main(struct harness_rank *rank)
{
    _Atomic(uint32_t) *counters = rank->arg;
    harness_open(rank);
    devices_open(rank);
    struct room room =
        room_open(rank->gpu, 0, ROOM_REGION, size_of_round(SIZES - 1) * sizeof(int64_t));
    tryst_step *step = harness_step(rank, 1);
    unsigned calls = 0, memory_calls = 0;
    pid_t progress = 0;
    for (int round = 0; round < 2; round++) {
        harness_barrier(rank, counters);
        memory_calls = memory_calls_settle();
        harness_barrier(rank, counters);
        for (int i = 0; i < SIZES; i++) {
            progress = sum_run(rank->gpu, step, &room, size_of_round(i));
            CHECK(progress != gettid());
            calls += fake_cuda_calls_by(progress);
        }
        harness_barrier(rank, counters);
        memory_calls = fake_cuda_memory_calls() - memory_calls;
        harness_barrier(rank, counters); /* before a rank frees */
    }
    CHECK_EQ(calls, 0);
    CHECK_EQ(memory_calls, 0);
    harness_step_close(step);
    room_close(rank->gpu, &room);
    twins_close(rank);
    tryst_group_close(rank->group);
    rank->group = NULL;
    harness_barrier(rank, counters);
    none_left();
    harness_barrier(rank, counters);
    harness_close(rank);
}

static void test_calls(void **state)
{
    static const char *const config[] = {"progress_thread", "1", NULL};
    struct harness_params params = {.size = 2,
                                    .main = calls_main,
                                    .config = config,
                                    .no_group = true,
                                    .timeout_s = 60};
    params.arg = harness_share(sizeof(uint32_t));
    int failed = harness_run(&params);
    harness_unshare(params.arg, sizeof(uint32_t));
    assert_int_equal(failed, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),    cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_ends),     cmocka_unit_test(test_killed),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_urgent),
        cmocka_unit_test(test_turns),    cmocka_unit_test(test_lost),
        cmocka_unit_test(test_calls),
    };
    seed = unit_seed();
    return HARNESS_MAIN(argc, argv, tests);
}
