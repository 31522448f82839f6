/* SPDX-License-Identifier: Apache-2.0 */
/* Runs tryst-perf sched --simulate: a profile under each order, in virtual time, as a
 * table, as JSON and as a picture. */
#include "order_simulate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tryst/tryst.h>

#include "order_html.h"
#include "tools/figures.h"
#include "tools/json.h"

struct simulation {
    const struct order_job *job;
    struct order_params params;
    struct order_figures figures;
};

/* ---- output ------------------------------------------------------------------------ */

static void table_print(FILE *out, const void *what)
{
    const struct simulation *all = what;
    const struct order_job *job = all->job;
    const struct order_figures *figures = &all->figures;
    struct order_sums sums = order_sum(job->profile);
    fprintf(out, "tryst-perf sched --simulate\n");
    fprintf(out, "# %s: %u action%s, %.6f s together; %u operation%s, %.3f MB together\n",
            job->path, sums.actions, tool_plural(sums.actions), sums.actions_s,
            sums.operations, tool_plural(sums.operations), (double)sums.bytes / 1e6);
    order_origin_print(out, job->profile);
    fprintf(out, "# network: %.6g Gbit/s, latency %.6g us\n", job->gbit_per_s,
            job->latency_us);
    fprintf(out,
            "# optimum, a lower bound over all orders: %.6f s; possible gain over fifo: "
            "%.1f %%\n",
            figures->optimum_s, 100 * figures->possible_gain);
    fprintf(out, "%10s %12s %8s\n", "order", "step, s", "gap, %");
    for (int order = 0; order < ORDER_COUNT; order++) {
        const char *name = order_name((enum order)order);
        double seconds = figures->seconds[order];
        if (seconds >= 0)
            fprintf(out, "%10s %12.6f %8.2f\n", name, seconds,
                    100 * order_gap(seconds, figures->optimum_s));
        else
            fprintf(out, "%10s %12s %8s\n", name, "-", "-");
    }
}

static void json_print(FILE *file, const void *what)
{
    const struct simulation *all = what;
    const struct order_figures *figures = &all->figures;
    fprintf(file, "{\"test\": \"sched --simulate\", \"version\": \"%s\", ",
            tryst_version_string());
    order_sums_print(file, all->job);
    tool_json_number(file, "bytes_per_s", all->params.network.bytes_per_s);
    tool_json_number(file, "latency_seconds", all->params.network.latency_s);
    tool_json_number(file, "optimum_seconds", figures->optimum_s);
    tool_json_number(file, "possible_gain", figures->possible_gain);
    fputs(", \"results\": [", file);
    for (int order = 0; order < ORDER_COUNT; order++) {
        double seconds = figures->seconds[order];
        fprintf(file, "%s\n  {\"order\": \"%s\"", order ? "," : "",
                order_name((enum order)order));
        tool_json_number(file, "step_seconds", seconds >= 0 ? seconds : NAN);
        tool_json_number(file, "gap_order", order_gap(seconds, figures->optimum_s));
        fputc('}', file);
    }
    fputs("\n]}\n", file);
}

/* ---- pictures ---------------------------------------------------------------------- */

static int pictures_write(const struct simulation *all)
{
    const struct order_job *job = all->job;
    struct order_row rows[ORDER_COUNT];
    struct order_rows of = {
        .rows = rows, .network = all->params.network, .figures = all->figures};
    for (int order = 0; order < ORDER_COUNT; order++)
        of.count +=
            order_replay(job->profile, &all->params, (enum order)order, &rows[of.count]);
    const struct order_report report = {job, &of, NULL, table_print, all};
    int failed = job->draw ? order_draw(job, &of) : 0;
    failed = (job->report ? order_html_write(&report) : 0) || failed;
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
    all.figures = order_compute(job->profile, &all.params);
    if (!isfinite(all.figures.seconds[ORDER_FIFO])) {
        fprintf(stderr,
                "tryst-perf: cannot replay %s: at %g Gbit/s its time is too large "
                "for a number\n",
                job->path, job->gbit_per_s);
        return 1;
    }
    int failed = 0;
    if (!(job->json && strcmp(job->json, "-") == 0))
        table_print(stdout, &all);
    if (job->json)
        failed = tool_file_write(job->json, json_print, &all);
    return failed || !(job->draw || job->report) ? failed : pictures_write(&all);
}
