/* SPDX-License-Identifier: Apache-2.0 */
/* All-gather, reduce-scatter, all-to-all, gather and scatter of 1 to 8 ranks over random
 * trees, in a different order on each rank. The results, and the memory between the
 * blocks, are compared bit by bit with a serial reference. */
#include "api/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/coll.h>

#include "coll_rounds.h"
#include "core/memory/alloc.h"
#include "rendezvous/coll_op.h"
#include "support/unit.h"

enum { AT_ONCE = 6, LINE = 64, FILLER = 0x5a };

/* ---- one collective ---------------------------------------------------------------- */

struct what {
    /* terms of a reduce-scatter: all blocks, one behind the other */
    struct terms_drawn terms;
    tryst_coll_kind kind;
    tryst_reduce_op reduce;
    tryst_dtype dtype;
    uint64_t seed, counts[RANKS_MAX][RANKS_MAX]; /* counts of the block [from][to] */
    int root;
    bool varies, spaced, in_place, prepared;
    size_t shift, element_bytes;
    char name[32];
    const struct reduce_kernel *kernel;
};

static void counts_draw(struct what *what, int size, uint64_t *random)
{
    static const uint64_t counts[] = {0, 1, 3, 17, 63, 1000, 2500, 4097, 20011, 70001};
    uint64_t choices = COUNT_OF(counts) - (what->kind == TRYST_COLL_ALLTOALL);
    uint64_t equal = counts[harness_random(random) % choices];
    for (int from = 0; from < size; from++)
        for (int to = 0; to < size; to++)
            what->counts[from][to] =
                what->varies ? counts[harness_random(random) % choices] : equal;
    for (int from = 0; from < size; from++)
        for (int to = 0; to < size; to++) {
            if (what->kind == TRYST_COLL_ALLGATHER || what->kind == TRYST_COLL_GATHER)
                what->counts[from][to] = what->counts[from][0];
            if (what->kind == TRYST_COLL_REDUCE_SCATTER ||
                what->kind == TRYST_COLL_SCATTER)
                what->counts[from][to] = what->counts[0][to];
        }
}

static struct what what_draw(int size, uint64_t seed, unsigned index)
{
    uint64_t random = (seed * 31 + index) * 2654435761u | 1;
    struct what what = {.seed = harness_random(&random)};
    do {
        what.kind = (tryst_coll_kind)(TRYST_COLL_ALLGATHER + harness_random(&random) % 5);
        what.reduce = (tryst_reduce_op)(1 + harness_random(&random) % TRYST_REDUCE_XOR);
        what.dtype = (tryst_dtype)(1 + harness_random(&random) % TRYST_DTYPE_U64);
        what.kernel = reduce_kernel_get(what.dtype, what.reduce);
    } while (!what.kernel);
    what.varies = harness_random(&random) % 2;
    what.spaced = what.varies && harness_random(&random) % 2;
    what.root = (int)(harness_random(&random) % (uint64_t)size);
    what.in_place = what.kind != TRYST_COLL_ALLTOALL && harness_random(&random) % 2;
    what.prepared = harness_random(&random) % 2;
    what.shift = harness_random(&random) % 3;
    what.element_bytes = tryst_dtype_bytes(what.dtype);
    counts_draw(&what, size, &random);
    uint64_t total = 0;
    for (int to = 0; to < size; to++)
        total += what.counts[0][to];
    what.terms = (struct terms_drawn){what.dtype,         what.reduce, what.kernel,
                                      what.element_bytes, total,       what.seed};
    snprintf(what.name, sizeof what.name, "b%llu.%u", (unsigned long long)seed, index);
    return what;
}

/* ---- tensors of one rank ----------------------------------------------------------- */

/* The tensor of one side: the blocks of all ranks (has_all), or one block. */
struct side {
    bool has_all, is_given;
    uint64_t counts[RANKS_MAX], offsets[RANKS_MAX], end;
    char *data;
};

struct trial {
    struct what what;
    struct side in, out;
    char *memory, *in_memory, *out_memory, *expected;
    tryst_coll *coll;
    tryst_op *op;
};

/* Lay out the blocks. Spaced blocks are in reverse order, with gaps. */
static void side_lay(struct side *side, const struct what *what, int size, uint64_t gap)
{
    side->end = 0;
    for (int i = 0; i < size; i++) {
        int at = what->spaced ? size - 1 - i : i;
        if (!side->has_all && at)
            continue;
        side->offsets[at] = side->end + (what->spaced ? gap : 0);
        side->end = side->offsets[at] + side->counts[at];
    }
}

static void one_lay(struct side *side)
{
    side->offsets[0] = 0;
    side->end = side->counts[0];
}

static void sides_draw(struct trial *trial, int rank, int size)
{
    const struct what *what = &trial->what;
    bool is_root = rank == what->root;
    struct side *in = &trial->in, *out = &trial->out;
    tryst_coll_kind kind = what->kind;
    in->is_given = kind != TRYST_COLL_SCATTER || is_root;
    out->is_given = kind != TRYST_COLL_GATHER || is_root;
    in->has_all = kind == TRYST_COLL_REDUCE_SCATTER || kind == TRYST_COLL_ALLTOALL ||
                  kind == TRYST_COLL_SCATTER;
    out->has_all = kind == TRYST_COLL_ALLGATHER || kind == TRYST_COLL_ALLTOALL ||
                   kind == TRYST_COLL_GATHER;
    for (int i = 0; i < size; i++) {
        in->counts[i] = what->counts[rank][in->has_all ? i : 0];
        out->counts[i] = what->counts[out->has_all ? i : 0][rank];
    }
    side_lay(in, what, size, 3 + (uint64_t)rank);
    side_lay(out, what, size, 5 + (uint64_t)rank);
    if (!in->has_all)
        one_lay(in);
    if (!out->has_all)
        one_lay(out);
}

/* Fill the block that `from` sends to `to`. A gather sends the same block to all
 * ranks. */
static void block_fill(const struct what *what, int from, int to, char *data)
{
    bool same = what->kind == TRYST_COLL_ALLGATHER || what->kind == TRYST_COLL_GATHER;
    uint64_t random = (what->seed + (uint64_t)from * 977 + (same ? 0 : (uint64_t)to)) | 1;
    for (size_t i = 0; i < what->counts[from][to] * what->element_bytes; i++)
        data[i] = (char)harness_random(&random);
}

static char *block_at(const struct what *what, const struct side *side, char *data, int i)
{
    return data + side->offsets[side->has_all ? i : 0] * what->element_bytes;
}

static bool is_packed(const struct what *what, int size)
{
    uint64_t bytes = what->terms.count * what->element_bytes;
    return size > 4 && bytes && bytes <= 128u << 10 &&
           bytes <= (uint64_t)(size - 1) * (16u << 10);
}

/* Reduce the part of a reduce-scatter that is in `range` of the tensor of all blocks. */
static void range_reduce(const struct plan_drawn *drawn, const struct what *what,
                         int size, uint32_t class, uint32_t tree, int root,
                         struct coll_range range, char *const *own, char *to)
{
    const struct coll_tree_plan *of = &drawn->classes[0][class].trees[tree];
    terms_fold(drawn, &what->terms, of, root, root < 0 ? of->root : root, range, own, to);
    if (what->reduce == TRYST_REDUCE_AVERAGE && size > 1)
        what->kernel->scale(to, to, range.count, size);
}

static bool counts_are_equal(const struct what *what, int size)
{
    for (int to = 1; to < size; to++)
        if (what->counts[0][to] != what->counts[0][0])
            return false;
    return true;
}

static void reduce_expect(const struct plan_drawn *drawn, const struct what *what,
                          int rank, int size, char *to)
{
    char *own[RANKS_MAX], *all = malloc(what->terms.count * what->element_bytes + 1);
    uint64_t before = 0, count = what->counts[0][rank];
    bool packed = is_packed(what, size);
    for (int i = 0; i < rank; i++)
        before += what->counts[0][i];
    for (int i = 0; i < size; i++) {
        own[i] = malloc(what->terms.count * what->element_bytes + 1);
        terms_fill(&what->terms, i, own[i]);
    }
    uint64_t cut = packed ? what->terms.count : count;
    const struct coll_class *class =
        coll_class_of(&drawn->plans[0], cut * what->element_bytes);
    bool direct = !packed && counts_are_equal(what, size) &&
                  coll_has_tree_for_each_root(class, (uint32_t)size);
    for (uint32_t t = 0; t < class->trees_count; t++) {
        struct coll_range range = coll_range_of(class, t, cut, what->element_bytes);
        if (direct)
            range = (struct coll_range){0, (int)t == rank ? cut : 0};
        range.begin += packed ? 0 : before;
        range_reduce(drawn, what, size, (uint32_t)(class - drawn->classes[0]), t,
                     packed ? -1 : rank, range, own,
                     all + range.begin * what->element_bytes);
    }
    memcpy(to, all + before * what->element_bytes, count * what->element_bytes);
    for (int i = 0; i < size; i++)
        free(own[i]);
    free(all);
}

static void in_fill(const struct trial *trial, int rank, int size, char *data)
{
    const struct what *what = &trial->what;
    char *all = NULL;
    if (what->kind == TRYST_COLL_REDUCE_SCATTER) {
        all = malloc(what->terms.count * what->element_bytes + 1);
        terms_fill(&what->terms, rank, all);
    }
    uint64_t before = 0;
    for (int i = 0; i < (trial->in.has_all ? size : 1); i++) {
        char *block = block_at(what, &trial->in, data, i);
        if (all)
            memcpy(block, all + before, what->counts[rank][i] * what->element_bytes);
        else
            block_fill(what, rank, i, block);
        before += what->counts[rank][i] * what->element_bytes;
    }
    free(all);
}

static void out_expect(const struct plan_drawn *drawn, const struct trial *trial,
                       int rank, int size, char *data)
{
    const struct what *what = &trial->what;
    if (what->kind == TRYST_COLL_REDUCE_SCATTER) {
        reduce_expect(drawn, what, rank, size, data);
        return;
    }
    for (int i = 0; i < (trial->out.has_all ? size : 1); i++)
        block_fill(what, trial->out.has_all ? i : what->root, rank,
                   block_at(what, &trial->out, data, i));
}

/* True if this rank's own block has one address in both tensors. */
static bool is_in_place(const struct trial *trial)
{
    return trial->what.in_place && trial->in.is_given && trial->out.is_given &&
           trial->what.kind != TRYST_COLL_ALLTOALL;
}

static void trial_open(struct trial *trial, const struct harness_rank *rank)
{
    const struct what *what = &trial->what;
    struct side *in = &trial->in, *out = &trial->out;
    sides_draw(trial, rank->rank, rank->size);
    size_t in_room = in->end * what->element_bytes + LINE;
    size_t out_room = out->end * what->element_bytes + LINE;
    trial->memory = malloc(in_room + 2 * out_room);
    CHECK(trial->memory);
    memset(trial->memory, FILLER, in_room + 2 * out_room);
    trial->in_memory = trial->memory;
    trial->out_memory = trial->memory + in_room;
    trial->expected = trial->out_memory + out_room;
    in->data = trial->in_memory + what->shift;
    out->data = trial->out_memory + what->shift;
    if (is_in_place(trial) && in->has_all)
        out->data = block_at(what, in, in->data, rank->rank);
    else if (is_in_place(trial))
        in->data = block_at(what, out, out->data, rank->rank);
    if (in->is_given)
        in_fill(trial, rank->rank, rank->size, in->data);
}

/* ---- start ------------------------------------------------------------------------- */

static tryst_status prepared_start(struct trial *trial, const struct harness_rank *rank,
                                   tryst_step *step, const tryst_tensor *in,
                                   const tryst_tensor *out, const tryst_op_params *params)
{
    const struct what *what = &trial->what;
    const struct side *from = &trial->in, *to = &trial->out;
    bool in_is_all = from->has_all && from->is_given;
    bool out_is_all = to->has_all && to->is_given;
    tryst_coll_params coll_params = {
        .struct_size = sizeof coll_params,
        .kind = what->kind,
        .reduce = what->reduce,
        .count = from->has_all ? to->counts[0] : from->counts[0],
        .dtype = what->dtype,
        .root = what->root,
        .name = what->name,
        .in_counts = what->varies && in_is_all ? from->counts : NULL,
        .in_offsets = what->spaced && in_is_all ? from->offsets : NULL,
        .out_counts = what->varies && out_is_all ? to->counts : NULL,
        .out_offsets = what->spaced && out_is_all ? to->offsets : NULL};
    tryst_status status = tryst_coll_prepare(rank->group, &coll_params, &trial->coll);
    return status == TRYST_OK
               ? tryst_coll_start(step, trial->coll, in, out, params, &trial->op)
               : status;
}

static tryst_status equal_start(struct trial *trial, tryst_step *step,
                                const tryst_tensor *in, const tryst_tensor *out,
                                const tryst_op_params *params)
{
    const struct what *what = &trial->what;
    switch (what->kind) {
    case TRYST_COLL_ALLGATHER:
        return tryst_allgather(step, what->name, in, out, params, &trial->op);
    case TRYST_COLL_REDUCE_SCATTER:
        return tryst_reduce_scatter(step, what->name, in, out, what->reduce, params,
                                    &trial->op);
    case TRYST_COLL_ALLTOALL:
        return tryst_alltoall(step, what->name, in, out, params, &trial->op);
    case TRYST_COLL_GATHER:
        return tryst_gather(step, what->name, in, out, what->root, params, &trial->op);
    default:
        return tryst_scatter(step, what->name, in, out, what->root, params, &trial->op);
    }
}

static tryst_status varying_start(struct trial *trial, tryst_step *step,
                                  const tryst_tensor *in, const tryst_tensor *out,
                                  const tryst_op_params *params)
{
    const struct what *what = &trial->what;
    const struct side *from = &trial->in, *to = &trial->out;
    const uint64_t *from_at = what->spaced ? from->offsets : NULL;
    const uint64_t *to_at = what->spaced ? to->offsets : NULL;
    switch (what->kind) {
    case TRYST_COLL_ALLGATHER:
        return tryst_allgatherv(step, what->name, in, out, to->counts, to_at, params,
                                &trial->op);
    case TRYST_COLL_REDUCE_SCATTER:
        return tryst_reduce_scatterv(step, what->name, in, from->counts, from_at, out,
                                     what->reduce, params, &trial->op);
    case TRYST_COLL_ALLTOALL:
        return tryst_alltoallv(step, what->name, in, from->counts, from_at, out,
                               to->counts, to_at, params, &trial->op);
    case TRYST_COLL_GATHER:
        return tryst_gatherv(step, what->name, in, out, to->is_given ? to->counts : NULL,
                             to_at, what->root, params, &trial->op);
    default:
        return tryst_scatterv(step, what->name, in, from->is_given ? from->counts : NULL,
                              from_at, out, what->root, params, &trial->op);
    }
}

static tryst_tensor tensor_of(const struct what *what, const struct side *side)
{
    return (tryst_tensor){.struct_size = sizeof(tryst_tensor),
                          .data = side->data,
                          .count = side->end,
                          .dtype = what->dtype};
}

static void trial_start(struct trial *trial, const struct harness_rank *rank,
                        tryst_step *step)
{
    const struct what *what = &trial->what;
    tryst_tensor in_tensor = tensor_of(what, &trial->in);
    tryst_tensor out_tensor = tensor_of(what, &trial->out);
    tryst_op_params params = {.struct_size = sizeof params,
                              .factor = terms_factor(rank->rank),
                              .flags = TRYST_OP_PRIORITY,
                              .priority = (int32_t)(what->seed % 3)};
    const tryst_tensor *in = trial->in.is_given ? &in_tensor : NULL;
    const tryst_tensor *out = trial->out.is_given ? &out_tensor : NULL;
    if (is_in_place(trial) && what->seed % 2 && what->kind != TRYST_COLL_REDUCE_SCATTER)
        *(trial->in.has_all ? &out : &in) = NULL;
    tryst_status status = what->prepared
                              ? prepared_start(trial, rank, step, in, out, &params)
                          : what->varies ? varying_start(trial, step, in, out, &params)
                                         : equal_start(trial, step, in, out, &params);
    if (status != TRYST_OK)
        harness_fail(__FILE__, __LINE__, "%s: %s", what->name, tryst_last_error());
}

/* ---- end --------------------------------------------------------------------------- */

static void compare(const struct what *what, const char *got, const char *expected,
                    size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (got[i] != expected[i])
            harness_fail(__FILE__, __LINE__,
                         "%s: kind %d, %s %s, root %d, varies %d, spaced %d, in place "
                         "%d, prepared %d: byte %zu of %zu is wrong",
                         what->name, (int)what->kind, tryst_dtype_name(what->dtype),
                         reduce_op_name(what->reduce), what->root, what->varies,
                         what->spaced, what->in_place, what->prepared, i, bytes);
}

/* Compare the input, which must be unchanged, except for a block that is also the
 * output. */
static void in_compare(const struct trial *trial, const struct harness_rank *rank)
{
    const struct what *what = &trial->what;
    const struct side *in = &trial->in;
    size_t bytes = in->end * what->element_bytes;
    char *before = malloc(bytes + 1);
    if (in->is_given && (in->has_all || !is_in_place(trial))) {
        memset(before, FILLER, bytes);
        in_fill(trial, rank->rank, rank->size, before);
        if (is_in_place(trial))
            memcpy(block_at(what, in, before, rank->rank), trial->out.data,
                   trial->out.end * what->element_bytes);
        compare(what, in->data, before, bytes);
    }
    free(before);
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
    size_t bytes = trial->out.end * what->element_bytes;
    if (trial->out.is_given) {
        out_expect(drawn, trial, rank->rank, rank->size, trial->expected);
        compare(what, trial->out.data, trial->expected, bytes);
    }
    in_compare(trial, rank);
    free(trial->memory);
}

static void random_open(void *trial, const struct harness_rank *rank, uint64_t seed,
                        unsigned number)
{
    ((struct trial *)trial)->what = what_draw(rank->size, seed, number);
    trial_open(trial, rank);
}

static void random_start(void *trial, const struct harness_rank *rank, tryst_step *step)
{
    trial_start(trial, rank, step);
}

static void random_end(void *trial, const struct harness_rank *rank,
                       const struct plan_drawn *drawn)
{
    trial_end(trial, rank, drawn);
}

const struct coll_trials coll_trials = {.bytes = sizeof(struct trial),
                                        .count = AT_ONCE,
                                        .rounds = 10,
                                        .open = random_open,
                                        .start = random_start,
                                        .end = random_end};

/* ---- no allocation ----------------------------------------------------------------- */

/* Count the allocations of one rank: the engine's share of a start, without flows. */
static void steady_main(struct harness_rank *rank)
{
    static float data[50000], out[50000];
    static const uint64_t counts[] = {50000}, offsets[] = {0};
    tryst_tensor from = {.struct_size = sizeof from,
                         .data = data,
                         .count = COUNT_OF(data),
                         .dtype = TRYST_DTYPE_F32};
    tryst_tensor to = from;
    tryst_coll_params params = {.struct_size = sizeof params,
                                .kind = TRYST_COLL_ALLTOALL,
                                .count = COUNT_OF(data),
                                .dtype = TRYST_DTYPE_F32,
                                .name = "prepared"};
    tryst_coll *coll;
    uint64_t seen = 0;
    to.data = out;
    CHECK_STATUS(tryst_coll_prepare(rank->group, &params, &coll), TRYST_OK);
    tryst_step *step = harness_step(rank, 1);
    for (int i = 0; i < 20; i++) {
        tryst_op *ops[3];
        if (i == 5)
            seen = alloc_seen_count();
        CHECK_STATUS(tryst_coll_start(step, coll, &from, &to, NULL, &ops[0]), TRYST_OK);
        harness_end(ops[0], TRYST_OK);
        CHECK_STATUS(
            tryst_allgatherv(step, "once", &from, &to, counts, offsets, NULL, &ops[1]),
            TRYST_OK);
        harness_end(ops[1], TRYST_OK);
        CHECK_STATUS(tryst_reduce_scatter(step, "sum", &from, &to, TRYST_REDUCE_SUM, NULL,
                                          &ops[2]),
                     TRYST_OK);
        harness_end(ops[2], TRYST_OK);
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
