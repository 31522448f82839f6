/* SPDX-License-Identifier: Apache-2.0 */
/* Implements order_html.h: the figures as on stdout, the order by urgency, a timeline. */
#include "order_html.h"

#include <stdlib.h>

#include "order_measure.h"
#include "order_path.h"
#include "tools/html.h"
#include "tools/json.h"

struct page {
    FILE *out;
    const struct order_report *report;
    const struct order_profile *profile;
    int32_t *priorities; /* [nodes] of an operation: from 0, the most urgent */
    uint32_t operations;
    bool *needs; /* [nodes]: comes after an operation */
};

static void bars_print(const struct page *page)
{
    const struct order_figures *figures = &page->report->rows->figures;
    tool_html_table_begin(page->out, TOOL_HTML_BARS, "steps",
                          "order\tstep, s\toptimum, s");
    for (int i = 0; i < ORDER_COUNT; i++)
        if (figures->seconds[i] > 0) /* it can be in buckets */
            tool_html_row(page->out,
                          page->report->group ? order_policy_name((enum order_policy)i)
                                              : order_name((enum order)i),
                          "%.6f\t%.6f", figures->seconds[i], figures->optimum_s);
    tool_html_table_end(page->out);
}

/* Write the operations by their tails, the longest first. */
static void urgency_print(const struct page *page)
{
    double *tails = order_tails(page->profile, &page->report->rows->network);
    uint32_t *sorted = order_zalloc(page->operations, sizeof *sorted);
    for (uint32_t i = 0; i < page->profile->count; i++)
        if (page->profile->nodes[i].is_operation)
            sorted[page->priorities[i]] = i;
    tool_html_section(page->out, "Order of the operations");
    tool_html_note(page->out, "The longer the way from an operation's end to the end of "
                              "the step (its tail), the more urgent it is.");
    tool_html_table_begin(page->out, TOOL_HTML_FOLDED,
                          "operations, the most urgent first", "operation\tMB\ttail, ms");
    for (uint32_t i = 0; i < page->operations; i++)
        tool_html_row(page->out, page->profile->nodes[sorted[i]].name, "%.3f\t%.4f",
                      (double)page->profile->nodes[sorted[i]].bytes / 1e6,
                      tails[sorted[i]] * 1e3);
    tool_html_table_end(page->out);
    free(sorted);
    free(tails);
}

static void node_print(const struct page *page, const char *row, uint32_t index,
                       double from_s, double to_s)
{
    const struct order_node *node = &page->profile->nodes[index];
    bool is_urgent = 2 * (uint32_t)page->priorities[index] < page->operations;
    const char *kind = node->is_operation
                           ? is_urgent ? "operation, long tail" : "operation, short tail"
                       : page->needs[index] ? "action behind an operation"
                                            : "action";
    tool_html_row(page->out, node->name, "%s\t%s\t=\t%s\t0\t%.4f\t%.4f", row,
                  node->is_operation ? "network" : "actions", kind, from_s * 1e3,
                  (to_s - from_s) * 1e3);
}

static void row_print(const struct page *page, const struct order_row *row)
{
    char name[64];
    snprintf(name, sizeof name, "%s, %s%s", row->name,
             row->is_measured ? "measured" : "in virtual time",
             row->in_buckets ? "; operations are buckets" : "");
    for (uint32_t i = 0; i < page->profile->count; i++)
        if (!page->profile->nodes[i].is_operation)
            node_print(page, name, i, row->spans[i].start_s, row->spans[i].end_s);
    for (uint32_t i = 0; i < row->pieces_count; i++)
        node_print(page, name, row->pieces[i].node, row->pieces[i].from_s,
                   row->pieces[i].to_s);
}

static void timeline_print(const struct page *page)
{
    const struct order_rows *rows = page->report->rows;
    struct order_path path = order_path_longest(page->profile, &rows->network);
    tool_html_section(page->out, "Timeline");
    tool_html_table_begin(page->out, TOOL_HTML_TIMELINE, "actions and operations",
                          "name\torder\tlane\tlabel\tkind\tstep\tbegin, ms\tlength, ms");
    for (uint32_t i = 0; i < path.count; i++)
        node_print(page, "critical path, on a free network", path.parts[i].node,
                   path.parts[i].from_s, path.parts[i].to_s);
    for (uint32_t i = 0; i < rows->count; i++)
        row_print(page, &rows->rows[i]);
    tool_html_table_end(page->out);
    order_path_free(&path);
}

static void page_print(FILE *out, const void *what)
{
    const struct order_report *report = what;
    const struct order_profile *profile = report->job->profile;
    struct page page = {out,
                        report,
                        profile,
                        order_priorities(profile, &report->rows->network),
                        order_sum(profile).operations,
                        order_needs(profile)};
    tool_html_begin(out, "tryst-perf sched", report->group);
    tool_html_fact(out, "profile", "%s", report->job->path);
    tool_html_section(out, "Time of the step beside its bound");
    tool_html_output(out, report->print, report->what);
    bars_print(&page);
    urgency_print(&page);
    timeline_print(&page);
    tool_html_end(out);
    free(page.priorities);
    free(page.needs);
}

int order_html_write(const struct order_report *report)
{
    return tool_file_write(report->job->report, page_print, report);
}
