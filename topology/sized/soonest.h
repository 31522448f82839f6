/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree that has a small message at all ranks soon.
 *
 * One idea (earliest sender first, after Bhat, Raghavendra and Prasanna 2003): of the ranks that have the message, the
 * one that is free first sends it to the rank that it reaches fastest. Short messages give trees of high degree, since
 * latency counts; long ones give binomial trees, since a sender is busy for the time of its message.
 * Contention inside the network is ignored: the price of the tree (tree_cost.h) has it.
 * Callers: candidates.c.
 */
#ifndef TRYST_TOPOLOGY_SOONEST_H
#define TRYST_TOPOLOGY_SOONEST_H

#include "topology/routes/overlay.h"

struct soonest;

/** TRYST_E_UNSUPPORTED: too many ranks for a table of all edges. TRYST_E_NOMEM. */
tryst_status soonest_open(struct overlay *overlay, struct soonest **soonest_p);
void soonest_close(struct soonest *soonest);

/** Make the tree's edges count as slower in later trees, by as much as they are now: trees that follow avoid them. */
void soonest_burden(struct soonest *soonest, const uint32_t *parent);

/** False: some rank cannot be reached without passing through another network than ranks' edges. */
bool soonest_tree(struct soonest *soonest, uint32_t root, double bytes, uint32_t *parent);

#endif
