/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan as JSON; see plan_json.h and the help of tryst-topo plan for an example.
 *
 * Where every rank is a root (all-gather, reduce-scatter), "trees" is a list of lists,
 * one for each root.
 */
#include "plan_json.h"

#include <math.h>
#include <string.h>

#include "plan_by_size.h"
#include "plan_json_member.h"

static void tree_write(const struct plan_report *report, const struct plan_tree *tree,
                       struct text *text)
{
    uint32_t n = report->plan->ranks_count;
    text_add(text, "{\"share\": ");
    text_add_number(text, tree->share);
    text_addf(text, ", \"root\": %u", tree->root);
    plan_json_parents(text, "broadcast_parent", tree->broadcast_parent, n);
    plan_json_parents(text, "reduce_parent", tree->reduce_parent, n);
    text_addf(text, ", \"depth\": %u", tree->depth);
    plan_json_number(text, "bandwidth_gbit_per_s",
                     tree->share / (report->plan->s_per_byte * BYTES_PER_GBIT));
    text_add(text, "}");
}

/* Add all trees, by root where every rank is a root; the trees of one root keep the
 * plan's order. */
static void trees_write(const struct plan_report *report, struct text *text)
{
    const struct plan *plan = report->plan;
    bool all_roots = plan->op == PLAN_ALLGATHER || plan->op == PLAN_REDUCE_SCATTER;
    text_add(text, ",\n \"trees\": [");
    for (uint32_t root = 0; root < (all_roots ? plan->ranks_count : 1); root++) {
        bool first = true;
        text_add(text, all_roots ? (root ? ",\n  [" : "\n  [") : "");
        for (uint32_t t = 0; t < plan->trees_count; t++) {
            if (all_roots && plan->trees[t].root != root)
                continue;
            text_add(text, first ? (all_roots ? "" : "\n  ") : ",\n  ");
            tree_write(report, &plan->trees[t], text);
            first = false;
        }
        text_add(text, all_roots ? "]" : "");
    }
    text_add(text, "]");
}

static void links_write(const struct plan_report *report, struct text *text)
{
    const struct overlay *overlay = report->overlay;
    text_add(text, ",\n \"links\": [");
    for (uint32_t l = 0; l < overlay->links_count; l++) {
        const struct graph_link *link = &report->graph->links[overlay->links[l]];
        text_add(text, l ? ",\n  {\"from\": " : "\n  {\"from\": ");
        text_add_json(text, report->graph->nodes[link->from].name);
        text_add(text, ", \"to\": ");
        text_add_json(text, report->graph->nodes[link->to].name);
        plan_json_number(text, "load", report->plan->load[l]);
        plan_json_number(text, "price", report->plan->price[l] * overlay->capacity[l]);
        text_add(text, "}");
    }
    text_add(text, "]");
}

/* Add the steps of simplifying: trees, depth and time after each. */
static void steps_write(const struct plan_report *report, struct text *text)
{
    const struct plan *plan = report->plan;
    text_add(text, ",\n \"simplified\": [");
    for (int k = 0; k < PLAN_STEPS; k++) {
        const struct plan_step *step = &plan->steps[k];
        text_addf(text, "%s{\"step\": \"%s\", \"trees\": %u, \"depth\": %u",
                  k ? ",\n  " : "\n  ", plan_step_name((enum plan_step_kind)k),
                  step->trees_count, step->depth);
        plan_json_number(text, "time_s_per_gbit", step->s_per_byte * BYTES_PER_GBIT);
        plan_json_number(text, "fill_s", plan_step_fill_s(step));
        text_add(text, "}");
    }
    text_add(text, "]");
}

void plan_json_write(const struct plan_report *report, struct text *text)
{
    const struct plan *plan = report->plan;
    double time = plan->s_per_byte * BYTES_PER_GBIT;
    double bound = plan->bound_s_per_byte * BYTES_PER_GBIT;
    text_addf(text, "{\"op\": \"%s\"", plan_op_name(plan->op));
    if (plan->op == PLAN_BROADCAST || plan->op == PLAN_REDUCE)
        text_addf(text, ", \"root\": %u", report->root);
    if (report->members) {
        text_add(text, ", \"ranks\": [");
        for (uint32_t i = 0; i < plan->ranks_count; i++)
            text_addf(text, "%s%u", i ? ", " : "", report->members[i]);
        text_add(text, "]");
    }
    plan_json_number(text, "time_s_per_gbit", time);
    plan_json_number(text, "lower_bound_s_per_gbit", bound);
    plan_json_number(text, "gap", plan_gap(time, bound));
    trees_write(report, text);
    links_write(report, text);
    steps_write(report, text);
    plan_by_size_json(report, text);
    text_add(text, "}\n");
}
