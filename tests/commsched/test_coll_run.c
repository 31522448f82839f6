/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of 1 to 8 ranks over random trees, in a different order on each rank, against a fold of this test's in
 * the plan's order: bitwise. */
#include "api/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/coll.h>

#include "commsched/coll/coll.h"
#include "commsched/coll/edges.h"
#include "commsched/coll/map.h"
#include "core/alloc.h"
#include "core/reduce.h"
#include "rendezvous/coll_op.h"
#include "support/unit.h"

enum { RANKS_MAX = 8, TREES_MAX = 3, CLASSES = 2, AT_ONCE = 5, LINE = 64 };

/* ---- random plans, the same on all ranks -------------------------------------------------- */

struct tree_drawn {
    int32_t root, parents[RANKS_MAX], children[RANKS_MAX][RANKS_MAX];
    uint32_t counts[RANKS_MAX];
};

struct plan_drawn {
    struct tree_drawn trees[TREES_MAX];
    struct coll_plan plans[RANKS_MAX];
    struct coll_class classes[RANKS_MAX][CLASSES];
    struct coll_tree_plan parts[RANKS_MAX][CLASSES][TREES_MAX];
};

static void tree_draw(struct tree_drawn *tree, int size, uint64_t *random)
{
    int32_t order[RANKS_MAX] = {0};
    memset(tree, 0, sizeof *tree);
    for (int i = 0; i < size; i++) {
        int at = (int)(harness_random(random) % (uint64_t)(i + 1));
        order[i] = order[at];
        order[at] = i;
    }
    tree->root = order[0];
    tree->parents[order[0]] = -1;
    for (int i = 1; i < size; i++) {
        int32_t parent = order[harness_random(random) % (uint64_t)i];
        tree->parents[order[i]] = parent;
        tree->children[parent][tree->counts[parent]++] = order[i];
    }
}

static void plan_draw(struct plan_drawn *drawn, int size, uint64_t seed)
{
    static const uint32_t slices[] = {4096, 8192, 65536, 16448};
    uint64_t random = seed | 1;
    uint32_t shares[CLASSES][TREES_MAX], slice[CLASSES], trees[CLASSES];
    for (int t = 0; t < TREES_MAX; t++)
        tree_draw(&drawn->trees[t], size, &random);
    for (int c = 0; c < CLASSES; c++) {
        uint32_t share = 0;
        slice[c] = slices[harness_random(&random) % COUNT_OF(slices)];
        trees[c] = 1 + (uint32_t)(harness_random(&random) % TREES_MAX);
        for (uint32_t t = 0; t < trees[c]; t++) {
            share += (uint32_t)(harness_random(&random) % (UINT32_MAX - share)) / 2;
            shares[c][t] = t + 1 == trees[c] ? UINT32_MAX : share;
        }
    }
    for (int rank = 0; rank < size; rank++) {
        drawn->plans[rank] = (struct coll_plan){.size = (uint32_t)size,
                                                .rank = rank,
                                                .classes_count = CLASSES,
                                                .classes = drawn->classes[rank]};
        for (int c = 0; c < CLASSES; c++) {
            drawn->classes[rank][c] =
                (struct coll_class){.bytes_max = c ? UINT64_MAX : 50000,
                                    .slice_bytes = slice[c],
                                    .trees_count = trees[c],
                                    .trees = drawn->parts[rank][c]};
            for (uint32_t t = 0; t < trees[c]; t++) {
                const struct tree_drawn *tree = &drawn->trees[t];
                drawn->parts[rank][c][t] =
                    (struct coll_tree_plan){.cum_share = shares[c][t],
                                            .root = tree->root,
                                            .up_parent = tree->parents[rank],
                                            .down_parent = tree->parents[rank],
                                            .up_children_count = tree->counts[rank],
                                            .down_children_count = tree->counts[rank],
                                            .up_children = tree->children[rank],
                                            .down_children = tree->children[rank],
                                            .up_parents = tree->parents,
                                            .down_parents = tree->parents};
            }
        }
    }
}

/* ---- one collective ----------------------------------------------------------------------- */

struct what {
    tryst_coll_kind kind;
    tryst_reduce_op reduce;
    tryst_dtype dtype;
    uint64_t count, seed;
    int root;
    bool in_place, prepared;
    size_t shift; /* bytes by which memory is not aligned */
    char name[32];
    size_t element_bytes, bytes;
    const struct reduce_kernel *kernel;
};

static struct what what_draw(int size, uint64_t seed, unsigned index)
{
    static const uint64_t counts[] = {0,    1,    3,     63,    1000,
                                      4097, 9999, 20011, 65536, 262151};
    uint64_t random = (seed * 31 + index) * 2654435761u | 1;
    struct what what = {.seed = harness_random(&random)};
    do {
        what.kind = (tryst_coll_kind)(1 + harness_random(&random) % 4);
        what.reduce = (tryst_reduce_op)(1 + harness_random(&random) % TRYST_REDUCE_XOR);
        what.dtype = (tryst_dtype)(1 + harness_random(&random) % TRYST_DTYPE_U64);
        what.kernel = reduce_kernel_get(what.dtype, what.reduce);
    } while (!what.kernel || (what.kind == TRYST_COLL_BARRIER && index % 2));
    what.count = what.kind == TRYST_COLL_BARRIER
                     ? 0
                     : counts[harness_random(&random) % COUNT_OF(counts)];
    what.root = (int)(harness_random(&random) % (uint64_t)size);
    what.in_place = harness_random(&random) % 2;
    what.prepared = harness_random(&random) % 2;
    what.shift = harness_random(&random) % 3;
    what.element_bytes = tryst_dtype_bytes(what.dtype);
    what.bytes = what.count * what.element_bytes;
    snprintf(what.name, sizeof what.name, "c%llu.%u", (unsigned long long)seed, index);
    return what;
}

/* Elements of a rank: numbers of moderate size, so that sums round. */
static void fill(const struct what *what, int rank, char *data)
{
    uint64_t random = (what->seed + (uint64_t)rank * 977) | 1;
    for (uint64_t i = 0; i < what->count; i++) {
        uint64_t bits = harness_random(&random);
        uint16_t half = (uint16_t)((bits & 0x8fff) | (12 + (bits >> 20) % 4) << 10);
        uint16_t brain = (uint16_t)((bits & 0x807f) | (124 + (bits >> 20) % 6) << 7);
        float single = (float)((int64_t)(bits % 2000001) - 1000000) / 977.0f;
        double full = (double)((int64_t)(bits % 2000001) - 1000000) / 977.0;
        const void *from = &bits;
        from = what->dtype == TRYST_DTYPE_F16 ? &half : from;
        from = what->dtype == TRYST_DTYPE_BF16 ? &brain : from;
        from = what->dtype == TRYST_DTYPE_F32 ? (const void *)&single : from;
        from = what->dtype == TRYST_DTYPE_F64 ? (const void *)&full : from;
        memcpy(data + i * what->element_bytes, from, what->element_bytes);
    }
}

static double factor_of(int rank)
{
    return 0.5 + rank * 0.3;
}

/* The fold of what is below `rank` in one range. */
static void fold(const struct plan_drawn *drawn, const struct what *what,
                 const struct coll_tree_plan *trees, int rank, struct coll_range range,
                 char *const *own, char *sum)
{
    int32_t children[RANKS_MAX + 1];
    struct coll_edges edges = {.children = children};
    size_t begin = range.begin * what->element_bytes;
    size_t bytes = range.count * what->element_bytes;
    uint32_t tree = (uint32_t)(trees - drawn->parts[0][0]) % TREES_MAX;
    uint32_t class = (uint32_t)(trees - drawn->parts[0][0]) / TREES_MAX;
    coll_edges_find(&drawn->plans[rank], &drawn->parts[rank][class][tree], true,
                    what->kind == TRYST_COLL_REDUCE ? what->root : -1, &edges);
    if (what->reduce == TRYST_REDUCE_PREMULTIPLIED_SUM)
        what->kernel->scale(sum, own[rank] + begin, range.count, factor_of(rank));
    else
        memcpy(sum, own[rank] + begin, bytes);
    char *below = malloc(bytes + 1);
    for (uint32_t c = 0; c < edges.children_count; c++) {
        fold(drawn, what, trees, children[c], range, own, below);
        what->kernel->reduce(sum, sum, below, range.count);
    }
    free(below);
}

/* What every rank (reduce: the root) must have at the end. */
static void reference(const struct plan_drawn *drawn, const struct what *what, int size,
                      char *const *own, char *result)
{
    const struct coll_class *class = coll_class_of(&drawn->plans[0], what->bytes);
    if (what->kind == TRYST_COLL_BROADCAST) {
        memcpy(result, own[what->root], what->bytes);
        return;
    }
    for (uint32_t t = 0; t < class->trees_count; t++) {
        struct coll_range range =
            coll_range_of(class, t, what->count, what->element_bytes);
        char *at = result + range.begin * what->element_bytes;
        int root = what->kind == TRYST_COLL_REDUCE ? what->root : class->trees[t].root;
        fold(drawn, what, &class->trees[t], root, range, own, at);
        if (what->reduce == TRYST_REDUCE_AVERAGE && size > 1)
            what->kernel->scale(at, at, range.count, size);
    }
}

struct trial {
    struct what what;
    char *memory, *in, *out, *result, *own[RANKS_MAX];
    tryst_coll *coll;
    tryst_op *op;
};

static void trial_open(struct trial *trial, const struct harness_rank *rank)
{
    size_t room = trial->what.bytes + LINE;
    trial->memory = malloc((size_t)(rank->size + 3) * room);
    CHECK(trial->memory);
    trial->in = trial->memory + trial->what.shift;
    trial->out = trial->memory + room + trial->what.shift;
    trial->result = trial->memory + 2 * room;
    for (int i = 0; i < rank->size; i++) {
        trial->own[i] = trial->memory + (size_t)(3 + i) * room;
        fill(&trial->what, i, trial->own[i]);
    }
    bool has_term =
        trial->what.kind != TRYST_COLL_BROADCAST || rank->rank == trial->what.root;
    memset(trial->out, 0x5a, trial->what.bytes);
    memcpy(trial->in, trial->own[rank->rank], trial->what.bytes);
    if (has_term && (trial->what.in_place || trial->what.kind == TRYST_COLL_BROADCAST))
        memcpy(trial->out, trial->in, trial->what.bytes);
}

static tryst_status prepared_start(struct trial *trial, const struct harness_rank *rank,
                                   tryst_step *step, const tryst_tensor *in,
                                   const tryst_tensor *out, const tryst_op_params *params)
{
    const struct what *what = &trial->what;
    tryst_coll_params coll_params = {.struct_size = sizeof coll_params,
                                     .kind = what->kind,
                                     .reduce = what->reduce,
                                     .count = what->count,
                                     .dtype = what->dtype,
                                     .root = what->root,
                                     .name = what->name};
    CHECK_STATUS(tryst_coll_prepare(rank->group, &coll_params, &trial->coll), TRYST_OK);
    return tryst_coll_start(step, trial->coll, in, out, params, &trial->op);
}

static void trial_start(struct trial *trial, const struct harness_rank *rank,
                        tryst_step *step)
{
    const struct what *what = &trial->what;
    tryst_tensor in = {.struct_size = sizeof in,
                       .data = trial->in,
                       .count = what->count,
                       .dtype = what->dtype};
    tryst_tensor out = in;
    tryst_op_params params = {.struct_size = sizeof params,
                              .factor = factor_of(rank->rank),
                              .flags = TRYST_OP_PRIORITY,
                              .priority = (int32_t)(what->seed % 3)};
    out.data = trial->out;
    bool in_place = what->in_place &&
                    (what->kind == TRYST_COLL_ALLREDUCE || rank->rank == what->root);
    const tryst_tensor *from = in_place ? NULL : &in;
    tryst_status status;
    if (what->prepared)
        status = prepared_start(trial, rank, step, from, &out, &params);
    else if (what->kind == TRYST_COLL_ALLREDUCE)
        status = tryst_allreduce(step, what->name, from, &out, what->reduce, &params,
                                 &trial->op);
    else if (what->kind == TRYST_COLL_REDUCE)
        status = tryst_reduce(step, what->name, from, &out, what->reduce, what->root,
                              &params, &trial->op);
    else if (what->kind == TRYST_COLL_BROADCAST)
        status = tryst_broadcast(step, what->name, &out, what->root, &params, &trial->op);
    else
        status = tryst_barrier(step, what->name, &params, &trial->op);
    if (status != TRYST_OK)
        harness_fail(__FILE__, __LINE__, "%s: %s", what->name, tryst_last_error());
}

static void trial_end(struct trial *trial, const struct harness_rank *rank,
                      const struct plan_drawn *drawn)
{
    const struct what *what = &trial->what;
    tryst_error error = {.struct_size = sizeof error, .text = ""};
    tryst_status status = tryst_wait(trial->op, TRYST_FOREVER);
    (void)tryst_op_error(trial->op, &error);
    if (status != TRYST_OK)
        harness_fail(__FILE__, __LINE__, "%s: %s: %s", what->name,
                     tryst_status_name(status), error.text);
    tryst_op_release(trial->op);
    tryst_coll_release(trial->coll);
    bool has_result = what->kind != TRYST_COLL_REDUCE || rank->rank == what->root;
    reference(drawn, what, rank->size, trial->own, trial->result);
    for (size_t i = 0; i < what->bytes && has_result; i++)
        if (trial->out[i] != trial->result[i])
            harness_fail(__FILE__, __LINE__,
                         "%s: kind %d, %s %s, %llu elements, root %d, in place %d, "
                         "prepared %d: byte %zu is wrong",
                         what->name, (int)what->kind, tryst_dtype_name(what->dtype),
                         reduce_op_name(what->reduce), (unsigned long long)what->count,
                         what->root, what->in_place, what->prepared, i);
    free(trial->memory);
}

static void round_run(struct harness_rank *rank, uint64_t seed, uint64_t step_id)
{
    struct plan_drawn *drawn = malloc(sizeof *drawn);
    struct trial trials[AT_ONCE] = {0};
    unsigned order[AT_ONCE];
    uint64_t random = (seed + (uint64_t)rank->rank) * 7919 | 1;
    plan_draw(drawn, rank->size, seed * 7 + 1);
    colls_plan_set(group_above(rank->group), &drawn->plans[rank->rank]);
    tryst_step *step = harness_step(rank, step_id);
    for (unsigned i = 0; i < AT_ONCE; i++) {
        unsigned at = (unsigned)(harness_random(&random) % (i + 1));
        order[i] = order[at];
        order[at] = i;
        trials[i].what = what_draw(rank->size, seed, i);
        trial_open(&trials[i], rank);
    }
    for (unsigned i = 0; i < AT_ONCE; i++) {
        trial_start(&trials[order[i]], rank, step);
        if (harness_random(&random) % 2)
            tryst_progress(rank->ctx);
    }
    for (unsigned i = 0; i < AT_ONCE; i++)
        trial_end(&trials[order[i]], rank, drawn);
    harness_step_close(step);
    free(drawn);
}

static void random_main(struct harness_rank *rank)
{
    uint64_t seed = *(uint64_t *)rank->arg;
    const char *rounds = getenv("TRYST_TEST_ROUNDS");
    uint64_t count = rounds ? strtoull(rounds, NULL, 10) : 12;
    for (uint64_t i = 0; i < count; i++)
        round_run(rank, seed + i, i + 1);
}

static void random_run(int size, const char *const *config)
{
    uint64_t *seed = harness_share(sizeof *seed);
    *seed = unit_seed() + (uint64_t)size * 1000;
    struct harness_params params = {.size = size,
                                    .main = random_main,
                                    .arg = seed,
                                    .config = config,
                                    .timeout_s = 90};
    int failed = harness_run(&params);
    harness_unshare(seed, sizeof *seed);
    assert_int_equal(failed, 0);
}

static void test_one_rank(void **state)
{
    random_run(1, NULL);
}

static void test_few_ranks(void **state)
{
    random_run(2, NULL);
    random_run(3, NULL);
}

static void test_many_ranks(void **state)
{
    random_run(5, NULL);
    random_run(8, NULL);
}

/* One slot of scratch a rank, and no DATA: all collectives take turns. */
static void test_least_scratch(void **state)
{
    static const char *const config[] = {"scratch_bytes", "4K", "eager_max", "0", NULL};
    random_run(4, config);
}

/* ---- no allocation ------------------------------------------------------------------------ */

/* Of one rank: the engine's share of a start, without flows. */
static void steady_main(struct harness_rank *rank)
{
    static float data[100000];
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .data = data,
                           .count = COUNT_OF(data),
                           .dtype = TRYST_DTYPE_F32};
    tryst_coll_params params = {.struct_size = sizeof params,
                                .kind = TRYST_COLL_ALLREDUCE,
                                .reduce = TRYST_REDUCE_PREMULTIPLIED_SUM,
                                .count = COUNT_OF(data),
                                .dtype = TRYST_DTYPE_F32,
                                .name = "prepared"};
    tryst_coll *coll;
    uint64_t seen = 0;
    CHECK_STATUS(tryst_coll_prepare(rank->group, &params, &coll), TRYST_OK);
    tryst_step *step = harness_step(rank, 1);
    for (int i = 0; i < 20; i++) {
        tryst_op *ops[3];
        if (i == 5)
            seen = alloc_seen_count();
        CHECK_STATUS(tryst_coll_start(step, coll, NULL, &tensor, NULL, &ops[0]),
                     TRYST_OK);
        CHECK_STATUS(
            tryst_allreduce(step, "once", NULL, &tensor, TRYST_REDUCE_SUM, NULL, &ops[1]),
            TRYST_OK);
        CHECK_STATUS(tryst_barrier(step, "here", NULL, &ops[2]), TRYST_OK);
        for (int j = 0; j < 3; j++)
            harness_end(ops[j], TRYST_OK);
    }
    CHECK_EQ(alloc_seen_count(), seen);
    harness_step_close(step);
    tryst_coll_release(coll);
}

static void test_steady(void **state)
{
    struct harness_params params = {.size = 1, .main = steady_main, .timeout_s = 60};
    assert_int_equal(harness_run(&params), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_rank), cmocka_unit_test(test_few_ranks),
        cmocka_unit_test(test_many_ranks), cmocka_unit_test(test_least_scratch),
        cmocka_unit_test(test_steady)};
    return HARNESS_MAIN(argc, argv, tests);
}
