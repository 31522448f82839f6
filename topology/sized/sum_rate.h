/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast a rank sums: by what it sits on.
 *
 * One idea: a sum reads two bytes and writes one for each byte of the tensor, so a GPU sums at a third of its memory's
 * rate, which its maker publishes by model; a rank on anything else sums with one core, which was measured.
 * Callers: plan_sizes.c, report/plan_cost.c, the writers of plans.
 */
#ifndef TRYST_TOPOLOGY_SUM_RATE_H
#define TRYST_TOPOLOGY_SUM_RATE_H

#include "topology/base/graph.h"
#include "topology/base/text.h"

/* One core, float32 from memory: test_plan_cost prints the figure of the machine that it runs on. */
#define SUM_CORE_BYTES_PER_S 7e9

struct sum_rate {
    double bytes_per_s;
    const char *from; /* "core", a GPU's model, "GPU of unknown model", "given" */
    bool by_nvlinks;  /* the model is not named: its NVLinks are that model's */
};

/** The rate of the rank at `node`. */
struct sum_rate sum_rate_of(const struct graph *graph, uint32_t node);

/** Add where a rate is from, for people. */
void sum_rate_explain(struct text *text, const struct sum_rate *rate);

#endif
