/* SPDX-License-Identifier: Apache-2.0 */
/* An overlay from explicit lists: the share of an edge's bytes that passes each link.
 *
 * The tests of the planner use it in place of overlay.c. It is slow, plain, and written
 * independently. */
#ifndef TRYST_TESTS_TOPOLOGY_OVERLAY_FAKE_H
#define TRYST_TESTS_TOPOLOGY_OVERLAY_FAKE_H

#include "topology/routes/overlay.h"

/** A network: nodes 0 … ranks-1 are ranks, then come switches. Links are directed. */
struct fake_link {
    uint32_t from, to;
    double bytes_per_s;
};

/** Open an overlay with routes that are shortest in hops and pass switches only; equal
 *  routes share evenly. */
struct overlay *fake_open(uint32_t ranks, uint32_t nodes, const struct fake_link *links,
                          uint32_t links_count);
void fake_close(struct overlay *overlay);

#endif
