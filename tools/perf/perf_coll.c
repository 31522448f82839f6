/* SPDX-License-Identifier: Apache-2.0 */
/* Measures collectives of one kind, size by size; see perf_coll.h.
 *
 * Idea: one prepared collective of each size is started again and again, one at a time.
 * Each rank keeps its own times, and an all-reduce finds the greatest time of each
 * iteration, so no rank needs a route to every other rank.
 * Invariant: all ranks make the same calls in the same order: the next call depends only
 * on options and on numbers that an all-reduce gave to all ranks. */
#include "perf_coll.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "perf_bound.h"
#include "perf_pattern.h"
#include "perf_report.h"
#include "tools/figures.h"

/* Without --iterations, a size gets as many iterations as fit into BUDGET_S. */
#define BUDGET_S    1.0
#define ITERS_MOST  10000
#define ITERS_LEAST 10

enum { WARMUP_DEFAULT = 5 };

struct bench {
    struct perf_coll *all;
    const struct perf_options *options;
    tryst_step *step;
    tryst_coll *coll, *barrier;
    tryst_op_params params;
    tryst_tensor in, out; /* struct_size 0: this rank has no such tensor */
    void *memory[2];      /* from malloc; NULL with --memory mapped */
    tryst_mem *mem[2];
    double *samples;
    struct perf_pattern *pattern; /* NULL without --check */
    uint64_t round;               /* operations so far */
    struct perf_coll_figure *figure;
};

/* Reduce each number over all ranks, in place: their greatest value or their sum. */
static tryst_status numbers_reduce(const struct bench *bench, void *numbers,
                                   uint64_t count, tryst_dtype dtype,
                                   tryst_reduce_op reduce)
{
    return perf_numbers_reduce(bench->all->rank, bench->step, "tryst-perf figures",
                               numbers, count, dtype, reduce);
}

/* ---- one operation ----------------------------------------------------------------- */

static const tryst_tensor *tensor_or_null(const tryst_tensor *tensor)
{
    return tensor->struct_size ? tensor : NULL;
}

static tryst_status once(const struct bench *bench, double *seconds_p)
{
    const struct perf_rank *rank = bench->all->rank;
    tryst_op *op;
    double start_s = perf_now_s(rank);
    tryst_status status =
        tryst_coll_start(bench->step, bench->coll, tensor_or_null(&bench->in),
                         tensor_or_null(&bench->out), &bench->params, &op);
    if (status != TRYST_OK)
        return perf_judge(bench->all->rank, "start the collective", status);
    status = perf_op_end(rank, op, "run the collective", PERF_WAIT_NS);
    *seconds_p = perf_now_s(rank) - start_s;
    return status;
}

/* True if the result is a block of the input: a reduce-scatter in place. */
static bool is_block_in_place(const struct perf_options *options)
{
    return options->inplace && options->kind->in_blocks;
}

/* ---- checks ------------------------------------------------------------------------ */

/* Write this rank's term where the collective reads it, and 0xa5 into all other bytes of
 * the result: no pattern contains that byte everywhere. */
static void tensors_fill(const struct bench *bench)
{
    const tryst_tensor *in = &bench->in, *out = &bench->out;
    uint64_t element = tryst_dtype_bytes(bench->options->dtype);
    if (out->struct_size)
        memset(out->data, 0xa5, out->count * element);
    if (in->struct_size) {
        perf_pattern_write(bench->pattern, bench->round, in->data, in->count);
        return;
    }
    bool is_block = bench->options->kind->out_blocks;
    uint64_t begin =
        is_block ? (uint64_t)bench->all->rank->rank * bench->pattern->block : 0;
    perf_pattern_write(bench->pattern, bench->round, (char *)out->data + begin * element,
                       is_block ? bench->pattern->block : out->count);
}

static void wrong_add(const struct bench *bench, const char *what,
                      struct perf_wrong wrong)
{
    if (wrong.count && !bench->figure->wrong)
        fprintf(stderr,
                "tryst-perf: rank %d: %s of %s: %s, element %" PRIu64 " is 0x%" PRIx64
                "; it should be 0x%" PRIx64 "\n",
                bench->all->rank->rank, bench->options->kind->name,
                perf_bytes_text(bench->figure->bytes, (char[32]){""}), what, wrong.first,
                wrong.is, wrong.should_be);
    bench->figure->wrong += wrong.count;
}

static void tensors_check(const struct bench *bench)
{
    const tryst_tensor *in = &bench->in, *out = &bench->out;
    if (in->struct_size && !is_block_in_place(bench->options))
        wrong_add(
            bench, "input",
            perf_pattern_own_check(bench->pattern, bench->round, in->data, in->count));
    if (out->struct_size)
        wrong_add(
            bench, "result",
            perf_pattern_check(bench->pattern, bench->round, out->data, out->count));
}

/* Hold a barrier before the clock runs: ranks write and compare for different times. */
static tryst_status meet(const struct bench *bench)
{
    tryst_op *op;
    tryst_status status =
        tryst_coll_start(bench->step, bench->barrier, NULL, NULL, NULL, &op);
    return status == TRYST_OK
               ? perf_op_end(bench->all->rank, op, "pass a barrier", PERF_WAIT_NS)
               : perf_judge(bench->all->rank, "pass a barrier", status);
}

static tryst_status one_round(struct bench *bench, double *seconds_p)
{
    if (!bench->pattern)
        return once(bench, seconds_p);
    tensors_fill(bench);
    tryst_status status = meet(bench);
    if (status == TRYST_OK)
        status = once(bench, seconds_p);
    if (status == TRYST_OK)
        tensors_check(bench);
    bench->round++;
    return status;
}

/* ---- rounds ------------------------------------------------------------------------ */

static tryst_status warm_up(struct bench *bench)
{
    uint64_t warmup = perf_warmup(bench->options, WARMUP_DEFAULT);
    const struct perf_options *options = bench->options;
    uint64_t iters = options->time_ns ? ITERS_LEAST : options->iters;
    double seconds = 0;
    tryst_status status = TRYST_OK;
    for (uint64_t i = 0; i < warmup && status == TRYST_OK; i++)
        status = one_round(bench, &seconds);
    if (status == TRYST_OK && !iters) {
        status = numbers_reduce(bench, &seconds, 1, TRYST_DTYPE_F64, TRYST_REDUCE_MAX);
        double fit = BUDGET_S / seconds;
        iters = fit > ITERS_MOST    ? ITERS_MOST
                : fit < ITERS_LEAST ? ITERS_LEAST
                                    : (uint64_t)fit;
    }
    bench->figure->iters = iters;
    return status;
}

/* ---- --explain --------------------------------------------------------------------- */

static tryst_status explain_check(const struct bench *bench, tryst_status status)
{
    return status == TRYST_OK
               ? status
               : perf_fail(bench->all->rank, "explain the times of edges", status,
                           status == TRYST_E_NOMEM ? "" : tryst_last_error());
}

static tryst_status explain_begin(struct bench *bench)
{
    const struct perf_rank *rank = bench->all->rank;
    if (!bench->options->explain)
        return TRYST_OK;
    perf_explain_close(&bench->figure->explain); /* of a shorter run, with --time */
    return explain_check(
        bench, perf_explain_begin(&bench->figure->explain, rank->ctx, rank->group));
}

/* End the explanation right after the last operation. */
static tryst_status explain_end(struct bench *bench)
{
    if (!bench->options->explain)
        return TRYST_OK;
    return explain_check(bench, perf_explain_end(&bench->figure->explain));
}

/* Gather the edges of all ranks. */
static tryst_status explain_gather(struct bench *bench)
{
    struct perf_explain *explain = &bench->figure->explain;
    uint64_t width = explain->own_count;
    if (!bench->options->explain)
        return TRYST_OK;
    tryst_status status =
        numbers_reduce(bench, &width, 1, TRYST_DTYPE_U64, TRYST_REDUCE_MAX);
    if (status == TRYST_OK)
        status = explain_check(bench, perf_explain_table(explain, width));
    if (status == TRYST_OK && explain->count)
        status = numbers_reduce(bench, explain->edges, explain->count * PERF_EDGE_NUMBERS,
                                TRYST_DTYPE_U64, TRYST_REDUCE_SUM);
    if (status == TRYST_OK)
        perf_explain_sort(explain);
    return status;
}

/* ---- figures ----------------------------------------------------------------------- */

/* Run the rounds and take their times: of each that of the slowest rank. */
static tryst_status rounds_run(struct bench *bench)
{
    struct perf_coll_figure *figure = bench->figure;
    uint64_t n = figure->iters;
    free(bench->samples);
    bench->samples = calloc(n, sizeof *bench->samples);
    if (!bench->samples)
        return perf_fail(bench->all->rank, "allocate the samples", TRYST_E_NOMEM, "");
    tryst_status status = explain_begin(bench);
    for (uint64_t i = 0; i < n && status == TRYST_OK; i++) {
        status = one_round(bench, &bench->samples[i]);
        perf_progress(bench->all, figure, i + 1);
    }
    if (status == TRYST_OK)
        status = explain_end(bench);
    if (status == TRYST_OK)
        status =
            numbers_reduce(bench, bench->samples, n, TRYST_DTYPE_F64, TRYST_REDUCE_MAX);
    return status;
}

/* Run the rounds that count: under --time, after shorter runs. Every rank has the same
 * samples, so all agree on how many follow. */
static tryst_status measure(struct bench *bench)
{
    struct perf_coll_figure *figure = bench->figure;
    double wanted_s = (double)bench->options->time_ns / 1e9, elapsed_s;
    uint64_t next = figure->iters;
    tryst_status status;
    do {
        figure->iters = next;
        status = rounds_run(bench);
        elapsed_s = 0;
        for (uint64_t i = 0; i < figure->iters && status == TRYST_OK; i++)
            elapsed_s += bench->samples[i];
        next = perf_iters_more(figure->iters, elapsed_s, wanted_s);
    } while (status == TRYST_OK && next != figure->iters);
    figure->seconds_mean = elapsed_s / (double)figure->iters;
    return status;
}

static void figure_make(struct bench *bench)
{
    struct perf_coll_figure *figure = bench->figure;
    uint64_t n = figure->iters;
    tool_samples_sort(bench->samples, n);
    figure->seconds = (bench->samples[n / 2] + bench->samples[(n - 1) / 2]) / 2;
    figure->seconds_p99 = bench->samples[n - 1 - n / 100];
    figure->seconds_p999 = bench->samples[n - 1 - n / 1000];
    figure->seconds_min = bench->samples[0];
}

static tryst_status wrong_sum(struct bench *bench)
{
    return numbers_reduce(bench, &bench->figure->wrong, 1, TRYST_DTYPE_U64,
                          TRYST_REDUCE_SUM);
}

/* ---- one size ---------------------------------------------------------------------- */

static uint64_t blocks_of(const struct bench *bench)
{
    const struct perf_kind *kind = bench->options->kind;
    return kind->in_blocks || kind->out_blocks ? (uint64_t)bench->all->size : 1;
}

static tryst_status memory_get(struct bench *bench, int which, bool has_blocks,
                               tryst_tensor *tensor)
{
    const struct perf_rank *rank = bench->all->rank;
    uint64_t count = bench->figure->count * (has_blocks ? blocks_of(bench) : 1);
    uint64_t bytes = count * tryst_dtype_bytes(bench->options->dtype);
    *tensor = (tryst_tensor){
        .struct_size = sizeof *tensor, .count = count, .dtype = bench->options->dtype};
    tryst_status status = perf_tensor_memory(rank, bytes, &bench->mem[which],
                                             &bench->memory[which], &tensor->data);
    tensor->mem = bench->mem[which];
    tensor->memory = bench->options->memory[0];
    return status;
}

/* Return this rank's block of a tensor that has one block for each rank. */
static tryst_tensor own_block(const struct bench *bench, const tryst_tensor *whole)
{
    tryst_tensor block = *whole;
    uint64_t begin = (uint64_t)bench->all->rank->rank * bench->figure->count;
    block.count = bench->figure->count;
    block.data = (char *)whole->data + begin * tryst_dtype_bytes(whole->dtype);
    return block;
}

/* Allocate the tensors that the collective uses on this rank. */
static tryst_status tensors_get(struct bench *bench)
{
    const struct perf_options *options = bench->options;
    const struct perf_kind *kind = options->kind;
    bool has_result =
        !kind->has_root || !kind->reduces || options->root == bench->all->rank->rank;
    bool has_in = kind->has_in && !(options->inplace && has_result);
    tryst_status status = TRYST_OK;
    if (has_in || is_block_in_place(options))
        status = memory_get(bench, 0, kind->in_blocks, &bench->in);
    if (status == TRYST_OK && is_block_in_place(options))
        bench->out = own_block(bench, &bench->in);
    else if (status == TRYST_OK && kind->sizes && has_result)
        status = memory_get(bench, 1, kind->out_blocks, &bench->out);
    return status;
}

static tryst_status pattern_get(struct bench *bench)
{
    const struct perf_options *options = bench->options;
    struct perf_pattern *pattern = bench->pattern = calloc(1, sizeof *pattern);
    if (!pattern)
        return perf_fail(bench->all->rank, "allocate the pattern of the check",
                         TRYST_E_NOMEM, "");
    pattern->result = options->kind->result;
    pattern->dtype = options->dtype;
    pattern->reduce = options->kind->reduces ? options->reduce : TRYST_REDUCE_INVALID;
    pattern->ranks = bench->all->size;
    pattern->rank = bench->all->rank->rank;
    pattern->root = options->root;
    pattern->block = bench->figure->count;
    perf_pattern_fill_tables(pattern);
    const tryst_coll_params params = {.struct_size = sizeof params,
                                      .kind = TRYST_COLL_BARRIER,
                                      .name = "tryst-perf check"};
    tryst_status status =
        tryst_coll_prepare(bench->all->rank->group, &params, &bench->barrier);
    return perf_judge(bench->all->rank, "pass a barrier", status);
}

static tryst_status prepare(struct bench *bench)
{
    const struct perf_options *options = bench->options;
    const struct perf_kind *kind = options->kind;
    struct perf_coll_figure *figure = bench->figure;
    const tryst_coll_params params = {
        .struct_size = sizeof params,
        .kind = kind->coll,
        .reduce = kind->reduces ? options->reduce : TRYST_REDUCE_INVALID,
        .count = figure->count,
        .dtype = kind->sizes ? options->dtype : TRYST_DTYPE_INVALID,
        .root = options->root,
        .name = "tryst-perf"};
    bench->params = options->params;
    if (params.reduce == TRYST_REDUCE_PREMULTIPLIED_SUM)
        bench->params.factor = perf_pattern_factor(bench->all->rank->rank);
    figure->info.struct_size = sizeof figure->info;
    tryst_status status =
        tryst_coll_prepare(bench->all->rank->group, &params, &bench->coll);
    if (status == TRYST_OK)
        status = tryst_coll_estimate(bench->all->rank->group, &params, &figure->info);
    figure->bound_s = figure->info.bound_seconds;
    if (bench->all->bound_s_per_byte > 0)
        figure->bound_s = (double)figure->bytes * bench->all->bound_s_per_byte;
    return perf_judge(bench->all->rank, "prepare the collective", status);
}

static void bench_close(struct bench *bench)
{
    for (int i = 0; i < 2; i++) {
        tryst_mem_release(bench->mem[i]);
        free(bench->memory[i]);
    }
    tryst_coll_release(bench->coll);
    tryst_coll_release(bench->barrier);
    free(bench->samples);
    free(bench->pattern);
}

static tryst_status size_run(struct bench *bench, uint64_t step_id)
{
    const struct perf_rank *rank = bench->all->rank;
    tryst_op *close_op;
    tryst_status status = tryst_step_open(rank->group, step_id, &bench->step);
    if (status != TRYST_OK)
        return perf_judge(bench->all->rank, "open a step", status);
    status = prepare(bench);
    if (status == TRYST_OK)
        status = tensors_get(bench);
    if (status == TRYST_OK && bench->options->check)
        status = pattern_get(bench);
    if (status == TRYST_OK)
        status = warm_up(bench);
    if (status == TRYST_OK)
        status = measure(bench);
    if (status == TRYST_OK)
        figure_make(bench);
    if (status == TRYST_OK)
        status = explain_gather(bench);
    if (status == TRYST_OK && bench->pattern)
        status = wrong_sum(bench);
    if (tryst_step_close(bench->step, &close_op) == TRYST_OK)
        perf_op_end(rank, close_op, "close the step", PERF_WAIT_NS);
    return status;
}

/* ---- a rank ------------------------------------------------------------------------ */

/* Set count and bytes of the figure: whole elements, equally many in each block, near the
 * bytes of --sizes. False if these are the bytes of the size before. */
static bool figure_size(struct bench *bench, uint64_t bytes)
{
    const struct perf_coll *all = bench->all;
    struct perf_coll_figure *figure = bench->figure;
    uint64_t blocks = blocks_of(bench);
    uint64_t unit = tryst_dtype_bytes(bench->options->dtype) * blocks;
    *figure = (struct perf_coll_figure){.wrong = 0};
    if (!bench->options->kind->sizes)
        return true;
    figure->count = bytes > unit ? bytes / unit : 1;
    figure->bytes = figure->count * unit;
    return blocks == 1 || !all->done ||
           all->figures[all->done - 1].bytes != figure->bytes;
}

int perf_coll(const struct perf_rank *rank)
{
    static struct perf_coll all; /* static: too large for the stack */
    const struct perf_options *options = rank->options;
    tryst_status status = TRYST_OK;
    uint64_t wrong = 0;
    all = (struct perf_coll){.rank = rank,
                             .size = tryst_group_size(rank->group),
                             .bound_s_per_byte = perf_bound_s_per_byte(rank)};
    for (int i = 0; i < options->sizes_count && status == TRYST_OK; i++) {
        struct perf_coll_figure *figure = &all.figures[all.done];
        struct bench bench = {.all = &all, .options = options, .figure = figure};
        if (!figure_size(&bench, options->sizes[i]))
            continue;
        status = size_run(&bench, (uint64_t)i + 1);
        bench_close(&bench);
        if (status == TRYST_OK) {
            perf_report_row(&all, figure);
            wrong += figure->wrong;
            all.done++;
        }
    }
    int exit_status = status == TRYST_OK ? perf_report_end(&all) : 1;
    for (int i = 0; i < PERF_SIZES_MAX; i++)
        perf_explain_close(&all.figures[i].explain);
    return wrong ? 1 : exit_status;
}
