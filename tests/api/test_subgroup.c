/* SPDX-License-Identifier: Apache-2.0 */
/* Subgroups: collectives of some ranks, beside each other and beside those of the
 * group. */
#include "twins.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <tryst/coll.h>
#include <unistd.h>

#include "support/unit.h"

enum { RANKS = 6, LARGE = 200003, STEPS = 12, VICTIM = 4, COUNTERS = 4 };

static void run_ranks(void (*main)(struct harness_rank *rank), int killed)
{
    _Atomic(uint32_t) *counter = harness_share(COUNTERS * sizeof *counter);
    struct harness_params params = {.size = RANKS,
                                    .main = main,
                                    .opened = twins_open,
                                    .closing = twins_close,
                                    .arg = counter,
                                    .timeout_s = 60,
                                    .killed = killed};
    int failed = harness_run(&params);
    harness_unshare(counter, COUNTERS * sizeof *counter);
    assert_int_equal(failed, 0);
}

static tryst_subgroup *open_of(tryst_group *group, uint64_t epoch, const int32_t *members,
                               uint32_t count)
{
    tryst_subgroup_params params = {
        .struct_size = sizeof params, .epoch = epoch, .count = count, .members = members};
    tryst_subgroup *subgroup = NULL;
    CHECK_STATUS(tryst_subgroup_open(group, &params, &subgroup), TRYST_OK);
    return subgroup;
}

/* Start a sum of the twin's memory. */
static tryst_op *twin_sum_start(tryst_step *step, const tryst_subgroup *subgroup,
                                struct twin *twin, uint64_t count)
{
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .data = twin->host,
                           .count = count,
                           .dtype = TRYST_DTYPE_I64};
    twin_begin(twin, count * sizeof(int64_t));
    twin_tensor(twin, false, &tensor);
    tryst_op_params params = {.struct_size = sizeof params, .subgroup = subgroup};
    tryst_op *op;
    if (tryst_allreduce(step, "x", NULL, &tensor, TRYST_REDUCE_SUM, &params, &op) !=
        TRYST_OK)
        harness_fail(__FILE__, __LINE__, "%s", tryst_last_error());
    return op;
}

static tryst_op *sum_start(tryst_step *step, const tryst_subgroup *subgroup,
                           int64_t *data, uint64_t count)
{
    struct twin twin = {.host = (uint8_t *)data}; /* none */
    return twin_sum_start(step, subgroup, &twin, count);
}

static void fill(int64_t *data, uint64_t count, int64_t value)
{
    for (uint64_t i = 0; i < count; i++)
        data[i] = value + (int64_t)i;
}

static void check(const int64_t *data, uint64_t count, int64_t value, int64_t terms)
{
    for (uint64_t i = 0; i < count; i++)
        CHECK_EQ(data[i], value + terms * (int64_t)i);
}

/* ---- order of additions ------------------------------------------------------------ */

/* A term that no other order of additions would leave with the same bits. */
static float term(int rank, uint64_t i)
{
    uint64_t x = (i * 2654435761u + (uint64_t)rank * 40503u) * 0x9e3779b97f4a7c15u;
    return (float)(x >> 40) / (float)(1 + rank * 977);
}

/* Compute the sum at `member` for element i, as tryst_coll_order_get describes it. */
static float sum_of(const int32_t *members, const int32_t *parents, uint32_t count,
                    uint32_t member, uint64_t i)
{
    float sum = term(members[member], i);
    for (uint32_t child = 0; child < count; child++)
        if (parents[child] == (int32_t)member)
            sum += sum_of(members, parents, count, child, i);
    return sum;
}

/* Compute the result of an all-reduce of `n` elements among `members`. */
static void expected_fill(tryst_group *group, const int32_t *members, uint32_t count,
                          float *out, uint64_t n)
{
    const tryst_subgroup_params of = {
        .struct_size = sizeof of, .count = count, .members = members};
    const tryst_coll_params params = {.struct_size = sizeof params,
                                      .kind = TRYST_COLL_ALLREDUCE,
                                      .reduce = TRYST_REDUCE_SUM,
                                      .count = n,
                                      .dtype = TRYST_DTYPE_F32};
    tryst_coll_order order = {.struct_size = sizeof order, .trees = 1};
    uint64_t filled = 0;
    for (uint32_t tree = 0; tree < order.trees; tree++) {
        int32_t parents[RANKS];
        uint32_t root = 0;
        CHECK_STATUS(tryst_coll_order_get(group, &params, &of, tree, &order, parents),
                     TRYST_OK);
        CHECK_EQ(order.first, filled);
        filled += order.count;
        while (parents[root] >= 0)
            root++;
        for (uint64_t i = order.first; i < filled; i++)
            out[i] = sum_of(members, parents, count, root, i);
    }
    CHECK_EQ(filled, n);
}

/* Every rank, member or not, finds the order of each subgroup; the members' sums have
 * these bits. */
static void order_main(struct harness_rank *rank)
{
    static const int32_t members[] = {3, 1, 0, 5, 2, 4};
    static const uint64_t counts[] = {1, 100, 5000, LARGE};
    float *data = calloc(LARGE, sizeof *data), *expected = calloc(LARGE, sizeof *data);
    uint64_t random = (uint64_t)rank->rank + 1;
    for (uint64_t id = 1; id <= 4 * RANKS; id++) {
        uint32_t count = (uint32_t)((id - 1) % RANKS) + 1;
        uint64_t n = counts[(id - 1) / RANKS];
        bool is_member = false;
        for (uint32_t i = 0; i < count; i++)
            is_member = is_member || members[i] == rank->rank;
        expected_fill(rank->group, members, count, expected, n);
        tryst_step *step = harness_step(rank, id);
        if (is_member) {
            tryst_subgroup *subgroup = open_of(rank->group, 1, members, count);
            tryst_op_params params = {.struct_size = sizeof params, .subgroup = subgroup};
            tryst_tensor tensor = {.struct_size = sizeof tensor,
                                   .data = data,
                                   .count = n,
                                   .dtype = TRYST_DTYPE_F32};
            tryst_op *op;
            struct twin twin;
            for (uint64_t i = 0; i < n; i++)
                data[i] = term(rank->rank, i);
            twin_open(&twin, rank, data, n * sizeof *data, &random);
            twin_begin(&twin, twin.bytes);
            twin_tensor(&twin, false, &tensor);
            CHECK_STATUS(tryst_allreduce(step, "sum", NULL, &tensor, TRYST_REDUCE_SUM,
                                         &params, &op),
                         TRYST_OK);
            harness_end(op, TRYST_OK);
            twin_pull(&twin);
            twin_close(&twin);
            CHECK(memcmp(data, expected, n * sizeof *data) == 0);
            tryst_subgroup_close(subgroup);
        }
        harness_step_close(step);
    }
    free(data);
    free(expected);
}

static void test_order(void **state)
{
    run_ranks(order_main, HARNESS_NO_RANK);
}

static void order_refusals_main(struct harness_rank *rank)
{
    static const int32_t members[] = {2, 0}, twice[] = {2, 2}, outside[] = {0, RANKS};
    tryst_subgroup_params of = {.struct_size = sizeof of, .count = 2, .members = members};
    tryst_coll_params params = {.struct_size = sizeof params,
                                .kind = TRYST_COLL_ALLREDUCE,
                                .count = 10,
                                .dtype = TRYST_DTYPE_F32};
    tryst_coll_order order = {.struct_size = sizeof order};
    tryst_group *group = rank->group;
    int32_t parents[2];
    CHECK_STATUS(tryst_coll_order_get(NULL, &params, &of, 0, &order, parents),
                 TRYST_E_INVALID);
    CHECK_STATUS(tryst_coll_order_get(group, &params, NULL, 0, &order, parents),
                 TRYST_E_INVALID);
    CHECK_STATUS(tryst_coll_order_get(group, &params, &of, 0, &order, NULL),
                 TRYST_E_INVALID);
    CHECK_STATUS(tryst_coll_order_get(group, &params, &of, 0, &order, parents), TRYST_OK);
    CHECK_STATUS(tryst_coll_order_get(group, &params, &of, order.trees, &order, parents),
                 TRYST_E_INVALID);
    CHECK(strstr(tryst_last_error(), "the all-reduce has") != NULL);
    of.members = twice;
    CHECK_STATUS(tryst_coll_order_get(group, &params, &of, 0, &order, parents),
                 TRYST_E_INVALID);
    of.members = outside;
    CHECK_STATUS(tryst_coll_order_get(group, &params, &of, 0, &order, parents),
                 TRYST_E_INVALID);
    CHECK(strstr(tryst_last_error(), "cannot read the order of additions") != NULL);
    of.members = members;
    params.dtype = 0;
    CHECK_STATUS(tryst_coll_order_get(group, &params, &of, 0, &order, parents),
                 TRYST_E_INVALID);
    params.kind = TRYST_COLL_BROADCAST;
    CHECK_STATUS(tryst_coll_order_get(group, &params, &of, 0, &order, parents),
                 TRYST_E_UNSUPPORTED);
    params.kind = TRYST_COLL_ALLREDUCE;
    params.dtype = TRYST_DTYPE_F32;
    order.struct_size = 0;
    CHECK_STATUS(tryst_coll_order_get(group, &params, &of, 0, &order, parents),
                 TRYST_E_INVALID);
}

static void test_order_refusals(void **state)
{
    run_ranks(order_refusals_main, HARNESS_NO_RANK);
}

/* ---- results ----------------------------------------------------------------------- */

/* Even ranks, odd ranks and all ranks use one name in one step, in a different order on
 * each rank. */
static void halves_main(struct harness_rank *rank)
{
    static const int32_t members[2][3] = {{4, 0, 2}, {1, 3, 5}};
    static const int64_t sums[2] = {6, 9};
    int half = rank->rank % 2;
    tryst_subgroup *mine = open_of(rank->group, 7, members[half], 3);
    size_t bytes = LARGE * sizeof(int64_t);
    int64_t *of_half = calloc(1, bytes), *of_all = calloc(1, bytes);
    uint64_t random = (uint64_t)rank->rank + 1;
    struct twin twins[2];
    CHECK_EQ(tryst_subgroup_size(mine), 3);
    CHECK_EQ(tryst_subgroup_member(mine, tryst_subgroup_rank(mine)), rank->rank);
    CHECK_EQ(tryst_subgroup_member(mine, 3), -1);
    CHECK_EQ(tryst_subgroup_rank(NULL), -1);
    CHECK_EQ(tryst_subgroup_size(NULL), -1);
    CHECK_EQ(tryst_subgroup_member(NULL, 0), -1);
    for (uint64_t id = 1; id <= STEPS; id++) {
        uint64_t count = id % 3 ? id : LARGE;
        tryst_step *step = harness_step(rank, id);
        tryst_op *ops[2];
        fill(of_half, count, rank->rank);
        fill(of_all, count, rank->rank);
        twin_open(&twins[0], rank, of_half, bytes, &random);
        twin_open(&twins[1], rank, of_all, bytes, &random);
        for (int i = 0; i < 2; i++) {
            bool all = (i + rank->rank / 2) % 2;
            ops[i] = twin_sum_start(step, all ? NULL : mine, &twins[all], count);
        }
        for (int i = 0; i < 2; i++)
            harness_end(ops[i], TRYST_OK);
        for (int i = 0; i < 2; i++) {
            twin_pull(&twins[i]);
            twin_close(&twins[i]);
        }
        check(of_half, count, sums[half], 3);
        check(of_all, count, 15, RANKS);
        harness_step_close(step);
    }
    tryst_subgroup_close(mine);
    free(of_half);
    free(of_all);
}

static void test_halves(void **state)
{
    run_ranks(halves_main, HARNESS_NO_RANK);
}

/* Two subgroups of one epoch have two members in common, which use one name in two
 * orders. */
static void nested_main(struct harness_rank *rank)
{
    static const int32_t members[] = {0, 1, 2};
    uint32_t counts[2] = {3, 2};
    tryst_subgroup *subgroups[2];
    tryst_op *ops[2];
    int64_t data[2][3];
    int most = rank->rank < 2 ? 2 : rank->rank == 2 ? 1 : 0;
    tryst_step *step = harness_step(rank, 1);
    for (int i = 0; i < most; i++)
        subgroups[i] = open_of(rank->group, 7, members, counts[i]);
    for (int i = 0; i < most; i++) {
        int at = rank->rank == 1 ? 1 - i : i;
        fill(data[at], 3, rank->rank);
        ops[at] = sum_start(step, subgroups[at], data[at], 3);
    }
    for (int i = 0; i < most; i++) {
        harness_end(ops[i], TRYST_OK);
        check(data[i], 3, i ? 1 : 3, counts[i]);
        tryst_subgroup_close(subgroups[i]);
    }
    harness_step_close(step);
}

static void test_nested(void **state)
{
    run_ranks(nested_main, HARNESS_NO_RANK);
}

/* Subgroups that share members, or have the same members in another order or epoch, do
 * not meet. */
static void apart_main(struct harness_rank *rank)
{
    static const int32_t low[] = {0, 1, 2, 3}, high[] = {2, 3, 4, 5},
                         back[] = {3, 2, 1, 0};
    const struct {
        uint64_t epoch;
        const int32_t *members;
        int64_t sum;
    } rows[] = {{1, low, 6}, {1, high, 14}, {1, back, 6}, {2, low, 6}};
    tryst_subgroup *subgroups[COUNT_OF(rows)] = {NULL};
    tryst_op *ops[COUNT_OF(rows)] = {NULL};
    int64_t data[COUNT_OF(rows)];
    tryst_step *step = harness_step(rank, 1);
    for (unsigned i = 0; i < COUNT_OF(rows); i++) {
        unsigned at = rank->rank % 2 ? i : (unsigned)COUNT_OF(rows) - 1 - i;
        if ((rank->rank < 2 && rows[at].members == high) ||
            (rank->rank > 3 && rows[at].members != high))
            continue;
        data[at] = rank->rank;
        subgroups[at] = open_of(rank->group, rows[at].epoch, rows[at].members, 4);
        ops[at] = sum_start(step, subgroups[at], &data[at], 1);
    }
    for (unsigned i = 0; i < COUNT_OF(rows); i++) {
        if (ops[i]) {
            harness_end(ops[i], TRYST_OK);
            CHECK_EQ(data[i], rows[i].sum);
        }
        tryst_subgroup_close(subgroups[i]);
    }
    harness_step_close(step);
}

static void test_apart(void **state)
{
    run_ranks(apart_main, HARNESS_NO_RANK);
}

/* A root is a rank number of the subgroup. A prepared collective keeps its subgroup
 * open. */
static void root_main(struct harness_rank *rank)
{
    static const int32_t members[] = {5, 3, 1};
    tryst_step *step = harness_step(rank, 1);
    if (rank->rank % 2) {
        tryst_subgroup *subgroup = open_of(rank->group, 0, members, 3);
        tryst_coll_params params = {.struct_size = sizeof params,
                                    .kind = TRYST_COLL_BROADCAST,
                                    .count = 1,
                                    .dtype = TRYST_DTYPE_I64,
                                    .root = 1,
                                    .name = "from 3",
                                    .subgroup = subgroup};
        int64_t value = rank->rank;
        tryst_tensor tensor = {.struct_size = sizeof tensor,
                               .data = &value,
                               .count = 1,
                               .dtype = TRYST_DTYPE_I64};
        tryst_coll *coll;
        tryst_op *op;
        CHECK_STATUS(tryst_coll_prepare(rank->group, &params, &coll), TRYST_OK);
        tryst_subgroup_close(subgroup);
        CHECK_STATUS(tryst_coll_start(step, coll, NULL, &tensor, NULL, &op), TRYST_OK);
        harness_end(op, TRYST_OK);
        CHECK_EQ(value, 3);
        tryst_coll_release(coll);
    }
    harness_step_close(step);
}

static void test_root(void **state)
{
    run_ranks(root_main, HARNESS_NO_RANK);
}

/* Blocks are in the order of the members; counts and roots refer to the subgroup. */
static void blocks_main(struct harness_rank *rank)
{
    static const int32_t members[] = {5, 3, 1};
    static const uint64_t counts[] = {1, 0, 2};
    tryst_step *step = harness_step(rank, 1);
    if (rank->rank % 2) {
        tryst_subgroup *subgroup = open_of(rank->group, 0, members, 3);
        tryst_op_params params = {.struct_size = sizeof params, .subgroup = subgroup};
        uint64_t own_count = counts[tryst_subgroup_rank(subgroup)];
        int64_t own[2] = {rank->rank, rank->rank + 10}, all[3] = {0}, some[3] = {0};
        tryst_tensor one = {
            .struct_size = sizeof one, .data = own, .count = 1, .dtype = TRYST_DTYPE_I64};
        tryst_tensor mine = one, three = one, varied = one;
        tryst_op *ops[2];
        three.data = all;
        varied.data = some;
        three.count = varied.count = 3;
        mine.count = own_count;
        CHECK_STATUS(tryst_allgather(step, "all", &one, &three, &params, &ops[0]),
                     TRYST_OK);
        CHECK_STATUS(tryst_gatherv(step, "some", &mine, &varied, counts, NULL, 1, &params,
                                   &ops[1]),
                     TRYST_OK);
        for (int i = 0; i < 2; i++)
            harness_end(ops[i], TRYST_OK);
        for (int i = 0; i < 3; i++)
            CHECK_EQ(all[i], members[i]);
        if (rank->rank == 3) /* the root of this subgroup */
            CHECK(some[0] == 5 && some[1] == 1 && some[2] == 11);
        tryst_subgroup_close(subgroup);
    }
    harness_step_close(step);
}

static void test_blocks(void **state)
{
    run_ranks(blocks_main, HARNESS_NO_RANK);
}

/* ---- failures ---------------------------------------------------------------------- */

/* A rank dies. The collectives of the group and of the dead rank's subgroup fail with
 * that cause, now and later; those of the other subgroup, and of a subgroup that the
 * survivors open afterwards, succeed. */
static void death_main(struct harness_rank *rank)
{
    static const int32_t members[2][3] = {{0, 2, 4}, {1, 3, 5}};
    static const int32_t survivors[] = {0, 1, 2, 3, 5};
    tryst_subgroup *mine = open_of(rank->group, 0, members[rank->rank % 2], 3);
    int64_t *data = calloc(LARGE, sizeof *data);
    tryst_step *step = harness_step(rank, 1);
    harness_end(sum_start(step, NULL, data, 1), TRYST_OK);
    harness_barrier(rank, rank->arg);
    if (rank->rank == VICTIM)
        kill(getpid(), SIGKILL);
    for (int i = 0; i < 3; i++) {
        tryst_error error = {.struct_size = sizeof error};
        tryst_op *op = sum_start(step, NULL, data, LARGE);
        CHECK_STATUS(tryst_wait(op, 20000 * UINT64_C(1000000)), TRYST_E_PEER);
        tryst_op_error(op, &error);
        CHECK_EQ(error.origin_rank, VICTIM);
        tryst_op_release(op);
        harness_end(sum_start(step, mine, data, i ? 1 : LARGE),
                    rank->rank % 2 ? TRYST_OK : TRYST_E_PEER);
    }
    tryst_subgroup *left = open_of(rank->group, 1, survivors, 5);
    for (int i = 0; i < 3; i++) {
        fill(data, LARGE, rank->rank);
        harness_end(sum_start(step, left, data, LARGE), TRYST_OK);
        check(data, LARGE, 11, 5);
    }
    tryst_subgroup_close(left);
    tryst_subgroup_close(mine);
    harness_step_close(step);
    free(data);
}

static void test_death(void **state)
{
    if (harness_has_processes())
        run_ranks(death_main, VICTIM);
}

/* Wait for `count` ranks. */
static void await(struct harness_rank *rank, int which, uint32_t count)
{
    _Atomic(uint32_t) *counter = (_Atomic(uint32_t) *)rank->arg + which;
    atomic_fetch_add(counter, 1);
    while (atomic_load(counter) < count) {
        tryst_progress(rank->ctx);
        harness_sleep_ms(1);
    }
}

static void victim_error_check(tryst_op *op, int32_t victim)
{
    tryst_error error = {.struct_size = sizeof error};
    CHECK_STATUS(tryst_wait(op, 20000 * UINT64_C(1000000)), TRYST_E_PEER);
    tryst_op_error(op, &error);
    CHECK_EQ(error.origin_rank, victim);
    tryst_op_release(op);
}

/* Rank 4 dies, and rank 3 later. On rank 0, without any message from other members, a
 * collective of a subgroup with rank 3 then fails with rank 3 as its cause, and one with
 * rank 4 fails with rank 4. A subgroup without both works. */
static void two_deaths_main(struct harness_rank *rank)
{
    enum { SECOND = 3 };
    static const int32_t low[] = {0, 1, 2, SECOND}, outer[] = {0, VICTIM};
    static const int32_t left[] = {0, 1, 2, 5};
    bool is_low = rank->rank <= SECOND;
    tryst_subgroup *subgroup = is_low ? open_of(rank->group, 0, low, 4) : NULL;
    int64_t *data = calloc(LARGE, sizeof *data);
    tryst_step *step = harness_step(rank, 1);
    harness_end(sum_start(step, NULL, data, 1), TRYST_OK);
    await(rank, 0, RANKS);
    if (rank->rank == VICTIM)
        kill(getpid(), SIGKILL);
    victim_error_check(sum_start(step, NULL, data, LARGE), VICTIM);
    if (is_low)
        harness_end(sum_start(step, subgroup, data, 1), TRYST_OK);
    await(rank, 1, RANKS - 1);
    if (rank->rank == SECOND)
        /* not _exit, in which TSan would wait for its threads */
        syscall(SYS_exit_group, 0);
    if (is_low)
        victim_error_check(sum_start(step, subgroup, data, LARGE), SECOND);
    await(rank, 2, RANKS - 2);
    if (rank->rank == 0) { /* without help of the other members */
        tryst_subgroup *few = open_of(rank->group, 0, outer, 2);
        victim_error_check(sum_start(step, subgroup, data, 1), SECOND);
        victim_error_check(sum_start(step, few, data, 1), VICTIM);
        victim_error_check(sum_start(step, NULL, data, 1), VICTIM);
        tryst_subgroup_close(few);
    }
    await(rank, 3, RANKS - 2);
    tryst_subgroup_close(subgroup);
    subgroup = open_of(rank->group, 1, left, 4);
    harness_end(sum_start(step, subgroup, data, LARGE), TRYST_OK);
    tryst_subgroup_close(subgroup);
    harness_step_close(step);
    free(data);
}

static void test_two_deaths(void **state)
{
    if (harness_has_processes())
        run_ranks(two_deaths_main, VICTIM);
}

/* Start a collective of the group with a subgroup in the params of the start. */
static void other_refuse(const struct harness_rank *rank, tryst_step *step,
                         const tryst_op_params *params, const tryst_tensor *tensor)
{
    tryst_coll_params what = {.struct_size = sizeof what,
                              .kind = TRYST_COLL_ALLREDUCE,
                              .reduce = TRYST_REDUCE_SUM,
                              .count = tensor->count,
                              .dtype = tensor->dtype,
                              .name = "prepared"};
    tryst_coll *coll;
    CHECK_STATUS(tryst_coll_prepare(rank->group, &what, &coll), TRYST_OK);
    CHECK_STATUS(tryst_coll_start(step, coll, NULL, tensor, params, NULL),
                 TRYST_E_INVALID);
    CHECK(strstr(tryst_last_error(), "params->subgroup"));
    tryst_coll_release(coll);
}

static void refusals_main(struct harness_rank *rank)
{
    static const int32_t members[] = {0, 1, 2, 3, 4, 5}, twice[] = {0, 1, 2, 0, 0};
    static const int32_t outside[] = {0, 6}, below[] = {-1}, others[2][1] = {{1}, {0}};
    const struct {
        const int32_t *members;
        uint32_t count;
        const char *text;
    } rows[] = {{NULL, 1, "members"},    {members, 0, "count"},
                {members, 7, "count"},   {twice, 4, "twice"},
                {twice + 3, 2, "twice"}, {outside, 2, "0 to 5"},
                {below, 1, "0 to 5"},    {others[rank->rank == 1], 1, "not a member"}};
    tryst_subgroup *subgroup;
    for (unsigned i = 0; i < COUNT_OF(rows); i++) {
        tryst_subgroup_params params = {.struct_size = sizeof params,
                                        .count = rows[i].count,
                                        .members = rows[i].members};
        CHECK_STATUS(tryst_subgroup_open(rank->group, &params, &subgroup),
                     TRYST_E_INVALID);
        CHECK(strstr(tryst_last_error(), rows[i].text));
    }
    CHECK_STATUS(tryst_subgroup_open(NULL, NULL, &subgroup), TRYST_E_INVALID);
    tryst_subgroup_close(NULL);
    /* A valid root of the group that is not a rank of the subgroup. */
    int32_t alone = rank->rank;
    subgroup = open_of(rank->group, 0, &alone, 1);
    tryst_step *step = harness_step(rank, 1);
    tryst_op_params params = {.struct_size = sizeof params, .subgroup = subgroup};
    int64_t value = 3;
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .data = &value,
                           .count = 1,
                           .dtype = TRYST_DTYPE_I64};
    CHECK_STATUS(tryst_broadcast(step, "b", &tensor, 1, &params, NULL), TRYST_E_INVALID);
    other_refuse(rank, step, &params, &tensor);
    /* of a subgroup of one rank */
    harness_end(sum_start(step, subgroup, &value, 1), TRYST_OK);
    CHECK_EQ(value, 3);
    tryst_subgroup_close(subgroup);
    harness_step_close(step);
}

static void test_refusals(void **state)
{
    run_ranks(refusals_main, HARNESS_NO_RANK);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),  cmocka_unit_test(test_order_refusals),
        cmocka_unit_test(test_halves), cmocka_unit_test(test_nested),
        cmocka_unit_test(test_apart),  cmocka_unit_test(test_root),
        cmocka_unit_test(test_death),  cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_blocks), cmocka_unit_test(test_two_deaths),
    };
    return HARNESS_MAIN(argc, argv, tests);
}
