/* SPDX-License-Identifier: Apache-2.0 */
/* Measures tryst-perf preempt: an urgent tensor every so often, behind tensors of a
 * gigabyte to the same rank.
 *
 * Idea: each size has three phases: urgent tensors alone, background alone, both. Rank 0
 * keeps two sends of the background in flight, so that an urgent tensor always has one to
 * overtake, and times each urgent send from its submission to its completion, which the
 * receiver acknowledges. Rank 1 keeps receives of both kinds posted. At the end of a
 * phase rank 0 cancels the rest of the background, between two slices, and both ranks
 * close the phase's step, which ends the receives that rank 1 still has posted.
 * Invariant: no callback submits once `over` is set. */
#include "perf_preempt.h"
#include "tools/figures.h"
#include "tools/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define S_NS 1e9

enum { OUTSTANDING = 2, ITERS_DEFAULT = 100, WARMUP_DEFAULT = 5 };

struct figure {
    uint64_t bytes, iters;
    double unloaded_s, median_s, p95_s, p99_s, bound_s;
    double bytes_per_s, background_bytes_per_s, background_alone_bytes_per_s;
};

/* Receives of one kind on rank 1: some are posted, and each one that completes posts the
 * next. */
struct stream {
    struct preempt *preempt;
    const tryst_key *key;
    const tryst_tensor *tensor;
    tryst_op_params params;
};

struct preempt {
    const struct perf_rank *rank;
    tryst_key *urgent_key, *background_key, *over_key;
    void *data[2]; /* urgent, background */
    tryst_mem *mem[2];
    tryst_tensor urgent, background;
    tryst_step *step;
    uint64_t steps;                /* steps opened so far */
    tryst_op *moving[OUTSTANDING]; /* rank 0: sends of the background, in turn */
    unsigned oldest;
    /* rank 1: urgent, background; in use until the phase's step is closed */
    struct stream streams[2];
    bool over; /* rank 1: the phase has ended */
    double *samples;
    struct figure figures[PERF_SIZES_MAX];
};

/* ---- receiving --------------------------------------------------------------------- */

static const tryst_op_params urgent_params = {
    .struct_size = sizeof urgent_params, .flags = TRYST_OP_PRIORITY, .priority = -1};
static const tryst_op_params background_params = {.struct_size = sizeof background_params,
                                                  .flags = TRYST_OP_BACKGROUND};

static tryst_status receive(struct stream *stream)
{
    return tryst_recv_key(stream->preempt->step, stream->key, stream->tensor,
                          &stream->params, NULL);
}

static void receive_again(void *arg, tryst_op *op, tryst_status status)
{
    struct stream *stream = arg;
    (void)op;
    if (status == TRYST_OK && !stream->preempt->over)
        (void)receive(stream); /* if this fails, the send fails and rank 0 reports that */
}

/* Return the longest time that a phase may take: each of its urgent tensors may take
 * PERF_WAIT_NS. */
static uint64_t phase_most_ns(const struct perf_options *options, uint64_t iters)
{
    uint64_t rounds = iters + perf_warmup(options, WARMUP_DEFAULT) + 2;
    uint64_t round_ns = options->every_ms * 1000000 + PERF_WAIT_NS;
    return rounds > UINT64_MAX / round_ns ? UINT64_MAX : rounds * round_ns;
}

/* Run rank 1's part of a phase, until rank 0's tensor `over` arrives. */
static tryst_status phase_receive(struct preempt *preempt, uint64_t iters, bool urgent,
                                  bool background)
{
    const bool wanted[2] = {urgent, background};
    tryst_tensor over = preempt->urgent;
    tryst_op *over_op;
    over.count = 0;
    preempt->over = false;
    preempt->streams[0] =
        (struct stream){preempt, preempt->urgent_key, &preempt->urgent, urgent_params};
    preempt->streams[1] = (struct stream){preempt, preempt->background_key,
                                          &preempt->background, background_params};
    tryst_status status =
        tryst_recv_key(preempt->step, preempt->over_key, &over, NULL, &over_op);
    if (status != TRYST_OK)
        return perf_judge(preempt->rank, "receive the end of a phase", status);
    for (int i = 0; i < 2; i++) {
        struct stream *stream = &preempt->streams[i];
        stream->params.callback = receive_again;
        stream->params.arg = stream;
        for (int n = 0; n < OUTSTANDING && wanted[i] && status == TRYST_OK; n++)
            status = receive(stream);
    }
    if (status != TRYST_OK) {
        perf_judge(preempt->rank, "receive", status);
        tryst_op_release(over_op);
    } else {
        status = perf_op_end(preempt->rank, over_op, "receive the end of a phase",
                             phase_most_ns(preempt->rank->options, iters));
    }
    preempt->over = true;
    tryst_op *close_op;
    if (tryst_step_close(preempt->step, &close_op) == TRYST_OK)
        perf_op_end(preempt->rank, close_op, "close the step", PERF_WAIT_NS);
    return status;
}

/* ---- sending ----------------------------------------------------------------------- */

static tryst_status background_begin(struct preempt *preempt, tryst_op **op_p)
{
    tryst_status status = tryst_send_key(preempt->step, preempt->background_key,
                                         &preempt->background, &background_params, op_p);
    return perf_judge(preempt->rank, "send the background", status);
}

/* Let the background move until `until_s`; two of its sends are in flight on return. */
static tryst_status background_move(struct preempt *preempt, double until_s)
{
    for (;;) {
        double left_s = until_s - perf_now_s(preempt->rank);
        tryst_op **op = &preempt->moving[preempt->oldest];
        tryst_status status =
            tryst_wait(*op, left_s > 0 ? (uint64_t)(left_s * S_NS) + 1 : 0);
        if (status == TRYST_E_TIMEOUT)
            return TRYST_OK;
        status = perf_op_end(preempt->rank, *op, "send the background", 0);
        *op = NULL;
        if (status == TRYST_OK)
            status = background_begin(preempt, op);
        if (status != TRYST_OK)
            return status;
        preempt->oldest = (preempt->oldest + 1) % OUTSTANDING;
    }
}

static tryst_status urgent_once(struct preempt *preempt, double *seconds_p)
{
    double start_s = perf_now_s(preempt->rank);
    tryst_op *op;
    tryst_status status = tryst_send_key(preempt->step, preempt->urgent_key,
                                         &preempt->urgent, &urgent_params, &op);
    if (status != TRYST_OK)
        return perf_judge(preempt->rank, "send the urgent tensor", status);
    status = perf_op_end(preempt->rank, op, "send the urgent tensor", PERF_WAIT_NS);
    *seconds_p = perf_now_s(preempt->rank) - start_s;
    return status;
}

static uint64_t bytes_sent(const struct preempt *preempt)
{
    tryst_peer_info info = {.struct_size = sizeof info, .bytes_sent = 0};
    tryst_group_peer(preempt->rank->group, 1, &info);
    return info.bytes_sent;
}

/* Cancel the rest of the background, and send `over` to rank 1. */
static tryst_status phase_end(struct preempt *preempt, tryst_status status)
{
    tryst_tensor over = preempt->urgent;
    tryst_op *op;
    over.count = 0;
    for (int i = 0; i < OUTSTANDING; i++) {
        if (!preempt->moving[i])
            continue;
        tryst_op_cancel(preempt->moving[i]);
        tryst_wait(preempt->moving[i], PERF_WAIT_NS);
        tryst_op_release(preempt->moving[i]);
        preempt->moving[i] = NULL;
    }
    if (status == TRYST_OK)
        status = tryst_send_key(preempt->step, preempt->over_key, &over, NULL, &op);
    if (status == TRYST_OK)
        status = perf_op_end(preempt->rank, op, "send the end of a phase", PERF_WAIT_NS);
    if (tryst_step_close(preempt->step, &op) == TRYST_OK)
        perf_op_end(preempt->rank, op, "close the step", PERF_WAIT_NS);
    return status;
}

/* Run rank 0's part of a phase: `iters` urgent tensors, or the same time without them.
 * *background_p and *urgent_p: bytes a second of the background and of urgent tensors,
 * after the warm-up. */
static tryst_status phase_send(struct preempt *preempt, uint64_t iters, bool urgent,
                               bool background, double *background_p, double *urgent_p)
{
    const struct perf_options *options = preempt->rank->options;
    double every_s = (double)options->every_ms * 1e-3;
    uint64_t warmup = perf_warmup(options, WARMUP_DEFAULT);
    tryst_status status = TRYST_OK;
    double start_s = 0, seconds = 0;
    uint64_t before = 0;
    for (int i = 0; i < OUTSTANDING && background && status == TRYST_OK; i++)
        status = background_begin(preempt, &preempt->moving[i]);
    for (uint64_t i = 0; i < warmup + iters && status == TRYST_OK; i++) {
        if (i == warmup) {
            start_s = perf_now_s(preempt->rank);
            before = bytes_sent(preempt);
        }
        double next_s = perf_now_s(preempt->rank) + every_s;
        if (urgent)
            status = urgent_once(preempt, &seconds);
        if (urgent && i >= warmup)
            preempt->samples[i - warmup] = seconds;
        if (status == TRYST_OK && background)
            status = background_move(preempt, next_s);
    }
    double took_s = perf_now_s(preempt->rank) - start_s;
    uint64_t urgent_bytes = urgent ? iters * preempt->urgent.count : 0;
    *background_p =
        ((double)(bytes_sent(preempt) - before) - (double)urgent_bytes) / took_s;
    *urgent_p = (double)urgent_bytes / took_s;
    return phase_end(preempt, status);
}

/* ---- one size ---------------------------------------------------------------------- */

static tryst_status phase(struct preempt *preempt, uint64_t iters, bool urgent,
                          bool background, double *background_p, double *urgent_p)
{
    tryst_status status =
        tryst_step_open(preempt->rank->group, ++preempt->steps, &preempt->step);
    if (status != TRYST_OK)
        return perf_judge(preempt->rank, "open a step", status);
    return preempt->rank->rank == 0
               ? phase_send(preempt, iters, urgent, background, background_p, urgent_p)
               : phase_receive(preempt, iters, urgent, background);
}

static tryst_tensor tensor_of(const struct preempt *preempt, int which, uint64_t bytes)
{
    const struct perf_rank *rank = preempt->rank;
    return (tryst_tensor){.struct_size = sizeof(tryst_tensor),
                          .data = preempt->data[which],
                          .count = bytes,
                          .dtype = TRYST_DTYPE_U8,
                          .memory = rank->options->memory[rank->rank],
                          .mem = preempt->mem[which]};
}

static tryst_status size_run(struct preempt *preempt, struct figure *figure)
{
    double none;
    uint64_t n = figure->iters;
    tryst_peer_info info = {.struct_size = sizeof info, .window_bytes = 0};
    preempt->urgent = tensor_of(preempt, 0, figure->bytes);
    tryst_status status = phase(preempt, n, true, false, &none, &none);
    tool_samples_sort(preempt->samples, n);
    figure->unloaded_s = tool_quantile(preempt->samples, n, 50);
    if (status == TRYST_OK)
        status =
            phase(preempt, n, false, true, &figure->background_alone_bytes_per_s, &none);
    if (status == TRYST_OK)
        status = phase(preempt, n, true, true, &figure->background_bytes_per_s,
                       &figure->bytes_per_s);
    tool_samples_sort(preempt->samples, n);
    figure->median_s = tool_quantile(preempt->samples, n, 50);
    figure->p95_s = tool_quantile(preempt->samples, n, 95);
    figure->p99_s = tool_quantile(preempt->samples, n, 99);
    tryst_group_peer(preempt->rank->group, 1 - preempt->rank->rank, &info);
    figure->bound_s = figure->unloaded_s +
                      (double)info.window_bytes / figure->background_alone_bytes_per_s;
    return status;
}

/* ---- output ------------------------------------------------------------------------ */

static void table_head(const struct perf_rank *rank)
{
    tryst_peer_info info = {.struct_size = sizeof info, .transport = "", .mechanism = ""};
    tryst_group_peer(rank->group, 1 - rank->rank, &info);
    printf("tryst-perf preempt over %s%s%s: urgent tensors every %" PRIu64
           " ms, background of %s%s\n",
           info.transport, *info.mechanism ? ", " : "", info.mechanism,
           rank->options->every_ms,
           perf_bytes_text(rank->options->background_bytes, (char[32]){""}),
           rank->options->fifo ? ", first come, first served" : "");
    printf("%12s %9s %11s %11s %11s %11s %11s %15s %15s\n", "size", "transfers",
           "alone, ms", "median, ms", "p95, ms", "p99, ms", "bound, ms",
           "background MB/s", "alone MB/s");
}

static void table_row(const struct figure *figure)
{
    printf("%12s %9" PRIu64 " %11.3f %11.3f %11.3f %11.3f %11.3f %15.1f %15.1f\n",
           perf_bytes_text(figure->bytes, (char[32]){""}), figure->iters,
           figure->unloaded_s * 1e3, figure->median_s * 1e3, figure->p95_s * 1e3,
           figure->p99_s * 1e3, figure->bound_s * 1e3,
           figure->background_bytes_per_s / 1e6,
           figure->background_alone_bytes_per_s / 1e6);
    fflush(stdout);
}

static void json_figures(FILE *file, const void *what)
{
    const struct preempt *preempt = what;
    const struct perf_options *options = preempt->rank->options;
    tryst_peer_info info = {.struct_size = sizeof info, .transport = "", .mechanism = ""};
    tryst_group_peer(preempt->rank->group, 1, &info);
    fprintf(
        file,
        "{\"test\": \"preempt\", \"version\": \"%s\", \"transport\": \"%s\", "
        "\"order\": \"%s\", \"window_bytes\": %" PRIu64 ", \"background_bytes\": %" PRIu64
        ", \"every_seconds\": %.9g, \"results\": [",
        tryst_version_string(), info.transport, options->fifo ? "fifo" : "urgent",
        info.window_bytes, options->background_bytes, (double)options->every_ms * 1e-3);
    for (int i = 0; i < options->sizes_count; i++) {
        const struct figure *figure = &preempt->figures[i];
        fprintf(file,
                "%s\n  {\"bytes\": %" PRIu64 ", \"iterations\": %" PRIu64
                ", \"unloaded_seconds\": %.9g, \"seconds\": %.9g, \"seconds_p95\": %.9g, "
                "\"seconds_p99\": %.9g, \"bound_seconds\": %.9g, \"bytes_per_s\": %.9g, "
                "\"background_bytes_per_s\": %.9g, \"background_alone_bytes_per_s\": "
                "%.9g}",
                i ? "," : "", figure->bytes, figure->iters, figure->unloaded_s,
                figure->median_s, figure->p95_s, figure->p99_s, figure->bound_s,
                figure->bytes_per_s, figure->background_bytes_per_s,
                figure->background_alone_bytes_per_s);
    }
    fprintf(file, "\n]}\n");
}

/* ---- a rank ------------------------------------------------------------------------ */

static tryst_status preempt_open(struct preempt *preempt)
{
    const struct perf_rank *rank = preempt->rank;
    const struct perf_options *options = rank->options;
    uint64_t most = 1, iters = options->iters ? options->iters : ITERS_DEFAULT;
    for (int i = 0; i < options->sizes_count; i++) {
        preempt->figures[i].bytes = options->sizes[i];
        preempt->figures[i].iters = iters;
        most = options->sizes[i] > most ? options->sizes[i] : most;
    }
    preempt->samples = calloc(iters, sizeof *preempt->samples);
    if (!preempt->samples)
        return perf_fail(rank, "allocate the samples", TRYST_E_NOMEM, "");
    tryst_status status = perf_key(rank, 0, 1, "urgent", &preempt->urgent_key);
    if (status == TRYST_OK)
        status = perf_key(rank, 0, 1, "background", &preempt->background_key);
    if (status == TRYST_OK)
        status = perf_key(rank, 0, 1, "over", &preempt->over_key);
    if (status == TRYST_OK)
        status = perf_memory(rank, most, &preempt->data[0], &preempt->mem[0]);
    if (status == TRYST_OK)
        status = perf_memory(rank, options->background_bytes, &preempt->data[1],
                             &preempt->mem[1]);
    if (status == TRYST_OK)
        preempt->background = tensor_of(preempt, 1, options->background_bytes);
    return status;
}

static void preempt_close(struct preempt *preempt)
{
    for (int i = 0; i < 2; i++)
        tryst_mem_release(preempt->mem[i]);
    tryst_key_release(preempt->urgent_key);
    tryst_key_release(preempt->background_key);
    tryst_key_release(preempt->over_key);
    free(preempt->samples);
}

int perf_preempt(const struct perf_rank *rank)
{
    static struct preempt preempt; /* static: too large for the stack */
    const struct perf_options *options = rank->options;
    bool table = perf_has_table(rank);
    preempt.rank = rank;
    tryst_status status = preempt_open(&preempt);
    for (int i = 0; i < options->sizes_count && status == TRYST_OK; i++) {
        status = size_run(&preempt, &preempt.figures[i]);
        if (status == TRYST_OK && table && i == 0)
            table_head(rank); /* the transport is known only after the first transfers */
        if (status == TRYST_OK && table)
            table_row(&preempt.figures[i]);
    }
    int failed = status != TRYST_OK || perf_json_write(rank, json_figures, &preempt);
    preempt_close(&preempt);
    return failed;
}
