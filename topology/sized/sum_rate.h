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

/** Rate at which one core sums float32 from memory, as measured. test_tree_cost prints
 *  the rate of the machine that it runs on. */
#define SUM_CORE_BYTES_PER_S 7e9

/** Return the rate of the rank at `node`, in bytes of the tensor a second. */
double sum_rate_of(const struct graph *graph, uint32_t node);

#endif
