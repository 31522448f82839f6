/* SPDX-License-Identifier: Apache-2.0 */
/* Implements perf_report.h. */
#include "perf_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "perf_setup.h"
#include "tools/json.h"

#define PROGRESS_EVERY_S 5.0

struct bandwidth {
    double algorithm, bus; /* bytes a second */
};

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
    double now_s = perf_now_s(all->rank);
    if (all->rank->rank != 0)
        return;
    if (done <= 1 || now_s - last_s < PROGRESS_EVERY_S || done == figure->iters) {
        last_s = done <= 1 ? now_s : last_s;
        return;
    }
    last_s = now_s;
    fprintf(stderr, "tryst-perf: %s of %s: %" PRIu64 " of %" PRIu64 " iterations\n",
            all->rank->options->kind->name,
            perf_bytes_text(figure->bytes, (char[32]){""}), done, figure->iters);
}

/* ---- table ------------------------------------------------------------------------- */

static void head_print(const struct perf_coll *all)
{
    const struct perf_options *options = all->rank->options;
    if (all->done == 0) {
        printf("tryst-perf %s\n", options->kind->name);
        perf_setup_print(stdout, all->rank);
    }
    printf("%10s %8s %10s %10s %10s %10s %10s %9s %9s %5s %10s %7s%s\n", "size", "iters",
           "min, us", "mean, us", "p50, us", "p99, us", "p99.9, us", "alg, MB/s",
           "bus, MB/s", "trees", "bound, us", "ratio",
           options->check ? "      wrong" : "");
}

static void csv_row(const struct perf_coll *all, const struct perf_coll_figure *figure,
                    struct bandwidth bandwidth)
{
    if (all->done == 0)
        printf("size_bytes,iterations,min_us,mean_us,p50_us,p99_us,p99.9_us,alg_MB_per_s,"
               "bus_MB_per_s,trees,bound_us,ratio%s\n",
               all->rank->options->check ? ",wrong_elements" : "");
    printf("%" PRIu64 ",%" PRIu64 ",%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,%" PRIu32,
           figure->bytes, figure->iters, figure->seconds_min * 1e6,
           figure->seconds_mean * 1e6, figure->seconds * 1e6, figure->seconds_p99 * 1e6,
           figure->seconds_p999 * 1e6, bandwidth.algorithm / 1e6, bandwidth.bus / 1e6,
           figure->info.trees);
    if (figure->bound_s > 0)
        printf(",%.6g,%.6g", figure->bound_s * 1e6, figure->seconds / figure->bound_s);
    else
        printf(",,"); /* unknown */
    if (all->rank->options->check)
        printf(",%" PRIu64, figure->wrong);
    printf("\n");
    fflush(stdout);
}

void perf_report_row(const struct perf_coll *all, const struct perf_coll_figure *figure)
{
    struct bandwidth bandwidth = bandwidth_of(all, figure);
    char bound[32] = "-", ratio[32] = "-";
    if (perf_has_csv(all->rank))
        csv_row(all, figure, bandwidth);
    if (!perf_has_table(all->rank))
        return;
    if (all->done == 0 || all->rank->options->explain)
        head_print(all);
    if (figure->bound_s > 0) {
        snprintf(bound, sizeof bound, "%.2f", figure->bound_s * 1e6);
        snprintf(ratio, sizeof ratio, "%.3f", figure->seconds / figure->bound_s);
    }
    printf("%10s %8" PRIu64 " %10.2f %10.2f %10.2f %10.2f %10.2f %9.1f %9.1f %5" PRIu32
           " %10s %7s",
           perf_bytes_text(figure->bytes, (char[32]){""}), figure->iters,
           figure->seconds_min * 1e6, figure->seconds_mean * 1e6, figure->seconds * 1e6,
           figure->seconds_p99 * 1e6, figure->seconds_p999 * 1e6,
           bandwidth.algorithm / 1e6, bandwidth.bus / 1e6, figure->info.trees, bound,
           ratio);
    if (all->rank->options->check)
        printf(" %10" PRIu64, figure->wrong);
    printf("\n");
    if (all->rank->options->explain)
        perf_explain_print(&figure->explain, figure->iters);
    fflush(stdout);
}

/* ---- JSON -------------------------------------------------------------------------- */

static void figure_print(FILE *file, const struct perf_coll *all,
                         const struct perf_coll_figure *figure)
{
    struct bandwidth bandwidth = bandwidth_of(all, figure);
    double bound_s = figure->bound_s;
    double planned = (double)figure->info.planned_bytes_per_s;
    fprintf(file,
            "{\"bytes\": %" PRIu64 ", \"count\": %" PRIu64 ", \"iterations\": %" PRIu64
            ", \"seconds\": %.9g, \"seconds_p99\": %.9g, \"seconds_min\": %.9g, "
            "\"seconds_mean\": %.9g, \"seconds_p999\": %.9g, "
            "\"algorithm_bytes_per_s\": %.9g, \"bus_bytes_per_s\": %.9g",
            figure->bytes, figure->count, figure->iters, figure->seconds,
            figure->seconds_p99, figure->seconds_min, figure->seconds_mean,
            figure->seconds_p999, bandwidth.algorithm, bandwidth.bus);
    tool_json_number(file, "bound_seconds", bound_s > 0 ? bound_s : NAN);
    tool_json_number(file, "ratio", bound_s > 0 ? figure->seconds / bound_s : NAN);
    tool_json_number(file, "planned_bytes_per_s", planned > 0 ? planned : NAN);
    fprintf(file, ", \"trees\": %" PRIu32 ", \"slice_bytes\": %" PRIu32,
            figure->info.trees, figure->info.slice_bytes);
    if (all->rank->options->check)
        fprintf(file, ", \"wrong\": %" PRIu64, figure->wrong);
    if (all->rank->options->explain)
        perf_explain_json(file, &figure->explain);
    fputc('}', file);
}

static void json_print(FILE *file, const void *what)
{
    const struct perf_coll *all = what;
    const struct perf_options *options = all->rank->options;
    fprintf(file, "{\"test\": \"%s\", ", options->kind->name);
    perf_setup_json(file, all->rank);
    fprintf(file, ", \"check\": %s, \"results\": [", options->check ? "true" : "false");
    for (int i = 0; i < all->done; i++) {
        fputs(i ? ",\n  " : "\n  ", file);
        figure_print(file, all, &all->figures[i]);
    }
    fputs("\n]}\n", file);
}

int perf_report_end(const struct perf_coll *all)
{
    return perf_json_write(all->rank, json_print, all);
}
