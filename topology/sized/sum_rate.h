/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rate at which a rank sums, by its device.
 *
 * One idea: a sum reads two bytes and writes one for each byte of the tensor, so a rank
 * on a GPU sums at a third of the memory rate in the GPU model's data sheet. Any other
 * rank sums with one core, at a measured rate.
 */
#ifndef TRYST_TOPOLOGY_SIZED_SUM_RATE_H
#define TRYST_TOPOLOGY_SIZED_SUM_RATE_H

#include "core/text/growing_text.h"
#include "topology/base/graph.h"

/** Rate at which one core sums float32 from memory, as measured. test_plan_cost prints
 *  the rate of the machine that it runs on. */
#define SUM_CORE_BYTES_PER_S 7e9

struct sum_rate {
    double bytes_per_s;
    /** Source of the rate: "core", a GPU's model, "GPU of unknown model" or "given". */
    const char *from;
    bool by_nvlinks; /**< the GPU has no label; the model is inferred from its NVLinks */
};

/** Return the rate of the rank at `node`. */
struct sum_rate sum_rate_of(const struct graph *graph, uint32_t node);

/** Add the rate and its source as text. */
void sum_rate_explain(struct text *text, const struct sum_rate *rate);

#endif
