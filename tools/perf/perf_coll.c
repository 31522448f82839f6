/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of one kind, size by size; see perf_coll.h.
 *
 * Idea: one prepared collective of each size is started again and again, one at a time. Each rank keeps its own
 * times, and an all-reduce finds the greatest of each iteration, so no rank needs a route to any other.
 * Invariant: all ranks make the same calls in the same order: what decides on the next call is an option, or a
 * number that all ranks have from an all-reduce. */
#include "perf_coll.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "perf_report.h"

/* Something is wrong when one operation takes longer. */
#define WAIT_NS 600000000000ull
/* Without --iterations: as many as fit in so long. */
#define BUDGET_S    1.0
#define ITERS_MOST  10000
#define ITERS_LEAST 10

enum { WARMUP_DEFAULT = 5 };

struct bench {
    struct perf_coll *all;
    const struct perf_options *options;
    tryst_step *step;
    tryst_coll *coll;
    tryst_tensor in, out;
    void *memory[2]; /* of malloc */
    tryst_mem *mem[2];
    double *samples;
    struct perf_coll_figure *figure;
};

static tryst_status fail(const struct bench *bench, const char *what, tryst_status status)
{
    return perf_fail(bench->all->rank, what, status, tryst_last_error());
}

/* ---- agreement of all ranks ---------------------------------------------------------------- */

/* The greatest of all ranks, of each number; or their sums. */
static tryst_status numbers_reduce(const struct bench *bench, void *numbers,
                                   uint64_t count, tryst_dtype dtype,
                                   tryst_reduce_op reduce)
{
    tryst_tensor tensor = {
        .struct_size = sizeof tensor, .data = numbers, .count = count, .dtype = dtype};
    tryst_op *op;
    tryst_status status = tryst_allreduce(bench->step, "tryst-perf figures", NULL,
                                          &tensor, reduce, NULL, &op);
    if (status != TRYST_OK)
        return fail(bench, "figures", status);
    return perf_op_end(bench->all->rank, op, "figures", WAIT_NS);
}

/* ---- one operation ------------------------------------------------------------------------- */

static tryst_status once(const struct bench *bench, double *seconds_p)
{
    const struct perf_rank *rank = bench->all->rank;
    tryst_op *op;
    double start_s = perf_now_s(rank);
    tryst_status status = tryst_coll_start(
        bench->step, bench->coll, bench->in.struct_size ? &bench->in : NULL,
        bench->out.struct_size ? &bench->out : NULL, &bench->options->params, &op);
    if (status != TRYST_OK)
        return fail(bench, rank->options->kind->name, status);
    status = perf_op_end(rank, op, rank->options->kind->name, WAIT_NS);
    *seconds_p = perf_now_s(rank) - start_s;
    return status;
}

static tryst_status warm_up(struct bench *bench)
{
    uint64_t warmup = bench->options->warmup, iters = bench->options->iters;
    double seconds = 0;
    tryst_status status = TRYST_OK;
    warmup = warmup == UINT64_MAX ? WARMUP_DEFAULT : warmup;
    for (uint64_t i = 0; i < warmup && status == TRYST_OK; i++)
        status = once(bench, &seconds);
    if (status == TRYST_OK && !iters) {
        status = numbers_reduce(bench, &seconds, 1, TRYST_DTYPE_F64, TRYST_REDUCE_MAX);
        double fit = seconds > 0 ? BUDGET_S / seconds : ITERS_LEAST;
        iters = fit > ITERS_MOST    ? ITERS_MOST
                : fit < ITERS_LEAST ? ITERS_LEAST
                                    : (uint64_t)fit;
    }
    bench->figure->iters = iters;
    return status;
}

static tryst_status measure(struct bench *bench)
{
    struct perf_coll_figure *figure = bench->figure;
    uint64_t n = figure->iters;
    tryst_status status = TRYST_OK;
    bench->samples = calloc(n, sizeof *bench->samples);
    if (!bench->samples)
        return perf_fail(bench->all->rank, "memory for the samples", TRYST_E_NOMEM, "");
    for (uint64_t i = 0; i < n && status == TRYST_OK; i++) {
        status = once(bench, &bench->samples[i]);
        perf_progress(bench->all, figure, i + 1);
    }
    if (status == TRYST_OK)
        status =
            numbers_reduce(bench, bench->samples, n, TRYST_DTYPE_F64, TRYST_REDUCE_MAX);
    if (status != TRYST_OK)
        return status;
    perf_sort(bench->samples, n);
    figure->seconds = (bench->samples[n / 2] + bench->samples[(n - 1) / 2]) / 2;
    figure->seconds_p99 = bench->samples[n - 1 - n / 100];
    figure->seconds_min = bench->samples[0];
    return status;
}

/* ---- one size ------------------------------------------------------------------------------ */

/* Memory of a tensor, written once: its pages exist before the clock runs. */
static tryst_status memory_get(struct bench *bench, int which, tryst_tensor *tensor)
{
    const struct perf_rank *rank = bench->all->rank;
    uint64_t bytes = bench->figure->bytes;
    *tensor = (tryst_tensor){.struct_size = sizeof *tensor,
                             .count = bench->figure->count,
                             .dtype = bench->options->dtype};
    tryst_status status = TRYST_OK;
    if (bench->options->mapped)
        status = tryst_mem_alloc(rank->ctx, bytes, TRYST_MEMORY_HOST, 0, &tensor->data,
                                 &bench->mem[which]);
    else
        tensor->data = bench->memory[which] = malloc(bytes ? bytes : 1);
    if (status != TRYST_OK || !tensor->data)
        return perf_fail(rank, "memory", status ? status : TRYST_E_NOMEM, "");
    tensor->mem = bench->mem[which];
    memset(tensor->data, 0, bytes);
    return status;
}

/* The tensors that this rank's part has. */
static tryst_status tensors_get(struct bench *bench)
{
    const struct perf_options *options = bench->options;
    bool is_root = !options->kind->has_root || options->root == bench->all->rank->rank;
    bool has_in = options->kind->reduces && !(options->inplace && is_root);
    bool has_out = options->kind->sizes && (is_root || !options->kind->reduces);
    tryst_status status = has_in ? memory_get(bench, 0, &bench->in) : TRYST_OK;
    if (status == TRYST_OK && has_out)
        status = memory_get(bench, 1, &bench->out);
    return status;
}

static void bench_close(struct bench *bench)
{
    for (int i = 0; i < 2; i++) {
        tryst_mem_release(bench->mem[i]);
        free(bench->memory[i]);
    }
    tryst_coll_release(bench->coll);
    free(bench->samples);
}

static tryst_status prepare(struct bench *bench)
{
    const struct perf_options *options = bench->options;
    tryst_group *group = bench->all->rank->group;
    struct perf_coll_figure *figure = bench->figure;
    const tryst_coll_params params = {
        .struct_size = sizeof params,
        .kind = options->kind->coll,
        .reduce = options->kind->reduces ? options->reduce : TRYST_REDUCE_INVALID,
        .count = figure->count,
        .dtype = options->kind->sizes ? options->dtype : TRYST_DTYPE_INVALID,
        .root = options->root,
        .name = "tryst-perf"};
    tryst_status status = tryst_coll_prepare(group, &params, &bench->coll);
    figure->info.struct_size = sizeof figure->info;
    if (status == TRYST_OK)
        status = tryst_coll_estimate(group, &params, &figure->info);
    return status == TRYST_OK ? status : fail(bench, options->kind->name, status);
}

static tryst_status size_run(struct bench *bench, uint64_t step_id)
{
    const struct perf_rank *rank = bench->all->rank;
    tryst_op *close_op;
    tryst_status status = tryst_step_open(rank->group, step_id, &bench->step);
    if (status != TRYST_OK)
        return fail(bench, "step", status);
    status = prepare(bench);
    if (status == TRYST_OK)
        status = tensors_get(bench);
    if (status == TRYST_OK)
        status = warm_up(bench);
    if (status == TRYST_OK)
        status = measure(bench);
    if (tryst_step_close(bench->step, &close_op) == TRYST_OK)
        perf_op_end(rank, close_op, "close of the step", WAIT_NS);
    return status;
}

/* ---- a rank -------------------------------------------------------------------------------- */

int perf_coll(const struct perf_rank *rank)
{
    static struct perf_coll all; /* large, for the figures of all sizes */
    const struct perf_options *options = rank->options;
    tryst_status status = TRYST_OK;
    all = (struct perf_coll){.rank = rank, .size = tryst_group_size(rank->group)};
    for (int i = 0; i < options->sizes_count && status == TRYST_OK; i++) {
        struct perf_coll_figure *figure = &all.figures[i];
        struct bench bench = {.all = &all, .options = options, .figure = figure};
        figure->bytes = options->sizes[i];
        figure->count =
            options->kind->sizes ? figure->bytes / tryst_dtype_bytes(options->dtype) : 0;
        status = size_run(&bench, (uint64_t)i + 1);
        bench_close(&bench);
        if (status == TRYST_OK) {
            perf_report_row(&all, figure);
            all.done++;
        }
    }
    return status == TRYST_OK ? perf_report_end(&all) : 1;
}
