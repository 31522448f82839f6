/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what tools/order measured over ranks, as a table and as JSON. */
#include "perf_sched.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "perf_setup.h"
#include "tools/figures.h"
#include "tools/json.h"
#include "tools/order/order_html.h"
#include "tools/order/order_measure.h"

struct sched {
    const struct perf_rank *rank;
    const struct order_job *job;
    struct order_measured measured;
};

static void head_print(FILE *out, const struct sched *all)
{
    const struct order_measured *measured = &all->measured;
    struct order_sums sums = order_sum(all->job->profile);
    fprintf(out, "tryst-perf sched\n");
    perf_setup_print(out, all->rank);
    fprintf(out, "# %s: %u action%s, %.6f s together; %u operation%s, %.3f MB together\n",
            all->job->path, sums.actions, tool_plural(sums.actions), sums.actions_s,
            sums.operations, tool_plural(sums.operations), (double)sums.bytes / 1e6);
    order_origin_print(out, all->job->profile);
    fprintf(out, "# measured: %.3f MB/s of all operations at once, latency %.1f us\n",
            measured->bytes_per_s / 1e6, measured->latency_s * 1e6);
    fprintf(out, "# optimum at this rate %.6f s, possible gain over fifo %.1f %%; ",
            measured->optimum_s, 100 * measured->possible_gain);
    if (isnan(measured->certificate_s))
        fprintf(out, "no bound of the plan is known\n");
    else
        fprintf(out, "optimum at the plan's bound %.6f s\n", measured->certificate_s);
    fprintf(out, "%10s %7s %12s %13s %8s %13s\n", "policy", "steps", "median, s",
            "simulated, s", "gap, %", "gap, bound, %");
}

/* Write a figure, or - if it is unknown. */
static void figure_print(FILE *out, int width, int digits, double figure)
{
    if (isfinite(figure))
        fprintf(out, " %*.*f", width, digits, figure);
    else
        fprintf(out, " %*s", width, "-");
}

static void table_print(FILE *out, const void *what)
{
    const struct sched *all = what;
    head_print(out, all);
    for (int i = 0; i < ORDER_POLICIES; i++) {
        const struct order_policy_figures *figures = &all->measured.policies[i];
        fprintf(out, "%10s %7" PRIu64, order_policy_name((enum order_policy)i),
                all->job->steps);
        figure_print(out, 12, 6, figures->step_s);
        figure_print(out, 13, 6, figures->simulated_s);
        figure_print(out, 8, 2, 100 * figures->gap_order);
        figure_print(out, 13, 2, 100 * figures->gap_certificate);
        fprintf(out, "\n");
    }
}

static void json_print(FILE *file, const void *what)
{
    const struct sched *all = what;
    const struct order_measured *measured = &all->measured;
    fprintf(file, "{\"test\": \"sched\", ");
    perf_setup_json(file, all->rank);
    fputs(", ", file);
    order_sums_print(file, all->job);
    fprintf(file, ", \"steps\": %" PRIu64, all->job->steps);
    tool_json_number(file, "bytes_per_s", measured->bytes_per_s);
    tool_json_number(file, "latency_seconds", measured->latency_s);
    tool_json_number(file, "optimum_seconds", measured->optimum_s);
    tool_json_number(file, "certificate_seconds", measured->certificate_s);
    tool_json_number(file, "possible_gain", measured->possible_gain);
    fputs(", \"results\": [", file);
    for (int i = 0; i < ORDER_POLICIES; i++) {
        const struct order_policy_figures *figures = &measured->policies[i];
        fprintf(file, "%s\n  {\"policy\": \"%s\"", i ? "," : "",
                order_policy_name((enum order_policy)i));
        tool_json_number(file, "step_seconds", figures->step_s);
        tool_json_number(file, "simulated_seconds", figures->simulated_s);
        tool_json_number(file, "gap_order", figures->gap_order);
        tool_json_number(file, "gap_certificate", figures->gap_certificate);
        fputc('}', file);
    }
    fputs("\n]}\n", file);
}

/* Write the measured steps of rank 0 beside the best order in virtual time. */
static int pictures_write(struct sched *all)
{
    const struct order_job *job = all->job;
    struct order_measured *measured = &all->measured;
    struct order_row rows[ORDER_POLICIES + 1];
    struct order_rows of = {.rows = rows, .network = measured->network};
    const struct order_params params = {.network = measured->network};
    of.figures.optimum_s = measured->optimum_s;
    of.figures.possible_gain = measured->possible_gain;
    for (int i = 0; i < ORDER_POLICIES; i++) {
        of.figures.seconds[i] = measured->policies[i].step_s;
        if (measured->rows[i].spans)
            rows[of.count++] = measured->rows[i];
    }
    struct order_row *best = &rows[of.count++];
    order_replay(job->profile, &params, ORDER_PREEMPT, best);
    const struct order_report report = {job, &of, all->rank->group, table_print, all};
    int failed = job->draw ? order_draw(job, &of) : 0;
    failed = (job->report ? order_html_write(&report) : 0) || failed;
    order_row_free(best);
    return failed;
}

static int outputs_write(struct sched *all)
{
    if (all->rank->rank != 0)
        return 0;
    if (perf_has_table(all->rank))
        table_print(stdout, all);
    int failed = perf_json_write(all->rank, json_print, all);
    return failed || !(all->job->draw || all->job->report) ? failed : pictures_write(all);
}

int perf_sched(const struct perf_rank *rank)
{
    struct sched all = {.rank = rank, .job = &rank->options->order};
    if (order_measure(all.job, rank->group, &all.measured) != TRYST_OK)
        return 1;
    int failed = outputs_write(&all);
    order_measured_free(&all.measured);
    return failed;
}
