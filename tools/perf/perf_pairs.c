/* SPDX-License-Identifier: Apache-2.0 */
/* Measures latency and bandwidth between two ranks, by prepared key; see perf_pairs.h.
 *
 * Idea: every transfer of one size uses one prepared key per direction again and again;
 * number i meets number i, so nothing is parsed, allocated or agreed on while the clock
 * runs. The first rank of a pair measures, the second one only replies. Figures of
 * several pairs go to rank 0 as transfers after each size: a collective would start the
 * library's progress thread where ranks are on several hosts. */
#include "perf_pairs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/figures.h"
#include "tools/json.h"

/* Without --iterations and --time one size moves at most about this many bytes. */
#define BUDGET_BYTES (4ull << 30)
#define ITERS_MOST   10000ull
#define ITERS_LEAST  50ull
/* The transfers that give the first estimate under --time. */
#define ITERS_FIRST 20ull
/* A transfer that takes longer fails the measurement. */
#define WAIT_NS 30000000000ull

/* All members are 8 bytes: a figure travels as numbers. */
struct figure {
    uint64_t bytes, iters;                      /* iters: of one pair, in one direction */
    double min_s, mean_s, p50_s, p99_s, p999_s; /* of one transfer */
    double elapsed_s;                           /* of all transfers */
    double bytes_per_s, messages_per_s;         /* of all pairs */
};

struct pairs {
    struct perf_rank at;
    int count; /* of pairs */
    bool first;
    bool pingpong, both_ways;
    tryst_step *step;
    tryst_key *there, *back;
    tryst_op *sent; /* pingpong: the last send, not yet waited for */
    void *data;
    tryst_mem *mem;
    double *samples; /* seconds per transfer, `samples_count` of them */
    uint64_t samples_count;
    double elapsed_s; /* seconds of all transfers that count */
    int done;
    struct figure figures[PERF_SIZES_MAX];
};

static uint64_t warmup_of(const struct perf_options *options, uint64_t iters)
{
    return perf_warmup(options, iters / 10 > 10 ? iters / 10 : 10);
}

/* ---- transfers --------------------------------------------------------------------- */

/* Return the tensor that is sent, or with --bidirectional the one that is received. */
static tryst_tensor tensor_of(const struct pairs *pairs, uint64_t bytes, bool received)
{
    bool behind = received && pairs->both_ways;
    return (tryst_tensor){.struct_size = sizeof(tryst_tensor),
                          .data = (char *)pairs->data + (behind ? bytes : 0),
                          .count = bytes,
                          .dtype = TRYST_DTYPE_U8,
                          .memory = pairs->at.options->memory[!pairs->first],
                          .mem = pairs->mem};
}

static tryst_status op_end(const struct pairs *pairs, tryst_op *op, const char *what)
{
    return perf_op_end(&pairs->at, op, what, WAIT_NS);
}

/* End the previous send, if there is one: its acknowledgement came with the peer's
 * message or follows soon. */
static tryst_status ping_sent(struct pairs *pairs, tryst_op *op)
{
    return op ? op_end(pairs, op, "send") : TRYST_OK;
}

/* Send, and only then wait for the previous send. */
static tryst_status ping_send(struct pairs *pairs, const tryst_key *key,
                              const tryst_tensor *tensor)
{
    tryst_op *before = pairs->sent;
    pairs->sent = NULL;
    tryst_status status = tryst_send_key(pairs->step, key, tensor, NULL, &pairs->sent);
    if (status != TRYST_OK)
        perf_judge(&pairs->at, "send", status);
    tryst_status ended = ping_sent(pairs, before);
    return status == TRYST_OK ? ended : status;
}

/* Run one round trip. Each rank posts its receive and reads the clock while its message
 * is in flight. A round trip is the time between the values that two calls give to
 * *left_s_p. */
static tryst_status pingpong_once(struct pairs *pairs, const tryst_tensor *tensor,
                                  double *left_s_p)
{
    bool first = pairs->first;
    tryst_op *recv;
    tryst_status status = first ? ping_send(pairs, pairs->there, tensor) : TRYST_OK;
    if (status != TRYST_OK)
        return status;
    status = tryst_recv_key(pairs->step, first ? pairs->back : pairs->there, tensor, NULL,
                            &recv);
    if (status != TRYST_OK)
        return perf_judge(&pairs->at, "receive", status);
    if (first)
        *left_s_p = perf_now_s(&pairs->at);
    status = op_end(pairs, recv, "receive");
    if (status != TRYST_OK || first)
        return status;
    status = ping_send(pairs, pairs->back, tensor);
    *left_s_p = perf_now_s(&pairs->at);
    return status;
}

static tryst_status pingpong(struct pairs *pairs, uint64_t bytes, uint64_t iters)
{
    tryst_tensor tensor = tensor_of(pairs, bytes, false);
    uint64_t warmup = warmup_of(pairs->at.options, iters);
    tryst_status status = TRYST_OK;
    double before = 0, left = 0;
    pairs->elapsed_s = 0;
    /* One round more than is counted: a round trip ends where the next one begins. */
    for (uint64_t i = 0; i <= warmup + iters && status == TRYST_OK; i++) {
        status = pingpong_once(pairs, &tensor, &left);
        if (i > warmup) {
            pairs->samples[i - warmup - 1] = (left - before) / 2;
            pairs->elapsed_s += left - before;
        }
        before = left;
    }
    tryst_status ended = ping_sent(pairs, pairs->sent);
    pairs->sent = NULL;
    pairs->samples_count = status == TRYST_OK ? iters : 0;
    return status == TRYST_OK ? ended : status;
}

/* Turn times of completion into times per transfer, each averaged over the window that
 * ends there: completions come in bursts, so the time between two of them is meaningless.
 * Between two times are `stride` transfers; before the last, perhaps fewer. */
static void samples_difference(struct pairs *pairs, double start_s, uint64_t stride,
                               uint64_t iters)
{
    uint64_t window = (uint64_t)pairs->at.options->window / stride;
    double *times = pairs->samples;
    double ways = pairs->both_ways ? 2 : 1;
    pairs->elapsed_s = times[pairs->samples_count - 1] - start_s;
    for (uint64_t i = pairs->samples_count; i-- > 0;) {
        uint64_t ended = (i + 1) * stride < iters ? (i + 1) * stride : iters;
        bool first = i < window;
        times[i] = (times[i] - (first ? start_s : times[i - window])) /
                   (double)(ended - (first ? 0 : (i + 1 - window) * stride)) / ways;
    }
}

/* The transfers of one place of the window: a send, a receive, or both. */
struct slot {
    tryst_op *send, *recv;
};

static tryst_status slot_start(struct pairs *pairs, uint64_t bytes, struct slot *slot)
{
    tryst_tensor sent = tensor_of(pairs, bytes, false);
    tryst_tensor received = tensor_of(pairs, bytes, true);
    bool sends = pairs->first || pairs->both_ways;
    bool receives = !pairs->first || pairs->both_ways;
    tryst_status status = TRYST_OK;
    if (sends)
        status = perf_judge(&pairs->at, "send",
                            tryst_send_key(pairs->step,
                                           pairs->first ? pairs->there : pairs->back,
                                           &sent, NULL, &slot->send));
    if (receives && status == TRYST_OK)
        status = perf_judge(&pairs->at, "receive",
                            tryst_recv_key(pairs->step,
                                           pairs->first ? pairs->back : pairs->there,
                                           &received, NULL, &slot->recv));
    return status;
}

static tryst_status slot_end(struct pairs *pairs, struct slot *slot)
{
    tryst_status sent = slot->send ? op_end(pairs, slot->send, "send") : TRYST_OK;
    slot->send = NULL;
    if (sent != TRYST_OK || !slot->recv)
        return sent;
    tryst_status received = op_end(pairs, slot->recv, "receive");
    slot->recv = NULL;
    return received;
}

/* Keep `window` transfers of each direction in flight: wait for the oldest, then submit
 * the next. The clock is read sixteen times a window, because reading it costs as much as
 * a tenth of a small transfer. */
static tryst_status bandwidth(struct pairs *pairs, uint64_t bytes, uint64_t iters)
{
    int window = pairs->at.options->window;
    uint64_t stride = window >= 16 ? (uint64_t)window / 16 : 1;
    uint64_t warmup = warmup_of(pairs->at.options, iters), all = warmup + iters,
             ended = 0;
    struct slot *slots = calloc((size_t)window, sizeof *slots);
    tryst_status status = slots ? TRYST_OK : TRYST_E_NOMEM;
    double start_s = perf_now_s(&pairs->at); /* overwritten at the end of a warm-up */
    pairs->samples_count = 0;
    for (uint64_t i = 0; ended < all && status == TRYST_OK; i++) {
        struct slot *slot = &slots[i % (uint64_t)window];
        if (slot->send || slot->recv) {
            status = slot_end(pairs, slot);
            if (++ended == warmup)
                start_s = perf_now_s(&pairs->at);
            else if (ended > warmup && ((ended - warmup) % stride == 0 || ended == all))
                pairs->samples[pairs->samples_count++] = perf_now_s(&pairs->at);
        }
        if (status == TRYST_OK && i < all)
            status = slot_start(pairs, bytes, slot);
    }
    for (int i = 0; slots && i < window; i++) {
        tryst_op_release(slots[i].send);
        tryst_op_release(slots[i].recv);
    }
    free(slots);
    if (status == TRYST_OK)
        samples_difference(pairs, start_s, stride, iters);
    return status;
}

static tryst_status transfers_run(struct pairs *pairs, uint64_t bytes, uint64_t iters)
{
    free(pairs->samples);
    pairs->samples = calloc(iters, sizeof *pairs->samples);
    if (!pairs->samples)
        return perf_fail(&pairs->at, "allocate the samples", TRYST_E_NOMEM, "");
    return pairs->pingpong ? pingpong(pairs, bytes, iters)
                           : bandwidth(pairs, bytes, iters);
}

/* ---- numbers between ranks --------------------------------------------------------- */

/* Move numbers of 8 bytes each from rank `from` to rank `to`; this rank is one of
 * them. */
static tryst_status numbers_move(const struct pairs *pairs, int from, int to,
                                 void *numbers, size_t bytes)
{
    return perf_numbers_move(&pairs->at, pairs->step, from, to, numbers, bytes);
}

/* Return the iterations of the first run: under --time a few, since others follow
 * (iters_more). */
static uint64_t iters_first(const struct perf_options *options, uint64_t bytes)
{
    uint64_t fit = BUDGET_BYTES / bytes;
    return options->time_ns    ? ITERS_FIRST
           : options->iters    ? options->iters
           : fit > ITERS_MOST  ? ITERS_MOST
           : fit < ITERS_LEAST ? ITERS_LEAST
                               : fit;
}

/* Turn the number of iterations that ran into that of the next run, or leave it where the
 * run was long enough for --time; the first rank of the pair decides. */
static tryst_status iters_more(struct pairs *pairs, uint64_t *iters)
{
    uint64_t time_ns = pairs->at.options->time_ns;
    int peer = pairs->at.peer, mine = pairs->at.rank;
    if (!time_ns)
        return TRYST_OK;
    *iters = perf_iters_more(*iters, pairs->elapsed_s, (double)time_ns / 1e9);
    return numbers_move(pairs, pairs->first ? mine : peer, pairs->first ? peer : mine,
                        iters, sizeof *iters);
}

/* Run transfers of one size; the last run is the one that counts. */
static tryst_status measure(struct pairs *pairs, uint64_t bytes, uint64_t *iters_p)
{
    uint64_t next = iters_first(pairs->at.options, bytes);
    tryst_status status;
    do {
        *iters_p = next;
        status = transfers_run(pairs, bytes, *iters_p);
        if (status == TRYST_OK)
            status = iters_more(pairs, &next);
    } while (status == TRYST_OK && next != *iters_p);
    return status;
}

/* ---- figures ----------------------------------------------------------------------- */

static void figure_make(const struct pairs *pairs, struct figure *figure)
{
    uint64_t n = pairs->samples_count;
    double ways = pairs->both_ways ? 2 : 1;
    tool_samples_sort(pairs->samples, n);
    figure->min_s = pairs->samples[0];
    figure->p50_s = (pairs->samples[n / 2] + pairs->samples[(n - 1) / 2]) / 2;
    figure->p99_s = pairs->samples[n - 1 - n / 100];
    figure->p999_s = pairs->samples[n - 1 - n / 1000];
    figure->elapsed_s = pairs->elapsed_s;
    figure->mean_s =
        figure->elapsed_s / (double)figure->iters / (pairs->pingpong ? 2 : ways);
    figure->messages_per_s = pairs->pingpong ? 1 / figure->p50_s : 1 / figure->mean_s;
    figure->bytes_per_s = (double)figure->bytes * figure->messages_per_s;
}

static double greater(double a, double b)
{
    return a > b ? a : b;
}

/* Add the figure of another pair: rates add up, and of each time the greatest counts, of
 * the least times the least. */
static void figure_add(struct figure *sum, const struct figure *pair)
{
    sum->min_s = -greater(-sum->min_s, -pair->min_s);
    sum->mean_s = greater(sum->mean_s, pair->mean_s);
    sum->p50_s = greater(sum->p50_s, pair->p50_s);
    sum->p99_s = greater(sum->p99_s, pair->p99_s);
    sum->p999_s = greater(sum->p999_s, pair->p999_s);
    sum->bytes_per_s += pair->bytes_per_s;
    sum->messages_per_s += pair->messages_per_s;
}

/* Bring the figures of all pairs to rank 0, which answers: the pairs begin the next size
 * together. Between two hosts without a launcher the other side gets the figure too. */
static tryst_status figures_join(struct pairs *pairs, struct figure *figure)
{
    int mine = pairs->at.rank;
    bool leads = mine == 0;
    int last = pairs->at.options->remote ? 2 : pairs->count;
    tryst_status status = TRYST_OK;
    for (int i = 1; i < pairs->count && leads && status == TRYST_OK; i++) {
        struct figure other;
        status = numbers_move(pairs, i, 0, &other, sizeof other);
        if (status == TRYST_OK)
            figure_add(figure, &other);
    }
    if (!leads && mine < pairs->count)
        status = numbers_move(pairs, mine, 0, figure, sizeof *figure);
    for (int i = 1; i < last && leads && status == TRYST_OK; i++)
        status = numbers_move(pairs, 0, i, figure, sizeof *figure);
    if (!leads && mine < last && status == TRYST_OK)
        status = numbers_move(pairs, 0, mine, figure, sizeof *figure);
    return status;
}

/* ---- one size ---------------------------------------------------------------------- */

static tryst_status size_run(struct pairs *pairs, int index)
{
    const struct perf_options *options = pairs->at.options;
    struct figure *figure = &pairs->figures[index];
    uint64_t bytes = options->sizes[index];
    tryst_op *close_op;
    figure->bytes = bytes;
    tryst_status status = perf_memory(&pairs->at, bytes * (pairs->both_ways ? 2 : 1),
                                      &pairs->data, &pairs->mem);
    if (status == TRYST_OK)
        status = tryst_step_open(pairs->at.group, (uint64_t)index + PERF_STEP_FIRST,
                                 &pairs->step);
    if (status == TRYST_OK) {
        status = measure(pairs, bytes, &figure->iters);
        if (status == TRYST_OK) {
            figure_make(pairs, figure);
            status = figures_join(pairs, figure);
        }
        if (tryst_step_close(pairs->step, &close_op) == TRYST_OK)
            op_end(pairs, close_op, "close of the step");
    }
    tryst_mem_release(pairs->mem);
    pairs->mem = NULL;
    free(pairs->samples);
    pairs->samples = NULL;
    return status;
}

/* ---- output ------------------------------------------------------------------------ */

static void table_head(const struct pairs *pairs)
{
    tryst_peer_info info = {
        .struct_size = sizeof info, .transport = "?", .mechanism = ""};
    tryst_group_peer(pairs->at.group, pairs->at.peer, &info);
    printf("tryst-perf %s over %s%s%s%s", pairs->at.options->kind->name,
           *info.transport ? info.transport : "?", *info.mechanism ? ", " : "",
           info.mechanism, pairs->both_ways ? ", both ways" : "");
    if (pairs->count > 1)
        printf(", %d pairs", pairs->count);
    printf("; %s\n", pairs->pingpong ? "times of one way" : "times of each transfer");
    printf("%10s %9s %9s %9s %9s %9s %9s %10s%s\n", "size", "transfers", "min, us",
           "mean, us", "p50, us", "p99, us", "p99.9, us", "MB/s",
           pairs->pingpong ? "" : "  messages/s");
}

static void table_row(const struct pairs *pairs, const struct figure *figure)
{
    printf("%10s %9" PRIu64 " %9.2f %9.2f %9.2f %9.2f %9.2f %10.1f",
           perf_bytes_text(figure->bytes, (char[32]){""}), figure->iters,
           figure->min_s * 1e6, figure->mean_s * 1e6, figure->p50_s * 1e6,
           figure->p99_s * 1e6, figure->p999_s * 1e6, figure->bytes_per_s / 1e6);
    if (!pairs->pingpong)
        printf(" %11.0f", figure->messages_per_s);
    printf("\n");
}

static void csv_row(const struct pairs *pairs, const struct figure *figure)
{
    if (figure == pairs->figures)
        printf("size_bytes,transfers,min_us,mean_us,p50_us,p99_us,p99.9_us,MB_per_s%s\n",
               pairs->pingpong ? "" : ",messages_per_s");
    printf("%" PRIu64 ",%" PRIu64 ",%.6g,%.6g,%.6g,%.6g,%.6g,%.6g", figure->bytes,
           figure->iters, figure->min_s * 1e6, figure->mean_s * 1e6, figure->p50_s * 1e6,
           figure->p99_s * 1e6, figure->p999_s * 1e6, figure->bytes_per_s / 1e6);
    if (!pairs->pingpong)
        printf(",%.6g", figure->messages_per_s);
    printf("\n");
}

/* Print a row. The transport is known only after the first transfers. */
static void row_print(const struct pairs *pairs, const struct figure *figure)
{
    if (perf_has_csv(&pairs->at))
        csv_row(pairs, figure);
    if (perf_has_table(&pairs->at) && figure == pairs->figures)
        table_head(pairs);
    if (perf_has_table(&pairs->at))
        table_row(pairs, figure);
    fflush(stdout);
}

static void figure_json(FILE *file, const struct figure *figure)
{
    fprintf(file,
            "{\"bytes\": %" PRIu64 ", \"iterations\": %" PRIu64
            ", \"seconds\": %.9g, \"seconds_p99\": %.9g, \"bytes_per_s\": %.9g"
            ", \"seconds_min\": %.9g, \"seconds_mean\": %.9g, \"seconds_p999\": %.9g"
            ", \"messages_per_s\": %.9g}",
            figure->bytes, figure->iters, figure->p50_s, figure->p99_s,
            figure->bytes_per_s, figure->min_s, figure->mean_s, figure->p999_s,
            figure->messages_per_s);
}

static void json_figures(FILE *file, const void *what)
{
    const struct pairs *pairs = what;
    const struct perf_options *options = pairs->at.options;
    tryst_peer_info info = {.struct_size = sizeof info, .transport = "", .mechanism = ""};
    tryst_group_peer(pairs->at.group, pairs->at.peer, &info);
    fprintf(file, "{\"test\": \"%s\", \"version\": \"%s\", \"transport\": \"%s\", ",
            options->kind->name, tryst_version_string(), info.transport);
    fprintf(file, "\"pairs\": %d, \"bidirectional\": %s, ", pairs->count,
            pairs->both_ways ? "true" : "false");
    if (!pairs->pingpong)
        fprintf(file, "\"window\": %d, ", options->window);
    fprintf(file, "\"results\": [");
    for (int i = 0; i < options->sizes_count; i++) {
        fputs(i ? ",\n  " : "\n  ", file);
        figure_json(file, &pairs->figures[i]);
    }
    fprintf(file, "\n]}\n");
}

/* ---- a rank ------------------------------------------------------------------------ */

int perf_pairs(const struct perf_rank *rank)
{
    static struct pairs pairs; /* static: too large for the stack */
    const struct perf_options *options = rank->options;
    pairs = (struct pairs){.at = *rank,
                           .count = tryst_group_size(rank->group) / 2,
                           .first = rank->rank < rank->peer,
                           .pingpong = perf_kind_is(options->kind, "pingpong"),
                           .both_ways = options->both_ways};
    int from = pairs.first ? rank->rank : rank->peer;
    int to = pairs.first ? rank->peer : rank->rank;
    tryst_status status = perf_key(rank, from, to, "there", &pairs.there);
    if (status == TRYST_OK)
        status = perf_key(rank, to, from, "back", &pairs.back);
    for (int i = 0; i < options->sizes_count && status == TRYST_OK; i++) {
        status = size_run(&pairs, i);
        if (status == TRYST_OK)
            row_print(&pairs, &pairs.figures[i]);
    }
    tryst_key_release(pairs.there);
    tryst_key_release(pairs.back);
    return status != TRYST_OK || perf_json_write(rank, json_figures, &pairs);
}
