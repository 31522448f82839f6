/* SPDX-License-Identifier: Apache-2.0 */
/* Measures tryst-perf preempt --op allreduce: an urgent all-reduce every so often, under
 * large ones of low priority.
 *
 * Idea: each size has three phases: urgent alone, background alone, both. All ranks act
 * alike and by their own clocks: urgent all-reduce k starts every_ms * k after a barrier.
 * Of each urgent all-reduce the slowest rank's time counts. Two all-reduces of the
 * background are always in flight; the end of a phase cancels the rest of them.
 * Invariant: all ranks start equally many urgent all-reduces in a phase, in a step of its
 * own. Of the background, one rank may have started one more than another rank; the
 * cancel ends that one too. */
#include "perf_preempt_coll.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "perf_hops.h"
#include "perf_setup.h"
#include "tools/figures.h"
#include "tools/json.h"

#define S_NS    1e9
#define IDLE_NS 100000
/* A phase that takes longer is announced on stderr. */
#define PROGRESS_FROM_S 4.0
/* how long a phase may go on until the background has moved a byte */
#define MOVE_WAIT_S 10.0

enum { OUTSTANDING = 2, ITERS_DEFAULT = 100, WARMUP_DEFAULT = 5, LOW_PRIORITY = 1000 };

struct figure {
    uint64_t bytes, iters;
    double unloaded_s, median_s, p95_s, p99_s, bound_s;
    /* bytes a second that all ranks send together: in the phase of both; in the phase of
     * the background alone */
    double bytes_per_s, alone_bytes_per_s;
    double wait_s; /* part of the bound: the waits at the hops */
    /* true: the bound uses measured rates; false: those of TRYST_TOPOLOGY */
    bool is_measured;
};

struct preempt {
    const struct perf_rank *rank;
    int ranks;
    tryst_coll_params urgent_params, background_params;
    tryst_coll *urgent, *background[OUTSTANDING];
    tryst_tensor urgent_tensor, background_tensors[OUTSTANDING];
    tryst_mem *mem[1 + OUTSTANDING];
    void *memory[1 + OUTSTANDING];
    tryst_step *step;
    uint64_t steps;
    tryst_op *moving[OUTSTANDING]; /* the background's operations, in turn */
    unsigned oldest;
    /* seconds of each iteration; bytes a second to each rank; wait_s of
     * perf_hops.h */
    double *samples, *moved, *waits;
    uint64_t *sent; /* bytes sent to each rank when the measured part of a phase began */
    struct figure figures[PERF_SIZES_MAX];
};

enum { URGENT = 1, BACKGROUND = 2 };

static const tryst_op_params urgent_op = {.struct_size = sizeof urgent_op,
                                          .flags = TRYST_OP_PRIORITY};
static const tryst_op_params low_op = {
    .struct_size = sizeof low_op, .flags = TRYST_OP_PRIORITY, .priority = LOW_PRIORITY};

/* ---- operations -------------------------------------------------------------------- */

static tryst_status background_begin(struct preempt *preempt, unsigned which)
{
    tryst_status status = tryst_coll_start(preempt->step, preempt->background[which],
                                           NULL, &preempt->background_tensors[which],
                                           &low_op, &preempt->moving[which]);
    return perf_judge(preempt->rank, "start the background", status);
}

/* Let the background move until `until_s`; OUTSTANDING of its operations are in flight on
 * return. */
static tryst_status background_move(struct preempt *preempt, double until_s)
{
    for (;;) {
        double left_s = until_s - perf_now_s(preempt->rank);
        unsigned which = preempt->oldest;
        tryst_status status = tryst_wait(preempt->moving[which],
                                         left_s > 0 ? (uint64_t)(left_s * S_NS) + 1 : 0);
        if (status == TRYST_E_TIMEOUT)
            return TRYST_OK;
        status =
            perf_op_end(preempt->rank, preempt->moving[which], "move the background", 0);
        preempt->moving[which] = NULL;
        if (status == TRYST_OK)
            status = background_begin(preempt, which);
        if (status != TRYST_OK)
            return status;
        preempt->oldest = (which + 1) % OUTSTANDING;
    }
}

/* Drive progress until `until_s`: other ranks may need it although nothing is in flight
 * here. */
static void idle(const struct preempt *preempt, double until_s)
{
    const struct timespec pause = {.tv_nsec = IDLE_NS};
    while (perf_now_s(preempt->rank) < until_s)
        if (!tryst_progress(preempt->rank->ctx))
            nanosleep(&pause, NULL);
}

static tryst_status urgent_once(struct preempt *preempt, double *seconds_p)
{
    double start_s = perf_now_s(preempt->rank);
    tryst_op *op;
    tryst_status status = tryst_coll_start(preempt->step, preempt->urgent, NULL,
                                           &preempt->urgent_tensor, &urgent_op, &op);
    if (status != TRYST_OK)
        return perf_judge(preempt->rank, "run the urgent all-reduce", status);
    status = perf_op_end(preempt->rank, op, "run the urgent all-reduce", PERF_WAIT_NS);
    *seconds_p = perf_now_s(preempt->rank) - start_s;
    return status;
}

/* All-reduce numbers of type F64. */
static tryst_status numbers_reduce(const struct preempt *preempt, const char *name,
                                   double *numbers, uint64_t count,
                                   tryst_reduce_op reduce)
{
    return perf_numbers_reduce(preempt->rank, preempt->step, name, numbers, count,
                               TRYST_DTYPE_F64, reduce);
}

static tryst_status meet(const struct preempt *preempt, const char *name)
{
    tryst_op *op;
    tryst_status status = tryst_barrier(preempt->step, name, &urgent_op, &op);
    return status == TRYST_OK
               ? perf_op_end(preempt->rank, op, "pass a barrier", PERF_WAIT_NS)
               : perf_judge(preempt->rank, "pass a barrier", status);
}

/* ---- a phase ----------------------------------------------------------------------- */

static uint64_t bytes_sent(const struct preempt *preempt, int to)
{
    tryst_peer_info info = {.struct_size = sizeof info, .bytes_sent = 0};
    tryst_group_peer(preempt->rank->group, to, &info);
    return info.bytes_sent;
}

static void count_begin(struct preempt *preempt)
{
    for (int to = 0; to < preempt->ranks; to++)
        preempt->sent[to] = bytes_sent(preempt, to);
}

static void count_end(struct preempt *preempt, double took_s)
{
    for (int to = 0; to < preempt->ranks; to++)
        preempt->moved[to] =
            to == preempt->rank->rank
                ? 0
                : (double)(bytes_sent(preempt, to) - preempt->sent[to]) / took_s;
}

static bool has_moved(const struct preempt *preempt)
{
    for (int to = 0; to < preempt->ranks; to++)
        if (to != preempt->rank->rank && bytes_sent(preempt, to) > preempt->sent[to])
            return true;
    return false;
}

/* Extend the phase until the background has moved: no ratio to a rate of 0 exists. */
static tryst_status background_await(struct preempt *preempt)
{
    tryst_status status = TRYST_OK;
    double limit_s = perf_now_s(preempt->rank) + MOVE_WAIT_S;
    while (status == TRYST_OK && !has_moved(preempt) &&
           perf_now_s(preempt->rank) < limit_s)
        status = background_move(preempt, perf_now_s(preempt->rank) + 0.02);
    return status;
}

/* Cancel the rest of the background and close the step. A cancel ends the all-reduce at
 * every rank, so phase_end comes after the last barrier, when no rank waits for the
 * background. */
static tryst_status phase_end(struct preempt *preempt, tryst_status status)
{
    tryst_op *op;
    for (int i = 0; i < OUTSTANDING; i++)
        if (preempt->moving[i])
            tryst_op_cancel(preempt->moving[i]);
    for (int i = 0; i < OUTSTANDING; i++) {
        if (!preempt->moving[i])
            continue;
        if (tryst_wait(preempt->moving[i], PERF_WAIT_NS) == TRYST_E_TIMEOUT &&
            status == TRYST_OK)
            status =
                perf_fail(preempt->rank, "cancel the background", TRYST_E_TIMEOUT, "");
        tryst_op_release(preempt->moving[i]);
        preempt->moving[i] = NULL;
    }
    preempt->oldest = 0;
    if (tryst_step_close(preempt->step, &op) == TRYST_OK)
        perf_op_end(preempt->rank, op, "close the step", PERF_WAIT_NS);
    preempt->step = NULL;
    return status;
}

static tryst_status phase_open(struct preempt *preempt, int what)
{
    tryst_status status =
        tryst_step_open(preempt->rank->group, ++preempt->steps, &preempt->step);
    if (status != TRYST_OK)
        return perf_judge(preempt->rank, "open a step", status);
    status = meet(preempt, "begin");
    for (unsigned i = 0; i < OUTSTANDING && what & BACKGROUND && status == TRYST_OK; i++)
        status = background_begin(preempt, i);
    return status;
}

/* Run a phase. On return `samples` has the seconds of the urgent all-reduces and `moved`
 * the bytes a second to each rank. */
static tryst_status phase(struct preempt *preempt, uint64_t iters, int what)
{
    const struct perf_options *options = preempt->rank->options;
    double every_s = (double)options->every_ms * 1e-3;
    uint64_t warmup = perf_warmup(options, WARMUP_DEFAULT);
    tryst_status status = phase_open(preempt, what);
    double begin_s = perf_now_s(preempt->rank), count_s = begin_s, seconds = 0;
    for (uint64_t i = 0; i < warmup + iters && status == TRYST_OK; i++) {
        if (i == warmup) {
            count_s = perf_now_s(preempt->rank);
            count_begin(preempt);
        }
        if (what & URGENT)
            status = urgent_once(preempt, &seconds);
        if (i >= warmup)
            preempt->samples[i - warmup] = seconds;
        double next_s = begin_s + (double)(i + 1) * every_s;
        if (status == TRYST_OK && what & BACKGROUND)
            status = background_move(preempt, next_s);
        else if (status == TRYST_OK)
            idle(preempt, next_s);
    }
    if (status == TRYST_OK && what & BACKGROUND && preempt->ranks > 1)
        status = background_await(preempt);
    count_end(preempt, perf_now_s(preempt->rank) - count_s);
    if (status == TRYST_OK)
        status = meet(preempt, "end");
    return phase_end(preempt, status);
}

/* ---- one size ---------------------------------------------------------------------- */

/* Open a step and agree on a phase's figures: greatest samples, summed rates. */
static tryst_status agree(struct preempt *preempt, struct figure *figure, double *rate_p)
{
    *rate_p = 0;
    for (int to = 0; to < preempt->ranks; to++)
        *rate_p += preempt->moved[to];
    tryst_status status =
        tryst_step_open(preempt->rank->group, ++preempt->steps, &preempt->step);
    if (status != TRYST_OK)
        return perf_judge(preempt->rank, "open a step", status);
    status = numbers_reduce(preempt, "samples", preempt->samples, figure->iters,
                            TRYST_REDUCE_MAX);
    if (status == TRYST_OK)
        status = numbers_reduce(preempt, "rate", rate_p, 1, TRYST_REDUCE_SUM);
    tool_samples_sort(preempt->samples, figure->iters);
    return phase_end(preempt, status);
}

/* Compute the bound after the phase of the background alone: the waits at each hop, and
 * their longest sum on a path. */
static tryst_status bound_find(struct preempt *preempt, struct figure *figure)
{
    size_t count = (size_t)preempt->ranks * (size_t)preempt->ranks;
    struct perf_hops hops = {.wait_s = preempt->waits, .ranks = preempt->ranks};
    memset(preempt->waits, 0, count * sizeof *preempt->waits);
    tryst_status status = perf_hops_fill(preempt->rank, preempt->moved, &hops);
    if (status != TRYST_OK)
        return status;
    figure->is_measured = hops.is_measured;
    status = tryst_step_open(preempt->rank->group, ++preempt->steps, &preempt->step);
    if (status != TRYST_OK)
        return perf_judge(preempt->rank, "open a step", status);
    status = phase_end(preempt, numbers_reduce(preempt, "waits", preempt->waits, count,
                                               TRYST_REDUCE_SUM));
    if (status == TRYST_OK)
        status = perf_hops_longest(preempt->rank, &preempt->urgent_params, &hops,
                                   &figure->wait_s);
    figure->bound_s = figure->unloaded_s + figure->wait_s;
    return status;
}

static void progress(const struct preempt *preempt, const struct figure *figure,
                     const char *what)
{
    uint64_t rounds = figure->iters + perf_warmup(preempt->rank->options, WARMUP_DEFAULT);
    double seconds = (double)(rounds * preempt->rank->options->every_ms) * 1e-3;
    if (preempt->rank->rank == 0 && seconds >= PROGRESS_FROM_S)
        fprintf(stderr, "tryst-perf: preempt, %s: %s, %.0f s\n",
                perf_bytes_text(figure->bytes, (char[32]){""}), what, seconds);
}

static tryst_status figure_measure(struct preempt *preempt, struct figure *figure)
{
    uint64_t n = figure->iters;
    double none;
    progress(preempt, figure, "urgent alone");
    tryst_status status = phase(preempt, n, URGENT);
    if (status == TRYST_OK)
        status = agree(preempt, figure, &none);
    figure->unloaded_s = tool_quantile(preempt->samples, n, 50);
    progress(preempt, figure, "background alone");
    if (status == TRYST_OK)
        status = phase(preempt, n, BACKGROUND);
    if (status == TRYST_OK)
        status = bound_find(preempt, figure);
    if (status == TRYST_OK)
        status = agree(preempt, figure, &figure->alone_bytes_per_s);
    progress(preempt, figure, "both");
    if (status == TRYST_OK)
        status = phase(preempt, n, URGENT | BACKGROUND);
    if (status == TRYST_OK)
        status = agree(preempt, figure, &figure->bytes_per_s);
    figure->median_s = tool_quantile(preempt->samples, n, 50);
    figure->p95_s = tool_quantile(preempt->samples, n, 95);
    figure->p99_s = tool_quantile(preempt->samples, n, 99);
    return status;
}

/* ---- tensors ----------------------------------------------------------------------- */

static tryst_status tensor_get(struct preempt *preempt, int which, uint64_t bytes,
                               const char *name, tryst_coll_params *params,
                               tryst_coll **coll_p, tryst_tensor *tensor)
{
    const struct perf_rank *rank = preempt->rank;
    tryst_dtype dtype = rank->options->dtype;
    uint64_t count = bytes / tryst_dtype_bytes(dtype);
    void *data;
    *params = (tryst_coll_params){.struct_size = sizeof *params,
                                  .kind = TRYST_COLL_ALLREDUCE,
                                  .reduce = TRYST_REDUCE_SUM,
                                  .count = count,
                                  .dtype = dtype,
                                  .name = name};
    tryst_status status = tryst_coll_prepare(rank->group, params, coll_p);
    if (status != TRYST_OK)
        return perf_judge(preempt->rank, "prepare an all-reduce", status);
    status = perf_tensor_memory(rank, bytes, &preempt->mem[which],
                                &preempt->memory[which], &data);
    if (status != TRYST_OK)
        return status;
    *tensor = (tryst_tensor){.struct_size = sizeof *tensor,
                             .data = data,
                             .count = count,
                             .dtype = dtype,
                             .memory = rank->options->memory[0],
                             .mem = preempt->mem[which]};
    return TRYST_OK;
}

static void tensor_put(struct preempt *preempt, int which, tryst_coll **coll)
{
    tryst_coll_release(*coll);
    tryst_mem_release(preempt->mem[which]);
    free(preempt->memory[which]);
    *coll = NULL;
    preempt->mem[which] = NULL;
    preempt->memory[which] = NULL;
}

static tryst_status size_run(struct preempt *preempt, struct figure *figure)
{
    tryst_status status =
        tensor_get(preempt, 0, figure->bytes, "urgent", &preempt->urgent_params,
                   &preempt->urgent, &preempt->urgent_tensor);
    if (status == TRYST_OK)
        status = figure_measure(preempt, figure);
    tensor_put(preempt, 0, &preempt->urgent);
    return status;
}

/* ---- output ------------------------------------------------------------------------ */

static void head_print(const struct preempt *preempt, const struct figure *figure)
{
    const struct perf_options *options = preempt->rank->options;
    printf("tryst-perf preempt --op allreduce\n");
    perf_setup_print(stdout, preempt->rank);
    printf("# background: %s of all-reduces of priority %d under way, %d at a time%s\n",
           perf_bytes_text(options->background_bytes, (char[32]){""}), LOW_PRIORITY,
           OUTSTANDING, options->fifo ? "; first come, first served" : "");
    printf("# urgent: an all-reduce of priority 0 every %" PRIu64
           " ms; the slowest rank counts\n",
           options->every_ms);
    printf("# bound: alone + windows at each hop of the longest path / the host's rate, "
           "%s\n",
           figure->is_measured ? "as measured (TRYST_TOPOLOGY is unset)"
                               : "of TRYST_TOPOLOGY");
    printf("%10s %7s %10s %10s %10s %10s %10s %9s %11s %11s %8s\n", "size", "iters",
           "alone, ms", "median, ms", "p95, ms", "p99, ms", "bound, ms", "p99/bound",
           "moved, MB/s", "alone, MB/s", "together");
}

static void row_print(const struct figure *figure)
{
    printf("%10s %7" PRIu64
           " %10.3f %10.3f %10.3f %10.3f %10.3f %9.3f %11.1f %11.1f %7.1f%%\n",
           perf_bytes_text(figure->bytes, (char[32]){""}), figure->iters,
           figure->unloaded_s * 1e3, figure->median_s * 1e3, figure->p95_s * 1e3,
           figure->p99_s * 1e3, figure->bound_s * 1e3, figure->p99_s / figure->bound_s,
           figure->bytes_per_s / 1e6, figure->alone_bytes_per_s / 1e6,
           100 * figure->bytes_per_s / figure->alone_bytes_per_s);
    fflush(stdout);
}

static void figure_print(FILE *file, const struct figure *figure, bool is_first)
{
    fprintf(file, "%s\n  {\"bytes\": %" PRIu64 ", \"iterations\": %" PRIu64,
            is_first ? "" : ",", figure->bytes, figure->iters);
    tool_json_number(file, "unloaded_seconds", figure->unloaded_s);
    tool_json_number(file, "seconds", figure->median_s);
    tool_json_number(file, "seconds_p95", figure->p95_s);
    tool_json_number(file, "seconds_p99", figure->p99_s);
    tool_json_number(file, "bound_seconds", figure->bound_s);
    tool_json_number(file, "hops_seconds", figure->wait_s);
    fprintf(file, ", \"rates\": \"%s\"", figure->is_measured ? "measured" : "topology");
    tool_json_number(file, "ratio", figure->p99_s / figure->bound_s);
    tool_json_number(file, "bytes_per_s", figure->bytes_per_s);
    tool_json_number(file, "background_alone_bytes_per_s", figure->alone_bytes_per_s);
    tool_json_number(file, "together", figure->bytes_per_s / figure->alone_bytes_per_s);
    fprintf(file, "}");
}

static void json_print(FILE *file, const void *what)
{
    const struct preempt *preempt = what;
    const struct perf_options *options = preempt->rank->options;
    fprintf(file, "{\"test\": \"preempt\", \"collective\": \"allreduce\", ");
    perf_setup_json(file, preempt->rank);
    fprintf(file,
            ", \"order\": \"%s\", \"background_bytes\": %" PRIu64
            ", \"every_seconds\": %.9g, \"results\": [",
            options->fifo ? "fifo" : "urgent", options->background_bytes,
            (double)options->every_ms * 1e-3);
    for (int i = 0; i < options->sizes_count; i++)
        figure_print(file, &preempt->figures[i], i == 0);
    fprintf(file, "\n]}\n");
}

/* ---- a rank ------------------------------------------------------------------------ */

static tryst_status preempt_open(struct preempt *preempt)
{
    const struct perf_options *options = preempt->rank->options;
    size_t ranks = (size_t)preempt->ranks;
    uint64_t iters = options->iters ? options->iters : ITERS_DEFAULT;
    uint64_t bytes = options->background_bytes / OUTSTANDING;
    for (int i = 0; i < options->sizes_count; i++)
        preempt->figures[i] = (struct figure){.bytes = options->sizes[i], .iters = iters};
    preempt->samples = calloc(iters, sizeof *preempt->samples);
    preempt->moved = calloc(ranks, sizeof *preempt->moved);
    preempt->sent = calloc(ranks, sizeof *preempt->sent);
    preempt->waits = calloc(ranks * ranks, sizeof *preempt->waits);
    if (!preempt->samples || !preempt->moved || !preempt->sent || !preempt->waits)
        return perf_fail(preempt->rank, "allocate the samples", TRYST_E_NOMEM, "");
    tryst_status status = TRYST_OK;
    for (int i = 0; i < OUTSTANDING && status == TRYST_OK; i++) {
        char name[32];
        snprintf(name, sizeof name, "background %d", i);
        status = tensor_get(preempt, 1 + i, bytes, name, &preempt->background_params,
                            &preempt->background[i], &preempt->background_tensors[i]);
    }
    return status;
}

static void preempt_close(struct preempt *preempt)
{
    for (int i = 0; i < OUTSTANDING; i++)
        tensor_put(preempt, 1 + i, &preempt->background[i]);
    free(preempt->samples);
    free(preempt->moved);
    free(preempt->sent);
    free(preempt->waits);
}

int perf_preempt_coll(const struct perf_rank *rank)
{
    static struct preempt preempt; /* static: too large for the stack */
    const struct perf_options *options = rank->options;
    bool table = perf_has_table(rank);
    preempt.rank = rank;
    preempt.ranks = tryst_group_size(rank->group);
    tryst_status status = preempt_open(&preempt);
    for (int i = 0; i < options->sizes_count && status == TRYST_OK; i++) {
        status = size_run(&preempt, &preempt.figures[i]);
        if (status == TRYST_OK && table && i == 0)
            head_print(&preempt, &preempt.figures[i]);
        if (status == TRYST_OK && table)
            row_print(&preempt.figures[i]);
    }
    int failed = status != TRYST_OK || perf_json_write(rank, json_print, &preempt);
    preempt_close(&preempt);
    return failed;
}
