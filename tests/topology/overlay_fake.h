/* SPDX-License-Identifier: Apache-2.0 */
/* An overlay from explicit lists: which share of an edge's bytes passes which link.
 *
 * It stands in for overlay.c in the tests of the planner: slow, plain, and written apart from it. */
#ifndef TRYST_TESTS_OVERLAY_FAKE_H
#define TRYST_TESTS_OVERLAY_FAKE_H

#include "topology/routes/overlay.h"

/* A network: nodes 0 … ranks-1 are ranks, then switches. Links are directed. */
struct fake_link {
    uint32_t from, to;
    double bytes_per_s;
};

/* Routes are shortest in hops, through switches only; equal ones share evenly. */
struct overlay *fake_open(uint32_t ranks, uint32_t nodes, const struct fake_link *links,
                          uint32_t links_count);
void fake_close(struct overlay *overlay);

#endif
