/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rates of the network from each rank's machine.
 *
 * One idea: all routes of a rank to other machines carry together the sum of the rates of their distinct narrowest links, and no
 * more than any link that all of them share. A host with wires of 800, 200 and 200 Mbit/s to its three peers sends 1200; a
 * host with a wire of 800 to a switch, and peers of 800, 400 and 200, sends 800.
 *
 * Only links of the network count: not those within one machine. Where the graph has no machines each rank is one. Ranks of
 * one machine each get all that leaves it.
 * Callers: compiled_make.c.
 */
#ifndef TRYST_TOPOLOGY_OUT_RATES_H
#define TRYST_TOPOLOGY_OUT_RATES_H

#include "topology/routes/overlay.h"

/** Fill in the rate of each rank of the overlay. 0: unknown, because no route leaves its machine, nothing limits one of its
 *  routes, or the rate of a link that all of them share has no origin. TRYST_E_NOMEM. */
tryst_status out_rates_find(struct overlay *overlay, uint64_t *out_bytes_per_s);

#endif
