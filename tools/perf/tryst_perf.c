/* SPDX-License-Identifier: Apache-2.0 */
/* tryst-perf: measures latency and bandwidth between two ranks, by prepared key.
 *
 * Idea: every transfer of one size uses one prepared key per direction again and again;
 * number i meets number i, so nothing is parsed, allocated or agreed on while the clock
 * runs.
 * Rank 0 measures, prints and writes; rank 1 only replies. */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tryst/tryst.h>

#include "perf_coll.h"
#include "perf_preempt.h"
#include "perf_preempt_coll.h"
#include "perf_rank.h"
#include "perf_sched.h"
#include "tools/figures.h"
#include "tools/job.h"
#include "tools/json.h"
#include "tools/launch/launcher.h"
#include "tools/order/order_simulate.h"
#include "tools/standard_files.h"

/* Without --iterations one size moves at most about this many bytes. */
#define BUDGET_BYTES (4ull << 30)
#define ITERS_MOST   10000ull
#define ITERS_LEAST  50ull
/* A transfer that takes longer fails the measurement. */
#define WAIT_NS 30000000000ull

struct figure {
    uint64_t bytes, iters;
    double seconds, seconds_p99, bytes_per_s;
};

struct perf {
    struct perf_rank at;
    tryst_step *step;
    tryst_key *there, *back;
    tryst_op *sent; /* pingpong: the last send, not yet waited for */
    void *data;
    tryst_mem *mem;
    double *samples; /* seconds per transfer, `samples_count` of them */
    uint64_t samples_count;
    double elapsed_s; /* bandwidth: seconds of all transfers that count */
    struct figure figures[PERF_SIZES_MAX];
};

static bool is_pingpong(const struct perf_options *options)
{
    return strcmp(options->kind->name, "pingpong") == 0;
}

static uint64_t iters_of(const struct perf_options *options, uint64_t bytes)
{
    uint64_t iters = BUDGET_BYTES / bytes;
    if (options->iters)
        return options->iters;
    return iters > ITERS_MOST ? ITERS_MOST : iters < ITERS_LEAST ? ITERS_LEAST : iters;
}

static uint64_t warmup_of(const struct perf_options *options, uint64_t iters)
{
    return perf_warmup(options, iters / 10 > 10 ? iters / 10 : 10);
}

/* ---- transfers --------------------------------------------------------------------- */

static tryst_tensor tensor_of(const struct perf *perf, uint64_t bytes)
{
    return (tryst_tensor){.struct_size = sizeof(tryst_tensor),
                          .data = perf->data,
                          .count = bytes,
                          .dtype = TRYST_DTYPE_U8,
                          .memory = perf->at.options->memory[perf->at.rank],
                          .mem = perf->mem};
}

static tryst_status op_end(const struct perf *perf, tryst_op *op, const char *what)
{
    return perf_op_end(&perf->at, op, what, WAIT_NS);
}

/* End the previous send, if there is one: its acknowledgement came with the peer's
 * message or follows soon. */
static tryst_status ping_sent(struct perf *perf, tryst_op *op)
{
    return op ? op_end(perf, op, "send") : TRYST_OK;
}

/* Send, and only then wait for the previous send. */
static tryst_status ping_send(struct perf *perf, const tryst_key *key,
                              const tryst_tensor *tensor)
{
    tryst_op *before = perf->sent;
    perf->sent = NULL;
    tryst_status status = tryst_send_key(perf->step, key, tensor, NULL, &perf->sent);
    if (status != TRYST_OK)
        perf_judge(&perf->at, "send", status);
    tryst_status ended = ping_sent(perf, before);
    return status == TRYST_OK ? ended : status;
}

/* Run one round trip. Each rank posts its receive and reads the clock while its message
 * is in flight. A round trip is the time between the values that two calls give to
 * *left_s_p. */
static tryst_status pingpong_once(struct perf *perf, const tryst_tensor *tensor,
                                  double *left_s_p)
{
    bool first = perf->at.rank == 0;
    tryst_op *recv;
    tryst_status status = first ? ping_send(perf, perf->there, tensor) : TRYST_OK;
    if (status != TRYST_OK)
        return status;
    status =
        tryst_recv_key(perf->step, first ? perf->back : perf->there, tensor, NULL, &recv);
    if (status != TRYST_OK)
        return perf_judge(&perf->at, "receive", status);
    if (first)
        *left_s_p = perf_now_s(&perf->at);
    status = op_end(perf, recv, "receive");
    if (status != TRYST_OK || first)
        return status;
    status = ping_send(perf, perf->back, tensor);
    *left_s_p = perf_now_s(&perf->at);
    return status;
}

static tryst_status pingpong(struct perf *perf, uint64_t bytes, uint64_t iters)
{
    tryst_tensor tensor = tensor_of(perf, bytes);
    uint64_t warmup = warmup_of(perf->at.options, iters);
    tryst_status status = TRYST_OK;
    double before = 0, left = 0;
    /* One round more than is counted: a round trip ends where the next one begins. */
    for (uint64_t i = 0; i <= warmup + iters && status == TRYST_OK; i++) {
        status = pingpong_once(perf, &tensor, &left);
        if (i > warmup)
            perf->samples[i - warmup - 1] = (left - before) / 2;
        before = left;
    }
    tryst_status ended = ping_sent(perf, perf->sent);
    perf->sent = NULL;
    perf->samples_count = status == TRYST_OK ? iters : 0;
    return status == TRYST_OK ? ended : status;
}

/* Turn times of completion into times per transfer, each averaged over the window that
 * ends there: completions come in bursts, so the time between two of them is meaningless.
 * Between two times are `stride` transfers; before the last, perhaps fewer. */
static void samples_difference(struct perf *perf, double start_s, uint64_t stride,
                               uint64_t iters)
{
    uint64_t window = (uint64_t)perf->at.options->window / stride;
    double *times = perf->samples;
    perf->elapsed_s = times[perf->samples_count - 1] - start_s;
    for (uint64_t i = perf->samples_count; i-- > 0;) {
        uint64_t ended = (i + 1) * stride < iters ? (i + 1) * stride : iters;
        bool first = i < window;
        times[i] = (times[i] - (first ? start_s : times[i - window])) /
                   (double)(ended - (first ? 0 : (i + 1 - window) * stride));
    }
}

/* Keep `window` operations in flight: wait for the oldest, then submit the next. The
 * clock is read sixteen times a window, because reading it costs as much as a tenth of a
 * small transfer. */
static tryst_status bandwidth(struct perf *perf, uint64_t bytes, uint64_t iters)
{
    int window = perf->at.options->window;
    uint64_t stride = window >= 16 ? (uint64_t)window / 16 : 1;
    uint64_t warmup = warmup_of(perf->at.options, iters), all = warmup + iters, ended = 0;
    tryst_tensor tensor = tensor_of(perf, bytes);
    tryst_op **ops = calloc((size_t)window, sizeof *ops);
    tryst_status status = ops ? TRYST_OK : TRYST_E_NOMEM;
    double start_s = perf_now_s(&perf->at); /* overwritten at the end of a warm-up */
    perf->samples_count = 0;
    for (uint64_t i = 0; ended < all && status == TRYST_OK; i++) {
        tryst_op **op = &ops[i % (uint64_t)window];
        if (*op) {
            status = op_end(perf, *op, perf->at.rank == 0 ? "send" : "receive");
            *op = NULL;
            if (++ended == warmup)
                start_s = perf_now_s(&perf->at);
            else if (ended > warmup && ((ended - warmup) % stride == 0 || ended == all))
                perf->samples[perf->samples_count++] = perf_now_s(&perf->at);
        }
        if (status == TRYST_OK && i < all) {
            status = perf->at.rank == 0
                         ? tryst_send_key(perf->step, perf->there, &tensor, NULL, op)
                         : tryst_recv_key(perf->step, perf->there, &tensor, NULL, op);
            if (status != TRYST_OK)
                perf_judge(&perf->at, perf->at.rank == 0 ? "send" : "receive", status);
        }
    }
    for (int i = 0; ops && i < window; i++)
        tryst_op_release(ops[i]);
    free(ops);
    if (status == TRYST_OK)
        samples_difference(perf, start_s, stride, iters);
    return status;
}

static void figure_make(struct perf *perf, struct figure *figure)
{
    uint64_t n = perf->samples_count;
    if (n == 0) /* the measurement failed */
        return;
    tool_samples_sort(perf->samples, n);
    figure->seconds = (perf->samples[n / 2] + perf->samples[(n - 1) / 2]) / 2;
    figure->seconds_p99 = perf->samples[n - 1 - n / 100];
    figure->bytes_per_s =
        (double)figure->bytes / (!is_pingpong(perf->at.options)
                                     ? perf->elapsed_s / (double)figure->iters
                                     : figure->seconds);
}

/* ---- one size ---------------------------------------------------------------------- */

static tryst_status size_run(struct perf *perf, int index)
{
    const struct perf_options *options = perf->at.options;
    struct figure *figure = &perf->figures[index];
    uint64_t bytes = options->sizes[index];
    figure->bytes = bytes;
    figure->iters = iters_of(options, bytes);
    perf->samples = calloc(figure->iters, sizeof *perf->samples);
    if (!perf->samples)
        return perf_fail(&perf->at, "allocate the samples", TRYST_E_NOMEM, "");
    tryst_status status = perf_memory(&perf->at, bytes, &perf->data, &perf->mem);
    if (status == TRYST_OK)
        status = tryst_step_open(perf->at.group, (uint64_t)index + 1, &perf->step);
    if (status == TRYST_OK) {
        status = is_pingpong(options) ? pingpong(perf, bytes, figure->iters)
                                      : bandwidth(perf, bytes, figure->iters);
        tryst_op *close_op;
        if (tryst_step_close(perf->step, &close_op) == TRYST_OK)
            op_end(perf, close_op, "close of the step");
    }
    figure_make(perf, figure);
    tryst_mem_release(perf->mem);
    perf->mem = NULL;
    free(perf->samples);
    return status;
}

/* ---- output ------------------------------------------------------------------------ */

static void table_head(const struct perf *perf)
{
    tryst_peer_info info = {
        .struct_size = sizeof info, .transport = "?", .mechanism = ""};
    tryst_group_peer(perf->at.group, 1 - perf->at.rank, &info);
    printf("tryst-perf %s over %s%s%s\n",
           is_pingpong(perf->at.options) ? "pingpong" : "bandwidth",
           *info.transport ? info.transport : "?", *info.mechanism ? ", " : "",
           info.mechanism);
    printf("%12s %9s %14s %14s %14s\n", "size", "transfers",
           is_pingpong(perf->at.options) ? "one way, us" : "each, us", "p99, us", "MB/s");
}

static void table_row(const struct figure *figure)
{
    printf("%12s %9" PRIu64 " %14.2f %14.2f %14.1f\n",
           perf_bytes_text(figure->bytes, (char[32]){""}), figure->iters,
           figure->seconds * 1e6, figure->seconds_p99 * 1e6, figure->bytes_per_s / 1e6);
    fflush(stdout);
}

static void json_figures(FILE *file, const void *what)
{
    const struct perf *perf = what;
    const struct perf_options *options = perf->at.options;
    tryst_peer_info info = {.struct_size = sizeof info, .transport = "", .mechanism = ""};
    tryst_group_peer(perf->at.group, 1 - perf->at.rank, &info);
    fprintf(file, "{\"test\": \"%s\", \"version\": \"%s\", \"transport\": \"%s\", ",
            is_pingpong(options) ? "pingpong" : "bandwidth", tryst_version_string(),
            info.transport);
    if (!is_pingpong(options))
        fprintf(file, "\"window\": %d, ", options->window);
    fprintf(file, "\"results\": [");
    for (int i = 0; i < options->sizes_count; i++) {
        const struct figure *figure = &perf->figures[i];
        fprintf(file,
                "%s\n  {\"bytes\": %" PRIu64 ", \"iterations\": %" PRIu64
                ", \"seconds\": %.9g, \"seconds_p99\": %.9g, \"bytes_per_s\": %.9g}",
                i ? "," : "", figure->bytes, figure->iters, figure->seconds,
                figure->seconds_p99, figure->bytes_per_s);
    }
    fprintf(file, "\n]}\n");
}

/* ---- a rank ------------------------------------------------------------------------ */

static int measure(struct perf *perf)
{
    const struct perf_options *options = perf->at.options;
    bool table = perf_has_table(&perf->at);
    tryst_status status = perf_key(&perf->at, 0, "there", &perf->there);
    if (status == TRYST_OK)
        status = perf_key(&perf->at, 1, "back", &perf->back);
    for (int i = 0; i < options->sizes_count && status == TRYST_OK; i++) {
        status = size_run(perf, i);
        if (status == TRYST_OK && table && i == 0)
            table_head(perf); /* the transport is known only after the first transfers */
        if (status == TRYST_OK && table)
            table_row(&perf->figures[i]);
    }
    tryst_key_release(perf->there);
    tryst_key_release(perf->back);
    return status != TRYST_OK || perf_json_write(&perf->at, json_figures, perf);
}

static int rank_main(void *arg, int rank)
{
    const struct perf_options *options = arg;
    struct perf_rank at = {.options = options, .rank = rank};
    const char *const settings[] = {"transport", options->transport, "sched",
                                    options->fifo ? "fifo" : NULL, NULL};
    const tryst_group_params group = {.struct_size = sizeof group};
    tryst_status joined = job_open(settings, &group, &at.ctx, &at.group);
    if (joined != TRYST_OK) {
        fprintf(stderr, "tryst-perf: cannot join the job: %s\n", tryst_last_error());
        return 1;
    }
    at.rank = tryst_group_rank(at.group);
    int exit_status = 1;
    if (options->kind->replays)
        exit_status = perf_sched(&at);
    else if (options->kind->coll)
        exit_status = options->kind->preempts ? perf_preempt_coll(&at) : perf_coll(&at);
    else if (tryst_group_size(at.group) != 2)
        fprintf(
            stderr,
            "tryst-perf: cannot measure %s: this job has %d ranks, and %s takes 2; start "
            "it with tryst-run -n 2\n",
            options->kind->name, tryst_group_size(at.group), options->kind->name);
    else if (options->kind->preempts)
        exit_status = perf_preempt(&at);
    else
        exit_status = measure(&(struct perf){.at = at});
    tryst_group_close(at.group);
    tryst_close(at.ctx);
    return exit_status;
}

/* Bind a rank to one of the processors that the tool was given, if each rank gets one:
 * two ranks that spin on one processor measure the kernel's scheduler. */
static void rank_bind(int rank, int ranks)
{
    cpu_set_t given, mine;
    CPU_ZERO(&mine);
    if (sched_getaffinity(0, sizeof given, &given) != 0 || CPU_COUNT(&given) < ranks)
        return;
    for (int cpu = 0, nth = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &given) && nth++ == rank)
            CPU_SET(cpu, &mine);
    (void)sched_setaffinity(0, sizeof mine, &mine);
}

static int local_main(void *arg, int rank)
{
    rank_bind(rank, ((const struct perf_options *)arg)->ranks);
    return rank_main(arg, rank);
}

/* Start the ranks, or be one. */
static int ranks_main(struct perf_options *options)
{
    int rank, size;
    int place = job_place("tryst-perf", &rank, &size);
    if (place < 0)
        return 2;
    if (place)
        return rank_main(options, 0);
    if (!perf_options_start_check(options))
        return 2;
    const struct launcher_params job = {.name = "tryst-perf",
                                        .ranks = options->ranks,
                                        .main_fn = local_main,
                                        .arg = options,
                                        .grace_ns = LAUNCHER_GRACE_NS,
                                        .no_prefix = true};
    return launcher_run(&job) != 0;
}

static int perf_main(int argc, char **argv)
{
    struct perf_options options;
    int status = perf_options_read(argc, argv, &options);
    if (status)
        return status < 0 ? 0 : status;
    if (!perf_options_load(&options))
        return 1;
    status =
        options.kind->simulates ? order_simulate(&options.order) : ranks_main(&options);
    order_profile_close(options.order.profile);
    return status;
}

int main(int argc, char **argv)
{
    standard_files_open();
    return standard_output_end("tryst-perf", perf_main(argc, argv), 1);
}
