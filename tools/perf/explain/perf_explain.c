/* SPDX-License-Identifier: Apache-2.0 */
/* Implements perf_explain.h. */
#include "perf_explain.h"

#include <inttypes.h>
#include <stdlib.h>

/* The most edges of a table: more are hard to read, and the busiest come first. */
enum { LINES_MAX = 64 };

/* ---- counters ---------------------------------------------------------------------- */

/* Read the counters of bytes sent to rank `to`; spent_ns is the time of the read. */
static tryst_status edge_read(const struct perf_explain *explain, int to,
                              struct perf_edge *edge_p)
{
    tryst_peer_info info = {.struct_size = sizeof info, .bytes_sent = 0};
    tryst_status status = tryst_group_peer(explain->group, to, &info);
    if (status != TRYST_OK)
        return status;
    *edge_p = (struct perf_edge){.from = (uint64_t)tryst_group_rank(explain->group),
                                 .to = (uint64_t)to,
                                 .bytes = info.bytes_sent,
                                 .spent_ns = tryst_now_ns(explain->ctx),
                                 .moving_ns = info.moving_ns,
                                 .ungranted_ns = info.ungranted_ns,
                                 .unready_ns = info.unready_ns,
                                 .held_ns = info.held_ns};
    return TRYST_OK;
}

/* Return what the counters have gained since `before`. */
static struct perf_edge edge_since(const struct perf_edge *before,
                                   const struct perf_edge *now)
{
    return (struct perf_edge){.from = now->from,
                              .to = now->to,
                              .bytes = now->bytes - before->bytes,
                              .spent_ns = now->spent_ns - before->spent_ns,
                              .moving_ns = now->moving_ns - before->moving_ns,
                              .ungranted_ns = now->ungranted_ns - before->ungranted_ns,
                              .unready_ns = now->unready_ns - before->unready_ns,
                              .held_ns = now->held_ns - before->held_ns};
}

tryst_status perf_explain_begin(struct perf_explain *explain_p, tryst_ctx *ctx,
                                tryst_group *group)
{
    int size = tryst_group_size(group);
    tryst_status status = TRYST_OK;
    *explain_p = (struct perf_explain){.ctx = ctx, .group = group};
    explain_p->own = calloc((size_t)size, sizeof *explain_p->own);
    if (!explain_p->own)
        return TRYST_E_NOMEM;
    for (int to = 0; to < size && status == TRYST_OK; to++)
        status = edge_read(explain_p, to, &explain_p->own[to]);
    return status;
}

tryst_status perf_explain_end(struct perf_explain *explain)
{
    int size = tryst_group_size(explain->group);
    explain->own_count = 0;
    for (int to = 0; to < size; to++) {
        struct perf_edge now;
        tryst_status status = edge_read(explain, to, &now);
        if (status != TRYST_OK)
            return status;
        struct perf_edge edge = edge_since(&explain->own[to], &now);
        if (to != tryst_group_rank(explain->group) && edge.bytes)
            explain->own[explain->own_count++] = edge;
    }
    return TRYST_OK;
}

/* ---- the edges of all ranks -------------------------------------------------------- */

tryst_status perf_explain_table(struct perf_explain *explain, uint64_t width)
{
    uint64_t begin = (uint64_t)tryst_group_rank(explain->group) * width;
    explain->count = (uint64_t)tryst_group_size(explain->group) * width;
    if (!explain->count)
        return TRYST_OK;
    explain->edges = calloc(explain->count, sizeof *explain->edges);
    if (!explain->edges)
        return TRYST_E_NOMEM;
    for (uint64_t i = 0; i < explain->own_count; i++)
        explain->edges[begin + i] = explain->own[i];
    return TRYST_OK;
}

/* Return the part of the measured time that `ns` takes, in percent. */
static double percent(const struct perf_edge *edge, uint64_t ns)
{
    return edge->spent_ns ? 100.0 * (double)ns / (double)edge->spent_ns : 0;
}

static int by_use(const void *a, const void *b)
{
    const struct perf_edge *x = a, *y = b;
    double x_moving = percent(x, x->moving_ns), y_moving = percent(y, y->moving_ns);
    if (x_moving != y_moving)
        return x_moving < y_moving ? 1 : -1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

void perf_explain_sort(struct perf_explain *explain)
{
    uint64_t kept = 0;
    for (uint64_t i = 0; i < explain->count; i++)
        if (explain->edges[i].bytes)
            explain->edges[kept++] = explain->edges[i];
    explain->count = kept;
    if (kept)
        qsort(explain->edges, kept, sizeof *explain->edges, by_use);
}

void perf_explain_close(struct perf_explain *explain)
{
    free(explain->own);
    free(explain->edges);
    *explain = (struct perf_explain){.own = NULL};
}

/* ---- output ------------------------------------------------------------------------ */

/* Return the time in none of the four states. The counters are read a moment before the
 * clock, so their sum may exceed the time between the reads of the clock. */
static uint64_t idle_ns(const struct perf_edge *edge)
{
    uint64_t counted_ns =
        edge->moving_ns + edge->ungranted_ns + edge->unready_ns + edge->held_ns;
    return edge->spent_ns > counted_ns ? edge->spent_ns - counted_ns : 0;
}

static void line_print(const struct perf_edge *edge)
{
    printf("%6" PRIu64 " %6" PRIu64 " %10.1f %9.1f %7.1f%% %8.1f%% %7.1f%% %6.1f%% "
           "%6.1f%%\n",
           edge->from, edge->to, (double)edge->bytes / 1e6,
           edge->spent_ns ? (double)edge->bytes * 1e3 / (double)edge->spent_ns : 0,
           percent(edge, edge->moving_ns), percent(edge, edge->ungranted_ns),
           percent(edge, edge->unready_ns), percent(edge, edge->held_ns),
           percent(edge, idle_ns(edge)));
}

static const char legend[] =
    "# moving    bytes are in flight; all other columns are time with none in flight\n"
    "# no grant  the receiver has not granted the next slice: it is behind, or waits\n"
    "#           for its other senders\n"
    "# no data   the sender does not have the next bytes yet: a sum waits for others\n"
    "# held      a slice is here and granted, and waits for its turn, a window, the\n"
    "#           rail or the transport\n"
    "# idle      no slice to send; small tensors are sent without slices: idle\n";

void perf_explain_print(const struct perf_explain *explain, uint64_t operations)
{
    uint64_t lines = explain->count < LINES_MAX ? explain->count : LINES_MAX;
    if (!lines) {
        printf("# no rank has sent bytes to another\n");
        return;
    }
    printf("# where the time of each edge went: %" PRIu64 " operation%s in %.3f s\n",
           operations, operations == 1 ? "" : "s",
           (double)explain->edges[0].spent_ns * 1e-9);
    printf("%6s %6s %10s %9s %8s %9s %8s %7s %7s\n", "from", "to", "MB", "MB/s", "moving",
           "no grant", "no data", "held", "idle");
    for (uint64_t i = 0; i < lines; i++)
        line_print(&explain->edges[i]);
    if (explain->count > lines)
        printf("# %" PRIu64 " edges that moved less are left out\n",
               explain->count - lines);
    fputs(legend, stdout);
}

void perf_explain_json(FILE *file, const struct perf_explain *explain)
{
    fputs(", \"explain\": [", file);
    for (uint64_t i = 0; i < explain->count; i++) {
        const struct perf_edge *edge = &explain->edges[i];
        fprintf(file,
                "%s\n    {\"from\": %" PRIu64 ", \"to\": %" PRIu64 ", \"bytes\": %" PRIu64
                ", \"measured_s\": %.9f, \"moving_s\": %.9f, \"ungranted_s\": %.9f, "
                "\"unready_s\": %.9f, \"held_s\": %.9f, \"idle_s\": %.9f}",
                i ? "," : "", edge->from, edge->to, edge->bytes,
                (double)edge->spent_ns * 1e-9, (double)edge->moving_ns * 1e-9,
                (double)edge->ungranted_ns * 1e-9, (double)edge->unready_ns * 1e-9,
                (double)edge->held_ns * 1e-9, (double)idle_ns(edge) * 1e-9);
    }
    fputc(']', file);
}
