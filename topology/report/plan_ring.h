/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The best ring, to compare plans with.
 *
 * One idea: a ring is an order of the ranks, and its time is that of its busiest link. Up
 * to eight ranks, all orders are tried; beyond, a local search moves and reverses ranks.
 *
 *   all-reduce                   each edge carries 2(n−1)/n of the tensor, all in one
 *                                direction
 *   all-gather, reduce-scatter   each edge carries (n−1)/n of the whole result
 *   broadcast, reduce            the ring is cut open at the root, to a chain; each edge
 *                                carries the tensor once
 *
 * Invariant: equal overlays give equal rings; the time is recomputed from the order
 * found.
 */
#ifndef TRYST_TOPOLOGY_REPORT_PLAN_RING_H
#define TRYST_TOPOLOGY_REPORT_PLAN_RING_H

#include "topology/plan/plan.h"

/** Compute the seconds per byte of the best ring; INFINITY if there is none (for more
 *  than eight ranks: if none was found), and for one rank. `root` is used for broadcast
 *  and reduce only. Write the ranks to `order` (room for all ranks, or NULL) in the
 *  ring's order, or by number without a ring.
 *  Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status plan_ring(struct overlay *overlay, enum plan_op op, uint32_t root,
                       struct err *err, double *s_per_byte_p, uint32_t *order);

#endif
