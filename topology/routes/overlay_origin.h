/* SPDX-License-Identifier: Apache-2.0 */
/* The searches from an overlay's origins; private to overlay*.c. */
#ifndef TRYST_TOPOLOGY_ROUTES_OVERLAY_ORIGIN_H
#define TRYST_TOPOLOGY_ROUTES_OVERLAY_ORIGIN_H

#include "overlay_own.h"

/** Find the origins of all members and search from each. Returns TRYST_OK or
 *  TRYST_E_NOMEM. */
tryst_status origins_open(struct overlay_private *own, uint32_t members_count,
                          struct err *err);

/** Count the routes from the origin to each inner node over links with a place of
 *  bandwidth of at least `place_min`. */
void origin_count(const struct overlay_private *own, const struct origin *origin,
                  uint32_t place_min, double *counts_p);

#endif
