/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rate that the network carries from each rank's machine.
 *
 * One idea: the routes of a rank to other machines together carry the sum of the rates of
 * their distinct narrowest links, and no more than any link that all of them share. A
 * host with wires of 800, 200 and 200 Mbit/s to its three peers sends 1200; a host with a
 * wire of 800 to a switch, and peers of 800, 400 and 200, sends 800.
 *
 * Links within a machine do not count. Where the graph has no machines, each rank is one.
 * Each rank of a machine gets the machine's whole rate.
 */
#ifndef TRYST_TOPOLOGY_SIZED_OUT_RATES_H
#define TRYST_TOPOLOGY_SIZED_OUT_RATES_H

#include "topology/routes/overlay.h"

/** Compute the rate of each rank of the overlay. The rate is 0 (unknown) if no route
 *  leaves the rank's machine, if no link limits one of the routes, if all routes share a
 *  link with a rate of unknown origin, or if the rate reaches COMPILED_RATE_MOST. Returns
 *  TRYST_OK or TRYST_E_NOMEM. */
tryst_status out_rates_find(struct overlay *overlay, uint64_t *out_bytes_per_s);

#endif
