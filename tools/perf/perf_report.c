/* SPDX-License-Identifier: Apache-2.0 */
/* What perf_report.h promises. */
#include "perf_report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PROGRESS_EVERY_S 5.0

struct bandwidth {
    double algorithm, bus; /* bytes a second */
};

static bool is_json_alone(const struct perf_coll *all)
{
    const char *json = all->rank->options->json;
    return json && strcmp(json, "-") == 0;
}

static struct bandwidth bandwidth_of(const struct perf_coll *all,
                                     const struct perf_coll_figure *figure)
{
    double bytes_per_s = (double)figure->bytes / figure->seconds;
    return (struct bandwidth){.algorithm = bytes_per_s,
                              .bus = bytes_per_s *
                                     all->rank->options->kind->bus_factor(all->size)};
}

void perf_progress(const struct perf_coll *all, const struct perf_coll_figure *figure,
                   uint64_t done)
{
    static double last_s;
    char size[32];
    double now_s = perf_now_s(all->rank);
    if (all->rank->rank != 0)
        return;
    if (done <= 1 || now_s - last_s < PROGRESS_EVERY_S || done == figure->iters) {
        last_s = done <= 1 ? now_s : last_s;
        return;
    }
    last_s = now_s;
    perf_bytes_text(figure->bytes, size, sizeof size);
    fprintf(stderr, "tryst-perf: %s of %s: %" PRIu64 " of %" PRIu64 " iterations\n",
            all->rank->options->kind->name, size, done, figure->iters);
}

/* ---- table --------------------------------------------------------------------------------- */

static void head_print(const struct perf_coll *all)
{
    const struct perf_options *options = all->rank->options;
    tryst_peer_info info = {.struct_size = sizeof info, .transport = "", .mechanism = ""};
    if (all->size > 1)
        tryst_group_peer(all->rank->group, 1, &info);
    printf("tryst-perf %s, %d ranks\n", options->kind->name, all->size);
    printf("%10s %12s %7s %12s %12s %12s %10s %10s %12s %7s\n", "size", "count", "iters",
           "median, us", "p99, us", "min, us", "alg MB/s", "bus MB/s", "bound, us",
           "ratio");
}

void perf_report_row(const struct perf_coll *all, const struct perf_coll_figure *figure)
{
    struct bandwidth bandwidth = bandwidth_of(all, figure);
    double bound_s = figure->info.bound_seconds;
    char size[32], bound[32] = "-", ratio[32] = "-";
    if (all->rank->rank != 0 || is_json_alone(all))
        return;
    if (all->done == 0)
        head_print(all);
    perf_bytes_text(figure->bytes, size, sizeof size);
    if (bound_s > 0) {
        snprintf(bound, sizeof bound, "%.2f", bound_s * 1e6);
        snprintf(ratio, sizeof ratio, "%.3f", figure->seconds / bound_s);
    }
    printf("%10s %12" PRIu64 " %7" PRIu64
           " %12.2f %12.2f %12.2f %10.1f %10.1f %12s %7s\n",
           size, figure->count, figure->iters, figure->seconds * 1e6,
           figure->seconds_p99 * 1e6, figure->seconds_min * 1e6,
           bandwidth.algorithm / 1e6, bandwidth.bus / 1e6, bound, ratio);
    fflush(stdout);
}

/* ---- JSON ---------------------------------------------------------------------------------- */

/* A number, or null where there is none. */
static void number_print(FILE *file, const char *name, double number)
{
    if (number > 0)
        fprintf(file, ", \"%s\": %.9g", name, number);
    else
        fprintf(file, ", \"%s\": null", name);
}

static void figure_print(FILE *file, const struct perf_coll *all,
                         const struct perf_coll_figure *figure)
{
    struct bandwidth bandwidth = bandwidth_of(all, figure);
    double bound_s = figure->info.bound_seconds;
    fprintf(file,
            "{\"bytes\": %" PRIu64 ", \"count\": %" PRIu64 ", \"iterations\": %" PRIu64
            ", \"seconds\": %.9g, \"seconds_p99\": %.9g, \"seconds_min\": %.9g, "
            "\"algorithm_bytes_per_s\": %.9g, \"bus_bytes_per_s\": %.9g",
            figure->bytes, figure->count, figure->iters, figure->seconds,
            figure->seconds_p99, figure->seconds_min, bandwidth.algorithm, bandwidth.bus);
    number_print(file, "bound_seconds", bound_s);
    number_print(file, "ratio", bound_s > 0 ? figure->seconds / bound_s : 0);
    number_print(file, "planned_bytes_per_s", (double)figure->info.planned_bytes_per_s);
    fprintf(file, ", \"trees\": %" PRIu32 ", \"slice_bytes\": %" PRIu32 "}",
            figure->info.trees, figure->info.slice_bytes);
}

static void json_print(FILE *file, const void *what)
{
    const struct perf_coll *all = what;
    const struct perf_options *options = all->rank->options;
    fprintf(file, "{\"test\": \"%s\", \"version\": \"%s\", \"ranks\": %d, \"results\": [",
            options->kind->name, tryst_version_string(), all->size);
    for (int i = 0; i < all->done; i++) {
        fputs(i ? ",\n  " : "\n  ", file);
        figure_print(file, all, &all->figures[i]);
    }
    fputs("\n]}\n", file);
}

int perf_report_end(const struct perf_coll *all)
{
    const char *json = all->rank->options->json;
    if (all->rank->rank != 0 || !json)
        return 0;
    return perf_json_write(json, json_print, all);
}
