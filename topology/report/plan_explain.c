/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans and routes as text; see plan_explain.h.
 */
#include "plan_explain.h"

#include <math.h>
#include <string.h>

#include "plan_by_size.h"
#include "topology/routes/overlay_price.h"

#define TREES_SHOWN 16u
/* Edges of trees are listed for groups of at most this many ranks; the JSON has all. */
#define RANKS_SHOWN 16u
#define LINKS_SHOWN 5u

/* ---- numbers ----------------------------------------------------------------------- */

static void time_write(struct text *text, const char *before, double s)
{
    if (s >= 1)
        text_addf(text, "%s%.4g s", before, s);
    else if (s >= 1e-3)
        text_addf(text, "%s%.4g ms", before, s * 1e3);
    else
        text_addf(text, "%s%.4g us", before, s * 1e6);
}

static void rate_write(struct text *text, const char *before, double bytes_per_s)
{
    if (isinf(bytes_per_s))
        text_addf(text, "%sunlimited", before);
    else
        text_addf(text, "%s%.4g Gbit/s", before, bytes_per_s / BYTES_PER_GBIT);
}

static void bytes_write(struct text *text, uint64_t bytes)
{
    static const char units[][4] = {"TiB", "GiB", "MiB", "KiB"};
    for (int u = 0; u < 4; u++) {
        uint64_t unit = UINT64_C(1) << (40 - 10 * u);
        if (bytes < unit || bytes % unit)
            continue;
        text_addf(text, "%llu %s", (unsigned long long)(bytes / unit), units[u]);
        return;
    }
    text_addf(text, "%llu bytes", (unsigned long long)bytes);
}

/* ---- a plan ------------------------------------------------------------------------ */

static const char *member_name(const struct plan_report *report, uint32_t member)
{
    uint32_t rank = report->members ? report->members[member] : member;
    return report->graph->nodes[report->graph->ranks[rank]].name;
}

static void head_write(const struct plan_report *report, struct text *text)
{
    const struct plan *plan = report->plan;
    double time = plan->s_per_byte * BYTES_PER_GBIT;
    double bound = plan->bound_s_per_byte * BYTES_PER_GBIT;
    text_addf(text, "%s of %u rank%s", plan_op_name(plan->op), plan->ranks_count,
              plan->ranks_count == 1 ? "" : "s");
    if (plan->op == PLAN_BROADCAST || plan->op == PLAN_REDUCE)
        text_addf(text, ", root %s", member_name(report, report->root));
    text_addf(text, "\n  time         %.6g s per Gbit", time);
    if (time > 0) {
        rate_write(text, " (", 1 / plan->s_per_byte);
        text_add(text, ")");
    }
    text_addf(text,
              "\n  lower bound  %.6g s per Gbit: no plan of trees on these routes is "
              "faster (gap %.3g %%)\n",
              bound, 100 * plan_gap(time, bound));
}

static void half_write(const struct plan_report *report, const char *arrow,
                       const uint32_t *parents, struct text *text)
{
    uint32_t n = report->plan->ranks_count;
    if (!parents || n > RANKS_SHOWN)
        return;
    for (uint32_t p = 0; p < n; p++) {
        bool first = true;
        for (uint32_t i = 0; i < n; i++) {
            if (parents[i] != p)
                continue;
            if (first)
                text_addf(text, "\n      %s %s", member_name(report, p), arrow);
            text_addf(text, " %s", member_name(report, i));
            first = false;
        }
    }
}

static void trees_write(const struct plan_report *report, struct text *text)
{
    const struct plan *plan = report->plan;
    text_addf(text, "  trees        %u\n", plan->trees_count);
    for (uint32_t t = 0; t < plan->trees_count && t < TREES_SHOWN; t++) {
        const struct plan_tree *tree = &plan->trees[t];
        bool both = tree->broadcast_parent && tree->reduce_parent;
        bool same = both && memcmp(tree->broadcast_parent, tree->reduce_parent,
                                   plan->ranks_count * sizeof(uint32_t)) == 0;
        text_addf(text, "    share %.6g, root %s, depth %u", tree->share,
                  member_name(report, tree->root), tree->depth);
        if (!same)
            half_write(report, "<-", tree->reduce_parent, text);
        half_write(report, same ? "<->" : "->", tree->broadcast_parent, text);
        text_add(text, "\n");
    }
    if (plan->trees_count > TREES_SHOWN)
        text_addf(text, "    and %u more (--json)\n", plan->trees_count - TREES_SHOWN);
}

/* Return the percentage by which a step made the time longer; 0 if below rounding
 * errors. */
static double slower_percent(const struct plan_step *before, const struct plan_step *step)
{
    double slower = 100 * (step->s_per_byte / before->s_per_byte - 1);
    return fabs(slower) < 1e-9 ? 0 : slower;
}

/* Add the solver's result, and each step that changed it. */
static void steps_write(const struct plan_report *report, struct text *text)
{
    const struct plan_step *before = NULL;
    if (!(report->plan->s_per_byte > 0))
        return;
    text_add(text, "  simplified\n");
    for (int k = 0; k < PLAN_STEPS; k++) {
        const struct plan_step *step = &report->plan->steps[k];
        if (before && step->trees_count == before->trees_count &&
            step->depth == before->depth && slower_percent(before, step) == 0)
            continue;
        text_addf(text, "    %-13s%u tree%s, depth %u, %.6g s per Gbit",
                  plan_step_name((enum plan_step_kind)k), step->trees_count,
                  step->trees_count == 1 ? "" : "s", step->depth,
                  step->s_per_byte * BYTES_PER_GBIT);
        if (before)
            text_addf(text, " (%+.2g %%)", slower_percent(before, step));
        time_write(text, ", filling ", plan_step_fill_s(step));
        text_add(text, "\n");
        before = step;
    }
}

static double link_time(const struct plan_report *report, uint32_t l)
{
    return report->plan->load[l] / report->overlay->capacity[l];
}

/* Return the next link after `last` in descending order of time, then by number;
 * links_count if there are no more. With last = links_count, return the first one. */
static uint32_t link_next(const struct plan_report *report, uint32_t last)
{
    uint32_t count = report->overlay->links_count, found = count;
    for (uint32_t l = 0; l < count; l++) {
        bool behind = last == count || link_time(report, l) < link_time(report, last) ||
                      (link_time(report, l) == link_time(report, last) && l > last);
        if (behind && (found == count || link_time(report, l) > link_time(report, found)))
            found = l;
    }
    return found;
}

static void links_write(const struct plan_report *report, struct text *text)
{
    const struct plan *plan = report->plan;
    const struct overlay *overlay = report->overlay;
    uint32_t l = overlay->links_count;
    if (!l || !(plan->s_per_byte > 0))
        return;
    text_add(text, "  busiest links\n");
    for (uint32_t k = 0; k < LINKS_SHOWN; k++) {
        l = link_next(report, l);
        if (l == overlay->links_count)
            break;
        const struct graph_link *link = &report->graph->links[overlay->links[l]];
        text_addf(text, "    %s -> %s: ", report->graph->nodes[link->from].name,
                  report->graph->nodes[link->to].name);
        rate_write(text, "", overlay->capacity[l]);
        text_addf(text, ", load %.4g, busy %.3g %% of the time, price %.3g\n",
                  plan->load[l], 100 * link_time(report, l) / plan->s_per_byte,
                  plan->price[l] * overlay->capacity[l]);
    }
}

void plan_text_write(const struct plan_report *report, struct text *text)
{
    head_write(report, text);
    trees_write(report, text);
    steps_write(report, text);
    links_write(report, text);
    plan_by_size_text(report, text);
}

/* ---- a route ----------------------------------------------------------------------- */

/* overlay_walk reports links from the end to the beginning, so each line is put in
 * front. */
struct lines {
    const struct graph *graph;
    struct text text;
};

static void line_add(void *arg, uint32_t number, double share)
{
    struct lines *lines = arg;
    const struct graph_link *link = &lines->graph->links[number];
    struct text line = {0};
    text_addf(&line, "  %s -> %s: ", lines->graph->nodes[link->from].name,
              lines->graph->nodes[link->to].name);
    rate_write(&line, "", link->bytes_per_s.value);
    if (link->latency_ns.value != GRAPH_UNKNOWN)
        time_write(&line, ", ", link->latency_ns.value * 1e-9);
    if (share < 1)
        text_addf(&line, ", carries %.4g of it", share);
    text_add(&line, "\n");
    text_join(&line, &lines->text);
    lines->text = line;
}

static void took_write(const struct overlay_edge *edge, uint64_t bytes, struct text *text)
{
    double move_s = isinf(edge->bytes_per_s) ? 0 : (double)bytes / edge->bytes_per_s;
    bool known = edge->latency_ns != GRAPH_UNKNOWN;
    bytes_write(text, bytes);
    time_write(text, ": ", move_s + (known ? edge->latency_ns * 1e-9 : 0));
    text_add(text, " predicted, ");
    if (known) {
        time_write(text, "", edge->latency_ns * 1e-9);
        text_add(text, " of it latency, ");
    } else {
        text_add(text, "without latency, which is unknown for some link, ");
    }
    rate_write(text, "at ", edge->bytes_per_s);
    text_add(text, "\n");
}

void route_text_write(const struct graph *graph, struct overlay *overlay, uint64_t bytes,
                      struct text *text)
{
    struct lines lines = {graph, {0}};
    struct overlay_edge edge;
    overlay_edge(overlay, 0, 1, &edge);
    overlay_walk(overlay, 0, 1, line_add, &lines);
    text_addf(text, "%u link%s", edge.hops, edge.hops == 1 ? "" : "s");
    if (edge.routes > 1)
        text_addf(text, ", %.6g equal routes, 1/%.6g of the data on each", edge.routes,
                  edge.routes);
    text_add(text, "\n");
    text_join(text, &lines.text);
    text_add(text, "bottleneck: ");
    if (edge.bottleneck == GRAPH_NONE) {
        text_add(text, "none, no link limits");
    } else {
        const struct graph_link *link = &graph->links[overlay->links[edge.bottleneck]];
        text_addf(text, "%s -> %s, ", graph->nodes[link->from].name,
                  graph->nodes[link->to].name);
        rate_write(text, "", overlay->capacity[edge.bottleneck]);
    }
    text_add(text, "\n");
    took_write(&edge, bytes, text);
}
