/* SPDX-License-Identifier: Apache-2.0 */
/* Every collective, dtype and reduction, over random networks and in random orders of
 * arrival, against a serial reference that was written from the manual
 * (coll_reference.h).
 *
 * Idea: a life is one group of ranks over one network. Each life runs the matrix of all
 * kinds, dtypes and reductions in batches; each rank submits and awaits a batch in a
 * different order. One rank compares its output with the reference, and all outputs of an
 * item must have one hash: on all ranks, and in a second life of the same network with
 * other orders of arrival.
 *
 * TRYST_TEST_SEED replays a run. TRYST_TEST_NETWORKS (of each number of ranks),
 * TRYST_TEST_SIZES (of each row of the matrix; 0: all), TRYST_TEST_SHARE (n: one row of
 * n, others with other numbers of ranks), TRYST_TEST_RANKS (0: 1 to 8),
 * TRYST_TEST_LARGEST (bytes of one tensor), TRYST_TEST_LARGE (the rows of 1000 that have
 * this size) and TRYST_TEST_SECONDS (of one life) set its size. */
#include "coll_items.h"

#include "support/unit.h"

#include <fenv.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { ROWS_MAX = 400, BATCH = 24, BATCH_BYTES = 48 << 20 };

struct row {
    const struct coll_kind *kind;
    tryst_dtype dtype;
    tryst_reduce_op reduce;
};

struct seen {
    /* hash of each rank's output; 0: the rank has no output */
    _Atomic(uint64_t) hash[REFERENCE_RANKS_MAX];
    _Atomic(int) arrived; /* ranks that have entered the barrier */
};

struct matrix {
    uint64_t seed;        /* draws the items and their values */
    uint64_t order_seed;  /* draws the times and orders of submission */
    uint64_t largest;     /* bytes of the largest tensor */
    int size, large_rows; /* ranks of the group; rows of 1000 that have `largest` bytes */
    int sizes;            /* items of each row; 0: all */
    int rows_count, items_count;
    struct row rows[ROWS_MAX];
    _Atomic(uint32_t) counter;
    size_t bytes;
    struct seen seen[];
};

/* ---- items ------------------------------------------------------------------------- */

/* Sizes in elements, or in bytes if `in_bytes`. One more size follows:
 * matrix->largest. */
static const struct {
    uint64_t size;
    bool in_bytes;
} sizes[] = {{0, false},   {1, false},    {7, false},        {1003, false}, {4096, true},
             {4104, true}, {65537, true}, {100 << 10, true}, {300001, true}};
enum { SIZES = sizeof sizes / sizeof sizes[0] + 1 };

static uint64_t count_at(const struct matrix *matrix, size_t element, int at)
{
    if (at == SIZES - 1)
        return matrix->largest / element;
    return sizes[at].in_bytes ? sizes[at].size / element : sizes[at].size;
}

/* Write the rows that a group of `size` ranks runs. */
static int rows_make(int size, struct row *rows)
{
    int count = 0, index = size, share = (int)harness_setting("TRYST_TEST_SHARE", 1);
    for (int kind = 0; kind < coll_kinds_count; kind++)
        for (int dtype = TRYST_DTYPE_U8; dtype <= TRYST_DTYPE_U64; dtype++)
            for (int reduce = TRYST_REDUCE_SUM; reduce <= TRYST_REDUCE_XOR; reduce++) {
                bool once = !coll_kinds[kind].reduces && reduce > TRYST_REDUCE_SUM;
                bool bare = !coll_kinds[kind].source && dtype > TRYST_DTYPE_U8;
                if (once || bare || !reference_allows(dtype, reduce) || index++ % share)
                    continue;
                CHECK(count < ROWS_MAX);
                rows[count++] = (struct row){&coll_kinds[kind], dtype, reduce};
            }
    return count;
}

static double factor_draw(uint64_t *random)
{
    /* 0: the default, a factor of 1 */
    static const double factors[] = {0, 0.5, -1.25, 1.0 / 3, 2.7182818284590452};
    return factors[coll_below(random, 5)];
}

static void item_draw(const struct matrix *matrix, int index, struct coll_item *item)
{
    const struct row *row = &matrix->rows[index % matrix->rows_count];
    uint64_t random = (matrix->seed + (uint64_t)index) * 0x9E3779B97F4A7C15ull | 1;
    size_t element = tryst_dtype_bytes(row->dtype);
    for (int i = 0; i < 4; i++)
        harness_random(&random);
    int at = (int)coll_below(&random, SIZES - 1);
    if (!matrix->sizes)
        at = index / matrix->rows_count;
    else if ((int)coll_below(&random, 1000) < matrix->large_rows)
        at = SIZES - 1;
    *item = (struct coll_item){
        .kind = row->kind,
        .reference = {.dtype = row->dtype,
                      .reduce = row->reduce,
                      .size = matrix->size,
                      .values = coll_below(&random, 3) ? REFERENCE_MODERATE
                                                       : REFERENCE_ANY_BITS,
                      .seed = harness_random(&random)},
        .count = row->kind->source ? count_at(matrix, element, at) : 0,
        .root = (int)coll_below(&random, (uint64_t)matrix->size),
        .in_place = coll_below(&random, 2)};
    for (int rank = 0; rank < matrix->size; rank++)
        item->reference.factors[rank] = factor_draw(&random);
    /* Other rows use the same name, in other steps and in this one. */
    snprintf(item->name, sizeof item->name, "row%d", index % 97);
}

/* Replace each factor of 0, which means the default, by 1. */
static void factors_resolve(struct coll_item *item)
{
    for (int rank = 0; rank < item->reference.size; rank++)
        if (item->reference.factors[rank] == 0)
            item->reference.factors[rank] = 1;
}

/* ---- one rank ---------------------------------------------------------------------- */

struct batch {
    struct coll_item items[BATCH];
    struct coll_part parts[BATCH];
    int indices[BATCH], submits[BATCH], waits[BATCH];
    int count;
};

/* Draw a random order. If `by_name`, parts with equal names keep the plan's order. */
static void order_draw(const struct batch *batch, bool by_name, uint64_t *random,
                       int *order)
{
    for (int i = 0; i < batch->count; i++) {
        int at = (int)coll_below(random, (uint64_t)i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    for (int i = 0; by_name && i < batch->count; i++)
        for (int j = i + 1; j < batch->count; j++)
            if (order[i] > order[j] &&
                strcmp(batch->items[order[i]].name, batch->items[order[j]].name) == 0) {
                int swapped = order[i];
                order[i] = order[j];
                order[j] = swapped;
            }
}

static void batch_open(const struct harness_rank *rank, struct batch *batch, int *next,
                       uint64_t *random)
{
    struct matrix *matrix = rank->arg;
    uint64_t bytes = 0;
    batch->count = 0;
    while (*next < matrix->items_count && batch->count < BATCH && bytes < BATCH_BYTES) {
        struct coll_part *part = &batch->parts[batch->count];
        struct coll_item *item = &batch->items[batch->count];
        item_draw(matrix, *next, item);
        coll_part_open(part, item, rank, random);
        if (coll_below(random, 3) == 0)
            coll_part_prepare(part, rank->group);
        bytes += 2 * item->count * tryst_dtype_bytes(item->reference.dtype);
        batch->indices[batch->count++] = (*next)++;
    }
    order_draw(batch, true, random, batch->submits);
    order_draw(batch, false, random, batch->waits);
}

static void pause_draw(struct harness_rank *rank, uint64_t *random)
{
    uint64_t what = coll_below(random, 12);
    if (what == 0)
        usleep((useconds_t)coll_below(random, 1000));
    else if (what < 4)
        tryst_progress(rank->ctx);
}

/* Change the rounding mode of this thread: results must not depend on the caller's
 * mode. */
static void rounding_set(uint64_t *random)
{
    static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_TOWARDZERO};
    fesetround(modes[coll_below(random, 3)]);
#ifdef __x86_64__
    /* flush subnormal results to zero, and treat subnormal inputs as zero */
    if (coll_below(random, 2))
        __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
#endif
}

static void rounding_restore(void)
{
#ifdef __x86_64__
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() & ~0x8040u);
#endif
    fesetround(FE_TONEAREST);
}

static void urgency_draw(uint64_t *random, tryst_op_params *params)
{
    uint64_t what = coll_below(random, 4);
    *params = (tryst_op_params){.struct_size = sizeof *params};
    params->flags = what == 0 ? TRYST_OP_BACKGROUND : what == 1 ? TRYST_OP_PRIORITY : 0;
    int32_t priority = (int32_t)coll_below(random, 7) - 3;
    params->priority = what == 1 ? priority : 0;
}

static void batch_run(struct harness_rank *rank, struct batch *batch, tryst_step *step,
                      uint64_t *random)
{
    struct matrix *matrix = rank->arg;
    rounding_set(random);
    for (int i = 0; i < batch->count; i++) {
        int at = batch->submits[i];
        tryst_op_params params;
        pause_draw(rank, random);
        urgency_draw(random, &params);
        atomic_fetch_add(&matrix->seen[batch->indices[at]].arrived, 1);
        if (coll_part_start(&batch->parts[at], step, &params) != TRYST_OK)
            harness_fail(__FILE__, __LINE__, "%s (%s): %s", batch->items[at].name,
                         batch->items[at].kind->name, tryst_last_error());
    }
    for (int i = 0; i < batch->count; i++) {
        int at = batch->waits[i];
        harness_end(batch->parts[at].op, TRYST_OK);
        if (!batch->items[at].kind->source)
            CHECK_EQ(atomic_load(&matrix->seen[batch->indices[at]].arrived), rank->size);
    }
    rounding_restore();
}

static void batch_check(const struct harness_rank *rank, struct batch *batch)
{
    struct matrix *matrix = rank->arg;
    for (int i = 0; i < batch->count; i++) {
        struct coll_part *part = &batch->parts[i];
        struct coll_item *item = &batch->items[i];
        bool judges = batch->indices[i] % rank->size == rank->rank ||
                      (item->kind->kind == TRYST_COLL_REDUCE);
        factors_resolve(item);
        coll_part_check_around(part);
        if (item->kind->source && judges)
            coll_part_check(part);
        if (part->out_bytes)
            atomic_store(&matrix->seen[batch->indices[i]].hash[rank->rank],
                         coll_part_hash(part));
        coll_part_close(part);
    }
}

static void matrix_main(struct harness_rank *rank)
{
    struct matrix *matrix = rank->arg;
    struct batch *batch = calloc(1, sizeof *batch);
    uint64_t random =
        (matrix->order_seed * 64 + (uint64_t)rank->rank) * 0x9E3779B97F4A7C15ull | 1;
    CHECK(batch);
    for (int next = 0, id = 1; next < matrix->items_count; id++) {
        tryst_step *step = harness_step(rank, (uint64_t)id);
        batch_open(rank, batch, &next, &random);
        batch_run(rank, batch, step, &random);
        harness_step_close(step);
        batch_check(rank, batch);
    }
    free(batch);
}

/* ---- lives ------------------------------------------------------------------------- */

static struct matrix *matrix_open(int size, uint64_t seed)
{
    struct row rows[ROWS_MAX];
    int rows_count = rows_make(size, rows);
    int each = (int)harness_setting("TRYST_TEST_SIZES", 1);
    int items_count = rows_count * (each ? each : SIZES);
    size_t bytes = sizeof(struct matrix) + (size_t)items_count * sizeof(struct seen);
    struct matrix *matrix = harness_share(bytes);
    memcpy(matrix->rows, rows, sizeof rows);
    matrix->size = size;
    matrix->seed = seed;
    matrix->sizes = each;
    matrix->largest = harness_setting("TRYST_TEST_LARGEST", 2 << 20);
    matrix->large_rows = (int)harness_setting("TRYST_TEST_LARGE", 10);
    matrix->rows_count = rows_count;
    matrix->items_count = items_count;
    matrix->bytes = bytes;
    return matrix;
}

/* True if the machine has enough memory for three ranks and their checks. */
static bool memory_suffices(uint64_t bytes)
{
    char line[128];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && !kib && fgets(line, sizeof line, file))
        (void)sscanf(line, "MemAvailable: %llu", &kib);
    if (file)
        fclose(file);
    return kib << 10 > bytes;
}

/* Return the number of outputs that differ from the first output of their item, in this
 * life and in the one before. */
static int hashes_check(const struct matrix *matrix, const struct matrix *before)
{
    int wrong = 0;
    for (int i = 0; i < matrix->items_count; i++) {
        const struct matrix *lives[] = {matrix, before};
        uint64_t first = 0;
        for (int k = 0; k < 2 * matrix->size; k++) {
            const struct matrix *life = lives[k / matrix->size];
            int rank = k % matrix->size;
            uint64_t hash = life ? atomic_load(&life->seen[i].hash[rank]) : 0;
            first = first ? first : hash;
            if (hash == 0 || hash == first)
                continue;
            const struct row *row = &matrix->rows[i % matrix->rows_count];
            print_error("item %d, %s of %s, reduction %d: rank %d %s\n", i,
                        row->kind->name, tryst_dtype_name(row->dtype), row->reduce, rank,
                        life == matrix
                            ? "has a result other than rank 0's"
                            : "had a different result in another order of arrival");
            wrong++;
        }
    }
    return wrong;
}

static int life(struct matrix *matrix, uint64_t order_seed, const char *network)
{
    const char *config[] = {"topology",
                            network,
                            "progress_thread",
                            order_seed % 3 ? "0" : "1",
                            "scratch_bytes",
                            order_seed % 5 ? "64M" : "64K",
                            NULL};
    struct harness_params params = {
        .size = matrix->size,
        .main = matrix_main,
        .opened = twins_open,
        .closing = twins_close,
        .arg = matrix,
        .config = network ? config : config + 2,
        .timeout_s = (unsigned)harness_setting("TRYST_TEST_SECONDS", 60)};
    matrix->order_seed = order_seed;
    return harness_run(&params);
}

static int network_run(int size, uint64_t seed, bool twice)
{
    char *network = coll_network_write(size, seed);
    struct matrix *first = matrix_open(size, seed), *second = NULL;
    int failed = life(first, seed * 7 + 1, network);
    failed += failed ? 0 : hashes_check(first, NULL);
    if (twice && !failed) {
        second = matrix_open(size, seed);
        failed = life(second, seed * 7 + 3, network);
        failed += failed ? 0 : hashes_check(second, first);
    }
    if (failed)
        print_error("%d ranks; replay: TRYST_TEST_SEED=%llu\n", size,
                    (unsigned long long)seed);
    harness_unshare(first, first->bytes);
    if (second)
        harness_unshare(second, second->bytes);
    coll_network_remove(network);
    return failed;
}

static void test_matrix(void **state)
{
    uint64_t seed = unit_seed(), count = harness_setting("TRYST_TEST_NETWORKS", 1);
    bool all = count > 1;
    int failed = 0;
    int only = (int)harness_setting("TRYST_TEST_RANKS", 0);
    /* Under a sanitizer, which takes ten times as long, run 3 and 6 ranks only; also over
     * a fabric, which takes three times as long and runs the same code above the
     * transport. The long CTest rows run all sizes. */
    int every = harness_is_sanitized() || (harness_over_fabric() && !all) ? 3 : 1;
    for (uint64_t i = 0; i < count; i++)
        for (int size = only ? only : every;
             size <= (only ? only : REFERENCE_RANKS_MAX) && !failed; size += every)
            failed += network_run(size, seed + i, all || size == 3 || size == 5);
    assert_int_equal(failed, 0);
}

/* ---- huge tensors ------------------------------------------------------------------ */

enum { HUGE_RANKS = 3 };

static void huge_run(struct harness_rank *rank, uint64_t id, tryst_dtype dtype,
                     uint64_t count)
{
    struct coll_item item = {.kind = &coll_kinds[0],
                             .reference = {.dtype = dtype,
                                           .reduce = TRYST_REDUCE_SUM,
                                           .size = HUGE_RANKS,
                                           .seed = id},
                             .count = count,
                             .in_place = true,
                             .name = "huge"};
    struct coll_part part;
    uint64_t random = (uint64_t)rank->rank + 1;
    tryst_step *step = harness_step(rank, id);
    coll_part_open(&part, &item, rank, &random);
    CHECK_STATUS(coll_part_start(&part, step, NULL), TRYST_OK);
    harness_end(part.op, TRYST_OK);
    coll_part_check_around(&part);
    coll_part_check(&part);
    harness_step_close(step);
    coll_part_close(&part);
}

static void huge_main(struct harness_rank *rank)
{
    huge_run(rank, 1, TRYST_DTYPE_F32, (64 << 20) / 4 + 1);
    huge_run(rank, 2, TRYST_DTYPE_BF16, (64 << 20) / 2);
    huge_run(rank, 3, TRYST_DTYPE_U8, (UINT64_C(1) << 31) + 5);
}

static void test_huge(void **state)
{
    struct harness_params params = {
        .size = HUGE_RANKS,
        .main = huge_main,
        .opened = twins_open,
        .closing = twins_close,
        .timeout_s = (unsigned)harness_setting("TRYST_TEST_SECONDS", 600)};
    if (!harness_setting("TRYST_TEST_HUGE", 0))
        return;
    if (!memory_suffices(UINT64_C(9) << 30)) {
        print_message("skipped: needs 9 GiB of free memory\n");
        skip();
    }
    assert_int_equal(harness_run(&params), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_matrix),
                                       cmocka_unit_test(test_huge)};
    return HARNESS_MAIN(argc, argv, tests);
}
