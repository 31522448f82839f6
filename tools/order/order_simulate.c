/* SPDX-License-Identifier: Apache-2.0 */
/* Runs tryst-perf sched --simulate: a profile under each order, in virtual time, as a
 * table, as JSON and as a picture. */
#include "order_simulate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tryst/tryst.h>

#include "order_draw.h"
#include "order_load.h"
#include "order_trace.h"
#include "tools/json.h"

struct simulation {
    const struct order_job *job;
    tryst_profile_params params;
    struct order_figures figures;
};

/* ---- output ------------------------------------------------------------------------ */

static void table_print(const struct simulation *all)
{
    const struct order_job *job = all->job;
    const struct order_figures *figures = &all->figures;
    struct order_sums sums = order_sum(job->profile);
    printf("tryst-perf sched --simulate\n");
    printf("# %s: %u actions, %.6f s together; %u operations, %.3f MB together\n",
           job->path, sums.actions, sums.actions_s, sums.operations,
           (double)sums.bytes / 1e6);
    order_origin_print(job);
    printf("# network: %.6g Gbit/s, latency %.6g us, overhead of an operation %.6g us\n",
           job->gbit_per_s, job->latency_us, job->overhead_us);
    printf("# optimum, a lower bound over all orders: %.6f s; possible gain over fifo: "
           "%.1f %%\n",
           figures->optimum_s, 100 * figures->possible_gain);
    printf("%10s %12s %8s\n", "order", "step, s", "gap, %");
    for (int order = 0; order < ORDER_COUNT; order++) {
        const char *name = tryst_profile_order_name((tryst_profile_order)order);
        double seconds = figures->seconds[order];
        if (seconds >= 0)
            printf("%10s %12.6f %8.2f\n", name, seconds,
                   100 * order_gap(seconds, figures->optimum_s));
        else
            printf("%10s %12s %8s\n", name, "-", "-");
    }
    if (figures->fused_s >= 0)
        printf("%10s %12.6f %8.2f  (preempt, joined to %u operations)\n", "fused",
               figures->fused_s, 100 * order_gap(figures->fused_s, figures->optimum_s),
               figures->fused_groups);
}

static void json_print(FILE *file, const void *what)
{
    const struct simulation *all = what;
    const struct order_figures *figures = &all->figures;
    fprintf(file, "{\"test\": \"sched --simulate\", \"version\": \"%s\", ",
            tryst_version_string());
    order_sums_print(file, all->job);
    tool_json_number(file, "bytes_per_s", all->params.bytes_per_s);
    tool_json_number(file, "latency_seconds", all->params.latency_s);
    tool_json_number(file, "overhead_seconds", all->params.overhead_s);
    tool_json_number(file, "optimum_seconds", figures->optimum_s);
    tool_json_number(file, "possible_gain", figures->possible_gain);
    fputs(", \"results\": [", file);
    for (int order = 0; order < ORDER_COUNT; order++) {
        double seconds = figures->seconds[order];
        fprintf(file, "%s\n  {\"order\": \"%s\"", order ? "," : "",
                tryst_profile_order_name((tryst_profile_order)order));
        tool_json_number(file, "step_seconds", seconds >= 0 ? seconds : NAN);
        tool_json_number(file, "gap_order", order_gap(seconds, figures->optimum_s));
        fputc('}', file);
    }
    if (figures->fused_s >= 0) {
        fprintf(file, ",\n  {\"order\": \"fused\", \"fused_operations\": %u",
                figures->fused_groups);
        tool_json_number(file, "step_seconds", figures->fused_s);
        tool_json_number(file, "gap_order",
                         order_gap(figures->fused_s, figures->optimum_s));
        fputc('}', file);
    }
    fputs("\n]}\n", file);
}

/* ---- pictures ---------------------------------------------------------------------- */

static int pictures_write(const struct simulation *all)
{
    const struct order_job *job = all->job;
    struct order_row rows[ORDER_COUNT];
    struct order_rows of = {.rows = rows, .params = all->params, .figures = all->figures};
    tryst_status status = TRYST_OK;
    for (int order = 0; order < ORDER_COUNT && status == TRYST_OK; order++) {
        tryst_profile_params with = all->params;
        with.order = (tryst_profile_order)order;
        if (all->figures.seconds[order] < 0)
            continue;
        status = order_row_replay(job->profile, &with, &rows[of.count]);
        of.count += status == TRYST_OK;
    }
    int failed = status != TRYST_OK;
    if (failed)
        fprintf(stderr, "tryst-perf: %s: %s\n", job->path, tryst_status_str(status));
    if (!failed && job->draw)
        failed = order_draw(job, &of);
    if (!failed && job->trace)
        failed = order_trace(job, &of);
    for (uint32_t i = 0; i < of.count; i++)
        order_row_free(&rows[i]);
    return failed;
}

/* ---- the subcommand ---------------------------------------------------------------- */

int order_simulate(const struct order_job *job)
{
    struct simulation all = {
        .job = job,
        .params = order_params(job, job->gbit_per_s * 1e9 / 8, job->latency_us * 1e-6)};
    all.params.overhead_s = job->overhead_us * 1e-6;
    tryst_status status = order_compute(job->profile, &all.params, &all.figures);
    if (status != TRYST_OK) {
        fprintf(stderr, "tryst-perf: %s: %s\n", job->path, tryst_last_error());
        return 1;
    }
    int failed = 0;
    if (!(job->json && strcmp(job->json, "-") == 0))
        table_print(&all);
    if (job->json)
        failed = tool_file_write(job->json, json_print, &all);
    if (failed || !(job->draw || job->trace))
        return failed;
    return pictures_write(&all);
}
