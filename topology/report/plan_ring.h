/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The best ring: what a plan is compared with.
 *
 * One idea: a ring is an order of the ranks, and its time is that of its busiest link; up to eight ranks all orders are
 * tried, beyond that a good one is sought by moving ranks that load the busiest link.
 *
 *   all-reduce                   each edge of the ring carries 2(n−1)/n of the tensor, one way round
 *   all-gather, reduce-scatter   each edge carries (n−1)/n of the whole result
 *   broadcast, reduce            the ring cut open at the root, a chain: each edge carries the tensor once
 *
 * Invariant: equal overlays give equal rings; the time is recomputed from the order that was found.
 * Callers: plan reports, plan_verify.
 */
#ifndef TRYST_TOPOLOGY_PLAN_RING_H
#define TRYST_TOPOLOGY_PLAN_RING_H

#include "topology/plan/plan.h"

/** Seconds per byte of the best ring found; INFINITY where there is none (for more than eight ranks: none was found),
 *  and for a rank alone. `root` counts for broadcast and reduce. `order` (NULL: not wanted) has room for all ranks and
 *  receives them in the ring's order, or by number without a ring. TRYST_E_NOMEM. */
tryst_status plan_ring(struct overlay *overlay, enum plan_op op, uint32_t root,
                       struct err *err, double *s_per_byte_p, uint32_t *order);

#endif
