/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tree that delivers a small message to all ranks early.
 *
 * One idea (earliest sender first, after Bhat, Raghavendra and Prasanna 2003): of the
 * ranks that have the message, the one that is free first sends it to the rank that it
 * reaches fastest. Short messages give trees of high degree, since latency dominates;
 * long ones give binomial trees, since a sender is busy for the time of its message.
 * Contention inside the network is ignored here; the price of the tree (tree_cost.h)
 * includes it.
 */
#ifndef TRYST_TOPOLOGY_SIZED_EARLIEST_H
#define TRYST_TOPOLOGY_SIZED_EARLIEST_H

#include "topology/routes/overlay.h"

struct earliest;

/** Make the table of all edges.
 *  Returns: TRYST_E_UNSUPPORTED  more than 1,024 ranks
 *           TRYST_E_NOMEM */
tryst_status earliest_open(struct overlay *overlay, struct earliest **earliest_p);
void earliest_close(struct earliest *earliest);

/** Raise the cost of each edge of the tree, in both directions, by the time of a byte
 *  over the edge, so that later trees avoid these edges. */
void earliest_burden(struct earliest *earliest, const uint32_t *parent);

/** Make the tree from `root` for a message of `bytes`. Returns false if some rank cannot
 *  be reached. */
bool earliest_tree(struct earliest *earliest, uint32_t root, double bytes,
                   uint32_t *parent);

#endif
